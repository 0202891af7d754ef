"""The public catalogue: the n things being ranked. It is configuration, never learned from rows.

Names of people and events: one name is one value, whatever the type of its column.  The name of
an integer is its canonical decimal text: 7, 7.0 and "7" are one name; "07", "+7", "7.0" and "-0"
are texts and other names. Blanks around a text are no part of the name. Pure. The public groups
of a survey's rows, such as the languages of an arena: configuration, too.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hushrank.transforms.common.schema import by_distinct, is_text, to_numpy, to_text
from hushrank.transforms.common.written_lists import are_surely_lists, spellings

if TYPE_CHECKING:  # loaded for jobs that find names alone
    from hushrank.transforms.common.written_names import NameRules

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
        written: rules by which a text in the rows becomes a name, or an integer, which then is
            never a position; None: names are compared as they are.

    Raises:
        ValueError: fewer than two names, an empty name, or a name that occurs twice.
    """

    names: tuple[str, ...]
    first: int = 0
    written: NameRules | None = None

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
        if self.written is not None:
            column = self.written.names(column)
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
        for code in () if self.has_integers or self.written else range(len(self)):
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


_MOST_BYTES = 20  # bytes of a 64-bit integer as text, with its sign
_LARGEST, _MOST_NEGATIVE = b"18446744073709551615", b"-9223372036854775808"  # both 20 bytes long
_MINUS, _ZERO, _NINE = b"-09"
_ABOVE_INT64 = np.uint64(1 << 63)
LAST_OF_ASCII = 0x7F

Integers = NDArray[np.int64]
Words = NDArray[np.uint64]
Edges = NDArray[np.int32] | NDArray[np.int64]
Mask = NDArray[np.bool_]


class Naming(StrEnum):
    """Form of a name that is hashed, where a number and a text are one name."""

    BARE = "bare"  # the number: a text that writes an integer is hashed as it; without blanks
    # Like BARE, but blanks around a text stay. Only for streams that an earlier version began.
    NUMBERS = "numbers"
    # The text: an integer is hashed as its text. Only for streams that an earlier version began and
    # whose people were named by text: it hashed texts as texts, and integers as integers.
    TEXTS = "texts"


def bytes_of(texts: pa.Array) -> tuple[Edges, NDArray[np.uint8]] | None:
    """Places where texts begin and end, shape (m + 1,), and the bytes that these count; no copy.

    None: the type is neither a string nor binary, plain or large. A null has no bytes.
    """
    large = pa.types.is_large_string(texts.type) or pa.types.is_large_binary(texts.type)
    if not (large or pa.types.is_string(texts.type) or pa.types.is_binary(texts.type)):
        return None
    _, offsets, content = texts.buffers()
    if offsets is None or not len(texts):
        return np.zeros(len(texts) + 1, np.int64), np.empty(0, np.uint8)
    edges: Edges = np.frombuffer(offsets, np.int64) if large else np.frombuffer(offsets, np.int32)
    octets = np.frombuffer(content or b"", np.uint8)
    return edges[texts.offset : texts.offset + len(texts) + 1], octets


def is_ascii(texts: pa.Array) -> bool:
    """Whether all bytes of texts are ASCII; False also if the type does not tell cheaply."""
    found = bytes_of(texts)
    if found is None:
        return False
    edges, octets = found
    used = octets[edges[0] : edges[-1]]
    return not len(used) or bool(used.max() <= LAST_OF_ASCII)


def integers_in(texts: pa.Array) -> tuple[Integers, Words, Mask]:
    """The texts that are the canonical decimal of an integer from -2^63 to 2^64 - 1.

    That is a minus or none and then digits, of which the first is 0 in "0" alone. So each integer
    has one such text.

    Args:
        texts: large binary, without nulls.

    Returns:
        Their places, ascending; their integers, modulo 2^64; and which of those are 2^63 or more.
    """
    _, offsets, content = texts.buffers()
    edges = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    octets = np.frombuffer(content or b"", np.uint8)
    starts, lengths = edges[:-1], np.diff(edges)
    places = np.flatnonzero((lengths > 0) & (lengths <= _MOST_BYTES))
    if len(places) < len(texts):
        starts, lengths = starts[places], lengths[places]
    # The first, last and middle character rule out most other texts.
    first = octets[starts]
    found = _where(_are_digits(first) | (first == _MINUS), places, starts, lengths)
    found = _where(_are_digits(octets[found[1] + found[2] - 1]), *found)
    found = _where(_are_digits(octets[found[1] + (found[2] >> 1)]), *found)
    places, starts, lengths = found
    if not len(places):
        return places, np.empty(0, np.uint64), np.empty(0, np.bool_)
    first = octets[starts]
    plain = _are_digits(first) & ((first > _ZERO) | (lengths == 1))
    minus = places[np.flatnonzero(first == _MINUS)]
    places, words = _positive(texts, places if plain.all() else places[np.flatnonzero(plain)])
    above = words >= _ABOVE_INT64
    if not len(minus):
        return places, words, above
    minus, negative = _negative(texts, minus)
    places, words = np.append(places, minus), np.append(words, negative)
    order = np.argsort(places)
    return places[order], words[order], np.append(above, np.zeros(len(minus), np.bool_))[order]


