"""Intervals of a change between two releases, and of the probability that one item beats another.

The difference of two independent estimates has the interval of the "method of variance estimates
recovery" ([ZD08] §2): from the two intervals alone, whose halves may have different lengths or be
infinite, and for normal errors of equal level exactly the one from the combined standard errors.
Where both estimates use the same answers or the same noise, their errors have a correlation r.
With a and b the halves that face each other, and g and h half the lengths of the two intervals, the
reach of the difference is

    sqrt((1 - |r|) (a^2 + b^2) + |r| shared^2),  shared = g - h for r > 0, a + b for r < 0:

errors of their own take the share 1 - |r| of either variance, and of the shared ones the difference
of their sizes is left, or the sum where they are opposite. For normal errors that is
a^2 + b^2 - 2 r a b, again exact ([Z07]).

The probability that one item beats another follows from scores, or from noisy counts of the pair.
Its intervals hold for one pair at a time and miss with chance `LEVEL`. All is post-processing.

Correlation between the errors of scores that two nights of a stream show.

Each night shows the scores of a window of nights. The true score of a window is the mean over its
nights, weighted by their numbers of answers: it is the score that the window would show if every
answer were drawn again very often. A change is the difference of two windows' scores. A night in
both windows brings the same answers to both, so it moves both scores alike.

Sampling: answers are independent given the scores. A window of M answers has an error of variance
proportional to 1 / M, and M_o answers that are in both windows make the covariance proportional to
M_o / (M M'). So the correlation is M_o / sqrt(M M'). Only the nights that are in one of the two
windows add to the variance of the difference.

Noise: `privacy.stream` knows exactly the correlation between the noise of a cell on the two nights.
All cells have the same one, and so have sums of cells with the same weights on both nights.

With f and f' the shares of noise in the variances of the two errors, their correlation is therefore

    sqrt(f f') r_noise + sqrt((1 - f) (1 - f')) r_sampling.

Number of people who would have to change for another item to be first.

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
    nets of rankings      2 (n - 1) for each ranking: from n - 1 to 1 - n in it; 2 (l - 1) if it
                          has at most l items and says nothing of those that it leaves out
    places, rankings      1 for each ranking: A above B or below it; A at the place or not

References:
    [Z07] Zou. Toward using confidence intervals to compare correlations. Psychological Methods 12,
        2007.
    [ZD08] Zou, Donner. Construction of confidence limits about effect measures: a general approach.
        Statistics in Medicine 27, 2008.
    [W27] Wilson. Probable inference, the law of succession, and statistical inference. Journal of
        the American Statistical Association 22, 1927.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from hushrank.estimation.common.links import Floats, Link
from hushrank.estimation.common.uncertainty import LEVEL, quantile
from hushrank.privacy.stream import Stream
from hushrank.privacy.units import NoiseKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Intervals:
    """Scores with an interval each that misses with chance `LEVEL`; every array of shape (n,)."""

    scores: Floats
    low: Floats
    high: Floats

    def __post_init__(self) -> None:
        if not self.scores.shape == self.low.shape == self.high.shape or self.scores.ndim != 1:
            raise ValueError("scores, low and high must be 1-d arrays of one length")
        if (self.low > self.scores).any() or (self.high < self.scores).any():
            raise ValueError("a score must lie in its interval")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreChange:
    """Change of scores, an entry for each item; every array of shape (n,).

    Attributes:
        change: the later score less the earlier one.
        low, high: interval that misses with chance `LEVEL`, one item at a time.
        beyond: the change is larger than chance explains, with all n items looked at: where nothing
            changed, any entry is true with chance `LEVEL` at most.
    """

    change: Floats
    low: Floats
    high: Floats
    beyond: np.ndarray[tuple[int], np.dtype[np.bool_]]


def score_change(
    earlier: Intervals, later: Intervals, *, normal: bool, correlation: Floats | float = 0.0
) -> ScoreChange:
    """Compare two estimates of the same items.

    Args:
        earlier: the earlier estimate, in some order of the items.
        later: the other, in the same order.
        normal: the errors of both are normal; otherwise tails as heavy as those of Laplace noise
            are reckoned with when all items are looked at together.
        correlation: correlation of the two errors of each item, between -1 and 1; 0 where the
            estimates share neither answers nor noise.

    Raises:
        ValueError: the numbers of items differ, or a correlation is out of range.
    """
    if earlier.scores.shape != later.scores.shape:
        raise ValueError(
            f"got {len(earlier.scores)} scores and {len(later.scores)}: compare the same items"
        )
    r = np.broadcast_to(np.asarray(correlation, np.float64), earlier.scores.shape)
    if not (np.abs(r) <= 1).all():
        raise ValueError("correlations must be between -1 and 1")
    change = later.scores - earlier.scores
    sizes = (later.high - later.low) / 2, (earlier.high - earlier.low) / 2
    below = _reach(later.scores - later.low, earlier.high - earlier.scores, sizes, r)
    above = _reach(later.high - later.scores, earlier.scores - earlier.low, sizes, r)
    stretch = family_stretch(len(change), normal=normal)
    beyond = (change > stretch * below) | (-change > stretch * above)
    return ScoreChange(change=change, low=change - below, high=change + above, beyond=beyond)


def _reach(a: Floats, b: Floats, sizes: tuple[Floats, Floats], r: Floats) -> Floats:
    """See the module; infinite where an interval is and errors are shared."""
    alone = np.hypot(a, b)
    with np.errstate(invalid="ignore"):
        shared = np.where(r > 0, np.subtract(*sizes), a + b)
        shared[~np.isfinite(shared)] = np.inf
        reach = np.hypot(np.sqrt(1 - np.abs(r)) * alone, np.sqrt(np.abs(r)) * shared)
    return np.where(r == 0, alone, reach)


def family_stretch(n_items: int, *, normal: bool) -> float:
    """Stretch of an interval so that any of `n_items` misses with chance `LEVEL` at most.

    Bonferroni: each may miss with chance LEVEL / n. For normal errors that is a ratio of normal
    quantiles; tails of Laplace noise fall as e^-x, and a mixture of both falls no slower.
    """
    if normal:
        return float(ndtri(LEVEL / (2 * n_items)) / ndtri(LEVEL / 2))
    return math.log(LEVEL / n_items) / math.log(LEVEL)


@dataclass(frozen=True, slots=True, kw_only=True)
class WinRates:
    """Probability that the item of the row beats the item of the column.

    Every array has shape (n, n), with nan where nothing is known of a pair, as on the diagonal.

    Attributes:
        rate: chances of winning, in 0 to 1; entry (j, i) is one less entry (i, j).
        low, high: interval of it.
    """

    rate: Floats
    low: Floats
    high: Floats


def rates_of_scores(scores: Intervals, link: Link) -> WinRates:
    """F of the difference of two scores.

    The standard deviation of a difference is at most the sum of both standard deviations, however
    the errors hang together. So the two half widths are added up: for normal errors the interval is
    never too short, and for independent ones of equal size 1.4 times as long as it need be.

    Args:
        scores: estimates of n items, with intervals that may be infinite.
        link: F.
    """
    difference = np.subtract.outer(scores.scores, scores.scores)
    below, above = scores.scores - scores.low, scores.high - scores.scores
    low = difference - np.add.outer(below, above)
    high = difference + np.add.outer(above, below)
    np.fill_diagonal(difference, np.nan)
    np.fill_diagonal(low, np.nan)
    np.fill_diagonal(high, np.nan)
    return WinRates(
        rate=_chance(link, difference), low=_chance(link, low), high=_chance(link, high)
    )


def _chance(link: Link, difference: Floats) -> Floats:
    ends = np.where(difference > 0, 1.0, 0.0)  # ends for an infinite difference
    known = np.where(np.isinf(difference), 0.0, difference)
    return np.where(np.isinf(difference), ends, link.cdf(known))


def rates_of_counts(
    wins: Floats, noise_variance: float, noise: NoiseKind, *, public_totals: bool = False
) -> WinRates:
    """Shares of wins: noisy wins of one item over the noisy wins of both.

    With a wins of one item and b of the other, a - p (a + b) has mean 0 at the true p, and variance
    n p (1 - p) + v ((1 - p)^2 + p^2) for n comparisons and noise of variance v on a and on b; with
    public a + b, n p (1 - p) + v. The interval holds every p at which that difference is no
    larger than chance and noise explain; without noise this is Wilson's interval ([W27]). If a + b
    is not above zero, nothing is known.

    Args:
        wins: shape (n, n), in comparisons, noise included; nan where two items did not meet.
        noise_variance: v, in comparisons squared; 0: no noise.
        noise: law of the noise.
        public_totals: whether only one of the two counts of a pair is noisy, as their sum is
            public.
    """
    total = wins + wins.T
    np.fill_diagonal(total, np.nan)
    known = total > 0
    n = np.where(known, total, 1.0)
    tail = float(quantile(np.array(float(noise_variance > 0)), LEVEL / 2, noise, n_draws=1))
    z, v = tail**2, noise_variance
    both = 0.0 if public_totals else v
    # (a - p n)^2 <= z variance(p), as square p^2 - 2 half p + rest <= 0
    square = n**2 + z * n - 2 * z * both
    half = np.where(known, wins, 0.0) * n + z * n / 2 - z * both
    rest = np.where(known, wins, 0.0) ** 2 - z * v
    root = np.sqrt(np.maximum(half**2 - square * rest, 0.0))
    bounded = (square > 0) & (half**2 >= square * rest)
    low = np.where(bounded, (half - root) / np.where(bounded, square, 1.0), 0.0)
    high = np.where(bounded, (half + root) / np.where(bounded, square, 1.0), 1.0)
    rate = np.clip(np.where(known, wins, 0.0) / n, 0.0, 1.0)
    low, high = np.minimum(np.clip(low, 0, 1), rate), np.maximum(np.clip(high, 0, 1), rate)
    return WinRates(rate=_of(known, rate), low=_of(known, low), high=_of(known, high))


def _of(known: NDArray[np.bool_], values: Floats) -> Floats:
    return np.where(known, values, np.nan)


@dataclass(frozen=True, slots=True, kw_only=True)
class NightTotals:
    """Number of answers on the nights of a window.

    Attributes:
        first: number of the window's first night.
        answers: answers of each night, noise included; shape (nights,).
    """

    first: int
    answers: Floats

    @property
    def end(self) -> int:
        """Number of the night after the last one."""
        return self.first + len(self.answers)

    def between(self, first: int, end: int) -> float:
        """Answers of the nights from `first` to before `end`, all of them in the window."""
        return float(self.answers[first - self.first : end - self.first].sum())


def window_totals(stream: Stream, sums: Floats | NDArray[np.int64]) -> NightTotals:
    """Return the number of answers on the nights that the last of some released nights shows.

    Post-processing, as what is shown: C^-1 takes the bands apart, so the sums of a window's nights
    add up to that of the cells shown.

    Args:
        stream: the terms.
        sums: sums of the released cells of each night, from the first to the one shown, in the
            units in which they are released; shape (nights,).

    Raises:
        ValueError: no night, or more than the stream has.
    """

    stream.terms.check_night(len(sums) - 1)
    each = scipy.signal.lfilter([1.0], stream.encoder.coefficients, sums)
    shown = int(stream.workload.column(len(sums)).sum())
    return NightTotals(first=len(sums) - shown, answers=each[len(sums) - shown :])


def sampling_correlation(one: NightTotals, other: NightTotals) -> float:
    """Correlation of the sampling errors of two windows; noise in the totals makes it inexact."""
    first, end = max(one.first, other.first), min(one.end, other.end)
    sizes = float(one.answers.sum()), float(other.answers.sum())
    if first >= end or min(sizes) <= 0:
        return 0.0
    shared = (one.between(first, end) + other.between(first, end)) / 2
    shared = min(max(shared, 0.0), *sizes)
    return shared / float(np.sqrt(sizes[0] * sizes[1]))


def error_correlation(
    shares: tuple[Floats, Floats], noise_correlation: float, sampling_correlation: float
) -> Floats:
    """Correlation of the errors of each score on two nights.

    Args:
        shares: share of privacy noise in the variances of the scores, one array of shape (n,) a
            night.
        noise_correlation: correlation of the noise in one cell as the two nights show it.
        sampling_correlation: correlation of the two windows' answers.

    Returns:
        Shape (n,); below 0 where noise of the earlier night is taken off from the later one's.
    """
    noise, sampling = np.sqrt(shares[0] * shares[1]), np.sqrt((1 - shares[0]) * (1 - shares[1]))
    both = noise * noise_correlation + sampling * sampling_correlation
    return np.asarray(np.clip(both, -1.0, 1.0))


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
        longest: most items of a ranking, which says nothing of the others; None: it may say
            something of all items.
    """

    rows: int
    per_item: int | None = None
    distinct: bool = False
    longest: int | None = None


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
        return 2 * (min(n_items, bounds.longest or n_items) - 1) * bounds.rows
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
