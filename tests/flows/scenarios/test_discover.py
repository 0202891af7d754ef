"""Names that people write (`items: discover`), from a file to the page, by the command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hushrank.flows.interfaces.cli.main import main
from hushrank.verifier import verify_release as verifier
from tests.flows.conftest import Survey

COLUMNS = {"user": "who", "left": "one", "right": "other", "winner": "better"}
PEOPLE = 300


def rows(*pairs: tuple[str, str], people: int = PEOPLE) -> str:
    """Each person compares all pairs; the first one is better."""
    lines = [f"p{k},{one},{other},{one.upper()}" for k in range(people) for one, other in pairs]
    return "\n".join(["who,one,other,better", *lines, ""])


@pytest.fixture
def job(survey: Survey) -> Survey:
    return survey.set(
        input={
            "kind": "comparisons",
            "paths": ["rows.csv"],
            "columns": COLUMNS,
            "design": "any",
            "ties": "split",
        },
        items="discover",
        method="noisy-pairs",
        privacy={
            "unit": "user", "epsilon": 4.0, "delta": 1e-6, "noise": "gaussian",
            "max_contributions": 5,
        },
    )  # fmt: skip


def run(job: Survey, *options: str) -> int:
    try:
        main(["run", str(job.config), *options])
    except SystemExit as stop:
        return int(stop.code or 0)
    return 0


def document(job: Survey, name: str = "release.json") -> Any:
    return json.loads((job.output / name).read_text())


def events(job: Survey) -> list[str]:
    return [json.loads(line)["event"] for line in job.ledger.read_text().splitlines()]


def test_names_are_found_ranked_listed_and_verified(job, capsys):
    """Rows about names that one person writes neither appear nor use up what counts of a person."""
    own = [f"p{k},zq{k},zq of {k},zq{k}" for k in range(PEOPLE) for _ in range(9)]
    text = rows(("Tea", "Coffee"), (" coffee", "MATE"), ("tea", "Mate"))
    (job.folder / "rows.csv").write_text(text + "\n".join([*own, ""]))
    assert run(job) == 0
    release = document(job)
    assert {line["item"] for line in release["ranking"]} == {"tea", "coffee", "mate"}
    assert set(release["found"]["weights"]) == {"tea", "coffee", "mate"}
    wins = release["released"]["wins"]
    total = sum(map(sum, wins)) / release["released"]["row_weight"]
    deviation = release["privacy"]["noise_scale"] * 6**0.5 / 2
    assert abs(total - 3 * PEOPLE) < 6 * deviation  # all three rows of everybody count
    for path in job.output.rglob("*"):
        assert not path.is_file() or b"zq" not in path.read_bytes()
    printed = capsys.readouterr().out
    assert "zq" not in printed
    assert "Noisy weight" in (job.output / "report.html").read_text()
    files = {path.name: path.read_bytes() for path in job.output.glob("*.*")}
    found = verifier.verify(files, job.ledger.read_bytes())
    assert found.good, [text for kind, text in found.lines if kind == "WRONG"]
    assert events(job) == ["open", "reserve", "draw", "draw", "commit"]
    assert not list(job.work.glob("*/names.json"))
    content = (job.output / "release.json").read_bytes()
    assert run(job) == 0  # nothing is drawn again
    assert (job.output / "release.json").read_bytes() == content
    assert len(events(job)) == 5


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (rows(("Tea", "Coffee"), people=2), "No name was written by enough people"),
        (rows(("Tea", "a@b.c")), "Only one name, tea, was written by enough people"),
    ],
)
def test_too_few_names_are_an_answer_that_is_paid_for_once(job, capsys, text, said):
    job.set(items={"discover": {"deny": ["@"]}})
    (job.folder / "rows.csv").write_text(text)
    for _ in range(2):
        assert run(job) == 4
        captured = capsys.readouterr()
        told = " ".join((captured.out + captured.err).split())
        assert said in told
        assert "the budget of the release is spent" in told
    assert events(job) == ["open", "reserve", "draw", "draw"]
    assert not list(job.output.glob("release.json"))


def test_a_word_for_a_tie_is_no_name(job):
    (job.folder / "rows.csv").write_text(rows(("Tea", "Tie"), ("Tea", "Coffee")))
    assert run(job) == 0
    assert set(document(job)["found"]["weights"]) == {"tea", "coffee"}


REFUSED = [
    ({"privacy__noise": None, "privacy__delta": None}, "at delta 0 no name can be published"),
    ({"privacy__delta": 1e-5}, "must be at most 1e-06"),
    ({"privacy__unit": "comparison", "privacy__max_contributions": None}, "must be user with"),
    (
        {"privacy__epsilon": None, "privacy__delta": None, "privacy__rho": 0.1},
        "needs a finite epsilon",
    ),
    ({"privacy__names_per_person": 2}, "not with items.discover"),
    ({"privacy__look": 0.1}, "not with items.discover"),
    ({"method": "auto"}, "must be noisy-counts or noisy-pairs with"),
    ({"groups": {"column": "team", "values": ["a", "b"]}}, "not with items.discover"),
    ({"top_k": 2}, "not with items.discover"),
    ({"items": {"discover": {"most_items": 101}}}, "most_items"),
    ({"items": {"discover": {"deny": ["("]}}}, "is no pattern of RE2"),
    ({"items": {"discover": {}, "names": ["a", "b"]}}, "needs exactly one of"),
    ({"input__paths": ["rows-{date}.csv"]}, "once in a quarter"),
    ({"input__on_bad_rows": "fail"}, "not with items.discover"),
    ({"input__ties": "model"}, "not with items.discover"),
]


@pytest.mark.parametrize(("change", "said"), REFUSED, ids=[str(each[0])[:60] for each in REFUSED])
def test_what_names_do_not_go_with_is_refused_by_its_key(job, capsys, change, said):
    job.set(**change)
    (job.folder / "rows.csv").write_text(rows(("Tea", "Coffee")))
    assert run(job) == 2
    captured = capsys.readouterr()
    assert said in " ".join((captured.out + captured.err).split())
    assert not job.ledger.exists()


@pytest.mark.parametrize("kind", ["rankings", "responses"])
def test_other_kinds_of_answers_are_refused_by_name(job, capsys, kind):
    method = {"rankings": "borda", "responses": "totals"}[kind]
    job.set(input={"kind": kind, "paths": ["rows.csv"]}, method=method)
    assert run(job) == 2
    captured = capsys.readouterr()
    assert "is for input.kind: comparisons" in " ".join((captured.out + captured.err).split())


def test_damaged_names_that_are_paid_for_are_refused(job, capsys, monkeypatch):
    """A kill between the draws, then somebody edits the names."""
    from hushrank.flows.run import run as steps

    (job.folder / "rows.csv").write_text(rows(("Tea", "Coffee"), ("Tea", "Mate")))

    def broken(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(steps, "draw", broken)
        run(job)
    (names,) = job.work.glob("*/names.json")
    kept = names.read_bytes()
    assert events(job) == ["open", "reserve", "draw"]
    names.write_bytes(kept.replace(b"mate", b"cola"))
    assert run(job) == 1
    captured = capsys.readouterr()
    assert "is damaged" in " ".join((captured.out + captured.err).split())
    names.write_bytes(kept)
    assert run(job) == 0
    assert events(job) == ["open", "reserve", "draw", "draw", "commit"]
    found = document(job)["found"]["weights"]
    assert list(found) == json.loads(kept)["names"]


def test_where_rows_are_cut_changes_no_weight(job, tmp_path):
    """By Beam and by the stand-in, from one file and from three, the exact weights are the same."""
    import numpy as np

    from hushrank.flows.config.discover_rules import name_rules
    from hushrank.flows.methods.registry import load_config
    from hushrank.pipelines.reduce.names_job import ReduceNames
    from hushrank.pipelines.reduce.reduce import run as reduce
    from hushrank.privacy.keyed_hash import SecretKey
    from hushrank.privacy.randomness import system_bits
    from hushrank.transforms.engine import in_process
    from hushrank.transforms.storage.files import list_files

    pairs = [(f"name {k}", f"name {k + 1}") for k in range(12)]
    text = rows(*pairs, people=40)
    (job.folder / "rows.csv").write_text(text)
    head, *lines = text.splitlines()
    for part in range(3):
        (job.folder / f"part-{part}.csv").write_text("\n".join([head, *lines[part::3], ""]))
    config, key = load_config(Path(job.config)), SecretKey.draw(system_bits())
    results = []
    for number, names in enumerate((["rows.csv"], [f"part-{k}.csv" for k in range(3)])):
        folder = tmp_path / f"names{number}"
        folder.mkdir()
        files = tuple(list_files([str(job.folder / name) for name in names]))
        reduce(
            ReduceNames(
                files=files,
                columns=config.comparison_columns(),
                catalogue=config.items.catalogue,
                key=key,
                confidential=str(tmp_path / "work"),
                rules=name_rules(config),
                most_names=3,
                folder=str(folder),
            )
        )
        with np.load(folder / "exact.npz") as arrays:
            results.append({name: arrays[name].tolist() for name in arrays})
    assert not in_process.is_chosen()
    assert results[0] == results[1]
    assert len(results[0]["weights"]) == 13
