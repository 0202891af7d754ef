"""A night of a stream that meters rows: the same counts and people however the input is split."""

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
from hushrank.pipelines.reduce.stream_nights import keep_counted
from hushrank.privacy.stream_encoder import RowTerms
from hushrank.transforms.streams.people_files import People, open_people
from tests.flows.small_jobs import SMALL_JOBS
from tests.pipelines.reduce.test_reduce_comparisons import write
from tests.pipelines.reduce.test_reduce_stream import (
    ROWS,
    a_night,
    a_night_job,
    counts_of,
    digest_of,
)

NIGHTS = 4
TERMS = RowTerms(nights=NIGHTS, rows=6, gap=3, burst=3)
PAIRS = {"statistic": Statistic.PAIR_COUNTS, "distinct_pairs": True, "max_contributions": 3}


def metered(folder: Path, work: Path, stream: Path, night: int, **changes):
    job = a_night_job(folder, work, stream, night, **PAIRS, **changes)
    return dataclasses.replace(job, stream=dataclasses.replace(job.stream, terms=TERMS))


def counted(job, stream: Path, night: int, run=SMALL_JOBS.run) -> np.ndarray:
    run(job)
    keep_counted(job)
    return counts_of(stream, night)


def people_of(stream: Path, night: int) -> People:
    return open_people(str(stream), "s", night, digest_of(stream, night)).partition(0, 0)


def as_lists(people: People) -> list[list[int]]:
    recent = people.recent
    assert recent is not None
    order = np.lexsort((recent.pairs, recent.holders))
    columns = (*people.columns, recent.sizes, recent.pairs[order], recent.nights[order])
    return [column.tolist() for column in columns]


def test_nobody_counts_more_often_or_more_closely_than_the_terms_say(tmp_path):
    used, kept = 0, []
    for night in range(NIGHTS):
        write(a_night(night), tmp_path / f"{night}", 2, 90, night)
        work = tmp_path / f"w{night}"
        job = metered(tmp_path / f"{night}", work, tmp_path / "s", night)
        counts = counted(job, tmp_path / "s", night, reduce.run)
        people = people_of(tmp_path / "s", night)
        assert people.times.max() <= TERMS.allowance(night)
        kept.append(int(people.times.sum()) - used)
        used = int(people.times.sum())
        tally = json.loads((work / "diagnostics.json").read_text())
        assert counts.sum() == 2 * kept[-1] == 2 * tally["rows_kept"]  # half a win is 1
        assert tally["rows_with_owner"] == ROWS
        assert people.recent is not None
        tonight = people.recent.nights == night
        assert tonight.sum() == kept[-1]
        keys = people.recent.holders.astype(np.int64) << 32 | people.recent.pairs
        held = people.recent.nights.astype(int) > night - TERMS.gap + 1
        assert held.all()
        assert len(np.unique(keys)) == len(keys)  # no pair of a person twice within the gap
    assert min(kept) > 0


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
        keep_counted(job)
        np.testing.assert_array_equal(counts_of(tmp_path / "s", night), plain[night])
        assert as_lists(people_of(tmp_path / "s", night)) == as_lists(
            people_of(tmp_path / "plain", night)
        )


def test_a_night_that_is_repeated_gives_the_same(tmp_path):
    """As after a crash: the night before is there until the next one is released."""
    for night in range(2):
        write(a_night(night), tmp_path / f"{night}", 1, 400, 0)
        found = []
        for time in range(2):
            work = tmp_path / f"w{night}{time}"
            job = metered(tmp_path / f"{night}", work, tmp_path / "s", night)
            counts = counted(job, tmp_path / "s", night)
            found.append((counts.tolist(), as_lists(people_of(tmp_path / "s", night))))
        assert found[0] == found[1]


def test_rows_are_metered_for_distinct_pairs_alone(tmp_path):
    write(a_night(0), tmp_path / "0", 1, 400, 0)
    job = metered(tmp_path / "0", tmp_path / "w", tmp_path / "s", 0)
    bounds = dataclasses.replace(job.bounds, distinct_pairs=False)
    for changes in ({"statistic": Statistic.WIN_COUNTS}, {"bounds": bounds}):
        with pytest.raises(ValueError, match="metered for counts of pairs"):
            dataclasses.replace(job, **changes)
