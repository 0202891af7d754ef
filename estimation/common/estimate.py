"""Estimates of items: scores, ranks and how far to trust them.

Distances of scores or a ranking from the truth: the papers' measures.  Larger scores are better.
Ranks are 1 for the best, and equal items share the mean of their ranks; where a set of the best K
is needed, the first in the catalogue come first among equals.

References:
    [CCW] Cai, Chakraborty, Wang. Optimal differentially private ranking from pairwise comparisons.
        2025.
    [XSC] Xu, Sun, Cheng. Rate-optimal rank aggregation with private pairwise rankings.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.common.links import Floats
from hushrank.estimation.common.pair_separation import ScoreErrors
from hushrank.estimation.common.uncertainty import MOST_PAIRED, AllAtOnce, RankSeparation

# Standard deviations of its error by which the sum of all counts must exceed zero: if it does not,
# the counts say nothing of any item.
CLEAR_TOTAL = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Scores and ranks of n items; every array has shape (n,), in catalogue order.

    Attributes:
        scores: higher is better; they sum to zero, but for items far off that nothing limits.
        low, high: 95 % interval of each score (of one score at a time, not of all at once).
        rank: 1 is best; equal items share the mean of their ranks.
        rank_low, rank_high: 95 % interval of each item's rank, one item at a time;
            1 <= rank_low <= rank_high <= n.
        groups: 1 is best; items with the same number cannot be told from one another, by
            `at_once`.
        informative: False where the noise leaves nothing to be learned; every interval then covers
            everything.
        at_once: statements that are sure of all items together; None where the method makes none.
        errors: joint errors of the scores, for probabilities of ranks; None if they are not
            known.
        noise_share: share of privacy noise in the variance of each score, the rest being sampling;
            None where the method does not say.
        deviation: standard error of each score, which its interval allows for, of a method whose
            `noise_share` is the noise's share of its square; None: it is the square root of the
            variance in `errors`, and its parts are not told.

    Raises:
        ValueError: an array has another shape, or an interval is upside down.
    """

    scores: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    rank: NDArray[np.float64]
    rank_low: NDArray[np.int64]
    rank_high: NDArray[np.int64]
    groups: NDArray[np.int64]
    informative: bool = True
    at_once: AllAtOnce | None = None
    errors: ScoreErrors | None = None
    noise_share: NDArray[np.float64] | None = None
    deviation: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        for name in ("scores", "low", "high", "rank", "rank_low", "rank_high", "groups"):
            shape = getattr(self, name).shape
            if shape != (self.n_items,):
                raise ValueError(f"{name} must have shape ({self.n_items},), got {shape}")
        intervals = [(self.low, self.high), (self.rank_low, self.rank_high)]
        if (sure := self.at_once) is not None:
            intervals += [(sure.low, sure.high), (sure.rank_low, sure.rank_high)]
        for low, high in intervals:
            if (low > high).any():
                raise ValueError("an interval's lower end must not be above its upper end")

    @property
    def n_items(self) -> int:
        """Size of the public catalogue."""
        return len(self.scores)

    @property
    def standard_errors(self) -> NDArray[np.float64] | None:
        """Standard error of each score, shape (n,); NaN of an item whose interval has an open end.

        None: the method has no law of the errors, or nothing was learned.
        """
        if self.deviation is not None:
            found = self.deviation
        elif self.errors is not None:
            variances = self.errors.covariance
            variances = np.diagonal(variances) if variances.ndim == 2 else variances
            found = np.sqrt(np.maximum(variances, 0))
        else:
            return None
        if not self.informative:
            return None
        bounded = np.isfinite(self.low) & np.isfinite(self.high)
        return np.where(bounded, found, np.nan)

    @property
    def order(self) -> NDArray[np.intp]:
        """Items from best to worst; equal ones in catalogue order."""
        return np.argsort(self.rank, kind="stable")


class IntervalChange(NamedTuple):
    """Lengths of intervals relative to each other.

    Attributes:
        widened: length divided by the length without privacy noise; `inf`: noise is all.
        at_twice: length with twice the people, divided by the length now.
    """

    widened: float
    at_twice: float


def interval_change(noise_share: float) -> IntervalChange:
    """What noise, and twice the people, change in an interval whose variance is noise to a share.

    Chance has a variance proportional to 1 / people. The noise of counts is the same for any number
    of people, so its variance in a score, which is a share of them, is proportional to
    1 / people^2.
    """
    chance = 1 - noise_share
    widened = math.inf if chance <= 0 else 1 / math.sqrt(chance)
    return IntervalChange(widened, math.sqrt(noise_share / 4 + chance / 2))


def top_k(estimate: Estimate, k: int) -> NDArray[np.intp]:
    """The k items ranked best, best first; catalogue order decides between equal ones.

    Raises:
        ValueError: `k` is not between 1 and the number of items.
    """
    if not 1 <= k <= estimate.n_items:
        raise ValueError(f"top_k must be between 1 and {estimate.n_items} (the items), got {k!r}")
    return estimate.order[:k]


