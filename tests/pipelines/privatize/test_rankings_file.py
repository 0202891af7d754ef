"""Files of private synthetic rankings: their law, what they hold, and what they do not.

False-positive rate of each statistical assertion: 1e-6.
"""

from __future__ import annotations

import math
from collections import Counter
from itertools import combinations, permutations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from scipy.stats import chisquare

from hushrank.pipelines.privatize import rankings_file as pipeline
from hushrank.pipelines.privatize.rankings_file import PrivateForm, privatize_ranking_file
from hushrank.privacy.randomness import RandomBits, system_bits
from hushrank.transforms.common.epsilons import EpsilonSource
from hushrank.transforms.common.randomisation import RankingMechanism
from hushrank.transforms.common.schema import InputError
from hushrank.transforms.rankings.ranking_columns import ListColumns, RankColumns
from hushrank.transforms.storage.files import FileFormat, list_files
from tests.statistics import FALSE_POSITIVE_RATE

LONG = RankColumns(user="user", item="item", rank="rank")
LISTS = ListColumns(ranking="ranking")
EXACT = 2000.0  # at this epsilon a synthetic ranking of a few items is the true one


def private_file(
    folder: Path,
    table: pa.Table | Path,
    columns: RankColumns | ListColumns,
    epsilon: float | EpsilonSource = EXACT,
    *,
    out: str = "private.parquet",
    bits: RandomBits | None = None,
    **form: Any,
) -> tuple[pa.Table, tuple[str, ...]]:
    """The new file's rows, and why rows of the old one were left out."""
    path = table
    if isinstance(table, pa.Table):
        path = folder / "rankings.parquet"
        pq.write_table(table, path)
    target = folder / out
    lists = columns.ranking if isinstance(columns, ListColumns) else None
    chosen = {"mechanism": RankingMechanism.MALLOWS, "break_ties": False, "as_lists": lists} | form
    if isinstance(epsilon, float | int):
        epsilon = EpsilonSource(low=epsilon, high=epsilon, value=epsilon)
    kind = FileFormat.CSV if target.suffix == ".csv" else FileFormat.PARQUET
    reasons = privatize_ranking_file(
        list_files([str(path)])[0], target, kind, columns, epsilon,
        PrivateForm(**chosen), bits or system_bits(),
    )  # fmt: skip
    read = pacsv.read_csv if kind is FileFormat.CSV else pq.read_table
    return read(target), reasons


def long_table(rankings: list[list[Any]], **columns: list[Any]) -> pa.Table:
    """Rows of ranked items in a scattered order; `columns` hold a value for each ranking."""
    lengths = [len(ranking) for ranking in rankings]
    rows = np.random.default_rng(3).permutation(sum(lengths))
    made = {
        "user": np.repeat(np.arange(len(rankings)) + 100, lengths),
        "item": [item for ranking in rankings for item in ranking],
        "rank": [place for length in lengths for place in range(1, length + 1)],
    } | {name: np.repeat(np.array(values), lengths) for name, values in columns.items()}
    return pa.table(made).take(rows)


def by_number(rows: pa.Table) -> dict[int, list[Any]]:
    found: dict[int, dict[int, Any]] = {}
    for row in rows.to_pylist():
        found.setdefault(row["user"], {})[row["rank"]] = row["item"]
    return {user: [ranks[k + 1] for k in range(len(ranks))] for user, ranks in found.items()}


def p_value(rankings: list[tuple[str, ...]], epsilon: float) -> float:
    """Chi-square against the Mallows law around the order a, b, c."""
    orders = list(permutations("abc"))
    agree = [
        sum(order.index(x) < order.index(y) for x, y in combinations("abc", 2)) for order in orders
    ]
    weight = np.exp(epsilon / 2 * np.array(agree))
    count = Counter(rankings)
    observed = [count[order] for order in orders]
    return float(chisquare(observed, weight / weight.sum() * len(rankings)).pvalue)


@pytest.mark.parametrize("form", ["long", "list"])
def test_the_rankings_have_the_law_of_the_mechanism(tmp_path, form) -> None:
    n, epsilon = 30_000, 1.5
    if form == "long":
        rows, _ = private_file(tmp_path, long_table([list("abc")] * n), LONG, epsilon)
        found = [tuple(ranking) for ranking in by_number(rows).values()]
    else:
        rows, _ = private_file(tmp_path, pa.table({"ranking": [list("abc")] * n}), LISTS, epsilon)
        found = [tuple(ranking) for ranking in rows["ranking"].to_pylist()]
    assert len(found) == n
    assert set(rows["epsilon"].to_pylist()) == {epsilon}
    assert p_value(found, epsilon) > FALSE_POSITIVE_RATE
    for wrong in (0.8 * epsilon, 1.2 * epsilon, 3 * epsilon):
        assert p_value(found, wrong) < FALSE_POSITIVE_RATE


