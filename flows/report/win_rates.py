"""Shares of wins of one item over another: a table of the best items, if a release tells."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hushrank.estimation.common.links import link_named
from hushrank.estimation.common.score_change import (
    Intervals,
    WinRates,
    rates_of_counts,
    rates_of_scores,
)
from hushrank.estimation.ties.tie_models import TieModel
from hushrank.flows.release.release import Release, on_scale
from hushrank.flows.release.scale import SCALE_OF_LINK, Scale
from hushrank.privacy.units import NoiseKind

MOST = 12  # items shown; a longer ranking shows its best
SHADES = 10  # shades of a cell; the style sheet has as many
OF_SCORES = (
    "From the scores, by the model that they were fitted with. The smaller numbers are 95 %"
    " intervals, of one pair at a time. These intervals are conservative: the ranking can separate"
    " two items whose interval here includes 50 %."
)
OF_DECIDED = " They are shares of the comparisons that do not end in a tie."
OF_COUNTS = (
    "From the noisy counts of each pair alone. The smaller numbers are 95 % intervals, of one pair"
    " at a time, for noise and chance."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """Cell for one pair of items.

    Attributes:
        rate: rate in percent, as text; empty on the diagonal, a dash if it is unknown.
        interval: interval of the rate; empty if there is none.
        shade: 0 to `SHADES`; 0 if the row's item always loses.
        title: rate and interval with more digits, in words.
    """

    rate: str
    interval: str = ""
    shade: int | None = None
    title: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RateTable:
    """The table as the page shows it.

    Attributes:
        names: names of the items, best first.
        rows: one row of cells for each item.
        how: source of the numbers.
        left_out: number of items of the ranking that are not in the table.
    """

    names: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    how: str
    left_out: int


def win_rates_of(release: Release) -> RateTable | None:
    """The chance that the row's item beats the column's; None if the release does not tell.

    This is post-processing of `release.json`.
    """
    if not release.informative:
        return None
    lines = release.ranking[:MOST]
    names = tuple(line.shown for line in lines)
    found = _of_scores(release)
    how = OF_SCORES + OF_DECIDED * (release.ties is not None)
    if found is None:
        found, how = _of_counts(release), OF_COUNTS
    if found is None or not np.isfinite(found.rate).any():
        return None
    rows = tuple(
        tuple(_cell(found, names, row, column) for column in range(len(names)))
        for row in range(len(names))
    )
    left_out = len(release.ranking) - len(names)
    return RateTable(names=names, rows=rows, how=how, left_out=left_out)


def _of_scores(release: Release) -> WinRates | None:
    fitted = on_scale(release, Scale.LOG_ODDS)
    link = {scale: name for name, scale in SCALE_OF_LINK.items()}.get(fitted.scale)
    # Rao and Kupper's scores are no log odds of the comparisons that somebody won.
    other = release.ties is not None and release.ties.model is not TieModel.DAVIDSON
    if link is None or other:
        return None
    lines = fitted.ranking[:MOST]
    scores, low, high = (
        np.array([getattr(line, name) for line in lines], np.float64)
        for name in ("score", "low", "high")
    )
    ends = {"low": np.minimum(low, scores), "high": np.maximum(high, scores)}
    return rates_of_scores(Intervals(scores=scores, **ends), link_named(link))


def _of_counts(release: Release) -> WinRates | None:
    pairs, privacy = release.released, release.privacy
    won = pairs.among([line.item for line in release.ranking[:MOST]])
    if won is None or not pairs.tells_rates:
        return None
    variance = 0.0 if privacy.mechanism == "none" else release.noise_variance
    if variance is None:
        return None
    kind = NoiseKind.GAUSSIAN if "gaussian" in privacy.mechanism else NoiseKind.LAPLACE
    # With weighted rows, so many comparisons are as random as one.
    effect = float(privacy.parameters.get("design_effect", 1.0))
    return rates_of_counts(
        won / effect,
        variance / (getattr(pairs, "row_weight", 1) * effect) ** 2,
        kind,
        public_totals=pairs.public_totals,
    )


def _cell(found: WinRates, names: tuple[str, ...], row: int, column: int) -> Cell:
    if row == column:
        return Cell(rate="")
    rate, low, high = (float(each[row, column]) for each in (found.rate, found.low, found.high))
    if math.isnan(rate):
        return Cell(rate="–")
    return Cell(
        rate=f"{100 * rate:.0f} %",
        interval=f"{100 * low:.0f}–{100 * high:.0f}",
        shade=round(SHADES * rate),
        title=(
            f"{names[row]} beats {names[column]}: {100 * rate:.2f} %, 95 % interval"
            f" {100 * low:.2f} to {100 * high:.2f} %"
        ),
    )
