"""Ties as outcomes from the YAML file to the page, and an audit of what is drawn from them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hushrank.estimation.ties.tie_models import TieCounts, TieModel
from hushrank.flows.methods.counts import tie_outcomes
from hushrank.flows.methods.registry import METHODS, load_config
from hushrank.flows.planning.plan.items_apart import orders_by_ties, ties_text
from hushrank.flows.planning.plan.survey import Setting
from hushrank.flows.planning.plan.world import World
from hushrank.flows.run.job import prepare_job, read_survey
from hushrank.pipelines.reduce import reduce
from hushrank.pipelines.reduce.reduce_comparisons import ComparisonsKind
from hushrank.privacy.audit import audit_epsilon, one_by_one
from hushrank.privacy.keyed_hash import SecretKey
from hushrank.privacy.noise import add_noise
from hushrank.privacy.randomness import system_bits
from hushrank.transforms.comparisons import aggregate
from tests.flows.conftest import ITEMS, Survey, answers
from tests.statistics import FALSE_POSITIVE_RATE

MODEL = {"method": "noisy-pairs", "input__ties": "model"}
EQUALS = 0.4  # of comparisons tie, in which ants still win most others
ROWS = 6  # L
TRIALS, FEW = 8_000, 400  # few are enough where some noise is missing altogether


def with_ties(people: int) -> pa.Table:
    log = answers(people)
    tied = np.random.default_rng(8).random(len(log)) < EQUALS
    outcome = np.where(tied, 0, log["outcome"].to_numpy()).astype(np.int8)
    return log.set_column(3, "outcome", pa.array(outcome))


@pytest.fixture
def tied(survey: Survey) -> Survey:
    pq.write_table(with_ties(400), survey.folder / "answers.parquet")
    return survey.set(**MODEL)


def released(survey: Survey) -> dict[str, Any]:
    return dict(json.loads((survey.output / "release.json").read_text()))


@pytest.mark.parametrize("model", TieModel)
def test_a_job_releases_says_and_ranks(tied, command, model):
    code, printed = command("run", tied.set(input__tie_model=model.value).config, "--direct")
    assert code == 0, printed
    assert "on the three outcomes of every pair" in printed
    release = released(tied)
    ties = release["ties"]
    assert ties["model"] == model.value
    assert ties["equals_low"] < ties["equals"] < ties["equals_high"]
    assert ties["low"] < ties["parameter"] < ties["high"]
    assert ties["parameter"] == pytest.approx(model.parameter(ties["equals"] / 100))
    assert 30 < ties["equals"] < 65
    assert f"Two equal items tie in {ties['equals']:.1f} % of their comparisons" in printed
    counts = release["released"]
    assert counts["kind"] == "tie-counts"
    noisy = np.array([counts["wins"], counts["ties"]])
    assert noisy.sum() == pytest.approx(2_400, abs=400)  # 18 cells with noise of scale 6
    assert release["ranking"][0]["item"] == "ants"
    privacy = release["privacy"]
    assert privacy["ties"] == "model"
    assert privacy["parameters"]["tie_model"] == model.value
    assert privacy["sensitivity_l1"] == 2 * ROWS  # that of `split` is twice as large
    text = " ".join(privacy["statement"])
    assert "A tie is an outcome of its own" in text
    page = (tied.output / "report.html").read_text()
    assert "an outcome of their own" in page
    assert '<h2 id="ties">Ties</h2>' in page
    assert ("shares of the comparisons that do not end" in page) == (model is TieModel.DAVIDSON)


def test_every_group_has_ties_of_its_own_and_epsilon_is_paid_once(tied, command):
    path = tied.folder / "answers.parquet"
    log = pq.read_table(path)
    language = np.where(np.arange(len(log)) < len(log) // 3, "de", "en")
    pq.write_table(log.append_column("language", pa.array(language)), path)
    tied.set(groups={"column": "language", "values": ["en", "de"]})
    code, printed = command("run", tied.config, "--direct")
    assert code == 0, printed
    release = released(tied)
    assert [group["name"] for group in release["groups"]] == ["en", "de"]
    wholes = np.array(release["released"]["ties"])
    parts = sum(np.array(group["released"]["ties"]) for group in release["groups"])
    assert np.array_equal(wholes, parts)
    assert release["privacy"]["epsilon"] == 2.0
    assert "An answer is" not in " ".join(release["privacy"]["statement"])


REFUSED = [
    ({"method": "noisy-counts"}, "input.ties: model is for method: auto or noisy-pairs"),
    ({"method": "win-loss", "input__design": "random"}, "which counts ties apart"),
    ({"input__ties": "split", "input__tie_model": "davidson"}, "tie_model: needs ties: model"),
    ({"input__tie_model": "bradley"}, "input.tie_model"),
    ({"model": {"link": "probit"}}, "model.link: must be logistic with ties: model"),
    (
        {"privacy__public_graph": True, "privacy__public_graph_statement": "all were asked"},
        "privacy.public_graph: does not go with ties: model",
    ),
    (
        {"input__columns__weight": "w", "privacy__max_weight": 2},
        "input.columns.weight: does not go with ties: model",
    ),
    ({"items": {"count": 1_001}}, "ties: model takes at most 1,000 items, got 1,001"),
]


@pytest.mark.parametrize(("changes", "message"), REFUSED)
def test_what_ties_do_not_go_with_is_refused(tied, command, changes, message):
    code, printed = command("validate", tied.set(**changes).config)
    assert code == 2
    assert message in " ".join(printed.split())


def test_auto_takes_the_method_that_counts_ties(tied, command):
    code, printed = command("run", tied.set(method="auto").config, "--direct")
    assert code == 0, printed
    assert released(tied)["method"] == "noisy-pairs"


def test_a_plan_compares_ways_of_treating_ties(tied, command):
    config = load_config(tied.config)
    setting = Setting(method="noisy-pairs", epsilon=1.0, people=100, answers=6)
    found = orders_by_ties(config, setting, World(ties=0.5))
    assert list(found) == ["model", "random", "split", "drop"]
    assert 0.5 < min(found.values()) <= max(found.values()) <= 1
    assert found["model"] >= max(found["split"], found["random"])
    said = ties_text(found, World(ties=0.5))
    assert f"{100 * found['split']:.1f} % with split" in said
    assert "if equals tie in 50 % of their comparisons" in said
    people = ("--people", "100", "--ties", "0.5")
    code, printed = command("plan", tied.set(input__ties="drop").config, *people)
    assert code == 2
    assert "--ties: needs input.ties: model" in printed


def exact_counts(survey: Survey, left: int, outcome: int, folder: str) -> np.ndarray:
    """Counts of a log in which all rows of person 999 are of one pair and end alike."""
    person = pa.table(
        {
            "user": np.full(5 * ROWS, 999),
            "item_i": np.full(5 * ROWS, left),
            "item_j": np.full(5 * ROWS, left + 1),
            "outcome": np.full(5 * ROWS, outcome, np.int8),
        }
    )
    log = pa.concat_tables([with_ties(3), person])
    pq.write_table(log, survey.folder / "answers.parquet", row_group_size=7)
    job = prepare_job(read_survey(survey.config))
    place, key = str(survey.folder / folder), SecretKey.draw(system_bits())
    method = METHODS[job.config.method]
    reduce.run(method.reduction(job.config, job.mechanism, job.files, key, place))
    with np.load(f"{place}/exact.npz") as arrays:
        return np.array(arrays["counts"])


def counted_twice(counts, rows, add=aggregate.add_outcomes):
    """A tie counts as a tie and as a win of either item, in half wins too many."""
    add(counts, rows)
    tied = rows.take(np.flatnonzero(rows.outcome == 0))
    for cells in ((tied.left, tied.right), (tied.right, tied.left)):
        np.add.at(counts[0], cells, 2)


def without_noise_on_ties(counts, calibration, bits):
    """Noise on the cells of wins alone."""
    wins, pairs = counts.cells[0], ~np.eye(counts.n_items, dtype=bool)
    noisy = counts.cells.copy()
    noisy[0][pairs] = add_noise(wins[pairs], calibration.law, bits)
    return TieCounts(noisy, confidential=False)


BUGS = {
    "a tie in three cells": (aggregate, "add_outcomes", counted_twice),
    "no noise on ties": (tie_outcomes, "release_tie_counts", without_noise_on_ties),
}


@pytest.mark.slow
@pytest.mark.parametrize("bug", [None, *BUGS])
def test_an_audit_of_the_run_passes_it_and_finds_planted_bugs(tied, monkeypatch, bug):
    epsilon = 1.0
    tied.set(privacy__epsilon=epsilon, privacy__distinct_pairs=False)
    if bug is not None:
        monkeypatch.setattr(*BUGS[bug])
        monkeypatch.setattr(ComparisonsKind, "check", lambda *_: None)  # which sees a tie twice
    one, other = exact_counts(tied, 0, 0, "tied"), exact_counts(tied, 2, 1, "won")
    job = prepare_job(read_survey(tied.config))
    method = METHODS[job.config.method]

    @one_by_one
    def release(counts):
        return method.draw({"counts": counts}, job.mechanism, system_bits())["cells"].ravel()

    moved = np.flatnonzero((one != other).ravel())
    found = audit_epsilon(
        release,
        one,
        other,
        trials=FEW if bug == "no noise on ties" else TRIALS,
        confidence=1 - FALSE_POSITIVE_RATE,
        statistics={"cells that moved": lambda rows: rows[:, moved]},
    )
    if bug is None:
        assert np.abs(one - other).sum() == 2 * ROWS, "the worst case, and bounded"
        assert found.epsilon_lower <= epsilon
    else:
        assert found.epsilon_lower > epsilon


def test_a_tie_that_counts_twice_stops_the_run(tied, command, monkeypatch):
    monkeypatch.setattr(*BUGS["a tie in three cells"])
    with pytest.raises(RuntimeError, match="lost or repeated rows"):
        exact_counts(tied, 0, 0, "tied")


@pytest.mark.parametrize(
    ("name", "items", "unit", "between"),
    [
        ("pair_llmfao", 59, {"unit": "comparison"}, (30, 50)),
        ("pair_cems", 6, {"unit": "user", "max_contributions": 15}, (5, 25)),
    ],
)
def test_real_comparisons_with_ties(tied, command, real_data, name, items, unit, between):
    """Judges of language models say tie in 39 % of comparisons, students in 11 %."""
    bounds = {f"privacy__{key}": None for key in ("max_contributions", "distinct_pairs")}
    tied.set(
        input__paths=[str(real_data / f"{name}.parquet")],
        items={"count": items},
        privacy__epsilon=4.0,
        **{**bounds, **{f"privacy__{key}": value for key, value in unit.items()}},
    )
    code, printed = command("run", tied.config, "--direct")
    assert code == 0, printed
    ties = released(tied)["ties"]
    low, high = between
    assert low < ties["equals_high"]
    assert ties["equals_low"] < high
    assert ties["equals_high"] - ties["equals_low"] < 25
    assert len(ITEMS) < len(released(tied)["ranking"]) == items
