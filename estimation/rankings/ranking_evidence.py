"""Evidence of private rankings about each pair of items, as they are or with the mechanism undone.

The Kemeny consensus is found by pairs; scores need less and are surer of it (`net_evidence`).

A pair's *margin* is the number of rankings with the first item above the second, less those the
other way round. Where rankings are independent and the two items equally good, its variance is the
sum of the squares of what each ranking adds to it. That, and not the variance at the margin that
was found, tells whether an order is sure: three rankings that agree have no variance at all.

Undoing works list by list: the law of the private places of two items depends on the list's length
and epsilon alone, so partial lists are undone each by its
own table.

A private ranking keeps a pair's order more often the further apart its items are in the true one,
so the share of private rankings with a above b is pulled towards one half by an amount that depends
on distances nobody sees. But the law of the private places (k, l) of two items given the true ones
(i, j) is known: it does not depend on which items they are. Let K be that law, (i, j) by (k, l),
and h the table with K h = 1{i < j}. Then the mean of h over the private places of a and b is
unbiased for the share of true rankings with a above b, whatever the true rankings are.

The price is variance: entries of h grow quickly as epsilon falls and as m grows, so the debiased
share is the better one only from some number of rankings on (`benchmarks/pair_debiasing.py`).

Sums over private rankings whose people chose their own epsilon: weights, and a check of them.

Rankings of one epsilon (a *level*) are undone by their own table, so each level gives an unbiased
estimate of its own people's sums. Levels are independent of each other. With a weight w for each
ranking of a level, and a mean weight of 1, the weighted sums have the variance sum w^2 Var.

*Precision weights* are proportional to 1 / the variance that one ranking adds. They have the
smallest variance, and they estimate the mean of all people only if the epsilon that somebody chose
says nothing of how they rank. *Equal weights* estimate it whatever people chose, at a price.

`answers_differ` compares the two ([H78]). The difference of both means is a sum over levels, whose
variance is known, so no assumption on efficiency is needed. Where any item's difference is beyond
what chance gives in 5 % of releases, people who chose more privacy rank otherwise.

References:
    [RDP] Xu, Sun, Cheng. Ranking differential privacy. Algorithm 1.
    [H78] Hausman. Specification tests in econometrics. 1978.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from hushrank.estimation.common.links import Floats
from hushrank.estimation.common.uncertainty import LEVEL
from hushrank.estimation.rankings.net_evidence import NetEvidence, PlaceLaw, place_weights
from hushrank.estimation.rankings.ranking_counts import RankingCounts, place_pairs

LARGEST_ENTRY = 1e4  # of a table: one ranking would count as ten thousand, and rounding shows


def pair_estimator(n_items: int, epsilon: float) -> Floats:
    """h: what an item at place k and another at place l count for "the first is above the second".

    Returns:
        shape (m, m), zero diagonal.

    Raises:
        ValueError: epsilon is not finite and positive, or m < 2.
    """
    if not 0 < epsilon < math.inf:
        raise ValueError(f"epsilon must be finite and > 0, got {epsilon!r}")
    if n_items < 2:
        raise ValueError(f"a pair needs 2 items or more, got {n_items}")
    return _pair_estimator(n_items, epsilon).copy()


def debiased_pair_counts(rankings: NDArray[np.int64], epsilon: float) -> Floats:
    """Unbiased estimate of how many of the true rankings have a above b.

    Args:
        rankings: shape (n, m), private rankings of the items 0..m-1, best first.
        epsilon: of each of them.

    Returns:
        shape (m, m), zero diagonal; entries of any size, [a, b] + [b, a] = n.

    Raises:
        ValueError: as `pair_estimator`.
    """
    n_items = rankings.shape[1]
    table = pair_estimator(n_items, epsilon)
    places = np.argsort(rankings, axis=1)
    wins = np.zeros((n_items, n_items))
    for a in range(n_items):
        for b in range(n_items):
            wins[a, b] = table[places[:, a], places[:, b]].sum() if a != b else 0.0
    return wins


@lru_cache(maxsize=64)
def _pair_estimator(n_items: int, epsilon: float) -> Floats:
    starts = [(i, j) for i in range(n_items) for j in range(n_items) if i != j]
    first, second = np.array(starts).T
    laws = {pair: places_law(*pair, n_items, epsilon) for pair in starts if pair[0] < pair[1]}
    law = np.array([laws[i, j] if i < j else laws[j, i].T for i, j in starts])
    table = np.zeros((n_items, n_items))
    table[first, second] = np.linalg.solve(law[:, first, second], first < second)
    return table


def places_law(i: int, j: int, n_items: int, epsilon: float) -> Floats:
    """Law of the private places of the items at true places i < j, shape (m, m).

    By repeated insertion: items inserted later move a tracked one back where they go in front.
    """
    ratio = math.exp(-epsilon / (n_items - 1))
    single, joint = np.zeros(n_items), np.zeros((n_items, n_items))
    for t in range(n_items):
        at = ratio ** (t - np.arange(t + 1.0))
        at /= at.sum()  # chance of each position of item t among those before it
        front = np.append(np.cumsum(at), np.ones(n_items - t - 1))  # chance to go before place p
        if t == i:
            single[: t + 1] = at
        elif t < j:
            single = single * (1 - front) + _back(single * front)
        elif t == j:
            for place in range(t + 1):
                moved = np.where(np.arange(n_items) >= place, single, 0.0)
                joint[:, place] = at[place] * (single - moved + _back(moved))
        else:
            joint = _inserted(joint, front)
    return joint


def _inserted(joint: Floats, front: Floats) -> Floats:
    """The law after one more item, which goes before place p with probability front[p]."""
    low, high = np.minimum(front[:, None], front), np.maximum(front[:, None], front)
    later_first = np.arange(len(front))[:, None] > np.arange(len(front))
    one = joint * (high - low)
    both = np.zeros_like(joint)
    both[1:, 1:] = (joint * low)[:-1, :-1]
    moved_first = _back(np.where(later_first, one, 0.0))
    moved_second = _back(np.where(later_first, 0.0, one).T).T
    return np.asarray(joint * (1 - high) + both + moved_first + moved_second)


def _back(law: Floats) -> Floats:
    """One place further back along the first axis."""
    return np.concatenate([np.zeros_like(law[:1]), law[:-1]])


@dataclass(frozen=True, slots=True, eq=False)
class RankingEvidence:
    """Sums over rankings of n items; every array has shape (n, n).

    Attributes:
        wins: rankings with a above b, of any sign where they were debiased.
        totals: rankings with both.
        squares: sum of squares of what each ranking adds to the pair's margin; symmetric.
        rankings: how many rankings there are.
    """

    wins: Floats
    totals: Floats
    squares: Floats
    rankings: int

    @property
    def n_items(self) -> int:
        """Size of the public catalogue."""
        return len(self.wins)

    @property
    def margins(self) -> Floats:
        """Wins less losses of each pair."""
        return np.asarray(self.wins - self.wins.T)

    def reach(self, tail: float) -> Floats:
        """What the margin of two equally good items exceeds with chance `tail`, shape (n, n)."""
        return np.asarray(-ndtri(tail) * np.sqrt(self.squares))


def plain_evidence(counts: RankingCounts) -> RankingEvidence:
    """The private rankings as they are: every share is drawn towards one half."""
    wins = counts.wins.astype(np.float64)
    totals = wins + wins.T
    return RankingEvidence(wins, totals, totals, counts.rankings)


def debiased_evidence(counts: RankingCounts, epsilon: float) -> RankingEvidence:
    """Unbiased estimates of the sums over true rankings.

    Args:
        counts: of rankings that the Mallows mechanism privatised, kept by place.
        epsilon: of each of them.

    Raises:
        ValueError: the counts were not kept by place, epsilon is not finite and positive, or a
            ranking would count more than `LARGEST_ENTRY` times.
    """
    if counts.by_place is None:
        raise ValueError("debiasing needs counts by place")
    if largest_entry(counts, epsilon) > LARGEST_ENTRY:
        raise ValueError(f"at epsilon {epsilon:g} one ranking would count as thousands")
    wins, squares = np.zeros(counts.wins.shape), np.zeros(counts.wins.shape)
    for position, length, first, second in place_pairs(counts.max_length):
        pair = counts.by_place[position]
        if counts.lengths[length] == 0:
            continue
        table = pair_estimator(length, epsilon)
        wins += table[first, second] * pair + table[second, first] * pair.T
        squares += (table[first, second] - table[second, first]) ** 2 * (pair + pair.T)
    totals = (counts.wins + counts.wins.T).astype(np.float64)
    return RankingEvidence(wins, totals, squares, counts.rankings)


def largest_entry(counts: RankingCounts, epsilon: float) -> float:
    """The most that one of these rankings counts for one pair once the mechanism is undone."""
    lengths = (np.flatnonzero(counts.lengths[2:]) + 2).tolist()
    return max(
        (float(np.abs(pair_estimator(length, epsilon)).max()) for length in lengths),
        default=1.0,
    )


def undoing_pays(plain: RankingEvidence, debiased: RankingEvidence) -> bool:
    """Whether debiased shares promise the smaller mean square error over all pairs.

    The bias of the plain shares is estimated by how far the debiased ones are from them, less what
    chance contributes to that.
    """
    compared = plain.totals > 0
    if not compared.any():
        return False
    totals = plain.totals[compared]
    plain_share, share = plain.margins[compared] / totals, debiased.margins[compared] / totals
    plain_chance = (plain.squares[compared] / totals - plain_share**2) / totals
    chance = (debiased.squares[compared] / totals - share**2) / totals
    bias = np.square(share - plain_share) - np.maximum(chance - plain_chance, 0)
    return bool(chance.mean() < plain_chance.mean() + max(float(bias.mean()), 0.0))


def mean_one(precision: Floats, rankings: Floats) -> Floats:
    """Weights of a ranking of each level, in proportion to `precision`, with the mean 1.

    Args:
        precision: 1 / the variance that one ranking of a level adds, shape (levels,).
        rankings: how many rankings each level has.
    """
    total = float(precision @ rankings)
    return precision * (rankings.sum() / total) if total > 0 else np.ones(len(precision))


def variance_of_pairs(n_items: int, epsilon: float) -> float:
    """Variance that an undone Mallows ranking adds to a pair's share, on average over all places.

    Args:
        n_items: m, the length of the list.
        epsilon: of the mechanism.
    """
    table = pair_estimator(n_items, epsilon)
    return float(np.mean(np.square((table - table.T)[~np.eye(n_items, dtype=bool)]))) / 4


def variance_of_nets(law: PlaceLaw, n_items: int, rankings: int) -> float:
    """Variance that an undone ranking adds to an item's half net, on average over all places.

    Args:
        law: of places.
        n_items: m, the length of the list.
        rankings: of all levels.
    """
    return float(np.mean(np.square(place_weights(law, n_items, rankings)[0])))


def combined_nets(parts: Sequence[NetEvidence], weights: Floats) -> NetEvidence:
    """Weighted sums of half nets over the rankings of all levels.

    Args:
        parts: of each level.
        weights: of a ranking of each level, with the mean 1.
    """
    n = sum(part.rankings for part in parts)
    sums = _total([w * part.sums for part, w in zip(parts, weights, strict=True)])
    one = math.sqrt(sum((w * part.one) ** 2 for part, w in zip(parts, weights, strict=True)))
    covariance = _total([w**2 * part.covariance for part, w in zip(parts, weights, strict=True)])
    share = weights * [part.rankings for part in parts] / max(n, 1)
    lost = sum(s * w / part.kept**2 for s, w, part in zip(share, weights, parts, strict=True))
    return NetEvidence(
        sums=sums,
        moments=covariance + np.outer(sums, sums) / max(n, 1) - one**2 * np.eye(len(sums)),
        totals=_total([w * part.totals for part, w in zip(parts, weights, strict=True)]),
        rankings=n,
        one=one,
        longest=max(part.longest for part in parts),
        bias=float(sum(s * part.bias for s, part in zip(share, parts, strict=True) if s > 0))
        if all(part.undone for part in parts)
        else np.inf,
        kept=min(1.0, 1 / math.sqrt(lost)) if lost > 0 else 1.0,
    )


def combined_pairs(parts: Sequence[RankingEvidence], weights: Floats) -> RankingEvidence:
    """Weighted margins over the rankings of all levels; see `combined_nets`."""
    return RankingEvidence(
        wins=_total([w * part.wins for part, w in zip(parts, weights, strict=True)]),
        totals=_total([w * part.totals for part, w in zip(parts, weights, strict=True)]),
        squares=_total([w**2 * part.squares for part, w in zip(parts, weights, strict=True)]),
        rankings=sum(part.rankings for part in parts),
    )


def answers_differ(parts: Sequence[NetEvidence], weights: Floats) -> bool:
    """Whether weighted and equal means of half nets differ by more than chance.

    Where epsilons say nothing of rankings, that happens in at most 5 % of releases.

    Args:
        parts: undone sums of each level.
        weights: as in `combined_nets`.
    """
    n = np.array([part.rankings for part in parts], np.float64)
    apart = (weights - 1) / max(n.sum(), 1)
    difference = _total([a * part.sums for a, part in zip(apart, parts, strict=True)])
    variance = _total(
        [a**2 * np.diagonal(part.covariance) for a, part in zip(apart, parts, strict=True)]
    )
    bias = sum(abs(a) * k * part.bias for a, k, part in zip(apart, n, parts, strict=True) if k)
    size = -ndtri(LEVEL / 2 / len(difference))
    return bool((np.abs(difference) > size * np.sqrt(variance) + bias).any())


def effective_rankings(weights: Floats, rankings: Floats) -> float:
    """G = (sum of weights)^2 / sum of squared weights: rankings of equal weight worth as much."""
    squares = float(np.square(weights) @ rankings)
    return float(weights @ rankings) ** 2 / squares if squares > 0 else 0.0


def _total(parts: Sequence[Floats]) -> Floats:
    return np.asarray(np.sum(parts, axis=0))
