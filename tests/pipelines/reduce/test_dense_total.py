"""Counts that are summed in blocks: the same bits as in one go, in no more memory than is said."""

from __future__ import annotations

import dataclasses
import itertools
import pickle
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushrank.pipelines.engine.options import pipeline_options
from hushrank.pipelines.engine.runner import Engine, Runner
from hushrank.pipelines.reduce import dense_total, reduce
from hushrank.pipelines.reduce.dense_total import Block, DenseTotal, is_large
from hushrank.pipelines.reduce.reduction_job import Statistic
from hushrank.privacy.randomized_response import split_response
from hushrank.transforms.common.dense_sums import ArraySumFn
from hushrank.transforms.common.encode import Comparisons
from hushrank.transforms.common.randomisation import LocalAnswers
from hushrank.transforms.common.schema import Ties
from hushrank.transforms.comparisons.aggregate import WeightedPairCountsFn
from tests.pipelines.reduce import test_count_rankings as true_rankings
from tests.pipelines.reduce import test_reduce_comparisons as comparisons
from tests.pipelines.reduce import test_reduce_rankings as rankings
from tests.pipelines.reduce import test_reduce_responses as responses
from tests.pipelines.scenarios.test_small_inputs import contents, jobs_on

FEW = 4  # cells of a block, where a test cuts small counts into many


class Added(ArraySumFn):
    """Sums arrays of as many numbers."""

    def __init__(self, size: int) -> None:
        self._size = size

    @property
    def shape(self) -> tuple[int, ...]:
        return (self._size,)

    def add_input(self, total: np.ndarray, more: np.ndarray) -> np.ndarray:
        return total + more


def sent(fn: Any, bundle: Sequence[Any]) -> list[tuple[int, Any]]:
    """What a bundle sends, as the engine stores it."""
    partial = dense_total._Partial(fn)
    partial.start_bundle()
    for element in bundle:
        partial.process(element)
    found = [each.value for each in partial.finish_bundle()]
    return pickle.loads(pickle.dumps(found))


def in_blocks(fn: Any, bundles: Sequence[Sequence[Any]]) -> Any:
    """The steps of `DenseTotal`, with these bundles."""
    met = defaultdict(list)
    for number, block in itertools.chain.from_iterable(sent(fn, bundle) for bundle in bundles):
        met[number].append(block)
    added = itertools.chain.from_iterable(map(dense_total._AddBlocks().process, met.items()))
    (total,) = dense_total._Total(fn).process((0, [*(found for _, found in added), None]))
    return total


NUMBERS = st.one_of(st.just(0), st.integers(-300, 300), st.integers(-(2**61), 2**61))


@given(
    st.integers(1, 11).flatmap(
        lambda size: st.lists(st.lists(NUMBERS, min_size=size, max_size=size), max_size=6)
    ),
    st.integers(1, 4),
    st.integers(1, 5),
)
def test_blocks_add_up_to_the_sum(rows, a_bundle, a_block):
    size = len(rows[0]) if rows else 5
    arrays = [np.array(row, np.int64) for row in rows]
    bundles = [arrays[at : at + a_bundle] for at in range(0, len(arrays), a_bundle)]
    expected = [sum(column) for column in zip(*rows, strict=True)] or [0] * size
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dense_total, "BLOCK_CELLS", a_block)
        if any(abs(number) >= 2**62 for number in expected):
            return  # near the end of 64 bits, of which the next test is
        np.testing.assert_array_equal(in_blocks(Added(size), bundles), expected)


@pytest.mark.parametrize("numbers", [[2**62, 2**62], [-(2**62), -(2**62), -1], [2**63 - 1, 1]])
def test_a_sum_beyond_64_bits_is_refused(numbers):
    bundles = [[np.array([0, number, 0])] for number in numbers]
    with pytest.raises(OverflowError, match="64-bit sums"):
        in_blocks(Added(3), bundles)


