"""Rows of a form with a column for each pair: each cell becomes a row of its own, and no more."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushrank.transforms.common.catalogue import Catalogue
from hushrank.transforms.common.encode import encode_comparisons
from hushrank.transforms.common.schema import (
    CHOICE,
    LEFT_ITEM,
    RIGHT_ITEM,
    ComparisonColumns,
    InputError,
    Words,
    check_schema,
)
from hushrank.transforms.comparisons.pair_cells import answers_of_cells

PAIRS = (("Q1", "Tea", "Coffee"), ("Q2", "Tea", "NA"), ("Q3", "Coffee", "NA"))
WORDS = Words((("same", 0), ("2", -1), ("1", 1), (LEFT_ITEM, 1), (RIGHT_ITEM, -1)))
CATALOGUE = Catalogue(("Tea", "Coffee", "NA"))
COLUMNS = ComparisonColumns(
    left=LEFT_ITEM, right=RIGHT_ITEM, outcome=CHOICE, winner=None, user="who", event=None,
    words=WORDS, pairs=PAIRS,
)  # fmt: skip
CELLS = st.sampled_from(
    [
        "Tea",
        " Coffee ",
        "NA",
        "na",
        "n/a",
        "",
        " ",
        "same",
        "SAME",
        "1",
        "2",
        "0",
        "tea",
        "x",
        None,
        LEFT_ITEM,
        "Right item",
    ]
)
ROWS = st.lists(st.tuples(st.integers(0, 3), CELLS, CELLS, CELLS), max_size=12)


def batch_of(rows, cell_type=None) -> pa.RecordBatch:
    names = ["who", "Q1", "Q2", "Q3"]
    types = [pa.int64(), *[cell_type or pa.string()] * 3]
    columns = list(zip(*rows, strict=True)) or [()] * 4
    arrays = [pa.array(list(each), kind) for each, kind in zip(columns, types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=names)


def outcome_of(cell: str | None, left: str, right: str) -> int | None:
    """What one cell says, by the rule as the docs state it; None: no answer, 9: no valid one."""
    text = (cell or "").strip()
    if text in (left, right):
        return 1 if text == left else -1
    if text.lower() in ("", "na", "n/a"):
        return None
    if text.lower() in (left.lower(), right.lower()):
        return 1 if text.lower() == left.lower() else -1
    return {"same": 0, "1": 1, "2": -1}.get(text.lower(), 9)


@given(ROWS)
def test_each_cell_means_what_its_text_says(rows):
    expected = [
        (who, left, right, said)
        for who, *cells in rows
        for cell, (_, left, right) in zip(cells, PAIRS, strict=True)
        if (said := outcome_of(cell, left, right)) is not None
    ]
    answers = answers_of_cells(batch_of(rows), COLUMNS)
    found = encode_comparisons(answers, COLUMNS, CATALOGUE, None)
    valid = [each for each in expected if each[3] != 9]
    names = np.array(CATALOGUE.names)
    assert answers["who"].to_pylist() == [each[0] for each in expected]
    assert names[found.rows.left].tolist() == [each[1] for each in valid]
    assert names[found.rows.right].tolist() == [each[2] for each in valid]
    assert found.rows.outcome.tolist() == [each[3] for each in valid]
    rejected = 0 if found.rejects is None else len(found.rejects)
    assert rejected == len(expected) - len(valid)


@given(ROWS, st.integers(0, 12))
def test_a_row_means_the_same_whatever_stands_beside_it(rows, cut):
    whole = answers_of_cells(batch_of(rows), COLUMNS).to_pylist()
    parts = [batch_of(rows[:cut]), batch_of(rows[cut:])]
    apart = [row for part in parts for row in answers_of_cells(part, COLUMNS).to_pylist()]
    assert whole == apart


def test_case_counts_only_where_it_alone_tells_two_items_apart():
    columns = replace(COLUMNS, pairs=(("Q1", "US", "us"), ("Q2", "Tea", "Coffee")))
    batch = batch_of([(1, "us", "COFFEE", ""), (2, "Us", "tea", ""), (3, "US", "coffe", "")])
    said = answers_of_cells(batch, columns)[CHOICE].to_pylist()
    assert said == [RIGHT_ITEM, RIGHT_ITEM, "Us", LEFT_ITEM, LEFT_ITEM, "coffe"]


@pytest.mark.parametrize("kind", [pa.int8(), pa.float64(), pa.string(), pa.large_string()])
def test_a_number_is_a_word_and_never_the_number_of_an_item(kind):
    """1 and 2 mean the first and the second item of the pair; as items, 1 would be Coffee."""
    cells = (
        ["1", "2", None] if pa.types.is_large_string(kind) or kind == pa.string() else [1, 2, None]
    )
    answers = answers_of_cells(batch_of([(7, *cells)], kind), COLUMNS)
    found = encode_comparisons(answers, COLUMNS, CATALOGUE, None).rows
    assert (found.left.tolist(), found.right.tolist()) == ([0, 0], [1, 2])
    assert found.outcome.tolist() == [1, -1]


def test_dictionaries_and_columns_of_nulls_are_read():
    batch = batch_of([(1, "Tea", None, "NA"), (2, "Coffee", None, None)])
    batch = batch.set_column(1, "Q1", batch["Q1"].dictionary_encode())
    batch = batch.set_column(2, "Q2", pa.nulls(2))
    check_schema("f", batch.schema, COLUMNS)
    found = encode_comparisons(answers_of_cells(batch, COLUMNS), COLUMNS, CATALOGUE, None).rows
    assert found.outcome.tolist() == [1, -1, -1]


def test_a_column_of_dates_is_refused_by_its_name():
    batch = batch_of([(1, "Tea", "Tea", "NA")])
    batch = batch.set_column(2, "Q2", pa.array([0], pa.date32()))
    with pytest.raises(InputError, match="column Q2 has type date32"):
        check_schema("f", batch.schema, COLUMNS)
