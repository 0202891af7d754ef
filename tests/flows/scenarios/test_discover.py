"""Names that people write (`items: discover`), from a file to the page, by the command."""

from __future__ import annotations

import json
import re
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


def test_test_answers_are_refused_by_name(job, capsys):
    job.set(input={"kind": "responses", "paths": ["rows.csv"]}, method="totals")
    assert run(job) == 2
    captured = capsys.readouterr()
    told = " ".join((captured.out + captured.err).split())
    assert "is for input.kind: comparisons or rankings" in told


LAYOUTS: dict[str, dict[str, Any]] = {
    "places": {"layout": "places", "columns": {"user": "who", "places": ["one", "two", "three"]}},
    "list": {"layout": "list", "columns": {"user": "who", "ranking": "named"}},
    "long": {"layout": "long", "columns": {"user": "who", "item": "name", "rank": "rank"}},
}


def write_rankings(folder: Path, layout: str, rankings: list[list[str]]) -> str:
    """Each person's ranking in a file of this layout, which is returned."""
    if layout == "list":
        lines = [json.dumps({"who": f"p{k}", "named": each}) for k, each in enumerate(rankings)]
        name = "rows.jsonl"
    elif layout == "long":
        cells = [(k, name, rank) for k, e in enumerate(rankings) for rank, name in enumerate(e, 1)]
        lines = ["who,name,rank", *(f"p{k},{name},{rank}" for k, name, rank in cells)]
        name = "rows.csv"
    else:
        padded = [[*each, "", "nobody"][:3] for each in rankings]
        lines = ["who,one,two,three", *(f"p{k},{','.join(e)}" for k, e in enumerate(padded))]
        name = "rows.csv"
    (folder / name).write_text("\n".join([*lines, ""]))
    return name


def ranking_job(job: Survey, layout: str, rankings: list[list[str]]) -> Survey:
    name = write_rankings(job.folder, layout, rankings)
    rows = {"kind": "rankings", "paths": [name], "max_length": 3, **LAYOUTS[layout]}
    if layout == "places":
        rows["not_ranked"] = ["nobody"]
    job.set(input=rows, method="borda", privacy__max_contributions=1)
    return job


@pytest.mark.parametrize("layout", LAYOUTS)
def test_names_of_rankings_are_found_and_ranked_without_the_others(job, layout, capsys):
    """A name of one person alone is dropped from the ranking, and the rest of it counts.

    Two thirds put tea first, all of them above coffee; noise of the sums has a deviation of about
    20 at this epsilon, and of the number of rankings too: 300 people are 15 deviations.
    """
    own = [f"zq{k}" for k in range(PEOPLE)]
    rankings = [
        [["Tea", own[k], " coffee"], [own[k], "TEA", "Coffee"], ["mate", "tea "]][k % 3]
        for k in range(PEOPLE)
    ]
    ranking_job(job, layout, rankings)
    assert run(job) == 0
    release = document(job)
    assert set(release["found"]["weights"]) == {"tea", "coffee", "mate"}
    scores = {line["item"]: line["score"] for line in release["ranking"]}
    assert max(scores, key=scores.__getitem__) != "coffee"
    assert min(scores, key=scores.__getitem__) == "coffee"
    assert abs(release["privacy"]["parameters"]["rankings_with_noise"] - PEOPLE) < 150
    for path in job.output.rglob("*"):
        assert not path.is_file() or b"zq" not in path.read_bytes()
    assert "zq" not in capsys.readouterr().out
    files = {path.name: path.read_bytes() for path in job.output.glob("*.*")}
    found = verifier.verify(files, job.ledger.read_bytes())
    assert found.good, [text for kind, text in found.lines if kind == "WRONG"]
    assert events(job) == ["open", "reserve", "draw", "draw", "commit"]


def test_the_noise_of_a_ranking_is_as_stated_before_names_are_found(job):
    """Of two found names and rankings of three, a ranking may have three for all anybody knows."""
    from hushrank.flows.methods.registry import calibrate, load_config

    ranking_job(job, "places", [["tea", "coffee"]] * PEOPLE)
    stated = calibrate(load_config(Path(job.config))).mechanism.calibration.law.scale
    assert run(job) == 0
    release = document(job)
    assert len(release["ranking"]) == 2
    assert release["privacy"]["noise_scale"] == stated
    assert release["privacy"]["parameters"]["longest_ranking"] == 3


def test_what_is_said_of_lists_of_names_fits_them(job, capsys):
    """One list of 3 moves a lead by 4 at most, however many names are found."""
    ranking_job(job, "places", [["tea", each] for each in ("coffee", "mate", "cola", "milk")] * 100)
    main(["validate", str(job.config)])
    told = " ".join("".join(capsys.readouterr()).split())
    assert "A name that too few people write is left out of its ranking" in told
    assert "is excluded" not in told
    assert "write below" not in told
    assert run(job) == 0
    (robust,) = document(job)["robustness"]
    assert len(document(job)["ranking"]) == 5
    assert robust["bound"] == 2 * (3 - 1)
    told = " ".join(capsys.readouterr().out.split())
    assert "For another found name to have a Borda sum as large as that of tea" in told
    assert "to move the lead by 8." in told


REFUSED_RANKINGS = [
    ({"input__max_length": None}, "input.max_length: missing"),
    ({"input__unlisted": "below"}, "input.unlisted: must be unknown with items.discover"),
    ({"input__columns": {"places": ["one", "two", "three"]}}, "input.columns.user: missing"),
    ({"input__layout": "wide", "input__columns": {"user": "who"}}, "must be list, places or long"),
    ({"input__skipped": "exhaust"}, "not with items.discover"),
    ({"input__write_ins": "Other"}, "not with items.discover"),
    ({"method": "kemeny"}, "must be borda with items.discover"),
    ({"groups": {"column": "team", "values": ["a", "b"]}}, "not with items.discover"),
]


