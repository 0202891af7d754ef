"""A night of a stream that meters squares: the same counts and people however rows are divided."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import apache_beam as beam
import numpy as np
import pytest

from hushrank.pipelines.engine.options import pipeline_options
from hushrank.pipelines.engine.runner import MemoryPlan
from hushrank.pipelines.reduce import reduce
from hushrank.pipelines.reduce.reduction_job import Statistic
from hushrank.privacy.stream_encoder import SquareTerms
from tests.pipelines.reduce.test_reduce_comparisons import write
from tests.pipelines.reduce.test_reduce_row_stream import counted, people_of
from tests.pipelines.reduce.test_reduce_stream import ROWS, a_night, a_night_job

NIGHTS = 4
TERMS = SquareTerms(nights=NIGHTS, squares=16, gap=2, burst=6)
SQUARES = {
    "statistic": Statistic.WIN_LOSS_COUNTS,
    "distinct_pairs": True,
    "max_contributions": 3,
}


def metered(folder: Path, work: Path, stream: Path, night: int, **changes):
    job = a_night_job(folder, work, stream, night, **SQUARES, **changes)
    return dataclasses.replace(job, stream=dataclasses.replace(job.stream, terms=TERMS))


def as_lists(stream: Path, night: int) -> list[list[int]]:
    return [column.tolist() for column in people_of(stream, night).columns]


def test_nobody_uses_more_or_counts_more_closely_than_the_terms_say(tmp_path):
    used: dict = {}
    last: dict = {}
    for night in range(NIGHTS):
        write(a_night(night), tmp_path / f"{night}", 2, 90, night)
        work = tmp_path / f"w{night}"
        job = metered(tmp_path / f"{night}", work, tmp_path / "s", night)
        counts = counted(job, tmp_path / "s", night, reduce.run)
        people = people_of(tmp_path / "s", night)
        assert people.times.max() <= TERMS.allowance(night)
        rows = 0
        for first, second, when, times in zip(*as_lists(tmp_path / "s", night), strict=True):
            who, charge = (first, second), times - used.get((first, second), 0)
            number = (int(np.sqrt(4 * charge + 1)) - 1) // 2
            assert number * number + number == charge
            assert (when == night) == (number > 0)
            assert when - last.get(who, when - TERMS.gap) >= TERMS.gap or not number
            rows, used[who], last[who] = rows + number, times, when
        tally = json.loads((work / "diagnostics.json").read_text())
        assert rows == tally["rows_kept"] > 0
        assert tally["rows_with_owner"] == ROWS
        assert counts.shape == (2, len(job.catalogue.names))
        assert counts.sum(axis=1).tolist() == [2 * rows] * 2  # half a win is 1


@pytest.mark.parametrize("setting", ["partitions", "crowded", "machines"])
def test_counts_and_people_are_the_same_however_rows_are_divided(tmp_path, setting, monkeypatch):
    for night in range(3):
        write(a_night(night), tmp_path / f"{night}", 3, 40, night)
    plain = [
        counted(
            metered(tmp_path / f"{night}", tmp_path / f"p{night}", tmp_path / "plain", night),
            tmp_path / "plain", night,
        )
        for night in range(3)
    ]  # fmt: skip
    shuffle = "hushrank.transforms.comparisons.shuffle"
    for night in range(3):
        if setting == "crowded":
            plan = MemoryPlan(waiting_bytes=1 << 20, rows_at_once=9)
            monkeypatch.setattr(MemoryPlan, "of", lambda *_, plan=plan: plan)
        else:  # other partitions every night
            monkeypatch.setattr(f"{shuffle}.BUCKET_ROWS", [40, 10, 200][night])
            monkeypatch.setattr(f"{shuffle}.MAX_LOCAL_PARTITION_BITS", [3, 2, 1][night])
        job = metered(tmp_path / f"{night}", tmp_path / f"w{night}", tmp_path / "s", night)
        if setting == "machines":  # whose workers share no file but the stream's
            with beam.Pipeline(options=pipeline_options()) as pipeline:
                reduce.build(pipeline, job)
        else:
            reduce.run(job)
        found = counted(job, tmp_path / "s", night, lambda _: None)
        np.testing.assert_array_equal(found, plain[night])
        assert as_lists(tmp_path / "s", night) == as_lists(tmp_path / "plain", night)


def test_a_night_that_is_repeated_gives_the_same(tmp_path):
    """As after a crash: the night before is there until the next one is released."""
    for night in range(3):
        write(a_night(night), tmp_path / f"{night}", 1, 400, 0)
        found = []
        for time in range(2):
            work = tmp_path / f"w{night}{time}"
            job = metered(tmp_path / f"{night}", work, tmp_path / "s", night)
            counts = counted(job, tmp_path / "s", night)
            found.append((counts.tolist(), as_lists(tmp_path / "s", night)))
        assert found[0] == found[1]


def test_squares_are_metered_for_wins_and_losses_on_distinct_pairs_alone(tmp_path):
    write(a_night(0), tmp_path / "0", 1, 400, 0)
    job = metered(tmp_path / "0", tmp_path / "w", tmp_path / "s", 0)
    bounds = dataclasses.replace(job.bounds, distinct_pairs=False)
    for changes in ({"statistic": Statistic.PAIR_COUNTS}, {"bounds": bounds}):
        with pytest.raises(ValueError, match="squares for wins and losses"):
            dataclasses.replace(job, **changes)
