"""Names of items that people mention, and the weights that they give them. Pure.

A name in a cell follows from the cell's own bytes and public rules alone (`NameRules`). Of each
person at most c names count: those with the lowest keyed hash of person and name, so the choice
does not depend on files, order or retries, and a part of a person's names can be left out before
all of them meet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hushrank.privacy.discovered_names import WEIGHTS
from hushrank.privacy.keyed_hash import Hashes, KeyedHash
from hushrank.transforms.common.encode import missing, pseudonyms
from hushrank.transforms.common.schema import InputError, to_numpy
from hushrank.transforms.common.sorting import new_run, place_in_run
from hushrank.transforms.common.written_names import NameRules
from hushrank.transforms.engine.beam import beam

# Label of a hash; `transforms.comparisons.bound`, `shuffle` and `common.encode` have 0 to 5.
_CHOICE = 6
_PLACE_BITS = 48  # a partition is chosen by the other, highest bits of a pseudonym


@dataclass(frozen=True, slots=True)
class Mentions:
    """Names that people mention. Confidential.

    Attributes:
        owner: shape (m, 2), pseudonyms.
        rank: shape (m, 2), keyed hashes of person and name.
        code: shape (m,), the place of each name in `names`.
        names: distinct names, large_string without nulls.
    """

    owner: Hashes
    rank: Hashes
    code: NDArray[np.int64]
    names: pa.Array

    def __len__(self) -> int:
        return len(self.code)

    @classmethod
    def concatenated(cls, parts: Sequence[Mentions]) -> Mentions:
        """The mentions of several parts, at least one, over one list of names."""
        held = pa.chunked_array([part.names for part in parts], pa.large_string())
        encoded = held.combine_chunks().dictionary_encode()
        place, starts = to_numpy(encoded.indices), np.cumsum([0, *(len(p.names) for p in parts)])
        codes = [place[part.code + start] for part, start in zip(parts, starts, strict=False)]
        owner, rank = (np.concatenate([getattr(p, name) for p in parts]) for name in _HASHES)
        return cls(owner, rank, np.concatenate(codes).astype(np.int64), encoded.dictionary)

    def take(self, places: NDArray[np.int64]) -> Mentions:
        """The chosen mentions, with the names that these need alone."""
        used, code = np.unique(self.code[places], return_inverse=True)
        names = self.names.take(pa.array(used))
        return Mentions(self.owner[places], self.rank[places], code.astype(np.int64), names)

    def bounded(self, most: int) -> Mentions:
        """Each person's names once, at most `most`: those of the lowest rank, in that order."""
        order = np.lexsort((*self.rank.T[::-1], *self.owner.T[::-1]))
        order = order[new_run(*self.owner[order].T, *self.rank[order].T)]
        return self.take(order[place_in_run(new_run(*self.owner[order].T)) < most])

    def blobs(self, n_partitions: int) -> Iterator[tuple[int, int, bytes]]:
        """Cut mentions into partitions by person, the same for every reader.

        Yields:
            The partition, the number of mentions in it, and what `mentions_of_blob` reads.
        """
        place = ((self.owner[:, 0] >> np.uint64(_PLACE_BITS)).astype(np.int64)) * n_partitions >> 16
        for partition in np.unique(place).tolist():
            mine = self.take(np.flatnonzero(place == partition))
            yield partition, len(mine), mine.blob()

    def blob(self) -> bytes:
        """An Arrow IPC stream, whose length is a multiple of 8."""
        hashes = {f"{name}{k}": getattr(self, name)[:, k] for name in _HASHES for k in (0, 1)}
        names = pa.DictionaryArray.from_arrays(pa.array(self.code), self.names)
        batch = pa.RecordBatch.from_pydict({**hashes, "name": names})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch)
        return bytes(sink.getvalue().to_pybytes())

    def weighted(self) -> pa.Table:
        """Names and the sum of the weights that people give them; of `bounded` mentions."""
        starts = np.flatnonzero(new_run(*self.owner.T))
        sizes = np.diff(np.append(starts, len(self)))
        weight = np.repeat(WEIGHTS[sizes], sizes)
        names = pa.DictionaryArray.from_arrays(pa.array(self.code), self.names)
        table = pa.table({"name": names.dictionary_decode(), "weight": weight})
        return summed([table])


