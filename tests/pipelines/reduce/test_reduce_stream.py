"""A night of a stream counts the rows of those for whom it counts, however the input is split."""

from __future__ import annotations

import dataclasses
import itertools
import json
import shutil
import sys
import uuid
from pathlib import Path

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hushrank.pipelines.engine.options import pipeline_options
from hushrank.pipelines.engine.runner import MemoryPlan
from hushrank.pipelines.reduce import reduce
from hushrank.pipelines.reduce.reduction_job import NightOfStream
from hushrank.pipelines.reduce.stream_nights import keep_counted
from hushrank.privacy.keyed_hash import SecretKey
from hushrank.privacy.randomness import BitSource, BitsUsed, Purpose
from hushrank.privacy.stream_encoder import Terms
from hushrank.transforms.common.schema import InputError
from hushrank.transforms.streams.people_files import open_people
from tests.flows.small_jobs import SMALL_JOBS
from tests.pipelines.reduce.test_reduce_comparisons import N_ITEMS, a_job, write

TERMS = Terms(nights=7, participations=2, gap=2)
STREAM_KEY = SecretKey(bytes(range(32, 64)), BitSource.SEEDED)
PEOPLE, ROWS = 120, 260
ALL = 10_000  # rows of one person that count: all, so that counts do not depend on the key


def a_night(night: int, rows: int = ROWS) -> pa.Table:
    rng = np.random.default_rng(night)
    a = rng.integers(0, N_ITEMS, rows)
    b = (a + rng.integers(1, N_ITEMS, rows)) % N_ITEMS
    return pa.table(
        {
            "who": rng.integers(0, PEOPLE, rows) ** 2 // PEOPLE,
            "a": a,
            "b": b,
            "y": rng.choice([-1, 1], rows).astype(np.int8),
            "id": np.arange(rows),
        }
    )


def expected_wins(nights: list[pa.Table], terms: Terms = TERMS) -> list[np.ndarray]:
    """Twice the wins of each night (half a win is 1), one person at a time."""
    state: dict[int, tuple[int, int]] = {}
    found = []
    for night, log in enumerate(nights):
        columns = [log[name].to_numpy() for name in ("who", "a", "b", "y")]
        counted = set()
        for person in set(columns[0].tolist()):
            last, times = state.get(person, (-terms.gap, 0))
            if night - last >= terms.gap and times < terms.participations:
                counted.add(person)
                state[person] = (night, times + 1)
        who, a, b, y = columns
        winners = np.where(y > 0, a, b)[np.isin(who, sorted(counted))]
        found.append(2 * np.bincount(winners, minlength=N_ITEMS))
    return found


def a_night_job(folder: Path, work: Path, stream: Path, night: int, **changes):
    before = changes.pop("before", None)
    if before is None:
        before = digest_of(stream, night - 1) if night else ""
    job = a_job(folder, work, **{"max_contributions": ALL, **changes})
    of_stream = NightOfStream(
        stream="s", folder=str(stream), key=STREAM_KEY, terms=TERMS, night=night, before=before,
        attempt=uuid.uuid4().hex,
    )  # fmt: skip
    key = SecretKey(bytes([night]) * 32, BitSource.SEEDED)  # each night's own
    return dataclasses.replace(job, stream=of_stream, key=key)


def digest_of(stream: Path, night: int) -> str:
    """Of the people of the attempt whose counts were kept."""
    with np.load(stream / "cells" / f"{night:05d}.npz") as arrays:
        return str(arrays["people"])


def counts_of(stream: Path, night: int) -> np.ndarray:
    with np.load(stream / "cells" / f"{night:05d}.npz") as arrays:
        return arrays["counts"]


def wins(folder, work, stream, night, run=SMALL_JOBS.run, **changes) -> np.ndarray:
    """Counted by Beam's stand-in, as a run counts a small night."""
    job = a_night_job(folder, work, stream, night, **changes)
    run(job)
    keep_counted(job)
    return counts_of(stream, night)


def state_of(stream: Path, night: int) -> list[list[int]]:
    people = open_people(str(stream), "s", night, digest_of(stream, night)).partition(0, 0)
    return [column.tolist() for column in people.columns]


def test_nights_count_those_whose_night_counts(tmp_path):
    nights = [a_night(night) for night in range(4)]
    expected = expected_wins(nights)
    assert sum(map(sum, expected[:2])) < 2 * 2 * ROWS  # some are left out
    for night, log in enumerate(nights):
        write(log, tmp_path / f"{night}", 2, 90, night)
        work = tmp_path / f"w{night}"
        found = wins(tmp_path / f"{night}", work, tmp_path / "s", night, reduce.run)
        np.testing.assert_array_equal(found, expected[night])
    tally = json.loads((tmp_path / "w1" / "diagnostics.json").read_text())
    assert tally["rows_with_owner"] == ROWS
    assert tally["rows_kept"] == ROWS - tally["rows_of_nights_that_do_not_count"]
    assert expected[1].sum() == 2 * tally["rows_kept"]


