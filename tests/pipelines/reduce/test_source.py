"""Rows of a Beam transform: the counts of files, bit for bit, and no text of an error."""

from __future__ import annotations

import dataclasses
import json
import logging
from decimal import Decimal
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.internal import pickler

from hushrank.pipelines.engine.runner import Engine, Runner
from hushrank.pipelines.reduce import reduce
from hushrank.pipelines.reduce import source as elements
from hushrank.pipelines.reduce.reduction_job import Statistic
from hushrank.transforms.common.schema import InputError, Ties
from hushrank.transforms.storage.files import InputFile, Service
from hushrank.transforms.tables.names import PYTHON, BeamSource
from tests.pipelines.reduce import test_count_rankings as rankings
from tests.pipelines.reduce import test_reduce_comparisons as comparisons
from tests.pipelines.reduce import test_reduce_private as answers
from tests.pipelines.reduce import test_reduce_responses as responses

SECRET = "SECRET-4711"


def source_job(job: Any, source: beam.PTransform | BeamSource, work: Path) -> Any:
    """The same job, whose rows the source yields."""
    if isinstance(source, beam.PTransform):
        source = BeamSource(PYTHON, pickled=pickler.dumps(source))
    file = InputFile("beam://v1", 0, "v1", Service.BEAM, table=source)
    return dataclasses.replace(job, files=(file,), confidential=str(work))


def counted(job: Any) -> dict[str, np.ndarray]:
    reduce.run(job)
    with np.load(Path(job.confidential) / "exact.npz") as arrays:
        return dict(arrays)


def tally_of(job: Any) -> dict[str, int]:
    return json.loads((Path(job.confidential) / "diagnostics.json").read_text())


def assert_equal(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert sorted(found) == sorted(expected)
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array)


def row_of(line: str) -> dict[str, str]:
    return dict(zip(("who", "a", "b", "y"), line.split(","), strict=True))


def create(table: pa.Table, _: Path) -> beam.PTransform:
    return beam.Create(table.to_pylist())


def text(table: pa.Table, folder: Path) -> beam.PTransform:
    rows = zip(*(table[name].to_pylist() for name in ("who", "a", "b", "y")), strict=True)
    lines = (",".join("" if cell is None else str(cell) for cell in row) for row in rows)
    (folder / "rows.txt").write_text("\n".join(lines) + "\n")
    return beam.io.ReadFromText(str(folder / "rows.txt")) | beam.Map(row_of)


def parquet(table: pa.Table, folder: Path) -> BeamSource:
    pq.write_table(table, folder / "rows.parquet", row_group_size=50)
    return BeamSource("ReadFromParquet", json.dumps({"path": str(folder / "rows.parquet")}))


def batches(table: pa.Table, _: Path) -> beam.PTransform:
    return beam.Create(table.to_batches(max_chunksize=77))


FORMS = pytest.mark.parametrize("form", [create, text, parquet, batches])


@FORMS
def test_comparisons_are_counted_as_those_of_files(tmp_path, form):
    log = comparisons.a_log()
    comparisons.write(log, tmp_path / "log", 1, 10_000, 0)
    job = comparisons.a_job(tmp_path / "log", tmp_path / "work", statistic=Statistic.PAIR_COUNTS)
    of_source = source_job(job, form(log, tmp_path), tmp_path / "other")
    assert_equal(counted(of_source), counted(job))
    told, by_files = tally_of(of_source), tally_of(job)
    assert {name: told.get(name) for name in by_files} == by_files


REPEATED = Engine(Runner.LOCAL, ("--direct_runner_bundle_repeat=1",), beam=True)


@pytest.mark.parametrize("ties", [Ties.RANDOM, Ties.DROP])
def test_bundles_that_are_repeated_change_nothing(tmp_path, ties):
    log = comparisons.a_log()
    comparisons.write(log, tmp_path / "log", 1, 10_000, 0)
    job = comparisons.a_job(tmp_path / "log", tmp_path / "work", ties=ties, event="id")
    of_source = source_job(job, create(log, tmp_path), tmp_path / "other")
    assert_equal(counted(dataclasses.replace(of_source, engine=REPEATED)), counted(job))


