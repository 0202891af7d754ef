"""Keyed digest of rows, which depends on nothing but the rows.

Each row becomes a keyed hash of 128 bits, and the digest is their sum in (Z mod 2^64)^2 with the
number of rows. It depends neither on the order of rows nor on how a table is cut, nor on which
library holds it: 1, 1.0, "1" and true are one value, and so are a time and the text that Arrow
writes for it, with Z if it has a zone. The hashes of different rows look independent and
uniform to whoever lacks the key, so two different sets of rows have the same sum with probability
about 2^-128 ([CDDGS03], section 5). The digest is confidential all the same: it says whether two
tables are equal.

References:
    [CDDGS03] Clarke, Devadas, van Dijk, Gassend, Suh. Incremental multiset hash functions and their
        application to memory integrity checking. 2003.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hushrank.privacy.keyed_hash import BLOCK_BYTES, Hashes, KeyedHash
from hushrank.transforms.common.encode import pseudonyms
from hushrank.transforms.common.schema import (
    DECIMALS,
    TRUTHS,
    is_list,
    is_text,
    numbers_of,
    to_numpy,
)

_ROW, _FRACTION, _LIST = 101, 102, 103  # labels of tuples
_EXACT = 2.0**53  # below it a float that is a whole number is that number


class RowDigest:
    """The digest of rows that are added batch by batch."""

    def __init__(self, key: bytes, roles: Sequence[tuple[str, str]]) -> None:
        """Args: `keyed_hash.KEY_BYTES` bytes; role and name of each column that counts."""
        self._hash = KeyedHash(key)
        self._roles = tuple(roles)
        self._sum = np.zeros(2, np.uint64)
        self.rows = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Add the rows of `batch`, which has every column."""
        columns = [_hashes(batch.column(name), self._hash, role) for role, name in self._roles]
        self._sum += self._hash.of_tuples(_ROW, *columns).sum(axis=0, dtype=np.uint64)
        self.rows += batch.num_rows

    def text(self) -> str:
        """Digest of what was added, with the roles of the columns; confidential."""
        first, second = map(int, self._sum)
        roles = ",".join(f"{role}={name}" for role, name in self._roles)
        return f"{self.rows}:{first:016x}{second:016x}:{roles}"


def _hashes(column: pa.Array, keyed_hash: KeyedHash, role: str = "") -> Hashes:
    """The hash of each value, by its meaning; that of a null is 0."""
    if pa.types.is_null(column.type):
        return np.zeros((len(column), 2), np.uint64)
    if role in TRUTHS and is_text(column.type):
        column = _truths_as_digits(column)
    found = _of_values(column, keyed_hash)
    if role in DECIMALS and is_text(column.type):
        _hash_fractions(found, column, keyed_hash)
    if column.null_count:
        found[to_numpy(column.is_null())] = 0
    return found


def _of_values(column: pa.Array, keyed_hash: KeyedHash) -> Hashes:
    type_ = column.type
    if is_list(type_):
        return _of_lists(column, keyed_hash)
    if is_text(type_) or pa.types.is_integer(type_):
        return pseudonyms(column, keyed_hash)
    if pa.types.is_floating(type_) or pa.types.is_decimal(type_):
        return _of_floats(numbers_of(column)[0], keyed_hash)
    if pa.types.is_timestamp(type_):
        zone = None if type_.tz is None else "UTC"
        column = column.cast(pa.timestamp("us", zone), safe=False)
    if pa.types.is_boolean(type_):
        column = column.cast(pa.int8())
    return pseudonyms(column.cast(pa.large_string()), keyed_hash)


def _truths_as_digits(texts: pa.Array) -> pa.Array:
    texts = texts.cast(pa.large_binary())
    for truth, digit in ((b"true", b"1"), (b"false", b"0")):
        texts = pc.if_else(pc.equal(texts, truth), digit, texts)
    return texts


def _hash_fractions(found: Hashes, texts: pa.Array, keyed_hash: KeyedHash) -> None:
    """Give texts of numbers that are not whole the hashes of those numbers."""
    values, _ = numbers_of(texts)
    digits = pc.match_substring_regex(texts.cast(pa.large_binary()), r"^[+-]?[0-9]+$")
    numbers = np.isfinite(values) & ~to_numpy(pc.fill_null(digits, True))
    found[numbers] = _of_floats(values[numbers], keyed_hash)


def _of_floats(values: NDArray[Any], keyed_hash: KeyedHash) -> Hashes:
    """Whole numbers as integers, which some libraries write with a point; others by their bits."""
    whole = (values == np.floor(values)) & (np.abs(values) < _EXACT)
    words = np.where(whole, np.where(whole, values, 0).astype(np.int64), values.view(np.int64))
    hashes = keyed_hash.of_integers(words)
    rest = np.flatnonzero(~whole)
    if len(rest):
        hashes[rest] = keyed_hash.of_tuples(_FRACTION, hashes[rest])
    return hashes


def _of_lists(column: pa.Array, keyed_hash: KeyedHash) -> Hashes:
    """The hash of the hashes of its items, in their order."""
    lists = column.cast(pa.large_list(column.type.value_type))
    lengths = to_numpy(pc.fill_null(pc.list_value_length(lists), 0)).astype(np.int64)
    items = _hashes(lists.flatten(), keyed_hash)
    offsets = np.concatenate([[0], np.cumsum(lengths)]) * BLOCK_BYTES
    found = keyed_hash.of_strings(offsets, items.reshape(-1).view(np.uint8))
    return keyed_hash.of_tuples(_LIST, found)
