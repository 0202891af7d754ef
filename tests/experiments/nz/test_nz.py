"""The experiments of Nguyen and Zhang: their table, their figures, and what they should show."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
import pytest

from hushrank.experiments.nz import nz
from hushrank.experiments.nz.nz import EPSILONS, METHODS, read_sheets, run, trial
from hushrank.experiments.nz.nz_trial import (
    DEBIASED,
    GAUSSIAN,
    LAPLACE,
    PAPER,
    PLAIN,
    TIGHT,
    Method,
    Setting,
    Sheets,
    local_epsilon,
    noise_law,
)
from hushrank.privacy.amplification import shuffled_epsilon
from hushrank.privacy.noise import laplace_law
from hushrank.privacy.sensitivity import Sensitivity

COLUMNS = [
    *("figure", "data", "m", "n", "epsilon", "delta", "mechanism", "graph", "constants"),
    *("metric", "mean", "se", "trials"),
]


@pytest.fixture
def answers(tmp_path: Path) -> Path:
    """A small file of answers, one of them missing."""
    path = tmp_path / "quiz.csv"
    random = np.random.default_rng(0)
    rows = [f"p{person},q{item},{random.integers(2)}" for person in range(60) for item in range(4)]
    path.write_text("\n".join(["user,item,correct", *rows[:-1]]) + "\n")
    return path


def table(folder: Path) -> list[dict[str, str]]:
    with (folder / "results.csv").open(newline="") as file:
        reader = csv.DictReader(file)
        assert reader.fieldnames == COLUMNS
        return list(reader)


def test_a_file_gives_a_tidy_table_and_figures(answers: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(["2"], 2, True, out, [answers])
    rows = table(out)
    assert len(rows) == len(EPSILONS) * len(METHODS)
    for row in rows:
        assert (row["figure"], row["data"], row["m"], row["n"]) == ("2", "quiz", "4", "60")
        assert (row["metric"], row["trials"], row["delta"]) == ("l2", "2", "0.0001")
        assert math.isfinite(float(row["mean"]))
        assert float(row["se"]) >= 0
    both = {row["constants"] for row in rows if row["mechanism"] == GAUSSIAN}
    assert both == {TIGHT, PAPER}
    for name in ("figure_2", "figure_2_gain"):
        assert (out / f"{name}.png").stat().st_size > 10_000
        assert "<svg" in (out / f"{name}.svg").read_text()


def test_the_same_trials_give_the_same_numbers(
    answers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However they are split over the processes; other tests draw figures."""
    monkeypatch.setattr(nz, "draw_figures", lambda outcomes, out: None)
    run(["2"], 3, True, tmp_path / "together", [answers])
    monkeypatch.setattr(nz, "AT_ONCE", 2)
    run(["2"], 3, True, tmp_path / "split", [answers])
    assert table(tmp_path / "together") == table(tmp_path / "split")


def test_simulated_figures_are_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nz, "SYNTHETIC", ((5, 50),))
    monkeypatch.setattr(nz, "PEOPLE", (50, 100))
    monkeypatch.setattr(nz, "EPSILONS", (1.0, 5.0))
    run(["1", "growth"], 1, True, tmp_path, [])
    rows = table(tmp_path)
    assert {row["metric"] for row in rows} == {"l2", "l2_truth"}
    assert {row["mechanism"] for row in rows} == {GAUSSIAN, LAPLACE, PLAIN, DEBIASED, "none"}
    assert {row["se"] for row in rows} == {""}  # one trial has no standard error
    for name in ("figure_1", "figure_1_gain", "figure_growth"):
        assert (tmp_path / f"{name}.png").exists()


def test_figure_3_is_drawn_without_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nz, "CATALOGUES", (4, 9))
    monkeypatch.setattr(nz, "EPSILONS", (1.0, 5.0))
    run(["3"], 1, True, tmp_path, [])
    rows = table(tmp_path)
    assert {(row["data"], row["m"], row["n"]) for row in rows} == {
        ("stand-in", "4", "943"),
        ("stand-in", "9", "943"),
    }
    assert {row["mechanism"] for row in rows} == {GAUSSIAN, LAPLACE, PLAIN, DEBIASED}
    assert (tmp_path / "figure_3.png").exists()


def test_ratings_become_answers(tmp_path: Path) -> None:
    """Three people like the first two items and not the last two, whatever else they rated."""
    path = tmp_path / "ratings.csv"
    told = {"a": (5, 4, 1, 2), "b": (4, 5, 2, 1), "c": (5, 5, 1, 1), "d": (5, 4, 2, 2)}
    rows = [
        f"{person},{item},{rating}"
        for person, own in told.items()
        for item, rating in enumerate(own)
    ]
    path.write_text("\n".join(["user,item,rating", *rows[:-1]]) + "\n")  # one is missing
    sheets = read_sheets(path)
    assert sheets.answered.all()
    assert sheets.right.tolist() == [[False, False, True, True]] * 4
    path.write_text("user,item,rating\n1,1,nan\n1,2,3\n2,1,4\n")
    with pytest.raises(ValueError, match="finite ratings"):
        read_sheets(path)


