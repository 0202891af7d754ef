"""Cells with points: numbers, texts and words; what sets a sheet aside, in wide and long tables."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from hushrank.transforms.common.schema import Words
from hushrank.transforms.responses.answer_sheets import Missing, SheetRules
from hushrank.transforms.responses.responses import (
    BAD,
    NOT_ANSWERED,
    ResponseColumns,
    WideColumns,
    marks_by_key,
    marks_of,
)
from tests.transforms.responses.test_whole_sheets import NAMES, counted

B, N = BAD, NOT_ANSWERED
WORDS = Words((("ok", 1), ("no", 0), (".", NOT_ANSWERED)))
TEXTS = pa.array(["0", "1", "2", "3", "2.0", "2.5", "-1", "10", "true", "", "NA", None])


@pytest.mark.parametrize(
    ("column", "words", "most", "marks"),
    [
        (pa.array([0, 1, 2, 3, -1, 10, None]), None, 2, [0, 1, 2, B, B, B, N]),
        (pa.array([0.0, 1.5, 2.0, np.nan, None, 1e30]), None, 2, [0, B, 2, N, N, B]),
        (pa.array([0, 1, 2], pa.uint8()), None, 1, [0, 1, B]),
        (pa.array([True, False, None]), None, 3, [1, 0, N]),
        (pa.nulls(2), None, 3, [N, N]),
        (TEXTS, None, 1, [0, 1, B, B, B, B, B, B, 1, N, N, N]),
        (TEXTS, None, 2, [0, 1, 2, B, 2, B, B, B, 1, N, N, N]),
        (TEXTS.dictionary_encode(), None, 3, [0, 1, 2, 3, 2, B, B, B, 1, N, N, N]),
        (pa.array(["ok", "NO", ".", "2", "3", ""]), WORDS, 2, [1, 0, N, 2, B, N]),
        (pa.array(["ok", "NO", ".", "2", "3", ""]), WORDS, 1, [1, 0, N, B, B, N]),
    ],
)
def test_points_of_cells(column, words, most, marks):
    assert marks_of(column, words, most).tolist() == marks


SHEETS = [[0, 1, 2, 3], [1, 1, 1, 1], [0, 2, 0, 0], [0, 0, 3, 0], [0, 0, 0, None], [1, 0, 2, 2]]
RULES = SheetRules(n_items=4, missing=Missing.WRONG, points=(1, 1, 2, 3))


@pytest.mark.parametrize("layout", ["wide", "long"])
@pytest.mark.parametrize("text", [False, True])
def test_a_sheet_with_more_points_than_an_item_gives_is_set_aside(layout, text):
    """Each item has its own most: 2 points are right for the third and too many for the second."""
    cells = [[None if c is None or not text else str(c) for c in row] for row in SHEETS]
    cells = cells if text else SHEETS
    if layout == "wide":
        columns = dict(zip(NAMES, map(list, zip(*cells, strict=True)), strict=True))
        batch = pa.record_batch({"user": list(range(6)), **columns})
        found, reasons = counted(batch, WideColumns(user="user", items=NAMES), RULES)
        assert reasons == {"an answer is neither a number of points of its item nor empty": 2}
    else:
        batch = pa.record_batch(
            {
                "user": np.repeat(np.arange(6), 4),
                "item": list(NAMES) * 6,
                "correct": [cell for row in cells for cell in row],
            }
        )
        columns = ResponseColumns(user="user", item="item", correct="correct")
        found, reasons = counted(batch, columns, RULES)
        assert sum(reasons.values()) == 2 * 4  # one bad answer takes the three others out
    wanted = [[0, 1, 2, 3], [1, 1, 1, 1], None, None, [0, 0, 0, 0], [1, 0, 2, 2]]
    assert found == {
        person: dict(zip(NAMES, row, strict=True)) for person, row in enumerate(wanted) if row
    }


KEY = ("a", "2", "c", "true")
ANSWERS = [["A", "2", "c", "true"], [" a ", "3", "AC", "NA"], ["B", "", "C", None]]


@pytest.mark.parametrize("layout", ["wide", "long"])
@pytest.mark.parametrize("words", [None, Words((("b", NOT_ANSWERED), ("3 ", NOT_ANSWERED)))])
def test_answers_are_scored_by_the_key(layout, words):
    """Case and blanks around an answer do not count; other texts are wrong, but a blank's words."""
    rules = SheetRules(n_items=4, missing=Missing.UNSEEN)
    if layout == "wide":
        columns = dict(zip(NAMES, map(list, zip(*ANSWERS, strict=True)), strict=True))
        batch = pa.record_batch({"user": [0, 1, 2], **columns})
        found, reasons = counted(
            batch, WideColumns(user="user", items=NAMES, key=KEY, words=words), rules
        )
    else:
        cells = [cell for row in ANSWERS for cell in row]
        batch = pa.record_batch(
            {"user": np.repeat(np.arange(3), 4), "item": list(NAMES) * 3, "said": cells}
        )
        named = ResponseColumns(user="user", item="item", correct="said", key=KEY, words=words)
        found, reasons = counted(batch, named, rules)
    assert not reasons
    assert found == {
        0: {"a": 1, "b": 1, "c": 1, "d": 1},
        1: {"a": 1, "b": 0, "c": 0} if words is None else {"a": 1, "c": 0},
        2: {"a": 0, "c": 1} if words is None else {"c": 1},
    }


@pytest.mark.parametrize(
    ("column", "marks"),
    [
        (pa.array([2, 3, None]), [1, 0, N]),
        (pa.array([2.0, 2.5, np.nan, None]), [1, 0, N, N]),
        (pa.array(["2", "3", None]).dictionary_encode(), [1, 0, N]),
        (pa.nulls(1), [N]),
    ],
)
def test_numbers_may_be_answers(column, marks):
    assert marks_by_key(column, pa.scalar("2", pa.large_string())).tolist() == marks