def estimate_of(
    scores: Floats,
    low: Floats,
    high: Floats,
    separation: RankSeparation,
    *,
    rank: Floats | None = None,
    informative: bool = True,
    errors: ScoreErrors | None = None,
    noise_share: Floats | None = None,
) -> Estimate:
    """Scores with intervals, and the ranks that items may have; `rank` None: by the scores."""
    return Estimate(
        scores=scores,
        low=low,
        high=high,
        rank=mean_ranks(scores) if rank is None else rank,
        rank_low=separation.rank_low,
        rank_high=separation.rank_high,
        groups=separation.groups,
        informative=informative,
        at_once=separation.at_once,
        errors=errors,
        noise_share=noise_share,
    )


def nothing_learned(
    scores: Floats, *, rank: Floats | None = None, reach: float = np.inf
) -> Estimate:
    """Scores that say nothing: intervals from -reach to reach, and any item may have any rank."""
    n = len(scores)
    first, last = np.ones(n, np.int64), np.full(n, n)
    low, high = np.full(n, -reach), np.full(n, reach)
    nobody = np.zeros((n, n), np.bool_) if n <= MOST_PAIRED else None
    any_rank = RankSeparation(first, last, first, AllAtOnce(low, high, first, last, nobody))
    return estimate_of(scores, low, high, any_rank, rank=rank, informative=False)


def mean_ranks(values: NDArray[np.generic]) -> NDArray[np.float64]:
    """Rank of each value, 1 for the largest; equal values share the mean of their ranks."""
    _, level, size = np.unique(values, return_inverse=True, return_counts=True)
    size_above = len(values) - np.cumsum(size)
    return np.asarray((size_above + (size + 1) / 2)[level])


def rms_error(scores: Floats, truth: Floats) -> float:
    """n^(-1/2) ||scores - truth||_2 ([XSC] §4.1)."""
    return float(np.sqrt(np.square(_paired(scores, truth)).mean()))


def linf_error(scores: Floats, truth: Floats) -> float:
    """||scores - truth||_inf ([XSC] §4.1)."""
    return float(np.abs(_paired(scores, truth)).max())


def relative_l2_error(scores: Floats, truth: Floats) -> float:
    """||scores - truth||_2 / ||truth||_2, whose logarithm [CCW] §4.1 reports.

    Raises:
        ValueError: the truth is zero.
    """
    return rms_error(scores, truth) / _size(rms_error(truth, np.zeros_like(truth)))


def relative_linf_error(scores: Floats, truth: Floats) -> float:
    """||scores - truth||_inf / ||truth||_inf, whose logarithm [CCW] §4.1 reports.

    Raises:
        ValueError: the truth is zero.
    """
    return linf_error(scores, truth) / _size(linf_error(truth, np.zeros_like(truth)))


def top_k_distance(scores: Floats, truth: Floats, k: int) -> float:
    """H_K, normalised Hamming distance of the best K ([XSC] §4.2); 1 - overlap / K ([CCW] §4.1).

    Raises:
        ValueError: `k` is not between 1 and the number of items.
    """
    if not 1 <= k <= len(_paired(scores, truth)):
        raise ValueError(f"k must be between 1 and {len(truth)} (the items), got {k!r}")
    best, best_true = (np.argsort(-values, kind="stable")[:k] for values in (scores, truth))
    return 1 - len(np.intersect1d(best, best_true)) / k


def kendall_distance(scores: Floats, truth: Floats) -> float:
    """K, the share of pairs of items in the opposite order ([XSC] §4.3); equal is not opposite."""
    n = len(_paired(scores, truth))
    orders = (np.sign(np.subtract.outer(values, values)) for values in (scores, truth))
    return float((np.multiply(*orders) < 0).sum() / (n * (n - 1)))


def footrule_distance(scores: Floats, truth: Floats) -> float:
    """S, Spearman's footrule: 2 / n^2 times the sum of the rank differences ([XSC] §4.3)."""
    return 2 / len(truth) * mean_rank_difference(scores, truth)


def mean_rank_difference(scores: Floats, truth: Floats) -> float:
    """Mean absolute difference of the ranks ([CCW] §4.3)."""
    return float(np.abs(_paired(mean_ranks(scores), mean_ranks(truth))).mean())


def _paired(scores: Floats, truth: Floats) -> Floats:
    if scores.ndim != 1 or scores.shape != truth.shape:
        raise ValueError(f"scores of shape {scores.shape} do not match truth of {truth.shape}")
    return scores - truth


def _size(norm: float) -> float:
    if norm == 0:
        raise ValueError("the true scores are all zero: no error is relative to that")
    return norm
