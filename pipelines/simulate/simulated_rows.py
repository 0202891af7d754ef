"""Rows of a simulated survey, a block of people at a time, with whole arrays for each block.

The generators are numpy's: fast and reproducible. No release draws from here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from hushrank.pipelines.simulate.simulation_spec import EPSILON_STREAM, ROWS_STREAM, SimulationSpec

BLOCK_ROWS = 1 << 20  # about how many rows are in memory at a time; each takes some 100 bytes
DENSE = 4  # people who meet more than 1 / DENSE of all pairs draw by shuffling all pairs

Columns = dict[str, NDArray[np.generic]]
Integers = NDArray[np.int64]


def n_blocks(spec: SimulationSpec) -> int:
    """How many blocks of equal size the people are divided into."""
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
    """How many rows each of the people `first` to `end` - 1 has."""
    edges = np.floor(np.arange(first, end + 1) * spec.heavy_share)
    heavy = np.diff(edges) > 0  # every (1 / heavy_share)-th person, so every block has that share
    counts = np.where(heavy, spec.comparisons * spec.heavy_factor, spec.comparisons)
    if spec.varying:
        counts = rng.geometric(1 / counts)
    return np.minimum(counts, spec.n_pairs if spec.distinct_pairs else BLOCK_ROWS)


def pair_items(pair: Integers, n_items: int) -> tuple[Integers, Integers]:
    """Both items of each unordered pair, numbered 0 to n(n-1)/2 - 1.

    Items stand in a circle. Pair number p joins p mod n with the item p div n + 1 places on. For
    even n the last distance, n / 2, needs only half the circle; exactly these numbers are left.
    """
    distance, left = np.divmod(pair, n_items)
    return left, (left + distance + 1) % n_items


def draw_distinct(counts: Integers, n_values: int, rng: np.random.Generator) -> Integers:
    """For each person p a uniformly random set of counts[p] values below `n_values`.

    Args:
        counts: shape (people,), each at most `n_values`.
        n_values: how many values there are to draw from.
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
