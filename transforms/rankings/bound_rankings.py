"""Keep at most so many rankings of each person, chosen at random. Pure.

For the shuffle, rankings and pieces of them become bytes: Arrow streams with one row a list.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hushrank.privacy.keyed_hash import Hashes
from hushrank.privacy.randomness import RandomBits
from hushrank.transforms.common.encode import Sifted
from hushrank.transforms.common.schema import to_numpy
from hushrank.transforms.common.sorting import Order, Words, hold, new_run, number_runs, sort_by
from hushrank.transforms.rankings.rankings import Pieces, Rankings, owners

Priorities = Callable[[Rankings], Hashes]


def blob_of_rankings(rankings: Rankings) -> bytes:
    """Rankings with owners; a multiple of 8 bytes."""
    return _stream(_columns(rankings))


def blob_of_pieces(pieces: Pieces) -> bytes:
    """Pieces of rankings; a multiple of 8 bytes."""
    offsets = _offsets(pieces.rankings.lengths)
    parts = {"rank": pieces.rank, "rank_rest": pieces.rank_rest}
    ranks = {
        name: pa.LargeListArray.from_arrays(offsets, pa.array(part)) for name, part in parts.items()
    }
    return _stream(_columns(pieces.rankings) | ranks | {"contest": pa.array(pieces.contest)})


def rankings_of_blob(blob: bytes) -> Rankings:
    """Return the rankings that `blob_of_rankings` was given."""
    return _rankings(_table(blob))


def has_copies(blob: bytes) -> bool:
    """Whether the rankings of a blob are copies that nobody names."""
    return "copies" in pa.ipc.open_stream(blob).schema.names


def pieces_of_blob(blob: bytes) -> Pieces:
    """Return the pieces that `blob_of_pieces` was given."""
    table = _table(blob)
    rank = _items(table, "rank").astype(np.float64)
    rest = _items(table, "rank_rest").astype(np.int16)
    return Pieces(_rankings(table), rank, rest, to_numpy(table["contest"]))


def _columns(rankings: Rankings) -> dict[str, pa.Array]:
    if rankings.owner is None:
        raise ValueError("only rankings with owners are shuffled")
    owner: Hashes = rankings.owner
    offsets = _offsets(rankings.lengths)
    codes = pa.array(rankings.items.astype(np.int32))
    columns = {
        "0": pa.array(owner[:, 0]),
        "1": pa.array(owner[:, 1]),
        "epsilon": pa.array(rankings.epsilon),
        "item": pa.LargeListArray.from_arrays(offsets, codes),
    }
    if rankings.tied is not None:
        columns["tied"] = pa.LargeListArray.from_arrays(offsets, pa.array(rankings.tied))
    if rankings.copies is not None:
        columns["copies"] = pa.array(rankings.copies)
    if rankings.profile is not None:
        columns["profile"] = pa.array(rankings.profile)
    return columns


def _offsets(lengths: NDArray[np.int64]) -> pa.Array:
    return pa.array(np.append(0, np.cumsum(lengths)), pa.int64())


def _stream(columns: dict[str, pa.Array]) -> bytes:
    batch = pa.record_batch(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    blob: bytes = sink.getvalue().to_pybytes()
    return blob


def _table(blob: bytes) -> pa.Table:
    return pa.ipc.open_stream(blob).read_all()


def _rankings(table: pa.Table) -> Rankings:
    (lists,) = table["item"].chunks
    lengths = np.diff(to_numpy(lists.offsets))
    return Rankings(
        items=_items(table, "item").astype(np.int64),
        lengths=lengths,
        epsilon=to_numpy(table["epsilon"]),
        owner=np.column_stack([to_numpy(table["0"]), to_numpy(table["1"])]),
        tied=_items(table, "tied") if "tied" in table.column_names else None,
        copies=to_numpy(table["copies"]) if "copies" in table.column_names else None,
        profile=to_numpy(table["profile"]) if "profile" in table.column_names else None,
    )


def _items(table: pa.Table, name: str) -> NDArray[Any]:
    (lists,) = table[name].chunks
    return to_numpy(lists.flatten())


@dataclass(frozen=True, slots=True)
class _Drawn:
    """Rankings with the random bits that decide which are kept: the smallest."""

    rankings: Rankings
    priority: Hashes


def bound_rankings(
    slices: Iterable[Sifted[Rankings]], most: int, bits: RandomBits
) -> Generator[Sifted[None], None, Rankings]:
    """Keep at most `most` rankings of each person, chosen uniformly at random over all slices.

    A ranking gets 128 random bits when its slice comes; those with the smallest stay.

    Args:
        slices: one slice or more; a person's rankings may be in all of them.
        most: most rankings of one person.
        bits: decide which.

    Returns:
        What was refused of each slice is yielded; the rankings that are kept are returned.
    """
    return (yield from bound_by(slices, most, lambda rankings: bits.words((len(rankings), 2))))


def bound_by(
    slices: Iterable[Sifted[Rankings]], most: int, priorities: Priorities
) -> Generator[Sifted[None], None, Rankings]:
    """Bound by the 128 bits that `priorities` makes for each ranking."""

    def keep(held: _Drawn | None, more: Rankings) -> _Drawn:
        rankings, priority = more, priorities(more)
        if held is not None:
            rankings = Rankings.concatenated([held.rankings, more])
            priority = np.concatenate([held.priority, priority])
        kept = _first_of_owners(rankings, most, priority)
        if len(kept) == len(rankings):
            return _Drawn(rankings, priority)
        return _Drawn(rankings.take(kept), priority[kept])

    held = yield from hold(slices, keep)
    return held.rankings


def _first_of_owners(rankings: Rankings, most: int, priority: Hashes) -> Order:
    """Places, ascending, of each person's `most` rankings with the smallest `priority`."""
    owner = owners(rankings)
    leading = np.sort(owner[:, 0])
    if (leading[1:] != leading[:-1]).all():  # nobody has two
        return np.arange(len(owner))
    order = sort_by(owner, priority)
    owner = owner[order]
    first = new_run(owner[:, 0], owner[:, 1])
    starts = np.flatnonzero(first)
    position = np.arange(len(order)) - starts[number_runs(first)]
    return np.sort(order[position < most])


def ranking_numbers(pieces: Pieces) -> Words:
    """A number for each piece; pieces of one ranking have the same."""
    numbers: Words = pieces.contest ^ owners(pieces.rankings)[:, 0]
    return numbers
