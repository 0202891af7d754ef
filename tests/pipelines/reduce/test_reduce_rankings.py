"""The pipeline of rankings: counts, sharding, who meets, the law of what comes out."""

from __future__ import annotations

import json
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from hushrank.estimation.rankings.ranking_counts import count_rankings
from hushrank.pipelines.reduce import reduce, reduce_rankings
from hushrank.pipelines.reduce.rankings_job import ReduceRankings
from hushrank.privacy.keyed_hash import SecretKey
from hushrank.privacy.randomness import BitSource
from hushrank.transforms.common.catalogue import Catalogue
from hushrank.transforms.common.epsilons import EpsilonSource
from hushrank.transforms.common.randomisation import RankingMechanism
from hushrank.transforms.common.schema import InputError
from hushrank.transforms.rankings import pair_answers
from hushrank.transforms.rankings.ranking_columns import ListColumns, RankColumns
from hushrank.transforms.storage.files import list_files
from tests.statistics import FALSE_POSITIVE_RATE, cells_p_value

N_ITEMS, PEOPLE = 5, 400
RANKS = RankColumns(user="user", item="item", rank="rank")
LISTS = ListColumns(ranking="ranking", user="user")


def true_rankings(people: int = PEOPLE, seed: int = 1) -> list[list[int]]:
    """Rankings of 1 to all items."""
    random = np.random.default_rng(seed)
    return [
        random.permutation(N_ITEMS)[: random.integers(1, N_ITEMS + 1)].tolist()
        for _ in range(people)
    ]


def long_form(rankings: list[list[int]], users: list[int] | None = None) -> pa.Table:
    rows = [
        (f"u{user}", item, 10 * place + 3)
        for user, ranking in zip(users or range(len(rankings)), rankings, strict=True)
        for place, item in enumerate(ranking)
    ]
    columns = zip(*rows, strict=True)
    return pa.table(dict(zip(("user", "item", "rank"), columns, strict=True)))


def list_form(rankings: list[list[int]], users: list[int] | None = None) -> pa.Table:
    return pa.table({"user": users or list(range(len(rankings))), "ranking": rankings})


def a_job(folder: Path, work: Path, **changes: Any) -> ReduceRankings:
    defaults = {
        "columns": RANKS,
        "contest": None,
        "max_length": N_ITEMS,
        "max_rankings": 1,
        "break_ties": False,
        "epsilons": EpsilonSource(low=1.0, high=1.0, value=1.0),
        "mechanism": RankingMechanism.MALLOWS,
        "already_private": True,
        "by_place": True,
    }
    return ReduceRankings(
        files=tuple(list_files([str(folder)])),
        catalogue=Catalogue.of_count(N_ITEMS),
        key=SecretKey(bytes(range(32)), BitSource.SEEDED),
        confidential=str(work),
        **(defaults | changes),
    )


def reduced(folder: Path, work: Path, **changes: Any) -> dict[str, np.ndarray]:
    reduce.run(a_job(folder, work, **changes))
    with np.load(work / "exact.npz") as stored:
        return dict(stored)


def write(table: pa.Table, folder: Path, files: int = 1, row_group: int = 10_000) -> Path:
    """The same rows in another order, cut into files and row groups; of several the last is CSV."""
    folder.mkdir()
    order = np.random.default_rng(files).permutation(len(table))
    for number, rows in enumerate(np.array_split(order, files)):
        part = table.take(rows)
        if number and number == files - 1:
            pyarrow.csv.write_csv(part, folder / f"{number}.csv")
        else:
            pq.write_table(part, folder / f"{number}.parquet", row_group_size=row_group)
    return folder


def expected(rankings: list[list[int]], *, by_place: bool = True) -> dict[str, np.ndarray]:
    items = np.array([item for ranking in rankings for item in ranking])
    lengths = np.array([len(ranking) for ranking in rankings])
    return count_rankings(items, lengths, N_ITEMS, N_ITEMS, by_place=by_place).arrays()


