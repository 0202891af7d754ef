"""Intervals, rank intervals and groups of equals from the variance of an estimate.

Laplace noise plus sampling error is not normal. A Laplace variable of scale b is a normal one whose
variance is 2 b^2 E, with E exponential of mean 1, so a normal variable plus k independent Laplace
ones of equal scale is a normal variable whose variance is v + 2 b^2 G, with G gamma of shape k. Its
tail is therefore one smooth integral of normal tails, all of them positive: no cancellation,
however deep in the tail.

Where the curve of each item crosses what was seen: ends of intervals, found by bisection.

Most curves are sums over opponents, and an end of one interval asks for some forty values of each:
`WinCurves` tabulates them once.

References:
    [RSW14] Romano, Shaikh, Wolf. A practical two-step method for testing moment inequalities. 2014.
    [MRSW] Mogstad, Romano, Shaikh, Wilhelm. Inference for ranks. 2024.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtr, ndtri

from hushrank.estimation.common.links import Floats, Link
from hushrank.privacy.units import NoiseKind

SET_GAP = 1.0  # difference of scores between a set that nothing limits and the next item
FAR_GAP = 0.75  # difference between an item far off and the limits of most others, likewise
SET_REACH = 3.0  # standard deviations of its noise that the losses of such a set may have
MOST = 0.75  # share of the items with two limits that an item lies beyond where it is far off
LEVEL = 0.05  # intervals miss this often
SPENT_ON_FAR = 0.002  # share of it that is spent to find pairs that need no test (`far_tail`)
STEP = 1.25  # ratio of one number of doubtful opponents to the one tried before
KNOTS = 65  # knots of the table of quantiles; their spline is right to 1 part in 10^5
MOST_STEPS = 100  # steps of Newton's method for quantiles
LAST_STEP = 1e-8  # last step towards a quantile: the next one would be below rounding
GRID_STEP = 0.1  # trapezoid rule in log G, whose spread is 1 / sqrt(k): converges geometrically,
GRID_SPREADS = 0.5  # here past 10^-15
GRID_BELOW, GRID_ABOVE = 40.0, 6.0  # ends of the grid, from log k, for k = 1

# margin(x, y), elementwise: a value x that exceeds y by more is shown to be the larger one.
Margin = Callable[[NDArray[np.float64], NDArray[np.float64]], NDArray[np.float64]]
MarginAt = Callable[[float], Margin]  # takes a tail chance
EndsAt = Callable[[float], tuple[NDArray[np.float64], NDArray[np.float64]]]
Counts = NDArray[np.int64]
CountsAt = Callable[[float], tuple[Counts, Counts]]  # numbers of better and of worse items
MOST_PAIRED = 2_000  # items up to which who is better than whom is kept as a matrix


def quantile(
    noise_share: NDArray[np.float64], tail: float, kind: NoiseKind, n_draws: int
) -> NDArray[np.float64]:
    """Value that sampling error plus privacy noise, of variance 1, exceeds with chance `tail`.

    Sampling error is taken as normal, discrete noise as continuous noise of the same variance.

    Args:
        noise_share: the noise's share of the total variance, in [0, 1], any shape.
        tail: chance, in (0, 1/2).
        kind: law of the noise.
        n_draws: independent draws of equal scale of which the noise is the sum.

    Returns:
        The same shape as `noise_share`.

    Raises:
        ValueError: `tail` is outside its range.
    """
    if not 0 < tail < 0.5:
        raise ValueError(f"tail must be above 0 and below 1/2, got {tail!r}")
    if kind is NoiseKind.GAUSSIAN:
        return np.full(np.shape(noise_share), -ndtri(tail))
    return np.asarray(_laplace_quantile(tail, n_draws)(noise_share))


@dataclass(frozen=True)
class _Spline:
    """A cubic spline through values at equal steps from 0 to 1, with the ends "not a knot".

    It equals `scipy.interpolate.CubicSpline`, which takes a fifth of a second to load.

    Attributes:
        values: values at the knots.
        slopes: derivative at the knots, times the step.
    """

    values: NDArray[np.float64]
    slopes: NDArray[np.float64]

    @staticmethod
    def through(values: NDArray[np.float64]) -> _Spline:
        """Solve for the slopes with which neighbouring cubics have equal second derivatives."""
        n, rise = len(values), np.diff(values)
        matrix = 4 * np.eye(n) + np.eye(n, k=1) + np.eye(n, k=-1)
        first, last = (5 * rise[0] + rise[1]) / 2, (rise[-2] + 5 * rise[-1]) / 2
        right = np.concatenate([[first], 3 * (rise[1:] + rise[:-1]), [last]])
        matrix[0, :2], matrix[-1, -2:] = (1, 2), (2, 1)  # equal third derivatives at the ends
        return _Spline(values, np.linalg.solve(matrix, right))

    def __call__(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Evaluate it at x, in [0, 1], any shape."""
        scaled = np.asarray(x) * (len(self.values) - 1)
        knot = np.clip(scaled.astype(np.int64), 0, len(self.values) - 2)
        t, rise = scaled - knot, self.values[knot + 1] - self.values[knot]
        first, second = self.slopes[knot], self.slopes[knot + 1]
        cubic = (first + second - 2 * rise) * t + (3 * rise - 2 * first - second)
        return np.asarray(self.values[knot] + t * (first + t * cubic))


