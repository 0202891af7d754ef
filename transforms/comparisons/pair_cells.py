"""Rows of a form that asks about one pair of items in each column, as rows of comparisons.

A row of the form is a person's. Each of its cells that is not blank becomes a row of its own, which
has the person's other columns. What such a row means follows from its cell and its person alone.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hushrank.transforms.common.schema import (
    BLANKS,
    CHOICE,
    LEFT_ITEM,
    RIGHT_ITEM,
    ComparisonColumns,
    cell_texts,
)

SIDES = (LEFT_ITEM, RIGHT_ITEM)  # words of `CHOICE` that no cell may say of itself


def answers_of_cells(batch: pa.RecordBatch, columns: ComparisonColumns) -> pa.RecordBatch:
    """Turn rows of a form into a row for each cell that is not blank.

    The new rows have the columns `LEFT_ITEM`, `RIGHT_ITEM` and `CHOICE`, all texts, beside every
    column of the batch that is no pair's. They are ordered by row, then by pair. A blank is a null,
    an empty text, NA or N/A, in any case, unless an item of the pair has that name. `CHOICE` is
    the text `LEFT_ITEM` where the cell names the left item, `RIGHT_ITEM` where it names the right
    one, and else the cell. So a cell such as 1 is never taken for the number of an item. As in
    words, case is ignored, unless it alone tells the two items apart: a question asks "Tea or
    coffee?", and its cells hold Coffee. Of a cell that holds one of these two texts itself `CHOICE`
    is empty, which is no valid one.

    Args:
        batch: rows with all columns that `columns` names.
        columns: their roles.
    """
    n_pairs = len(columns.pairs)
    of_pair = [
        _choices(cell_texts(batch[name]), left, right) for name, left, right in columns.pairs
    ]
    cells = pa.concat_arrays(of_pair)
    written = cells.is_valid().to_numpy(zero_copy_only=False)
    row, pair = np.nonzero(written.reshape(n_pairs, len(batch)).T)
    of_pairs = {name for name, _, _ in columns.pairs}
    kept = {name: batch[name].take(pa.array(row)) for name in batch.schema.names}
    kept = {name: column for name, column in kept.items() if name not in of_pairs}
    places = pa.array(pair.astype(np.int32))
    for name, side in ((LEFT_ITEM, 1), (RIGHT_ITEM, 2)):
        items = pa.array([each[side] for each in columns.pairs], pa.large_string())
        kept[name] = pa.DictionaryArray.from_arrays(places, items)
    kept[CHOICE] = cells.take(pa.array(pair * len(batch) + row))
    return pa.RecordBatch.from_pydict(kept)


def _choices(cells: pa.Array, left: str, right: str) -> pa.Array:
    """What the cells of a pair say, as `CHOICE` has it; null where they are blank."""
    lower = pc.utf8_lower(cells)
    blank = pc.is_in(lower, value_set=pa.array(BLANKS, pa.large_string()))
    found = pc.if_else(blank, pa.scalar(None, pa.large_string()), cells)
    ours = pc.is_in(lower, value_set=pa.array(SIDES, pa.large_string()))
    found = pc.if_else(ours, pa.scalar("", pa.large_string()), found)
    names = pa.array([left.strip(), right.strip()], pa.large_string())
    in_lower = pc.utf8_lower(names)
    if in_lower[0] != in_lower[1]:
        found = _with_sides(found, pc.if_else(blank, None, lower), in_lower)
    return _with_sides(found, cells, names)


def _with_sides(found: pa.Array, cells: pa.Array, names: pa.Array) -> pa.Array:
    """Replace what was found by `LEFT_ITEM` or `RIGHT_ITEM` where a cell is one of two names."""
    for name, side in zip(names, SIDES, strict=True):
        named = pc.fill_null(pc.equal(cells, name), False)
        found = pc.if_else(named, pa.scalar(side, pa.large_string()), found)
    return found
