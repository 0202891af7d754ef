"""Rows that nobody should write leave a run's exact statistics as they are, in every reduction."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hushrank.pipelines.reduce import reduce
from hushrank.transforms.common.epsilons import AnswerBudget
from hushrank.transforms.common.schema import Ties
from tests.pipelines.reduce import test_reduce_comparisons as comparisons
from tests.pipelines.reduce import test_reduce_private as private
from tests.pipelines.reduce import test_reduce_rankings as rankings
from tests.pipelines.reduce import test_reduce_responses as responses

M = 200
WILD_NAMES = [b"Jos\xe9", b"\xff\xfe", b"x" * 3_000_000, b"\xed\xa0\x80", b"", None]


def log_of(n_wild: int) -> pa.Table:
    """Columns of every kind; the last rows are named, ranked, dated and weighed beyond reason."""
    names = [f"p{n // 5}".encode() for n in range(M)] + WILD_NAMES[:n_wild]
    text = pa.array(names, pa.binary())
    who = pa.Array.from_buffers(pa.string(), len(text), text.buffers())  # which checks nothing
    m = M + n_wild
    item = np.arange(m) % 5
    rank = 1_763_600_000_000_000_000 + np.arange(m)
    rank[M:] = [2**63 - 1, -(2**63), 2**53 + 1, 0, 1, -1][:n_wild]
    epsilon = np.ones(m)
    epsilon[M:] = [np.nan, np.inf, -np.inf, 0, -1, 1e308][:n_wild]
    return pa.table({
        "who": who, "user": who, "contest": pa.array(np.arange(m) // 5), "item": item,
        "rank": rank, "a": item, "b": (item + 1) % 5, "y": np.where(item > 2, 1.0, -1.0),
        "right": item % 2, "eps": epsilon, "at": pa.array(rank).cast(pa.timestamp("ms")),
    })  # fmt: skip


Job = Callable[[Path, Path], Any]
CONTESTS = dataclasses.replace(rankings.RANKS, contest="contest")
JOBS: dict[str, Job] = {
    "comparisons": comparisons.a_job,
    "answers": lambda log, work: private.a_job(
        log, work, AnswerBudget(per_user=True), ties=Ties.DROP, already_private=True
    ),
    "rankings": lambda log, work: rankings.a_job(log, work, columns=CONTESTS, max_rankings=40),
    "responses": lambda log, work: responses.a_job(log, work, order="at"),
}


@pytest.mark.parametrize("kind", JOBS)
def test_wild_rows_change_no_exact_statistic(tmp_path, kind) -> None:
    exact = {}
    for n_wild in (0, len(WILD_NAMES)):
        log, work = tmp_path / f"{n_wild}.parquet", tmp_path / f"{n_wild}"
        pq.write_table(log_of(n_wild), log)
        reduce.run(JOBS[kind](log, work))
        with np.load(work / "exact.npz") as stored:
            exact[n_wild] = dict(stored)
        tally = json.loads((work / "diagnostics.json").read_text())
        assert (tally["rows_read"], tally["rows_rejected"]) == (M + n_wild, n_wild)
    plain, wild = exact.values()
    assert plain.keys() == wild.keys()
    for name, array in plain.items():
        assert (wild[name] == array).all(), name
    assert any(array.any() for array in plain.values())