@pytest.mark.parametrize(("change", "said"), REFUSED_RANKINGS)
def test_what_names_of_rankings_do_not_go_with_is_refused(job, capsys, change, said):
    ranking_job(job, "places", [["tea", "coffee"]] * 5)
    job.set(**change)
    assert run(job) == 2
    captured = capsys.readouterr()
    assert said in " ".join((captured.out + captured.err).split())
    assert not job.ledger.exists()


def test_a_form_whose_columns_name_all_items_has_nothing_to_find(job, capsys):
    columns = {"user": "who", "pairs": {"Tea or Coffee?": ["Tea", "Coffee"]}}
    job.set(input__columns=columns, input__layout="pairs-wide")
    assert run(job) == 2
    captured = capsys.readouterr()
    assert "names all items, so there is nothing to find" in " ".join(captured.err.split())


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


@pytest.mark.parametrize("epsilon", [1.0, 8.0])
def test_plan_says_by_how_much_names_make_the_noise_larger(job, epsilon):
    from hushrank.flows.methods.registry import calibrate, load_config
    from hushrank.flows.planning.plan.survey import found_names_text

    config = load_config(Path(job.set(privacy__epsilon=epsilon).config))
    known = load_config(Path(job.set(items={"names": ["a", "b"]}).config))
    scales = [calibrate(each).mechanism.calibration.law.scale for each in (config, known)]
    larger = 100 * (scales[0] / scales[1] - 1)
    (said,) = re.findall(r"noise is (\d+) % larger", found_names_text(config))
    assert int(said) == pytest.approx(larger, abs=1)


def test_validate_says_how_many_people_a_name_needs_and_nothing_of_unknown_items(job, capsys):
    (job.folder / "rows.csv").write_text(rows(("Tea", "Coffee")))
    main(["validate", str(job.config)])
    printed = " ".join(capsys.readouterr().out.split())
    assert "first the names that enough people write (about 23 with one name each" in printed
    assert "would tell nothing" not in printed


def test_a_file_that_changes_while_names_are_counted_ends_the_run_before_the_draw(
    job, capsys, monkeypatch
):
    """Otherwise the names would be paid for, and the ranking of them would be refused."""
    from hushrank.flows.release.identity import Contents
    from hushrank.transforms.common.schema import InputError

    def changed(_: Contents) -> None:
        raise InputError("rows.csv: changed during the run")

    monkeypatch.setattr(Contents, "require_unchanged", changed)
    (job.folder / "rows.csv").write_text(rows(("Tea", "Coffee")))
    assert run(job) == 2
    assert "changed during the run" in capsys.readouterr().err
    assert events(job) == ["open", "reserve", "cancel"]
    assert not list(job.work.glob("*/names.json"))


def test_a_run_that_fails_right_after_the_names_are_paid_for_says_what_it_spent(job, monkeypatch):
    from hushrank.flows.errors import LedgerError
    from hushrank.flows.ledger.ledger import Ledger
    from hushrank.flows.run import run as steps

    mark, told = Ledger.mark_found, []

    def broken(*args: Any) -> None:
        mark(*args)
        raise LedgerError("ledger: the disk is gone")

    def spent(found: object) -> str | None:
        told.append(spent_by(found))
        return told[-1]

    spent_by = steps._spent_by
    monkeypatch.setattr(Ledger, "mark_found", broken)
    monkeypatch.setattr(steps, "_spent_by", spent)
    (job.folder / "rows.csv").write_text(rows(("Tea", "Coffee")))
    assert run(job) != 0
    assert told == ["epsilon 4.00, delta 1e-06"]


def test_a_dead_run_that_is_cancelled_leaves_no_names(job, monkeypatch):
    """Neither the exact weights of all names, nor names that were drawn and not paid for."""
    from hushrank.flows.ledger.ledger import Ledger
    from hushrank.flows.run import run as steps

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "mark_found", killed)
        patch.setattr(steps, "undo", lambda *_: None)
        (job.folder / "rows.csv").write_text(rows(("Tea", "Coffee")))
        run(job)
    assert list(job.work.glob("*/exact.npz"))
    (names,) = job.work.glob("*/names.json")
    main(["ledger", "cancel", str(job.config), names.parent.name])
    assert events(job) == ["open", "reserve", "cancel"]
    assert not list(job.work.glob("*/exact.npz"))
    assert not names.exists()


def test_of_too_many_names_the_largest_are_kept():
    """A refusal of the ranking would come after the budget is spent."""
    import numpy as np

    from hushrank.flows.methods.counts import noisy_pairs
    from hushrank.flows.statement.found_names import MOST, FoundNames
    from hushrank.privacy.discovered_names import NamesMechanism, discovery_of
    from hushrank.privacy.randomness import BitsUsed
    from hushrank.privacy.units import Adjacency

    assert MOST == noisy_pairs.MOST_ITEMS
    numbers = np.arange(MOST + 5)
    text = b"".join(b"%04d" % k for k in numbers)
    terms = discovery_of(1.0, 1e-6, 0.2, 20, Adjacency.REPLACE_ONE)
    found = FoundNames.of(
        np.frombuffer(text, np.uint8),
        4 * (numbers + 1),
        numbers[::-1],
        numbers[::-1] * 2**20,
        NamesMechanism.of(terms, Adjacency.REPLACE_ONE),
        BitsUsed(),
    )
    assert len(found.names) == len(found.weights) == MOST
    assert (found.names[0], found.names[-1]) == (f"{MOST + 4}", "0005")


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
