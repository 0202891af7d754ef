"""The ranking-privacy experiments: their table, figures, and what they should show."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

from hushrank.experiments.rdp import rdp_trial
from hushrank.experiments.rdp.rdp import FIGURES, _trials, read_rankings, run, settings
from hushrank.experiments.rdp.rdp_trial import (
    LAPLACE,
    MALLOWS,
    Setting,
    Values,
    largest_log_ratio,
    neighbours,
)
from tests.statistics import FALSE_POSITIVE_RATE

COLUMNS = ["figure", "m", "n", "N", "epsilon", "method", "metric", "mean", "se", "replicates"]
SMALL = {  # one setting of each figure that needs no file
    "2": Setting("2", 5, 0, 0, 3.0),
    "5": Setting("5", 4, 0, 20, 2.0),
    "6": Setting("6", 4, 0, 20, 0.67, "(m-1)/sqrt(N)"),
    "7": Setting("7", 15, 200, 0, 1.0),
}


def trials(setting: Setting, replicates: int) -> Values:
    return _trials(setting, None, range(replicates))


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    """An order file as the sushi survey has it; item 7 is mostly best, and item 9 worst."""
    path = tmp_path / "sushi.order"
    random = np.random.default_rng(0)
    lines = ["10 1"]
    for _ in range(200):
        order = np.argsort(
            random.normal(size=10) + 1.5 * (np.arange(10) == 9) - (np.arange(10) == 7)
        )
        lines.append(" ".join(map(str, [0, 10, *order])))
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_file_gives_a_tidy_table_and_a_figure(orders: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(["8"], 2, True, out, [orders])
    with (out / "results.csv").open(newline="") as file:
        reader = csv.DictReader(file)
        assert reader.fieldnames == COLUMNS
        rows = list(reader)
    assert len(rows) == 12 * 3  # epsilons by two mechanisms and the base rate
    for row in rows:
        assert (row["figure"], row["m"], row["n"], row["N"]) == ("8", "5", "200", "")
        assert 0 < float(row["mean"]) < 1.5
        assert float(row["se"]) >= 0
        assert row["replicates"] == "2"
    assert (out / "figure_8.png").stat().st_size > 0
    assert (out / "figure_8.svg").stat().st_size > 0


def test_settings_are_the_papers() -> None:
    assert {name: len(settings(name, quick=False)) for name in FIGURES[:-1]} == {
        "2": 4 * 24,
        "4": 3 * 7,
        "5": 3 * 4 * 10,
        "6": 3 * 2 * 10,
        "7": 2 * 4 * 4,
    }
    assert {setting.N for setting in settings("4", quick=False)} == {10**7}
    assert len(settings("8", quick=False, rankings=np.zeros((9, 5), np.int64))) == 12


def test_a_seed_belongs_to_a_setting() -> None:
    once, again = (trials(SMALL["5"], 50) for _ in range(2))
    np.testing.assert_array_equal(*(values[MALLOWS, "success"] for values in (once, again)))


@pytest.mark.parametrize("epsilon", [0.1, 3.0, 30.0])
def test_mallows_keeps_more_pairs_than_laplace(epsilon: float) -> None:
    values = trials(Setting("2", 10, 0, 0, epsilon), 20_000)
    mallows, laplace = (values[name, "concordant_pairs"] for name in (MALLOWS, LAPLACE))
    expected = values["closed-form", "concordant_pairs"][0]
    se = mallows.std() / math.sqrt(len(mallows))
    assert abs(mallows.mean() - expected) < 5 * se + 1e-9  # fails once in a million
    assert laplace.mean() < expected


def epsilon_p_value(setting: Setting, estimated: float, epsilon: float) -> float:
    """Of an estimate from `setting.N` draws a ranking, if the mechanism's epsilon is `epsilon`.

    The outputs that tell most are those with the moved item on top: it comes out there with
    probability p where it was first and p e^-epsilon where it was last. The set that is found may
    lack some of them or hold others, for which the standard error is raised by 30 %.
    """
    q = math.exp(epsilon / (setting.m - 1))
    p = (1 - 1 / q) / (1 - q**-setting.m)
    error = 1.3 * math.sqrt((1 / p + math.exp(epsilon) / p - 2) / setting.N)
    return float(2 * norm.sf(abs(estimated - epsilon) / error))


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
@pytest.mark.parametrize("m", [3, 4, 5])
def test_the_estimated_epsilon_is_the_stated_one(m: int, epsilon: float) -> None:
    setting = Setting("4", m, 0, 200_000, epsilon)
    estimated = trials(setting, 1)[MALLOWS, "epsilon_hat"][0]
    assert epsilon_p_value(setting, estimated, epsilon) > FALSE_POSITIVE_RATE
    for wrong in (0.75 * epsilon, 1.25 * epsilon):
        assert epsilon_p_value(setting, estimated, wrong) < FALSE_POSITIVE_RATE


def test_the_estimate_catches_the_exponent_that_lemma_2_prints() -> None:
    """epsilon |Omega| / 2 for each pair that the rankings agree on: (m - 1) times that is lost."""
    stated, m = 1.0, 3
    planted = stated * math.comb(m, 2) / 2 * (m - 1)
    setting = Setting("4", m, 0, 200_000, planted)
    values = trials(setting, 1)
    assert epsilon_p_value(setting, values[MALLOWS, "epsilon_hat"][0], stated) < FALSE_POSITIVE_RATE
    assert epsilon_p_value(setting, values[MALLOWS, "epsilon_hat"][0], planted) > (
        FALSE_POSITIVE_RATE
    )
    assert values[MALLOWS, "epsilon_hat_eq_8"][0] > 2.5


def test_equation_8_exceeds_epsilon_where_outputs_are_rare() -> None:
    values = trials(Setting("4", 5, 0, 50_000, 1.0), 4)
    printed, ours = (values[MALLOWS, metric] for metric in ("epsilon_hat_eq_8", "epsilon_hat"))
    assert printed.min() > 1.1
    assert np.abs(ours - 1).max() < 0.1  # standard error 0.013


def test_a_set_of_outputs_is_found_on_one_half_and_counted_on_the_other() -> None:
    """Two outputs tell by e^1; a third seems to, by chance, in the half that chooses."""
    ratio = math.e
    first = [[27_183, 27_183, 30, 45_604], [10_000, 10_000, 1, 79_999]]
    second = [[27_183, 27_183, 3, 45_631], [10_000, 10_000, 3, 79_994]]
    found = largest_log_ratio(np.array([first, second], np.int64))
    assert found == pytest.approx(math.log(ratio), abs=1e-3)
    assert math.log(30 / 1) > 3  # what a maximum of single ratios would take


def test_neighbours_move_one_item() -> None:
    assert set(neighbours(3)) == {(1, 0, 2), (0, 2, 1), (1, 2, 0), (2, 0, 1)}
    assert [len(list(neighbours(m))) for m in (3, 4, 5)] == [4, 9, 16]  # (m - 1)^2


def test_more_rankings_give_more_away_unless_epsilon_falls() -> None:
    few, many = (trials(Setting("5", 4, 0, N, 3.0), 2000)[MALLOWS, "success"] for N in (10, 100))
    assert many.mean() > few.mean() + 0.1
    rates = [
        trials(Setting("6", 3, 0, N, 2 / math.sqrt(N), "slow"), 4000)[MALLOWS, "success"].mean()
        for N in (10, 100)
    ]
    assert abs(rates[0] - rates[1]) < 0.08
    assert max(rates) < 0.6


def test_learning_from_mallows_is_better_than_from_laplace(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(rdp_trial.MODELS, "two-towers")  # linear alone is fast
    values = trials(SMALL["7"], 40)
    mallows, laplace = (values[f"{name}/linear", "accuracy"] for name in (MALLOWS, LAPLACE))
    assert (mallows - laplace).mean() > 0
    assert 0.8 < laplace.mean() < mallows.mean() < 1


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("10 1\n0 10 1 2\n0 10 1 x\n", "numbers alike"),
        ("10 1\n", "no rankings found"),
        ("3 1\n0 3 0 1 2\n0 3 0 1 1\n", "every item once"),
        ("3 1\n0 3 0 1 2\n0 3 0 1 3\n", "the same items"),
    ],
)
def test_a_file_of_another_form_is_refused(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "bad.order"
    path.write_text(text)
    with pytest.raises(ValueError, match=says):
        read_rankings(path)


def test_what_cannot_be_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no figure '3'"):
        run(["3"], 1, True, tmp_path)
    with pytest.raises(ValueError, match="needs one --data FILE"):
        run(["8"], 1, True, tmp_path)
    with pytest.raises(ValueError, match="replicates must be >= 1"):
        run(["2"], 0, True, tmp_path)


@pytest.mark.slow
def test_two_towers_learn_more_from_mallows_than_from_laplace() -> None:
    values = trials(Setting("7", 15, 350, 0, 1.0), 5)
    mallows, laplace = (values[f"{name}/two-towers", "accuracy"] for name in (MALLOWS, LAPLACE))
    assert mallows.mean() > laplace.mean() > 0.6
