"""A count that is broken off goes on: it reads what is left, and its arrays are the same, bit for
bit."""

from __future__ import annotations

import dataclasses
import multiprocessing
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from hushrank.pipelines.engine import runner
from hushrank.pipelines.engine.runner import Engine, Runner, may_resume
from hushrank.pipelines.reduce import parcels, reduce
from hushrank.pipelines.reduce.kind import rows_file
from hushrank.pipelines.reduce.reduce import kind_of
from hushrank.privacy.keyed_hash import SecretKey
from hushrank.privacy.randomness import seeded_bits
from hushrank.transforms.storage.files import FileFormat, Service, list_files
from tests.pipelines.broken_off import broken_off_and_whole, run_noting
from tests.pipelines.scenarios.test_small_inputs import contents, jobs_on
from tests.pipelines.without_beam import run_broken_off

FILES = 7
JOBS = (0, 1, 2, 3, 5, 6, 7, 8, 9)  # of `jobs_on`: all but those that fail, and nights of a stream


def jobs_of_many_files(folder: Path) -> list[Any]:
    """The jobs of every kind and branch, with rows in seven files each."""
    found = []
    for number in JOBS:
        job = jobs_on(folder / f"in{number}", folder / "work")[number]
        (path,) = (Path(file.path) for file in job.files)
        rows = pq.read_table(path)
        for part in range(FILES):
            mine = rows.slice(len(rows) * part // FILES, len(rows) // FILES + 1)
            last = len(rows) * (part + 1) // FILES - len(rows) * part // FILES
            pq.write_table(mine.slice(0, last), path.with_name(f"part-{part}.parquet"))
        path.unlink()
        found.append(dataclasses.replace(job, files=tuple(list_files([str(path.parent)]))))
    return found


def results(folder: str) -> dict[str, object]:
    """What is left, without what waits."""
    found = contents(Path(folder))
    return {name: each for name, each in found.items() if not name.startswith(".waiting.")}


def check(whole: str, again: str, first: list[str], then: list[str]) -> None:
    assert results(again) == results(whole)
    assert "exact.npz" in results(whole)
    kept = FILES - len(then)
    # The last split of each worker may have been read, and its parcel not yet kept.
    assert len(first) - runner.FEW_WORKERS <= kept <= len(first)
    assert set(then) >= {f"{each}" for each in then} - set(first)
    assert len(set(first) | set(then)) == FILES, "a split was left out"
    assert len(then) == len(set(then))


@pytest.mark.parametrize("after", [3, 6])
def test_a_count_that_is_broken_off_goes_on_with_beam(tmp_path, after):
    for job in jobs_of_many_files(tmp_path):
        check(*broken_off_and_whole(job, after))


def test_a_count_that_is_broken_off_goes_on_without_beam(tmp_path):
    jobs, after = jobs_of_many_files(tmp_path), (0, 2, 5, 7)
    context = multiprocessing.get_context("spawn")
    told = context.Queue()
    child = context.Process(target=run_broken_off, args=(jobs, after, told))
    child.start()
    found = told.get(timeout=840)
    child.join()
    assert len(found) == len(jobs) * len(after)
    for each in found:
        check(*each)


@pytest.fixture
def kept(tmp_path) -> tuple[Any, dict[str, object]]:
    """A job whose rows meet, of which all parcels wait; and its results."""
    (job, *_) = jobs_of_many_files(tmp_path)
    job = dataclasses.replace(job, resumes=True)
    assert len(run_noting(job)) == FILES
    return job, results(job.confidential)


def waiting(job: Any) -> list[Path]:
    return sorted(Path(job.confidential).glob(".waiting.*"))


def test_what_waits_is_for_its_owner_alone_and_taken_again(kept):
    job, found = kept
    assert len(waiting(job)) == FILES + 1
    assert {path.stat().st_mode & 0o777 for path in waiting(job)} == {0o600}
    assert run_noting(job) == []
    assert results(job.confidential) == found


def test_a_damaged_parcel_is_made_again(kept):
    job, found = kept
    rows = rows_file(job)
    one, *_ = (path for path in waiting(job) if path != rows)
    content = bytearray(one.read_bytes())
    content[-1] ^= 1
    one.write_bytes(content)
    assert len(run_noting(job)) == 1
    assert results(job.confidential) == found


@pytest.mark.parametrize("damage", ["zeroed", "cut", "gone"])
def test_rows_that_a_power_failure_took_are_read_again(kept, damage):
    job, found = kept
    rows = rows_file(job)
    size = rows.stat().st_size
    if damage == "zeroed":
        rows.write_bytes(bytes(size))
    elif damage == "cut":
        os.truncate(rows, size // 2)
    else:
        rows.unlink()
    assert len(run_noting(job)) >= FILES // 2
    assert results(job.confidential) == found


@pytest.mark.parametrize("change", ["exchanged", "balanced"])
def test_rows_that_somebody_changed_are_read_again(kept, change):
    """Changes that a sum of all words does not show: two words change places, or by one each."""
    job, found = kept
    words = np.fromfile(rows_file(job), np.uint64)
    first, last = words[0], words[-1]
    other = int(np.flatnonzero(words != first)[0])
    if change == "exchanged":
        words[[0, other]] = words[[other, 0]]
    else:
        words[[0, 1]] += np.array([1, -1]).astype(np.uint64)
    assert words[0] != first
    assert words[-1] == last
    words.tofile(rows_file(job))
    assert 1 <= len(run_noting(job)) < FILES
    assert results(job.confidential) == found


def other_key(job: Any) -> Any:
    return dataclasses.replace(job, key=SecretKey.draw(seeded_bits(99)))


def touched(job: Any) -> Any:
    path = Path(job.files[0].path)
    os.utime(path, ns=(1, 1))
    return dataclasses.replace(job, files=tuple(list_files([str(path.parent)])), heads=None)


def one_more_file(job: Any) -> Any:
    path = Path(job.files[0].path)
    shutil.copy(path, path.with_name("more.parquet"))
    return dataclasses.replace(job, files=tuple(list_files([str(path.parent)])), heads=None)


def other_workers(job: Any) -> Any:
    return dataclasses.replace(job, engine=dataclasses.replace(job.engine, workers=3))


def other_columns(job: Any) -> Any:
    turned = dataclasses.replace(job.columns, left=job.columns.right, right=job.columns.left)
    return dataclasses.replace(job, columns=turned)


@pytest.mark.parametrize(
    "change", [other_key, touched, one_more_file, other_workers, other_columns]
)
def test_parcels_of_anything_else_are_not_taken(kept, change: Callable[[Any], Any]):
    job, _ = kept
    other, before = change(job), set(waiting(job))
    size = rows_file(job).stat().st_size
    assert len(run_noting(other)) == len(other.files)
    assert set(waiting(other)) & before <= {rows_file(job)}, "nobody takes them up"
    assert rows_file(other).stat().st_size < 1.5 * size, "rows of the others are there, too"
    fresh = dataclasses.replace(other, confidential=f"{job.confidential}-fresh", resumes=False)
    run_noting(fresh)
    assert results(other.confidential) == results(fresh.confidential)


def test_a_disk_without_room_for_parcels_costs_them_and_not_the_count(tmp_path, monkeypatch):
    (job, *_) = jobs_of_many_files(tmp_path)
    run_noting(job)

    def full(path: str, content: bytes) -> None:
        raise OSError(28, "No space left on device", path)

    monkeypatch.setattr(parcels, "write_whole", full)
    again = dataclasses.replace(job, confidential=f"{job.confidential}-full", resumes=True)
    assert len(run_noting(again)) == FILES
    assert results(again.confidential) == results(job.confidential)
    assert len(waiting(again)) == 1  # the rows, as in a file without a name


def test_where_the_disk_has_no_room_for_all_rows_none_has_a_name(tmp_path, monkeypatch):
    (job, _, counted, *_) = jobs_of_many_files(tmp_path)
    monkeypatch.setattr(parcels, "ROW_BYTES", 1 << 50)
    for each, files in ((job, 0), (counted, FILES)):  # sums take little
        each = dataclasses.replace(each, resumes=True)
        run_noting(each)
        assert len(waiting(each)) == files


def test_a_sum_for_each_worker_stays_within_memory(tmp_path, monkeypatch):
    """Without parcels all workers add to one sum."""
    (_, _, counted, *_) = jobs_of_many_files(tmp_path)
    counted = dataclasses.replace(counted, resumes=True)
    run_noting(counted)
    assert len(waiting(counted)) == FILES
    found = results(counted.confidential)
    workers = Engine.workers_within
    monkeypatch.setattr(Engine, "workers_within", lambda *_: 1 << 30)
    kind = kind_of(counted)
    assert not parcels.may_wait(counted, kind.splits(None), kind.combine())
    assert waiting(counted) == []
    monkeypatch.setattr(Engine, "workers_within", workers)
    assert len(run_noting(counted)) == FILES
    assert results(counted.confidential) == found


def test_thousands_of_splits_are_few_parcels(kept, monkeypatch):
    job, found = kept
    monkeypatch.setattr(parcels, "PARCELS", 3)
    assert len(run_noting(job)) == FILES
    assert len(waiting(job)) == 1 + 3
    assert results(job.confidential) == found


def test_large_local_inputs_of_files_may_be_resumed(tmp_path):
    (job, *_) = jobs_of_many_files(tmp_path)
    (file, *_) = job.files

    def with_files(*files: Any) -> Any:
        return dataclasses.replace(job, files=files)

    large = dataclasses.replace(file, size=runner.LARGE_BYTES)
    assert not may_resume(job)
    assert may_resume(with_files(large))
    assert may_resume(with_files(*[file] * runner.LARGE_FILES))
    assert not may_resume(with_files(*[file] * (runner.LARGE_FILES - 1)))
    packed = dataclasses.replace(large, path="a.csv.gz", format=FileFormat.CSV, size=1 << 28)
    assert may_resume(with_files(packed)) == (packed.most_bytes >= runner.LARGE_BYTES)
    for other in (
        {"confidential": "gs://bucket/work"},
        {"engine": Engine(Runner.FLINK)},
        {"files": (dataclasses.replace(large, format=Service.BIGQUERY),)},
    ):
        assert not may_resume(dataclasses.replace(with_files(large), **other))


def test_nothing_waits_of_a_job_that_may_not_be_resumed(tmp_path):
    (job, *_) = jobs_of_many_files(tmp_path)
    reduce.run(job)
    assert waiting(job) == []
