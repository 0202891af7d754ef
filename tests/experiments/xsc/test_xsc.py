"""Rerunning [XSC]: the table's form, the same numbers however it is split, and the paper's results.

The slow tests hold means of 50 replicates against the paper's own means of 200; a comparison fails
by chance with probability 1e-5, if ours were no better.
"""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
import pytest

from hushrank.experiments.xsc import xsc
from hushrank.experiments.xsc.xsc import run
from hushrank.experiments.xsc.xsc_paper import PRINTED
from hushrank.experiments.xsc.xsc_scenarios import scenarios, scheme_epsilon
from hushrank.experiments.xsc.xsc_setting import Setting

HEADER = "scenario,link,m,L,scheme,delta,share,method,metric,mean,sd,se,replicates"


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def means(folder: Path, **wanted: str) -> dict[tuple[str, str], float]:
    """Means by method and metric of the rows that have these texts."""
    return {
        (row["method"], row["metric"]): float(row["mean"])
        for row in table(folder / "results.csv")
        if all(row[name] == value for name, value in wanted.items())
    }


def test_table_and_figures_are_written(tmp_path: Path) -> None:
    run(["V", "II"], 3, False, tmp_path)
    assert (tmp_path / "results.csv").read_text().splitlines()[0] == HEADER
    rows = table(tmp_path / "results.csv")
    assert {row["scenario"] for row in rows} == {"II", "V"}
    assert {row["method"] for row in rows} == {
        "debiased-rr",
        "classic-rr",
        "laplace-rr",
        "rr-counts",
        "noisy-objective",
    }
    metrics = {row["metric"] for row in rows if row["scenario"] == "V"}
    assert metrics == {"l2", "linf", "kendall", "footrule", "topk"}
    row = next(row for row in rows if row["metric"] == "l2")
    assert float(row["se"]) == pytest.approx(float(row["sd"]) / math.sqrt(3), rel=1e-4)
    assert row["replicates"] == "3"
    for name in ("II.png", "II.svg", "V.png", "V.svg"):
        assert (tmp_path / name).stat().st_size > 1000


def test_numbers_do_not_depend_on_what_else_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(["II"], 5, False, tmp_path / "alone")
    monkeypatch.setattr(xsc, "AT_ONCE", 2)
    run(["II", "V"], 5, False, tmp_path / "together")
    alone = means(tmp_path / "alone", scenario="II", link="probit")
    assert alone == means(tmp_path / "together", scenario="II", link="probit")
    assert alone != means(tmp_path / "alone", scenario="II", link="logistic")


@pytest.mark.parametrize("name", ["I", "III", "IV", "S.1.2", "S.1.3", "S.3"])
def test_every_experiment_has_finite_values(name: str) -> None:
    scenario = scenarios(quick=True)[name]
    values = scenario.replicate(scenario.settings[0], np.random.default_rng(1))
    assert values
    assert all(math.isfinite(value) and value >= 0 for value in values.values())


def test_settings_are_the_paper_s() -> None:
    known = scenarios(quick=False)
    assert {name: len(known[name].settings) for name in known} == {
        "I": 24,
        "II": 2,
        "III": 72,
        "IV": 54,
        "V": 2,
        "S.1.2": 9,
        "S.1.3": 12,
        "S.3": 25,
    }
    assert len(PRINTED) == 48 + 18 + 12
    places = {(s.scenario, s.link, s.m, s.L) for name in known for s in known[name].settings}
    assert all((c.scenario, c.link, c.m, c.L) in places for c in PRINTED)
    assert scheme_epsilon("2", 10, 100) == pytest.approx(1 / math.sqrt(1000))
    ratio = scheme_epsilon("1", 10, 100) / scheme_epsilon("3", 10, 100)
    assert ratio == pytest.approx(math.log(1000) ** 4)


