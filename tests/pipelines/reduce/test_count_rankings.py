"""True rankings counted within bounds: the same for every sharding and every retry."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from hushrank.pipelines.reduce import reduce, reduce_rankings
from hushrank.pipelines.reduce.rankings_job import CountRankings
from hushrank.privacy.keyed_hash import SecretKey
from hushrank.privacy.randomness import BitSource, Purpose
from hushrank.transforms.common.catalogue import Catalogue
from hushrank.transforms.rankings.ranking_columns import ListColumns
from hushrank.transforms.storage.files import list_files
from tests.pipelines.reduce.test_reduce_rankings import (
    LISTS,
    N_ITEMS,
    PEOPLE,
    RANKS,
    assert_same,
    expected,
    list_form,
    long_form,
    true_rankings,
    write,
)
from tests.statistics import FALSE_POSITIVE_RATE, binomial_p_value


def a_job(folder: Path, work: Path, key: int = 0, **changes: Any) -> CountRankings:
    defaults = {
        "columns": RANKS,
        "contest": None,
        "max_length": N_ITEMS,
        "max_rankings": 1,
        "break_ties": False,
    }
    return CountRankings(
        files=tuple(list_files([str(folder)])),
        catalogue=Catalogue.of_count(N_ITEMS),
        key=SecretKey(bytes([key] * 32), BitSource.SYSTEM),
        confidential=str(work),
        **(defaults | changes),
    )


def counted(folder: Path, work: Path, key: int = 0, **changes: Any) -> dict[str, np.ndarray]:
    reduce.run(a_job(folder, work, key, **changes))
    with np.load(work / "exact.npz") as stored:
        return dict(stored)


@pytest.mark.parametrize(("files", "row_group"), [(1, 10_000), (4, 97)])
def test_long_form_is_counted_exactly_for_any_sharding(tmp_path, monkeypatch, files, row_group):
    monkeypatch.setattr(reduce_rankings, "PARTITION_ITEMS", 300)
    rankings = true_rankings()
    folder = write(long_form(rankings), tmp_path / "log", files, row_group)
    assert_same(counted(folder, tmp_path / "work"), expected(rankings, by_place=False))


@pytest.mark.parametrize("user", ["user", None])
def test_list_form_is_counted_exactly(tmp_path, user):
    rankings = true_rankings()
    folder = write(list_form(rankings), tmp_path / "log", row_group=97)
    columns = ListColumns(ranking="ranking", user=user)
    found = counted(folder, tmp_path / "work", columns=columns)
    assert_same(found, expected(rankings, by_place=False))


def test_the_key_alone_decides_which_rankings_of_a_person_count(tmp_path, monkeypatch):
    rankings, users = true_rankings(), [number % 40 for number in range(PEOPLE)]
    table = list_form(rankings, users)
    found = []
    for number, (files, row_group, items) in enumerate(((1, 10_000, 10_000), (3, 31, 50))):
        monkeypatch.setattr(reduce_rankings, "PARTITION_ITEMS", items)
        monkeypatch.setattr(reduce_rankings, "CROWD", 1)  # partitions come in slices, too
        folder = tmp_path / f"log{number}"
        folder.mkdir()
        order = np.random.default_rng(number).permutation(len(table))
        for part, rows in enumerate(np.array_split(order, files)):
            pa.parquet.write_table(
                table.take(rows), folder / f"{part}.parquet", row_group_size=row_group
            )
        work = tmp_path / f"work{number}"
        found.append(counted(folder, work, columns=LISTS, max_rankings=3))
    assert found[0]["lengths"].sum() == 40 * 3
    assert_same(found[0], found[1])
    other = counted(folder, tmp_path / "other", key=1, columns=LISTS, max_rankings=3)
    assert other["lengths"].sum() == 40 * 3
    assert (other["wins"] != found[0]["wins"]).any()


def test_each_ranking_of_a_person_is_as_likely_to_count(tmp_path):
    """1 000 people rank 0 before 1 once and 1 before 0 once: half of either is kept."""
    people = 1_000
    table = list_form([[0, 1], [1, 0]] * people, [user for user in range(people) for _ in (0, 1)])
    found = counted(write(table, tmp_path / "log"), tmp_path / "work", columns=LISTS)
    assert found["lengths"].sum() == people
    assert binomial_p_value(int(found["wins"][0, 1]), people, 0.5) > FALSE_POSITIVE_RATE
    assert binomial_p_value(int(found["wins"][0, 1]), people, 0.65) < FALSE_POSITIVE_RATE


def test_ties_are_decided_by_the_key_and_evenly(tmp_path):
    people = 1_000
    table = pa.table(
        {
            "user": np.repeat(np.arange(people), 3),
            "item": np.tile([0, 1, 2], people),
            "rank": np.tile([1, 1, 2], people),
        }
    )
    folder = write(table, tmp_path / "log")
    first = counted(folder, tmp_path / "one", break_ties=True)
    assert_same(counted(folder, tmp_path / "two", break_ties=True), first)
    assert first["wins"][0, 2] == first["wins"][1, 2] == people
    assert binomial_p_value(int(first["wins"][0, 1]), people, 0.5) > FALSE_POSITIVE_RATE
    other = counted(folder, tmp_path / "three", key=1, break_ties=True)
    assert other["wins"][0, 1] != first["wins"][0, 1]  # equal with probability 1/40
    refused = counted(folder, tmp_path / "four")
    assert refused["lengths"].sum() == 0
    assert a_job(folder, tmp_path, break_ties=True).bits.covers(Purpose.COINS)
    assert not a_job(folder, tmp_path).bits.covers(Purpose.RANDOMISATION)
