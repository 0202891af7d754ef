"""Test answers from the command line: difficulties, what can be ordered, and what is refused."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hushrank.flows.config.method import GraphKind
from hushrank.flows.methods.registry import calibrate, load_config
from hushrank.flows.methods.responses.spectral import Spectral
from hushrank.flows.release.release import load_release
from hushrank.flows.report.page import render_report
from tests.flows.conftest import Survey

NAMES = ["easy", "plain", "tricky", "hard"]
DIFFICULTIES = np.array([-1.5, -0.5, 0.5, 1.5])
DATA = Path(__file__).resolve().parents[3] / ".." / "shared" / "data"


def sheets(people: int, seed: int = 0) -> pa.Table:
    """Everybody answers every item, by the Rasch model."""
    rng = np.random.default_rng(seed)
    chance = 1 / (1 + np.exp(DIFFICULTIES - rng.normal(size=(people, 1))))
    correct = rng.random(chance.shape) < chance
    return pa.table(
        {
            "user": np.repeat(np.arange(people), len(NAMES)),
            "item": np.array(NAMES)[np.tile(np.arange(len(NAMES)), people)],
            "correct": correct.ravel(),
        }
    )


@pytest.fixture
def exam(tmp_path: Path) -> Survey:
    pq.write_table(sheets(3000), tmp_path / "answers.parquet")
    settings = {
        "name": "exam",
        "input": {"kind": "responses", "paths": ["answers.parquet"]},
        "items": {"names": NAMES},
        "privacy": {"unit": "user", "epsilon": 2.0, "max_contributions": 4},
        "method": "spectral",
        "output": "out",
        "confidential": "work",
        "ledger": {"path": "ledger.jsonl", "epsilon": 5, "delta": 1e-6},
    }
    return Survey(tmp_path, settings).set()


def release_of(exam: Survey) -> dict:
    return json.loads((exam.output / "release.json").read_text())


def test_difficulties_come_hardest_first_with_intervals_that_hold_the_truth(exam, command):
    code, printed = command("run", exam.set(top_k=1).config, "--direct")
    assert code == 0, printed
    assert "hard is the hardest. tricky is easier than it. easy is the easiest." in printed
    release = release_of(exam)
    assert [line["item"] for line in release["ranking"]] == NAMES[::-1]
    assert (release["scale"], release["top_k"]) == ("difficulty", ["hard"])
    truth = dict(zip(NAMES, DIFFICULTIES, strict=True))
    for line in release["ranking"]:
        half = (line["high"] - line["low"]) / 2
        assert abs(line["score"] - truth[line["item"]]) < 3 * half < 0.6
    assert sum(line["score"] for line in release["ranking"]) == pytest.approx(0, abs=1e-9)


def test_the_papers_own_estimator_is_named_and_draws_alike(exam, command):
    exam.set(spectral={"estimator": "chain"})
    assert command("run", exam.config)[0] == 0
    release = release_of(exam)
    assert [line["item"] for line in release["ranking"]] == NAMES[::-1]
    assert release["privacy"]["parameters"]["estimator"] == "chain"
    truth = dict(zip(NAMES, DIFFICULTIES, strict=True))
    assert all(line["low"] <= truth[line["item"]] <= line["high"] for line in release["ranking"])
    assert command("verify", exam.output)[0] == 0


def test_the_guarantee_of_the_release_is_that_of_the_theorem(exam, command):
    command("run", exam.config, "--direct")
    privacy = release_of(exam)["privacy"]
    assert privacy["mechanism"] == "discrete-laplace"
    assert privacy["sensitivity"] == 8  # 2 floor(K^2 / 4)
    assert privacy["noise_scale"] == 4
    assert privacy["ties"] is None
    assert privacy["parameters"].pop("graph_chosen_because").startswith("the noise in a")
    assert privacy["parameters"] == {"graph": "dense", "pairs": 6, "estimator": "balance"}
    assert "Nguyen and Zhang" in privacy["theorem"]
    assert "E5" in privacy["erratum"]
    assert "E6" in privacy["erratum"]
    assert "m (m - 1) = 12 counts; the bound used here is 8 counts" in privacy["erratum"]


def test_gaussian_noise_is_accounted_as_zcdp(exam, command):
    changes = {"privacy__epsilon": None, "privacy__rho": 0.2, "privacy__noise": "gaussian"}
    code, printed = command("run", exam.set(**changes).config, "--direct")
    assert code == 0, printed
    privacy = release_of(exam)["privacy"]
    assert privacy["mechanism"] == "discrete-gaussian"
    assert privacy["noise_variance"] == pytest.approx(8 / (2 * 0.2))
    assert privacy["rho"] == 0.2


def test_every_count_of_the_graph_gets_noise_zeros_too(exam, command):
    """Nobody answered at all: 12 counts of zero, of which no draw at scale 400 leaves them all."""
    nothing = sheets(3000).slice(0, 0)
    pq.write_table(nothing, exam.folder / "answers.parquet")
    command("run", exam.set(privacy__epsilon=0.02).config, "--direct")
    released = np.array(release_of(exam)["released"]["right_wrong"])
    off_diagonal = released[~np.eye(4, dtype=bool)]
    assert np.count_nonzero(off_diagonal) > 6  # each is zero with 1 in 800: 1e-14 for six of them
    assert not released.diagonal().any()


# Of jobs on 100 items, by the code of before `spectral.graph: auto`.
HASHES_THEN = [
    (None, 100, "040999c6db3e81639bf9fcbf6c78fdb65237d65d4bc46a17e6bd88f0cc78430e"),
    ({"graph": "dense"}, 100, "944ae7b7c36cf3b483cf64930ff930ee32ca7646b7b359744264e86addd8ac1b"),
    (
        {"graph": "sparse", "edge_probability": 0.4},
        100,
        "be974fc0f6716df216729a841355cfa21cdf475d2fc20e224d8a5c293bce7611",
    ),
]


def of_many_items(exam: Survey, spectral: dict | None, max_answers: int) -> Survey:
    exam.settings["input"]["paths"] = ["/a.parquet"]
    exam.settings.pop("spectral", None)
    if spectral is not None:
        exam.settings["spectral"] = spectral
    return exam.set(items={"count": 100}, privacy__max_contributions=max_answers)


@pytest.mark.parametrize(("spectral", "max_answers", "then"), HASHES_THEN)
def test_a_job_of_before_keeps_its_identity(exam, spectral, max_answers, then):
    assert load_config(of_many_items(exam, spectral, max_answers).config).job_hash() == then


def test_another_graph_is_another_job(exam):
    sections = (None, {"graph": "dense"}, {"graph": "auto"}, {"graph": "even"}, {"graph": "sparse"})
    hashes = [
        load_config(of_many_items(exam, section, 100).config).job_hash() for section in sections
    ]
    assert len(set(hashes)) == len(sections)


def test_auto_takes_an_even_graph_of_many_items_and_says_why(exam):
    many = of_many_items(exam, None, 100)
    mechanism = calibrate(load_config(many.config)).mechanism
    assert mechanism.graph.kind is GraphKind.EVEN
    assert mechanism.graph.degree == 6
    assert mechanism.counts.sensitivity.l1 == 2 * mechanism.graph.n_edges <= 2 * 300
    said = Spectral().terms(mechanism).noise
    assert "(graph: even, because the noise in a difficulty with all pairs is 2.1 times" in said
    few = calibrate(load_config(of_many_items(exam, None, 10).config)).mechanism
    assert few.graph.kind is GraphKind.DENSE
    assert few.graph.complete


def test_a_sparse_graph_is_public_connected_and_the_same_for_the_same_job(exam, command):
    changes = {"spectral": {"graph": "sparse", "edge_probability": 0.4}, "top_k": 1}
    command("run", exam.set(**changes).config, "--direct")
    released = release_of(exam)["released"]
    rows = released["pairs"] or [range(i + 1, 4) for i in range(4)]  # null: it drew every pair
    pairs = {(i, j) for i, row in enumerate(rows) for j in row}
    y = np.array(released["right_wrong"])
    off_graph = [(i, j) for i in range(4) for j in range(4) if {(i, j), (j, i)}.isdisjoint(pairs)]
    assert all(y[cell] == 0 for cell in off_graph)
    assert release_of(exam)["privacy"]["parameters"]["pairs"] == len(pairs)
    exam.set(output="elsewhere")
    _, printed = command("run", exam.config, "--direct")
    assert "nothing was spent now" in printed, printed
    again = json.loads((exam.folder / "elsewhere" / "release.json").read_text())
    assert again["released"]["pairs"] == released["pairs"]


def test_an_item_that_nobody_got_right_has_an_open_interval_and_a_warning(exam, command):
    table = sheets(3000)
    hard = np.array(table["item"].to_pylist()) == "hard"
    correct = np.where(hard, False, table["correct"].to_numpy(zero_copy_only=False))
    changed = table.set_column(2, "correct", pa.array(correct))
    pq.write_table(changed, exam.folder / "answers.parquet")
    # With a seed: of the noise of a release one in forty draws passes for a right answer.
    command("run", exam.config, "--direct", "--unsafe-seed", 1)
    release = release_of(exam)
    hardest = release["ranking"][0]
    assert (hardest["item"], hardest["high"]) == ("hard", "inf")
    warning = (
        "The noisy counts cannot confirm one correct answer on hard, so its difficulty has no"
        " upper bound."
    )
    assert warning in release["warnings"]
    report = (exam.output / "report.html").read_text()
    assert "A band with an arrow goes on, or has no end, on that side." in report


def test_the_report_has_an_item_map_and_names_what_cannot_be_ordered(exam, command):
    table = sheets(400)
    item = np.array(table["item"].to_pylist())
    swap = {"plain": "tricky", "tricky": "plain"}
    even = np.asarray(table["user"]) % 2 == 0
    mixed = [swap.get(name, name) if flip else name for name, flip in zip(item, even, strict=True)]
    pq.write_table(table.set_column(1, "item", pa.array(mixed)), exam.folder / "answers.parquet")
    # At this epsilon noise moves plain and tricky by a ninth of what would tell them apart.
    command("run", exam.set(privacy__epsilon=5.0).config, "--direct")
    report = (exam.output / "report.html").read_text()
    assert '<h2 id="item-map">Item map</h2>' in report
    assert "Hardest first." in report
    assert "In no sure order (shaded): " in report
    assert "Ties" not in report
    assert render_report(load_release(exam.output / "release.json")).count("<figure") == 1


def test_a_wide_table_gives_the_difficulties_of_the_long_one(exam, command):
    table = sheets(3000)
    cells = table["correct"].to_numpy(zero_copy_only=False).reshape(-1, len(NAMES))
    wide = {name: cells[:, place] for place, name in enumerate(NAMES)}
    exact = {"privacy__epsilon": "inf", "output": "long"}
    command("run", exam.set(**exact).config, "--direct", "--no-privacy")
    pq.write_table(pa.table({"user": np.arange(3000)} | wide), exam.folder / "answers.parquet")
    exam.set(input__layout="wide", output="wide")
    code, printed = command("run", exam.config, "--direct", "--no-privacy")
    assert code == 0, printed
    one, other = (
        json.loads((exam.folder / out / "release.json").read_text())["released"]
        for out in ("long", "wide")
    )
    assert one == other


def test_nothing_of_a_person_leaves_the_confidential_area(exam, command):
    table = sheets(300)
    users = [f"canary-{user}" for user in table["user"].to_pylist()]
    named = table.set_column(0, "user", pa.array(users))
    bad = pa.table({"user": ["canary-bad"], "item": ["canary-item"], "correct": [True]})
    pq.write_table(pa.concat_tables([named, bad]), exam.folder / "answers.parquet")
    code, printed = command("run", exam.config, "--direct")
    assert code == 0, printed
    written = [path for path in exam.folder.rglob("*") if path.is_file()]
    outside = [path for path in written if not path.is_relative_to(exam.work)]
    shown = [path for path in outside if path.name != "answers.parquet"]
    assert {path.name for path in shown} >= {"release.json", "report.html", "ledger.jsonl"}
    assert not any(b"canary" in path.read_bytes() for path in shown)
    assert "canary" not in printed
    rejects = [path for path in written if path.parent.name == "rejects"]
    assert [pq.read_table(path)["item"].to_pylist() for path in rejects] == [["canary-item"]]


REFUSED = [
    ({"input__kind": None}, "input.kind: missing; add for example kind: comparisons"),
    (
        {"input__kind": "response"},
        "input.kind: must be comparisons or responses or rankings, got 'response'."
        " Did you mean responses?",
    ),
    (
        {"method": "noisy-counts"},
        "method: noisy-counts is not for input.kind: responses; write auto, spectral, totals or"
        " spectral-rr",
    ),
    (
        {"input__duplicates": "first"},
        "input.duplicates: first needs columns.order (a time or the number of the attempt): the"
        " rows of a set of files have no order of their own. Name that column, or set duplicates:"
        " refuse",
    ),
    (
        {"input__layout": "wide", "input__columns": {"correct": "y"}},
        "input.columns.correct: a wide table has a column for each item instead; remove this line,"
        " or set layout: long",
    ),
    (
        {"input__columns": {"item": "user"}},
        "input.columns.item: column user is user already; name another",
    ),
    ({"input__ties": "drop"}, "input.ties: unknown key. Only another kind of this section has it."),
    (
        {"spectral": {"edge_probability": 0.1}},
        "spectral.edge_probability: needs graph: sparse; remove it, or set that",
    ),
]


@pytest.mark.parametrize(("changes", "message"), REFUSED)
def test_a_mistake_in_the_yaml_file_is_explained(exam, command, changes, message):
    code, printed = command("validate", exam.set(**changes).config)
    assert code == 2
    assert message in printed.replace("\n", " ").replace("  ", " ") or message in printed


UNSUITABLE = [
    ({"unit": "comparison", "max_contributions": None}, "privacy.unit"),
    ({"max_contributions": 1}, "privacy.max_contributions: must be at least 2"),
    ({"per_item_cap": 2}, "privacy.per_item_cap"),
    ({"distinct_pairs": True}, "privacy.distinct_pairs"),
]


@pytest.mark.parametrize(("changes", "message"), UNSUITABLE)
def test_privacy_settings_of_comparisons_are_refused(exam, command, changes, message):
    exam.set(**{f"privacy__{key}": value for key, value in changes.items()})
    code, printed = command("run", exam.config, "--direct")
    assert code == 2
    assert message in printed
    assert not exam.output.exists()


def test_a_missing_column_is_named(exam, command):
    code, printed = command("run", exam.set(input__layout="wide").config, "--direct")
    assert code == 2
    assert "column easy not found. In a wide table every item of the catalogue has a" in printed


def test_the_graph_is_part_of_the_job(exam):
    one = load_config(exam.config).job_hash()
    assert load_config(exam.set(spectral={"graph": "sparse"}).config).job_hash() != one


@pytest.mark.parametrize(
    ("name", "n_items", "least"), [("lsat", 5, 0.99), ("ecpe", 28, 0.99), ("verbagg", 24, 0.99)]
)
def test_real_tests_rank_by_the_share_of_wrong_answers(exam, command, name, n_items, least):
    """Everybody answered everything, so shares of wrong answers order the items rightly."""
    source = DATA / f"bin_{name}.parquet"
    if not source.exists():
        pytest.skip(f"{source} is not there: the data sets are not part of the project")
    changes = {
        "input__paths": [str(source)],
        "input__columns": {"correct": "y"},
        "items": {"count": n_items},
        "privacy__max_contributions": n_items,
        "privacy__epsilon": "inf",
    }
    code, printed = command("run", exam.set(**changes).config, "--direct", "--no-privacy")
    assert code == 0, printed
    scores = {int(line["item"]): line["score"] for line in release_of(exam)["ranking"]}
    table = pq.read_table(source)
    right = np.bincount(table["item"], weights=table["y"]) / np.bincount(table["item"])
    log_odds = [math.log((1 - share) / share) for share in right]
    assert np.corrcoef([scores[item] for item in range(n_items)], log_odds)[0, 1] > least