def test_comparison_counts_standard_errors(tmp_path: Path) -> None:
    setting = Setting("I", "logistic", 10, 100)
    rows = xsc.summarise({(setting, "debiased-rr", "l2"): [0.09, 0.10, 0.11, 0.10]})
    xsc.write_comparison(rows, tmp_path / "comparison.csv")
    (row,) = table(tmp_path / "comparison.csv")
    se = np.std([0.09, 0.10, 0.11, 0.10], ddof=1) / 2
    apart = (0.10 - 0.1104) / math.hypot(se, 0.0301 / math.sqrt(200))
    assert float(row["standard_errors_apart"]) == pytest.approx(apart, rel=1e-4)


def test_application_is_compared_replicate_by_replicate(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    scores = np.linspace(1, -1, 10)
    lines = ["user,winner,loser"]
    for person in range(60):
        for i in range(10):
            for j in range(i + 1, 10):
                won = rng.random() < 1 / (1 + math.exp(scores[j] - scores[i]))
                lines.append(f"{person},{i},{j}" if won else f"{person},{j},{i}")
    path = tmp_path / "answers.csv"
    path.write_text("\n".join(lines))
    run(["application"], 60, False, tmp_path, [path])
    found = means(tmp_path, scenario="application", link="logistic", m="10", L="60")
    assert found["debiased-rr", "kendall"] < found["laplace-rr", "kendall"]
    tests = table(tmp_path / "application_tests.csv")
    laplace = next(t for t in tests if (t["link"], t["method"]) == ("logistic", "laplace-rr"))
    assert float(laplace["t"]) > 3
    assert {test["method"] for test in tests if test["link"] == "probit"} == {
        "classic-rr",
        "laplace-rr",
        "rr-counts",
    }


def test_wrong_requests_say_what_there_is(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no experiment 'VI'; there are I, II"):
        run(["VI"], 1, False, tmp_path)
    with pytest.raises(ValueError, match="needs --data FILE"):
        run(["application"], 1, False, tmp_path)
    with pytest.raises(ValueError, match="one file, got 2"):
        run(None, 1, False, tmp_path, [tmp_path, tmp_path])
    with pytest.raises(ValueError, match="replicates"):
        run(["I"], 0, False, tmp_path)


@pytest.mark.slow
def test_errors_are_the_paper_s_or_smaller(tmp_path: Path) -> None:
    run(["I", "S.1.2", "S.1.3"], 50, False, tmp_path)
    rows = table(tmp_path / "comparison.csv")
    assert len(rows) == len(PRINTED)
    for row in rows:
        apart = float(row["standard_errors_apart"])
        worse = -apart if row["metric"] == "correct_link" else apart
        assert worse < 4.2, row
    # Power: errors twice as large would not pass.
    for row in rows:
        if row["metric"] in ("l2", "linf"):
            ours, paper, apart = (
                float(row[name]) for name in ("mean", "paper_mean", "standard_errors_apart")
            )
            assert (2 * ours - paper) / abs(ours - paper) * abs(apart) > 4.2, row


@pytest.mark.slow
def test_privacy_scales_the_error_and_ours_beats_the_others(tmp_path: Path) -> None:
    run(["II", "V"], 100, False, tmp_path)
    for link in ("logistic", "probit"):
        found = means(tmp_path, scenario="II", link=link)
        for metric in ("l2", "linf"):
            assert found["debiased-rr", f"{metric}_correlation_with_inverse_sqrt_b"] > 0.9
    found = means(tmp_path, scenario="V", link="logistic")
    for metric in ("l2", "linf"):
        order = ["debiased-rr", "noisy-objective", "laplace-rr", "classic-rr"]
        assert sorted(order, key=lambda method: found[method, metric]) == order
    for link in ("logistic", "probit"):
        found = means(tmp_path, scenario="V", link=link)
        errors = {method: value for (method, name), value in found.items() if name == "kendall"}
        assert min(errors, key=lambda method: errors[method]) == "debiased-rr"
