"""The public catalogue: the n things being ranked. It is configuration, never learned from rows."""

from __future__ import annotations

import unicodedata
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hushrank.transforms.common.schema import by_distinct, is_text, to_numpy, to_text

UNKNOWN = -1

Codes = NDArray[np.int32]


@dataclass(frozen=True)
class Catalogue:
    """Names of the items; an item's code is its position, 0 to n - 1.

    A row may name an item by its name, or by its position if no name is itself an integer. With
    `names: [101, 205]` the integer 101 means that name. Blanks around a name do not count, nor
    does it whether an accent is a character of its own, as in names of files on macOS.

    Attributes:
        names: names of the items.
        first: the integer in the rows that means the first item.

    Raises:
        ValueError: fewer than two names, an empty name, or a name that occurs twice.
    """

    names: tuple[str, ...]
    first: int = 0

    def __post_init__(self) -> None:
        if len(self.names) < 2:
            raise ValueError(f"a ranking needs at least 2 items, got {len(self.names)}")
        bare = [_bare(name) for name in self.names]
        if not all(bare):
            raise ValueError("an item's name is empty")
        name, times = Counter(bare).most_common(1)[0]
        if times > 1:
            raise ValueError(
                f"item {name} occurs {times} times; each item must have a name of its own"
            )

    @classmethod
    def of_count(cls, n_items: int) -> Catalogue:
        """Items named 0, 1, ... n_items - 1."""
        return cls(tuple(str(code) for code in range(n_items)))

    def __len__(self) -> int:
        return len(self.names)

    def codes(self, column: pa.Array) -> Codes:
        """Code of the item in each row; `UNKNOWN` if it is null or not in the catalogue."""
        if pa.types.is_dictionary(column.type):
            return by_distinct(column, self.codes, np.int32(UNKNOWN))
        if is_text(column.type):
            texts, codes = self.texts
            found = pc.index_in(to_text(column), value_set=texts, skip_nulls=True)
            return np.take(codes, to_numpy(pc.fill_null(found, -1)))  # -1: the last, UNKNOWN
        if column.null_count == 0:
            return self._codes_of_integers(to_numpy(column))
        codes = self._codes_of_integers(to_numpy(pc.fill_null(column, 0)))
        return np.where(to_numpy(pc.is_null(column)), np.int32(UNKNOWN), codes)

    def _codes_of_integers(self, values: NDArray[Any]) -> Codes:
        if not self._values_are_codes:
            known, codes = self._integers
            signed = values.astype(np.int64, copy=False)  # above 2^63 it wraps, so it is not equal
            place = np.minimum(np.searchsorted(known, signed), len(known) - 1)
            found = (known[place] == signed) & (signed == values)
            return np.where(found, codes[place], np.int32(UNKNOWN))
        first, end = self.first, self.first + len(self)
        if len(values) == 0 or (values.min() >= first and values.max() < end):
            codes = values.astype(np.int32, copy=False)
            return codes - np.int32(first) if first else codes
        inside = (values >= first) & (values < end)
        codes = np.where(inside, values, first).astype(np.int32) - np.int32(first)
        codes[~inside] = UNKNOWN
        return codes

    @property
    def has_integers(self) -> bool:
        """Whether a name is an integer, so that texts of digits in the rows are names."""
        return len(self._integers[0]) > 0

    @cached_property
    def _integers(self) -> tuple[NDArray[np.int64], Codes]:
        """The names that are integers, ascending, and their codes."""
        integers = ((int(name), code) for code, name in enumerate(self.names) if _is_integer(name))
        known = np.array(sorted(integers), np.int64).reshape(-1, 2)
        return known[:, 0], known[:, 1].astype(np.int32)

    @cached_property
    def _values_are_codes(self) -> bool:
        """Whether integers are positions: no name is an integer, or each equals its position."""
        if self.names == tuple(map(str, range(len(self)))):  # as `of_count` names them
            return True
        values, codes = self._integers
        return len(values) in (0, len(self)) and bool((values == codes).all())

    @cached_property
    def texts(self) -> tuple[pa.Array, Codes]:
        """Every text that means an item, and its code; after the last code, `UNKNOWN`.

        These are all names, with an accent in one character or as one of its own, and positions
        unless names are integers.
        """
        codes = {_bare(name): code for code, name in enumerate(self.names)}
        for name, code in list(codes.items()):
            codes.setdefault(unicodedata.normalize("NFD", name), code)
        for code in () if self.has_integers else range(len(self)):
            codes.setdefault(str(self.first + code), code)
        return pa.array(list(codes), pa.large_string()), np.array(
            [*codes.values(), UNKNOWN], np.int32
        )


def _bare(name: str) -> str:
    return unicodedata.normalize("NFC", name.strip())


def _is_integer(name: str) -> bool:
    digits = name.removeprefix("-")
    canonical = digits.isascii() and digits.isdigit() and name == str(int(name))
    return canonical and -(2**63) <= int(name) < 2**63
