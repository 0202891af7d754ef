"""`hushrank.beam` in somebody's own pipeline: what a run counts of files, bit for bit."""

from __future__ import annotations

import dataclasses
import json
import pickle
import re
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import hushrank.beam as hb
from hushrank.pipelines.engine.options import pipeline_options
from hushrank.pipelines.reduce import reduce, source
from hushrank.pipelines.reduce.reduction_job import Statistic
from hushrank.transforms.common.schema import Ties
from tests.pipelines.reduce import test_count_rankings as rankings
from tests.pipelines.reduce import test_reduce_comparisons as comparisons
from tests.pipelines.reduce import test_reduce_responses as responses
from tests.pipelines.reduce.test_reduce_rankings import list_form, true_rankings
from tests.statistics import FALSE_POSITIVE_RATE, binomial_p_value

KEY = comparisons.KEY.value
ITEMS = [str(code) for code in range(comparisons.N_ITEMS)]
BATTLES = hb.Comparisons(items=ITEMS, left="a", right="b", outcome="y", user="who", ties="split")
ANY_PLACE = pytest.mark.parametrize("form", ["dicts", "rows", "batches", "few a bundle"])


def keep(folder: Path, element: Any) -> None:
    (folder / uuid4().hex).write_bytes(pickle.dumps(element))


def found_in(folder: Path, rows: list[Any], *steps: beam.PTransform) -> list[Any]:
    """Elements that a pipeline makes of the rows."""
    folder.mkdir()
    with beam.Pipeline(options=pipeline_options()) as pipeline:
        found = pipeline | beam.Create(rows)
        for number, step in enumerate(steps):
            found = found | f"Step {number}" >> step
        _ = found | "Keep" >> beam.Map(partial(keep, folder))
    return [pickle.loads(path.read_bytes()) for path in folder.iterdir()]


def rows_in(form: str, table: pa.Table) -> list[Any]:
    """The rows of a table in another order, as elements of a form."""
    shuffled = table.take(np.random.default_rng(1).permutation(len(table)))
    if form == "batches":
        return [*shuffled.to_batches(max_chunksize=77), shuffled.slice(0, 0)]
    rows = shuffled.to_pylist()
    return [beam.Row(**row) for row in rows] if form == "rows" else rows


def by_file(job: Any) -> dict[str, np.ndarray]:
    """What a run of the reduction writes."""
    reduce.run(job)
    with np.load(Path(job.confidential) / "exact.npz") as arrays:
        return dict(arrays)


def assert_counts(found: list[Any], expected: dict[str, np.ndarray]) -> None:
    (exact,) = found
    assert sorted(exact.arrays) == sorted(expected)
    for name, array in expected.items():
        np.testing.assert_array_equal(exact.arrays[name], array)


@ANY_PLACE
@pytest.mark.parametrize(
    ("step", "statistic"),
    [(hb.CountWins, Statistic.WIN_COUNTS), (hb.CountPairs, Statistic.PAIR_COUNTS)],
)
def test_comparisons_are_counted_as_a_run_counts_files(
    tmp_path, monkeypatch, form, step, statistic
):
    log = comparisons.a_log()
    comparisons.write(log, tmp_path / "log", 3, 100, 0)
    expected = by_file(comparisons.a_job(tmp_path / "log", tmp_path / "work", statistic=statistic))
    if form == "few a bundle":
        monkeypatch.setattr(source, "BATCH_ROWS", 3)
    bounded = hb.BoundContributions(BATTLES, max_contributions=5, key=KEY)
    found = found_in(tmp_path / "found", rows_in(form, log), bounded, step(BATTLES))
    assert_counts(found, expected)
    assert found[0].items == tuple(ITEMS)


@pytest.mark.parametrize("ties", [Ties.DROP, Ties.RANDOM])
def test_all_bounds_and_ties_are_those_of_a_run(tmp_path, ties):
    log, bounds = comparisons.a_log(), {"distinct_pairs": True, "per_item_cap": 2}
    comparisons.write(log, tmp_path / "log", 1, 10_000, 0)
    job = comparisons.a_job(tmp_path / "log", tmp_path / "work", ties=ties, **bounds)
    battles = dataclasses.replace(BATTLES, ties=str(ties))
    bounded = hb.BoundContributions(battles, max_contributions=5, key=KEY, **bounds)
    steps = (bounded, hb.CountWins(battles))
    assert_counts(found_in(tmp_path / "found", rows_in("dicts", log), *steps), by_file(job))


@ANY_PLACE
def test_responses_are_measured_as_a_run_does(tmp_path, form):
    log = responses.a_log()
    job = responses.a_job(responses.write(log, tmp_path / "log"), tmp_path / "work")
    items = [str(code) for code in range(responses.N_ITEMS)]
    described = hb.Responses(items=items, user="who", correct="right")
    measured = hb.DifferentialMeasurements(described, max_answers=responses.K, key=KEY)
    assert_counts(found_in(tmp_path / "found", rows_in(form, log), measured), by_file(job))


