"""Rank intervals and groups where every pair of items has an error of its own.

`uncertainty.separate_ranks` does it in O(n log n) where the margin follows from the two values;
here a covariance matrix or two intervals say how far each difference may be off.

What is said of all items at once, every score and every order, is to be true together, but for 5 %.
Half of that is for the scores, and orders have the rest: what the scores leave by the joint law of
all errors (`joint_tails`), which is more than half, as both are often wrong at once; or half where
the law is not known. Critical values of orders go down in steps ([RW05]): an order that is sure can
no longer be wrongly rejected, so the next step tests only those that are left, at a larger tail
chance. How large it may be follows from that law, or from the number of orders that are left
(Bonferroni) where that is larger.

Probability that an item is the best, or among the best k, given its estimate.

An estimate shows the true scores theta but for an error: x ~ N(theta, Sigma). Where scores lie
closer together than their errors, the largest estimate is too large. What the scores of all items
show of how far true scores lie apart corrects that (parametric empirical Bayes, [M83]):
theta ~ N(0, t^2 I), and t has a flat prior on a grid that is weighed by how well it explains x.
Along an eigenvector of Sigma with eigenvalue v, theta given t has mean x t^2 / (t^2 + v) and
variance v t^2 / (t^2 + v). Where true scores are spread like normal ones, what has chance p happens
p of the time; scores of another shape, such as one item far ahead, make it wrong by 0.1 or so.

Probabilities are shares of simulated theta. Their bits are no secret and no guarantee rests on
them: they follow from a fixed seed, so that one release has the same probabilities however often
they are computed.

References:
    [AS64] Abramowitz, Stegun. Handbook of mathematical functions. 1964.
    [D80] Deak. Three digit accurate multiple normal probabilities. 1980.
    [RW05] Romano, Wolf. Exact and approximate stepdown methods for multiple hypothesis testing.
        2005.
    [MRSW] Mogstad, Romano, Shaikh, Wilhelm. Inference for ranks. 2024.
    [ZD08] Zou, Donner. Construction of confidence limits about effect measures. 2008. §2, where two
        errors are correlated.
    [M83] Morris. Parametric empirical Bayes inference. 1983.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc, erfc, ndtr, ndtri

from hushrank.estimation.common.links import Floats, score_differences
from hushrank.estimation.common.uncertainty import (
    LEVEL,
    MOST_PAIRED,
    SPENT_ON_FAR,
    AllAtOnce,
    Counts,
    EndsAt,
    RankSeparation,
    every_score_tail,
    far_tail,
    ranks_alone,
)
from hushrank.privacy.randomness import seeded_bits

SEED = 0
MOST_SUMMED = 60  # degrees of freedom up to which a chance is summed term by term
NO_CHANCE = 1_400.0  # squared lengths beyond have a chance below 1e-240, and no term overflows
MOST_ITEMS = 2_000  # beyond, probabilities of single items are small and take long
DRAWS, FEWEST_DRAWS, CELLS = 10_000, 1_000, 4_000_000  # a standard error of 0.005, or 0.016
SPREADS = np.geomspace(0.003, 3, 80)  # t, in root mean squares of x


@dataclass(frozen=True, slots=True)
class ScoreErrors:
    """Scores without shrinkage to zero, nor cut to a range, and their errors.

    Attributes:
        centre: shape (n,).
        covariance: shape (n, n); or (n,), the variances of errors that are taken as independent.
    """

    centre: Floats
    covariance: Floats


@dataclass(frozen=True, slots=True)
class RankChances:
    """Probabilities of ranks; shape (n,), in catalogue order.

    Attributes:
        best: chance of rank 1.
        top: chance of rank k or better.
        k: the k of `top`.
    """

    best: Floats
    top: Floats
    k: int


def rank_probabilities(errors: ScoreErrors, k: int) -> RankChances | None:
    """Probabilities of being the best and of being among the best k; None of too many items.

    Raises:
        ValueError: k is not between 1 and the number of items.
    """
    n = len(errors.centre)
    if not 1 <= k <= n:
        raise ValueError(f"k must be between 1 and {n} (the items), got {k!r}")
    if n > MOST_ITEMS:
        return None
    scores = simulated_scores(errors, min(DRAWS, max(FEWEST_DRAWS, CELLS // n)))
    ahead = np.argpartition(-scores, k - 1, axis=1)[:, :k]
    best = np.bincount(scores.argmax(axis=1), minlength=n)
    return RankChances(best / len(scores), np.bincount(ahead.ravel(), minlength=n) / len(scores), k)


def simulated_scores(errors: ScoreErrors, draws: int) -> Floats:
    """Draws of the true scores given the estimate, shape (draws, n)."""
    centre = errors.centre - errors.centre.mean()
    variances, vectors = _axes(errors.covariance)
    along = centre if vectors is None else vectors.T @ centre
    size = float(np.sqrt(np.mean(np.square(centre))))
    if size == 0:  # nothing tells items apart: any spread does
        size = float(np.sqrt(variances.mean())) or 1.0
    spreads = np.square(size * SPREADS)
    log_weights = _log_likelihood(along, variances, spreads) + np.log(SPREADS)  # t is flat
    counts = _shares(log_weights, draws)
    normal = normal_draws(draws, len(centre))
    parts = []
    for spread, part in zip(spreads, np.split(normal, np.cumsum(counts)[:-1]), strict=True):
        kept = spread / (spread + variances)
        parts.append(_along(part, np.sqrt(kept * variances), vectors))
        parts[-1] += kept * along if vectors is None else vectors @ (kept * along)
    return np.concatenate(parts)


def _axes(covariance: Floats) -> tuple[Floats, Floats | None]:
    """Variances of independent parts of the errors, and their directions; scores sum to zero."""
    if covariance.ndim == 1:
        return covariance, None
    centred = covariance - covariance.mean(axis=0)
    centred = centred - centred.mean(axis=1, keepdims=True)
    values, vectors = np.linalg.eigh((centred + centred.T) / 2)
    level = np.argmax(np.abs(vectors.sum(axis=0)))  # the direction that moves all scores alike
    others = np.arange(len(values)) != level
    return np.maximum(values[others], 0), vectors[:, others]


def _log_likelihood(along: Floats, variances: Floats, spreads: Floats) -> Floats:
    """Log likelihood of each spread, shape as `spreads`."""
    total = np.add.outer(spreads, variances)
    return np.asarray(-0.5 * (np.log(total) + np.square(along) / total).sum(axis=1))


def _shares(log_weights: Floats, draws: int) -> NDArray[np.int64]:
    """Whole numbers in proportion to the weights, which add up to `draws`."""
    weights = np.exp(log_weights - log_weights.max())
    ends = np.rint(draws * np.cumsum(weights) / weights.sum()).astype(np.int64)
    return np.asarray(np.diff(ends, prepend=0))


def _along(normal: Floats, root: Floats, vectors: Floats | None) -> Floats:
    """Normal draws of these standard deviations along the directions.

    By the symmetric root, which does not depend on the signs that a solver gives the directions.
    """
    if vectors is None:
        return np.asarray(normal * root)
    return np.asarray(((normal @ vectors) * root) @ vectors.T)


def normal_draws(draws: int, n: int) -> Floats:
    """Standard normal draws, equal at each call, shape (draws, n), to average over.

    The draws hide nothing: what is computed with them is computed from what is public.
    """
    words = seeded_bits(SEED).words((draws, n))
    return np.asarray(ndtri(((words >> np.uint64(11)) + 0.5) / 2.0**53))


MOST_JOINT = 300  # items; with more the joint law gains little and takes long
MOST_DIRECTIONS, FEWEST_DIRECTIONS, CELLS_OF_ALL = 2_000, 500, 8_000_000
LEAST_VARIANCE = 1e-9  # as a share of the largest one: less is rounding
STANDARD_ERRORS = 3.0  # standard errors that are added to a simulated chance
SMALLEST, FURTHEST, CLOSE = 0.5, 12.0, 1e-5  # standard errors between which a limit is sought
LIKELY, MOST_ON_ONE_SIDE = 3.0, 3  # the first guess; secants until a bracket is halved
LEAST = 1e-300  # a chance whose log can be taken

BetterAt = Callable[[float], NDArray[np.bool_]]  # takes a tail chance

equal_draws = lru_cache(maxsize=4)(normal_draws)  # plans rank again and again; at most 1 MB each


def difference_variance(covariance: NDArray[np.float64]) -> NDArray[np.float64]:
    """Variance of value i less value j, shape (n, n); rounding below 0 is raised to 0."""
    variance = np.diagonal(covariance)
    return np.maximum(variance[:, np.newaxis] + variance - 2 * covariance, 0)


def apart(
    errors: ScoreErrors,
    centre: Floats,
    ends: tuple[Floats, Floats],
    reach: Floats,
    quantiles: Floats | float,
) -> NDArray[np.bool_]:
    """The pairs (i, j) of which i is shown to be better, shape (n, n), where curves are no lines.

    The difference of the centres exceeds q times the root of a^2 + b^2 - 2 r a b, where r is the
    correlation of the two errors, a is the standard deviation of the one times its stretch below,
    and b that of the other times its stretch above ([ZD08]). A stretch is how much further the
    interval of that item alone reaches than its error would by the slope at the score.

    Args:
        errors: errors of the scores, with a covariance of shape (n, n).
        centre: shape (n,), of the intervals of single items.
        ends: low and high ends of the scores' intervals, which may be infinite or not known (NaN).
        reach: shape (n,), how far they would reach by the slope, on either side.
        quantiles: q, for all pairs or shape (n, n).
    """
    deviation = np.sqrt(np.maximum(np.diagonal(errors.covariance), 0))
    low, high = ends
    # What is not known, or has no error, comes out as NaN: such a pair is not shown.
    with np.errstate(invalid="ignore", divide="ignore"):
        halves = centre - low, high - centre
        below, above = (np.where(np.isnan(half), np.inf, half) / reach for half in halves)
        a, b = below * deviation, above * deviation
        shared = errors.covariance * np.multiply.outer(below, above)
        square = np.maximum(np.add.outer(a**2, b**2) - 2 * shared, 0)
        ahead: NDArray[np.bool_] = score_differences(errors.centre) > quantiles * np.sqrt(square)
    return ahead


_one_at_a_time = ContextVar("_one_at_a_time", default=False)


@contextlib.contextmanager
def ranks_one_at_a_time() -> Iterator[None]:
    """Leave out what is sure of all items at once, which takes most of the time of an estimate.

    In the block `separate_pairs` finds the interval of each item's rank alone. That interval holds
    the rank with 95 %; what is sure of all at once seldom makes it shorter. For a plan, which ranks
    hundreds of simulated surveys; no release is made in such a block.
    """
    token = _one_at_a_time.set(True)
    try:
        yield
    finally:
        _one_at_a_time.reset(token)


def separate_pairs(
    values: NDArray[np.float64],
    better_at: BetterAt,
    ends_at: EndsAt,
    covariance: NDArray[np.float64] | None = None,
) -> RankSeparation:
    """Rank intervals and groups from the pairs that can be told apart; see `RankSeparation`.

    Args:
        values: shape (n,), what items are ordered by; larger is better.
        better_at: maps a tail chance to shape (n, n): True at (i, j) where item i is shown to be
            better than item j, which only an item of a larger value may be.
        ends_at: maps a tail chance to the ends of an interval around each score.
        covariance: shape (n, n), of the errors of the scores, of which no more than correlations
            counts; None: their joint law is not known.

    Returns:
        Rank intervals that contain the rank by `values`, and groups, greedily from the top. Within
        `ranks_one_at_a_time`, one group and nothing that is sure at once.

    Raises:
        ValueError: an item is said to be better than one whose value is not smaller.
    """
    n = len(values)
    not_larger = values[:, np.newaxis] <= values

    def checked(tail: float) -> NDArray[np.bool_]:
        better = better_at(tail)
        if (better & not_larger).any():
            raise ValueError("an item can be better only than an item of a smaller value")
        return better

    def counts_at(tail: float) -> tuple[Counts, Counts]:
        better = checked(tail)
        return better.sum(axis=0), better.sum(axis=1)

    if _one_at_a_time.get():
        return RankSeparation(*ranks_alone(n, counts_at), np.ones(n, np.int64))
    tails = joint_tails(n, covariance)
    low, high = ends_at(tails.of_scores)
    far = checked(far_tail(n * (n - 1), SPENT_ON_FAR))
    open_ = ~np.eye(n, dtype=np.bool_) & ~far.T  # orders that are not sure, and may seem so
    sure = np.zeros_like(open_)
    while True:
        found = _transitive(sure | checked(tails.of_orders(open_)) | (low[:, np.newaxis] > high))
        if (found == sure).all():
            break
        sure, open_ = found, open_ & ~found
    at_once = AllAtOnce(low, high, *_rank_ends(sure), sure)
    first, last = ranks_alone(n, counts_at)
    first, last = np.maximum(first, at_once.rank_low), np.minimum(last, at_once.rank_high)
    return RankSeparation(first, last, _groups(values, sure), at_once)


@dataclass(frozen=True, slots=True)
class JointTails:
    """Tail probabilities of one error at which all that is said at once misses with 5 %.

    Errors are taken to depend on each other as normal ones of their covariance do, whatever the law
    of each (a Gaussian copula). A normal vector is a direction times an independent length, so the
    chance that one of its parts exceeds z is the mean, over directions, of the chance of a length
    [D80]: the directions are `normal_draws`, the same ones always, and three standard errors
    of that mean are added to it.

    Attributes:
        n_items: n.
        of_scores: chance that one side of one score's interval misses.
        missed: shape (draws,), squared length from which on the interval of some score misses.
        directions: shape (draws, n), errors of the scores of each direction; None: not known.
        deviation: shape (n, n), standard deviation of each difference.
        length: degrees of freedom of the squared length.
    """

    n_items: int
    of_scores: float
    missed: NDArray[np.float64] | None = None
    directions: NDArray[np.float64] | None = None
    deviation: NDArray[np.float64] | None = None
    length: int = 0

    def of_orders(self, open_: NDArray[np.bool_]) -> float:
        """Tail chance of one order, of those that are open, shape (n, n).

        Of what the 5 % leave to orders, the scores' half takes only what it misses where all orders
        hold: an error that takes a score out of its interval often turns an order round as well.
        """
        tail = (LEVEL / 2 - SPENT_ON_FAR) / max(int(open_.sum()), 1)
        if self.directions is None or self.deviation is None or not open_.any():
            return tail
        furthest = np.zeros(len(self.directions))
        errors = np.ascontiguousarray(self.directions.T)  # the errors of an item lie together
        for item, worse in enumerate(map(np.flatnonzero, open_)):
            if len(worse):
                gaps = errors[item] - errors[worse]
                gaps /= self.deviation[item, worse, np.newaxis]
                np.maximum(furthest, gaps.max(axis=0), out=furthest)
        chance = LEVEL - SPENT_ON_FAR
        return max(tail, _joint_tail(furthest, self.length, chance, self.missed))


def joint_tails(n_items: int, covariance: NDArray[np.float64] | None) -> JointTails:
    """Tail probabilities for n items whose errors have this covariance, shape (n, n), or any
    (None).

    They are never smaller than without the covariance, and the same for more than `MOST_JOINT`
    items, or if some error is not known.
    """
    plain = JointTails(n_items, every_score_tail(n_items))
    if covariance is None or not 2 <= n_items <= MOST_JOINT or not np.isfinite(covariance).all():
        return plain
    variances, vectors = np.linalg.eigh(covariance)
    kept = variances > LEAST_VARIANCE * max(float(variances[-1]), 0.0)
    deviation = np.sqrt(difference_variance(covariance))
    np.fill_diagonal(deviation, 1.0)
    own = np.sqrt(np.maximum(np.diagonal(covariance), 0))
    if not (kept.any() and (own > 0).all() and (deviation > 0).all()):
        return plain
    root = vectors[:, kept] * np.sqrt(variances[kept])
    draws = min(MOST_DIRECTIONS, max(FEWEST_DIRECTIONS, CELLS_OF_ALL // n_items**2))
    normal = equal_draws(draws, n_items) @ vectors[:, kept]  # whatever signs a solver gives them
    normal = normal / np.linalg.norm(normal, axis=1, keepdims=True)
    directions, length = normal @ root.T, int(kept.sum())
    furthest = np.abs(directions / own).max(axis=1)
    of_scores = max(plain.of_scores, _joint_tail(furthest, length, LEVEL / 2))
    missed = (float(ndtri(of_scores)) / furthest) ** 2
    return JointTails(n_items, of_scores, missed, directions, deviation, length)


def _joint_tail(
    furthest: NDArray[np.float64],
    length: int,
    chance: float,
    missed: NDArray[np.float64] | None = None,
) -> float:
    """Tail chance of one error at which the largest of all errors is exceeded with `chance`.

    Args:
        furthest: largest error of each direction, in standard errors, for a length of 1.
        length: degrees of freedom of the squared length.
        chance: largest allowed chance of that, or of what `missed` says.
        missed: for each direction, the squared length from which on something else is wrong.
    """

    squares, n_directions = furthest**2, len(furthest)

    def excess(z: float) -> float:
        with np.errstate(divide="ignore"):
            exceeded = z**2 / squares
            each = longer(length, exceeded if missed is None else np.minimum(exceeded, missed))
        mean = float(each.mean())
        each -= mean
        error = math.sqrt(float(each @ each)) / n_directions
        return mean + STANDARD_ERRORS * error - chance

    def height(z: float) -> float:
        return math.log(max(excess(z) + chance, LEAST) / chance)

    if (first := height(SMALLEST)) <= 0:
        return float(ndtr(-SMALLEST))
    near, far = _between(height, first)
    low, high = SMALLEST, FURTHEST
    while high - low > CLOSE:  # bisection; `scipy.optimize` takes longer to load
        middle = (low + high) / 2
        too_near = middle <= near or (middle < far and excess(middle) > 0)
        low, high = (middle, high) if too_near else (low, middle)
    return float(ndtr(-high))


def longer(length: int, square: Floats) -> Floats:
    """Chance that the squared length of a normal vector exceeds `square`, by degrees of freedom.

    Of few degrees it is a finite sum of positive terms, which takes a fifth of the time of the
    general function [AS64, 26.4.4 and 26.4.5]; both agree to 13 digits.

    Args:
        length: degrees of freedom, at least 1.
        square: any shape, at least 0, infinite too.
    """
    if length > MOST_SUMMED:
        return np.asarray(chdtrc(length, square))
    half = np.minimum(square, NO_CHANCE) / 2
    term = np.exp(-half)
    if length % 2:
        root = np.sqrt(half)
        found, term = erfc(root), term * root / math.gamma(1.5)
        first, terms = 1.5, (length - 1) // 2
    else:
        found, first, terms = np.zeros_like(term), 1.0, length // 2
    for number in range(terms):
        found += term
        term *= half
        term /= first + number
    return np.asarray(found)


def _between(height: Callable[[float], float], first: float) -> tuple[float, float]:
    """Two places closer than `CLOSE`, with the root of a falling function between them.

    By secants along z^2, in which the log of a normal tail is nearly a line. Each goes past the
    root that it expects by less than `CLOSE`, so that the other end comes near as well.

    Args:
        height: the function, which has its root between `SMALLEST` and `FURTHEST`.
        first: value at `SMALLEST`.
    """
    near, far, same_side = SMALLEST, FURTHEST, 0
    last, z = (SMALLEST, first), LIKELY
    while far - near > CLOSE / 4:
        there = height(z)
        same_side = same_side + 1 if (there > 0) == (last[1] > 0) else 0
        near, far = (z, far) if there > 0 else (near, z)
        change, beyond = last[1] - there, CLOSE / 8 if there > 0 else -CLOSE / 8
        square = z**2 + there * (z**2 - last[0] ** 2) / change if change else -1.0
        last, z = (z, there), math.sqrt(max(square, 0)) + beyond
        if same_side > MOST_ON_ONE_SIDE or not near < z < far:
            same_side, z = 0, (near + far) / 2
    return near, far


def _transitive(better: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The relation with all that follows from it: who is better than a better one is better."""
    while True:
        known = better.astype(np.float32)
        reached = better | (known @ known > 0)
        if (reached == better).all():
            return better
        better = reached


