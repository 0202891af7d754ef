"""What an engine carries of one partition is small, however many rows a person has."""

from __future__ import annotations

import dataclasses
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushrank.pipelines.engine.options import pipeline_options
from hushrank.pipelines.engine.runner import MemoryPlan
from hushrank.pipelines.reduce import reduce
from hushrank.pipelines.reduce.reduce import SMALL_BYTES, TIMES, lightened
from hushrank.transforms.common.epsilons import AnswerBudget
from hushrank.transforms.common.schema import Ties
from hushrank.transforms.comparisons.shuffle import (
    OwnedRows,
    OwnedShuffleBlock,
    Partitioning,
    pack,
    unpack,
)
from hushrank.transforms.responses.answer_sheets import Duplicates
from hushrank.transforms.storage.spill_file import SpillFolder, fetch
from tests.pipelines.reduce import test_reduce_comparisons as comparisons
from tests.pipelines.reduce import test_reduce_private as private
from tests.pipelines.reduce import test_reduce_rankings as rankings
from tests.pipelines.reduce import test_reduce_responses as responses

MOST_SMALL = 96  # bytes


def comparisons_of_one(folder: Path, work: Path) -> Any:
    log = comparisons.a_log()
    who = np.where(np.arange(len(log)) % 10, 0, log["who"].to_numpy())
    comparisons.write(log.set_column(0, "who", pa.array(who)), folder, 3, 200, 1)
    return comparisons.a_job(folder, work, event="id", ties=Ties.RANDOM, people_vote=True)


def answers_of_one(folder: Path, work: Path) -> Any:
    log = private.a_log()[:1000]
    who = np.where(np.arange(len(log)) % 10, 0, log["who"].to_numpy())
    private.write(log.set_column(0, "who", pa.array(who)), folder, 3, 200)
    changes = {"already_private": True, "ties": Ties.DROP}  # so nothing is drawn
    return private.a_job(folder, work, AnswerBudget(max_contributions=7), **changes)


def answers_to_a_test_of_one(folder: Path, work: Path) -> Any:
    random, n = np.random.default_rng(4), 1000
    who = np.where(np.arange(n) % 10, 0, np.arange(n))
    columns = {"who": who, "item": random.integers(0, responses.N_ITEMS, n)}
    columns |= {"right": random.integers(0, 2, n).astype(np.int8), "time": np.arange(n)}
    responses.write(pa.table(columns), folder, files=3)
    return responses.a_job(folder, work, duplicates=Duplicates.LAST, order="time")


def rankings_of_one(folder: Path, work: Path) -> Any:
    true = rankings.true_rankings()
    table = rankings.long_form(
        true, [place if place % 10 == 0 else 1 for place in range(len(true))]
    )
    contest = np.repeat(np.arange(len(true)), list(map(len, true)))
    rankings.write(table.append_column("contest", pa.array(contest)), folder, files=2)
    columns = dataclasses.replace(rankings.RANKS, contest="contest")
    return rankings.a_job(folder, work, columns=columns, max_rankings=len(true))  # none is left


KINDS = (comparisons_of_one, answers_of_one, answers_to_a_test_of_one, rankings_of_one)


@dataclasses.dataclass(frozen=True)
class Travelled:
    """To where a partition is bounded.

    Attributes:
        n_shuffle blocks: all of the partition.
        n_bytes: of rows inside them.
    """

    n_shuffle_blocks: int
    n_bytes: int


@pytest.fixture
def travelled(monkeypatch: pytest.MonkeyPatch) -> list[Travelled]:
    """Of each partition that was bounded."""
    found: list[Travelled] = []
    process = reduce._Bound.process

    def watched(self: Any, element: Any) -> Any:
        partition, shuffle_blocks = element
        shuffle_blocks = list(shuffle_blocks)
        found.append(Travelled(len(shuffle_blocks), sum(map(bytes_in, shuffle_blocks))))
        return process(self, (partition, shuffle_blocks))

    monkeypatch.setattr(reduce._Bound, "process", watched)
    return found


def bytes_in(shuffle_block: Any) -> int:
    content = (
        shuffle_block.content if isinstance(shuffle_block, OwnedShuffleBlock) else shuffle_block[1]
    )
    if isinstance(content, np.ndarray):
        return content.nbytes
    return len(content) if isinstance(content, bytes) else 0


