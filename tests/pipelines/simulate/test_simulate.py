"""The folder that a simulation leaves: log, catalogue, truth and job file; all of it or nothing."""

from __future__ import annotations

import csv
import tracemalloc

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.json as pajson
import pyarrow.parquet as pq
import pytest

from hushrank.flows.methods.registry import load_config
from hushrank.pipelines.simulate import simulated_rows
from hushrank.pipelines.simulate.simulate import simulate_comparisons
from hushrank.pipelines.simulate.simulated_rows import SimulationSpec, comparison_blocks
from hushrank.transforms.storage.files import FileFormat, check_files, list_files

SPEC = SimulationSpec(items=8, people=3000, comparisons=10, ties=0.1, seed=4)
READERS = {
    FileFormat.PARQUET: pq.read_table,
    FileFormat.CSV: pacsv.read_csv,
    FileFormat.JSONL: pajson.read_json,
}


def sorted_rows(written, format_=FileFormat.PARQUET):
    """Every row of a log, in an order of its own."""
    table = pa.concat_tables([READERS[format_](path) for path in written.log])
    assert table.column_names[:4] == ["user", "item_i", "item_j", "outcome"]
    return sorted(zip(*table.to_pydict().values(), strict=True))


@pytest.fixture
def small_blocks(monkeypatch):
    """Six blocks in place of one."""
    monkeypatch.setattr(simulated_rows, "BLOCK_ROWS", 5000)


@pytest.fixture
def expected(small_blocks):
    blocks = [
        zip(*(column.tolist() for column in block.values()), strict=True)
        for block in comparison_blocks(SPEC)
    ]
    return sorted(row for block in blocks for row in block)


@pytest.mark.parametrize("format_", READERS)
@pytest.mark.parametrize("files", [1, 3, 20])
def test_rows_depend_on_neither_files_nor_format(format_, files, expected, tmp_path):
    written = simulate_comparisons(SPEC, tmp_path / "out", files=files, format_=format_)
    assert len(written.log) == files
    assert sorted_rows(written, format_) == expected
    assert all(READERS[format_](path).num_rows for path in written.log)


def test_people_are_scattered_over_the_files(small_blocks, tmp_path):
    written = simulate_comparisons(SPEC, tmp_path / "out")
    users = [set(pq.read_table(path)["user"].to_pylist()) for path in written.log]
    assert len(users) == 8
    assert sum(map(len, users)) > 4 * SPEC.people


def test_a_log_of_many_files_keeps_large_row_groups(small_blocks, tmp_path):
    written = simulate_comparisons(SPEC, tmp_path / "out", files=48)
    groups = [pq.ParquetFile(path).metadata.num_row_groups for path in written.log]
    assert groups == [1] * 48  # six blocks, each to eight files of its own


def test_side_files_agree_with_the_specification(tmp_path):
    spec = SimulationSpec(items=12, people=20, named=True, link="probit")
    written = simulate_comparisons(spec, tmp_path / "out")
    truth = list(csv.DictReader(written.truth.open()))
    scores = np.array([float(row["score"]) for row in truth])
    assert [row["item"] for row in truth] == list(spec.item_ids())
    np.testing.assert_array_equal(scores, spec.true_scores())  # to the last bit
    assert abs(scores.sum()) < 1e-12
    assert written.items.read_text().splitlines() == ["item", *spec.item_ids()]


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("format_", READERS)
def test_the_job_file_reads_the_log(format_, named, tmp_path):
    spec = SimulationSpec(items=12, people=20, comparisons=6, named=named, events=True)
    written = simulate_comparisons(spec, tmp_path / "out", format_=format_)
    job = load_config(written.survey)
    files = list_files(job.input.paths)
    assert [file.path for file in files] == [str(path) for path in written.log]
    check_files(files, job.comparison_columns())
    assert job.items.catalogue.names == spec.item_ids()
    assert job.privacy.max_contributions == 6
    codes = job.items.catalogue.codes(READERS[format_](written.log[0])["item_i"].combine_chunks())
    assert (codes >= 0).all()


def test_fewer_people_than_files_get_fewer_files(tmp_path):
    spec = SimulationSpec(items=6, people=3)
    assert len(simulate_comparisons(spec, tmp_path / "out").log) == 3


@pytest.mark.parametrize("files", [0, 21, 501])
def test_too_few_or_too_many_files(files, tmp_path):
    people = 20 if files == 21 else 1000
    message = f"files must be between 1 and {min(500, people)} "
    with pytest.raises(ValueError, match=message):
        simulate_comparisons(SimulationSpec(items=6, people=people), tmp_path / "out", files=files)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_in_use_is_left_alone(tmp_path):
    (tmp_path / "mine.txt").write_text("keep")
    with pytest.raises(FileExistsError, match="exists and is not an empty folder; name a new one"):
        simulate_comparisons(SPEC, tmp_path)
    with pytest.raises(FileExistsError, match="not an empty folder"):
        simulate_comparisons(SPEC, tmp_path / "mine.txt")
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
    assert (tmp_path / "mine.txt").read_text() == "keep"


@pytest.mark.parametrize("format_", READERS)
def test_an_interrupted_simulation_leaves_nothing(format_, small_blocks, tmp_path):
    def interrupt(share):
        if share > 0.5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        simulate_comparisons(SPEC, tmp_path, format_=format_, progress=interrupt)
    assert list(tmp_path.iterdir()) == []
    simulate_comparisons(SPEC, tmp_path, format_=format_)  # and the folder can be used again


def test_progress_rises_to_one(small_blocks, tmp_path):
    shares = []
    simulate_comparisons(SPEC, tmp_path / "out", progress=shares.append)
    assert len(shares) == 6
    assert shares == sorted(set(shares))
    assert shares[-1] == 1.0


def test_memory_does_not_grow_with_the_log(tmp_path):
    def peak(people):
        tracemalloc.start()
        simulate_comparisons(SimulationSpec(items=20, people=people), tmp_path / f"{people}")
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    two_blocks, six_blocks = peak(130_000), peak(390_000)
    assert six_blocks < 1.1 * two_blocks
    assert two_blocks > 1 << 20  # numpy's arrays are counted
