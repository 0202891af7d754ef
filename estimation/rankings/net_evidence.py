"""What private rankings say of each item alone, as they are or with the mechanism undone.

The *half net* of an item in a ranking is half the number of items below it less those above it: its
places above the middle of the list. Both Borda scores and Bradley-Terry scores follow from the sums
of half nets alone: the first are their means, and to the likelihood of the second they are
sufficient, given how often each pair was ranked.

An item that a person put at place i comes out at place k with the known chance P[i, k]
(`place_laws`). A weight w[k] of each place with P w = half net makes the sum of w over private
rankings unbiased for the sum of half nets over true ones, whatever these are. P w = half net is
ill-conditioned where lists are long and epsilon is small, so w solves it up to a bias: of a family
of ridge solutions, that with the shortest interval which allows for both. The bias that is left is
at most max |P w - half net|, a public number, and belongs into every interval.

This undoes places one by one. Undoing pairs (`pair_debiasing`) is exact for the share of every pair
but has several times the error, and no method that publishes scores needs it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from hushrank.estimation.common.links import Floats
from hushrank.estimation.common.pair_separation import difference_variance
from hushrank.estimation.rankings.ranking_counts import RankingCounts, place_pairs

PlaceLaw = Callable[[int], Floats]  # of a length; see `place_laws`

SIZE = 1.96  # half-width of a 95 % interval in standard errors
LARGEST_BIAS = 0.25  # in standard errors of a mean: an interval that allows for more is mostly bias
RIDGES = np.geomspace(1e-14, 1, 57)  # in squares of the largest singular value that matters


@dataclass(frozen=True, slots=True, eq=False)
class NetEvidence:
    """Sums of half nets over rankings of n items.

    Attributes:
        sums: shape (n,), of half nets; they sum to zero but for rounding.
        moments: shape (n, n), sums over rankings of products of two items' half nets.
        totals: shape (n, n), rankings with both items of a pair.
        rankings: how many rankings there are.
        one: the most that one ranking adds to an entry of `sums`, in size.
        longest: the length of the longest list.
        bias: how far the expectation of a mean half net may be off the mean over true rankings;
            infinite where the mechanism was not undone.
        kept: about what the mechanism multiplies half nets by, in (0, 1]: the ratio of their sizes
            in private rankings as they are and undone; 1 where it was not undone.
    """

    sums: Floats
    moments: Floats
    totals: Floats
    rankings: int
    one: float
    longest: int
    bias: float
    kept: float = 1.0

    @property
    def n_items(self) -> int:
        """Size of the public catalogue."""
        return len(self.sums)

    @property
    def ranked(self) -> NDArray[np.bool_]:
        """Which items somebody ranked, as far as the counts tell, shape (n,)."""
        return np.asarray(self.totals.any(axis=1))

    @property
    def undone(self) -> bool:
        """Whether the sums are those of true rankings, in expectation and up to `bias`."""
        return self.bias < np.inf

    @property
    def covariance(self) -> Floats:
        """Covariance of the sums if rankings were drawn again: an upper bound where lists differ.

        One ranking more of each kind is added: few that agree have hardly any variance.
        """
        spread = self.moments - np.outer(self.sums, self.sums) / max(self.rankings, 1)
        return np.asarray(spread + self.one**2 * np.eye(self.n_items))

    @property
    def differences(self) -> Floats:
        """Variance of the sum of one item less that of another, shape (n, n)."""
        return difference_variance(self.covariance)

    def reach(self, tail: float) -> float:
        """Standard errors that the error of a sum exceeds with chance `tail`."""
        return float(-ndtri(tail))


def plain_nets(counts: RankingCounts) -> NetEvidence:
    """Private rankings as they are: every score is drawn towards zero."""
    wins = counts.wins.astype(np.float64)
    totals, longest = wins + wins.T, _longest(counts)
    sums = (wins - wins.T).sum(axis=1) / 2
    moments = counts.moments / 4
    one = (longest - 1) / 2
    return NetEvidence(sums, moments, totals, counts.rankings, one, longest, np.inf)


def undone_nets(counts: RankingCounts, law: PlaceLaw, people: int | None = None) -> NetEvidence:
    """Sums over true rankings, estimated from private ones.

    Lists are undone each by the law of their length. Without counts by place all lists must have
    one length; the covariances of different items are then not known, and are taken from private
    rankings as they are, at the variances that are.

    Args:
        counts: of private rankings of one mechanism and epsilon.
        law: of places in a list of a length.
        people: rankings whose sums these are added to, if people chose their own epsilon: more of
            them deserve less bias. None: those of the counts alone.

    Raises:
        ValueError: lists have several lengths, and their places were not kept apart.
    """
    if not can_be_undone(counts):
        raise ValueError("undoing needs counts by place, or lists of one length")
    plain = plain_nets(counts)
    lengths = (np.flatnonzero(counts.lengths[2:]) + 2).tolist()
    sums, variances, bias, one = np.zeros(plain.n_items), np.zeros(plain.n_items), 0.0, 0.0
    weights = {}
    for length in lengths:
        n = int(counts.lengths[length])
        weights[length], own_bias = place_weights(law, length, people or n)
        places = _places_of_length(counts, length)
        sums += places @ weights[length]
        variances += places @ weights[length] ** 2
        bias += n / counts.rankings * own_bias
        one = max(one, float(np.abs(weights[length]).max()))
    moments = _moments(counts, plain, weights, variances)
    kept = 1.0
    if variances.any():
        kept = min(1.0, math.sqrt(float(np.trace(plain.moments) / variances.sum())))
    return NetEvidence(sums, moments, plain.totals, counts.rankings, one, plain.longest, bias, kept)


def can_be_undone(counts: RankingCounts) -> bool:
    """Whether the counts tell at which places of which lists each item was."""
    several = np.count_nonzero(counts.lengths[2:]) + int(counts.lengths[1] > 0) > 1
    return counts.by_place is not None or not several


def place_weights(law: PlaceLaw, length: int, n: int) -> tuple[Floats, float]:
    """What each place of a list counts for, shape (length,), and the bias at most.

    Args:
        law: of places.
        length: m.
        n: lists of that length: more of them deserve less bias.
    """
    return _place_weights(law(length).tobytes(), length, n)


@lru_cache(maxsize=256)
def _place_weights(table: bytes, length: int, n: int) -> tuple[Floats, float]:
    law = np.frombuffer(table).reshape(length, length)
    wanted = half_nets(length)
    left, singular, right = np.linalg.svd(law)
    along = left.T @ wanted
    main = singular[np.argmax(np.abs(along * singular))]
    best, shortest = (wanted, np.inf), np.inf
    for ridge in RIDGES * main**2:
        weights = right.T @ (singular / (singular**2 + ridge) * along)
        weights -= weights.mean()  # of every list the half nets sum to zero
        expected = law @ weights
        bias = float(np.abs(expected - wanted).max())
        error = float(np.sqrt(np.mean(law @ weights**2 - expected**2) / max(n, 1)))
        if SIZE * error + bias < shortest and bias <= LARGEST_BIAS * error:
            best, shortest = (weights, bias), SIZE * error + bias
        elif not np.isfinite(shortest) and bias < best[1]:
            best = (weights, bias)
    return best


def half_nets(length: int) -> Floats:
    """Places above the middle of a list, by place."""
    return (length - 1) / 2 - np.arange(float(length))


def _longest(counts: RankingCounts) -> int:
    found = np.flatnonzero(counts.lengths)
    return int(found[-1]) if len(found) else 1


def _moments(
    counts: RankingCounts, plain: NetEvidence, weights: dict[int, Floats], variances: Floats
) -> Floats:
    if counts.by_place is None:
        sizes = np.sqrt(np.maximum(np.diagonal(plain.moments), 0))
        scale = np.sqrt(variances) / np.where(sizes > 0, sizes, 1.0)
        return np.asarray(plain.moments * np.outer(scale, scale))
    moments = np.diag(variances)
    for position, length, first, second in place_pairs(counts.max_length):
        if counts.lengths[length]:
            pair, own = counts.by_place[position], weights[length]
            moments += own[first] * own[second] * (pair + pair.T)
    return np.asarray(moments)


def _places_of_length(counts: RankingCounts, length: int) -> Floats:
    """How often each item is at each place of a list of one length, shape (n, length)."""
    if counts.by_place is None:
        return counts.places[:, :length].astype(np.float64)
    places = np.zeros((counts.n_items, length))
    for position, own, first, second in place_pairs(length):
        if own == length:
            pair = counts.by_place[position]
            places[:, first] += pair.sum(axis=1)
            places[:, second] += pair.sum(axis=0)
    return np.asarray(places / (length - 1))  # each item of a list is in that many of its pairs
