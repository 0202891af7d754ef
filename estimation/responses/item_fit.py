"""How well items fit the Rasch model, from right less wrong answers by bands of raw scores.

Given a raw score, the model says how often each item is right. Of item i and the sheets of band b,

    R_b = Z_ib / 2 - sum over scores r in b of H_r (p_i(r) - 1/2)

is what they were right more often than that, noise included. Its variance is

    V_b = sum of H_r p_i(r) (1 - p_i(r)) + s^2 + t^2 sum of (p_i(r) - 1/2)^2,

where s and t are the noise in Z / 2 and in H. The difficulty is fitted to the sum over bands, so

    Q_i = sum of R_b^2 / V_b - (sum of R_b)^2 / sum of V_b

has about a chi-squared law with bands - 1 degrees of freedom where the model holds ([M85] for exact
counts). An item misfits where Q_i is beyond the limit of Bonferroni for all items. It is steeper
than the model says where those with more points are right more often than expected.

References:
    [M85] Molenaar. Some improved diagnostics for failure of the Rasch model. 1983.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc

from hushrank.estimation.common.links import Floats
from hushrank.estimation.common.uncertainty import LEVEL
from hushrank.estimation.responses.conditional_fit import (
    ConditionalFit,
    real_counts,
    right_at_scores,
)
from hushrank.estimation.responses.sheet_totals import SheetTotals


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemFit:
    """Fit of each item, in catalogue order; shape (n,) each.

    Attributes:
        statistic: Q.
        degrees: of freedom.
        chance: to see so large a Q or a larger one where the model holds.
        misfits: whether it does not hold, with 95 % confidence for all items together.
        steeper: whether people with more points are right more often than the model says.
    """

    statistic: Floats
    degrees: NDArray[np.int64]
    chance: Floats
    misfits: NDArray[np.bool_]
    steeper: NDArray[np.bool_]


def item_fit(totals: SheetTotals, fit: ConditionalFit, variance: float) -> ItemFit:
    """Compare each item with the model.

    Args:
        totals: released, with two bands or more.
        fit: to these totals.
        variance: of the noise in one entry.

    Raises:
        ValueError: there are no bands.
    """
    shape, counts = totals.shape, real_counts(totals)
    if shape.bands < 2:
        raise ValueError("the fit of items needs two bands of raw scores or more")
    more = totals.by_band / (2 * shape.answer_weight)
    of_half = variance / (2 * shape.answer_weight) ** 2
    spread = np.full(more.shape, of_half)
    parts = zip(counts.booklets, counts.histograms, strict=True)
    for booklet, (items, histogram) in enumerate(parts):
        chance = right_at_scores(fit.unbiased[items], histogram)
        expected, starts = histogram.at_knots(chance) - 0.5, shape.band_starts(booklet)
        of_knot, of_score = (
            np.searchsorted(starts, scores, side="right") - 1
            for scores in (histogram.knots, histogram.scores)
        )
        for number in range(shape.bands):
            own, sheets = of_score == number, of_knot == number
            off = expected[sheets]
            more[number, items] -= histogram.sheets[sheets] @ off
            sampled = histogram.weights[own] @ (chance[own] * (1 - chance[own]))
            noise = variance / shape.sheet_weight**2 * np.square(off).sum(axis=0)
            spread[number, items] += sampled + noise
    told = spread > 0
    share = np.divide(1, spread, out=np.zeros_like(spread), where=told)
    statistic = (np.square(more) * share).sum(axis=0)
    statistic -= np.square(more.sum(axis=0)) / np.maximum(spread.sum(axis=0), 1e-300)
    degrees = np.maximum(told.sum(axis=0) - 1, 0)
    chances = np.where(degrees > 0, chdtrc(np.maximum(degrees, 1), np.maximum(statistic, 0)), 1.0)
    places = np.arange(shape.bands)[:, np.newaxis] * told
    mean = (places * spread).sum(axis=0) / np.maximum(spread.sum(axis=0), 1e-300)
    return ItemFit(
        statistic=np.maximum(statistic, 0),
        degrees=degrees,
        chance=chances,
        misfits=chances < LEVEL / totals.n_items,
        steeper=((places - mean) * more).sum(axis=0) > 0,
    )
