"""The rows of one day: every kind of time column, summer time, and rows without a time."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushrank.transforms.common.schema import ComparisonColumns, InputError
from hushrank.transforms.storage.files import NoFilesError, check_files, list_files, read_schema
from hushrank.transforms.storage.read import plan_splits, read_batches
from hushrank.transforms.storage.window import Window

BERLIN = ZoneInfo("Europe/Berlin")
NIGHT = date(2026, 11, 20)  # in winter: from 23:00 UTC of the 19th
COLUMNS = ComparisonColumns(
    left="left", right="right", outcome="outcome", winner=None, user="user", event=None
)
WINDOW = Window.of("at", NIGHT, BERLIN)
INSTANTS = [
    datetime(2026, 11, 19, 22, 59, 59, 999_999, UTC),
    datetime(2026, 11, 19, 23, tzinfo=UTC),
    datetime(2026, 11, 20, 22, 59, 59, 999_999, UTC),
    datetime(2026, 11, 20, 23, tzinfo=UTC),
]
INSIDE = [False, True, True, False]


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_instants_are_compared_with_midnight_of_the_zone(unit, zone):
    times = pa.array(INSTANTS, pa.timestamp("us", "UTC")).cast(pa.timestamp(unit, zone), safe=False)
    inside, broken = WINDOW.select(times)
    assert inside.tolist() == INSIDE
    assert not broken.any()


def test_times_without_a_zone_are_clocks_on_the_wall_and_dates_are_days():
    wall = [datetime(2026, 11, 19, 23, 59, 59), datetime(2026, 11, 20), datetime(2026, 11, 21)]
    assert WINDOW.select(pa.array(wall))[0].tolist() == [False, True, False]
    days = [date(2026, 11, 19), NIGHT, None]
    for kind in (pa.date32(), pa.date64()):
        inside, broken = WINDOW.select(pa.array(days, kind))
        assert inside.tolist() == [False, True, False]
        assert broken.tolist() == [False, False, True]


@pytest.mark.parametrize(("epoch", "scale"), [("s", 1), ("ms", 1e3), ("us", 1e6), ("ns", 1e9)])
def test_integers_count_from_1970_as_numbers_and_as_text(epoch, scale):
    window = Window.of("at", NIGHT, BERLIN, epoch)
    counts = [int(moment.timestamp()) * int(scale) for moment in INSTANTS]
    assert window.select(pa.array(counts))[0].tolist() == INSIDE
    inside, broken = window.select(pa.array([*map(str, counts), "soon"]))
    assert inside.tolist() == [*INSIDE, False]
    assert broken.tolist() == [False] * 4 + [True]


def test_texts_of_counts_and_of_times_may_stand_in_one_column():
    window = Window.of("at", NIGHT, BERLIN, "s")
    count = str(int(INSTANTS[INSIDE.index(True)].timestamp()))
    texts = pa.array([count, "2026-11-20", "2026-11-21", "0", "soon", None])
    inside, broken = window.select(texts)
    assert inside.tolist() == [True, True, False, False, False, False]
    assert broken.tolist() == [False, False, False, False, True, True]


def test_text_with_and_without_an_offset():
    texts = {
        "2026-11-19T23:00:00Z": True,
        "2026-11-19 22:59:59.999+00:00": False,
        "2026-11-20T00:30:00+0100": True,
        "2026-11-20 23:59:59,9": True,
        "2026-11-21": False,
        "2026-11-20": True,
        "2026-11-20T18:00-05:00": False,
        " 2026-11-20T17:59 -05:00 ": True,
        "2026-11-19 23:00:00+00": True,
        "2026-11-19 22:59:59+00": False,
        "2026-11-19 23:00:00 UTC": True,
        "2026-11-20T23:00:00utc": False,
        "2026-11-20 00:30:00+01": True,
        "2026-11-19T19:29:59-03:30": False,
        "2026-11-19T19:30:00-03:30": True,
        "2026-11-20T19:29:59-0330": True,
        "2026-11-20T19:30:00-0330": False,
    }
    inside, broken = WINDOW.select(pa.array(list(texts)).dictionary_encode())
    assert dict(zip(texts, inside.tolist(), strict=True)) == texts
    assert not broken.any()
    wrong = ["2026-11-31", "2026-13-01", "20.11.2026", "", None, "2026-11-20T24:00", "0"]
    inside, broken = WINDOW.select(pa.array(wrong))
    assert not inside.any()
    assert broken.all()


def test_a_row_group_is_left_out_only_where_no_time_of_it_can_be_in_the_night():
    before, after = NIGHT - timedelta(days=1), NIGHT + timedelta(days=1)
    days = {(before, before): True, (before, NIGHT): False, (before, after): False}
    days |= {(NIGHT, NIGHT): False, (NIGHT, after): False, (after, after): True}
    instants = {
        (INSTANTS[0], INSTANTS[0]): True,
        (INSTANTS[0], INSTANTS[1]): False,
        (INSTANTS[0], INSTANTS[3]): False,
        (INSTANTS[2], INSTANTS[3]): False,
        (INSTANTS[3], INSTANTS[3]): True,
    }
    midnight = datetime(2026, 11, 20)
    walls = {
        (midnight - timedelta(days=1), midnight - timedelta(microseconds=1)): True,
        (midnight - timedelta(days=1), midnight): False,
        (midnight + timedelta(hours=23), midnight + timedelta(days=2)): False,
        (midnight + timedelta(days=1), midnight + timedelta(days=2)): True,
    }
    kinds = {"us": pa.timestamp("us"), "ns": pa.timestamp("ns", "UTC"), "day": pa.date32()}
    for name, cases in {"day": days, "ns": instants, "us": walls}.items():
        for ends, missed in cases.items():
            lowest, highest = (pa.scalar(end, kinds[name]).value for end in ends)
            assert WINDOW.misses(lowest, highest, kinds[name]) is missed, ends
    assert not WINDOW.misses(0, 0, pa.int64())
    assert not WINDOW.misses(0, 0, pa.string())


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("night", [date(1, 1, 2), NIGHT, date(9999, 12, 30)])
def test_no_time_is_too_far_for_any_night(unit, night):
    """Nanoseconds end in 2262, the dates of Python in 9999."""
    window = Window.of("at", night, ZoneInfo("UTC"))
    for zone in (None, "UTC"):
        kind = pa.timestamp(unit, zone)
        ends = pa.array([-(2**63), 2**63 - 1], pa.int64()).view(kind)
        inside, broken = window.select(ends)
        assert not inside.any()
        assert not broken.any()
        assert not window.misses(-(2**63), 2**63 - 1, kind) or unit == "ns"
        assert window.misses(2**63 - 1, 2**63 - 1, kind)


def test_dates_in_milliseconds_are_compared_whole():
    """A date 2^32 days later is another one, though their days are equal in 32 bits."""
    day = 86_400_000
    tonight = pa.scalar(NIGHT, pa.date64()).value
    times = pa.array([tonight, tonight + 2**32 * day, tonight + day, None], pa.int64())
    inside, broken = WINDOW.select(times.view(pa.date64()))
    assert inside.tolist() == [True, False, False, False]
    assert broken.tolist() == [False, False, False, True]
    assert not WINDOW.misses(tonight, tonight, pa.date64())
    assert WINDOW.misses(tonight + day, tonight + day, pa.date64())


def test_a_column_in_a_struct_says_nothing_about_one_of_the_same_path(tmp_path):
    tonight = pa.array([datetime(2026, 11, 20, 12, tzinfo=UTC)] * 2, pa.timestamp("us", "UTC"))
    far = pa.array([0, 0], pa.int64()).view(tonight.type)
    struct = pa.StructArray.from_arrays([far], ["at"])
    rows = table(tonight).rename_columns({"at": "x.at"}).append_column("x", struct)
    for columns in (rows, rows.select(list(reversed(rows.column_names)))):
        pq.write_table(columns, tmp_path / "log.parquet")
        users, _, splits = rows_of(tmp_path / "log.parquet", replace(WINDOW, column="x.at"))
        assert users == [0, 1]
        assert splits[0].row_groups == (0,)


@given(st.datetimes(datetime(2026, 1, 1), datetime(2026, 12, 30)))
def test_every_moment_lies_in_exactly_one_night_summer_time_or_not(wall):
    moment = wall.replace(tzinfo=UTC)
    times = pa.array([moment], pa.timestamp("us", "UTC"))
    text = pa.array([moment.isoformat()])
    around = [wall.date() + timedelta(days=days) for days in (-1, 0, 1)]
    hits = [day for day in around if Window.of("at", day, BERLIN).select(times)[0][0]]
    assert hits == [moment.astimezone(BERLIN).date()]
    assert [day for day in around if Window.of("at", day, BERLIN).select(text)[0][0]] == hits


def table(times: pa.Array) -> pa.Table:
    n = len(times)
    columns = {"left": [0] * n, "right": [1] * n, "outcome": [1] * n, "user": list(range(n))}
    return pa.table({**columns, "at": times})


def rows_of(path, window=WINDOW):
    (file,) = list_files([str(path)])
    file = type(file)(file.path, file.size, file.version, file.format, window)
    check_files([file], COLUMNS)
    splits = plan_splits(file, read_schema(file, COLUMNS), COLUMNS)
    batches = [batch for split in splits for batch in read_batches(split)]
    users = [user.as_py() for batch in batches for user in batch.rows.column("user")]
    assert all(batch.rows.schema.names == COLUMNS.names() for batch in batches)
    assert not any(batch.malformed for batch in batches)
    rejects = [row for batch in batches for table in batch.rejects for row in table.to_pylist()]
    return list(map(int, users)), rejects, splits


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl"])
def test_files_of_every_format_give_the_rows_of_the_night(tmp_path, ending):
    path = tmp_path / f"log.{ending}"
    rows = table(pa.array([*(moment.isoformat() for moment in INSTANTS), "late"]))
    if ending == "parquet":
        pq.write_table(rows, path)
    elif ending == "csv":
        pacsv.write_csv(rows, path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows.to_pylist()))
    users, rejects, _ = rows_of(path)
    assert users == [1, 2]
    (row,) = rejects
    assert row["at"] == "late"


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl"])
@pytest.mark.parametrize(("epoch", "scale"), [("s", 1.0), ("ms", 1e3)])
def test_decimal_counts_are_the_moments_in_which_they_lie(tmp_path, ending, epoch, scale):
    """As `tstamp: 1682351591.1322` of public logs: every row of them was lost before."""
    path = tmp_path / f"log.{ending}"
    midnight = INSTANTS[INSIDE.index(True)].timestamp() * scale
    times = [midnight - 0.25, midnight, midnight + 0.25, midnight + 86_400 * scale - 0.25]
    rows = table(pa.array([*times, midnight + 86_400 * scale, None]))
    if ending == "parquet":
        pq.write_table(rows, path)
    elif ending == "csv":
        pacsv.write_csv(rows, path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows.to_pylist()))
    users, rejects, _ = rows_of(path, Window.of("at", NIGHT, BERLIN, epoch))
    assert users == [1, 2, 3]
    assert [int(row["user"]) for row in rejects] == [5]


def test_floats_and_texts_of_decimal_counts_are_floored():
    window = Window.of("at", date(1970, 1, 1), ZoneInfo("UTC"), "s")
    counts = {"-0.5": False, "-1": False, "0.0": True, "-0.0": True, "86399.999999": True}
    counts |= {"86400.0": False, "8.6399999e+04": True, "8.64E4": False, "86399,9": True}
    inside, broken = window.select(pa.array(list(counts)))
    assert dict(zip(counts, inside.tolist(), strict=True)) == counts
    assert not broken.any()
    exact = [float(text.replace(",", ".")) for text in counts]
    for kind in (pa.float64(), pa.float32()):
        inside, broken = window.select(pa.array([*exact, float("nan"), float("inf"), None], kind))
        near = kind == pa.float32()  # 86399.999999 is 86400 there
        assert inside.tolist()[:4] == list(counts.values())[:4]
        assert near or inside.tolist() == [*counts.values(), False, False, False]
        assert broken.tolist() == [False] * len(exact) + [True] * 3
    late = pa.array(["1.7e+18", "1e99", "1e400", "1e-3", "0x10", "1.2.3", "NaN"])
    inside, broken = Window.of("at", date(2023, 11, 14), ZoneInfo("UTC"), "ns").select(late)
    assert inside.tolist() == [True, *[False] * 6]
    assert broken.tolist() == [False, False, *[True] * 5]


def test_row_groups_of_other_nights_are_not_read(tmp_path):
    start = datetime(2026, 11, 1, tzinfo=UTC)
    times = pa.array([start + timedelta(hours=hour) for hour in range(24 * 30)])
    pq.write_table(table(times), tmp_path / "log.parquet", row_group_size=24)
    users, rejects, splits = rows_of(tmp_path / "log.parquet")
    assert len(users) == 24
    assert rejects == []
    assert [split.row_groups for split in splits] == [(18, 19)]
    users, _, splits = rows_of(tmp_path / "log.parquet", Window.of("at", date(2020, 1, 1), BERLIN))
    assert users == []
    assert len(splits) == 1


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
def test_one_wild_time_leaves_the_rows_of_others(tmp_path, unit, zone):
    per_second = {"ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    tonight = int(datetime(2026, 11, 20, 12, tzinfo=UTC).timestamp()) * per_second
    for wild in (2**63 - 1, -(2**63), None):
        times = pa.array([tonight, wild, tonight], pa.int64()).cast(pa.timestamp(unit, zone))
        pq.write_table(table(times), tmp_path / "log.parquet")
        users, rejects, _ = rows_of(tmp_path / "log.parquet")
        assert users == [0, 2]
        assert [row["user"] for row in rejects] == ([1] if wild is None else [])


def test_dictionaries_of_times_are_not_written_out(tmp_path):
    texts = ["2026-11-20T12:00:00+01:00", "never", "2026-11-22"]
    times = pa.DictionaryArray.from_arrays(pa.array([2, 0, None, 1, 0]), pa.array(texts))
    inside, broken = WINDOW.select(times)
    assert inside.tolist() == [False, True, False, False, True]
    assert broken.tolist() == [False, False, True, True, False]


def test_the_column_may_be_missing_or_of_a_type_that_is_no_time(tmp_path):
    for times, window, message in (
        (pa.array([1.5]), WINDOW, "holds numbers. Say what they count since 1970: schedule.epoch"),
        (pa.array([True]), WINDOW, "has type bool; it must hold times, dates, or text"),
        (pa.array([1]), WINDOW, "holds integers. Say what they count since 1970: schedule.epoch"),
        (pa.array([1]), Window.of("when", NIGHT, BERLIN), "column when .* not found. Name another"),
    ):
        pq.write_table(table(times), tmp_path / "log.parquet")
        with pytest.raises(InputError, match=message):
            rows_of(tmp_path / "log.parquet", window)


def test_only_files_of_the_partition_are_listed(tmp_path):
    for day in ("2026-11-19", "2026-11-20"):
        folder = tmp_path / "log" / "country=de" / f"date={day}"
        folder.mkdir(parents=True)
        pq.write_table(table(pa.array(["x"])), folder / "part-0.parquet")
    (tmp_path / "log" / "country=de" / "date=2026-11-19" / "empty.csv").touch()
    (file,) = list_files([str(tmp_path / "log")], partition="date=2026-11-20")
    assert file.path.endswith("date=2026-11-20/part-0.parquet")
    with pytest.raises(NoFilesError, match="below a folder date=2026-11-21"):
        list_files([str(tmp_path / "log")], partition="date=2026-11-21")
