"""Number of people who would have to change for another item to be first.

Let x be exact counts of which a noisy copy was released, A the first item, and g[B] how far A is
ahead of B in x: a difference of two counts, or of two entries. One person's rows move g[B] by at
most h if they are taken away or added, so by at most 2h if other rows take their place. Hence at
least g[B] / 2h people have to be replaced before A is no longer alone in front of B.

Of x only the noisy gaps are known. With probability 95 % or more no gap is smaller than its noisy
copy less `allowance`, for all pairs of items at once, since the noisy counts chose A. Where each
item has a count with independent noise, the allowance is the 95 % quantile of the range of n noise
values: the largest less the smallest. Where each pair of items has a number of its own, it is the
quantile of Bonferroni over all pairs and both signs.

    at least = min over B of ceil((gap[B] - allowance) / h'),  h' = 2h or h

This is a lower bound. It says nothing of how few people would suffice.

Bounds h of one person with at most L rows ([`bound_of`]); c bounds the rows with one item; D: all
rows are on distinct pairs, so an item occurs in at most n - 1 of them. With r = min(L, c), and
r = min(L, c, n - 1) under D:

    wins                  r: a row that A wins moves g[B] by 1, and so does one that B wins
    wins less losses      D: min(L + 1, 2r), else 2r. A row of A and B moves it by 2, and only one
                          is of that pair; each other row of A or of B moves it by 1
    majority of a pair    D: 1, else r
    nets of rankings      2 (n - 1) for each ranking: from n - 1 to 1 - n in it
    places, rankings      1 for each ranking: A above B or below it; A at the place or not
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

import numpy as np
from scipy.special import ndtr

from hushrank.estimation.common.links import Floats
from hushrank.estimation.common.uncertainty import LEVEL, quantile
from hushrank.privacy.units import NoiseKind

ROUNDING = 1e-9  # rounding error of a quotient: it must not make a bound larger


class LeadBy(StrEnum):
    """The number by which an item is first."""

    WINS = "wins"
    NET_WINS = "net-wins"
    MAJORITIES = "majorities"  # over each other item, in comparisons of the two
    BORDA = "borda"
    FIRST_PLACES = "first-places"
    SCORES = "scores"  # scores of a fitted model: an estimate, no certificate


@dataclass(frozen=True, slots=True, kw_only=True)
class Gaps:
    """Distance of each other item behind the first one, with noise.

    Attributes:
        by: number in which the items are compared.
        gaps: shape (n - 1,), in answers.
        deviation: standard deviation of the noise in the count of one item, or in the gap of a pair
            where each pair has a number of its own; in answers.
        kind: law of the noise. A sum of Laplace noise has lighter tails than one draw of the same
            variance, so it may be given as one.
        draws: number of draws whose sum is the noise of a pair's number.
        step: step between released numbers, in answers.
    """

    by: LeadBy
    gaps: Floats
    deviation: float
    kind: NoiseKind
    draws: int = 1
    step: float = 1.0

    @property
    def n_items(self) -> int:
        """Number of items."""
        return len(self.gaps) + 1

    @property
    def allowance(self) -> float:
        """Amount by which noise may have made a gap larger, with 95 % for all pairs at once."""
        if self.deviation == 0:
            return 0.0
        if self.by is LeadBy.MAJORITIES:
            tail = LEVEL / (self.n_items * (self.n_items - 1))
            reach = float(quantile(np.ones(()), tail, self.kind, self.draws))
            return reach * self.deviation + self.step / 2
        return range_quantile(self.n_items, self.kind) * self.deviation + self.step

    def at_least(self, bound: float) -> int:
        """Return how many people have to change if each moves a gap by `bound` at most."""
        left = float(self.gaps.min()) - self.allowance
        return max(0, math.ceil(left / bound - ROUNDING))


@lru_cache(maxsize=64)
def range_quantile(n: int, kind: NoiseKind) -> float:
    """The 95 % quantile of the largest less the smallest of n independent values of deviation 1.

    The chance that all n are within w of the smallest is

        n * integral of f(x) (F(x + w) - F(x))^(n - 1) dx

    with f, F the density and distribution function of the law (of the Gaussian one this is the
    studentised range of known variance). Bisection finds w.
    """
    reach = 12.0 if kind is NoiseKind.GAUSSIAN else 40.0
    x = np.linspace(-reach, reach, 8_001)
    density = _density(x, kind) * (x[1] - x[0])
    below = _distribution(x, kind)
    low, high = 0.0, 2 * reach
    while high - low > 1e-6:
        middle = (low + high) / 2
        within = np.clip(_distribution(x + middle, kind) - below, 0.0, 1.0) ** (n - 1)
        low, high = (middle, high) if n * density @ within < 1 - LEVEL else (low, middle)
    return high


def _density(x: Floats, kind: NoiseKind) -> Floats:
    if kind is NoiseKind.GAUSSIAN:
        return np.asarray(np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi))
    return np.asarray(np.exp(-math.sqrt(2) * np.abs(x)) / math.sqrt(2))


def _distribution(x: Floats, kind: NoiseKind) -> Floats:
    if kind is NoiseKind.GAUSSIAN:
        return np.asarray(ndtr(x))
    tail = np.exp(-math.sqrt(2) * np.abs(x)) / 2
    return np.asarray(np.where(x < 0, tail, 1 - tail))


@dataclass(frozen=True, slots=True, kw_only=True)
class RowBounds:
    """Limits of what may count of one person.

    Attributes:
        rows: most rows of a person, or rankings.
        per_item: most of them in which one item occurs; None: no limit of its own.
        distinct: whether they are on distinct pairs of items.
    """

    rows: int
    per_item: int | None = None
    distinct: bool = False


def bound_of(by: LeadBy, bounds: RowBounds, n_items: int) -> int:
    """Return how far one person's rows move a gap if they are added or taken away.

    See the module's text for the proof.

    Raises:
        ValueError: `by` means scores, whose bound depends on the fit (`estimated_changes`).
    """
    within = min(bounds.rows, bounds.per_item or bounds.rows)
    if bounds.distinct:
        within = min(within, n_items - 1)
    if by is LeadBy.WINS:
        return within
    if by is LeadBy.NET_WINS:
        return min(bounds.rows + 1, 2 * within) if bounds.distinct else 2 * within
    if by is LeadBy.MAJORITIES:
        return 1 if bounds.distinct else within
    if by is LeadBy.FIRST_PLACES:
        return bounds.rows
    if by is LeadBy.BORDA:
        return 2 * (n_items - 1) * bounds.rows
    raise ValueError("a bound on scores depends on the fit")


@dataclass(frozen=True, slots=True)
class Changes:
    """An estimate of how many people would have to change.

    Attributes:
        replaced: people whose rows are exchanged for others.
        changed: people whose rows are taken away, or who are added.
    """

    replaced: int
    changed: int


def estimated_changes(
    scores: Floats, wins: Floats, variance: float, kind: NoiseKind, bounds: RowBounds
) -> Changes | None:
    """An estimate of how many people it takes to change who has the best Bradley-Terry score.

    With H the curvature of the likelihood at the scores and v = H^-1 (e_A - e_B), a row "i beats j"
    adds (1 - p_ij) (v_i - v_j) to score A less score B, to first order, p_ij being the chance that
    i beats j. The L rows that move it most bound a person. No certificate: the effects of many
    people do not add up exactly.

    Args:
        scores: log odds, shape (n,).
        wins: entry b of row a is how often a beat b, noise included, shape (n, n), in comparisons.
        variance: variance of the noise in an entry.
        kind: law of the noise.
        bounds: limits of one person's rows.

    Returns:
        None: who is first does not stand clear of the noise, or nothing ties items together.
    """
    n = len(scores)
    met = np.maximum(wins + wins.T, 0.0)
    # chance that the row's item wins
    chance = 1 / (1 + np.exp(np.subtract.outer(-scores, -scores)))
    weight = met * chance * (1 - chance)
    curvature = np.diag(weight.sum(axis=1)) - weight
    if np.linalg.matrix_rank(curvature) < n - 1:
        return None
    inverse = np.linalg.pinv(curvature)
    first, tail = int(scores.argmax()), LEVEL / (n * (n - 1))
    found = []
    for other in (item for item in range(n) if item != first):
        v = inverse[first] - inverse[other]
        apart = np.maximum(np.subtract.outer(v, v), 0.0)
        for_first = (1 - chance) * apart  # a row that supports the first item
        for_other = chance * apart  # the same pair with the other result
        noise = variance * (((1 - chance) * np.subtract.outer(v, v)) ** 2).sum()
        reach = float(quantile(np.ones(()), tail, kind, 1)) * math.sqrt(noise)
        left = scores[first] - scores[other] - reach
        if left <= 0:
            return None
        taken, added = (_of_a_person(effects, bounds) for effects in (for_first, for_other))
        most = max(taken, added)
        if most == 0:
            return None
        found.append((left / (taken + added), left / most))
    replaced, changed = (math.ceil(min(each) - ROUNDING) for each in zip(*found, strict=True))
    return Changes(replaced, changed)


def _of_a_person(effects: Floats, bounds: RowBounds) -> float:
    """The largest sum of effects of one person's rows, over pairs of items."""
    if not bounds.distinct:
        return float(bounds.rows * effects.max())
    largest = np.sort(effects[effects > 0])[::-1]
    return float(largest[: bounds.rows].sum())