def _where(
    fit: Mask, places: Integers, starts: Integers, lengths: Integers
) -> tuple[Integers, Integers, Integers]:
    """The entries of each array that fit."""
    if fit.all():
        return places, starts, lengths
    left = np.flatnonzero(fit)
    return places[left], starts[left], lengths[left]


def _positive(texts: pa.Array, places: Integers) -> tuple[Integers, Words]:
    """The places of texts that hold digits alone, up to the largest uint64; their integers."""
    chosen = texts if len(places) == len(texts) else texts.take(pa.array(places))
    fit = pc.ascii_is_decimal(chosen.view(pa.large_string()))
    places, chosen = _fitting(places, chosen, fit, _LARGEST)
    return places, to_numpy(chosen.view(pa.large_string()).cast(pa.uint64()))


def _negative(texts: pa.Array, places: Integers) -> tuple[Integers, Words]:
    """The places of texts that hold a minus and an integer, down to -2^63; these, modulo 2^64."""
    chosen = texts.take(pa.array(places))
    fit = pc.match_substring_regex(chosen, "^-[1-9][0-9]*$")
    places, chosen = _fitting(places, chosen, fit, _MOST_NEGATIVE)
    return places, to_numpy(chosen.view(pa.large_string()).cast(pa.int64())).view(np.uint64)


def _fitting(
    places: Integers, texts: pa.Array, fit: pa.Array, last: bytes
) -> tuple[Integers, pa.Array]:
    """The texts that fit, with their places, without those of `_MOST_BYTES` that follow `last`."""
    lengths = pc.binary_length(texts)
    if (pc.max(lengths).as_py() or 0) == _MOST_BYTES:
        # Texts of one length are in the order of the sizes of their integers.
        fit = pc.and_(fit, pc.or_(pc.less(lengths, _MOST_BYTES), pc.less_equal(texts, last)))
    if pc.all(fit, min_count=0).as_py():
        return places, texts
    return places[np.flatnonzero(to_numpy(fit))], texts.filter(fit)


def _are_digits(octets: NDArray[np.uint8]) -> Mask:
    return (octets >= _ZERO) & (octets <= _NINE)


def bare(texts: pa.Array) -> pa.Array:
    """Texts, large binary and perhaps no UTF-8, without the ASCII blanks around them."""
    return pc.ascii_trim_whitespace(texts.view(pa.large_string())).view(pa.large_binary())


def integers_of_floats(column: pa.Array) -> tuple[pa.Array, Mask]:
    """Floats as the integers that they name, int64, and a mask of those that name nobody.

    A float names an integer if it can be no rounding of another one: it is whole and below 2^53 in
    size (float32: 2^24, float16: 2^11). Null and not-a-number are null.
    """
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    values = to_numpy(column)  # NaN for nulls
    exact = 2.0 ** (np.finfo(values.dtype).nmant + 1)
    whole = (np.abs(values) < exact) & (values == np.trunc(values))
    null = np.isnan(values)
    integers = np.where(whole, values, 0).astype(np.int64)
    return pa.array(integers, mask=~whole), ~whole & ~null


OUTSIDE = -1  # group of a row whose group is not listed, where such rows are set aside
WRITTEN_LIST = -2  # group of a row whose cell is a list in a text, although a row has one group
UNLISTED_GROUP = "group is not one of groups.values"
SEVERAL_WRITTEN = 'group is written as a list: set groups.most and groups.separator: "[]"'
GROUP_RULES = ((UNLISTED_GROUP, OUTSIDE), (SEVERAL_WRITTEN, WRITTEN_LIST))
MOST_GROUPS = 255  # of comparisons: a row's group takes 8 bits beside its items, others one more
MOST_OVERLAPPING = 63  # groups that overlap: a row's set of them is one word
MOST_PRECINCTS = 20_000  # of rankings: a code has 16 bits