@lru_cache(maxsize=512)  # rank intervals of 1 000 items ask for about 80 tails
def _laplace_quantile(tail: float, n_draws: int) -> _Spline:
    """The quantile as a function of the noise's share of the variance.

    By Newton's method. The log of the tail chance is concave and falls, so from the second step on
    no x is below its quantile, and each is nearer than the one before.
    """
    mixture = _Mixture.of(np.linspace(0, 1, KNOTS), n_draws)
    x = np.full(KNOTS, -ndtri(tail))  # quantile of a normal variable
    for _ in range(MOST_STEPS):
        log_chance = mixture.log_tail(x)
        steepness = np.exp(mixture.log_density(x) - log_chance)
        step = (log_chance - math.log(tail)) / steepness
        x = x + step
        if np.abs(step).max() <= LAST_STEP:
            return _Spline.through(x)
    raise RuntimeError(f"no quantile was found in {MOST_STEPS} steps at tail {tail!r}")


def log_tail(
    x: NDArray[np.float64] | float, noise_share: NDArray[np.float64] | float, n_draws: int
) -> NDArray[np.float64]:
    """Log chance that a normal plus `n_draws` Laplace variables, of total variance 1, exceed x.

    Args:
        x: values of at least 0, any shape.
        noise_share: the Laplace variables' share of the variance, in [0, 1], of the same shape.
        n_draws: number of Laplace variables, of equal scale.
    """
    return _Mixture.of(noise_share, n_draws).log_tail(x)


