"""Rankings in shares: the same rankings meet, and each is as likely to be kept as any other."""

from __future__ import annotations

import numpy as np
import pytest

from hushrank.privacy.randomness import RandomBits, seeded_bits, system_bits
from hushrank.transforms.common.encode import Sifted
from hushrank.transforms.common.sorting import InSlices
from hushrank.transforms.rankings.count_rankings import (
    blob_of_pieces,
    bound_rankings,
    pieces_of_blob,
    ranking_numbers,
)
from hushrank.transforms.rankings.rankings import Pieces, Rankings
from tests.statistics import FALSE_POSITIVE_RATE, uniform_p_value

HEAVY, MOST, RUNS = 12, 3, 4_000


def bounded(parts: list[Rankings], most: int, bits: RandomBits) -> Rankings:
    steps = bound_rankings(map(Sifted, parts), most, bits)
    for _ in parts:
        assert next(steps) == Sifted(None)
    with pytest.raises(StopIteration) as end:
        next(steps)
    return end.value.value


def some(first: int, count: int, owner: int = 0) -> Rankings:
    """Rankings of one item each, numbered from `first`, of one person."""
    owners = np.full((count, 2), owner, np.uint64)
    return Rankings(
        np.arange(first, first + count), np.ones(count, np.int64), np.ones(count), owners
    )


def in_parts() -> list[Rankings]:
    """One heavy person's rankings in shares of several sizes, among somebody else's."""
    other = some(100, 2, owner=9)
    return [some(0, 1), Rankings.concatenated([some(1, 6), other]), some(7, 2), some(9, 3)]


def test_every_ranking_is_kept_equally_often_whichever_share_it_is_in():
    counts = np.zeros(HEAVY, np.int64)
    for _ in range(RUNS):
        kept = bounded(in_parts(), MOST, system_bits())
        mine = kept.items[kept.items < 100]
        assert len(np.unique(mine)) == len(mine) == MOST
        assert set(kept.items) >= {100, 101}
        counts[mine] += 1
    assert uniform_p_value(counts) > FALSE_POSITIVE_RATE


def test_a_choice_that_forgets_earlier_shares_is_caught():
    """Were priorities drawn anew for each share, what came first would rarely stay."""
    counts = np.zeros(HEAVY, np.int64)
    for _ in range(RUNS // 4):
        held = bounded(in_parts()[:1], MOST, system_bits())
        for part in in_parts()[1:]:
            again = Rankings.concatenated([held, part])
            held = bounded([again], MOST, system_bits())
        counts[held.items[held.items < 100]] += 1
    assert uniform_p_value(counts) < FALSE_POSITIVE_RATE


def test_of_each_person_a_random_share_of_rankings_is_kept():
    people = 4_000
    users = np.repeat(np.arange(people), 3).astype(np.uint64)
    owner, m = np.stack([users, users], 1), len(users)
    rankings = Rankings(np.arange(m) % 3, np.ones(m, np.int64), np.ones(m), owner)
    kept = bounded([rankings], 1, seeded_bits(6))
    assert len(kept) == people
    assert len(np.unique(kept.owner[:, 0])) == people
    assert uniform_p_value(np.bincount(kept.items)) > FALSE_POSITIVE_RATE
    assert len(bounded([rankings], 2, seeded_bits(6))) == 2 * people
    assert bounded([rankings], 3, seeded_bits(6)) is rankings


@pytest.mark.parametrize("most", [10, 100, 10**9])
def test_all_pieces_of_a_ranking_come_in_one_share(most):
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
    sizes = [len(pieces.rank) for pieces in held]
    shares = list(InSlices(sizes, lambda k: pieces_of_blob(blobs[k]), most, ranking_numbers))
    assert len(shares) == -(-sum(sizes) // most)
    whose = [set(zip(share.rankings.owner[:, 0], share.contest, strict=True)) for share in shares]
    assert sum(map(len, whose)) == len(set().union(*whose)) == 12
    assert (max(map(len, whose)) < 12) == (most < 10**9)
    ranks = np.sort(np.concatenate([share.rank for share in shares]))
    np.testing.assert_array_equal(ranks, np.sort(np.concatenate([part.rank for part in held])))
