"""Rows with a best and a worst choice: what they say, and that they are rankings like any other."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from hushrank.privacy.randomness import seeded_bits
from hushrank.transforms.common.catalogue import Catalogue
from hushrank.transforms.common.encode import Sifted
from hushrank.transforms.common.epsilons import EpsilonSource
from hushrank.transforms.rankings.best_worst import encode_best_worst, rows_of_sets
from hushrank.transforms.rankings.count_rankings import break_ties, random_coins
from hushrank.transforms.rankings.ranking_columns import BestWorstColumns, ItemSet
from hushrank.transforms.rankings.rankings import Rankings

ITEMS = ("ants", "bees", "cats", "dogs", "eels")
COLUMNS = BestWorstColumns(best="most", worst="least", shown=("q1", "q2", "q3", "q4"))
ONE = EpsilonSource(low=1.0, high=1.0, value=1.0)


def table(*rows: tuple[object, ...]) -> pa.RecordBatch:
    names = ("q1", "q2", "q3", "q4", "most", "least")
    cells = zip(*rows, strict=True)
    return pa.record_batch({n: pa.array(list(c)) for n, c in zip(names, cells, strict=True)})


def encoded(*rows: tuple[object, ...], max_length: int = 4) -> Sifted[Rankings]:
    catalogue = Catalogue(ITEMS)
    return encode_best_worst(table(*rows), COLUMNS, catalogue, ONE, None, None, max_length)


def groups_of(rankings: Rankings) -> list[list[set[str]]]:
    """Each ranking as sets of items that are tied, best first."""
    found, at = [], 0
    for length in rankings.lengths:
        ranking: list[set[str]] = []
        for place in range(at, at + length):
            name = ITEMS[rankings.items[place]]
            if rankings.tied is not None and rankings.tied[place]:
                ranking[-1].add(name)
            else:
                ranking.append({name})
        found.append(ranking)
        at += length
    return found


def test_the_best_is_above_and_the_worst_below_the_others():
    rows = encoded(
        ("dogs", "cats", "ants", "bees", "cats", "dogs"),
        ("eels", "bees", None, "", "bees", "eels"),
        ("bees", " dogs", "eels", "NA", "dogs", "bees"),
    ).rows
    assert groups_of(rows) == [
        [{"cats"}, {"ants", "bees"}, {"dogs"}],
        [{"bees"}, {"eels"}],
        [{"dogs"}, {"eels"}, {"bees"}],
    ]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (("dogs", "cats", "ants", "foxes", "cats", "dogs"), "not in the catalogue"),
        (("dogs", "cats", "ants", "bees", "foxes", "dogs"), "not in the catalogue"),
        (("dogs", "cats", "ants", "bees", "", "dogs"), "no best or no worst"),
        (("dogs", "cats", "ants", "bees", "cats", None), "no best or no worst"),
        (("dogs", "cats", "ants", "bees", "eels", "dogs"), "not two of the items"),
        (("dogs", "cats", "ants", "bees", "cats", "cats"), "not two of the items"),
        (("dogs", "cats", "cats", "bees", "cats", "dogs"), "holds an item twice"),
    ],
)
def test_a_row_that_contradicts_itself_is_set_aside(row: tuple[object, ...], reason: str):
    good = ("dogs", "cats", "ants", "bees", "cats", "dogs")
    found = encoded(good, row)
    assert len(found.rows) == 1
    assert found.rejects is not None
    assert reason in found.rejects["reason"][0].as_py()


def test_more_items_than_max_length_are_set_aside():
    found = encoded(("dogs", "cats", "ants", "bees", "cats", "dogs"), max_length=3)
    assert len(found.rows) == 0


@pytest.mark.parametrize("k", [2, 3, 4])
def test_every_row_says_2k_minus_3_comparisons_and_no_more(k: int):
    for shown in itertools.permutations(ITEMS[:4], k):
        for best, worst in itertools.permutations(shown, 2):
            row = (*shown, *[None] * (4 - k), best, worst)
            (ranking,) = groups_of(encoded(row).rows)
            above = {
                (high, low)
                for place, group in enumerate(ranking)
                for high in group
                for later in ranking[place + 1 :]
                for low in later
            }
            said = {(best, each) for each in shown if each != best}
            said |= {(each, worst) for each in shown if each != worst}
            assert above == said
            assert len(above) == 2 * k - 3


def test_with_coins_it_is_a_ranking_of_the_items_shown_and_all_orders_are_as_likely():
    """The sensitivity of rankings of at most k items holds: no other table can come out.

    Three items are between, so 6 orders; 3,000 rows. Chi-squared with 5 degrees of freedom above
    25.7 has a chance of 1e-4.
    """
    columns = BestWorstColumns(best="most", worst="least", shown=("q1", "q2", "q3", "q4", "q5"))
    row = {f"q{n + 1}": name for n, name in enumerate(ITEMS)} | {"most": "cats", "least": "ants"}
    batch = pa.RecordBatch.from_pylist([row] * 3_000)
    found = encode_best_worst(batch, columns, Catalogue(ITEMS), ONE, None, None, 5).rows
    orders = break_ties(found, random_coins(seeded_bits(7))).items.reshape(-1, 5)
    assert (orders[:, 0] == 2).all()
    assert (orders[:, -1] == 0).all()
    counts = np.array([*Counter(map(tuple, orders[:, 1:-1].tolist())).values()])
    assert len(counts) == 6
    assert ((counts - 500) ** 2 / 500).sum() < 25.7


SETS = BestWorstColumns.of_sets(
    (
        ItemSet(best="b1", worst="w1", shown=("s1", "s2", "s3")),
        ItemSet(best="b2", worst="w2", items=("dogs", "ants")),
    ),
    user="who",
)


def rows_with_two_sets(*rows: tuple[object, ...]) -> pa.RecordBatch:
    names = ("who", "b1", "w1", "s1", "s2", "s3", "b2", "w2", "team")
    cells = zip(*rows, strict=True)
    made = {n: pa.array(list(c)) for n, c in zip(names, cells, strict=True)}
    return rows_of_sets(pa.record_batch(made), SETS)


def test_a_row_of_several_sets_is_a_row_for_each_set_that_was_answered():
    made = rows_with_two_sets(
        ("p", "cats", " ants", "cats", "bees", "ants", "dogs", "ants", "red"),
        ("q", "", None, "cats", "bees", "ants", "ants", "dogs", "blue"),
        ("r", "NA", "", "cats", "bees", "ants", None, "", "red"),
    )
    assert made["who"].to_pylist() == ["p", "p", "q"]
    assert made["team"].to_pylist() == ["red", "red", "blue"]
    found = encode_best_worst(made, SETS, Catalogue(ITEMS), ONE, None, None, 3)
    assert found.rejects is None
    assert groups_of(found.rows) == [
        [{"cats"}, {"bees"}, {"ants"}],
        [{"dogs"}, {"ants"}],
        [{"ants"}, {"dogs"}],
    ]


def test_a_set_without_a_best_or_a_worst_is_set_aside_and_not_the_others_of_its_row():
    made = rows_with_two_sets(("p", "cats", None, "cats", "bees", "ants", "dogs", "ants", "red"))
    found = encode_best_worst(made, SETS, Catalogue(ITEMS), ONE, None, None, 3)
    assert len(found.rows) == 1
    assert found.rejects is not None
    assert "no best or no worst" in found.rejects["reason"][0].as_py()


@pytest.mark.parametrize("codes", [[2, 0, None], [2.0, 0.0, None]])
def test_numbers_of_items_mean_the_same_where_a_gap_made_floats_of_them(codes: list[object]):
    two = BestWorstColumns.of_sets(
        tuple(ItemSet(best=f"b{k}", worst=f"w{k}", items=("ants", "cats")) for k in (1, 2))
    )
    cells = {"b1": codes, "w1": [0, 2, None], "b2": [None] * 3, "w2": [None] * 3}
    made = rows_of_sets(pa.RecordBatch.from_pydict(cells), two)
    found = encode_best_worst(made, two, Catalogue(ITEMS), ONE, None, None, 2)
    assert groups_of(found.rows) == [[{"cats"}, {"ants"}], [{"ants"}, {"cats"}]]
