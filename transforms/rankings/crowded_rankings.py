"""Rankings of partitions that are too large to be held at once: one person may have any number.

A partition is gone through in *turns*. In list form a turn is some of its parcels, since a row is a
ranking. In long form the rows of one ranking may be in any parcel, so a turn is all rows of a share
of the contests. Of each person only the rankings that may still count are carried from turn to
turn, so the law of what is kept is that of `rankings.bound_rankings`. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from hushrank.privacy.keyed_hash import Hashes
from hushrank.privacy.randomness import RandomBits
from hushrank.transforms.rankings.ranking_blobs import pieces_of_blobs, rankings_of_blobs
from hushrank.transforms.rankings.rankings import Pieces, Rankings, first_of_owners

Blobs = Callable[[], Iterable[bytes]]  # all of a partition, at least one; anew each time

_MIX = np.uint64(0x9E3779B97F4A7C15)  # spreads contests over shares, and decides nothing else


def list_turns(blobs: Blobs, bytes_at_once: int) -> Iterator[Rankings]:
    """Rankings in list form, of about `bytes_at_once` bytes of blobs, or one blob, at a time."""
    held: list[bytes] = []
    size = 0
    for blob in blobs():
        if held and size + len(blob) > bytes_at_once:
            yield rankings_of_blobs(held)
            held, size = [], 0
        held.append(blob)
        size += len(blob)
    yield rankings_of_blobs(held)


def long_turns(blobs: Blobs, n_bytes: int, bytes_at_once: int) -> Iterator[Pieces]:
    """Pieces of rankings in long form: all of a ranking in the same turn.

    Args:
        blobs: of the partition.
        n_bytes: how long they are together.
        bytes_at_once: about what one turn may hold; a ranking that is longer is whole all the same.
    """
    n_shares = np.uint64(max(-(-n_bytes // bytes_at_once), 1))
    for share in range(int(n_shares)):
        held = []
        for blob in blobs():
            pieces = pieces_of_blobs([blob])
            mixed = ((pieces.contest ^ _owner_word(pieces)) * _MIX) >> np.uint64(33)  # 31 bits
            mine = np.flatnonzero((mixed * n_shares) >> np.uint64(31) == share)
            held.append(pieces.take(mine))
        yield Pieces.concatenated(held)


def _owner_word(pieces: Pieces) -> Hashes:
    owner = pieces.rankings.owner
    if owner is None:
        raise ValueError("rankings without owners have nobody to meet")
    return owner[:, 0]


@dataclass(frozen=True, slots=True)
class Kept:
    """What is kept of some turns, and how many rankings they had."""

    rankings: Rankings
    seen: int


def bound_in_turns(turns: Iterable[Rankings], most: int, bits: RandomBits) -> Kept:
    """Keep at most `most` rankings of each person, chosen uniformly at random over all turns.

    A ranking gets 128 random bits when its turn comes; those with the smallest stay.

    Args:
        turns: at least one; a person's rankings may be in all of them.
        most: of one person.
        bits: decide which.
    """
    held: Rankings | None = None
    priority = np.empty((0, 2), np.uint64)
    seen = 0
    for turn in turns:
        seen += len(turn)
        held = turn if held is None else Rankings.concatenated([held, turn])
        priority = np.concatenate([priority, bits.words((len(turn), 2))])
        kept = first_of_owners(held, most, priority)
        held, priority = held.take(kept), priority[kept]
    if held is None:
        raise ValueError("there are no turns to bound")
    return Kept(held, seen)
