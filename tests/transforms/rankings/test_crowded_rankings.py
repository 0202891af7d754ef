"""Rankings in turns: the same rankings meet, and each is as likely to be kept as any other."""

from __future__ import annotations

import numpy as np
import pytest

from hushrank.privacy.randomness import system_bits
from hushrank.transforms.rankings.crowded_rankings import bound_in_turns, list_turns, long_turns
from hushrank.transforms.rankings.ranking_blobs import blob_of_pieces, blob_of_rankings
from hushrank.transforms.rankings.rankings import Pieces, Rankings
from tests.statistics import FALSE_POSITIVE_RATE, uniform_p_value

HEAVY, MOST, RUNS = 12, 3, 4_000


def some(first: int, count: int, owner: int = 0) -> Rankings:
    """Rankings of one item each, numbered from `first`, of one person."""
    owners = np.full((count, 2), owner, np.uint64)
    return Rankings(
        np.arange(first, first + count), np.ones(count, np.int64), np.ones(count), owners
    )


def in_turns() -> list[Rankings]:
    """One heavy person's rankings in turns of several sizes, among somebody else's."""
    other = some(100, 2, owner=9)
    return [some(0, 1), Rankings.concatenated([some(1, 6), other]), some(7, 2), some(9, 3)]


def test_every_ranking_is_kept_equally_often_whenever_its_turn_comes():
    counts = np.zeros(HEAVY, np.int64)
    for _ in range(RUNS):
        kept = bound_in_turns(in_turns(), MOST, system_bits())
        assert kept.seen == HEAVY + 2
        mine = kept.rankings.items[kept.rankings.items < 100]
        assert len(np.unique(mine)) == len(mine) == MOST
        assert set(kept.rankings.items) >= {100, 101}
        counts[mine] += 1
    assert uniform_p_value(counts) > FALSE_POSITIVE_RATE


def test_a_choice_that_forgets_earlier_turns_is_caught():
    """Were priorities drawn anew each turn, what came first would rarely stay."""
    counts = np.zeros(HEAVY, np.int64)
    for _ in range(RUNS // 4):
        held = bound_in_turns(in_turns()[:1], MOST, system_bits()).rankings
        for turn in in_turns()[1:]:
            again = Rankings.concatenated([held, turn])
            held = bound_in_turns([again], MOST, system_bits()).rankings
        counts[held.items[held.items < 100]] += 1
    assert uniform_p_value(counts) < FALSE_POSITIVE_RATE


def test_lists_come_in_turns_of_the_size_that_was_asked_for():
    blobs = [blob_of_rankings(some(k, 1)) for k in range(0, 10)]
    turns = list(list_turns(lambda: blobs, 3 * len(blobs[0])))
    assert [len(turn) for turn in turns] == [3, 3, 3, 1]
    assert [len(turn) for turn in list_turns(lambda: blobs, 1)] == [1] * 10
    assert np.concatenate([turn.items for turn in turns]).tolist() == list(range(10))


@pytest.mark.parametrize("bytes_at_once", [100, 1_000, 10**9])
def test_all_pieces_of_a_ranking_come_in_one_turn(bytes_at_once):
    rng = np.random.default_rng(0)
    blobs, held = [], []
    for _ in range(20):
        owner = rng.integers(0, 3, 30).astype(np.uint64)
        parts = Rankings(
            rng.integers(0, 5, 30), np.ones(30, np.int64), np.ones(30), np.stack([owner, owner], 1)
        )
        contest = rng.integers(0, 4, 30).astype(np.uint64)
        held.append(Pieces(parts, rng.random(30), rng.integers(0, 9, 30).astype(np.int16), contest))
        blobs.append(blob_of_pieces(held[-1]))
    n_bytes = sum(map(len, blobs))
    turns = list(long_turns(lambda: blobs, n_bytes, bytes_at_once))
    assert len(turns) == max(1, -(-n_bytes // bytes_at_once))
    whose = [set(zip(turn.rankings.owner[:, 0], turn.contest, strict=True)) for turn in turns]
    assert sum(map(len, whose)) == len(set().union(*whose)) == 12
    assert (max(map(len, whose)) < 12) == (bytes_at_once < 10**9)
    ranks = np.sort(np.concatenate([turn.rank for turn in turns]))
    np.testing.assert_array_equal(ranks, np.sort(np.concatenate([part.rank for part in held])))


def test_no_turns_are_an_error():
    with pytest.raises(ValueError, match="no turns"):
        bound_in_turns([], 1, system_bits())
