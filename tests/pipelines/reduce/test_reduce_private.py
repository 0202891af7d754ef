"""The pipeline of privatised answers: sums, sharding, who meets, and what is left behind."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from hushrank.estimation.fit.presentation import OrderSums
from hushrank.estimation.fit.weighted_pairs import weighted_pairs_of, weighted_sums
from hushrank.pipelines.reduce import reduce, reduce_private
from hushrank.pipelines.reduce.private_job import ReduceAnswers
from hushrank.privacy.keyed_hash import SecretKey
from hushrank.privacy.randomized_response import attenuation, epsilon_of_answer, flip_thresholds
from hushrank.privacy.randomness import BitSource
from hushrank.transforms.common.catalogue import Catalogue
from hushrank.transforms.common.epsilons import AnswerBudget, AnswerColumns, EpsilonSource
from hushrank.transforms.common.randomisation import Randomisation
from hushrank.transforms.common.schema import InputError, Ties
from hushrank.transforms.storage.files import list_files

N_ITEMS, N_ROWS = 6, 3000


def a_log(seed=1) -> pa.Table:
    rng = np.random.default_rng(seed)
    a = rng.integers(0, N_ITEMS, N_ROWS)
    b = (a + rng.integers(1, N_ITEMS, N_ROWS)) % N_ITEMS
    outcome = rng.choice([-1, 1], N_ROWS).astype(np.int8)
    who = rng.integers(0, 100, N_ROWS) ** 2 // 100
    return pa.table({"who": who, "a": a, "b": b, "y": outcome, "eps": rng.uniform(0.5, 4, N_ROWS)})


def a_job(folder: Path, work: Path, budget=None, user=None, **changes) -> ReduceAnswers:
    budget = budget or AnswerBudget()
    columns = {"left": "a", "right": "b", "outcome": "y", "winner": None, "event": None}
    defaults = {
        "columns": AnswerColumns(**columns, user="who" if budget.meet else user, epsilon="eps"),
        "ties": Ties.RANDOM,
        "epsilons": EpsilonSource(low=0.1, high=5.0),
        "randomisation": Randomisation.WEIGHTED,
        "already_private": False,
    }
    return ReduceAnswers(
        files=tuple(list_files([str(folder)])),
        catalogue=Catalogue.of_count(N_ITEMS),
        budget=budget,
        key=SecretKey(bytes(range(32)), BitSource.SEEDED),
        confidential=str(work),
        **(defaults | changes),
    )


def sums_of(folder: Path, work: Path, **changes) -> dict[str, np.ndarray]:
    reduce.run(a_job(folder, work, **changes))
    with np.load(work / "exact.npz") as stored:
        return dict(stored)


def write(
    log: pa.Table, folder: Path, files: int = 1, row_group: int = 10_000, csv: bool = False
) -> Path:
    """The same rows in another order, cut into files and row groups; with `csv` the last is one."""
    folder.mkdir()
    order = np.random.default_rng(files).permutation(len(log))
    for number, rows in enumerate(np.array_split(order, files)):
        part = log.take(rows)
        if csv and number == files - 1:
            pyarrow.csv.write_csv(part, folder / f"{number}.csv")
        else:
            pq.write_table(part, folder / f"{number}.parquet", row_group_size=row_group)
    return folder


def expected_sums(log: pa.Table) -> np.ndarray:
    a, b, y, eps = (log[name].to_numpy() for name in ("a", "b", "y", "eps"))
    cell = np.minimum(a, b) * N_ITEMS + np.maximum(a, b)
    low_won = ((y > 0) == (a < b)).astype(np.uint8)
    return weighted_sums(cell, low_won, eps, N_ITEMS)


@pytest.mark.parametrize("budget", [AnswerBudget(), AnswerBudget(max_contributions=20)])
def test_privatised_answers_give_the_same_sums_for_any_sharding(tmp_path, budget):
    log = a_log()
    args = {"already_private": True, "ties": Ties.DROP, "budget": budget}
    one = sums_of(write(log, tmp_path / "one"), tmp_path / "w1", **args)
    many = sums_of(
        write(log, tmp_path / "many", 5, 97, csv=not budget.meet), tmp_path / "w2", **args
    )
    for name in ("s", "w", "g"):
        np.testing.assert_array_equal(one[name], many[name])
    if not budget.meet:
        np.testing.assert_array_equal(np.stack([one["s"], one["w"]]), expected_sums(log))


def test_sums_of_the_order_are_the_same_for_any_sharding_and_those_of_all_people(tmp_path):
    """Answers of 100 people, none of whom gives more than count; of a third j was shown first."""
    log = a_log()
    other = np.random.default_rng(2).random(N_ROWS) < 1 / 3
    first = np.where(other, log["b"].to_numpy(), log["a"].to_numpy())
    first[:7] = 99  # neither of the two items: set aside
    log = log.append_column("first", pa.array(first))
    columns = AnswerColumns(
        left="a",
        right="b",
        outcome="y",
        winner=None,
        user="who",
        event=None,
        epsilon="eps",
        first="first",
    )
    most = AnswerBudget(max_contributions=N_ROWS)
    args = {"already_private": True, "ties": Ties.DROP, "budget": most, "columns": columns}
    one = sums_of(write(log, tmp_path / "one"), tmp_path / "w1", **args)
    many = sums_of(write(log, tmp_path / "many", 5, 97), tmp_path / "w2", **args)
    np.testing.assert_array_equal(one["order"], many["order"])
    found = OrderSums.of_row(one["order"], N_ITEMS)
    kept = {name: log[name].to_numpy()[7:] for name in log.column_names}
    second = kept["a"] + kept["b"] - kept["first"]
    shown = np.zeros((N_ITEMS, N_ITEMS), int)
    np.add.at(shown, (kept["first"], second), 1)
    np.testing.assert_array_equal(found.shown, shown)
    t = np.tanh(kept["eps"] / 2)
    u = t * np.where((kept["y"] > 0) == (kept["first"] == kept["a"]), 1, -1)
    mine = [np.bincount(kept["who"], each, 100) for each in (u, t**2)]
    own = [np.bincount(kept["who"], each, 100) for each in (u * u, u * t**2, t**4)]
    pairs = (mine[0] ** 2 - own[0], mine[0] * mine[1] - own[1], mine[1] ** 2 - own[2])
    expected = [each.sum() for each in (*mine, *pairs)]
    units = np.array([2.0**30] * 2 + [2.0**24] * 3)
    np.testing.assert_allclose(found.parts.sum(axis=0) / units, expected, rtol=1e-6, atol=1e-5)
    assert found.parts[:, 1].sum() == one["w"].sum()


@pytest.mark.parametrize("budget", [AnswerBudget(), AnswerBudget(max_contributions=20)])
def test_sums_of_many_items_are_those_of_the_matrices(tmp_path, monkeypatch, budget):
    args = {"already_private": True, "ties": Ties.DROP, "budget": budget}
    folder = write(a_log(), tmp_path / "log", 3, 500)
    dense = sums_of(folder, tmp_path / "w1", **args)
    monkeypatch.setattr(reduce_private, "MOST_DENSE_ITEMS", N_ITEMS - 1)
    sparse = sums_of(folder, tmp_path / "w2", **args)
    assert sorted(sparse) == ["alike", "chosen", "columns", "g", "row_ends", "s", "w"]
    np.testing.assert_array_equal(sparse["chosen"], dense["chosen"])
    pairs = weighted_pairs_of(sparse)
    np.testing.assert_array_equal(pairs.s.toarray(), dense["s"])
    np.testing.assert_array_equal(pairs.w.toarray(), dense["w"])
    np.testing.assert_array_equal(pairs.alike, dense["alike"][:, dense["w"] > 0])
    assert pairs.g == dense["g"]


def test_true_answers_are_randomised_and_the_weights_are_not(tmp_path):
    log = a_log()
    folder = write(log, tmp_path / "log")
    first, second = (sums_of(folder, tmp_path / name) for name in ("w1", "w2"))
    true_s, true_w = expected_sums(log)
    np.testing.assert_array_equal(first["w"], true_w)
    np.testing.assert_array_equal(first["w"], second["w"])
    assert (first["s"] != second["s"]).any()
    assert (first["s"] != true_s).any()


def test_sums_are_unbiased_through_the_pipeline(tmp_path):
    """Every answer says that item 0 won: S estimates W, within 6 standard errors (2e-9)."""
    m = 200_000
    zeros, ones = np.zeros(m, np.int64), np.ones(m, np.int64)
    log = pa.table({"a": zeros, "b": ones, "y": ones, "eps": np.full(m, 1.0)})
    sums = sums_of(write(log, tmp_path / "log"), tmp_path / "work")
    t = attenuation(flip_thresholds(np.array([1.0])))[0]
    s, w = sums["s"][0, 1] / 2**30, sums["w"][0, 1] / 2**30
    assert w == pytest.approx(m * t**2, rel=1e-6)
    error = t * np.sqrt(m * 0.25 * (1 - t**2))
    assert abs(s - w) < 6 * error
    # The same with flips at epsilon 0.9 instead: found.
    other = attenuation(flip_thresholds(np.array([0.9])))[0]
    assert abs(t * m * (other - t) / 2) > 6 * error


def test_per_user_shares_an_epsilon_among_all_answers_of_a_person(tmp_path):
    log = a_log()
    log = log.set_column(4, "eps", pa.array(np.full(N_ROWS, 2.0)))
    sums = sums_of(
        write(log, tmp_path / "log", 3, 50), tmp_path / "work", budget=AnswerBudget(per_user=True)
    )
    who = log["who"].to_numpy()
    share = epsilon_of_answer(np.full(N_ROWS, 2.0), np.bincount(who)[who])
    expected = expected_sums(log.set_column(4, "eps", pa.array(share)))
    np.testing.assert_array_equal(sums["w"], expected[1])
    assert 0 < sums["g"] < sums["w"].sum()


def test_a_table_of_epsilons_by_person(tmp_path):
    log = a_log()
    people = np.unique(log["who"].to_numpy())
    table = tmp_path / "epsilons.csv"
    lines = [f"{person},{0.5 + person % 3}" for person in people if person != 0]
    table.write_text("\n".join(["user,epsilon", *lines]))
    columns = AnswerColumns(
        left="a", right="b", outcome="y", winner=None, user="who", event=None, epsilon=None
    )
    epsilons = EpsilonSource(low=0.1, high=5.0, table=str(table))
    folder = write(log.drop_columns(["eps"]), tmp_path / "log")
    work = tmp_path / "work"
    sums = sums_of(folder, work, columns=columns, epsilons=epsilons)
    who = log["who"].to_numpy()
    named = log.set_column(4, "eps", pa.array(0.5 + who % 3)).filter(pa.array(who != 0))
    np.testing.assert_array_equal(sums["w"], expected_sums(named)[1])
    assert rejects_of(work)["reason"].unique().to_pylist() == [
        "user is not in the table of epsilons"
    ]


def rejects_of(work: Path) -> pa.Table:
    return pa.concat_tables([pq.read_table(path) for path in (work / "rejects").iterdir()])


def test_rows_with_a_bad_epsilon_are_set_aside_and_counted(tmp_path):
    log = a_log()
    eps = log["eps"].to_numpy().copy()
    eps[:3] = [9.0, np.nan, 0.01]
    column = pa.array(eps, mask=np.arange(N_ROWS) == 3)
    work = tmp_path / "work"
    sums = sums_of(write(log.set_column(4, "eps", column), tmp_path / "log"), work)
    np.testing.assert_array_equal(sums["w"], expected_sums(log.slice(4))[1])
    assert sorted(rejects_of(work)["reason"].to_pylist()) == [
        "epsilon is not a number",
        "epsilon is outside epsilon_range",
        "epsilon is outside epsilon_range",
        "null epsilon",
    ]
    assert json.loads((work / "diagnostics.json").read_text())["rows_rejected"] == 4


def test_bad_rows_can_stop_the_run(tmp_path):
    log = a_log()
    folder = write(log, tmp_path / "log")
    low = EpsilonSource(low=1.0, high=5.0)
    with pytest.raises(InputError, match="some rows break a rule"):
        reduce.run(a_job(folder, tmp_path / "w", epsilons=low, fail_on_bad_rows=True))


def test_nothing_is_left_behind_but_sums_tallies_and_rejects(tmp_path):
    work = tmp_path / "work"
    sums_of(write(a_log(), tmp_path / "log"), work, budget=AnswerBudget(per_user=True))
    assert sorted(path.name for path in work.iterdir()) == [
        "bits.json",
        "diagnostics.json",
        "exact.npz",
    ]


@pytest.mark.parametrize("randomisation", [Randomisation.COUNTED, Randomisation.LAPLACE])
def test_baselines_count_the_answers_of_each_pair(tmp_path, randomisation):
    log = a_log()
    log = log.set_column(4, "eps", pa.array(np.full(N_ROWS, 1.0)))
    folder = write(log, tmp_path / "log")
    sums = sums_of(folder, tmp_path / "work", randomisation=randomisation)
    a, b = log["a"].to_numpy(), log["b"].to_numpy()
    cell = np.minimum(a, b) * N_ITEMS + np.maximum(a, b)
    counted = np.bincount(cell, minlength=N_ITEMS**2).reshape(N_ITEMS, N_ITEMS)
    np.testing.assert_array_equal(sums["w"], counted << 30)
