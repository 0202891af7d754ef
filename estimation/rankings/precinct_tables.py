"""Tables of first places by public precinct: released counts, and whole numbers that add up. Pure.

Every level of a table is drawn as a part of one vector (`privacy.ranking_sensitivity`): the cells
of precincts, those of districts if there are any, and the totals. The released numbers are unbiased
and add up to each other but for noise. From them alone, candidate by candidate, follow

1. estimates bottom-up: a district is the mean of its released number and of the sum of its cells,
   each weighted by the inverse of its variance; the total likewise, of its released number and of
   the sum of all districts;
2. whole numbers top-down: the total is rounded; what it differs from the sum of its parts is spread
   over them by their variances, the nearest numbers >= 0 with that sum are taken, and the largest
   remainders are rounded up.

Numbers of the second kind are for reading. Because no number is below 0, small ones are too large
on average. So intervals are those of released numbers and of step 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.common.estimate import CLEAR_TOTAL, Estimate, estimate_of, nothing_learned
from hushrank.estimation.common.links import Floats
from hushrank.estimation.common.pair_separation import ScoreErrors, separate_pairs
from hushrank.estimation.common.uncertainty import LEVEL, quantile
from hushrank.privacy.noise import NoiseLaw, add_noise
from hushrank.privacy.randomness import RandomBits
from hushrank.privacy.ranking_sensitivity import Part, Weights
from hushrank.privacy.units import NoiseKind

Integers = NDArray[np.int64]
Districts = tuple[int, ...]  # of each precinct the number of its district; -1: it is in none


def release_precincts(
    first_places: Integers, districts: Districts, weights: Weights, law: NoiseLaw, bits: RandomBits
) -> dict[str, Integers]:
    """Add noise to every cell of every level, zeros too.

    Guarantee: that for which `calibrate_rankings` made the law, for counts of a log whose bounds
    were enforced, if `bits.safe`.

    Args:
        first_places: confidential, shape (precincts, items).
        districts: of the precincts; used where districts have a weight.
        weights: of each level.
        law: of the noise on each entry.
        bits: `system_bits()` in a release.

    Returns:
        Weighted noisy counts by level, which may be published.
    """
    exact = {Part.PRECINCTS: first_places, Part.TOTALS: first_places.sum(axis=0)}
    if Part.DISTRICTS in weights:
        exact[Part.DISTRICTS] = _membership(districts).astype(np.int64) @ first_places
    weighted = {part: weight * exact[part] for part, weight in weights.items()}
    noisy = add_noise(np.concatenate([each.ravel() for each in weighted.values()]), law, bits)
    ends = np.cumsum([each.size for each in weighted.values()])
    return {
        str(part): own.reshape(weighted[part].shape)
        for part, own in zip(weighted, np.split(noisy, ends[:-1]), strict=True)
    }


def _membership(districts: Districts) -> NDArray[np.bool_]:
    """Whether each precinct is in each district, shape (districts, precincts)."""
    numbers = np.array(districts)
    return np.asarray(numbers == np.arange(max(districts) + 1)[:, np.newaxis])


@dataclass(frozen=True, slots=True, eq=False)
class NoisyPrecincts:
    """A released table of first places.

    Attributes:
        parts: as `release_precincts` returned them.
        weights: of each of them.
        law: of the noise on each entry.
        districts: of the precincts; empty: there are none.
    """

    parts: Mapping[str, Integers]
    weights: Weights
    law: NoiseLaw
    districts: Districts = ()

    def of(self, part: Part) -> Floats:
        """What was counted, with noise."""
        return np.asarray(self.parts[part] / self.weights[part], np.float64)

    def deviation(self, part: Part) -> float:
        """Standard deviation of the noise in one entry of `of(part)`."""
        return math.sqrt(self.law.variance) / self.weights[part]

    def reach(self, part: Part) -> float:
        """What the noise in one entry of `of(part)` exceeds with a chance of at most 5 %."""
        if self.law.variance == 0:
            return 0.0
        far = float(quantile(np.array(1.0), LEVEL / 2, self.law.kind, 1))
        return far * self.deviation(part) + 0.5 / self.weights[part]

    def margin_reach(self, part: Part, n_items: int) -> float:
        """What the noise in a margin of one row exceeds with a chance of at most 5 %.

        It holds for the differences of all pairs of items in the row at once (Bonferroni). So it
        holds for the margin of each item over the best other one too: a largest difference moves no
        further than the difference that moves most.
        """
        if self.law.variance == 0:
            return 0.0
        tail = LEVEL / (n_items * (n_items - 1))
        far = float(quantile(np.array(1.0), tail, self.law.kind, 2))
        return far * math.sqrt(2) * self.deviation(part) + 0.5 / self.weights[part]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Votes:
    """First places of each item.

    Attributes:
        totals: shape (items,), estimates of all together, unbiased.
        deviation: standard deviation of the noise in each of them.
        precincts, districts, whole: whole numbers >= 0 that add up, shape (..., items); of
            districts None if there are none.
    """

    totals: Floats
    deviation: float
    precincts: Integers
    districts: Integers | None
    whole: Integers


def adjusted_votes(counts: NoisyPrecincts) -> Votes:
    """Estimates of all levels, and whole numbers that add up; see the module's text."""
    cells, variance = counts.of(Part.PRECINCTS), counts.deviation(Part.PRECINCTS) ** 2
    members = _blocks(counts)
    sums = members @ cells
    spread = members.sum(axis=1) * variance
    if Part.DISTRICTS in counts.weights:
        released = counts.of(Part.DISTRICTS)
        own = counts.deviation(Part.DISTRICTS) ** 2
        size = len(released)  # what is in no district has no number of its own
        sums[:size], spread[:size] = _mean(released, own, sums[:size], spread[:size])
    total, of_total = _mean(
        counts.of(Part.TOTALS),
        counts.deviation(Part.TOTALS) ** 2,
        sums.sum(axis=0),
        np.array(spread.sum()),
    )
    whole = np.rint(np.maximum(total, 0)).astype(np.int64)
    blocks = _whole_parts(sums, spread, whole)
    precincts = np.zeros(cells.shape, np.int64)
    for block, inside in zip(blocks, members, strict=True):
        precincts[inside] = _whole_parts(cells[inside], np.ones(int(inside.sum())), block)
    return Votes(
        totals=total,
        deviation=math.sqrt(float(of_total)),
        precincts=precincts,
        districts=blocks[: max(counts.districts) + 1] if counts.districts else None,
        whole=whole,
    )


