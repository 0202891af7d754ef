"""Rankings in list and long form: what is valid, how pieces meet, and how people are bounded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushrank.privacy.keyed_hash import KeyedHash
from hushrank.privacy.randomness import seeded_bits
from hushrank.transforms.common.catalogue import Catalogue
from hushrank.transforms.common.encode import Sifted
from hushrank.transforms.common.epsilons import EpsilonSource, EpsilonTable
from hushrank.transforms.rankings.count_rankings import (
    blob_of_pieces,
    blob_of_rankings,
    bound_rankings,
    has_copies,
    pieces_of_blob,
    rankings_of_blob,
)
from hushrank.transforms.rankings.ranking_columns import (
    ListColumns,
    RankColumns,
    RankReading,
    of_contest,
    ranked_rows,
    ranks_of,
)
from hushrank.transforms.rankings.rankings import (
    Pieces,
    Rankings,
    assemble,
    encode_lists,
    encode_ranks,
    split_pieces,
    split_rankings,
)

NAMES = ("ants", "bees", "cats", "dogs")
CATALOGUE = Catalogue(NAMES)
ONE = EpsilonSource(low=1.0, high=1.0, value=1.0)
RANGE = EpsilonSource(low=0.5, high=2.0)
HASH = KeyedHash(bytes(32))
LISTS, RANKS = (
    ListColumns(ranking="ranking", user="user"),
    RankColumns(user="user", item="item", rank="rank"),
)


def lists_of(rankings: Rankings) -> list[list[int]]:
    return [part.tolist() for part in np.split(rankings.items, np.cumsum(rankings.lengths)[:-1])]


def encoded(
    ranking: pa.Array, user: Sequence[Any] | None = None, max_length: int = 4, **more: Any
) -> Sifted[Rankings]:
    users = pa.array(user if user is not None else range(len(ranking)))
    batch = pa.record_batch({"user": users, "ranking": ranking})
    columns, source = more.get("columns", LISTS), more.get("source", ONE)
    if "epsilon" in more:
        batch = batch.append_column("epsilon", pa.array(more["epsilon"]))
    return encode_lists(batch, columns, CATALOGUE, source, more.get("table"), HASH, max_length)


def pieces_of(rows: Sequence[tuple[Any, ...]], **more: Any) -> Pieces:
    """Pieces of rows (user, item, rank[, contest])."""
    return encode_rows(rows, **more).rows


def encode_rows(rows: Sequence[tuple[Any, ...]], source: EpsilonSource = ONE, **more: Any):
    names = ("user", "item", "rank", "contest")
    columns = dict(zip(names, zip(*rows, strict=True), strict=False))
    contest = "contest" if len(columns) == 4 else None
    if "epsilon" in more:
        columns["epsilon"] = more.pop("epsilon")
    batch = pa.record_batch({name: pa.array(values) for name, values in columns.items()})
    roles = RankColumns(
        user="user",
        item="item",
        rank="rank",
        contest=contest,
        epsilon="epsilon" if "epsilon" in columns else None,
    )
    return encode_ranks(batch, roles, CATALOGUE, source, None, HASH)


def assembled(rows: Sequence[tuple[Any, ...]], max_length: int = 4, **how) -> Sifted[Rankings]:
    return assemble(pieces_of(rows), CATALOGUE, max_length, **{"keep_ties": False} | how)


FORMS = [
    pa.array([["cats", "ants"], ["dogs"]]),
    pa.array([["cats", "ants"], ["dogs"]], pa.large_list(pa.large_string())),
    pa.array([[2, 0], [3]], pa.list_(pa.int16())),
    pa.array([["9"], ["cats", "ants"], ["dogs"], ["x"]])[1:3],
]


@pytest.mark.parametrize("ranking", FORMS)
def test_lists_become_codes(ranking):
    found = encoded(ranking)
    assert lists_of(found.rows) == [[2, 0], [3]]
    assert found.rows.epsilon.tolist() == [1.0, 1.0]
    assert found.rejects is None


def test_a_list_of_fixed_size_becomes_codes():
    ranking = pa.array([[3, 1], [0, 2]], pa.list_(pa.int32(), 2))
    assert lists_of(encoded(ranking).rows) == [[3, 1], [0, 2]]


BAD_LISTS = [
    (None, 0, "null ranking"),
    ([], 0, "empty ranking"),
    (["ants", "emus"], 0, "an item of the ranking is not in the catalogue"),
    (["ants", None], 0, "an item of the ranking is not in the catalogue"),
    (["ants", "cats", "ants"], 0, "the ranking holds an item twice"),
    (["ants", "cats", "bees", "dogs"], 0, "the ranking has more items than max_length"),
    (["ants", "cats"], None, "null user"),
]


@pytest.mark.parametrize(("bad", "user", "reason"), BAD_LISTS)
def test_a_list_that_breaks_a_rule_is_set_aside_whole(bad, user, reason):
    ranking = pa.array([["dogs", "ants"], bad, ["cats"]])
    found = encoded(ranking, [7, user, 9], max_length=3)
    assert lists_of(found.rows) == [[3, 0], [2]]
    assert found.rejects.to_pylist() == [{"user": user, "ranking": bad, "reason": reason}]


def test_epsilons_of_lists_come_from_a_column_or_a_table():
    ranking = pa.array([["ants"], ["bees"], ["cats"]])
    columns = ListColumns(ranking="ranking", epsilon="epsilon")
    found = encoded(ranking, columns=columns, source=RANGE, epsilon=[1.5, 3.0, None])
    assert found.rows.epsilon.tolist() == [1.5]
    assert found.rows.owner is None
    assert found.rejects["reason"].to_pylist() == [
        "epsilon is outside epsilon_range",
        "null epsilon",
    ]
    table = EpsilonTable(pa.array([0, 2]), np.array([0.5, 2.0]))
    found = encoded(ranking, source=RANGE, table=table)
    assert found.rows.epsilon.tolist() == [0.5, 2.0]
    assert found.rejects["reason"].to_pylist() == ["user is not in the table of epsilons"]


rows_of_people = st.lists(
    st.tuples(st.integers(0, 3), st.permutations(range(4)), st.integers(0, 4), st.integers(0, 1)),
    max_size=6,
    unique_by=lambda person: (person[0], person[3]),
)


@given(rows_of_people, st.randoms(use_true_random=False), st.integers(1, 5))
def test_long_form_gives_the_rankings_however_rows_are_ordered_and_cut(people, random, cut):
    rows = [
        (user, item, 2 * rank - 3, contest)
        for user, order, length, contest in people
        for rank, item in enumerate(order[:length])
    ]
    random.shuffle(rows)
    blobs = []
    for start in range(0, len(rows), cut):
        parts = split_pieces(pieces_of(rows[start : start + cut]), 3)
        blobs += [(place, blob_of_pieces(part)) for place, part in parts]
    found = []
    for place in range(3):
        mine = [blob for its_place, blob in blobs if its_place == place]
        if mine:
            whole = assemble(
                Pieces.concatenated([pieces_of_blob(blob) for blob in mine]),
                CATALOGUE,
                4,
                keep_ties=False,
            )
            assert whole.rejects is None
            found += lists_of(whole.rows)
    expected = [list(order[:length]) for _, order, length, _ in people if length]
    assert sorted(found) == sorted(expected)


BAD_ROWS = [
    ((None, "ants", 1.0), "null user"),
    ((7, None, 1.0), "null item"),
    ((7, "emus", 1.0), "item not in the catalogue"),
    ((7, "ants", None), "null rank"),
    ((7, "ants", float("nan")), "rank is not a number"),
    ((7, "ants", float("inf")), "rank is not a number"),
]


@pytest.mark.parametrize(("bad", "reason"), BAD_ROWS)
def test_a_row_that_breaks_a_rule_is_set_aside_alone(bad, reason):
    found = encode_rows([(7, "cats", 1.0), bad, (7, "bees", 0.5)])
    assert found.rejects["reason"].to_pylist() == [reason]
    assert lists_of(assemble(found.rows, CATALOGUE, 4, keep_ties=False).rows) == [[1, 2]]


def test_ranks_and_contests_may_be_text():
    rows = [("u", "ants", "2", "x"), ("u", "bees", "1.5", "x"), ("u", "cats", "first", "")]
    found = encode_rows(rows)
    assert lists_of(assemble(found.rows, CATALOGUE, 4, keep_ties=False).rows) == [[1, 0]]
    assert found.rejects["reason"].to_pylist() == ["rank is not a number"]


REFUSED = [
    ([(0, 1, 1), (0, 2, 2), (0, 1, 3)], "the ranking holds an item twice"),
    ([(0, 1, 1), (0, 2, 2), (0, 3, 3), (0, 0, 4)], "the ranking has more items than max_length"),
    ([(0, 1, 1), (0, 2, 1)], "the ranking puts two items at the same rank"),
]


@pytest.mark.parametrize(("rows", "reason"), REFUSED)
def test_a_ranking_in_pieces_that_breaks_a_rule_is_refused_whole(rows, reason):
    others = [(9, 0, 1), (9, 3, 5)]
    found = assembled([*rows[:1], *others, *rows[1:]], max_length=3)
    assert lists_of(found.rows) == [[0, 3]]
    refused = found.rejects.to_pydict()
    assert set(refused["reason"]) == {reason}
    assert sorted(refused["item"]) == sorted(CATALOGUE.names[item] for _, item, _ in rows)
    assert sorted(refused["rank"]) == sorted(rank for *_, rank in rows)


def test_rows_of_one_ranking_with_different_epsilons_are_refused():
    found = encode_rows([(0, 1, 1), (0, 2, 2), (1, 0, 1)], RANGE, epsilon=[1.0, 1.5, 2.0])
    whole = assemble(found.rows, CATALOGUE, 4, keep_ties=False)
    assert lists_of(whole.rows) == [[0]]
    assert whole.rows.epsilon.tolist() == [2.0]
    assert (
        whole.rejects["reason"].to_pylist() == ["rows of one ranking have different epsilons"] * 2
    )


def test_ties_are_marked_whatever_the_order_of_the_rows():
    rows = [("u", 3, 0), ("u", 1, 1), ("u", 0, 1), ("u", 2, 2), ("v", 2, 2), ("w", 1, 5)]
    for order in ([0, 1, 2, 3, 4, 5], [5, 2, 3, 0, 4, 1]):
        found = assembled([rows[k] for k in order], keep_ties=True).rows
        ends = np.cumsum(found.lengths)[:-1]
        marks = [each.tolist() for each in np.split(found.tied, ends)]
        assert sorted(zip(lists_of(found), marks, strict=True)) == [
            ([1], [False]),
            ([2], [False]),
            ([3, 0, 1, 2], [False, False, True, False]),
        ]
    far = [("u", 1, 2**60 + 1), ("u", 0, 2**60 + 1), ("u", 2, 2**60)]
    assert assembled(far, keep_ties=True).rows.tied.tolist() == [False, False, True]


def test_one_contest_is_chosen_by_its_name():
    batch = pa.record_batch({"contest": pa.array([3, 30, None, 3]), "row": [0, 1, 2, 3]})
    assert of_contest(batch, "contest", "3")["row"].to_pylist() == [0, 3]
    text = pa.record_batch({"contest": pa.array([" a", "b", "a"]).dictionary_encode()})
    assert len(of_contest(text, "contest", "a")) == 2


def test_partitions_keep_people_together_and_blobs_keep_all():
    users = [number % 50 for number in range(200)]
    ranking = pa.array([[number % 4, (number + 1) % 4][: 1 + number % 2] for number in range(200)])
    rankings = encoded(ranking, users).rows
    marks = np.arange(len(rankings.items)) % 3 == 1
    rankings = replace(rankings, tied=marks, copies=np.arange(len(rankings)))
    parts = dict(split_rankings(rankings, 4))
    assert len(parts) == 4
    owners = [set(map(tuple, part.owner.tolist())) for part in parts.values()]
    assert sum(map(len, owners)) == len(set().union(*owners)) == 50
    blobs = [blob_of_rankings(part) for part in parts.values()]
    assert all(len(blob) % 8 == 0 for blob in blobs)
    back = Rankings.concatenated([rankings_of_blob(blob) for blob in blobs])
    assert sorted(contents(back)) == sorted(contents(rankings))
    assert all(map(has_copies, blobs))
    assert not has_copies(blob_of_rankings(replace(rankings, copies=None)))


def contents(rankings: Rankings) -> list[tuple[Any, ...]]:
    tied = np.split(rankings.tied, np.cumsum(rankings.lengths)[:-1])
    marks = [each.tolist() for each in tied]
    return list(zip(lists_of(rankings), marks, rankings.copies.tolist(), strict=True))


def test_rankings_without_owners_meet_nobody():
    rankings = Rankings(np.array([0]), np.array([1]), np.array([1.0]))
    for meet in (
        lambda: list(bound_rankings([Sifted(rankings)], 1, seeded_bits(0))),
        lambda: list(split_rankings(rankings, 2)),
        lambda: blob_of_rankings(rankings),
    ):
        with pytest.raises(ValueError, match="owners"):
            meet()
    assert Rankings.concatenated([rankings, rankings]).owner is None


@pytest.mark.parametrize(
    ("reading", "ranks", "listed"),
    [
        ({"end_at_tie": True}, (1, 2, 2), [[0]]),
        ({"end_at_tie": True}, (1, 1, 2), [[]]),  # no ranking: `lists_of` splits nothing
        ({"end_at_gap": True}, (1, 2, 4), [[0, 1]]),
        ({}, (1, 2, 4), [[0, 1, 2]]),
    ],
)
def test_a_long_ranking_ends_where_its_ranks_say(reading, ranks, listed):
    rows = [("p", item, rank) for item, rank in zip(("ants", "bees", "cats"), ranks, strict=True)]
    assert lists_of(assembled(rows, reading=RankReading(**reading)).rows) == listed


def test_rows_whose_cell_says_not_ranked_are_no_rows_of_a_ranking():
    batch = pa.record_batch({"rank": ["1", "0", None, "", "99.0", "-", "2"]})
    found = ranked_rows(batch, "rank", RankReading(not_ranked=("0", "99", "-")))
    assert found["rank"].to_pylist() == ["1", "2"]
    assert ranked_rows(batch, "rank", RankReading()) is batch


def test_the_highest_rank_is_the_best_if_the_columns_say_so():
    """Integers above 2^53 too, of which a float64 would take neighbours for ties."""
    for ranks in ([1, 3, 2], [1.0, 3.0, 2.0], ["1", "3", "2"], [2**60, 2**60 + 2, 2**60 + 1]):
        high, low, _ = ranks_of(pa.array(ranks), highest=True)
        assert np.lexsort((low, high)).tolist() == [1, 2, 0]