def assert_same(found: dict[str, np.ndarray], arrays: dict[str, np.ndarray]) -> None:
    assert sorted(found) == sorted(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)


@pytest.mark.parametrize(("files", "row_group"), [(1, 10_000), (4, 97)])
def test_long_form_gives_the_same_counts_for_any_sharding(tmp_path, monkeypatch, files, row_group):
    monkeypatch.setattr(reduce_rankings, "PARTITION_ITEMS", 300)
    rankings = true_rankings()
    folder = write(long_form(rankings), tmp_path / "log", files, row_group)
    assert_same(reduced(folder, tmp_path / "work"), expected(rankings))
    tally = json.loads((tmp_path / "work" / "diagnostics.json").read_text())
    assert tally["rankings_with_owner"] == tally["rankings_kept"] == PEOPLE
    assert tally["rows_rejected"] == 0


@pytest.mark.parametrize("user", ["user", None])
def test_list_form_gives_the_same_counts(tmp_path, monkeypatch, user):
    monkeypatch.setattr(reduce_rankings, "PARTITION_ITEMS", 900)
    monkeypatch.setattr(reduce_rankings, "BLOCK_RANKINGS", 50)
    rankings = true_rankings()
    # In JSON Lines people are named by text, so in the other files too.
    users = list(map(str, range(PEOPLE)))
    folder = write(list_form(rankings, users), tmp_path / "log", row_group=97)
    lines = [json.dumps({"user": 1000 + k, "ranking": each}) for k, each in enumerate(rankings)]
    (folder / "more.jsonl").write_text("\n".join(lines))
    columns = ListColumns(ranking="ranking", user=user)
    found = reduced(folder, tmp_path / "work", columns=columns, by_place=False)
    assert_same(found, expected(rankings + rankings, by_place=False))


def test_a_person_counts_once_wherever_the_rankings_came_from(tmp_path):
    rankings, users = true_rankings(), [number % 40 for number in range(PEOPLE)]
    folder = write(list_form(rankings, users), tmp_path / "log", row_group=50)
    once = reduced(folder, tmp_path / "work", columns=LISTS)
    assert once["lengths"].sum() == 40
    thrice = reduced(folder, tmp_path / "more", columns=LISTS, max_rankings=3)
    assert thrice["lengths"].sum() == 120


def test_contests_are_rankings_of_their_own_or_chosen(tmp_path):
    rankings = true_rankings(60)
    parts = [long_form(rankings[:30]), long_form(rankings[30:])]  # the same people twice
    table = pa.concat_tables(
        part.append_column("contest", pa.array([number] * len(part)))
        for number, part in enumerate(parts)
    )
    folder = write(table, tmp_path / "log", 2)
    columns = RankColumns(user="user", item="item", rank="rank", contest="contest")
    both = reduced(folder, tmp_path / "both", columns=columns, max_rankings=2)
    assert_same(both, expected(rankings))
    one = reduced(folder, tmp_path / "one", columns=columns, contest="1")
    assert_same(one, expected(rankings[30:]))
    bounded = reduced(folder, tmp_path / "bounded", columns=columns)
    assert bounded["lengths"].sum() == 30


def test_what_breaks_a_rule_is_set_aside_with_the_reason(tmp_path):
    rows = {
        "user": [1, 1, 2, 2, 3, 3, 4, None],
        "item": [0, 1, 2, 2, 0, 9, 3, 4],
        "rank": [1, 2, 1, 2, 1, 2, None, 1],
    }
    folder = write(pa.table(rows), tmp_path / "log")
    found = reduced(folder, tmp_path / "work")
    assert_same(found, expected([[0, 1], [0]]))
    rejects = [pq.read_table(path) for path in (tmp_path / "work" / "rejects").iterdir()]
    reasons = sorted(reason for table in rejects for reason in table["reason"].to_pylist())
    assert reasons == [
        "item not in the catalogue",
        "null rank",
        "null user",
        "the ranking holds an item twice",
        "the ranking holds an item twice",
    ]
    assert "user" not in [name for table in rejects if "ranking" in table.column_names
                          for name in table.column_names]  # fmt: skip
    with pytest.raises(InputError, match="some rows break a rule"):
        reduced(folder, tmp_path / "fail", fail_on_bad_rows=True)