@pytest.mark.parametrize("setting", ["partitions", "crowded", "machines"])
def test_counts_and_people_are_the_same_however_rows_are_divided(tmp_path, setting, monkeypatch):
    nights = [a_night(night) for night in range(3)]
    for night, log in enumerate(nights):
        write(log, tmp_path / f"{night}", 3, 40, night)
    plain = [
        wins(tmp_path / f"{night}", tmp_path / f"p{night}", tmp_path / "plain", night)
        for night in range(3)
    ]
    shuffle = "hushrank.transforms.comparisons.shuffle"
    for night in range(3):
        if setting == "crowded":
            plan = MemoryPlan(waiting_bytes=1 << 20, rows_at_once=9)
            monkeypatch.setattr(MemoryPlan, "of", lambda *_, plan=plan: plan)
        if setting != "crowded":  # other partitions every night
            monkeypatch.setattr(f"{shuffle}.BUCKET_ROWS", [40, 10, 200][night])
            monkeypatch.setattr(f"{shuffle}.MAX_LOCAL_PARTITION_BITS", [3, 2, 1][night])
        job = a_night_job(tmp_path / f"{night}", tmp_path / f"w{night}", tmp_path / "s", night)
        if setting == "machines":  # whose workers share no file but the stream's
            with beam.Pipeline(options=pipeline_options()) as pipeline:
                reduce.build(pipeline, job)
            kind = reduce.kind_of(job)
            kind.check(sum(split.rows for split in kind.splits()))
        else:
            reduce.run(job)
        keep_counted(job)
        found = counts_of(tmp_path / "s", night)
        np.testing.assert_array_equal(found, plain[night])
        assert state_of(tmp_path / "s", night) == state_of(tmp_path / "plain", night)


def test_a_night_that_is_repeated_gives_the_same(tmp_path):
    """As after a crash: the night before is there until the next one is released."""
    for night in range(2):
        write(a_night(night), tmp_path / f"{night}", 1, 400, 0)
        found = [
            wins(tmp_path / f"{night}", tmp_path / f"w{night}{time}", tmp_path / "s", night)
            for time in range(2)
        ]
        np.testing.assert_array_equal(*found)


