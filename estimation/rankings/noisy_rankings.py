"""The central mechanism on counts of rankings: exact counts in, noisy counts out, and back.

What is released is one vector of integers (`privacy.ranking_sensitivity`): parts with weights.

    kemeny           margins and the number of rankings if each tells of all pairs, else above
    bradley-terry    above, and squares and the number of rankings
    borda            nets, and squares and the number of rankings
    footrule         places
    instant-runoff   rounds (`estimation.rankings.instant_runoff`)

Pairs and places have all that their methods need. Sums of nets do not show how much rankings vary,
which intervals need, so sums of squares come with them. Borda scores also follow from pairs or
places, but with more noise. For n complete rankings of m items and one rho, the variance of a sum
of half nets, in units of 1 / (2 rho), is

    nets      (m - 1)^2 (m + 1) / 3    m (m^2 - 1) / 3, and the sums of all items are known to be 0
    above     m (m - 1)^2 / 2          (m - 1) / 2 cells of m (m - 1)
    places    m^2 (m^2 - 1) / 6        2 m times the sum of squared half nets

so nets are the best for every m >= 2 (with Laplace noise by a factor that grows with m).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.common.central_noise import Calibration, calibrate
from hushrank.estimation.common.links import Floats
from hushrank.estimation.rankings.ranking_counts import RankingCounts
from hushrank.privacy.noise import NoiseLaw, add_noise
from hushrank.privacy.randomness import RandomBits
from hushrank.privacy.ranking_sensitivity import (
    Part,
    Weights,
    ranking_below_sensitivity,
    ranking_sensitivity,
)
from hushrank.privacy.units import PrivacyParams

Integers = NDArray[np.int64]


def calibrate_rankings(
    params: PrivacyParams, longest: int, weights: Weights, *, below: int | None = None
) -> Calibration:
    """Noise for counts of rankings of at most `longest` items; from public parameters only.

    Args:
        params, longest, weights: as for `ranking_sensitivity`.
        below: the size of the catalogue, if items that a list leaves out count as below those it
            lists; None: a list says nothing of them.
    """
    if below is None:
        sensitivity = ranking_sensitivity(params, longest, weights)
        return calibrate(params, sensitivity, "ranking_sensitivity")
    sensitivity = ranking_below_sensitivity(params, longest, weights, below)
    return calibrate(params, sensitivity, "ranking_below_sensitivity")


def release_rankings(
    counts: RankingCounts, weights: Weights, law: NoiseLaw, bits: RandomBits
) -> dict[str, Integers]:
    """Add noise to every entry of every part, zeros too; no item is above itself.

    Guarantee: that for which `calibrate_rankings` made the law, for counts of a log whose bounds
    were enforced, if `bits.safe`.

    Args:
        counts: confidential.
        weights: of each part that is released.
        law: of the noise on each entry.
        bits: `system_bits()` in a release.

    Returns:
        Weighted noisy counts by part, which may be published; of margins those of pairs a < b.
    """
    exact = {part: weight * _part(counts, part) for part, weight in weights.items()}
    noisy = add_noise(np.concatenate([each.ravel() for each in exact.values()]), law, bits)
    ends = np.cumsum([each.size for each in exact.values()])
    released = {
        str(part): own.reshape(exact[part].shape)
        for part, own in zip(exact, np.split(noisy, ends[:-1]), strict=True)
    }
    if Part.ABOVE in exact:
        np.fill_diagonal(released[Part.ABOVE], 0)
    return released


def net_variance(
    weights: Weights, law: NoiseLaw, n_items: int, longest: int, lists: float, *, below: bool
) -> float:
    """Variance to expect of an item's net (items below it less items above it), over all lists.

    Law: lists of `longest` items in a random order, and noise on every released entry.

    Args:
        weights, law: as for `release_rankings`.
        n_items: size of the catalogue.
        longest: items of a list.
        lists: how many lists there are.
        below: whether unlisted items count as below the listed ones.
    """
    places = np.arange(1, longest + 1)
    nets = (n_items if below else longest) + 1.0 - 2 * places
    unlisted = longest if below else 0  # items that an unlisted one is below of
    chance = (np.sum(nets**2) + (n_items - longest) * unlisted**2) / n_items
    entries = {
        Part.NETS: 1 - 1 / n_items,
        Part.ABOVE: 2.0 * (n_items - 1),
        Part.MARGINS: n_items - 1.0,
        Part.PLACES: float(np.sum(nets**2)),
    }
    (noise,) = (
        n * law.variance / weights[part] ** 2 for part, n in entries.items() if part in weights
    )
    return float(lists * chance + noise)


def _part(counts: RankingCounts, part: Part) -> Integers:
    if part is Part.ABOVE:
        return counts.wins
    if part is Part.MARGINS:
        return np.asarray((counts.wins - counts.wins.T)[np.triu_indices(counts.n_items, 1)])
    if part is Part.PLACES:
        if counts.tails is None:
            return counts.places
        return np.concatenate([counts.places, counts.tails], axis=1)
    if part is Part.NETS:
        return np.asarray(counts.wins.sum(axis=1) - counts.wins.sum(axis=0))
    if part is Part.SQUARES:
        return np.diagonal(counts.moments)
    return np.array([counts.rankings])


@dataclass(frozen=True, slots=True, eq=False)
class NoisyRankings:
    """Released counts of rankings.

    Attributes:
        parts: as `release_rankings` returned them.
        weights: of each of them.
        law: of the noise on each entry.
        longest: the most items of a list.
        below: whether items that a list leaves out count as below those it lists.

    Raises:
        ValueError: a part is missing, or there is none.
    """

    parts: Mapping[str, Integers]
    weights: Weights
    law: NoiseLaw
    longest: int
    below: bool = False

    def __post_init__(self) -> None:
        if not self.parts or set(self.parts) != set(map(str, self.weights)):
            raise ValueError(f"got the parts {sorted(self.parts)}, but weights of others")

    @property
    def n_items(self) -> int:
        """Size of the public catalogue."""
        if (rounds := self.parts.get(Part.ROUNDS)) is not None:
            return len(rounds) + 1
        if (margins := self.parts.get(Part.MARGINS)) is not None:
            return (1 + math.isqrt(1 + 8 * len(margins))) // 2
        return max(len(part) for part in self.parts.values())

    @property
    def told(self) -> int:
        """How many items one list says something of, at most."""
        return self.n_items if self.below else self.longest

    def both_ways(self) -> Integers:
        """Weighted margins of both sides of each pair, which differ in sign; shape (n, n)."""
        margins = np.zeros((self.n_items, self.n_items), np.int64)
        margins[np.triu_indices(self.n_items, 1)] = self.parts[Part.MARGINS]
        return np.asarray(margins - margins.T)

    def of(self, part: Part) -> Floats:
        """What was counted, with noise."""
        if part is Part.MARGINS:
            return np.asarray(self.both_ways() / self.weights[part], np.float64)
        return np.asarray(self.parts[part] / self.weights[part], np.float64)

    def variance(self, part: Part) -> float:
        """Variance of the noise in one entry of `of(part)`."""
        return self.law.variance / self.weights[part] ** 2
