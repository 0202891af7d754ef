"""Small inputs do without Beam: the same files in the confidential area, bit for bit."""

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
    CELL_BYTES,
    HERE,
    LEAST_MEMORY,
    SMALL_BYTES,
    SMALL_CELLS,
    Engine,
    MemoryPlan,
    Runner,
    does_without_beam,
    is_small,
)
from hushrank.pipelines.reduce import reduce
from hushrank.pipelines.reduce.reduction_job import NightOfStream, Statistic
from hushrank.privacy.stream_encoder import Terms
from hushrank.transforms.common.epsilons import AnswerBudget
from hushrank.transforms.common.schema import InputError, Ties
from hushrank.transforms.responses.responses import WideColumns
from hushrank.transforms.storage.files import list_files
from tests.pipelines.reduce import test_reduce_comparisons as comparisons
from tests.pipelines.reduce import test_reduce_private as private
from tests.pipelines.reduce import test_reduce_rankings as rankings
from tests.pipelines.reduce import test_reduce_responses as responses
from tests.pipelines.without_beam import run_with_workers, run_without_beam

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
    assert all(map(is_small, jobs))
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


def test_large_and_remote_inputs_are_not_small(tmp_path):
    (job, *_) = jobs_on(tmp_path / "input", tmp_path / "work")
    (file,) = job.files
    large = dataclasses.replace(file, size=SMALL_BYTES + 1)
    remote = dataclasses.replace(file, path="gs://bucket/0.parquet")
    for files in ((large,), (remote,)):
        assert not is_small(dataclasses.replace(job, files=files))
    assert not is_small(dataclasses.replace(job, confidential="gs://bucket/work"))


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_texts_of_long_rows_are_small_and_of_wide_ones_are_not(tmp_path, suffix):
    job = jobs_on(tmp_path / "input", tmp_path / "work")[7]
    wide = WideColumns(user="who", items=("a", "b"))
    path = tmp_path / f"log.{suffix}"
    path.write_text("who,a,b,y\n")
    (file,) = list_files([str(path)])
    for size, columns, small in (
        (75_000_000, job.columns, True),  # a cliff was here: loading Beam takes over a second
        (SMALL_BYTES, job.columns, True),
        (SMALL_BYTES + 1, job.columns, False),
        (SMALL_CELLS, wide, True),
        (SMALL_CELLS + 1, wide, False),
    ):
        files = (dataclasses.replace(file, size=size),)
        assert is_small(dataclasses.replace(job, files=files, columns=columns)) == small


def test_large_inputs_whose_rows_need_not_meet_do_without_beam(tmp_path):
    jobs = jobs_on(tmp_path / "input", tmp_path / "work")
    assert [k for k, job in enumerate(jobs) if not job.meets_owners] == [2, 5]
    for job in jobs:
        (file,) = job.files
        large = dataclasses.replace(job, files=(dataclasses.replace(file, size=SMALL_BYTES + 1),))
        assert not is_small(large)
        assert does_without_beam(large) == (not job.meets_owners)
        assert does_without_beam(job)
        for other in (
            {"confidential": "gs://bucket/work"},
            {"files": (dataclasses.replace(file, path="gs://bucket/0.parquet"),)},
            {"engine": Engine(Runner.FLINK)},
        ):
            assert not does_without_beam(dataclasses.replace(large, **other))


def test_whoever_asks_for_beam_gets_it(tmp_path):
    asked = LocalRunner(beam=True).engine()
    assert LocalRunner().engine() == HERE
    for job in jobs_on(tmp_path / "input", tmp_path / "work"):
        assert does_without_beam(job)
        assert not does_without_beam(dataclasses.replace(job, engine=asked))


def test_what_memory_limit_leaves_no_room_for_is_not_small(tmp_path):
    (job, *_) = jobs_on(tmp_path / "input", tmp_path / "work")
    values = MemoryPlan.of(LEAST_MEMORY).waiting_bytes // CELL_BYTES
    same = pa.array(np.zeros(values // 4 + 1, np.int8))
    pq.write_table(pa.table(dict.fromkeys("abcd", same)), tmp_path / "rows.parquet")
    job = dataclasses.replace(job, files=tuple(list_files([str(tmp_path / "rows.parquet")])))
    assert is_small(job)
    assert not is_small(dataclasses.replace(job, memory_limit=LEAST_MEMORY))


def test_many_rows_in_few_bytes_are_not_small(tmp_path):
    (job, *_) = jobs_on(tmp_path / "input", tmp_path / "work")
    same = pa.array(np.zeros(SMALL_CELLS // 4 + 1, np.int8))
    pq.write_table(pa.table(dict.fromkeys("abcd", same)), tmp_path / "flat.parquet")
    lists = pa.ListArray.from_arrays(pa.array([0, len(same)], pa.int32()), same)
    pq.write_table(pa.table(dict.fromkeys("abcd", lists)), tmp_path / "lists.parquet")
    header = "# NUMBER ALTERNATIVES: 2\n"
    header += "".join(f"# ALTERNATIVE NAME {k}: {k}\n" for k in (1, 2))
    for voters in (3, SMALL_CELLS):
        text = f"# DATA TYPE: soc\n# NUMBER VOTERS: {voters}\n{header}{voters}: 1,2\n"
        (tmp_path / f"{voters}.soc").write_text(text)
    texts = pa.array(["a"]).take(np.zeros(SMALL_CELLS // 16 + 1, np.int8))
    pq.write_table(pa.table(dict.fromkeys("abcd", texts)), tmp_path / "texts.parquet")
    few = texts.slice(2)
    pq.write_table(pa.table(dict.fromkeys("abcd", few)), tmp_path / "few_texts.parquet")
    for name, small in {
        "flat.parquet": False, "lists.parquet": False,
        "texts.parquet": False, "few_texts.parquet": True,
        "3.soc": True, f"{SMALL_CELLS}.soc": False,
    }.items():  # fmt: skip
        files = tuple(list_files([str(tmp_path / name)]))
        assert files[0].size < SMALL_BYTES
        assert is_small(dataclasses.replace(job, files=files)) == small, name
    (tmp_path / "flat.parquet").write_bytes(b"cut")
    assert not is_small(
        dataclasses.replace(job, files=list_files([str(tmp_path / "flat.parquet")]))
    )
