"""What private rankings say of each pair of items, as they are or with the mechanism undone.

The Kemeny consensus is found by pairs; scores need less and are surer of it (`net_evidence`).

A pair's *margin* is the number of rankings with the first item above the second, less those the
other way round. Where rankings are independent and the two items equally good, its variance is the
sum of the squares of what each ranking adds to it. That, and not the variance at the margin that
was found, tells whether an order is sure: three rankings that agree have no variance at all.

Undoing works list by list: the law of the private places of two items depends on the list's length
and epsilon alone (`estimation.rankings.pair_debiasing`), so partial lists are undone each by its
own table.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from hushrank.estimation.common.links import Floats
from hushrank.estimation.rankings.pair_debiasing import pair_estimator
from hushrank.estimation.rankings.ranking_counts import RankingCounts, place_pairs

LARGEST_ENTRY = 1e4  # of a table: one ranking would count as ten thousand, and rounding shows


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