def test_responses_and_rankings_are_counted_as_those_of_files(tmp_path):
    log = responses.a_log()
    job = responses.a_job(responses.write(log, tmp_path / "log"), tmp_path / "work")
    assert_equal(counted(source_job(job, create(log, tmp_path), tmp_path / "1")), counted(job))
    table = rankings.list_form(rankings.true_rankings(90), [place % 20 for place in range(90)])
    folder = rankings.write(table, tmp_path / "rankings")
    job = rankings.a_job(folder, tmp_path / "2", columns=rankings.LISTS, max_rankings=3)
    assert_equal(counted(source_job(job, create(table, tmp_path), tmp_path / "3")), counted(job))


class Broken:
    """A value whose methods raise."""

    def __getattr__(self, name: str) -> Any:
        raise ValueError(SECRET)


NO_ROWS = [17, None, "text", [1], Broken(), {}, {"a": 1}]
ODD = [
    {"who": "w" * 5000, "a": 0, "b": 1, "y": 1},
    {"who": 10**5000, "a": 0, "b": 1, "y": 1},
    {"who": "u", "a": Broken(), "b": 1, "y": 1},
    {"who": float("nan"), "a": 0, "b": 1, "y": 1},
    pa.record_batch({"who": ["u"], "a": ["0"], "y": ["1"]}),
    pa.record_batch({"who": [b"\xff"], "a": ["0"], "b": ["1"], "y": ["1"]}).slice(0, 0),
]


def test_half_a_character_costs_one_row_its_value():
    """Beam's own coder fails at it, in its sample of elements; ours does not."""
    columns = comparisons.ComparisonColumns(**comparisons.COLUMNS, user="who", event=None)
    step = elements.BatchElements(columns)
    step.start_bundle()
    for who in ("\ud800", "u"):
        assert not list(step.process({"who": who, "a": 0, "b": 1, "y": 1}))
    (part,) = (each.value for each in step.finish_bundle())
    assert part.found.rows["who"].to_pylist() == [None, "u"]


def test_a_bundle_that_failed_leaves_no_row_to_the_next_one():
    columns = comparisons.ComparisonColumns(**comparisons.COLUMNS, user="who", event=None)
    step = elements.BatchElements(columns)
    for who in ("lost", "u"):  # an engine gives the same object to both
        step.start_bundle()
        assert not list(step.process({"who": who, "a": 0, "b": 1, "y": 1}))
    (part,) = (each.value for each in step.finish_bundle())
    assert part.found.rows["who"].to_pylist() == ["u"]


def odd_elements(_: int) -> list[Any]:
    return [*NO_ROWS, *ODD, {"who": Decimal(1), "a": np.int64(0), "b": 1.0, "y": "1"}]


def test_what_is_no_row_is_set_aside_alone(tmp_path):
    comparisons.write(comparisons.a_log(), tmp_path / "log", 1, 10_000, 0)
    job = comparisons.a_job(tmp_path / "log", tmp_path / "work", ties=Ties.DROP)
    source = beam.Create([0]) | beam.FlatMap(odd_elements)
    of_source = source_job(job, source, tmp_path / "other")
    assert counted(of_source)["counts"].sum() == 1
    n_bad = len(NO_ROWS) + len(ODD) - 1
    assert tally_of(of_source)["rows_rejected"] == n_bad
    kept = [pq.read_table(path) for path in (tmp_path / "other" / "rejects").iterdir()]
    assert sum(map(len, kept)) == n_bad


def refuse_secret(element: str) -> str:
    if element == SECRET:
        raise ValueError(f"cannot read {element}")
    return element


class RaisesAtTheEnd(beam.DoFn):
    def process(self, element: Any) -> list[Any]:
        return [element]

    def finish_bundle(self) -> None:
        raise KeyError(SECRET)


class RaisesLate(beam.DoFn):
    def process(self, element: Any, time=beam.DoFn.TimestampParam) -> Any:
        yield element
        raise OverflowError(SECRET)


