"""Synthetic rankings of one person, collected from released files."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hushrank.pipelines.privatize import rankings_file as module
from hushrank.pipelines.privatize.rankings_file import collect_rankings
from hushrank.transforms.common.epsilons import EpsilonSource
from hushrank.transforms.common.schema import InputError
from hushrank.transforms.rankings.ranking_columns import ListColumns, RankColumns
from hushrank.transforms.storage.files import list_files

ONE = EpsilonSource(low=1, high=1, value=1)


def put(path, rankings):
    users = [user for user, _ in rankings]
    pq.write_table(pa.table({"user": users, "ranking": [each for _, each in rankings]}), path)
    return path


def collected(paths, person, *, user="user", epsilons=ONE):
    columns = ListColumns(ranking="ranking", user=user)
    return collect_rankings(list_files([str(path) for path in paths]), columns, person, epsilons)


def test_a_person_is_found_in_every_file_under_items_of_their_own(tmp_path):
    first = put(tmp_path / "1.parquet", [("ann", ["z", "b"]), ("bob", ["a", "b", "c"])])
    second = put(tmp_path / "2.parquet", [("bob", ["c", "b", "a"]), ("ann", ["b", "z"])])
    found = collected([first, second], "ann")
    assert found.items == ("b", "z")
    assert found.rows.tolist() == [[1, 0], [0, 1]]
    assert found.epsilon.tolist() == [1, 1]


def test_the_same_number_in_two_files_is_two_rankings(tmp_path):
    paths = []
    for name, ranks in (("1", [1, 2]), ("2", [2, 1])):
        paths.append(tmp_path / f"{name}.parquet")
        pq.write_table(pa.table({"user": [7, 7], "item": ["a", "b"], "rank": ranks}), paths[-1])
    columns = RankColumns(user="user", item="item", rank="rank")
    for person in (None, "7"):
        found = collect_rankings(list_files([str(path) for path in paths]), columns, person, ONE)
        assert sorted(found.rows.tolist()) == [[0, 1], [1, 0]]


def test_what_is_no_set_of_synthetic_rankings_is_refused(tmp_path, monkeypatch):
    path = put(tmp_path / "1.parquet", [("ann", ["a", "b"]), ("bob", ["a", "c"])])
    with pytest.raises(InputError, match="hold different items"):
        collected([path], None, user=None)
    with pytest.raises(InputError, match="no ranking of eve"):
        collected([path], "eve")
    twice = put(tmp_path / "2.parquet", [("ann", ["a", "a"]), ("ann", ["a", "b"])])
    with pytest.raises(InputError, match=r"2.parquet: the ranking holds an item twice. Correct"):
        collected([twice], "ann")
    monkeypatch.setattr(module, "MOST_RANKINGS", 1)
    with pytest.raises(InputError, match="more than 1 rankings; name a --person"):
        collected([path], None, user=None)
    text = tmp_path / "3.csv"
    text.write_text("user,item,rank\n1,a,1\n1,b,2\nhalf a row\n")
    columns = RankColumns(user="user", item="item", rank="rank")
    with pytest.raises(InputError, match=r"3.csv: not a row of this format. Correct the file."):
        collect_rankings(list_files([str(text)]), columns, None, ONE)
