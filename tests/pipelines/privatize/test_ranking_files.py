"""What occurs in files of rankings."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hushrank.pipelines.privatize.rankings_file import occurring, rows_by_contest
from hushrank.transforms.common.schema import InputError
from hushrank.transforms.rankings.ranking_columns import ListColumns, RankColumns
from hushrank.transforms.storage.files import list_files, read_schema
from hushrank.transforms.storage.read import plan_splits


def splits_of(path, table, columns):
    pq.write_table(table, path)
    (file,) = list_files([str(path)])
    return plan_splits(file, read_schema(file, columns), columns)


def test_items_are_those_of_all_rows_and_keep_their_kind(tmp_path):
    table = pa.table(
        {"ranking": [["b", " a"], None, [], ["c", None]], "year": [2002, None, 2001, 2002]}
    )
    columns = ListColumns(ranking="ranking", contest="year")
    found = occurring(splits_of(tmp_path / "a.parquet", table, columns), columns)
    assert (found.catalogue.names, found.as_text) == (("a", "b", "c"), True)
    assert found.contest_type == pa.int64()
    table = pa.table({"user": [1, 1, 2], "item": [10, 9, None], "rank": [1, 2, 1]})
    columns = RankColumns(user="user", item="item", rank="rank")
    found = occurring(splits_of(tmp_path / "b.parquet", table, columns), columns)
    assert (found.catalogue.names, found.as_text) == (("10", "9"), False)


def test_items_and_contests_that_int64_does_not_hold_name_nothing(tmp_path):
    numbers = pa.array([1, 2, 2**63, 2**64 - 1], pa.uint64())
    table = pa.table({"user": [1] * 4, "item": numbers, "rank": range(4), "contest": numbers})
    columns = RankColumns(user="user", item="item", rank="rank", contest="contest")
    found = occurring(splits_of(tmp_path / "a.parquet", table, columns), columns)
    assert found.catalogue.names == ("1", "2")
    (batch,) = table.to_batches()
    assert [contest for contest, _ in rows_by_contest(batch, columns)] == ["1", "2"]


def test_one_item_is_no_ranking(tmp_path):
    columns = ListColumns(ranking="ranking")
    splits = splits_of(tmp_path / "a.parquet", pa.table({"ranking": [["a"], ["a"]]}), columns)
    with pytest.raises(InputError, match="fewer than two items occur"):
        occurring(splits, columns)


@pytest.mark.parametrize("contests", [["x", "y", None, " ", " y"], [2, 3, None, None, 3]])
def test_rows_come_by_contest_and_those_without_one_do_not(contests):
    rows = pa.record_batch({"ranking": [[k] for k in range(5)], "contest": contests})
    columns = ListColumns(ranking="ranking", contest="contest")
    found = [batch["ranking"].to_pylist() for _, batch in rows_by_contest(rows, columns)]
    assert found == [[[0]], [[1], [4]]]
    whole = list(rows_by_contest(rows, ListColumns(ranking="ranking")))
    assert [(contest, len(batch)) for contest, batch in whole] == [("", 5)]