def _rank_ends(better: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    return 1 + better.sum(axis=0), len(better) - better.sum(axis=1)


def _groups(values: NDArray[np.float64], better: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Going down the values, an item starts a group where a member of the last one is better."""
    groups = np.empty(len(values), np.int64)
    number, start = 0, 0
    order = np.argsort(-values, kind="stable")
    for position, item in enumerate(order):
        if position == 0 or better[order[start:position], item].any():
            number, start = number + 1, position
        groups[item] = number
    return groups


def separate_intervals(values: NDArray[np.float64], ends_at: EndsAt) -> RankSeparation:
    """Separate ranks where an item is better than those whose intervals lie below its own.

    In O(n log n), for items too many for a matrix of pairs. Two items are told apart where neither
    interval misses, so for one item's rank each is asked for at half the chance of a pair.

    Args:
        values: shape (n,), what items are ordered by; larger is better.
        ends_at: maps a tail chance to the ends of an interval around each value; they may be
            infinite.
    """
    n = len(values)
    low, high = ends_at(LEVEL / (2 * n))  # pairs follow from the scores, which spend all of it

    def counts_at(tail: float) -> tuple[Counts, Counts]:
        first, last = _ranks_of_ends(*ends_at(tail / 2))
        return first - 1, n - last

    groups = np.empty(n, np.int64)
    number, best = 0, -np.inf  # best: the largest lower end in the current group
    for item in np.argsort(-values, kind="stable"):
        if number == 0 or best > high[item]:
            number, best = number + 1, -np.inf
        groups[item] = number
        best = max(best, low[item])
    better = low[:, np.newaxis] > high if n <= MOST_PAIRED else None
    at_once = AllAtOnce(low, high, *_ranks_of_ends(low, high), better)
    first, last = ranks_alone(n, counts_at)
    first, last = np.maximum(first, at_once.rank_low), np.minimum(last, at_once.rank_high)
    return RankSeparation(first, last, groups, at_once)


def _ranks_of_ends(
    low: NDArray[np.float64], high: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Ranks that n items can have where intervals that lie apart are in order."""
    n = len(low)
    surely_better = n - np.searchsorted(np.sort(low), high, side="right")
    surely_worse = np.searchsorted(np.sort(high), low, side="left")
    return (1 + surely_better).astype(np.int64), (n - surely_worse).astype(np.int64)
