"""Histograms of raw scores, whole or at public knots, and sums over sheets that they tell.

Where every raw score has an entry of its own, the sum over sheets of a value v(r) is that over
entries of H_r v(r). On knots a sheet adds shares to the two around its score, public numbers L_rk.
A sum over knots of H_k f_k then is a sum over sheets of (L f)(r): lines between knots stand for v.
With f = v at knots these lines cut every curve on one side, an error that more sheets do not mend.
So f is the least-squares solution, in which score r weighs as many sheets as H tells of it, w_r.
It makes the sum over r of w_r L_rk (v(r) - (L f)(r)) zero at each knot, and with that the sum over
all sheets right, but for what is left where lines are wrong and w is wrong too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np

from hushrank.estimation.common.links import Floats
from hushrank.estimation.responses.sheet_totals import MOST_SCORES, Integers, knot_shares

RARE = 1e-3  # part of the sheets that are taken to be at all scores alike
NEVER = 1e-300  # a chance that is taken for zero
SHIFTS = 3  # Newton's steps to a mean score; two are enough


def not_negative(sheets: Floats) -> Floats:
    """Sheets without negative numbers, scaled to the same sum."""
    clipped = np.maximum(sheets, 0)
    return np.asarray(clipped * (max(float(sheets.sum()), 0) / max(float(clipped.sum()), 1e-9)))


@dataclass(frozen=True, slots=True, eq=False)
class ScoreHistogram:
    """Sheets of one booklet by raw score, noise included.

    Attributes:
        sheets: at each knot, shape (knots,).
        knots: raw scores that have an entry, ascending from 0 to K.
        weights: sheets at each raw score, at least 0, as far as knots tell; shape (K + 1,).
        lines: takes values of all raw scores to f, shape (knots, K + 1); None: scores are knots.
    """

    sheets: Floats
    knots: Integers
    weights: Floats
    lines: Floats | None

    @classmethod
    def of(cls, entries: Integers, knots: Integers, sheet_weight: int) -> Self:
        """The histogram of released entries, which are `sheet_weight` times sheets."""
        sheets = entries / sheet_weight
        weights = not_negative(sheets)
        if len(knots) == knots[-1] + 1:
            return cls(sheets, knots, weights, None)
        shares = knot_shares(knots, sheet_weight) / sheet_weight
        weights = shares @ (weights / shares.sum(axis=0))
        part = weights / max(float(weights.sum()), 1e-9) + RARE / len(weights)
        root = np.sqrt(part)
        lines = np.linalg.lstsq(shares * root[:, np.newaxis], np.diag(root), rcond=None)[0]
        return cls(sheets, knots, weights, np.asarray(lines))

    @property
    def people(self) -> float:
        """Sheets together."""
        return float(self.sheets.sum())

    @property
    def scores(self) -> Integers:
        """Raw scores, ascending."""
        return np.arange(self.knots[-1] + 1)

    def at_knots(self, values: Floats) -> Floats:
        """Values f by which sheets at knots have about the same sum as at their scores.

        Args:
            values: of the scores 0 to K, shape (K + 1, ...).
        """
        return values if self.lines is None else np.tensordot(self.lines, values, axes=1)

    def mean(self, values: Floats) -> Floats:
        """Mean over sheets of values by score, shape (K + 1, ...)."""
        return np.asarray(self.sheets @ self.at_knots(values) / self.people)


def chances_at_all_scores(at_scores: Callable[[Integers], Floats], knots: Integers) -> Floats:
    """Chances of points given each raw score, shape (K + 1, items, most + 1).

    Of at most `MOST_SCORES` they are computed at each. Of more, they are computed at knots, and at
    scores so near to 0 or to K that an item cannot give some numbers of points, or the next.
    Between these, log P(h | r) - log P(0 | r) less h log(r / (K - r)) is nearly a straight line in
    log(r / (K - r)). Then what is common to all items is shifted until the mean score is r, as it
    must be. With 50 to 300 items chances are wrong by 3e-5 on average, and by .03 at most.

    Args:
        at_scores: computes them at some scores, shape (scores, items, most + 1).
        knots: raw scores, ascending from 0 to K.
    """
    top = int(knots[-1])
    if top <= MOST_SCORES or len(knots) == top + 1:
        return at_scores(np.arange(top + 1))
    ends, score = at_scores(knots[[0, -1]]), np.arange(1, top)
    points = np.arange(ends.shape[-1])
    node = np.union1d(knots[1:-1], [points[1:], top - points[1:]])
    logs = np.log(np.maximum(at_scores(node), NEVER))
    logs -= logs[..., :1]
    place = np.log(score / (top - score))
    logs -= place[node - 1, np.newaxis, np.newaxis] * points
    low = np.clip(np.searchsorted(node, score, side="right") - 1, 0, len(node) - 2)
    below, above = place[node[low] - 1], place[node[low + 1] - 1]
    share = ((place - below) / (above - below))[:, np.newaxis, np.newaxis]
    shift, common = logs[low] * (1 - share) + logs[low + 1] * share, place
    for _ in range(SHIFTS):
        chance = np.exp(shift + common[:, np.newaxis, np.newaxis] * points)
        chance /= chance.sum(axis=2, keepdims=True)
        mean = chance @ points
        spread = (chance @ points**2 - np.square(mean)).sum(axis=1)
        common = common + (score - mean.sum(axis=1)) / spread
    return np.concatenate([ends[:1], chance, ends[1:]])
