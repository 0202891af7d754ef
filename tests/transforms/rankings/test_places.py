"""Rankings with a column a place: what a row means under each rule."""

from __future__ import annotations

from itertools import product

import numpy as np
import pyarrow as pa
import pytest

from hushrank.privacy.keyed_hash import KeyedHash
from hushrank.transforms.common.catalogue import Catalogue
from hushrank.transforms.common.epsilons import EpsilonSource
from hushrank.transforms.rankings.ranking_columns import PlaceColumns, RankReading, Repeated
from hushrank.transforms.rankings.rankings import (
    NOT_KNOWN,
    REPEATED,
    TIED,
    TOO_LONG,
    encode_places,
)

ITEMS = ("Ada", "Bo", "Write-in")
COLUMNS = PlaceColumns(places=("Rank 1", "Rank 2", "Rank 3"), user="who")
WORDS = {"not_ranked": ("undervote",), "tie_words": ("overvote",)}
NOBODY = "no place names an item that counts"


def encode(rows, *, longest=3, type_=None, **reading):
    cells = zip(COLUMNS.places, zip(*rows, strict=True), strict=True)
    arrays = {name: pa.array(each, type_) for name, each in cells}
    batch = pa.record_batch({"who": [f"p{k}" for k in range(len(rows))], **arrays})
    how = (COLUMNS, Catalogue(ITEMS), EpsilonSource(low=1.0, high=1.0, value=1.0), None)
    hash_ = KeyedHash(bytes(range(32)))
    return encode_places(batch, *how, hash_, longest, reading=RankReading(**WORDS, **reading))


def encoded(rows, **how):
    """The rankings as lists of items, and the reasons of the rows that were set aside."""
    found = encode(rows, **how)
    ends = np.cumsum(found.rows.lengths)[:-1]
    lists = [[ITEMS[item] for item in each] for each in np.split(found.rows.items, ends)]
    reasons = [] if found.rejects is None else found.rejects["reason"].to_pylist()
    return lists if len(found.rows) else [], reasons


def by_hand(row, *, end_at_tie=False, end_at_gap=False, repeated=Repeated.SET_ASIDE, other=None):
    """The list of one ballot, or the reason why it counts nowhere; one cell after the other."""
    listed = []
    for cell in row:
        word = (cell or "").strip().lower()
        name = cell if cell in ITEMS else other
        if word in ("", "na", "undervote"):
            if end_at_gap:
                break
        elif word == "overvote":
            if not end_at_tie:
                return TIED
            break
        elif name is None:
            return NOT_KNOWN
        elif name in listed:
            if repeated is Repeated.SET_ASIDE:
                return REPEATED
            if repeated is Repeated.EXHAUST:
                break
        else:
            listed.append(name)
    return listed or NOBODY


def test_every_ballot_of_three_places_under_every_rule():
    """All ballots of these cells under all rules, as read by hand, one after the other."""
    cells = ("Ada", "Bo", "Cy", "Undervote", " overvote ", None)
    rows = list(product(cells, repeat=3))
    rules = product((False, True), (False, True), Repeated, (None, "Write-in"))
    for tie, gap, repeated, other in rules:
        rule = {"end_at_tie": tie, "end_at_gap": gap, "repeated": repeated, "other": other}
        expected = [by_hand(row, **rule) for row in rows]
        lists, reasons = encoded(rows, **rule)
        assert lists == [each for each in expected if isinstance(each, list)], rule
        assert len(reasons) == len(rows) - len(lists)  # of two broken rules either may be named


@pytest.mark.parametrize(
    ("row", "rule", "reason"),
    [
        (("Ada", "Cy", None), {}, NOT_KNOWN),
        (("Ada", "overvote", "Bo"), {}, TIED),
        (("Ada", "Ada", None), {}, REPEATED),
        (("undervote", None, "NA"), {}, NOBODY),
        (("Ada", "Bo", None), {"longest": 1}, TOO_LONG),
    ],
)
def test_a_bad_row_is_set_aside_alone_and_the_reason_is_named(row, rule, reason):
    honest = [("Ada", None, None), ("Bo", None, None)]
    alone = encoded(honest, **rule)[0]
    assert encoded([honest[0], row, honest[1]], **rule) == (alone, [reason])


def test_blanks_are_no_vote_for_the_write_in():
    """As a text or in a dictionary; an item may have such a name, and without the key it is
    unknown."""
    rows = [(cell, "Ada", "Mickey") for cell in (" ", "", "na", " N/A", "n/a", None, "NA")]
    for type_ in (None, pa.dictionary(pa.int32(), pa.string())):
        lists, reasons = encoded(rows, other="Write-in", type_=type_)
        assert (lists, reasons) == ([["Ada", "Write-in"]] * len(rows), [])
    assert encoded([("na", "Ada", None)])[1] == [NOT_KNOWN]
    assert encoded([("Mickey", "Minnie", "Ada")], other="Write-in")[1] == [REPEATED]


def test_codes_of_items_and_an_empty_column_are_read():
    assert encoded([(1, 0, None)], type_=pa.int32()) == ([["Bo", "Ada"]], [])
    assert encoded([(None, "Bo", None)]) == ([["Bo"]], [])