def law_of(epsilon: float) -> np.ndarray:
    """q^T / Z of all orders of 0, 1, 2 around the first."""
    agreed = [sum(order[a] < order[b] for a in range(3) for b in range(a + 1, 3))
              for order in permutations(range(3))]  # fmt: skip
    chance = np.exp(epsilon / 2 * np.array(agreed))
    return chance / chance.sum()


def order_counts(found: dict[str, np.ndarray]) -> np.ndarray:
    """How many private rankings of three items have each order: first and second place tell it."""
    by_place = found["by_place"][1]  # of lists of three: places 0 and 1
    return np.array([by_place[order[0], order[1]] for order in permutations(range(3))])


@pytest.mark.parametrize("columns", [RANKS, LISTS, ListColumns(ranking="ranking")])
def test_what_leaves_the_pipeline_has_the_law_of_the_mechanism(tmp_path, columns):
    people, epsilon = 20_000, 1.5
    rankings = [[0, 1, 2]] * people
    table = long_form(rankings) if columns is RANKS else list_form(rankings)
    found = reduced(
        write(table, tmp_path / "log"),
        tmp_path / "work",
        columns=columns,
        already_private=False,
        max_length=3,
        epsilons=EpsilonSource(low=epsilon, high=epsilon, value=epsilon),
    )
    counts = order_counts(found)
    assert counts.sum() == people
    assert cells_p_value(counts, law_of(epsilon)) > FALSE_POSITIVE_RATE
    assert cells_p_value(counts, law_of(1.25 * epsilon)) < FALSE_POSITIVE_RATE
    assert cells_p_value(counts, law_of(0.75 * epsilon)) < FALSE_POSITIVE_RATE


def test_a_pipeline_that_does_not_privatise_is_caught(tmp_path, monkeypatch):
    """The planted bug: rankings pass as they are. The test of the law rejects it outright."""
    monkeypatch.setattr(
        pair_answers, "synthetic_rankings", lambda items, lengths, epsilon, bits: items.copy()
    )
    rankings = [[0, 1, 2]] * 2_000
    found = reduced(
        write(list_form(rankings), tmp_path / "log"),
        tmp_path / "work",
        columns=LISTS,
        already_private=False,
        max_length=3,
    )
    assert cells_p_value(order_counts(found), law_of(1.0)) < FALSE_POSITIVE_RATE


def test_an_epsilon_of_each_person_is_used(tmp_path):
    people = 600
    table = list_form([[0, 1, 2]] * people)
    epsilons = np.where(np.arange(people) < 300, 500.0, 1e-4)
    table = table.append_column("epsilon", pa.array(epsilons))
    columns = ListColumns(ranking="ranking", user="user", epsilon="epsilon")
    source = EpsilonSource(low=1e-4, high=500.0)
    found = reduced(
        write(table, tmp_path / "log"),
        tmp_path / "work",
        columns=columns,
        already_private=False,
        max_length=3,
        epsilons=source,
    )
    # 300 keep their order; of the others 1 in 6 does: 50, and 5 sigma are 33.
    assert 300 + 17 <= order_counts(found)[0] <= 300 + 83


def test_no_rows_at_all_give_empty_counts(tmp_path):
    table = list_form([[0]]).slice(0, 0)
    found = reduced(write(table, tmp_path / "log"), tmp_path / "work", columns=LISTS)
    assert not any(array.any() for array in found.values())