class _Mixture:
    """Sum of these variables, as the mixture of normal variables over G of the module's text.

    It is made once for all x at which it is asked.
    """

    def __init__(
        self, log_density: NDArray[np.float64], variance: NDArray[np.float64], step: float
    ) -> None:
        """Args: log density of log G on a grid of that step; variance at each share and log G."""
        self._log_density_of_g = log_density
        self._step = step
        self._deviation = np.sqrt(variance)
        self._twice_variance = 2 * variance
        self._half_log = np.log(2 * np.pi * variance) / 2

    @classmethod
    def of(cls, noise_share: NDArray[np.float64] | float, n_draws: int) -> Self:
        """See `log_tail` for the arguments."""
        spread = 1 / math.sqrt(n_draws)
        step = min(GRID_STEP, GRID_SPREADS * spread)
        lowest = math.log(n_draws) - GRID_BELOW * spread
        highest = math.log(n_draws) + min(GRID_ABOVE, GRID_BELOW * spread)
        log_gamma = np.arange(lowest, highest, step)
        gamma = np.exp(log_gamma)
        share = np.expand_dims(noise_share, -1)
        log_density = n_draws * log_gamma - gamma - math.lgamma(n_draws)
        return cls(log_density, (1 - share) + share / n_draws * gamma, step)

    def log_tail(self, x: NDArray[np.float64] | float) -> NDArray[np.float64]:
        """Log chance to exceed each x, which has the shape of the shares."""
        return self._log_mean(log_ndtr(-np.expand_dims(x, -1) / self._deviation))

    def log_density(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Log density at each x: its exponential is minus the slope of the tail."""
        square = np.expand_dims(x, -1) ** 2
        return self._log_mean(-square / self._twice_variance - self._half_log)

    def _log_mean(self, log_of_normal: NDArray[np.float64]) -> NDArray[np.float64]:
        """Log of the mean over G."""
        log_integrand = self._log_density_of_g + log_of_normal
        largest = log_integrand.max(axis=-1, keepdims=True)  # scipy's logsumexp takes much longer
        total = np.exp(log_integrand - largest).sum(axis=-1) * self._step
        return np.asarray(largest[..., 0] + np.log(total))


@dataclass(frozen=True, slots=True)
class AllAtOnce:
    """Statements about all n items at once: all of them together are true with 95 %.

    Half of the 5 % is spent on the scores and half on the pairs (Bonferroni), and what follows from
    both for free is added: items whose intervals lie apart are in order, and whoever is better than
    a better one is better. So intervals, ranks, groups and sentences that are read off this one
    relation never contradict each other.

    Attributes:
        low, high: shape (n,), an interval of each score.
        rank_low: shape (n,), 1 + the number of items that are surely better.
        rank_high: shape (n,), n - the number of items that are surely worse.
        better: shape (n, n), True at (i, j) where item i is surely better than item j; None where
            items are too many for a matrix.
    """

    low: NDArray[np.float64]
    high: NDArray[np.float64]
    rank_low: NDArray[np.int64]
    rank_high: NDArray[np.int64]
    better: NDArray[np.bool_] | None


@dataclass(frozen=True, slots=True)
class RankSeparation:
    """Ranks that each item may have; arrays of shape (n,), in catalogue order.

    Attributes:
        rank_low, rank_high: 95 % interval of each rank, one item at a time.
        groups: 1 is best; no two items with the same number are surely in order, by `at_once`; all
            are in one where nobody worked that out.
        at_once: statements that are sure of all items together; None where nobody worked them out.
    """

    rank_low: NDArray[np.int64]
    rank_high: NDArray[np.int64]
    groups: NDArray[np.int64]
    at_once: AllAtOnce | None = None


def every_pair_tail(n_items: int, undecided: int | None = None) -> float:
    """Tail chance of one direction of one pair, where all pairs are to be right at once.

    All together miss with half of the 5 %, less what finding `undecided` spends of it.

    Args:
        n_items: n.
        undecided: pairs that are not far apart (`far_tail`); None: all n (n - 1) / 2, at no cost.
    """
    pairs = n_items * max(n_items - 1, 1) // 2
    if undecided is None:
        return LEVEL / 2 / (2 * max(pairs, 1))
    return (LEVEL / 2 - SPENT_ON_FAR) / (2 * max(undecided, 1))


def far_tail(claims: int, spent: float) -> float:
    """Tail chance at which a pair is so far apart that nobody will take it for the other way round.

    The two steps of [RSW14]. With chance 1 - spent / 2 no estimated difference, in standard errors,
    is larger than the true one by more than z = z(spent / 2 / claims). So a pair that is estimated
    2 z apart is truly z apart, and all such pairs together are taken for the other way round with
    chance spent / 2 at most, whatever is claimed of the others.
    """
    return float(ndtr(2 * ndtri(spent / 2 / max(claims, 1))))


def every_score_tail(n_items: int) -> float:
    """Tail chance of one side of one interval, so that one of n misses with half of the 5 %."""
    return LEVEL / 2 / (2 * n_items)


def ranks_alone(n_items: int, counts_at: CountsAt) -> tuple[Counts, Counts]:
    """95 % interval of each rank, one item at a time ([MRSW], with fewer opponents in doubt).

    That an item's rank is r or better means that at most r - 1 items are better than it, so n - r
    of its opponents or more are not. Where r opponents seem better than it, one of those n - r
    does: so each is tested at the chance for n - r pairs, not n - 1. (With fewer than r - 1 better
    ones several of the others must seem so, which is no more likely.) Opponents that are far behind
    (`far_tail`) need no test and are not counted either.

    Args:
        n_items: n.
        counts_at: maps a tail chance of one direction of one pair to how many items are shown to
            be better than each, and how many to be worse; shape (n,).

    Returns:
        First and last rank of each item, shape (n,).
    """
    n = n_items
    first, last = np.ones(n, np.int64), np.full(n, n)
    far, *tails = rank_tails(n)
    far_better, far_worse = counts_at(far)
    for doubtful, tail in zip(_doubtful(n), tails, strict=True):
        better, worse = counts_at(tail)
        rejected = n - better - far_worse <= doubtful
        first = np.where(rejected, np.maximum(first, 1 + better), first)
        rejected = n - worse - far_better <= doubtful
        last = np.where(rejected, np.minimum(last, n - worse), last)
    return first, last


def rank_tails(n_items: int) -> list[float]:
    """The tail probabilities that `ranks_alone` asks for, of n items; far pairs have the first."""
    far = far_tail(max(n_items - 1, 1), SPENT_ON_FAR / 2)
    return [far, *((LEVEL / 2 - SPENT_ON_FAR / 2) / doubtful for doubtful in _doubtful(n_items))]


def _doubtful(n_items: int) -> list[int]:
    """Numbers of doubtful opponents that are tried: up to all of them."""
    others, tried = max(n_items - 1, 1), [1]
    while tried[-1] < others:
        tried.append(min(max(tried[-1] + 1, int(STEP * tried[-1])), others))
    return tried


def separate_ranks(
    values: NDArray[np.float64], margin_at: MarginAt, ends_at: EndsAt
) -> RankSeparation:
    """Rank intervals and groups from all pairs of items, in O(n log n).

    Groups: going down the ranking, an item joins the current group if it cannot be told from any
    member of it, else it starts the next one. So no pair of items in a group is surely in
    order; an item is surely worse than at least one member of the group above it, not always than
    all of them: the rank intervals say how far.

    Args:
        values: shape (n,), what items are ordered by; larger is better.
        margin_at: by how much x must exceed y for that order to be shown, where a tail chance is
            allowed: at least 0, and y + margin(x, y) must not decrease in y. Whoever is shown
            to be better than an item is then better than all below it.
        ends_at: maps a tail chance to the ends of an interval around each score. They are widened
            until they ascend with the values.

    Returns:
        Rank intervals and groups.
    """
    n = len(values)
    order = np.argsort(-values, kind="stable")
    descending = values[order]
    low, high = (ends[order] for ends in ends_at(every_score_tail(n)))
    low, high = np.minimum.accumulate(low), np.maximum.accumulate(high[::-1])[::-1]
    apart = np.searchsorted(-high, -low, side="right")  # the first one below the interval

    def first_worse_at(tail: float) -> Counts:
        return _first_worse(descending, margin_at(tail))

    def counts_at(tail: float) -> tuple[Counts, Counts]:
        worse = first_worse_at(tail)
        return _rank_low(worse) - 1, n - worse

    undecided = int((first_worse_at(far_tail(n * (n - 1), SPENT_ON_FAR)) - np.arange(n) - 1).sum())
    sure = np.minimum(first_worse_at(every_pair_tail(n, undecided)), apart)
    first, last = ranks_alone(n, counts_at)
    back = np.empty(n, np.intp)
    back[order] = np.arange(n)
    better = None
    if n <= MOST_PAIRED:
        better = (np.arange(n) >= sure[:, np.newaxis])[back][:, back]
    at_once = AllAtOnce(
        low[back], high[back], _rank_low(sure)[back], sure[back].astype(np.int64), better
    )
    first, last = np.maximum(first, _rank_low(sure)), np.minimum(last, sure)
    return RankSeparation(first[back], last[back].astype(np.int64), _runs(sure)[back], at_once)


def _rank_low(first_worse: NDArray[np.int64]) -> NDArray[np.int64]:
    """1 + how many are surely better, for each position."""
    n = len(first_worse)
    return np.asarray(1 + np.cumsum(np.bincount(first_worse, minlength=n)[:n]))


def _first_worse(descending: NDArray[np.float64], margin: Margin) -> NDArray[np.int64]:
    """Find, for each position, the first one further down that is shown to be worse, or n."""
    n = len(descending)
    low, high = np.arange(1, n + 1), np.full(n, n)
    while (open_ := low < high).any():
        middle = (low + high) // 2
        other = descending[np.minimum(middle, n - 1)]
        worse = descending - other > margin(descending, other)
        high = np.where(open_ & worse, middle, high)
        low = np.where(open_ & ~worse, middle + 1, low)
    return low


def _runs(first_worse: NDArray[np.int64]) -> NDArray[np.int64]:
    """Number, from 1, the longest runs of positions without a sure pair, greedily from the top."""
    n = len(first_worse)
    numbers = np.empty(n, np.int64)
    number, end = 0, 0
    for position in range(n):
        if position == end:
            number, end = number + 1, n
        end = min(end, int(first_worse[position]))
        numbers[position] = number
    return numbers


FARTHEST = 30.0  # a score further than this from all others has no effect that anybody could see
BISECTIONS = 36  # halvings of an interval of length 60 and more: 1e-9 of it is left
FEW_ITEMS = 200  # up to here three bisections at once are faster: seven scores of each item
CROSSING_STEP = (
    0.1  # of the table of a curve; cubics between its rows are right to 1e-7 of the weights
)

EndsAtAll = Callable[[Sequence[float]], tuple[Floats, Floats]]  # takes tail probabilities


def crossing(
    beyond: Callable[[Floats], NDArray[np.bool_]], scores: Floats, curves: tuple[int, ...] = ()
) -> Floats:
    """The score of each item at which its curve crosses, the other items being at `scores`.

    Args:
        beyond: maps scores for each curve of each item, shape (..., *curves, n), to whether it has
            crossed there; False up to some score and True from there on.
        scores: shape (n,).
        curves: number of curves of each item: together they take far less time than one by one.

    Returns:
        Shape (*curves, n); minus infinity where the curve has crossed everywhere, infinity where
        nowhere.
    """
    first, last = scores.min() - FARTHEST, scores.max() + FARTHEST
    low, step = np.full((*curves, len(scores)), first), last - first
    nowhere = np.ones(low.shape, np.bool_)
    halvings = 3 if len(scores) <= FEW_ITEMS else 1
    parts = np.arange(1, 1 << halvings).reshape(-1, *(1 for _ in low.shape))
    for _ in range(BISECTIONS // halvings):
        step /= 1 << halvings
        before = np.count_nonzero(~beyond(low + step * parts), axis=0)
        low = low + step * before
        nowhere &= before == len(parts)
    found = np.where(low == first, -np.inf, low + step / 2)
    return np.where(nowhere, np.inf, found)


def scores_of_net_wins(net_wins: Floats, weights: Floats, scores: Floats, link: Link) -> Floats:
    """The score at which each item would have its net wins, the other items being at `scores`.

    Args:
        net_wins: sum over opponents of weight times F, shape (n,).
        weights: shape (n, n).
        scores: shape (n,).
        link: F.

    Returns:
        Shape (n,); infinite where no score has such net wins.
    """

    def strong(at: Floats) -> NDArray[np.bool_]:
        chance = link.cdf(np.subtract.outer(at, scores))
        return np.asarray((weights * chance).sum(axis=-1) > net_wins)

    return crossing(strong, scores)


def ends_together(ends_at: EndsAtAll, n_items: int) -> EndsAt:
    """Ends at one tail chance, of which those that rank intervals ask for are found at once.

    Args:
        ends_at: maps tail probabilities to the lower and upper ends, shape (tails, n).
        n_items: n.
    """
    tails, known = rank_tails(n_items), dict[float, tuple[Floats, Floats]]()

    def at(tail: float) -> tuple[Floats, Floats]:
        if tail == tails[0] and not known:  # the first one that rank intervals ask for
            known.update(zip(tails, zip(*ends_at(tails), strict=True), strict=True))
        if tail in known:
            return known[tail]
        low, high = ends_at([tail])
        return low[0], high[0]

    return at


def far_off(low: Floats, high: Floats) -> NDArray[np.bool_]:
    """The items that may lie anywhere above, or below, most items that have two limits.

    Their scores say little of how far off they are. A zero that is the mean of all scores would
    move with them, and no interval of the others would hold. An item nearer than `FAR_GAP` to the
    others stays: a newcomer that was shown little has one end too, and intervals of the others
    allow for its error.

    Args:
        low, high: ends of the intervals, shape (n,), which may be infinite.
    """
    below, above = np.isfinite(low), np.isfinite(high)
    limited = below & above
    if not limited.any():
        return limited
    over = below & ~above & (low > np.quantile(high[limited], MOST) + FAR_GAP)
    under = above & ~below & (high < np.quantile(low[limited], 1 - MOST) - FAR_GAP)
    return np.asarray(over | under)


def far_sets(
    wins: Floats, scores: Floats, deviation: float
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """The items of a set that may lie anywhere above all others together, and anywhere below.

    Two items that beat all others and meet each other limit each other, so none of them is far off
    by its own counts; but all losses of the two to the others may be noise. Such a set has from two
    items to less than half of all, a gap in the scores beside it, and no more losses to the others
    than the noise of these counts explains.

    Args:
        wins: noisy, in comparisons, shape (n, n).
        scores: shape (n,).
        deviation: standard deviation of the noise in one entry.
    """
    n, found = len(scores), []
    sizes = np.arange(2, (n + 1) // 2)
    for sign, lost in ((1, wins.T), (-1, wins)):
        order = np.argsort(-sign * scores, kind="stable")
        within = lost[np.ix_(order, order)].cumsum(axis=0).cumsum(axis=1)
        crossing_it = within[sizes - 1, -1] - within[sizes - 1, sizes - 1]
        gap = np.abs(scores[order[sizes - 1]] - scores[order[sizes]])
        noise = SET_REACH * deviation * np.sqrt(sizes * (n - sizes))
        open_sizes = sizes[(crossing_it <= noise) & (gap > SET_GAP)]
        members = np.zeros(n, np.bool_)
        members[order[: open_sizes.max(initial=0)]] = True
        found.append(members)
    return found[0], found[1]


@dataclass(frozen=True, slots=True)
class WinCurves:
    """S_i(x) = sum over j of w[i, j] F(x - score_j), what item i of score x wins; tabulated.

    Attributes:
        first: x of the first row of the table.
        rows: rows of each item's table; a cubic goes from each to the next.
        cubics: shape (n * rows, 4), item by item: S_i at the row, how much it rises to the next,
            and how much more, and then less, its slope would let it. The last row has the first
            alone.
    """

    first: float
    rows: int
    cubics: Floats

    @classmethod
    def of(cls, weights: Floats, scores: Floats, link: Link) -> Self:
        """Build the curves of the weights w, shape (n, n), wherever `crossing` looks for an end."""
        first, last = float(scores.min()) - FARTHEST, float(scores.max()) + FARTHEST
        x = first + CROSSING_STEP * np.arange(np.ceil((last - first) / CROSSING_STEP) + 1)
        away = np.subtract.outer(scores, x)
        np.negative(away, out=away)
        chance = link.cdf(away)
        values, slopes = weights @ chance, weights @ (CROSSING_STEP * link.slope(away) * chance)
        del away, chance  # the tables are as large
        cubics = np.zeros((*values.shape, 4))
        cubics[..., 0], rise = values, cubics[:, :-1, 1]
        np.subtract(values[:, 1:], values[:, :-1], out=rise)
        np.subtract(slopes[:, :-1], rise, out=cubics[:, :-1, 2])
        np.subtract(rise, slopes[:, 1:], out=cubics[:, :-1, 3])
        return cls(first, len(x), cubics.reshape(-1, 4))

    def at(self, x: Floats) -> Floats:
        """S_i(x_i), shape (..., n), by the cubics with the values and slopes of the table."""
        end = self.rows - 1
        place = np.minimum(np.maximum((x - self.first) / CROSSING_STEP, 0), end)
        row = np.minimum(place.astype(np.int64), end - 1)
        t = place - row
        cubics = self.cubics.take(row + self.rows * np.arange(x.shape[-1]), axis=0)
        low, rise, more, less = (cubics[..., k] for k in range(4))
        bend = (1 - t) * more + t * less
        return np.asarray(low + t * rise + t * (1 - t) * bend)
