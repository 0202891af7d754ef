"""What noisy counts of rankings say of pairs, of nets and of places.

All of it is post-processing of a release (`noisy_rankings`). Rankings are taken as independent of
each other, but for sets of items of one person, which widen intervals by a public factor
(`NoisyRankings.nets_go_together`). The pairs of one ranking are not independent, nor its places. So
a sum of nets has the variance V of a net over rankings times their number, and V is not that of as
many independent pairs. V is estimated from the released squares or places, less what noise adds to
the estimate.

How the nets of two items vary together is in no released part. Whether one is surely ahead of
another allows for the worst: Var(x - y) <= (sd x + sd y)^2. The covariance matrix, which
Bradley-Terry needs for the sum of all pairs of an item, is taken as that of places that follow from
independent utilities: C = D - mean, with C 1 = 0 and the variances V. It is exact to a few percent
for rankings by Plackett and Luce and by Mallows, too large where rankings agree almost wholly, and
off by up to a factor 2 for pairs of items where people form opposite camps.

The order nearest to rankings by Spearman's footrule.

The footrule of two orders is the sum over items of how many places they are apart. The order with
the smallest sum of footrules to all rankings is an assignment of items to places: item i at place p
costs sum_q count(i, q) |p - q|. It can be found exactly in polynomial time ([DKNS01]), unlike the
Kemeny consensus, and its disagreements are at most twice those of the Kemeny consensus, because
Kendall's distance K and the footrule F of any two orders have K <= F <= 2 K ([DG77]).

With noisy counts costs are unbiased, and the assignment is post-processing.

References:
    [DG77] Diaconis, Graham. Spearman's footrule as a measure of disarray. 1977.
    [DKNS01] Dwork, Kumar, Naor, Sivakumar. Rank aggregation methods for the web. 2001.
    [FKS03] Fagin, Kumar, Sivakumar. Comparing top k lists. 2003.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import scipy
from numpy.typing import NDArray

from hushrank.estimation.common.estimate import Estimate
from hushrank.estimation.common.links import Floats
from hushrank.estimation.common.uncertainty import LEVEL, quantile
from hushrank.estimation.rankings.net_evidence import NetEvidence
from hushrank.estimation.rankings.ranking_counts import NoisyRankings
from hushrank.estimation.rankings.ranking_estimates import order_estimate
from hushrank.estimation.rankings.ranking_evidence import RankingEvidence
from hushrank.privacy.ranking_sensitivity import Part
from hushrank.privacy.units import NoiseKind

CLEAR = 3.0  # standard errors: a total below is taken for noise
RANKED = LEVEL / 2  # chance that any item which nobody ranked seems to be ranked


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class NoisyPairs(RankingEvidence):
    """Pairs with noise in both of their counts.

    Attributes:
        wins, totals, rankings: with noise, totals raised to 0; all totals are 0 where their sum
            does not stand clear of noise. Of margins, which do not tell how many rankings tie a
            pair, wins are the margin of the side that is ahead, and 0 of the other.
        squares: variance of a margin, noise included.
        noise: variance of the noise in a margin.
        kind: law of the noise; `draws`, of how many draws that of a margin is made.
    """

    noise: float
    kind: NoiseKind
    draws: int = 2

    @classmethod
    def of(cls, counts: NoisyRankings) -> Self:
        """From a release with `above`, or `margins`."""
        if Part.MARGINS in counts.weights:
            return cls._of_margins(counts)
        wins, variance = counts.of(Part.ABOVE), counts.variance(Part.ABOVE)
        totals = pair_totals(wins, variance)
        squares = counts.margins_go_together * totals + 2 * variance
        rankings = int(totals.max(initial=0))
        return cls(
            wins=wins,
            totals=totals,
            squares=squares,
            rankings=rankings,
            noise=2 * variance,
            kind=counts.law.kind,
            draws=2 * counts.draws,
        )

    @classmethod
    def _of_margins(cls, counts: NoisyRankings) -> Self:
        margins, noise = counts.of(Part.MARGINS), counts.variance(Part.MARGINS)
        rankings, n = float(counts.of(Part.RANKINGS)[0]), counts.n_items
        clear = rankings > CLEAR * np.sqrt(counts.variance(Part.RANKINGS)) and rankings >= 1
        totals = np.full((n, n), rankings * clear)
        np.fill_diagonal(totals, 0.0)
        return cls(
            wins=np.maximum(margins, 0.0),
            totals=totals,
            squares=counts.margins_go_together * totals + noise,
            rankings=round(rankings * clear),
            noise=noise,
            kind=counts.law.kind,
            draws=counts.draws,
        )

    def reach(self, tail: float) -> Floats:
        """What the margin of two equally good items exceeds with chance `tail`, shape (n, n)."""
        share = np.divide(
            self.noise, self.squares, out=np.zeros_like(self.squares), where=self.squares > 0
        )
        return np.asarray(quantile(share, tail, self.kind, self.draws) * np.sqrt(self.squares))


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class NoisyNets(NetEvidence):
    """Sums of half nets with noise.

    Attributes:
        spread: shape (n,), variance of each sum over rankings, without noise.
        noise: shape (n, n), covariance of the noise in the sums.
        size: relative error of `rankings`, which scores are divided by.
        kind: law of the noise; `draws`, of how many draws that of one sum is made.
        seen: shape (n,), whether somebody surely ranked the item, as a name that was found, or
            every list says something of it.
    """

    spread: Floats
    noise: Floats
    size: float
    kind: NoiseKind
    draws: int
    seen: NDArray[np.bool_]

    @classmethod
    def of(cls, counts: NoisyRankings) -> Self:
        """From a release with `above` or `nets`, `squares` and `rankings`."""
        rankings, n = float(counts.of(Part.RANKINGS)[0]), counts.n_items
        error = np.sqrt(counts.variance(Part.RANKINGS))
        clear = rankings > CLEAR * error and rankings >= 1
        number = max(rankings, 1.0)
        if Part.NETS in counts.weights:
            variance = counts.variance(Part.NETS) / 4
            sums = counts.of(Part.NETS) / 2
            sums, noise = sums - sums.mean(), variance * (np.eye(n) - 1 / n)
            totals, draws = np.full((n, n), number * clear), 1
            np.fill_diagonal(totals, 0.0)
        else:
            wins, variance = counts.of(Part.ABOVE), counts.variance(Part.ABOVE)
            sums, draws = (wins - wins.T).sum(axis=1) / 2, 2 * (n - 1)
            totals = pair_totals(wins, variance) * clear
            noise = _pair_noise(wins, totals, variance)
        draws *= counts.draws
        seen = counts.below or counts.found or _ranked(counts, sums, np.diagonal(noise), draws)
        one = (counts.told - 1) / 2
        squares = counts.of(Part.SQUARES) / 4
        spread = _spread(squares, sums, np.diagonal(noise), number, one)
        spread *= counts.nets_go_together
        sizes = float(spread.sum()), float(np.trace(noise))
        return cls(
            sums=sums,
            moments=np.diag(squares),
            totals=totals,
            rankings=max(round(number), 1),
            one=one,
            longest=counts.told,
            bias=0.0,
            kept=float(np.sqrt(sizes[0] / sum(sizes))),
            spread=spread,
            noise=np.asarray(noise),
            size=float(error / number),
            kind=counts.law.kind,
            draws=draws,
            seen=np.asarray(seen & totals.any(axis=1)),
        )

    @property
    def ranked(self) -> NDArray[np.bool_]:
        """Which items somebody surely ranked: `seen`."""
        return self.seen

    @property
    def covariance(self) -> Floats:
        """Covariance of the sums: drawing rankings again, noise, and noise in their number."""
        unsure = self.size**2 * np.outer(self.sums, self.sums)
        return np.asarray(centred_covariance(self.spread) + self.noise + unsure)

    @property
    def differences(self) -> Floats:
        """Variance of the sum of one item less that of another, at most."""
        noise = np.diagonal(self.noise)
        apart = noise[:, np.newaxis] + noise - 2 * self.noise
        unsure = self.size**2 * np.subtract.outer(self.sums, self.sums) ** 2
        return np.asarray(worst_differences(self.spread) + apart + unsure)

    def reach(self, tail: float) -> float:
        """Standard errors that the error of a sum exceeds with chance `tail`."""
        noise = np.diagonal(self.noise)
        share = np.max(noise / np.maximum(noise + self.spread, 1e-300))
        return float(quantile(np.array(share), tail, self.kind, self.draws))


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class NoisyPlaces:
    """Items by place, with noise.

    Attributes:
        counts: shape (n, m), rankings with the item at the place of the column.
        spots: shape (m,), the places of the columns, 0 = best; that of items which share some
            places is the mean of these.
        sums: shape (n,), of places above the middle.
        spread: shape (n,), variance of each sum over rankings, without noise.
        noise: shape (n,), variance of the noise in each sum.
        kind: law of the noise; `draws`, of how many equal draws that of one sum is made, at least.
        informative: whether the number of rankings is clear of the noise.
        ranked: shape (n,), whether somebody surely ranked the item.
    """

    counts: Floats
    spots: Floats
    sums: Floats
    spread: Floats
    noise: Floats
    kind: NoiseKind
    draws: int
    informative: bool
    ranked: NDArray[np.bool_]

    @classmethod
    def of(cls, released: NoisyRankings) -> Self:
        """From a release with `places`."""
        return cls._below(released) if released.below else cls._unknown(released)

    @classmethod
    def _below(cls, released: NoisyRankings) -> Self:
        """Items that a list of k leaves out share the places after k: each list has all items."""
        counts, variance = released.of(Part.PLACES), released.variance(Part.PLACES)
        n, columns = counts.shape
        tails = (np.arange(1, columns - released.longest + 1) + n - 1) / 2
        spots = np.concatenate([np.arange(released.longest), tails])
        rankings, error = float(counts.sum() / n), np.sqrt(columns * variance / n)
        above = (n - 1) / 2 - spots
        noise = np.full(n, variance * float(np.square(above).sum()))
        spread = _spread(counts @ above**2, counts @ above, noise, max(rankings, 1.0), (n - 1) / 2)
        clear = rankings > CLEAR * error and rankings >= 1
        return cls(
            counts=counts,
            spots=spots,
            sums=counts @ above,
            spread=spread,
            noise=noise,
            kind=released.law.kind,
            draws=_equal_draws(columns) * released.draws,
            informative=bool(clear),
            ranked=np.ones(n, np.bool_),
        )

    @classmethod
    def _unknown(cls, released: NoisyRankings) -> Self:
        """An item that lists leave out is between the last of an average list and the last of all.

        How often each is left out counts as 0 where it is not clear of the noise.
        """
        counts, variance = released.of(Part.PLACES), released.variance(Part.PLACES)
        n, longest = counts.shape
        rankings, error = float(counts[:, 0].sum()), np.sqrt(n * variance)
        number = max(rankings, 1.0)
        ranked = counts.sum(axis=1)
        there = (min(max(ranked.sum() / number, 1.0), longest) + n) / 2
        missing = number - ranked
        draws = longest * released.draws
        least = quantile(np.array(1.0), RANKED / n, released.law.kind, draws)
        seen = missing > CLEAR * np.sqrt((longest + n) * variance)
        left_out = np.where(seen, missing, 0.0)
        above, behind = (n - 1) / 2 - np.arange(longest), (n - 1) / 2 - there
        weights = above - behind * seen[:, np.newaxis]
        sums = counts @ above + left_out * behind
        noise = variance * np.square(weights).sum(axis=1)
        squares = counts @ above**2 + left_out * behind**2
        spread = _spread(squares, sums, noise, number, (n - 1) / 2)
        clear = rankings > CLEAR * error and rankings >= 1
        return cls(
            counts=np.column_stack([counts, left_out]),
            spots=np.append(np.arange(longest), there),
            sums=sums,
            spread=spread,
            noise=noise,
            kind=released.law.kind,
            draws=_equal_draws(longest) * released.draws,
            informative=bool(clear),
            ranked=ranked > least * np.sqrt(longest * variance),
        )

    @property
    def n_items(self) -> int:
        """Size of the public catalogue."""
        return len(self.counts)

    def reach(self, tail: float) -> Floats:
        """What the sum of one item less that of an equal one exceeds with chance `tail`."""
        noise = np.add.outer(self.noise, self.noise)
        total = worst_differences(self.spread) + noise
        share = np.divide(noise, total, out=np.zeros_like(total), where=total > 0)
        share = np.minimum(share, 1.0)
        return np.asarray(quantile(share, tail, self.kind, self.draws) * np.sqrt(total))


def _ranked(counts: NoisyRankings, sums: Floats, noise: Floats, draws: int) -> NDArray[np.bool_]:
    """Which items somebody surely ranked, where a list says nothing of what it leaves out.

    Of an item that nobody ranked the sum of half nets and that of squares are noise alone, and all
    lists together have no more squares than lists of the n - 1 others: (n - 2) (n - 1) n / 3 each.
    An item always in the middle of its lists has no sum and no squares either.

    Args:
        counts: with `squares` and `rankings`.
        sums, noise: shape (n,), of half nets, and the variance of the noise in each.
        draws: of how many draws the noise of a sum is made.
    """
    n, kind, tail = counts.n_items, counts.law.kind, RANKED / (3 * counts.n_items)
    squares, variance = counts.of(Part.SQUARES), counts.variance(Part.SQUARES)
    others = (n - 2) * (n - 1) * n / 3
    more = squares.sum() - others * float(counts.of(Part.RANKINGS)[0])
    error = np.sqrt(n * variance + others**2 * counts.variance(Part.RANKINGS))

    def size(number: int, one_of: float) -> float:
        return float(quantile(np.array(1.0), one_of, kind, number))

    moved = np.abs(sums) > size(draws, tail / 2) * np.sqrt(noise)
    spread = squares > size(counts.draws, tail) * np.sqrt(variance)
    return np.asarray(moved | spread | (more > size(counts.draws, tail) * error))


def _equal_draws(columns: int) -> int:
    """Equal draws that have the tail of so many with unequal weights: fewer."""
    return max(columns // 2, 1)


def pair_totals(wins: Floats, variance: float) -> Floats:
    """Rankings with both items of a pair, from noisy counts, shape (n, n).

    Totals have twice the noise of a count. They are drawn towards their mean as far as that is what
    explains how they differ (for complete rankings: wholly), and are 0 where even the mean does not
    stand clear of noise.
    """
    n = len(wins)
    totals, pairs = wins + wins.T, np.triu_indices(n, 1)
    mean, seen = float(totals[pairs].mean()), float(totals[pairs].var())
    if mean <= CLEAR * np.sqrt(2 * variance / len(pairs[0])):
        return np.zeros_like(wins)
    kept = max(0.0, 1 - 2 * variance / seen) if seen > 0 else 1.0
    drawn = np.maximum(mean + kept * (totals - mean), 0.0)
    np.fill_diagonal(drawn, 0.0)
    return np.asarray(drawn)


def _pair_noise(wins: Floats, totals: Floats, variance: float) -> Floats:
    """Covariance of the noise in sums of half nets less what totals lead to expect."""
    margins = wins - wins.T
    half = np.divide(margins, 2 * totals, out=np.zeros_like(totals), where=totals > 0)
    off = variance / 2 + 2 * variance * np.clip(half, -0.5, 0.5) ** 2
    np.fill_diagonal(off, 0.0)
    return np.asarray(np.diag(off.sum(axis=1)) - off)


def _spread(squares: Floats, sums: Floats, noise: Floats, number: float, most: float) -> Floats:
    """Variance of each sum over rankings, from the sum of squares; within what is possible.

    One ranking more is added: few that agree have hardly any variance.

    Args:
        squares: shape (n,), sums of squares.
        sums: shape (n,), noisy.
        noise: shape (n,), their variance of noise, by which their squares are too large.
        number: of rankings.
        most: the largest value in size that one ranking adds to a sum.
    """
    mean_squares = np.maximum(sums**2 - noise, 0.0) / number
    largest = np.maximum(most**2 * number - mean_squares, 0.0)
    return np.asarray(np.clip(squares - mean_squares, 0.0, largest) + most**2)


def centred_covariance(variances: Floats) -> Floats:
    """That of independent variables less their mean, with these variances; see the module's text.

    Of n = 2 items both variances are the same; their mean is taken.
    """
    n = len(variances)
    mean = float(variances.mean()) / (1 - 1 / n)
    own = np.full(n, mean)
    if n > 2:
        own = np.maximum((variances - mean / n) / (1 - 2 / n), 0.0)
    centre = np.eye(n) - 1 / n
    covariance = (centre * own) @ centre
    size = np.sqrt(variances / np.maximum(np.diagonal(covariance), 1e-300))
    return np.asarray(covariance * np.outer(size, size))


def worst_differences(variances: Floats) -> Floats:
    """Variance of a difference at most, shape (n, n), whatever the covariances are."""
    deviations = np.sqrt(variances)
    return np.asarray(np.add.outer(deviations, deviations) ** 2)


@dataclass(frozen=True, slots=True)
class FootruleOrder:
    """An order of all items.

    Attributes:
        order: shape (n,), items, best first.
        distance: sum of its footrules to all rankings; no order has a smaller one.
    """

    order: NDArray[np.int64]
    distance: float


def footrule_order(counts: Floats, spots: Floats | None = None) -> FootruleOrder:
    """The order with the smallest sum of footrules.

    Where several orders are best, items earlier in the catalogue come first as far as the
    assignment tells.

    Args:
        counts: shape (n, m), rankings with item i at the place of column q; of any sign once noisy.
        spots: shape (m,), the place of each column, from 0 and maybe between two, as of an item
            that a ranking leaves out ([FKS03]); None: 0 to m - 1.

    Raises:
        ValueError: shapes do not fit, or a count is not finite.
    """
    n, m = counts.shape
    if (spots is None and m > n) or not np.isfinite(counts).all():
        raise ValueError(f"counts must be finite, at most as many places as items, got {n} x {m}")
    spots = np.arange(m, dtype=np.float64) if spots is None else spots
    cost = counts @ np.abs(spots[:, np.newaxis] - np.arange(n))
    items, place = scipy.optimize.linear_sum_assignment(cost)
    return FootruleOrder(np.argsort(place).astype(np.int64), float(cost[items, place].sum()))


def footrule_estimate(evidence: NoisyPlaces) -> tuple[Estimate, FootruleOrder]:
    """The order, and the ranks that items may have.

    Scores are places above the middle, (n + 1) / 2 - rank. An item is surely ahead of another where
    the order says so and its mean place is better beyond chance. The place of an item that nobody
    may have ranked is open.
    """
    found = footrule_order(evidence.counts, evidence.spots)
    place = np.argsort(found.order)
    ahead = place[:, np.newaxis] < place
    margins = np.subtract.outer(evidence.sums, evidence.sums)

    def better_at(tail: float) -> NDArray[np.bool_]:
        better = (margins > evidence.reach(tail)) & ahead & evidence.informative
        return np.asarray(better & evidence.ranked[:, np.newaxis] & evidence.ranked)

    return order_estimate(found.order, better_at, informative=evidence.informative), found
