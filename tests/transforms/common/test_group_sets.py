"""Groups that overlap: a row's set of groups follows from its own bytes and public settings."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa
import pytest

from hushrank.privacy.keyed_hash import KeyedHash
from hushrank.transforms.common.catalogue import SEVERAL_WRITTEN, Catalogue, Groups
from hushrank.transforms.common.encode import Comparisons, encode_comparisons
from hushrank.transforms.common.group_sets import NO_FLAG, first_groups, sets_of
from hushrank.transforms.common.schema import (
    ComparisonColumns,
    GroupSets,
    InputError,
    Ties,
    check_schema,
)
from hushrank.transforms.common.written_lists import NO_LIST
from hushrank.transforms.comparisons.aggregate import PairCountsFn, TieCountsFn, WinCountsFn
from hushrank.transforms.comparisons.bound import Bounds, bound_bucket
from hushrank.transforms.comparisons.heavy_users import bound_heavy_users
from hushrank.transforms.comparisons.shuffle import Carried, own, rows_in_several_groups

HASH = KeyedHash(bytes(range(32)))
GROUPS = Groups(("coding", "hard", "math"), others=True, most=2)
LISTS = GroupSets(column="tags")
NAMED = [["hard", "coding"], ["math", "hard", "coding"], ["poetry"], [], None, ["math", "math"]]
SETS = [0b011, 0b011, 0, 0, 0, 0b100]


def columns(sets: GroupSets) -> ComparisonColumns:
    return ComparisonColumns(
        left="a", right="b", outcome="y", winner=None, user=None, event=None, sets=sets
    )


@pytest.mark.parametrize(
    ("sets", "column"),
    [
        (LISTS, pa.array(NAMED)),
        (LISTS, pa.array(NAMED, pa.large_list(pa.large_string()))),
        (LISTS, pa.array(NAMED).slice(0)),
        (
            GroupSets(column="tags", separator="|"),
            pa.array(["hard | coding", "math|hard|coding", "poetry", "", None, "math|math"]),
        ),
        (
            GroupSets(column="tags", separator=", "),
            pa.array(
                ["hard, coding", "math, hard, coding", "poetry", "", None, "math, math"]
            ).dictionary_encode(),
        ),
    ],
)
def test_the_first_groups_in_the_listed_order_count(sets, column) -> None:
    found, rules = sets_of(pa.record_batch({"tags": column}), sets, GROUPS)
    assert (found.tolist(), rules) == (SETS, [])


WRITTEN = GroupSets(column="tags", separator="[]")


@pytest.mark.parametrize(
    "cells",
    [
        [
            "['hard', 'coding']", "['math', 'hard', 'coding']", "['poetry']", "[]", None,
            "['math', 'math']",
        ],
        ['["hard","coding"]', '["math", "hard", "coding"]', '["poetry"]', "", " [ ] ", '["math"]'],
        ["[hard, coding]", "{math,hard,coding}", "{poetry}", "{}", "", "(math,)"],
        ["['hard' 'coding']", "['math'\n 'hard' 'coding']", "[None]", "[]", None, "{'math'}"],
    ],
)  # fmt: skip
def test_lists_that_python_json_and_databases_write_into_texts(cells) -> None:
    for column in (pa.array(cells), pa.array(cells).dictionary_encode()):
        found, rules = sets_of(pa.record_batch({"tags": column}), WRITTEN, GROUPS)
        assert (found.tolist(), rules) == (SETS, [])


def test_names_with_commas_quotes_and_other_letters_are_found_in_written_lists() -> None:
    names = ("a, b", "it's", 'say "x"', "café", "1", "two words")
    groups = Groups(names, others=True, most=6)
    every = [[name] for name in names] + [list(names)]
    wanted = [1 << place for place in range(6)] + [63]
    for write in (str, json.dumps, partial(json.dumps, ensure_ascii=False)):
        batch = pa.record_batch({"tags": [write(each) for each in every]})
        assert sets_of(batch, WRITTEN, groups)[0].tolist() == wanted
    bare = pa.record_batch({"tags": ["[1, two words, café]"]})
    assert sets_of(bare, WRITTEN, groups)[0].tolist() == [0b111000]


def test_a_text_that_is_no_list_breaks_a_rule_where_lists_are_written() -> None:
    odd = ["coding", "coding|hard", "['coding'", "[['coding']]", "['coding' + 'hard']", "['a]"]
    _, [(rule, broken)] = sets_of(pa.record_batch({"tags": [*odd, "['hard']"]}), WRITTEN, GROUPS)
    assert rule == NO_LIST
    assert broken.tolist() == [True] * len(odd) + [False]


NO_LISTS = ["(not set)", "[deleted]", "{other}", "coding, hard", "[", "", None, "c[1, 2]"]
LISTED = ["['coding', 'hard']", '["coding"]', "[coding, hard]", "{coding,hard}"]


@pytest.mark.parametrize("others", [True, False])
def test_a_written_list_is_set_aside_where_a_row_has_one_group_or_another_separator(others) -> None:
    """With others: whole it would count in the whole alone, and nobody would know."""
    cells = [*NO_LISTS, *LISTED, "coding"]
    for column in (pa.array(cells), pa.array(cells).dictionary_encode()):
        codes = Groups(("coding", "hard"), others=others).codes(column).tolist()
        assert codes == [2 if others else -1] * len(NO_LISTS) + [-2] * len(LISTED) + [0]
    named = Groups(("['coding', 'hard']", "coding"))
    assert named.codes(pa.array(["['coding', 'hard']"])).tolist() == [0]
    rows = {"a": [0] * len(cells), "b": [1] * len(cells), "y": [1] * len(cells), "tags": cells}
    batch, how = pa.record_batch(rows), (Catalogue.of_count(3), None)
    apart = replace(columns(LISTS), sets=None, group="tags")
    for asked, most in ((apart, None), (columns(GroupSets(column="tags", separator="|")), 2)):
        groups = Groups(("coding", "hard"), others=others, most=most)
        found = encode_comparisons(batch, asked, *how, groups=groups)
        told = Counter(found.rejects["reason"].to_pylist())
        assert told[SEVERAL_WRITTEN] == len(LISTED)
        assert told.total() == len(LISTED) + (0 if others else len(NO_LISTS))


@pytest.mark.parametrize(
    ("coding", "hard"),
    [
        (pa.array([True, False, None, True]), pa.array([True, True, False, False])),
        (pa.array([1, 0, None, 1]), pa.array([1.0, 1.0, 0.0, None])),
        (pa.array(["True", "0", "", "1"]), pa.array(["1.0", "TRUE", "false", None])),
    ],
)
def test_flags_of_every_type(coding, hard) -> None:
    groups = Groups(("coding", "hard"), others=True, most=2)
    batch = pa.record_batch({"coding": coding, "hard": hard})
    found, rules = sets_of(batch, GroupSets(flags=("coding", "hard")), groups)
    assert (found.tolist(), rules) == ([3, 2, 0, 1], [])


def test_what_is_no_flag_and_what_is_in_no_group_breaks_a_rule() -> None:
    batch = pa.record_batch(
        {"a": [0] * 3, "b": [1] * 3, "y": [1] * 3, "coding": ["yes", "1", "0"], "hard": ["1"] * 3}
    )
    sets = columns(GroupSets(flags=("coding", "hard")))
    groups = Groups(("coding", "hard"), most=1)
    found = encode_comparisons(batch, sets, Catalogue.of_count(3), None, groups=groups)
    assert found.rows.sets.tolist() == [1, 2]
    assert found.rejects["reason"].to_pylist() == [NO_FLAG]
    lists = pa.record_batch(
        {"a": [0] * 3, "b": [1] * 3, "y": [1] * 3, "tags": [["hard"], ["poetry"], []]}
    )
    found = encode_comparisons(lists, columns(LISTS), Catalogue.of_count(3), None, groups=groups)
    assert found.rows.sets.tolist() == [2]
    assert found.rejects["reason"].to_pylist() == ["group is not one of groups.values"] * 2


@pytest.mark.parametrize(
    ("sets", "type_", "message"),
    [
        (LISTS, pa.string(), r"groups\.column\) holds no lists; .*set groups\.separator"),
        (LISTS, pa.list_(pa.float64()), r"has type list<.*double>; groups in its lists must be"),
        (GroupSets(column="tags", separator="|"), pa.list_(pa.string()), "remove groups.separator"),
        (GroupSets(flags=("tags",)), pa.list_(pa.string()), r"groups\.columns\) holds neither"),
        (None, pa.list_(pa.string()), r"groups\.column\) holds lists, .*add groups\.most"),
        (None, pa.bool_(), r"list such columns under groups\.columns"),
    ],
)
def test_a_column_of_another_type_is_refused_by_its_name(sets, type_, message) -> None:
    schema = pa.schema({"a": pa.int64(), "b": pa.int64(), "y": pa.int64(), "tags": type_})
    asked = columns(LISTS)
    asked = replace(asked, sets=sets) if sets else replace(asked, sets=None, group="tags")
    with pytest.raises(InputError, match=message):
        check_schema("votes.parquet", schema, asked)


def test_groups_that_overlap_are_bounded() -> None:
    with pytest.raises(ValueError, match="1 to 2 of 2 groups, got most: 3"):
        Groups(("a", "b"), most=3)
    with pytest.raises(ValueError, match="at most 63 groups may overlap, got 64"):
        Groups(tuple(map(str, range(64))), most=2)
    assert (len(Groups(("a",), most=1)), len(GROUPS), GROUPS.summed, GROUPS.parts) == (2, 4, 1, 3)
    all_bits = np.array([(1 << 63) - 1, 0, 1 << 62], np.uint64)
    assert first_groups(all_bits, 2).tolist() == [3, 0, 1 << 62]


def rows_of(user, sets, event=None, outcome=None) -> Comparisons:
    count = len(user)
    return Comparisons(
        np.zeros(count, np.int32),
        np.arange(count, dtype=np.int32) % 4 + 1 if event is None else np.ones(count, np.int32),
        np.ones(count, np.int8) if outcome is None else np.array(outcome, np.int8),
        HASH.of_integers(np.array(user, np.int64)),
        None if event is None else HASH.of_integers(np.array(event, np.int64)),
        sets=np.array(sets, np.uint64),
    )


def test_copies_of_an_event_are_one_answer_in_all_of_their_groups() -> None:
    bounds = Bounds(
        n_items=5, ties=Ties.DROP, max_contributions=9, most_groups=2, carried=Carried.SETS
    )
    rows = rows_of([1] * 6, [4, 1, 2, 4, 2, 2], [7, 7, 7, 8, 9, 9], [1, 1, 1, 1, 1, -1])
    owned = own(rows, Ties.DROP, HASH, np.arange(6))
    found = bound_bucket(owned, bounds, HASH)
    assert sorted(found.kept.sets.tolist()) == [0b011, 0b100]  # 7 in its first two groups; 8
    assert len(found.conflicts) == 2  # 9, whose copies name two winners
    parts = list(bound_heavy_users(lambda: [owned], len(owned), bounds, HASH, 2))
    held = [part.kept.sets for part in parts if len(part.kept)]
    assert sorted(np.concatenate(held).tolist()) == [0b011, 0b100]


def test_bounds_are_of_answers_whatever_their_groups() -> None:
    random = np.random.default_rng(0)
    rows = rows_of(random.integers(3, size=300), random.integers(8, size=300))
    owned = own(rows, Ties.DROP, HASH)
    bounds = Bounds(n_items=5, ties=Ties.DROP, max_contributions=4, carried=Carried.SETS)
    kept = bound_bucket(owned, bounds, HASH).kept
    assert len(kept) == 12
    parts = bound_heavy_users(lambda: [owned], len(owned), bounds, HASH, 50)
    again = Counter(s for part in parts for s in part.kept.sets.tolist())
    assert again == Counter(kept.sets.tolist())


@pytest.mark.parametrize("combine", [WinCountsFn, PairCountsFn, TieCountsFn])
def test_each_group_counts_its_rows_and_the_whole_counts_each_row_once(combine) -> None:
    random = np.random.default_rng(1)
    sets = random.integers(8, size=500)
    outcome = random.integers(-1, 2, size=500)
    rows = rows_of([1] * 500, sets, outcome=outcome)
    sums = combine(5, Ties.SPLIT, 4)
    found = sums.add_input(sums.create_accumulator(), rows)
    alone = combine(5, Ties.SPLIT)
    for group in range(4):
        mine = np.ones(500, bool) if group == 3 else (sets >> group & 1).astype(bool)
        chosen = replace(rows.take(mine), sets=None)
        assert np.array_equal(found[group], alone.add_input(alone.create_accumulator(), chosen))


def test_rows_that_differ_in_their_group_alone_are_counted_for_the_holder() -> None:
    count = 6
    rows = Comparisons(
        np.zeros(count, np.int32),
        np.array([1, 1, 1, 1, 2, 1], np.int32),
        np.array([1, 1, 1, -1, 1, 1], np.int8),
        HASH.of_integers(np.array([1, 1, 2, 1, 1, 3])),
        group=np.array([0, 1, 1, 1, 1, 0], np.int16),
    )
    assert rows_in_several_groups(own(rows, Ties.DROP, HASH)) == 2  # the first two of person 1
    assert rows_in_several_groups(own(rows.take(slice(0, 0)), Ties.DROP, HASH)) == 0
