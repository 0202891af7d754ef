"""Names of people and events: one name is one value, whatever the type of its column.

The name of an integer is its canonical decimal text: 7, 7.0 and "7" are one name; "07", "+7", "7.0"
and "-0" are texts and other names. Blanks around a text are no part of the name. Pure.
"""

from __future__ import annotations

from enum import StrEnum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hushrank.transforms.common.schema import to_numpy

_MOST_BYTES = 20  # bytes of a 64-bit integer as text, with its sign
_LARGEST, _MOST_NEGATIVE = b"18446744073709551615", b"-9223372036854775808"  # both 20 bytes long
_MINUS, _ZERO, _NINE = b"-09"
_ABOVE_INT64 = np.uint64(1 << 63)

Integers = NDArray[np.int64]
Words = NDArray[np.uint64]
Mask = NDArray[np.bool_]


class Naming(StrEnum):
    """Form of a name that is hashed, where a number and a text are one name."""

    BARE = "bare"  # the number: a text that writes an integer is hashed as it; without blanks
    # Like BARE, but blanks around a text stay. Only for streams that an earlier version began.
    NUMBERS = "numbers"
    # The text: an integer is hashed as its text. Only for streams that an earlier version began and
    # whose people were named by text: it hashed texts as texts, and integers as integers.
    TEXTS = "texts"


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