class BrokenFile(beam.io.iobase.BoundedSource):
    """A source of Beam that fails at one of its functions."""

    def __init__(self, broken: str) -> None:
        self.broken = broken

    def _fail_at(self, function: str) -> None:
        if self.broken == function:
            raise OSError(SECRET)

    def estimate_size(self) -> int:
        self._fail_at("estimate_size")
        return 1

    def split(self, *_: Any, **__: Any) -> Any:
        self._fail_at("split")
        yield beam.io.iobase.SourceBundle(1, self, None, None)

    def get_range_tracker(self, *_: Any) -> Any:
        return beam.io.range_trackers.OffsetRangeTracker(0, 1)

    def read(self, _: Any) -> Any:
        self._fail_at("read")
        yield SECRET


class FailsToBuild(beam.PTransform):
    def expand(self, pipeline: Any) -> Any:
        raise LookupError(f"{pipeline} {SECRET}")


def failing_sum(values: Any) -> Any:
    raise ArithmeticError(SECRET, *values)


BROKEN = {
    "ValueError": beam.Create([SECRET]) | beam.Map(refuse_secret),
    "KeyError": beam.Create([SECRET]) | beam.ParDo(RaisesAtTheEnd()),
    "OverflowError": beam.Create([SECRET]) | beam.ParDo(RaisesLate()),
    "ArithmeticError": beam.Create([SECRET]) | beam.CombineGlobally(failing_sum),
    "LookupError": FailsToBuild(),
    **{f"OSError at {name}": beam.io.Read(BrokenFile(name)) for name in ("split", "read")},
}


@pytest.mark.parametrize("error", BROKEN)
def test_an_error_is_told_by_its_type_alone(tmp_path, caplog, capfd, error):
    comparisons.write(comparisons.a_log(), tmp_path / "log", 1, 10_000, 0)
    job = comparisons.a_job(tmp_path / "log", tmp_path / "work")
    caplog.set_level(logging.INFO)  # below, Beam logs elements, in files too
    with pytest.raises(InputError, match=r"^input\.source: PTransform ") as caught:
        reduce.run(source_job(job, BROKEN[error], tmp_path / "other"))
    assert error.partition(" ")[0] in str(caught.value)
    assert SECRET not in str(caught.value)
    assert SECRET not in caplog.text
    assert SECRET not in "".join(capfd.readouterr())
    assert not (tmp_path / "other" / "exact.npz").exists()


class Two(beam.PTransform):
    def expand(self, pipeline: Any) -> Any:
        return {"a": pipeline | beam.Create([1])}


class Endless(beam.PTransform):
    def expand(self, pipeline: Any) -> Any:
        rows = pipeline | beam.Create([1])
        rows.is_bounded = False
        return rows


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (Two(), "yields a dict, not one collection of rows"),
        (Endless(), "yields rows without end"),
        (BeamSource("ReadFromNowhere"), "ReadFromNowhere could not be built"),
    ],
)
def test_what_is_no_source_of_rows_is_refused(tmp_path, source, message):
    comparisons.write(comparisons.a_log(), tmp_path / "log", 1, 10_000, 0)
    job = comparisons.a_job(tmp_path / "log", tmp_path / "work")
    with pytest.raises(InputError, match=message):
        reduce.run(source_job(job, source, tmp_path / "other"))


def test_without_a_transform_the_job_says_what_is_missing(tmp_path):
    comparisons.write(comparisons.a_log(), tmp_path / "log", 1, 10_000, 0)
    job = comparisons.a_job(tmp_path / "log", tmp_path / "work")
    file = InputFile("beam://v1", 0, "v1", Service.BEAM)
    with pytest.raises(InputError, match=r"input\.source: missing"):
        reduce.run(dataclasses.replace(job, files=(file,)))


def test_private_answers_are_summed_as_those_of_files(tmp_path):
    log, args = answers.a_log(), {"already_private": True, "ties": Ties.DROP}
    job = answers.a_job(answers.write(log, tmp_path / "log"), tmp_path / "work", **args)
    of_source = source_job(job, create(log, tmp_path), tmp_path / "other")
    assert_equal(counted(of_source), counted(job))
