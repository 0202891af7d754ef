"""Groups of rows: a row's group follows from its own bytes and the public list alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from hushrank.privacy.keyed_hash import KeyedHash
from hushrank.transforms.common.catalogue import OUTSIDE, Catalogue, Groups
from hushrank.transforms.common.encode import Comparisons, encode_comparisons
from hushrank.transforms.common.schema import ComparisonColumns, InputError, Ties, check_schema
from hushrank.transforms.comparisons.aggregate import PairCountsFn, WinCountsFn
from hushrank.transforms.comparisons.bound import Bounds, bound_bucket
from hushrank.transforms.comparisons.heavy_users import bound_heavy_users
from hushrank.transforms.comparisons.shuffle import Carried, own

HASH = KeyedHash(bytes(range(32)))
COLUMNS = ComparisonColumns(
    left="a", right="b", outcome="y", winner=None, user=None, event=None, group="language"
)


@pytest.mark.parametrize(
    ("column", "codes"),
    [
        (pa.array(["en", " de ", "fr", None, "EN", ""]), [0, 1, 2, 2, 2, 2]),
        (pa.array(["de", "en", "de"]).dictionary_encode(), [1, 0, 1]),
        (pa.array(["de", None, "x"]).dictionary_encode(), [1, 2, 2]),
        (pa.array([b"en", b"\xff", None]), [0, 2, 2]),
    ],
)
def test_texts_are_names_but_for_blanks(column, codes) -> None:
    assert Groups(("en", "de"), others=True).codes(column).tolist() == codes
    alone = [OUTSIDE if code == 2 else code for code in codes]
    assert Groups(("en", "de")).codes(column).tolist() == alone


def test_integers_are_names_as_written_and_never_positions() -> None:
    groups = Groups(("7", "1"))
    assert groups.codes(pa.array([1, 7, 0, None])).tolist() == [1, 0, OUTSIDE, OUTSIDE]
    assert Groups(("en", "de")).codes(pa.array([0, 1])).tolist() == [OUTSIDE, OUTSIDE]


@pytest.mark.parametrize(
    ("names", "others", "message"),
    [
        ((), True, "every group needs a name"),
        (("a", " "), False, "every group needs a name"),
        (("a", "b", "a "), False, "group a occurs 2 times"),
        (("a",), False, "one group is the whole"),
        (tuple(map(str, range(20_001))), False, "at most 20,000 groups"),
    ],
)
def test_lists_that_are_no_groups_are_refused(names, others, message) -> None:
    with pytest.raises(ValueError, match=message):
        Groups(names, others)
    assert len(Groups(("a",), others=True)) == 2


def batch(groups) -> pa.RecordBatch:
    rows = len(groups)
    return pa.record_batch({"a": [0] * rows, "b": [1] * rows, "y": [1] * rows, "language": groups})


def test_rows_of_no_listed_group_are_set_aside_or_count_in_the_whole() -> None:
    rows = batch(["en", "fr", None, "de"])
    catalogue = Catalogue.of_count(3)
    found = encode_comparisons(rows, COLUMNS, catalogue, None, groups=Groups(("en", "de")))
    assert found.rows.group.tolist() == [0, 1]
    assert found.rejects["reason"].to_pylist() == ["group is not one of groups.values"] * 2
    found = encode_comparisons(rows, COLUMNS, catalogue, None, groups=Groups(("en", "de"), True))
    assert found.rows.group.tolist() == [0, 2, 2, 1]
    assert found.rejects is None


def test_a_missing_column_is_told_by_its_key() -> None:
    schema = pa.schema({"a": pa.int64(), "b": pa.int64(), "y": pa.int64(), "lang": pa.string()})
    with pytest.raises(InputError, match=r"column language not found.*Set groups\.column: lang\."):
        check_schema("votes.parquet", schema, COLUMNS)
    floats = pa.schema([*(f for f in schema if f.name != "lang"), ("language", pa.float64())])
    with pytest.raises(InputError, match=r"column language \(groups\.column\) has type double"):
        check_schema("votes.parquet", floats, COLUMNS)


def rows_of(user, group, outcome=None, event=None) -> Comparisons:
    count = len(user)
    return Comparisons(
        np.zeros(count, np.int32),
        np.arange(count, dtype=np.int32) % 4 + 1,
        np.ones(count, np.int8) if outcome is None else np.array(outcome, np.int8),
        HASH.of_integers(np.array(user, np.int64)),
        None if event is None else HASH.of_integers(np.array(event, np.int64)),
        np.array(group, np.int16),
    )


def test_bounds_hold_across_groups_and_large_buckets_give_the_same() -> None:
    random = np.random.default_rng(0)
    rows = rows_of(random.integers(3, size=300), random.integers(5, size=300))
    owned = own(rows, Ties.DROP, HASH)
    bounds = Bounds(n_items=5, ties=Ties.DROP, max_contributions=4, carried=Carried.GROUPS)
    for distinct in (False, True):
        limits = replace(bounds, distinct_pairs=distinct)
        kept = bound_bucket(owned, limits, HASH).kept
        assert len(kept) == 3 * 4
        if distinct:  # 4 pairs: one row on each, whatever its group
            assert np.bincount(kept.right).tolist()[1:] == [3] * 4
        parts = bound_heavy_users(lambda: [owned], len(owned), limits, HASH, 50)
        again = [part.kept for part in parts]
        cells = [
            sorted(zip(each.right.tolist(), each.group.tolist(), strict=True)) for each in again
        ]
        assert sorted(cell for part in cells for cell in part) == sorted(
            zip(kept.right.tolist(), kept.group.tolist(), strict=True)
        )


def test_copies_of_an_event_in_two_groups_contradict_each_other() -> None:
    rows = rows_of([1] * 5, [0, 0, 0, 0, 0], event=[7] * 5)
    same = Comparisons(rows.left, np.ones(5, np.int32), rows.outcome, rows.user, rows.event,
                       np.array([2, 2, 2, 2, 2], np.int16))  # fmt: skip
    bounds = Bounds(n_items=5, ties=Ties.DROP, max_contributions=4, carried=Carried.GROUPS)
    found = bound_bucket(own(same, Ties.DROP, HASH, np.arange(5)), bounds, HASH)
    assert found.kept.group.tolist() == [2]
    other = Comparisons(same.left, same.right, same.outcome, same.user, same.event,
                        np.array([2, 2, 1, 2, 2], np.int16))  # fmt: skip
    found = bound_bucket(own(other, Ties.DROP, HASH, np.arange(5)), bounds, HASH)
    assert len(found.kept) == 0
    assert len(found.conflicts) == 5


@pytest.mark.parametrize("combine", [WinCountsFn, PairCountsFn])
@pytest.mark.parametrize("ties", [Ties.DROP, Ties.SPLIT])
def test_counts_of_groups_are_those_of_their_rows(combine, ties) -> None:
    random = np.random.default_rng(1)
    left, right = random.integers(5, size=(2, 400))
    apart = left != right
    rows = Comparisons(
        left[apart].astype(np.int32),
        right[apart].astype(np.int32),
        random.integers(-1, 2, size=400)[apart].astype(np.int8),
        group=random.integers(3, size=400)[apart].astype(np.int16),
    )
    together = combine(5, ties, 3)
    counts = together.add_input(together.create_accumulator(), rows)
    for group in range(3):
        mine = rows.take(rows.group == group)
        alone = combine(5, ties)
        expected = alone.add_input(
            alone.create_accumulator(), Comparisons(mine.left, mine.right, mine.outcome)
        )
        assert np.array_equal(counts[group], expected)
