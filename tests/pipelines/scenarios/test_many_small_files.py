"""Rows of many small files are encoded together; results, and names of bad rows, are as apart."""

from __future__ import annotations

import dataclasses
import multiprocessing
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hushrank.pipelines.reduce import reduce
from hushrank.pipelines.reduce.kind import Part
from hushrank.pipelines.reduce.reduce import kind_of
from hushrank.pipelines.reduce.together import Together
from hushrank.transforms.common.encode import Sifted
from hushrank.transforms.engine import in_process
from hushrank.transforms.engine.in_process import Both, outputs_of_bundle
from hushrank.transforms.storage.files import list_files
from tests.pipelines.reduce.test_parcels import FILES, jobs_of_many_files
from tests.pipelines.scenarios.test_small_inputs import contents
from tests.pipelines.without_beam import run_with_workers

NUMBERS = (1, 2)  # of workers


def test_files_that_are_encoded_together_give_what_beam_counts_of_each(tmp_path):
    """Beam encodes file by file. Rows that break a rule are told with the file they came from."""
    jobs = jobs_of_many_files(tmp_path)
    context = multiprocessing.get_context("spawn")
    told = context.Queue()
    child = context.Process(target=run_with_workers, args=(jobs, NUMBERS, told))
    child.start()
    assert told.get(timeout=840) == len(jobs)
    child.join()
    rejected = 0
    for job in jobs:
        reduce.run(job)
        apart = contents(Path(job.confidential))
        assert "exact.npz" in apart
        rejected += sum(name.startswith("rejects/") for name in apart)
        for number in NUMBERS:
            assert contents(Path(f"{job.confidential}-{number}")) == apart
    assert rejected >= 2


@pytest.fixture
def encoded(monkeypatch):
    """Count the batches that a job without Beam encodes, and their rows."""
    monkeypatch.setattr(in_process, "is_chosen", lambda: True)

    def count(job) -> Counter[str]:
        kind, found = kind_of(job), Counter[str]()
        encode = kind.encode

        def noted(batch, place, split):
            found.update(batches=1, rows=len(batch))
            return encode(batch, place, split)

        monkeypatch.setattr(kind, "encode", noted)
        splits = kind.splits()
        steps = reduce._ReadSplit(len(splits)), reduce._Encode(kind, 1000, None)
        list(outputs_of_bundle(Both(*steps), list(enumerate(splits))))
        return found

    return count


def test_small_files_are_one_batch(tmp_path, encoded):
    (job, *_) = jobs_of_many_files(tmp_path)
    path = Path(job.files[0].path)
    rows = pq.read_table(path)
    good = rows.filter(pa.compute.less(rows["a"], 99))
    pq.write_table(good, path)
    job = dataclasses.replace(job, files=tuple(list_files([str(path.parent)])))
    assert encoded(job)["batches"] == 1


def test_a_bad_row_has_its_files_encoded_one_by_one(tmp_path, encoded):
    (job, *_) = jobs_of_many_files(tmp_path)
    assert encoded(job)["batches"] == 1 + FILES


def test_what_draws_for_each_row_is_never_encoded_twice(tmp_path, encoded):
    jobs = jobs_of_many_files(tmp_path)
    drawing = [job for job in jobs if not kind_of(job).joins_parts]
    assert {type(job).__name__ for job in drawing} >= {"ReduceAnswers", "ReduceRankings"}
    for job in drawing:
        found = encoded(job)
        assert found["batches"] == FILES


def part_of(batch: pa.RecordBatch) -> Part:
    return Part("file", 0, 0, Sifted(batch))


def test_batches_of_other_forms_wait_for_each_other_in_vain():
    numbers = pa.record_batch({"a": [1, 2]})
    texts = pa.record_batch({"a": ["x"]})
    together = Together()
    assert together.takes(part_of(numbers), numbers)
    together.add(part_of(numbers), numbers)
    assert together.batch() is None, "one part is no join"
    assert together.takes(part_of(numbers), numbers)
    assert not together.takes(part_of(texts), texts)


def test_dictionaries_of_other_texts_keep_their_values():
    together = Together()
    for names in (["x", "y", None], ["z", "x"]):
        batch = pa.record_batch({"a": pa.array(names).dictionary_encode()})
        assert together.takes(part_of(batch), batch)
        together.add(part_of(batch), batch)
    found = together.batch()
    assert found is not None
    assert found["a"].to_pylist() == ["x", "y", None, "z", "x"]


def test_a_batch_of_joined_parts_stays_small():
    together, batch = Together(), pa.record_batch({"a": pa.array(range(20_000))})
    for _ in range(2):
        assert together.takes(part_of(batch), batch)
        together.add(part_of(batch), batch)
    assert not together.takes(part_of(batch), batch)