RANKINGS = [list(order) for order in permutations("abcd", 3)] * 30 + [["a"], ["d", "b"]]


@pytest.mark.parametrize("slices", [1, 40])
def test_long_rows_come_back_as_long_rows_in_random_order(tmp_path, monkeypatch, slices) -> None:
    table = long_table(RANKINGS)
    monkeypatch.setattr(pipeline, "SLICE_ITEMS", len(table) // slices)
    rows, reasons = private_file(tmp_path, table, LONG)
    assert reasons == ()
    assert rows.column_names == ["user", "item", "rank", "epsilon"]
    found = by_number(rows)
    assert list(found) == list(range(1, len(RANKINGS) + 1))  # numbers that mean nothing
    assert Counter(map(tuple, found.values())) == Counter(map(tuple, RANKINGS))
    same = sum(own == true for own, true in zip(found.values(), RANKINGS, strict=True))
    assert same < 120  # about 31 of 722 by chance, and 722 if the order were kept
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "private.parquet",
        "rankings.parquet",
    ]


@pytest.mark.parametrize("slices", [1, 40])
def test_lists_come_back_as_lists_in_random_order(tmp_path, monkeypatch, slices) -> None:
    monkeypatch.setattr(pipeline, "SLICE_LISTS", len(RANKINGS) // slices)
    table = pa.table({"who": ["ann"] * len(RANKINGS), "order": RANKINGS})
    rows, reasons = private_file(tmp_path, table, ListColumns(ranking="order"))
    assert reasons == ()
    assert rows.column_names == ["order", "epsilon"]
    found = rows["order"].to_pylist()
    assert Counter(map(tuple, found)) == Counter(map(tuple, RANKINGS))
    assert sum(own == true for own, true in zip(found, RANKINGS, strict=True)) < 120


def test_items_keep_their_type(tmp_path) -> None:
    numbers = [[30, 7, 100], [100, 30, 7]]
    rows, _ = private_file(tmp_path, long_table(numbers), LONG)
    assert rows.schema.field("item").type == pa.int64()
    assert sorted(by_number(rows).values()) == sorted(numbers)
    rows, _ = private_file(tmp_path, pa.table({"ranking": numbers}), LISTS, out="lists.parquet")
    assert sorted(rows["ranking"].to_pylist()) == sorted(numbers)


def test_contests_of_one_person_are_rankings_of_their_own(tmp_path) -> None:
    table = pa.concat_tables(
        [
            long_table([["a", "b"], ["b", "a"]], contest=[2001, 2001]),
            long_table([["c", "a"], ["a", "c"], ["c", "a"]], contest=[2002] * 3),
        ]
    )
    columns = RankColumns(user="user", item="item", rank="rank", contest="contest")
    rows, _ = private_file(tmp_path, table, columns)
    assert rows.column_names == ["user", "item", "rank", "contest", "epsilon"]
    contests = {row["user"]: row["contest"] for row in rows.to_pylist()}
    assert Counter(contests.values()) == {2001: 2, 2002: 3}
    found = Counter((contests[user], *ranking) for user, ranking in by_number(rows).items())
    assert found == {
        (2001, "a", "b"): 1, (2001, "b", "a"): 1, (2002, "c", "a"): 2, (2002, "a", "c"): 1,
    }  # fmt: skip


def test_each_ranking_has_the_epsilon_of_its_row_or_person(tmp_path) -> None:
    rankings, own = [list("ab")] * 3000, [0.5, 1.0, EXACT] * 1000
    columns = RankColumns(user="user", item="item", rank="rank", epsilon="eps")
    bounds = EpsilonSource(low=0.5, high=EXACT)
    rows, _ = private_file(tmp_path, long_table(rankings, eps=own), columns, bounds)
    epsilon = {row["user"]: row["eps"] for row in rows.to_pylist()}
    assert Counter(epsilon.values()) == {0.5: 1000, 1.0: 1000, EXACT: 1000}
    kept = Counter(epsilon[user] for user, ranking in by_number(rows).items() if ranking[0] == "a")
    assert kept[EXACT] == 1000
    # e^0.5 / (1 + e^0.5) = 0.622 of 1000, standard error 0.015: five of them
    assert abs(kept[0.5] / 1000 - 0.622) < 0.077
    assert abs(kept[1.0] / 1000 - 0.731) < 0.070
    lists = pa.table({"user": [f"p{k}" for k in range(4)], "ranking": [list("ab")] * 4})
    (tmp_path / "eps.csv").write_text("user,epsilon\np0,1\np1,2\np2,9\n")
    source = EpsilonSource(low=1, high=5, table=str(tmp_path / "eps.csv"))
    rows, reasons = private_file(
        tmp_path, lists, ListColumns(ranking="ranking", user="user"), source, out="own.parquet"
    )
    assert rows.column_names == ["ranking", "epsilon"]
    assert sorted(rows["epsilon"].to_pylist()) == [1, 2]
    assert reasons == ("epsilon is outside epsilon_range", "user is not in the table of epsilons")


def test_ties_are_left_out_or_broken_by_a_fair_coin(tmp_path) -> None:
    n = 4000
    tied = pa.table(
        {"user": np.repeat(np.arange(n) + 1000, 2), "item": ["a", "b"] * n, "rank": [1] * (2 * n)}
    )
    rows, _ = private_file(tmp_path, tied, LONG, break_ties=True)
    first = sum(ranking[0] == "a" for ranking in by_number(rows).values())
    assert abs(first - n / 2) < 5 * math.sqrt(n) / 2  # 6e-7
    with pytest.raises(InputError, match=r"no row is a ranking. Nothing was written."):
        private_file(tmp_path, tied, LONG, out="none.parquet")
    assert not (tmp_path / "none.parquet").exists()
    one = pa.concat_tables([tied, long_table([["b", "a"]])])
    rows, reasons = private_file(tmp_path, one, LONG, out="one.parquet")
    assert by_number(rows) == {1: ["b", "a"]}
    assert reasons == ("the ranking puts two items at the same rank",)


def test_a_preflib_file_becomes_lists(tmp_path) -> None:
    path = tmp_path / "board.toi"
    path.write_text(
        "# NUMBER VOTERS: 5\n# NUMBER ALTERNATIVES: 2\n"
        "# ALTERNATIVE NAME 1: x\n# ALTERNATIVE NAME 2: y\n3: 2,1\n2: 1\n"
    )
    rows, _ = private_file(tmp_path, path, LONG, as_lists="ranking")
    assert rows.column_names == ["ranking", "epsilon"]
    assert Counter(map(tuple, rows["ranking"].to_pylist())) == {("y", "x"): 3, ("x",): 2}


def test_csv_in_csv_out_with_bad_rows_named_by_their_rule(tmp_path) -> None:
    path = tmp_path / "rankings.csv"
    path.write_text(
        "user,item,rank\n1,a,1\n1,b,2\n2,a,1\n2,a,2\n3,,1\n3,b,x\n4,b,2\n4,a,5\nhalf a row\n"
    )
    rows, reasons = private_file(tmp_path, path, LONG, out="private.csv")
    assert sorted(by_number(rows).values()) == [["a", "b"], ["b", "a"]]
    assert reasons == (
        "not a row of this format",
        "null item",
        "rank is not a number",
        "the ranking holds an item twice",
    )


def test_laplace_ranks_give_the_same_items(tmp_path) -> None:
    mechanism = RankingMechanism.LAPLACE_RANKS
    rows, _ = private_file(tmp_path, long_table(RANKINGS), LONG, 1.0, mechanism=mechanism)
    found = by_number(rows)
    assert Counter(frozenset(ranking) for ranking in found.values()) == Counter(
        map(frozenset, RANKINGS)
    )
    assert Counter(map(tuple, found.values())) != Counter(map(tuple, RANKINGS))


def test_nothing_is_overwritten_or_left_half_written(tmp_path, monkeypatch) -> None:
    (tmp_path / "private.parquet").write_text("mine")
    table = long_table(RANKINGS)
    with pytest.raises(FileExistsError):
        private_file(tmp_path, table, LONG)
    assert (tmp_path / "private.parquet").read_text() == "mine"

    monkeypatch.setattr(pipeline, "SLICE_ITEMS", 100)
    drawn = []

    def fails_later(rankings, mechanism, bits):
        drawn.append(rankings)
        if len(drawn) > 3:
            raise KeyboardInterrupt
        return real(rankings, mechanism, bits)

    real = pipeline.randomize_rankings
    monkeypatch.setattr(pipeline, "randomize_rankings", fails_later)
    with pytest.raises(KeyboardInterrupt):
        private_file(tmp_path, table, LONG, out="other.parquet")
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == ["private.parquet", "rankings.parquet"]
