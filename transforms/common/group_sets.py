"""The set of groups that a row is in, where groups overlap: an arena's prompt is coding and hard.

A set follows from the row's own bytes and the public list of groups alone. Bit k of a word stands
for group k. Of a row in more groups than a job counts, the first ones in the listed order count, so
the sensitivity holds for every row there can be.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hushrank.transforms.common.catalogue import (
    SEVERAL_WRITTEN,
    UNLISTED_GROUP,
    GroupCodes,
    Groups,
)
from hushrank.transforms.common.schema import (
    GroupSets,
    Mask,
    by_distinct,
    is_list,
    is_text,
    to_numpy,
    to_text,
)
from hushrank.transforms.common.written_lists import (
    NO_LIST,
    SEPARATOR,
    are_lists,
    are_surely_lists,
    elements_of,
)

Sets = NDArray[np.uint64]
Rules = list[tuple[str, Mask]]
NO_FLAG = "a column of groups.columns is neither true nor false"
_TRUTHS = {"true": 1, "1": 1, "1.0": 1, "false": 0, "0": 0, "0.0": 0, "": 0}
_ONE = np.uint64(1)


def sets_of(batch: pa.RecordBatch, columns: GroupSets, groups: Groups) -> tuple[Sets, Rules]:
    """The groups that count for each row, shape (m,), and the rules that rows break.

    Names that are not listed do not count, nor does it count how often a list has a name. An empty
    cell is the empty set. A text that is a list, where `columns` names another separator, breaks a
    rule, as does one that is none where they say that texts are lists.

    Args:
        batch: batch with the columns.
        columns: where a row says which groups it is in.
        groups: the public groups, which overlap.
    """
    rules: Rules = []
    if columns.flags:
        flags = np.stack([_flags(batch[name]) for name in columns.flags])
        bits = np.left_shift(_ONE, np.arange(len(flags), dtype=np.uint64))
        sets = np.bitwise_or.reduce(np.where(flags == 1, bits[:, np.newaxis], np.uint64(0)), axis=0)
        rules.append((NO_FLAG, np.asarray((flags < 0).any(axis=0))))
    else:
        cells = batch[columns.column]
        sets = _sets_of_cells(cells, columns.separator, groups)
        if columns.separator == SEPARATOR:
            rules.append((NO_LIST, by_distinct(cells, _are_no_lists, np.False_)))
        elif not is_list(cells.type):
            written = by_distinct(cells, lambda texts: are_surely_lists(to_text(texts)), np.False_)
            rules.append((SEVERAL_WRITTEN, written & (sets == 0)))
    if not groups.others:
        rules.append((UNLISTED_GROUP, sets == 0))
    return first_groups(sets, groups.most), [rule for rule in rules if rule[1].any()]


def first_groups(sets: Sets, most: int | None) -> Sets:
    """The first `most` groups of each set; None: all."""
    if most is None:
        return sets
    rest, kept = sets.copy(), np.zeros_like(sets)
    for _ in range(most):
        lowest = rest & (~rest + _ONE)
        kept |= lowest
        rest ^= lowest
        if not rest.any():
            break
    return kept


def _are_no_lists(values: pa.Array) -> Mask:
    """Whether each text is neither a list nor blank."""
    texts = pc.fill_null(to_text(values), "")
    blank: Mask = to_numpy(pc.equal(texts, ""))
    return ~blank & ~are_lists(texts)


def _sets_of_cells(column: pa.Array, separator: str | None, groups: Groups) -> Sets:
    """Sets of a column of lists, or of texts with a separator."""
    if is_list(column.type):
        return _sets_of_lists(column, groups.places)

    def of_texts(texts: pa.Array) -> Sets:
        if separator == SEPARATOR:
            return _sets_of_lists(elements_of(to_text(texts)), groups.written_places)
        parted = pc.split_pattern(to_text(texts), separator)
        return _sets_of_lists(parted, groups.places)

    return by_distinct(column, of_texts, np.uint64(0))


def _sets_of_lists(column: pa.Array, places_of: Callable[[pa.Array], GroupCodes]) -> Sets:
    lists = column.cast(pa.large_list(column.type.value_type))
    lengths = to_numpy(pc.fill_null(pc.list_value_length(lists), 0)).astype(np.int64)
    places = places_of(lists.flatten())
    bits = np.where(places < 0, np.uint64(0), np.left_shift(_ONE, places.astype(np.uint64) & 63))
    sets, held = np.zeros(len(lengths), np.uint64), np.flatnonzero(lengths)
    if len(held):
        starts = (np.cumsum(lengths) - lengths)[held]
        sets[held] = np.bitwise_or.reduceat(bits, starts)
    return sets


def _flags(column: pa.Array) -> NDArray[np.int8]:
    """1 where a cell is true, 0 where it is false or empty, -1 where it is neither."""
    return by_distinct(column, _distinct_flags, np.int8(0))


def _distinct_flags(values: pa.Array) -> NDArray[np.int8]:
    if pa.types.is_boolean(values.type):
        return to_numpy(pc.fill_null(values, False)).astype(np.int8)
    if not is_text(values.type):
        numbers = to_numpy(pc.fill_null(values.cast(pa.float64()), 0.0))
        return np.where(numbers == 1, 1, np.where(numbers == 0, 0, -1)).astype(np.int8)
    texts = pc.utf8_lower(pc.fill_null(to_text(values), ""))
    found = pc.index_in(texts, value_set=pa.array(list(_TRUTHS), pa.large_string()))
    meant = np.array([*_TRUTHS.values(), -1], np.int8)
    return np.take(meant, to_numpy(pc.fill_null(found, -1)))
