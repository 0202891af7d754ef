"""Rankings and pieces of them as bytes, for the shuffle: Arrow streams with one row a list."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hushrank.privacy.keyed_hash import Hashes
from hushrank.transforms.common.schema import to_numpy
from hushrank.transforms.rankings.rankings import Pieces, Rankings


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
    """What `blob_of_rankings` was given."""
    return _rankings(_table(blob))


def has_copies(blob: bytes) -> bool:
    """Whether the rankings of a blob are copies that nobody names."""
    return "copies" in pa.ipc.open_stream(blob).schema.names


def pieces_of_blob(blob: bytes) -> Pieces:
    """What `blob_of_pieces` was given."""
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
    )


def _items(table: pa.Table, name: str) -> NDArray[Any]:
    (lists,) = table[name].chunks
    return to_numpy(lists.flatten())