def _blocks(counts: NoisyPrecincts) -> NDArray[np.bool_]:
    """Which precincts are in each part of the whole, shape (parts, precincts)."""
    n_precincts = len(counts.parts[Part.PRECINCTS])
    if not counts.districts:
        return np.ones((1, n_precincts), np.bool_)
    outside = np.array(counts.districts) < 0
    members = _membership(counts.districts)
    return np.vstack([members, outside[np.newaxis]]) if outside.any() else members


def _mean(
    released: Floats, variance: float, sums: Floats, of_sums: Floats
) -> tuple[Floats, Floats]:
    """Mean of released numbers and of sums, by their variances; and its variance."""
    share = of_sums / (variance + of_sums) if variance else np.ones_like(of_sums)
    weights = share[..., np.newaxis]
    return np.asarray(weights * released + (1 - weights) * sums), np.asarray(share * variance)


def _whole_parts(parts: Floats, variance: Floats, whole: Integers) -> Integers:
    """Whole numbers >= 0 near `parts` whose sums are `whole`; shape (parts, items)."""
    share = variance / variance.sum() if variance.any() else np.full(len(variance), 1 / len(parts))
    near = parts + share[:, np.newaxis] * (whole - parts.sum(axis=0))
    descending = -np.sort(-near, axis=0)
    over = (np.cumsum(descending, axis=0) - whole) / np.arange(1, len(near) + 1)[:, np.newaxis]
    kept = np.maximum(np.count_nonzero(descending > over, axis=0), 1)
    level = np.take_along_axis(over, kept[np.newaxis] - 1, axis=0)
    exact = np.maximum(near - level, 0.0)
    found = np.floor(exact + _ROUNDING)
    missing = whole - found.sum(axis=0)
    order = np.argsort(-(exact - found), axis=0, kind="stable")
    place = np.argsort(order, axis=0)
    return np.asarray((found + (place < missing)).astype(np.int64))


_ROUNDING = 1e-7  # below a whole number by less is that number


def votes_estimate(votes: Votes, kind: NoiseKind) -> Estimate:
    """Items by their first places in all precincts, with what the noise leaves open.

    The errors are sums of independent draws. Of Laplace noise each sum has lighter tails, from the
    chance of an interval's end on, than one draw of the same variance, which is used.
    """
    n, deviation = len(votes.totals), votes.deviation
    total = votes.totals.sum()
    if total < max(CLEAR_TOTAL * math.sqrt(n) * deviation, 1):
        return nothing_learned(np.maximum(votes.totals, 0.0))

    def far(tail: float) -> float:
        return float(quantile(np.array(1.0), tail, kind, 1)) * deviation

    def ends_at(tail: float) -> tuple[Floats, Floats]:
        low = np.maximum(votes.totals - far(tail), 0.0)
        return low, np.maximum(votes.totals + far(tail), 0.0)

    def better_at(tail: float) -> NDArray[np.bool_]:
        apart = votes.totals[:, np.newaxis] - votes.totals
        return np.asarray(apart > math.sqrt(2) * far(tail))

    separation = separate_pairs(votes.totals, better_at, ends_at)
    low, high = ends_at(LEVEL / 2)
    return estimate_of(
        np.maximum(votes.totals, 0.0),
        low,
        high,
        separation,
        errors=ScoreErrors(votes.totals, np.full(n, deviation**2)),
    )