_HASHES = ("owner", "rank")


def mentions_of_blob(blob: bytes) -> Mentions:
    """Read what `Mentions.blobs` made."""
    batch = pa.ipc.open_stream(blob).read_next_batch()
    owner, rank = (
        np.stack([to_numpy(batch[f"{name}{k}"]) for k in (0, 1)], axis=1) for name in _HASHES
    )
    names = batch["name"]
    return Mentions(owner, rank, to_numpy(names.indices), names.dictionary)


def rows_of_lists(batch: pa.RecordBatch, user: str, listed: str) -> pa.RecordBatch:
    """Turn rows with a list of names each into a row of the person for each name."""
    column = batch[listed]
    lengths = to_numpy(pc.fill_null(pc.list_value_length(column), 0))
    row = pa.array(np.repeat(np.arange(len(batch)), lengths))
    return pa.RecordBatch.from_pydict({user: batch[user].take(row), listed: column.flatten()})


def mentions_of_rows(
    batch: pa.RecordBatch,
    user: str,
    items: Iterable[str],
    rules: NameRules,
    keyed_hash: KeyedHash,
) -> Mentions:
    """Names in the columns `items` of a batch, but for cells that are no name, or nobody's."""
    known = ~missing(batch, user)
    owner, parts = pseudonyms(batch[user], keyed_hash), []
    for item in items:
        column = batch[item]
        if pa.types.is_dictionary(column.type):
            column = rules.names(column.dictionary).take(column.indices)
        else:
            column = rules.names(column)
        used = np.flatnonzero(known & to_numpy(column.is_valid()))
        encoded = column.take(pa.array(used)).dictionary_encode()
        code, names = to_numpy(encoded.indices).astype(np.int64), encoded.dictionary
        none = Mentions(owner[used], np.empty((len(used), 2), np.uint64), code, names)
        parts.append(replace(none, rank=_ranks(none, keyed_hash)))
    return Mentions.concatenated(parts)


def _ranks(mentions: Mentions, keyed_hash: KeyedHash) -> Hashes:
    """The keyed hash of each person with each of their names."""
    of_names = keyed_hash.of_strings(*text_of(mentions.names))
    return keyed_hash.of_tuples(_CHOICE, mentions.owner, of_names[mentions.code])


def text_of(names: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Where each name begins, and where the last one ends, in the UTF-8 of all; large_string."""
    _, offsets, content = names.buffers()
    if not len(names) or offsets is None:
        return np.zeros(1, np.int64), np.empty(0, np.uint8)
    ends = np.frombuffer(offsets, np.int64)[names.offset : names.offset + len(names) + 1]
    return ends, np.frombuffer(content or b"", np.uint8)


def summed(tables: Sequence[pa.Table]) -> pa.Table:
    """Sum the weights of each name, in the order of the names."""
    found = pa.concat_tables(tables).group_by("name").aggregate([("weight", "sum")])
    return found.rename_columns({"weight_sum": "weight"}).sort_by("name").select(_COLUMNS)


_COLUMNS = ["name", "weight"]
_NONE = pa.schema([("name", pa.large_string()), ("weight", pa.int64())]).empty_table()


class NameWeightsFn(beam.CombineFn):
    """PCollection[table of names and weights] -> their sum by name.

    Raises:
        InputError: more distinct names than memory holds were written; rows alone decide this.
    """

    def __init__(self, most: int) -> None:
        """Args: the most distinct names that a worker holds."""
        self._most = most

    def create_accumulator(self) -> pa.Table:
        """No names."""
        return _NONE

    def add_input(self, total: pa.Table, table: pa.Table) -> pa.Table:
        """The total with a further table."""
        return self.merge_accumulators([total, table])

    def merge_accumulators(self, parts: Iterable[pa.Table]) -> pa.Table:
        """The sum of several tables."""
        total = summed([_NONE, *parts])
        if len(total) > self._most:
            raise InputError(
                f"items.discover: people wrote more than {self._most:,} distinct names, which"
                " memory_limit does not hold; raise it, or list the items in items.names"
            )
        return total

    def extract_output(self, total: pa.Table) -> pa.Table:
        """The table itself."""
        return total