GroupCodes = NDArray[np.int16]


@dataclass(frozen=True)
class Groups:
    """The public groups of rows; a group's code is its position.

    Attributes:
        names: names of the groups that have a ranking of their own.
        others: whether rows of no listed group, or without one, count as well, in one more cell of
            their own that is part of the whole only; of groups that overlap, in the whole only.
        most: the most groups in which a row counts, where groups overlap. Each row then counts in
            one more cell, which is last and is the whole. None: a row is in one group.

    Raises:
        ValueError: no name, too many, an empty one, one that occurs twice, or one group in all;
            `most` is below 1 or above the number of names.
    """

    names: tuple[str, ...]
    others: bool = False
    most: int | None = None

    def __post_init__(self) -> None:
        bare = [name.strip() for name in self.names]
        if not bare or not all(bare):
            raise ValueError("every group needs a name")
        if len(bare) > MOST_PRECINCTS:
            raise ValueError(f"at most {MOST_PRECINCTS:,} groups can be counted, got {len(bare):,}")
        if len(set(bare)) < len(bare):
            twice = next(name for name in bare if bare.count(name) > 1)
            raise ValueError(f"group {twice} occurs {bare.count(twice)} times; name it once")
        if len(self) < 2:
            raise ValueError("one group is the whole; name two, or let other rows count as well")
        if self.most is None:
            return
        if not 1 <= self.most <= len(bare):
            raise ValueError(
                f"a row counts in 1 to {len(bare)} of {len(bare)} groups, got most: {self.most}"
            )
        if len(bare) > MOST_OVERLAPPING:
            raise ValueError(
                f"at most {MOST_OVERLAPPING} groups may overlap, got {len(bare)}; name fewer"
            )

    def __len__(self) -> int:
        """Cells of groups: one for each name, and one for all others where these count.

        Where groups overlap: one for each name, and one for the whole.
        """
        return len(self.names) + (self.others if self.most is None else 1)

    @property
    def parts(self) -> int:
        """Number of cells of groups, without that of the whole where groups overlap."""
        return len(self) if self.most is None else len(self.names)

    @property
    def summed(self) -> int:
        """Number of cells whose sum is the whole; 1 where the whole is a cell of its own."""
        return len(self) if self.most is None else 1

    def codes(self, column: pa.Array) -> GroupCodes:
        """Code of each row's group, shape (m,).

        Names are compared as they are written, but for blanks around them. A group that is not
        listed, or missing, has the last code where others count, else `OUTSIDE`. A text that is
        not listed and is a list of several, as Python or JSON write it, has `WRITTEN_LIST`.
        """
        return by_distinct(column, self._codes, self._unlisted)

    def _codes(self, values: pa.Array) -> GroupCodes:
        found = self._places(values)
        codes = np.where(found < 0, self._unlisted, found).astype(np.int16)
        if is_text(values.type) and (found < 0).any():
            several = are_surely_lists(to_text(values.take(pa.array(np.flatnonzero(found < 0)))))
            codes[np.flatnonzero(found < 0)[several]] = WRITTEN_LIST
        return codes

    def places(self, column: pa.Array) -> GroupCodes:
        """Position of each name, shape (m,); -1 where it is not listed."""
        return by_distinct(column, self._places, np.int16(-1))

    def written_places(self, elements: pa.Array) -> GroupCodes:
        """Position of each element of a written list, shape (m,); -1 where it is not listed."""
        found = to_numpy(pc.fill_null(pc.index_in(to_text(elements), self._written), -1))
        return np.where(found < 0, -1, found % len(self.names)).astype(np.int16)

    def _places(self, values: pa.Array) -> GroupCodes:
        texts = to_text(values) if is_text(values.type) else values.cast(pa.large_string())
        found = pc.fill_null(pc.index_in(texts, self._texts, skip_nulls=True), -1)
        return to_numpy(found).astype(np.int16)

    @property
    def _unlisted(self) -> np.int16:
        return np.int16(len(self.names) if self.others else OUTSIDE)

    @cached_property
    def _texts(self) -> pa.Array:
        return pa.array([name.strip() for name in self.names], pa.large_string())

    @cached_property
    def _written(self) -> pa.Array:
        """Each name as it is, then each as JSON writes it, then each as Python does."""
        ways = zip(*(spellings(name.strip()) for name in self.names), strict=True)
        return pa.array([text for way in ways for text in way], pa.large_string())