COMPARED = tuple(epsilon for epsilon in EPSILONS if 0.2 <= epsilon <= 5)


@pytest.fixture(scope="module")
def errors() -> dict[tuple[float, Method], float]:
    """Mean error to the estimate without privacy, m = 50 and n = 1000."""
    setting = Setting("1", "synthetic", 50, 1000)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nz, "EPSILONS", COMPARED)
        trials = [trial(setting, None, np.random.default_rng(seed)) for seed in range(8)]
    return {
        (series.epsilon, series.method): float(np.mean([each[series] for each in trials]))
        for series in trials[0]
        if series.metric == "l2"
    }


@pytest.mark.parametrize("epsilon", COMPARED)
def test_discrete_gaussian_beats_every_baseline(
    epsilon: float, errors: dict[tuple[float, Method], float]
) -> None:
    ours = errors[epsilon, Method(GAUSSIAN, "dense", TIGHT)]
    assert errors[epsilon, Method(GAUSSIAN, "dense", PAPER)] > 1.1 * ours
    for method in METHODS:
        if method.mechanism != GAUSSIAN:
            assert errors[epsilon, method] > 1.2 * ours, method


def test_error_tends_to_the_one_without_privacy() -> None:
    ratios = []
    for n in (200, 3000, 45_000):
        values = trial(Setting("growth", "synthetic", 20, n), None, np.random.default_rng(1))
        truth = {s.method: v for s, v in values.items() if s.metric == "l2_truth"}
        none = truth[Method("none", "dense", TIGHT)]
        ratios.append(truth[Method(GAUSSIAN, "dense", TIGHT)] / none)
    assert ratios[0] > 2
    assert ratios[0] > ratios[1] > ratios[2]
    assert ratios[2] < 1.1


def test_tight_constants_halve_the_variance_at_the_same_zcdp() -> None:
    m, epsilon, delta = 50, 1.0, 1e-4
    n_edges = m * (m - 1) // 2
    tight, paper = (
        noise_law(Method(GAUSSIAN, "dense", constants), m, n_edges, epsilon, delta)
        for constants in (TIGHT, PAPER)
    )
    rho = {TIGHT: 2 * (m**2 // 4) / (2 * tight.variance), PAPER: 2 * n_edges / (2 * paper.variance)}
    assert rho[PAPER] == pytest.approx(epsilon**2 / (4 * math.log(1 / delta)))
    gain = paper.variance * rho[PAPER] / (tight.variance * rho[TIGHT])
    assert gain == pytest.approx(2, rel=0.03)
    assert rho[TIGHT] > rho[PAPER]  # the accountant adds to it
    laplace = noise_law(Method(LAPLACE, "dense", TIGHT), m, n_edges, epsilon, delta)
    assert laplace == laplace_law(Sensitivity(1250, 1250), epsilon)


def test_local_epsilon_of_randomised_response() -> None:
    few, many = (Sheets(np.ones((n, 3), bool), np.ones((n, 3), bool)) for n in (200, 100_000))
    assert local_epsilon(TIGHT, 2.0, 1e-4, few) == 2.0  # too few people: no amplification
    assert local_epsilon(PAPER, 2.0, 1e-4, few) < 0.5  # the paper stays at the condition's border
    amplified = local_epsilon(TIGHT, 0.2, 1e-4, many)
    assert amplified > 1
    assert shuffled_epsilon(amplified, 100_000, 1e-4) <= 0.2
    assert local_epsilon(PAPER, 0.2, 1e-4, many) == pytest.approx(amplified, rel=1e-6)
    ragged = Sheets(many.right & False, np.arange(300_000).reshape(-1, 3) > 0)
    assert local_epsilon(TIGHT, 0.2, 1e-4, ragged) == 0.2  # sheets differ in more than answers
    handful = Sheets(np.ones((20, 3), bool), np.ones((20, 3), bool))
    assert local_epsilon(PAPER, 2.0, 1e-4, handful) == 2.0


@pytest.mark.parametrize(
    ("only", "trials", "message"),
    [(["4"], 1, "no figure '4'"), (["2"], 1, "needs --data"), (None, 0, "trials")],
)
def test_bad_requests(only: list[str] | None, trials: int, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        run(only, trials, True, tmp_path, [])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("user,item,score\n1,1,1\n", "y or correct not found"),
        ("user,item,y\n1,1,2\n1,2,0\n", "0 and 1 only"),
        ("user,item,y\n1,1,1\n", "at least 2 items"),
        ("user,item,y\n1,1,1\n1,1,0\n1,2,0\n", "same item twice"),
    ],
)
def test_bad_files(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        read_sheets(path)