def results(work: Path) -> tuple[dict[str, Any], dict[str, int]]:
    with np.load(work / "exact.npz") as arrays:
        found = {name: arrays[name].tolist() for name in arrays}
    return found, json.loads((work / "diagnostics.json").read_text())


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_rows_of_a_heavy_person_do_not_travel_and_results_are_the_same(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    travelled: list[Travelled],
    kind: Callable[..., Any],
) -> None:
    """Nine of ten rows are one person's; readers have some rows at a time, workers some memory."""
    reduce.run(kind(tmp_path / "in", tmp_path / "here"))
    travelled.clear()
    shuffle = "hushrank.transforms.comparisons.shuffle"
    monkeypatch.setattr(reduce, "CHUNK_ROWS", 64)
    monkeypatch.setattr(reduce, "SMALL_BYTES", MOST_SMALL)
    monkeypatch.setattr(MemoryPlan, "of", lambda *_: MemoryPlan(1 << 14, rows_at_once=100))
    monkeypatch.setattr(f"{shuffle}.BUCKET_ROWS", 50)
    monkeypatch.setattr(f"{shuffle}.MAX_LOCAL_PARTITION_BITS", 4)
    job = kind(tmp_path / "again", tmp_path / "there")
    with beam.Pipeline(options=pipeline_options()) as pipeline:
        reduce.build(pipeline, job)
    assert results(tmp_path / "there") == results(tmp_path / "here")
    in_files = sum(path.stat().st_size for path in (tmp_path / "there").glob(".waiting.*"))
    total = in_files + sum(each.n_bytes for each in travelled)
    assert in_files > total / 10  # blobs of a few rows have longer heads than content
    rules = reduce.kind_of(job)
    n_partitions = rules.number_of(rules.partitions(sum(split.rows for split in rules.splits())))
    assert n_partitions > 2 * TIMES
    for each in travelled:
        assert each.n_bytes <= TIMES * total / n_partitions + each.n_shuffle_blocks * MOST_SMALL


@settings(max_examples=30, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 9_000), min_size=1, max_size=8),
    n_partitions=st.sampled_from([1, 4, 64]),
)
def test_every_row_is_there_once_and_the_rest_is_fair(sizes: list[int], n_partitions: int) -> None:
    blobs = [bytes(8 * size) for size in sizes]
    shuffle_blocks = [(number, (size, blobs[number])) for number, size in enumerate(sizes)]
    with tempfile.TemporaryDirectory() as place:
        folder = SpillFolder(place)
        light = list(lightened(shuffle_blocks, n_partitions, folder))
        assert [(number, size) for number, (size, _) in light] == list(enumerate(sizes))
        assert [fetch(shuffle_block, folder) for _, (_, shuffle_block) in light] == blobs
        inside = [
            len(shuffle_block)
            for _, (_, shuffle_block) in light
            if isinstance(shuffle_block, bytes)
        ]
        fair = TIMES * 8 * sum(sizes) / n_partitions + SMALL_BYTES
        assert all(size <= fair for size in inside)
        heavy = [8 * size for size in sizes if 8 * size > fair]
        assert len(inside) == len(sizes) - len(heavy)  # no file for what is fair
        assert len(list(Path(place).iterdir())) == (1 if heavy else 0)


def test_rows_of_several_buckets_come_back_in_pieces_and_at_once(tmp_path: Path) -> None:
    words = np.random.default_rng(2).integers(0, 1 << 63, (3, 20_000), np.uint64)
    words[0, :15_000] = words[0, 0]
    rows, partitioning, folder = OwnedRows(words), Partitioning(2, 2), SpillFolder(str(tmp_path))
    packed = list(pack(rows, partitioning, None))
    light = list(lightened(packed, 4, folder))
    assert sum(isinstance(shuffle_block.content, tuple) for _, shuffle_block in light) == 1
    for rows_at_once in (1, 1 << 20):
        for (_, whole), (_, shuffle_block) in zip(packed, light, strict=True):
            expected = [bucket.rows().words for bucket in unpack([whole], None)]
            found = [
                bucket.rows().words for bucket in unpack([shuffle_block], folder, rows_at_once)
            ]
            for one, other in zip(expected, found, strict=True):
                np.testing.assert_array_equal(one, other)
    with pytest.raises(ValueError, match="in a file already"):
        list(lightened(light, 4, folder))
