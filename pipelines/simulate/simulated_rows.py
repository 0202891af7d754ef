"""Rows of a simulated survey, a block of people at a time, with whole arrays for each block.

The generators are numpy's: fast and reproducible. No release draws from here.

A `SimulationSpec` holds the items, their true scores, the people, and how they answer.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.common.links import Link, link_named

MAX_ITEMS = 1 << 20  # limit for which (person in a block, pair) fits into one int64
MAX_ROWS_PER_PERSON = 1 << 20  # one person's rows are drawn at once
# Independent streams of one seed.
SCORES_STREAM, ROWS_STREAM, EPSILON_STREAM, HABIT_STREAM = range(4)
BLOCK_ROWS = 1 << 20  # about how many rows are in memory at a time; each takes some 100 bytes
DENSE = 4  # people who meet more than 1 / DENSE of all pairs draw by shuffling all pairs
Columns = dict[str, NDArray[np.generic]]
Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationSpec:
    """A survey in which people compare pairs of items drawn uniformly at random.

    The rows depend only on these fields, not on the number of files or their format. Optional
    columns do not change the other columns. (numpy may change its streams between versions.)

    Attributes:
        items: n, the items 0 to n - 1.
        people: the people 0 to people - 1; each gives at least one answer.
        comparisons: number of answers of each person.
        varying: `comparisons` is only the mean of a geometric law: many people answer little, some
            much.
        heavy_share: share of people who give `heavy_factor` times as many answers.
        heavy_factor: see `heavy_share`.
        distinct_pairs: nobody meets a pair twice, so nobody answers more than n(n-1)/2 times.
        link: `logistic` (Bradley-Terry-Luce), `probit` (Thurstone) or `laplace`.
        spread: standard deviation of the true scores, drawn from a normal law and then centred.
        scores: true scores to use instead; they are centred too.
        ties: share of answers without a winner, the same for every pair.
        named: items are called item-0, item-1, ... (with leading zeros) instead of 0, 1, ...
        events: add a column `event`, a running number that no other row has.
        epsilons: add a column `epsilon`: each person draws one of these.
        seed: seed of the simulation; the same seed gives the same rows.

    Raises:
        ValueError: a field breaks its rule; the text names field, rule and value.
    """

    items: int
    people: int
    comparisons: int = 15
    varying: bool = False
    heavy_share: float = 0.0
    heavy_factor: int = 10
    distinct_pairs: bool = True
    link: str = "logistic"
    spread: float = 1.0
    scores: tuple[float, ...] | None = None
    ties: float = 0.0
    named: bool = False
    events: bool = False
    epsilons: tuple[float, ...] = ()
    seed: int = 0

    def __post_init__(self) -> None:
        link_named(self.link)
        self._check_range("items", 2, MAX_ITEMS)
        self._check_range("people", 1, 1 << 40)
        self._check_range("comparisons", 1, MAX_ROWS_PER_PERSON)
        self._check_range("heavy_factor", 1, MAX_ROWS_PER_PERSON // self.comparisons)
        self._check_range("heavy_share", 0, 1)
        self._check_range("ties", 0, 1)
        self._check_range("seed", 0, math.inf)
        if self.distinct_pairs and self.comparisons > self.n_pairs:
            raise ValueError(
                f"comparisons must be at most {self.n_pairs}, the pairs of {self.items} items,"
                f" while distinct_pairs is set; got {self.comparisons}"
            )
        self._check_scores()
        if not all(math.isfinite(epsilon) and epsilon > 0 for epsilon in self.epsilons):
            raise ValueError(f"epsilons must be finite and > 0, got {self.epsilons!r}")

    def _check_range(self, name: str, least: float, most: float) -> None:
        value = getattr(self, name)
        if not least <= value <= most:
            raise ValueError(f"{name} must be between {least} and {most}, got {value!r}")

    def _check_scores(self) -> None:
        if not (math.isfinite(self.spread) and self.spread >= 0):
            raise ValueError(f"spread must be finite and >= 0, got {self.spread!r}")
        if self.scores is None:
            return
        if len(self.scores) != self.items:
            raise ValueError(f"scores must have {self.items} entries, got {len(self.scores)}")
        if not all(map(math.isfinite, self.scores)):
            raise ValueError(f"scores must be finite, got {self.scores!r}")

    @property
    def n_pairs(self) -> int:
        """Unordered pairs of items, n(n-1)/2."""
        return self.items * (self.items - 1) // 2

    @property
    def mean_comparisons(self) -> float:
        """Expected rows of one person, before the limit that `distinct_pairs` sets."""
        return self.comparisons * (1 + self.heavy_share * (self.heavy_factor - 1))

    @property
    def win_model(self) -> Link:
        """The chance that an item wins, from the difference of two scores."""
        return link_named(self.link)

    def item_ids(self) -> tuple[str, ...]:
        """The names of the items in the public catalogue."""
        width = len(str(self.items - 1)) if self.named else 0
        prefix = "item-" if self.named else ""
        return tuple(f"{prefix}{item:0{width}}" for item in range(self.items))

    def true_scores(self) -> NDArray[np.float64]:
        """Shape (items,); sums to zero."""
        if self.scores is None:
            scores = self.generator(SCORES_STREAM).normal(0.0, self.spread, self.items)
        else:
            scores = np.array(self.scores, np.float64)
        centred: NDArray[np.float64] = scores - scores.mean()
        return centred

    def generator(self, *stream: int) -> np.random.Generator:
        """Generator of one stream of this seed; streams are independent of each other."""
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=stream))


def n_blocks(spec: SimulationSpec) -> int:
    """Return the number of blocks of equal size into which the people are divided."""
    return min(spec.people, math.ceil(spec.people * spec.mean_comparisons / BLOCK_ROWS))


def comparison_blocks(spec: SimulationSpec) -> Iterator[Columns]:
    """Columns `user`, `item_i`, `item_j` and `outcome`, then `event` and `epsilon` if asked for.

    An outcome is +1 if item_i won, -1 if item_j won, 0 for a tie. A block holds every row of its
    people, in random order. Only the running number of events depends on earlier blocks, so memory
    does not grow with the number of people.
    """
    blocks = n_blocks(spec)
    scores = spec.true_scores()
    n_events = 0
    for block in range(blocks):
        first, end = (spec.people * edge // blocks for edge in (block, block + 1))
        rng = spec.generator(ROWS_STREAM, block)
        counts = rows_per_person(spec, first, end, rng)
        keys = _person_and_pair(spec, counts, rng)
        person, pair = np.divmod(keys, spec.n_pairs)
        columns: Columns = {"user": person + first}
        columns |= _answers(spec, scores, pair, rng)
        if spec.events:
            columns["event"] = np.arange(n_events, n_events + len(keys))
        if spec.epsilons:
            levels = np.array(spec.epsilons, np.float64)
            chosen = spec.generator(EPSILON_STREAM, block).choice(levels, end - first)
            columns["epsilon"] = chosen[person]
        n_events += len(keys)
        yield columns


def rows_per_person(
    spec: SimulationSpec, first: int, end: int, rng: np.random.Generator
) -> Integers:
    """Return the number of rows of each of the people `first` to `end` - 1."""
    edges = np.floor(np.arange(first, end + 1) * spec.heavy_share)
    heavy = np.diff(edges) > 0  # every (1 / heavy_share)-th person, so every block has that share
    counts = np.where(heavy, spec.comparisons * spec.heavy_factor, spec.comparisons)
    if spec.varying:
        counts = rng.geometric(1 / counts)
    return np.minimum(counts, spec.n_pairs if spec.distinct_pairs else BLOCK_ROWS)


def pair_items(pair: Integers, n_items: int) -> tuple[Integers, Integers]:
    """Return both items of each unordered pair, numbered 0 to n(n-1)/2 - 1.

    Items stand in a circle. Pair number p joins p mod n with the item p div n + 1 places on. For
    even n the last distance, n / 2, needs only half the circle; exactly these numbers are left.
    """
    distance, left = np.divmod(pair, n_items)
    return left, (left + distance + 1) % n_items


def draw_distinct(counts: Integers, n_values: int, rng: np.random.Generator) -> Integers:
    """Draw for each person p a uniformly random set of counts[p] values below `n_values`.

    Args:
        counts: shape (people,), each at most `n_values`.
        n_values: number of values to draw from.
        rng: source of randomness.

    Returns:
        shape (counts.sum(),): p * n_values + value for each value of p's set, in no useful order.
    """
    many = counts * DENSE > n_values
    few_keys = _redrawn(np.flatnonzero(~many), counts[~many], n_values, rng)
    if not many.any():
        return few_keys
    return np.concatenate((few_keys, _shuffled(np.flatnonzero(many), counts[many], n_values, rng)))


def _redrawn(
    people: Integers, counts: Integers, n_values: int, rng: np.random.Generator
) -> Integers:
    """Draw with replacement, then redraw repeated values until none is repeated.

    The law does not change if values are relabelled, so all sets of one size are equally likely.
    """
    keys = np.repeat(people * n_values, counts)
    keys += rng.integers(n_values, size=len(keys))
    while True:
        keys.sort()
        repeated = np.flatnonzero(keys[1:] == keys[:-1])
        if not len(repeated):
            return keys
        again = keys[repeated] // n_values
        keys[repeated] = again * n_values + rng.integers(n_values, size=len(repeated))


def _shuffled(
    people: Integers, counts: Integers, n_values: int, rng: np.random.Generator
) -> Integers:
    """Shuffle all values for each person and take the first ones."""
    values = np.arange(n_values)
    order = rng.permuted(np.tile(values, (len(people), 1)), axis=1)
    keys: Integers = people[:, np.newaxis] * n_values + order
    return keys[values < counts[:, np.newaxis]]


def _person_and_pair(spec: SimulationSpec, counts: Integers, rng: np.random.Generator) -> Integers:
    """Person (from 0) * n_pairs + pair, for every row, in random order."""
    if spec.distinct_pairs:
        keys = draw_distinct(counts, spec.n_pairs, rng)
    else:
        keys = np.repeat(np.arange(len(counts)) * spec.n_pairs, counts)
        keys += rng.integers(spec.n_pairs, size=len(keys))
    rng.shuffle(keys)
    return keys


def _answers(
    spec: SimulationSpec, scores: NDArray[np.float64], pair: Integers, rng: np.random.Generator
) -> Columns:
    """Sides and winners: left wins with probability F(score left - score right), unless tied."""
    one, other = pair_items(pair, spec.items)
    left = np.where(rng.integers(0, 2, size=len(pair), dtype=bool), other, one)
    right = one + other - left
    left_wins = spec.win_model.cdf(scores[left] - scores[right])
    uniform = rng.random(len(pair))
    outcome = np.where(uniform < spec.ties + (1 - spec.ties) * left_wins, 1, -1)
    outcome[uniform < spec.ties] = 0
    return {
        "item_i": left.astype(np.int32),
        "item_j": right.astype(np.int32),
        "outcome": outcome.astype(np.int8),
    }
