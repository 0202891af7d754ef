"""Local jobs do without Beam: the same files in the confidential area, bit for bit."""

from __future__ import annotations

import dataclasses
import multiprocessing
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hushrank.flows.config.runner import LocalRunner
from hushrank.pipelines.engine.runner import (
    HERE,
    Engine,
    Runner,
    does_without_beam,
)
from hushrank.pipelines.reduce import reduce
from hushrank.pipelines.reduce.reduction_job import NightOfStream, Statistic
from hushrank.privacy.stream_encoder import Terms
from hushrank.transforms.common.epsilons import AnswerBudget
from hushrank.transforms.common.schema import InputError, Ties
from tests.pipelines.reduce import test_reduce_comparisons as comparisons
from tests.pipelines.reduce import test_reduce_private as private
from tests.pipelines.reduce import test_reduce_rankings as rankings
from tests.pipelines.reduce import test_reduce_responses as responses
from tests.pipelines.without_beam import run_and_watch, run_with_workers, run_without_beam

HUGE_EPSILON = 50.0  # nothing flips


def jobs_on(folder: Path, work: Path) -> list:
    """One job of each kind and branch, on files that are written here."""
    log = comparisons.a_log().slice(0, 300)
    bad = log.set_column(1, "a", pa.array([99, *log["a"].to_pylist()[1:]]))
    ballots = rankings.true_rankings(90)
    answers = private.a_log().set_column(4, "eps", pa.array([HUGE_EPSILON] * private.N_ROWS))
    for name, table in {
        "log": bad, "answers": answers, "sheets": responses.a_log(), "none": log.slice(0, 0),
        "ranks": rankings.long_form([*ballots, [1, 1]]), "lists": rankings.list_form(ballots),
    }.items():  # fmt: skip
        (folder / name).mkdir(parents=True)
        pq.write_table(table, folder / name / "0.parquet", row_group_size=100)
    night = NightOfStream(
        stream="s", folder=str(work / "stream" / "state"), key=comparisons.KEY, night=0,
        attempt="a", terms=Terms(nights=3, participations=2, gap=2),
    )  # fmt: skip
    sure, bounded = {"already_private": True}, AnswerBudget(max_contributions=7)
    return [
        comparisons.a_job(folder / "log", work / "wins"),
        comparisons.a_job(folder / "log", work / "pairs", statistic=Statistic.PAIR_COUNTS,
                          event="id", ties=Ties.RANDOM, distinct_pairs=True),
        comparisons.a_job(folder / "log", work / "rows", user=None, max_contributions=None),
        comparisons.a_job(folder / "none", work / "none"),
        comparisons.a_job(folder / "log", work / "fail", fail_on_bad_rows=True),
        private.a_job(folder / "answers", work / "private", **sure),
        private.a_job(folder / "answers", work / "shared", budget=bounded, **sure),
        responses.a_job(folder / "sheets", work / "sheets"),
        rankings.a_job(folder / "ranks", work / "ranks", contest=None),
        rankings.a_job(folder / "lists", work / "lists", columns=rankings.LISTS),
        dataclasses.replace(comparisons.a_job(folder / "log", work / "stream"), stream=night),
    ]  # fmt: skip


def contents(work: Path) -> dict[str, object]:
    """Every file below `work` by its name: arrays, bytes or, of Parquet, rows."""
    found: dict[str, object] = {}
    for path in sorted(work.rglob("*")):
        name = str(path.relative_to(work))
        if path.suffix == ".npz":
            with np.load(path) as arrays:
                found[name] = {key: arrays[key].tolist() for key in arrays}
        elif path.suffix == ".parquet":
            found[name] = pq.read_table(path).to_pylist()
        elif path.is_file():
            found[name] = path.read_bytes()
    return found


def test_results_are_those_of_beam(tmp_path):
    jobs = jobs_on(tmp_path / "input", tmp_path / "small")
    assert all(map(does_without_beam, jobs))
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    child = context.Process(target=run_without_beam, args=(jobs, results))
    child.start()
    loaded, broke = results.get(timeout=840)
    child.join()
    assert not loaded
    assert [number for number, _ in broke] == [4]
    for job in jobs:
        on_beam = Path(job.confidential.replace("/small/", "/beam/"))
        on_beam.parent.mkdir(exist_ok=True)
        twin = dataclasses.replace(job, confidential=str(on_beam))
        if (night := getattr(job, "stream", None)) is not None:
            place = night.folder.replace("/small/", "/beam/")
            twin = dataclasses.replace(twin, stream=dataclasses.replace(night, folder=place))
        if getattr(job, "fail_on_bad_rows", False):
            with pytest.raises(InputError, match="break a rule"):
                reduce.run(twin)
        else:
            reduce.run(twin)
        small = contents(Path(job.confidential))
        assert any(Path(name).name == "exact.npz" for name in small)
        assert small == contents(on_beam)


def test_every_number_of_workers_gives_the_same_counts(tmp_path):
    jobs = [
        job
        for job in jobs_on(tmp_path / "input", tmp_path / "work")
        if not getattr(job, "fail_on_bad_rows", False) and not getattr(job, "stream", None)
    ]
    numbers = (1, 2, 3, 9)
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    child = context.Process(target=run_with_workers, args=(jobs, numbers, results))
    child.start()
    assert results.get(timeout=840) == len(jobs) == 9
    child.join()
    for job in jobs:
        first, *others = [contents(Path(f"{job.confidential}-{each}")) for each in numbers]
        assert "exact.npz" in first
        assert all(other == first for other in others)


def test_jobs_of_this_machine_do_without_beam(tmp_path):
    for job in jobs_on(tmp_path / "input", tmp_path / "work"):
        (file,) = job.files
        assert does_without_beam(job)
        assert does_without_beam(
            dataclasses.replace(job, files=(dataclasses.replace(file, size=1 << 40),))
        )
        for other in (
            {"confidential": "gs://bucket/work"},
            {"files": (dataclasses.replace(file, path="gs://bucket/0.parquet"),)},
            {"engine": Engine(Runner.FLINK)},
        ):
            assert not does_without_beam(dataclasses.replace(job, **other))


def test_whoever_asks_for_beam_gets_it(tmp_path):
    asked = LocalRunner(beam=True).engine()
    assert LocalRunner().engine() == HERE
    for job in jobs_on(tmp_path / "input", tmp_path / "work"):
        assert does_without_beam(job)
        assert not does_without_beam(dataclasses.replace(job, engine=asked))


def test_rows_that_meet_wait_in_the_spill_file_and_the_counts_are_the_same(tmp_path):
    """None of them is in a collection, where a log of any length would fill the memory."""
    (job, *_) = jobs_on(tmp_path / "input", tmp_path / "work")
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    child = context.Process(target=run_and_watch, args=(job, results))
    child.start()
    waited, carried = results.get(timeout=840)
    child.join()
    assert waited > 0
    assert carried == {int}
    reduce.run(dataclasses.replace(job, confidential=str(tmp_path / "beam")))
    assert contents(Path(job.confidential)) == contents(tmp_path / "beam")
