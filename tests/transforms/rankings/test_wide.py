"""Rankings with a column an item: what a row means, ties by fair coins, and no row in another."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import chisquare

from hushrank.privacy.keyed_hash import KeyedHash
from hushrank.privacy.randomness import seeded_bits
from hushrank.transforms.common.catalogue import Catalogue
from hushrank.transforms.common.epsilons import EpsilonSource
from hushrank.transforms.rankings.ranking_columns import WideRankColumns
from hushrank.transforms.rankings.rankings import TIED, TOO_LONG, KeyedCoins
from hushrank.transforms.rankings.wide import encode_wide

FALSE_POSITIVE_RATE = 1e-6  # of one assertion
ITEMS = ("London", "Paris", "Rome")
COLUMNS = WideRankColumns(items=(("c", "Rome"), ("a", "London"), ("b", "Paris")), user="who")
EPSILONS = EpsilonSource(low=1.0, high=1.0, value=1.0)
HASH = KeyedHash(bytes(range(32)))


def encoded(rows, *, coins=None, place=0, longest=3, columns=COLUMNS):
    """The rankings as lists of items, and the reasons of the rows that were set aside."""
    batch = rows if isinstance(rows, pa.RecordBatch) else batch_of(rows)
    found = encode_wide(
        batch, columns, Catalogue(ITEMS), EPSILONS, None, HASH, longest, coins, place
    )
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


def counts(coins, rows):
    """How often each order of three tied items came out."""
    lists, _ = encoded([("1", "1", "1")] * rows, coins=coins)
    orders = [tuple(each) for each in lists]
    return [orders.count(each) for each in permutations(ITEMS)]


@pytest.mark.parametrize("coins", [KeyedCoins(HASH), seeded_bits(7)])
def test_all_orders_of_tied_items_are_equally_likely(coins):
    found = counts(coins, 6000)
    assert chisquare(found).pvalue > FALSE_POSITIVE_RATE
    # Power: an order that is 40 % likelier than it should be is seen at this size.
    assert chisquare(found, 1000 * np.array([1.4, *[0.92] * 5])).pvalue < FALSE_POSITIVE_RATE


def test_a_tie_moves_only_tied_items():
    lists, _ = encoded([("2", "1", "2")] * 200, coins=KeyedCoins(HASH))
    assert {each[0] for each in lists} == {"Paris"}
    assert {tuple(each[1:]) for each in lists} == {("London", "Rome"), ("Rome", "London")}


def test_a_retry_decides_the_same_ties_and_no_row_decides_those_of_another():
    rows = [("1", "1", "1")] * 50
    coins = KeyedCoins(HASH)
    first, _ = encoded(rows, coins=coins, place=1000)
    assert encoded(rows, coins=coins, place=1000)[0] == first
    hostile = [("1", "1", ""), *rows[1:]]
    assert encoded(hostile, coins=coins, place=1000)[0][1:] == first[1:]
    in_two = encoded(rows[:20], coins=coins, place=1000)[0]
    in_two += encoded(rows[20:], coins=coins, place=1020)[0]
    assert in_two == first
    assert encoded(rows, coins=KeyedCoins(KeyedHash(bytes(32))), place=1000)[0] != first
