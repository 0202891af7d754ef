"""Rankings with a column an item: what a row means, and which items are tied."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from hushrank.privacy.keyed_hash import KeyedHash
from hushrank.transforms.common.catalogue import Catalogue
from hushrank.transforms.common.epsilons import EpsilonSource
from hushrank.transforms.rankings.ranking_columns import AS_GIVEN, RankReading, WideRankColumns
from hushrank.transforms.rankings.rankings import TIED, TOO_LONG, encode_wide

ITEMS = ("London", "Paris", "Rome")
COLUMNS = WideRankColumns(items=(("c", "Rome"), ("a", "London"), ("b", "Paris")), user="who")
EPSILONS = EpsilonSource(low=1.0, high=1.0, value=1.0)
HASH = KeyedHash(bytes(range(32)))


def encode(rows, *, longest=3, keep_ties=False, reading=AS_GIVEN):
    batch = rows if isinstance(rows, pa.RecordBatch) else batch_of(rows)
    how = (COLUMNS, Catalogue(ITEMS), EPSILONS, None, HASH, longest)
    return encode_wide(batch, *how, keep_ties=keep_ties, reading=reading)


def encoded(rows, **how):
    """The rankings as lists of items, and the reasons of the rows that were set aside."""
    found = encode(rows, **how)
    ends = np.cumsum(found.rows.lengths)[:-1]
    lists = [[ITEMS[item] for item in each] for each in np.split(found.rows.items, ends)]
    reasons = [] if found.rejects is None else found.rejects["reason"].to_pylist()
    return lists if len(found.rows) else [], reasons


def batch_of(rows, type_=None):
    columns = list(zip(*rows, strict=True))
    arrays = {name: pa.array(each, type_) for name, each in zip("abc", columns, strict=True)}
    return pa.record_batch({"who": [f"p{k}" for k in range(len(rows))], **arrays})


@pytest.mark.parametrize(
    ("row", "ranking"),
    [
        (("2", " 1 ", "3"), ["Paris", "London", "Rome"]),
        (("", "1", None), ["Paris"]),
        (("NA", "10", "9"), ["Rome", "Paris"]),
        (("1.5", "1e0", "-2"), ["Rome", "Paris", "London"]),
    ],
)
def test_a_row_is_a_ranking_of_the_items_that_have_a_rank(row, ranking):
    assert encoded([row]) == ([ranking], [])


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (("1", "1", "2"), TIED),
        (("1", "first", "2"), "a rank is not a number"),
        (("1", "nan", "2"), "a rank is not a number"),
        (("1", "inf", "2"), "a rank is not a number"),
        (("", "NA", None), "no item has a rank"),
    ],
)
def test_a_bad_row_is_set_aside_alone(row, reason):
    honest = [("1", "2", "3"), ("3", "2", "1")]
    alone = encoded(honest)[0]
    assert encoded([honest[0], row, honest[1]]) == (alone, [reason])


def test_too_long_a_ranking_and_a_person_without_a_name():
    assert encoded([("1", "2", "3"), ("1", "2", "")], longest=2)[1] == [TOO_LONG]
    batch = batch_of([("1", "2", "3")]).set_column(0, "who", pa.array([None], pa.string()))
    assert encoded(batch) == ([], ["null user"])


def test_ranks_are_integers_floats_or_an_empty_column():
    assert encoded(batch_of([(2, 1, None)], pa.int64()))[0] == [["Paris", "London"]]
    assert encoded(batch_of([(2.0, float("nan"), 1.0)]))[0] == [["Rome", "London"]]
    near = 1 << 60  # as a float64, both ranks would be equal
    assert encoded(batch_of([(near + 1, near, None)], pa.int64()))[0] == [["Paris", "London"]]
    none = batch_of([(1, 2, 0)]).set_column(3, "c", pa.nulls(1))
    assert encoded(none)[0] == [["London", "Paris"]]


@pytest.mark.parametrize(
    ("row", "ranking", "tied"),
    [
        (("1", "1", "1"), ["London", "Paris", "Rome"], [False, True, True]),
        (("2", "1", "2.0"), ["Paris", "London", "Rome"], [False, False, True]),
        (("7", "", "7"), ["London", "Rome"], [False, True]),
        (("NA", "3", ""), ["Paris"], [False]),
    ],
)
def test_tied_items_are_marked_and_in_the_order_of_the_catalogue(row, ranking, tied):
    assert encoded([row], keep_ties=True) == ([ranking], [])
    before = encode([("3", "2", "1"), row], keep_ties=True).rows
    assert before.tied.tolist() == [False] * 3 + tied
    bad = encode([("x", "2", "1"), row], keep_ties=True).rows
    assert bad.tied.tolist() == tied


@pytest.mark.parametrize(
    ("reading", "row", "ranking"),
    [
        ({"not_ranked": ("0", "99", "N/A")}, ("0", "1", "99"), ["Paris"]),
        ({"not_ranked": ("0", "99", "N/A")}, (" n/a ", "0.0", "3"), ["Rome"]),
        ({"end_at_tie": True}, ("2", "1", "2"), ["Paris"]),
        ({"end_at_tie": True}, ("1", "2", "2"), ["London"]),
        ({"end_at_gap": True}, ("1", "3", "2"), ["London", "Rome", "Paris"]),
        ({"end_at_gap": True}, ("1", "4", "2"), ["London", "Rome"]),
        ({"end_at_gap": True, "end_at_tie": True}, ("1", "3", "3"), ["London"]),
    ],
)
def test_what_ranks_mean_beside_their_order(reading, row, ranking):
    assert encoded([row], reading=RankReading(**reading)) == ([ranking], [])


@pytest.mark.parametrize(
    ("reading", "row"),
    [
        ({"not_ranked": ("0",)}, ("0", "", "0")),
        ({"end_at_tie": True}, ("1", "1", "2")),
        ({"end_at_gap": True}, ("2", "3", "4")),
    ],
)
def test_a_ranking_without_an_item_that_counts_is_set_aside(reading, row):
    assert encoded([row], reading=RankReading(**reading)) == ([], ["no item has a rank"])


def test_codes_are_read_in_numbers_as_in_text():
    batch = batch_of([(0, 1, 99), (2, 1, 3)], pa.int64())
    lists, _ = encoded(batch, reading=RankReading(not_ranked=("0", "99", "-")))
    assert lists == [["Paris"], ["Paris", "London", "Rome"]]
