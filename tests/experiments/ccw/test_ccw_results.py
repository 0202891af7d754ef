"""docs/ccw_results.csv, what `hushrank reproduce ccw` wrote: the page says the same numbers."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hushrank.experiments.ccw.ccw import COLUMNS
from hushrank.experiments.ccw.ccw_trials import simulated, simulated_settings

REPLICATES = 100
COUNTS, PAPER, TIGHT = "noisy-counts", "perturbed-mle-paper", "perturbed-mle-tight"
TOP, L2 = "top_k_error", "log_relative_l2"
ONE_SHOT, DELTA, TUNED = "one-shot", "one-shot-with-delta", "one-shot-tuned"
Row = dict[str, str]


@cache
def rows_of(docs: Path) -> tuple[Row, ...]:
    with (docs / "ccw_results.csv").open(encoding="utf-8") as file:
        return tuple(csv.DictReader(file))


def curve(
    docs: Path, figure: int, method: str, metric: str, axis: str, at: Sequence[str], **where: str
) -> list[Row]:
    """Rows of one curve at some places of its axis, each once."""
    place = {"experiment": str(figure), "method": method, "metric": metric} | where
    found = {
        row[axis]: row
        for row in rows_of(docs)
        if all(row[name] == value for name, value in place.items())
    }
    return [found[each] for each in at]


def written(row: Row, name: str, digits: int) -> str:
    return f"{float(row[name]):.{digits}f}".replace("-", "\N{MINUS SIGN}")


# figure, method, metric, axis, places on it, other settings, digits, what stands before the numbers
SHOWN = [
    (1, PAPER, L2, "n", "100 200 300 400 500 600 700", {"epsilon": "1.0", "p": "1.0"}, 2, "paper "),
    (2, PAPER, L2, "p", "0.1 0.5 1.0", {"epsilon": "1.0"}, 2, "paper "),
    (2, TIGHT, L2, "p", "0.1 0.5 1.0", {"epsilon": "1.0"}, 2, "tight "),
    (2, COUNTS, TOP, "p", "0.1 0.5 1.0", {"epsilon": "1.0"}, 3, "counts "),
    (2, PAPER, TOP, "p", "0.1 0.5 1.0", {"epsilon": "1.0"}, 3, "paper "),
    (3, PAPER, L2, "epsilon", "0.2 0.5 1.0 2.5 inf", {"p": "1.0"}, 2, "paper "),
    (3, TIGHT, L2, "epsilon", "0.2 0.5 1.0 2.5 inf", {"p": "1.0"}, 2, "tight "),
    (4, COUNTS, TOP, "n", "100 300 500 700", {"epsilon": "1.0"}, 3, "counts "),
    (4, PAPER, TOP, "n", "100 300 500 700", {"epsilon": "1.0"}, 3, "paper "),
    (4, ONE_SHOT, TOP, "n", "100 300 500 700", {"epsilon": "1.0"}, 3, "(noise 2k/ε) "),
    (4, DELTA, TOP, "n", "100 300 500 700", {"epsilon": "1.0"}, 3, "(8√(k log(n/δ))/ε) "),
    (4, TUNED, TOP, "n", "100 300 500 700", {"epsilon": "1.0"}, 3, "charges it (2/ε) "),
    (5, PAPER, L2, "n", "12 16 20 24 28 32", {"epsilon": "1.0"}, 2, "paper "),
    (6, PAPER, L2, "m", "250 500 1000 2000", {"epsilon": "1.0"}, 2, "paper "),
    (6, TIGHT, L2, "m", "250 500 1000 2000", {"epsilon": "1.0"}, 2, "tight "),
    (6, COUNTS, TOP, "m", "250 500 1000 2000", {"epsilon": "1.0"}, 3, "counts "),
    (6, PAPER, TOP, "m", "250 500 1000 2000", {"epsilon": "1.0"}, 3, "paper "),
    (7, PAPER, L2, "epsilon", "0.2 1.0 2.5 4.0 inf", {"m": "1000"}, 2, "paper "),
    (7, TIGHT, L2, "epsilon", "0.2 1.0 2.5 4.0 inf", {"m": "1000"}, 2, "tight "),
]


# likewise, of which the page shows the first and the last, with the word between them
ENDS = [
    (1, TIGHT, L2, "n", "100 700", {"epsilon": "1.0", "p": "1.0"}, 2, "tight ", " to "),
    (1, COUNTS, TOP, "n", "100 700", {"epsilon": "1.0", "p": "1.0"}, 3, "counts ", " and "),
    (1, PAPER, TOP, "n", "100 700", {"epsilon": "1.0", "p": "1.0"}, 3, "paper ", " and "),
    (1, TIGHT, TOP, "n", "100 700", {"epsilon": "1.0", "p": "1.0"}, 3, "tight ", " and "),
    (5, TIGHT, L2, "n", "12 32", {"epsilon": "1.0"}, 2, "tight ", " to "),
    (5, COUNTS, TOP, "n", "12 32", {"epsilon": "1.0"}, 3, "counts ", " to "),
    (5, PAPER, TOP, "n", "12 32", {"epsilon": "1.0"}, 3, "paper ", " to "),
]


def row_of_page(docs: Path, figure: int) -> str:
    page = (docs / "reproduction.md").read_text(encoding="utf-8")
    return (
        page.split("`hushrank reproduce ccw`")[1].split(f"\n| Figure {figure}, ")[1].split("\n")[0]
    )


@pytest.mark.parametrize(
    "shown",
    [*((*each, ", ") for each in SHOWN), *ENDS],
    ids=lambda shown: f"{shown[0]}-{shown[1]}-{shown[2]}",
)
def test_the_page_says_what_the_file_holds(checkout: Path, shown: Any) -> None:
    """The means, and standard errors that are no larger than the page says."""
    figure, method, metric, axis, at, where, digits, before, between = shown
    docs = checkout / "docs"
    rows = curve(docs, figure, method, metric, axis, at.split(), **where)
    assert {row["replicates"] for row in rows} == {str(REPLICATES)}
    page = row_of_page(docs, figure)
    means = between.join(written(row, "mean", digits) for row in rows)
    assert f"{before}{means}" in page
    after = page.split(f"{before}{means}")[1]
    stated = re.search(r"SE ≤ ([\d., ]+)", after)
    assert stated is not None
    limit = max(float(each.strip(" .")) for each in stated[1].strip(", ").split(", "))
    assert max(float(written(row, "se", 3)) for row in rows) <= limit


def test_the_text_below_the_table_says_what_the_file_holds(checkout: Path) -> None:
    docs = checkout / "docs"
    text = (docs / "reproduction.md").read_text(encoding="utf-8")
    told = " ".join(text.split("§4 says that counts beat")[1].split("### ")[0].split())
    for figure, axis, at, where, between in (
        (3, "p", "0.25", {"epsilon": "inf"}, ", likelihood "),
        (5, "n", "32", {"epsilon": "inf"}, " and "),
    ):
        rows = [
            curve(docs, figure, method, TOP, axis, [at], **where)[0] for method in (COUNTS, TIGHT)
        ]
        assert between.join(written(row, "mean", 3) for row in rows) in told
        assert f"SE {max(written(row, 'se', 3) for row in rows)}" in told


def test_the_file_has_every_setting_of_the_figures(checkout: Path) -> None:
    rows = rows_of(checkout / "docs")
    assert list(rows[0]) == COLUMNS
    held = {(row["experiment"], row["n"], row["m"], row["p"], row["L"]) for row in rows}
    wanted = {
        tuple("" if each is None else str(each) for each in (s.experiment, s.n, s.m, s.p, s.rows))
        for settings in simulated_settings().values()
        for s in settings
    }
    assert held == wanted


@pytest.mark.parametrize(("figure", "place"), [(5, 0), (6, 0)])
def test_a_setting_comes_out_as_it_was_stored(checkout: Path, figure: int, place: int) -> None:
    """Every replicate has a seed of its own: the means are the same but for rounding."""
    setting = simulated_settings()[figure][place]
    found = [simulated(setting, replicate) for replicate in range(REPLICATES)]
    where = {"n": str(setting.n), "m": str(setting.m)}
    for epsilon, method, metric in found[0]:
        values = np.array([each[epsilon, method, metric] for each in found])
        (row,) = curve(
            checkout / "docs", figure, method, metric, "epsilon", [str(epsilon)], **where
        )
        assert values.mean() == pytest.approx(float(row["mean"]), rel=1e-4, abs=1e-4)