@pytest.mark.parametrize(
    ("most", "bytes_a_cell"), [(255, 1), (2**16 - 1, 2), (2**32 - 1, 4), (2**62, 8)]
)
@pytest.mark.parametrize("share", [0.001, 0.1, 0.5, 1.0])
def test_a_block_takes_no_more_than_is_said(most, bytes_a_cell, share):
    rng = np.random.default_rng(1)
    cells = np.where(rng.random(dense_total.BLOCK_CELLS) < share, most, 0)
    block = Block.of(cells)
    size = block.values.nbytes + (0 if block.places is None else block.places.nbytes)
    assert size <= bytes_a_cell * len(cells)
    assert size <= (2 + bytes_a_cell) * np.count_nonzero(cells)
    found = np.zeros(len(cells), np.int64)
    block.add_to(found)
    np.testing.assert_array_equal(found, cells)


def test_rows_are_sent_in_pieces_of_which_none_is_large():
    """Whatever the rows, no element is longer than a block."""
    fn = Added(300 * 300)
    assert is_large(fn)
    cells = np.full(300 * 300, 2**31)
    blocks = sent(fn, [cells])
    assert max(len(pickle.dumps(block)) for block in blocks) < 4 * dense_total.BLOCK_CELLS + 500
    np.testing.assert_array_equal(in_blocks(fn, [[cells]]), cells)


def test_weights_and_their_squares_are_the_same_in_blocks(monkeypatch):
    monkeypatch.setattr(dense_total, "BLOCK_CELLS", FEW)
    rng = np.random.default_rng(1)
    rows = [
        Comparisons(
            left=rng.integers(0, 3, 50),
            right=rng.integers(3, 6, 50),
            outcome=rng.integers(-1, 2, 50).astype(np.int8),
            weight=rng.integers(1, 2000, 50),
        )
        for _ in range(5)
    ]
    fn = WeightedPairCountsFn(6, Ties.SPLIT)
    total = fn.create_accumulator()
    for each in rows:
        total = fn.add_input(total, each)
    found = in_blocks(fn, [rows[:2], rows[2:3], rows[3:]])
    for name, expected in fn.extract_output(total).items():
        np.testing.assert_array_equal(found[name], expected)


def dense_jobs(folder: Path, work: Path) -> list[Any]:
    """One job of each kind whose sums are dense, on files that are written here."""
    jobs = {Path(job.confidential).name: job for job in jobs_on(folder, work)}
    ties = {"statistic": Statistic.TIE_COUNTS, "ties": Ties.MODEL}
    flipped = LocalAnswers(split_response(2.0, responses.K), debiased=True, already_private=True)
    return [
        *(jobs[name] for name in ("wins", "pairs", "none", "private", "sheets", "lists")),
        comparisons.a_job(folder / "log", work / "ties", **ties),
        responses.a_job(folder / "sheets", work / "local", local=flipped),
        true_rankings.a_job(folder / "lists", work / "true", columns=rankings.LISTS),
    ]


def test_every_dense_sum_is_the_same_in_blocks(tmp_path, monkeypatch):
    """As Beam's local engine carries out the graph that another engine would get."""
    monkeypatch.setattr(dense_total, "BLOCK_CELLS", FEW)
    cut, expand = [], DenseTotal.expand
    monkeypatch.setattr(
        DenseTotal, "expand", lambda self, rows: cut.append(1) or expand(self, rows)
    )
    jobs = dense_jobs(tmp_path / "input", tmp_path / "here")
    for job in jobs:
        reduce.run(job)
    assert not cut  # workers of one process have few partial sums
    for number, job in enumerate(jobs):
        work = job.confidential.replace("/here/", "/there/")
        there = dataclasses.replace(job, confidential=work, engine=Engine(Runner.FLINK))
        with beam.Pipeline(options=pipeline_options()) as pipeline:
            reduce.build(pipeline, there)
        assert len(cut) == number + 1
    assert contents(tmp_path / "here") == contents(tmp_path / "there")
