"""`hushrank privatize` from the command line.

False-positive rate of each statistical assertion: 1e-6.
"""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from hushrank.privacy.local_source import privatize_answer
from tests.statistics import FALSE_POSITIVE_RATE, binomial_p_value

M = 40_000


def write(path, **columns) -> pa.Table:
    table = pa.table(columns)
    if path.suffix == ".csv":
        pyarrow.csv.write_csv(table, path)
    else:
        pq.write_table(table, path)
    return table


def read(path) -> pa.Table:
    return pyarrow.csv.read_csv(path) if path.suffix == ".csv" else pq.read_table(path)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_the_file_has_the_law_of_the_function_for_the_source(tmp_path, command, ending):
    source, out = tmp_path / f"answers.{ending}", tmp_path / f"private.{ending}"
    write(source, user=np.arange(M), left=["Rome"] * M, right=["Oslo"] * M, outcome=[1] * M)
    code, printed = command("privatize", source, "--out", out, "--epsilon", 1)
    assert code == 0, printed
    private = read(out)
    assert private.column_names == ["left", "right", "outcome", "epsilon"]
    assert set(private["epsilon"].to_pylist()) == {1.0}
    # Items in canonical order: Oslo stands left, so that Rome, who always won, gives -1.
    assert set(private["left"].to_pylist()) == {"Oslo"}
    in_file = sum(outcome == 1 for outcome in private["outcome"].to_pylist())
    at_source = sum(privatize_answer(1, 1.0) == 0 for _ in range(M))
    for flips in (in_file, at_source):
        assert binomial_p_value(flips, M, 1 / (1 + math.e)) > FALSE_POSITIVE_RATE
        assert binomial_p_value(flips, M, 1 / (1 + math.exp(1.2))) < FALSE_POSITIVE_RATE


def test_a_winner_by_name_and_an_epsilon_of_a_person(tmp_path, command):
    source, out = tmp_path / "answers.csv", tmp_path / "private.csv"
    write(
        source,
        who=["ann", "ann", "bob", "cid"],
        a=["Rome", "Oslo", "Rome", "Rome"],
        b=["Oslo", "Bern", "Bern", "Oslo"],
        pick=["Rome", "tie", "Bern", "Paris"],
    )
    (tmp_path / "eps.csv").write_text("user,epsilon\nann,2\nbob,3\ncid,1\n")
    code, printed = command(
        "privatize", source, "--out", out, "--left", "a", "--right", "b", "--winner", "pick",
        "--user", "who", "--epsilon-table", tmp_path / "eps.csv", "--epsilon-range", 1, 3,
        "--budget", "per_user",
    )  # fmt: skip
    assert code == 0, printed
    assert "Left out: rows with winner is neither of the two items." in printed
    private = read(out)
    assert private.column_names == ["a", "b", "outcome", "epsilon"]
    assert sorted(private["epsilon"].to_pylist()) == pytest.approx([1, 1, 3])
    assert sum(private["epsilon"].to_pylist()[:2]) <= 4
    assert set(private["outcome"].to_pylist()) <= {-1, 1}
    text = out.read_text()
    assert not any(name in text for name in ("ann", "bob", "cid", "who"))


def test_rows_come_in_random_order(tmp_path, command):
    source, out = tmp_path / "answers.parquet", tmp_path / "private.parquet"
    items = np.arange(1, 1001)
    write(source, left=np.zeros(1000, np.int64), right=items, outcome=[1] * 1000)
    code, printed = command("privatize", source, "--out", out, "--epsilon", 1)
    assert code == 0, printed
    right = read(out)["right"].to_numpy()
    # A random order has 1 row in its place in mean; more than 20 have a chance below 1e-18.
    named = np.where(read(out)["left"].to_numpy() == 0, right, read(out)["left"].to_numpy())
    assert sorted(named) == items.tolist()
    assert (named == items).sum() < 20


MISTAKES = [
    (
        (),
        "Give exactly one of --epsilon, --epsilon-column and --epsilon-table.",
    ),
    (
        ("--epsilon-column", "eps"),
        "Epsilons from a column or table need bounds: add for example --epsilon-range 0.1 5.",
    ),
    (
        ("--epsilon", 1, "--budget", "per_year"),
        "--budget must be per_comparison or per_user, got 'per_year'",
    ),
    (
        ("--epsilon", -1),
        "--epsilon or --epsilon-range: need 0 < low <= high < inf, got -1.0 and -1.0",
    ),
    (
        ("--epsilon", 1, "--outcome", "o", "--winner", "w"),
        "Give one of --outcome and --winner, not both.",
    ),
]


@pytest.mark.parametrize(("arguments", "message"), MISTAKES)
def test_mistakes_are_named_and_nothing_is_written(tmp_path, command, arguments, message):
    source, out = tmp_path / "answers.csv", tmp_path / "private.csv"
    write(source, left=["a"], right=["b"], outcome=[1])
    code, printed = command("privatize", source, "--out", out, *arguments)
    assert (code, printed.strip()) == (2, message)
    assert not out.exists()


def test_files_are_checked(tmp_path, command):
    source, out = tmp_path / "answers.csv", tmp_path / "private.csv"
    write(source, left=["a"], right=["b"], result=[1])
    code, printed = command("privatize", source, "--out", out, "--epsilon", 1)
    assert code == 2
    assert "column outcome not found in the first line. No message shows that line" in printed
    write(source, left=["a"], right=["b"], outcome=[1])
    out.write_text("mine")
    code, printed = command("privatize", source, "--out", out, "--epsilon", 1)
    assert (code, printed.strip()) == (2, f"{out} exists already; name a new file.")
    assert out.read_text() == "mine"
    code, printed = command("privatize", source, "--out", tmp_path / "x.txt", "--epsilon", 1)
    assert code == 2
    assert "--out must end in .parquet, .pq, .csv, .jsonl, .ndjson" in printed