@ANY_PLACE
def test_rankings_are_counted_as_a_run_does(tmp_path, form):
    table = list_form(true_rankings(90), [number % 20 for number in range(90)])
    folder = rankings.write(table, tmp_path / "log")
    expected = rankings.counted(folder, tmp_path / "work", columns=rankings.LISTS, max_rankings=3)
    described = hb.Rankings(items=[str(code) for code in range(rankings.N_ITEMS)])
    counted = hb.RankingCounts(described, max_rankings=3, key=bytes(32))
    assert_counts(found_in(tmp_path / "found", rows_in(form, table), counted), expected)


def test_each_answer_is_flipped_with_the_probability_of_its_epsilon(tmp_path):
    many, epsilon = 20_000, 1.0
    battles = hb.Comparisons(items=["x", "y"], winner="won")
    table = pa.table({"left": ["y"] * many, "right": ["x"] * many, "won": ["x"] * many})
    private = hb.PrivatizeAnswers(battles, epsilon=epsilon)
    found = found_in(tmp_path / "found", table.to_batches(), private)
    assert {(row.left, row.right, row.epsilon) for row in found} == {("x", "y", epsilon)}
    assert {"left", "right", "outcome", "epsilon"} == set(found[0].as_dict())
    flips = sum(row.outcome == -1 for row in found)
    assert len(found) == many
    flipped = 1 / (1 + np.exp(epsilon))
    assert binomial_p_value(flips, many, flipped) > FALSE_POSITIVE_RATE
    assert binomial_p_value(flips, many, 0.9 * flipped) < FALSE_POSITIVE_RATE


BAD = {
    "no row": 17,
    "unknown item": {"left": "x", "right": "SECRET", "won": "x", "user": 1},
    "no user": {"left": "x", "right": "y", "won": "x"},
    "another type": {"left": ["SECRET"], "right": "y", "won": "y", "user": 1},
}


@pytest.mark.parametrize("bad", BAD)
def test_a_row_that_breaks_a_rule_decides_nothing_but_itself(tmp_path, bad):
    battles = hb.Comparisons(items=["x", "y"], winner="won")
    good = {"left": "x", "right": "y", "won": "y", "user": 1}
    rows = [good, BAD[bad], good]
    bounded = hb.BoundContributions(battles, max_contributions=9, on_bad_rows="drop")
    (exact,) = found_in(tmp_path / "dropped", rows, bounded, hb.CountWins(battles))
    assert exact.arrays["counts"].tolist() == [0, 2]
    failing = hb.BoundContributions(battles, max_contributions=9)
    with pytest.raises(Exception, match="a row breaks a rule") as caught:
        found_in(tmp_path / "failed", rows, failing, hb.CountWins(battles))
    assert "SECRET" not in str(caught.value)


def test_a_table_without_the_column_is_refused(tmp_path):
    battles = hb.Comparisons(items=["x", "y"], winner="won")
    bounded = hb.BoundContributions(battles, max_contributions=9, on_bad_rows="drop")
    with pytest.raises(Exception, match="input: column left not found"):
        found_in(tmp_path / "found", pa.table({"won": ["x"]}).to_batches(), bounded)


def test_the_page_runs(checkout, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = pa.table({"a": ["ant"], "b": ["bee"], "winner": ["ant"], "judge": [7]})
    Path("log").mkdir()
    pa.parquet.write_table(table, "log/battles-0.parquet")
    page = (checkout / "docs" / "beam.md").read_text()
    *_, code = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    place = {"__name__": "__main__"}
    exec(code.replace("beam.Pipeline()", "beam.Pipeline(runner='FnApiRunner')"), place)
    (written,) = tmp_path.glob("wins*")
    assert len(json.loads(written.read_text())) == 3


def test_the_text_of_what_is_exact_shows_no_count():
    exact = hb.Exact(("x", "y"), {"counts": np.array([475, 0])})
    assert "475" not in repr(exact) + str(exact)


def test_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    bounded = hb.BoundContributions(BATTLES, max_contributions=1, on_bad_rows="drop")
    found_in(tmp_path / "found", [*rows_in("dicts", comparisons.a_log()), 17], bounded)
    assert [path.name for path in tmp_path.iterdir()] == ["found"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: hb.Comparisons(items=ITEMS), "give one of winner and outcome"),
        (lambda: dataclasses.replace(BATTLES, ties="model"), "ties must be drop, split or random"),
        (lambda: hb.BoundContributions(BATTLES, max_contributions=0), "must be at least 1"),
        (lambda: hb.PrivatizeAnswers(BATTLES, epsilon=0.0), "epsilon must be finite and > 0"),
        (lambda: hb.PrivatizeAnswers(BATTLES, epsilon=1.0, on_bad_rows="no"), "must be fail or"),
    ],
)
def test_settings_that_break_a_rule_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
