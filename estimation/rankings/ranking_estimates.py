"""Ranks and intervals from private rankings: Kemeny consensus and Borda scores.

Rankings are taken as independent of each other; the pairs of one ranking are not. Their joint
variation is in the second moments of the half nets, whose sums all scores are computed from.

Undoing a mechanism multiplies scores and noise alike. Scores that are published are therefore drawn
towards zero again where the sums tell little (empirical Bayes, [M83]), but never below the private
rankings as they are: with few rankings or a small epsilon the sums are mostly noise. Intervals are
not drawn: they are those of the sums, hold the truth as often as they say for each item, the best
and the worst too, and always hold the published score.

Consensus of many rankings from their pair counts: Kemeny and Borda.

Of private rankings by the Mallows mechanism with one epsilon, the Kemeny consensus is the maximum
likelihood estimate of a common true ranking. Pairs may be counted from lists that hold few of the
items each; counts may be noisy or debiased, so of any sign.

Minima and sums over all orders of up to 20 items, by dynamic programming over subsets.

An order costs the sum of `cost[a, b]` over the pairs with a in front of b. The value of a subset S,
over the orders of S alone, comes from those of the subsets with one item less: item j in front of
the others adds the sum of cost[j, b] over b in S without j. Subsets are bit sets; those of one size
are done together. The added sum is looked up in two tables, one for the low half of the bits and
one for the high half, which stay in the processor's cache.

References:
    [K59] Kemeny. Mathematics without numbers. 1959.
    [M83] Morris. Parametric empirical Bayes inference. 1983.
    [T98] Truchon. An extension of the Condorcet criterion and Kemeny orders. 1998.
    [HK] Held, Karp. A dynamic programming approach to sequencing problems. 1962.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy
from numpy.typing import NDArray

from hushrank.estimation.common.estimate import Estimate, estimate_of, mean_ranks
from hushrank.estimation.common.links import Floats, score_differences
from hushrank.estimation.common.pair_separation import (
    SPREADS,
    BetterAt,
    ScoreErrors,
    separate_pairs,
)
from hushrank.estimation.common.uncertainty import LEVEL, RankSeparation
from hushrank.estimation.rankings.net_evidence import NetEvidence
from hushrank.estimation.rankings.ranking_evidence import RankingEvidence

MOST_ITEMS = 20


def cheapest_order(cost: Floats) -> NDArray[np.int64]:
    """The order with the smallest cost; of several, the one that comes first alphabetically.

    Exact where the sums of `cost` are exact in a float, as for counts below 2^53.

    Args:
        cost: shape (n, n), n from 1 to 20; the diagonal does not matter.

    Returns:
        shape (n,): the items, front first.

    Raises:
        ValueError: n is above 20, or `cost` is not a square matrix of finite numbers.
    """
    tables = _Added(cost)
    value = _subset_values(tables, np.minimum, np.inf)
    subset, order = len(value) - 1, []
    while subset:
        for item in range(tables.n_items):
            if subset >> item & 1:
                rest = np.array([subset ^ (1 << item)])
                if (value[rest] + tables.of(item, rest))[0] == value[subset]:
                    order.append(item)
                    subset = int(rest[0])
                    break
    return np.array(order, np.int64)


def log_sum_over_orders(cost: Floats) -> float:
    """log of the sum over all n! orders of exp(-cost of the order).

    Raises:
        ValueError: n is above 20, or `cost` is not a square matrix of finite numbers.
    """
    return float(_subset_values(_Added(-np.asarray(cost)), np.logaddexp, -np.inf)[-1])


class _Added:
    """What an item adds in front of a subset."""

    def __init__(self, cost: Floats) -> None:
        cost = np.asarray(cost, np.float64)
        self.n_items = len(cost)
        if cost.shape != (self.n_items, self.n_items) or not np.isfinite(cost).all():
            raise ValueError("cost must be a square matrix of finite numbers")
        if not 1 <= self.n_items <= MOST_ITEMS:
            raise ValueError(f"there must be 1 to {MOST_ITEMS} items, got {self.n_items}")
        self._split = (self.n_items + 1) // 2
        self._low = _subset_sums(cost[:, : self._split])
        self._high = _subset_sums(cost[:, self._split :])

    def of(self, item: int, subsets: NDArray[np.int64]) -> Floats:
        """The sum of cost[item, b] over the b of each subset."""
        low = subsets & ((1 << self._split) - 1)
        return np.asarray(self._low[item][low] + self._high[item][subsets >> self._split])


def _subset_sums(columns: Floats) -> Floats:
    """Row sums over every subset of the columns, shape (n, 2^columns)."""
    sums = np.zeros((len(columns), 1))
    for column in columns.T:
        sums = np.concatenate([sums, sums + column[:, None]], axis=1)
    return sums


def _subset_values(added: _Added, combine: np.ufunc, neutral: float) -> Floats:
    size = np.bitwise_count(np.arange(1 << added.n_items))
    by_size = np.split(np.argsort(size, kind="stable"), np.cumsum(np.bincount(size))[:-1])
    value = np.full(len(size), neutral)
    value[0] = 0.0
    for subsets in by_size[1:]:
        for item in range(added.n_items):
            own = subsets[(subsets >> item & 1).astype(bool)]
            rest = own ^ (1 << item)
            value[own] = combine(value[own], value[rest] + added.of(item, rest))
    return value


Order = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Consensus:
    """An order of all items, and how near it is to the best.

    Attributes:
        order: shape (n,), items, best first.
        disagreements: sum of wins[b, a] over the pairs with a in front of b: comparisons that
            contradict the order.
        lower_bound: no order has fewer disagreements than this.
        optimal: `order` is proven to have the fewest.
    """

    order: Order
    disagreements: float
    lower_bound: float
    optimal: bool


def kemeny(wins: NDArray[np.int64] | Floats) -> Consensus:
    """The order with the fewest disagreements.

    Items split into groups such that each item of an earlier group beats each of a later one by
    majority; the best orders of the groups, one after the other, are a best order of all, because
    every pair across groups is then on its majority's side ([T98]). Groups of up to 20 items are
    solved exactly. For a larger one the order is a local optimum (Borda order, then the best move
    of one item until none helps), bounded below by the smaller count of every pair.

    Where several orders are best, items earlier in the catalogue come first.

    Args:
        wins: shape (n, n), wins[a, b] = times a beat b, finite; the diagonal is ignored.

    Raises:
        ValueError: `wins` is not a square matrix of finite numbers, or is empty.
    """
    wins = np.asarray(wins, np.float64)
    if wins.ndim != 2 or wins.shape[0] != wins.shape[1] or not wins.size:
        raise ValueError(f"wins must be a square matrix, got shape {wins.shape}")
    if not np.isfinite(wins).all():
        raise ValueError("wins must be finite")
    order: list[int] = []
    excess, optimal = 0.0, True
    for group in majority_groups(wins):
        own = wins[np.ix_(group, group)]
        exact = len(group) <= MOST_ITEMS
        best = cheapest_order(own.T) if exact else _local_optimum(own)
        order.extend(group[best])
        if exact:  # what the group must cost beyond the smaller count of each pair
            excess += disagreements(own, best) - _smaller_counts(own)
        optimal &= exact
    found = np.array(order, np.int64)
    cost, bound = disagreements(wins, found), _smaller_counts(wins) + excess
    return Consensus(found, cost, bound, optimal or cost <= bound)


def borda_scores(wins: NDArray[np.int64] | Floats) -> Floats:
    """Half of wins minus losses, which sums to zero.

    For lists that all hold all items this is the mean-centred Borda count: the number of items that
    each item beats, summed over the lists.
    """
    wins = np.asarray(wins, np.float64)
    return np.asarray((wins.sum(axis=1) - wins.sum(axis=0)) / 2)


def disagreements(wins: NDArray[np.int64] | Floats, order: Order) -> float:
    """Sum of wins[b, a] over the pairs with a in front of b in `order`."""
    return float(np.tril(np.asarray(wins)[np.ix_(order, order)], -1).sum())


def majority_groups(wins: NDArray[np.int64] | Floats) -> list[Order]:
    """Items by strongly connected components of "at least as many wins as losses", best first.

    Each item of a group beats each item of every later group.
    """
    margin = wins - wins.T
    _, label = scipy.sparse.csgraph.connected_components(
        margin >= 0, directed=True, connection="strong"
    )
    beaten = ((margin > 0) & (label[:, None] != label)).sum(axis=1)  # the same in a whole group
    items = np.lexsort((np.arange(len(wins)), label, -beaten))
    starts = np.flatnonzero(np.diff(label[items])) + 1
    return [group.astype(np.int64) for group in np.split(items, starts)]


def _smaller_counts(wins: Floats) -> float:
    """Sum over the pairs of the smaller of their two counts: a lower bound for every order."""
    return float(np.triu(np.minimum(wins, wins.T), 1).sum())


def _local_optimum(wins: Floats) -> Order:
    order = np.argsort(-borda_scores(wins), kind="stable")
    margin = wins - wins.T
    places = np.arange(len(wins))
    least = 1e-12 * np.abs(margin).sum()  # less is rounding
    while True:
        ahead = np.cumsum(margin[np.ix_(order, order)], axis=1)
        own = ahead[places, places][:, None]  # the diagonal of the margins is zero
        before = np.concatenate([np.zeros((len(wins), 1)), ahead[:, :-1]], axis=1)
        gain = np.where(places[:, None] > places, own - before, own - ahead)
        source, target = np.unravel_index(np.argmax(gain), gain.shape)
        if gain[source, target] <= least:
            return order
        order = np.insert(np.delete(order, source), target, order[source])


def kemeny_estimate(evidence: RankingEvidence) -> tuple[Estimate, Consensus]:
    """The order with the fewest disagreements ([K59]); see `consensus.kemeny`.

    Scores are places above the middle, (n + 1) / 2 - rank. An item is surely ahead of another where
    the order says so and their margin is beyond chance; rank intervals and groups follow from that.
    """
    consensus = kemeny(evidence.wins)
    place = np.argsort(consensus.order)
    above = place[:, np.newaxis] < place

    def better_at(tail: float) -> NDArray[np.bool_]:
        return np.asarray((evidence.margins > evidence.reach(tail)) & above)

    informative = bool(evidence.totals.any())
    return order_estimate(consensus.order, better_at, informative=informative), consensus


def order_estimate(order: NDArray[np.int64], better_at: BetterAt, *, informative: bool) -> Estimate:
    """Places above the middle in an order, and the ranks that items may have.

    Args:
        order: items, best first.
        better_at: as for `separate_pairs`; it says nothing against the order.
        informative: whether anything was learned.
    """
    n_items, middle = len(order), (len(order) + 1) / 2
    rank = np.empty(n_items)
    rank[order] = np.arange(1, n_items + 1)
    scores = middle - rank

    def ends_at(_: float) -> tuple[Floats, Floats]:  # a score says no more than its rank
        return np.full(n_items, -np.inf), np.full(n_items, np.inf)

    separation = _with_places(separate_pairs(scores, better_at, ends_at), middle)
    return estimate_of(
        scores,
        np.asarray(middle - separation.rank_high, np.float64),
        np.asarray(middle - separation.rank_low, np.float64),
        separation,
        rank=rank,
        informative=informative,
    )


def _with_places(separation: RankSeparation, middle: float) -> RankSeparation:
    """The ends of scores that follow from those of ranks."""
    sure = separation.at_once
    if sure is None:
        return separation
    low, high = np.asarray(middle - sure.rank_high), np.asarray(middle - sure.rank_low)
    return replace(separation, at_once=replace(sure, low=low, high=high))


@dataclass(frozen=True, slots=True)
class Drawn:
    """Scores that were drawn towards zero.

    Attributes:
        estimate: of the scores; intervals and ranks are those of the undrawn ones.
        factor: what a small score was multiplied by, in [0, 1]; 1: not drawn.
    """

    estimate: Estimate
    factor: float


def borda_estimate(evidence: NetEvidence, *, drawn: bool = True) -> Drawn:
    """Mean number of places above the middle of a ranking; one without the item counts as 0.

    With complete rankings this is the Borda score, centred. A score is never further from 0 than
    half a list, so its interval is cut off there. Of an item that nobody may have ranked nothing is
    known: its interval and its rank are open, and its error is as large as a score can be.

    Args:
        evidence: sums of half nets. Where the mechanism was not undone, scores are those of private
            rankings, and no interval of a true score is known: all are infinite.
        drawn: draw the scores towards zero where that promises a smaller error, by
            `drawing_factor`.
    """
    n_items, n = evidence.n_items, max(evidence.rankings, 1)
    undrawn, covariance = evidence.sums / n, evidence.covariance / n**2
    known = evidence.ranked
    bias, reach = evidence.bias if evidence.undone else 0.0, (evidence.longest - 1) / 2
    factor = drawing_factor(evidence) if drawn else 1.0
    if drawn and (largest := float(np.abs(undrawn).max())) > 0:
        factor = min(factor, reach / largest)
    scores, error = factor * undrawn, np.sqrt(np.diagonal(covariance))
    between = np.sqrt(evidence.differences) / n
    if known.any():
        both = known[:, np.newaxis] & known
        covariance = np.where(both, covariance, reach**2 * np.eye(n_items))

    def ends_at(tail: float) -> tuple[Floats, Floats]:
        if not evidence.undone:
            return np.full(n_items, -np.inf), np.full(n_items, np.inf)
        half_width = evidence.reach(tail) * error + bias
        low, high = (np.clip(undrawn + side * half_width, -reach, reach) for side in (-1, 1))
        low, high = np.minimum(low, scores), np.maximum(high, scores)
        return np.where(known, low, -np.inf), np.where(known, high, np.inf)

    def better_at(tail: float) -> NDArray[np.bool_]:
        margin = evidence.reach(tail) * between + 2 * bias
        ahead = score_differences(undrawn) > margin
        return np.asarray(ahead & known[:, np.newaxis] & known)

    estimate = estimate_of(
        scores,
        *ends_at(LEVEL / 2),
        separate_pairs(undrawn, better_at, ends_at, covariance),
        rank=mean_ranks(undrawn),
        informative=bool(known.any()),
        errors=ScoreErrors(undrawn, covariance),
    )
    return Drawn(estimate, factor)


def drawing_factor(evidence: NetEvidence) -> float:
    """What undone sums are multiplied by: between what the mechanism left of them, and 1."""
    if not (evidence.undone and evidence.totals.any()):
        return 1.0
    return max(evidence.kept, shrinkage(evidence.sums, evidence.covariance))


def shrinkage(scores: Floats, covariance: Floats) -> float:
    """The factor in (0, 1] that brings unbiased scores nearest to the true ones, by what they show.

    True scores are taken as normal around zero with variance t^2, and the errors as of one size v:
    given t the best factor is t^2 / (t^2 + v). It is averaged over t by how well t explains the
    scores; before them, t and log t count as equally unknown (the prior is flat in t^(1/2)).
    """
    free = max(len(scores) - 1, 1)
    centred, size = scores - scores.mean(), float(np.square(scores - scores.mean()).sum())
    error = float(np.trace(covariance) - covariance.sum() / len(scores)) / free
    if size == 0 or error <= 0:
        return 1.0
    spreads = np.square(SPREADS) * size / len(centred)
    total = spreads + error
    log_weights = -0.5 * (free * np.log(total) + size / total) + 0.5 * np.log(SPREADS)
    weights = np.exp(log_weights - log_weights.max())
    return float(weights @ (spreads / total) / weights.sum())
