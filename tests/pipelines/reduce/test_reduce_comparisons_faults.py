"""An engine or a disk that fails: the counts are right, or the run stops and leaves nothing."""

from __future__ import annotations

import errno
import os

import apache_beam as beam
import numpy as np
import pytest

from hushrank.pipelines.engine.options import pipeline_options
from hushrank.pipelines.reduce import reduce, reduce_comparisons
from hushrank.transforms.comparisons.shuffle import unpack
from hushrank.transforms.storage.spill_file import SpillFile
from tests.pipelines.reduce.test_reduce_comparisons import SETTINGS, a_job, a_log, counts_of, write

LOST = "^the engine lost or repeated rows; nothing was released: run it again$"


@pytest.fixture
def one_file(tmp_path):
    write(a_log(), tmp_path / "one", 1, 10_000, 0)
    return tmp_path / "one"


def names(folder) -> list[str]:
    return sorted(path.name for path in folder.rglob("*"))


@pytest.mark.parametrize("setting", ["bounded", "events"])
def test_rows_travel_inside_the_engine_where_workers_share_no_disk(tmp_path, one_file, setting):
    expected = counts_of(one_file, tmp_path / "w", **SETTINGS[setting])
    job = a_job(one_file, tmp_path / "inline", **SETTINGS[setting])
    with beam.Pipeline(options=pipeline_options()) as pipeline:
        reduce.build(pipeline, job)
    np.testing.assert_array_equal(np.load(tmp_path / "inline" / "exact.npz")["counts"], expected)


def test_the_spill_file_has_no_name_at_any_time(tmp_path, one_file, monkeypatch):
    seen = []
    append = SpillFile.append

    def watch(self, words):
        seen.append((names(tmp_path / "w"), os.fstat(self.descriptor).st_nlink))
        return append(self, words)

    monkeypatch.setattr(SpillFile, "append", watch)
    counts_of(one_file, tmp_path / "w")
    assert seen == [([], 0)]
    assert names(tmp_path / "w") == ["bits.json", "diagnostics.json", "exact.npz"]


def test_a_full_disk_while_rows_wait_stops_the_run_and_leaves_nothing(
    tmp_path, one_file, monkeypatch
):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(RuntimeError, match="No space left on device"):  # as the engine says it
        counts_of(one_file, tmp_path / "w")
    assert names(tmp_path / "w") == []


@pytest.mark.parametrize("times", [0, 2])
def test_rows_that_the_engine_loses_or_repeats_on_their_way_are_missed(
    tmp_path, one_file, monkeypatch, times
):
    def unreliable(shuffle_blocks, spill, most):
        *others, last = unpack(shuffle_blocks, spill, most)
        return [*others, *[last] * times]

    monkeypatch.setattr(reduce_comparisons, "unpack", unreliable)
    with pytest.raises(RuntimeError, match=LOST):
        counts_of(one_file, tmp_path / "w")


@pytest.mark.parametrize("setting", ["bounded", "comparison", "pairs"])
def test_rows_that_the_engine_loses_before_they_are_counted_are_missed(
    tmp_path, one_file, monkeypatch, setting
):
    def lossy(combine, lost):
        add_input = combine.add_input
        return lambda self, counts, rows: add_input(
            self, counts, rows.take(np.arange(len(rows) - lost))
        )

    for combine in reduce_comparisons.COMBINE.values():
        monkeypatch.setattr(combine, "add_input", lossy(combine, 1))
    with pytest.raises(RuntimeError, match=LOST):
        counts_of(one_file, tmp_path / "w", **SETTINGS[setting])