def test_a_killed_night_leaves_the_night_before(tmp_path, monkeypatch):
    for night in range(2):
        write(a_night(night), tmp_path / f"{night}", 1, 400, 0)
    wins(tmp_path / "0", tmp_path / "w0", tmp_path / "s", 0, reduce.run)
    before = state_of(tmp_path / "s", 0)
    finish = "hushrank.pipelines.reduce.stream_nights.finish_people"
    with monkeypatch.context() as killed:
        killed.setattr(finish, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            wins(tmp_path / "1", tmp_path / "w1", tmp_path / "s", 1, reduce.run)
    assert state_of(tmp_path / "s", 0) == before
    with pytest.raises(FileNotFoundError):
        digest_of(tmp_path / "s", 1)
    expected = expected_wins([a_night(0), a_night(1)])
    again = wins(tmp_path / "1", tmp_path / "w1", tmp_path / "s", 1, reduce.run)
    np.testing.assert_array_equal(again, expected[1])


def test_a_night_before_whose_people_are_missing_or_others_is_refused(tmp_path):
    write(a_night(0), tmp_path / "0", 1, 400, 0)
    with pytest.raises(InputError, match="never finished"):
        wins(tmp_path / "0", tmp_path / "w", tmp_path / "s", 3, before="0" * 64)
    wins(tmp_path / "0", tmp_path / "w", tmp_path / "s", 0)
    digest = digest_of(tmp_path / "s", 0)
    with pytest.raises(InputError, match="older copy"):
        wins(tmp_path / "0", tmp_path / "w", tmp_path / "s", 1, before="0" * 64)
    wins(tmp_path / "0", tmp_path / "w", tmp_path / "s", 1, before=digest)
    with pytest.raises(ValueError, match="night must be between 0 and 6, got 7"):
        a_night_job(tmp_path / "0", tmp_path / "w", tmp_path / "s", 7, before=digest)


def test_one_person_with_too_many_rows_is_bounded_on_a_night_that_counts(tmp_path):
    log = a_night(0).set_column(0, "who", pa.array(np.zeros(ROWS, np.int64)))
    write(log, tmp_path / "0", 1, 400, 0)
    counts = [
        wins(tmp_path / "0", tmp_path / f"w{night}", tmp_path / "s", night, max_contributions=5)
        for night in range(5)
    ]
    assert [int(each.sum()) for each in counts] == [10, 0, 10, 0, 0]


def test_events_of_people_who_do_not_count_are_merged_and_left_out(tmp_path):
    log = pa.concat_tables([a_night(0)] * 2)  # every row twice, with its event
    write(log, tmp_path / "0", 1, 400, 0)
    first, second = (
        wins(tmp_path / "0", tmp_path / f"w{night}", tmp_path / "s", night, event="id")
        for night in range(2)
    )
    np.testing.assert_array_equal(first, expected_wins([a_night(0)])[0])
    assert second.sum() == 0


def test_bits_of_both_keys_are_told_and_streams_are_of_people(tmp_path):
    write(a_night(0), tmp_path / "0", 1, 400, 0)
    job = a_night_job(tmp_path / "0", tmp_path / "w", tmp_path / "s", 0)
    safe = dataclasses.replace(job, key=SecretKey(bytes(32), BitSource.SYSTEM))
    both = [BitSource.SYSTEM, BitSource.SEEDED]
    assert safe.bits == BitsUsed.of(Purpose.ROW_CHOICE, both)
    assert not safe.bits.safe
    with pytest.raises(ValueError, match="unit: user"):
        dataclasses.replace(job, bounds=dataclasses.replace(job.bounds, max_contributions=None))


def test_a_state_folder_that_is_copied_back_is_refused(tmp_path):
    write(a_night(0), tmp_path / "0", 1, 400, 0)
    wins(tmp_path / "0", tmp_path / "w", tmp_path / "s", 0)
    people = tmp_path / "s" / "people"
    wins(tmp_path / "0", tmp_path / "w", tmp_path / "s", 1)
    shutil.rmtree(people / "00001")
    shutil.copytree(people / "00000", people / "00001")
    with pytest.raises(InputError, match="older copy"):
        wins(tmp_path / "0", tmp_path / "w", tmp_path / "s", 2)
    assert pq.read_table(tmp_path / "0" / "0.parquet").num_rows == ROWS  # the input is untouched


NAMED = [pa.int8(), pa.uint64(), pa.float64(), pa.string(), pa.binary(), pa.large_string()]


def rows_of_one_person(kind: pa.DataType) -> pa.Table:
    """Five rows of person 7 with five events, which the item 0 wins."""
    texts = not (pa.types.is_integer(kind) or pa.types.is_floating(kind))
    rows = {"a": [0] * 5, "b": [1] * 5, "y": pa.array([1] * 5, pa.int8()), "id": range(5)}
    user = pa.array(["7" if texts else 7] * 5).cast(kind)
    return pa.table({"who": user, **{name: list(each) for name, each in rows.items()}})


@pytest.mark.parametrize(
    ("first", "second"),
    [*itertools.pairwise([*NAMED, NAMED[0]]), *zip(NAMED[:3], NAMED[3:], strict=True)],
)
def test_a_person_counts_once_whatever_the_type_of_their_name(tmp_path, monkeypatch, first, second):
    terms = Terms(nights=2, participations=1, gap=1)
    monkeypatch.setattr(sys.modules[__name__], "TERMS", terms)
    shown = []
    for night, kind in enumerate((first, second)):
        folder = tmp_path / f"{night}"
        folder.mkdir()
        pq.write_table(rows_of_one_person(kind), folder / "rows.parquet")
        work = tmp_path / f"w{night}"
        shown.append(wins(folder, work, tmp_path / "s", night, max_contributions=5).sum())
    assert np.cumsum(shown).tolist() == [2 * 5, 2 * 5]  # half a win is 1


def test_a_person_and_an_event_are_one_in_files_of_several_types(tmp_path):
    (tmp_path / "0").mkdir()
    for number, kind in enumerate(NAMED):
        rows = rows_of_one_person(kind)
        events = [pa.int64(), pa.string(), pa.float64()][number % 3]
        rows = rows.set_column(4, "id", rows["id"].cast(events))
        pq.write_table(rows, tmp_path / "0" / f"{number}.parquet")
    found = [
        wins(tmp_path / "0", tmp_path / f"w{event}", tmp_path / f"s{event}", 0, **limits).sum()
        for event, limits in (("", {"max_contributions": 5}), ("id", {"event": "id"}))
    ]
    assert found == [2 * 5, 2 * 5]


def test_one_text_among_numbers_changes_what_nobody_else_counts(tmp_path):
    """`pandas.read_csv` makes all of a column text where one value is."""
    rows = {"a": [0] * 50, "b": [1] * 50, "y": [1] * 50, "id": list(range(50))}
    logs = [pa.table({"who": list(range(50)), **rows})]
    more = {name: [*values, values[0]] for name, values in rows.items()}
    logs.append(pa.table({"who": [*map(str, range(50)), "anna"], **more}))
    found = []
    for night, log in enumerate(logs):
        (tmp_path / f"{night}").mkdir()
        pq.write_table(log, tmp_path / f"{night}" / "rows.parquet")
        wins(tmp_path / f"{night}", tmp_path / f"w{night}", tmp_path / "s", night)
        found.append(sorted(state_of(tmp_path / "s", night)[3]))
    assert found == [[1] * 50, [1] * 51]  # the gap of two nights leaves all but anna out
