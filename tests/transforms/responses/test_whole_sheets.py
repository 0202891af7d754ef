"""Whole sheets: which booklet a sheet is of, and what a blank means, person by person."""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushrank.privacy.keyed_hash import KeyedHash
from hushrank.transforms.common.catalogue import Catalogue
from hushrank.transforms.common.sorting import InSlices
from hushrank.transforms.responses.answer_sheets import (
    Duplicates,
    Missing,
    SheetRules,
    answers_in,
    blobs_by_person,
    bound_sheets,
    item_numbers,
    responses_of_blob,
)
from hushrank.transforms.responses.responses import ResponseColumns, WideColumns, encode_responses

NAMES = ("a", "b", "c", "d")
ITEMS = Catalogue(NAMES)
HASH = KeyedHash(bytes(range(32)))
BOOKLETS = ((0, 1, 2), (2, 3))
Sheet = dict[str, int]


def counted(
    batch: pa.RecordBatch, columns: ResponseColumns | WideColumns, rules: SheetRules, most: int = 4
) -> tuple[dict[int, Sheet], Counter[str]]:
    """The answers of each person (0, 1, ...) that count; reasons why others do not."""
    found = encode_responses(batch, columns, ITEMS, HASH, rules)
    most_points = max(rules.points, default=1)
    blobs = [blob for _, blob in blobs_by_person(found.rows, rules.n_codes, 1, most_points)]
    if not blobs:
        return {}, Counter()
    sizes = list(map(answers_in, blobs))
    shares = InSlices(
        sizes, lambda k: responses_of_blob(blobs[k], most_points), 10**6, item_numbers
    )
    steps = bound_sheets(shares, ITEMS, most, Duplicates.REFUSE, HASH, rules=rules)
    reasons: Counter[str] = Counter()
    if found.rejects is not None:
        reasons.update(found.rejects["reason"].to_pylist())
    while True:
        try:
            part = next(steps)
        except StopIteration as end:
            kept = end.value
            break
        if part.rejects is not None:
            reasons.update(part.rejects["reason"].to_pylist())
    people = {tuple(words): number for number, words in enumerate(HASH.of_integers(np.arange(9)))}
    sheets: dict[int, Sheet] = {}
    for person, item, correct in zip(kept.person, kept.item, kept.correct, strict=True):
        sheets.setdefault(people[tuple(kept.owner[person])], {})[NAMES[item]] = int(correct)
    return sheets, reasons


def long(rows: list[tuple[object, ...]], **more: list[object]) -> pa.RecordBatch:
    user, item, correct = map(list, zip(*rows, strict=True))
    text = [None if each is None else str(each) for each in correct]
    return pa.record_batch({"user": user, "item": item, "correct": text, **more})


LONG = ResponseColumns(user="user", item="item", correct="correct")
CELLS = st.sampled_from([None, 0, 1])


@given(st.lists(st.tuples(CELLS, CELLS, CELLS, CELLS), min_size=1, max_size=6))
@pytest.mark.parametrize("missing", Missing)
@pytest.mark.parametrize("booklets", [(), BOOKLETS])
def test_what_counts_follows_the_rules_sheet_by_sheet(missing, booklets, sheets):
    rules = SheetRules(n_items=4, missing=missing, booklets=booklets)
    columns = WideColumns(user="user", items=NAMES)
    cells = [pa.array(column, pa.int8()) for column in zip(*sheets, strict=True)]
    batch = pa.record_batch([pa.array(range(len(sheets))), *cells], ["user", *NAMES])
    expected = {}
    for person, sheet in enumerate(sheets):
        given_ = {item for item, mark in enumerate(sheet) if mark is not None}
        fits = [items for items in booklets or (tuple(range(4)),) if given_ <= {*items}]
        if not given_ or len(fits) != 1:
            continue
        blanks = {*fits[0]} - given_
        if missing is Missing.SET_ASIDE and blanks:
            continue
        own = {NAMES[item]: sheet[item] for item in given_}
        filled = dict.fromkeys((NAMES[item] for item in blanks), 0)
        expected[person] = own | (filled if missing is Missing.WRONG else {})
    assert counted(batch, columns, rules)[0] == expected


def test_an_answer_that_breaks_a_rule_sets_its_sheet_aside():
    """Points of 2, and an item answered twice: else `wrong` would count them as wrong answers."""
    rules = SheetRules(n_items=4, missing=Missing.WRONG)
    rows = [(0, "a", 1), (0, "b", 2), (1, "a", 1), (1, "a", 0), (1, "b", 1), (2, "c", 1)]
    rows += [(2, "x", 2)]  # an item that is left out of the catalogue says nothing of the sheet
    sheets, reasons = counted(long(rows), LONG, rules)
    assert sheets == {2: {"a": 0, "b": 0, "c": 1, "d": 0}}
    assert reasons["another answer of this sheet broke a rule"] == 2
    assert reasons["answer is neither 0 nor 1"] == 1


def test_a_blank_of_a_long_table_breaks_no_rule():
    rules = SheetRules(n_items=4, missing=Missing.WRONG)
    sheets, reasons = counted(long([(0, "a", 1), (0, "b", None)]), LONG, rules)
    assert (sheets, reasons) == ({0: {"a": 1, "b": 0, "c": 0, "d": 0}}, {})


def test_a_column_names_the_booklet_and_never_by_its_place():
    rules = SheetRules(
        n_items=4, missing=Missing.UNSEEN, booklets=((0, 1, 2), (2, 3)), names=("1", "2")
    )
    columns = ResponseColumns(user="user", item="item", correct="correct", booklet="form")
    rows = [
        (0, "c", 1),
        (1, "c", 1),
        (1, "d", 0),
        (2, "a", 1),
        (3, "c", 1),
        (3, "c", 1),
        (4, "c", 0),
    ]
    batch = long(rows, form=[1, 2, 2, 2, 1, 2, 0])
    sheets, reasons = counted(batch, columns, rules)
    assert sheets == {0: {"c": 1}, 1: {"c": 1, "d": 0}}
    assert reasons["no booklet has all items that this person answered"] == 1
    assert reasons["booklet is not one of input.booklets"] == 1  # 0 is no name
    assert sum(reasons.values()) == 4  # person 3 answered c twice


def test_the_bound_counts_blanks_that_were_filled_in():
    rules = SheetRules(n_items=4, missing=Missing.WRONG)
    rows = [(person, item, 1) for person, item in product(range(9), "ab")]
    sheets, _ = counted(long(rows), LONG, rules, most=3)
    assert [len(sheet) for sheet in sheets.values()] == [3] * 9
    assert len({tuple(sorted(sheet)) for sheet in sheets.values()}) > 1
