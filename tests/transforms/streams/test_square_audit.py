"""A black-box audit of a stream that counts squares: meter, files, counts, noise of six nights.

One person is absent, or replaced, on all nights at once. Planted bugs, each of which lets the
person move more than the noise is made for, must be seen to exceed what the terms promise.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from hushrank.privacy.audit import audit_epsilon
from hushrank.privacy.noise import add_noise
from hushrank.privacy.randomness import RandomBits, seeded_bits, system_bits
from hushrank.privacy.sensitivity import Sensitivity
from hushrank.privacy.stream import Stream, encoded_night, stream_of
from hushrank.privacy.stream_encoder import RowTerms, SquareTerms, Workload
from hushrank.privacy.units import Adjacency, NoiseKind, PrivacyParams, Unit
from hushrank.transforms.common.schema import Ties
from hushrank.transforms.comparisons.aggregate import add_wins_and_losses
from hushrank.transforms.streams.people_files import (
    People,
    finish_people,
    open_people,
    write_shard,
)
from hushrank.transforms.streams.released_files import forget_cells, keep_cells, recent_cells
from hushrank.transforms.streams.row_meter import RowMeter
from hushrank.transforms.streams.square_meter import SquareMeter
from tests.statistics import FALSE_POSITIVE_RATE
from tests.transforms.streams.test_row_meter import owned
from tests.transforms.streams.test_stream_audit import DELTA, FEW, MANY, RHO, promised

TERMS = SquareTerms(nights=6, squares=8, gap=3, burst=8)
ITEMS, NAME = 4, "s"
Pair = tuple[int, int]  # winner, loser
Person = list[list[Pair]]  # what somebody answers on each night

OTHERS: list[Person] = [
    [[(0, 1)], [], [], [(1, 2)], [], []],
    [[], [(2, 1), (0, 1)], [], [], [], []],
]
ABSENT: Person = [[]] * 6
FIRST_WINS: Person = [[(0, 1), (0, 2)]] * 6  # 6 squares on one night, 2 on another
FIRST_LOSES: Person = [[(1, 0), (2, 0)]] * 6
CHANGING: Person = [[(0, 1)], [(0, 2)], [(0, 3)]] * 2  # another pair every night


class ByPairs(SquareMeter):
    """The bug: an allowance of squares, but the gap is one of pairs."""

    def apart(self, owners, pairs):
        recent = RowTerms(nights=6, rows=99, gap=self.terms.gap, burst=99)
        return RowMeter(self.before, self.night, recent).apart(owners, pairs)

    def with_rows(self, owners, pairs):
        recent = RowTerms(nights=6, rows=99, gap=self.terms.gap, burst=99)
        after = RowMeter(self.before, self.night, recent).with_rows(owners, pairs)
        squares = SquareMeter.with_rows(self, owners, pairs)
        return People(*squares.columns, after.recent)


class Forgetful(SquareMeter):
    """The bug: what a night uses is not remembered."""

    def with_rows(self, owners, pairs):
        after = SquareMeter.with_rows(self, owners, pairs)
        return People(after.first, after.second, after.last, np.minimum(after.times, 1))


class ByRows(SquareMeter):
    """The bug: a night uses its rows, not their square."""

    def rows_within(self, left):
        return left


class NoGap(SquareMeter):
    """The bug: nights of a person may follow each other."""

    def apart(self, owners, pairs):
        return np.ones(len(pairs), np.bool_)


def the_stream(adjacency: Adjacency) -> Stream:
    params = PrivacyParams(
        unit=Unit.USER, adjacency=adjacency, epsilon=math.inf, rho=RHO,
        noise=NoiseKind.GAUSSIAN, distinct_pairs=True,
    )  # fmt: skip
    return stream_of(params, Sensitivity(1, 1), TERMS, Workload(None))


def encoded(log: list[Person], stream: Stream, folder: Path, meter_of: type) -> np.ndarray:
    """All nights of `log` before noise, shape (nights, 2, items)."""
    place, nights, lineage = str(folder), [], [""]
    for night in range(TERMS.nights):
        given = [((number, 0), pair) for number, each in enumerate(log) for pair in each[night]]
        rows = owned([(who, (min(pair), max(pair))) for who, pair in given])
        won = np.array([1 if pair[0] < pair[1] else -1 for _, pair in given], np.int8)
        people = open_people(place, NAME, night - 1, lineage[0]).partition(0, 0)
        meter = meter_of(people, night, TERMS)
        meter.begin()
        there = np.flatnonzero(meter.apart(rows.owner_words, rows.short_pair))
        rows, won = rows.take(there), won[there]
        admitted = np.flatnonzero(meter.admit(rows.owner_words, rows.short_pair))
        compared = rows.take(admitted).comparisons()
        compared.outcome[:] = won[admitted]
        cells = np.zeros((2, ITEMS), np.int64)
        add_wins_and_losses(cells, compared, Ties.DROP)
        shard = write_shard(place, night, "a", 0, 0, meter.after)
        digest = finish_people(place, NAME, night, "a", [shard], lineage[0]).digest
        keep_cells(place, NAME, night, cells, digest)
        recent = recent_cells(place, NAME, night, lineage[: min(stream.encoder.bands - 1, night)])
        nights.append(encoded_night(stream.encoder, recent.counts))
        lineage = [digest, *lineage]
        forget_cells(place, night, stream.encoder.bands)
    return np.stack(nights)


def bound(
    adjacency: Adjacency,
    sides: tuple[Person, Person],
    work: Path,
    bits: RandomBits,
    trials: int,
    meter_of: type = SquareMeter,
) -> float:
    """Lower bound on the epsilon at which all nights together tell one person from the other."""
    stream = the_stream(adjacency)
    exact = {
        name: encoded([person, *OTHERS], stream, work / name, meter_of)
        for name, person in zip(("left", "right"), sides, strict=True)
    }

    def released(side: str, runs: int) -> np.ndarray:
        noise = add_noise(np.zeros((runs, *exact[side].shape), np.int64), stream.law, bits)
        return (exact[side] + noise).reshape(runs, -1)

    return audit_epsilon(
        released,
        "left",
        "right",
        trials=trials,
        confidence=1 - FALSE_POSITIVE_RATE,
        delta=DELTA,
    ).epsilon_lower


@pytest.mark.slow
@pytest.mark.parametrize(
    ("adjacency", "other"), [(Adjacency.ADD_REMOVE, ABSENT), (Adjacency.REPLACE_ONE, FIRST_LOSES)]
)
def test_a_whole_stream_keeps_its_promise(tmp_path, adjacency, other):
    found = bound(adjacency, (FIRST_WINS, other), tmp_path, system_bits(), FEW)
    assert 0 < found <= promised()


@pytest.mark.parametrize(
    ("meter_of", "person"),
    [(ByPairs, CHANGING), (Forgetful, FIRST_WINS), (ByRows, FIRST_WINS), (NoGap, CHANGING)],
)
def test_planted_bugs_are_seen(tmp_path, meter_of, person):
    sides, bits = (person, ABSENT), seeded_bits(4)
    found = bound(Adjacency.ADD_REMOVE, sides, tmp_path, bits, MANY, meter_of)
    assert found > promised()


@pytest.mark.parametrize("person", [FIRST_WINS, CHANGING])
def test_the_same_people_without_a_bug_show_nothing(tmp_path, person):
    found = bound(Adjacency.ADD_REMOVE, (person, ABSENT), tmp_path, seeded_bits(4), MANY)
    assert 0.4 < found <= promised()
