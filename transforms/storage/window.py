"""Rows of one day: those whose own time lies between two public moments.

Whether a row is kept follows from that row and the configuration alone. So the day's rows of two
adjacent inputs differ by no more than the inputs do, and a guarantee for the kept rows is a
guarantee for all rows.

Files that a path of the input names: local files, objects of a store, or parts of a table.

References:
    [Parquet] Apache Parquet. Parquet Format: parquet.thrift, `LogicalType`. 2023.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path, PurePath, PurePosixPath
from typing import Any, Literal, Self
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from hushrank.transforms import system
from hushrank.transforms.common.schema import InputError, by_distinct, is_text, to_numpy, to_text
from hushrank.transforms.storage.places import CloudPath, Listed, is_cloud
from hushrank.transforms.tables.names import (
    MAGIC,
    DataFile,
    ServedTable,
    as_regex,
    is_object,
    is_table,
)

Epoch = Literal["s", "ms", "us", "ns"]

_UNITS = {"milliseconds": "ms", "microseconds": "us", "nanoseconds": "ns"}  # names in [Parquet]
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_DAY = timedelta(days=1)
_DAY_SECONDS = 86_400
_EPOCH = date(1970, 1, 1)
# Fractions of a second are ignored, because both ends of a window are whole seconds.
_TIME = (
    r"^(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)"
    r"(?:[T ](?P<hour>[01]\d|2[0-3]):(?P<minute>[0-5]\d)(?::(?P<second>[0-5]\d)(?:[.,]\d+)?)?"
    r" ?(?P<zone>[Zz]|[Uu][Tt][Cc]|[+-]\d\d(?::?\d\d)?)?)?$"
)
# Counts since 1970: whole or decimal, and floats as programs write large ones.
_COUNT = r"^(?P<whole>-?(?:\d{1,18}|[1-8]\d{18}))(?:[.,](?P<part>\d*))?$"
_FLOAT = r"^-?\d(?:\.\d+)?[eE]\+?\d{1,2}$"

Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Window:
    """Day `night` in a time zone, as a condition on the column `column`.

    Times with an offset are compared with the moments `start` and `end`. Times without an offset
    are compared with local clock time, midnight to midnight.

    Attributes:
        start, end: the half-open span [start, end), with time zones.
        epoch: the unit in which numbers, also in text, count since 1970, UTC; None: numbers are not
            times. What a number has behind the point is less than a unit, so it decides nothing.
    """

    column: str
    night: date
    start: datetime
    end: datetime
    epoch: Epoch | None = None

    @classmethod
    def of(cls, column: str, night: date, zone: ZoneInfo, epoch: Epoch | None = None) -> Self:
        """Build the window from midnight of `night` to the next midnight, on the clocks of
        `zone`."""
        start, end = (
            datetime.combine(day, time(), zone).astimezone(UTC) for day in (night, night + _DAY)
        )
        return cls(column, night, start, end, epoch)

    def check(self, path: str, schema: pa.Schema) -> None:
        """Refuse a file whose schema has no such column of times.

        Args:
            path: path of the file, for the message.
            schema: schema of all columns of the file.

        Raises:
            InputError: the column is missing, occurs twice, or has another type.
        """
        found = schema.names.count(self.column)
        if found != 1:
            problem = "not found" if found == 0 else "occurs twice"
            raise InputError(
                f"{path}: column {self.column} (schedule.window) {problem}. Name another column, or"
                " correct the file."
            )
        kind = schema.field(self.column).type
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        numbers = "integers" if pa.types.is_integer(kind) else "numbers"
        if (pa.types.is_integer(kind) or pa.types.is_floating(kind)) and self.epoch is None:
            raise InputError(
                f"{path}: column {self.column} (schedule.window) holds {numbers}. Say what they"
                " count since 1970: schedule.epoch: s, ms, us or ns."
            )
        times = (
            *(pa.types.is_timestamp, pa.types.is_date, pa.types.is_integer),
            *(pa.types.is_floating, is_text),
        )
        if not any(is_kind(kind) for is_kind in times):
            raise InputError(
                f"{path}: column {self.column} (schedule.window) has type {kind}; it must hold"
                " times, dates, or text such as 2026-11-20T18:30:00+01:00."
            )

    def select(self, times: pa.Array) -> tuple[Flags, Flags]:
        """Mark the `times` that lie in the window, and those that are not times.

        Args:
            times: values of a type that `check` accepts.

        Returns:
            Two arrays of the length of `times`; no entry is true in both.
        """
        if pa.types.is_dictionary(times.type):
            found = by_distinct(
                times, lambda each: np.column_stack(self.select(each)), (False, True)
            )
            return found[:, 0], found[:, 1]
        if is_text(times.type):
            return self._select_text(to_text(times))
        if pa.types.is_floating(times.type):
            return self._select_floats(times)
        if pa.types.is_integer(times.type):
            times = times.cast(pa.int64(), safe=False).cast(pa.timestamp(self.epoch, "UTC"))
        first, end = self._bounds(times.type)
        width = pa.int32() if pa.types.is_date32(times.type) else pa.int64()
        count, missing = to_numpy(pc.fill_null(times.view(width), 0)), to_numpy(pc.is_null(times))
        return (count >= first) & (count < end) & ~missing, missing

    def misses(self, lowest: int, highest: int, kind: pa.DataType) -> bool:
        """Whether no time from `lowest` to `highest` lies in the window; False if unsure.

        Args:
            lowest, highest: ends as a column of type `kind` stores them: integers, because Python
                has no dates before year 1 or after 9999.
            kind: type of the column; times in other types than dates and timestamps are unsure.
        """
        if not (pa.types.is_date(kind) or pa.types.is_timestamp(kind)):
            return False
        first, end = self._bounds(kind)
        return highest < first or lowest >= end

    def _bounds(self, kind: pa.DataType) -> tuple[int, int]:
        """Integers that a column of dates or timestamps stores for the window's start and end.

        The bounds are half-open, as the window is.
        """
        day = (self.night - _EPOCH).days
        if pa.types.is_date32(kind):
            return day, day + 1
        unit = "ms" if pa.types.is_date64(kind) else kind.unit
        if pa.types.is_timestamp(kind) and kind.tz is not None:
            ends = int(self.start.timestamp()), int(self.end.timestamp())
        else:
            ends = day * _DAY_SECONDS, (day + 1) * _DAY_SECONDS
        return ends[0] * _PER_SECOND[unit], ends[1] * _PER_SECOND[unit]

    def _select_text(self, texts: pa.Array) -> tuple[Flags, Flags]:
        inside, unreadable = self._select_iso(texts)
        if self.epoch is not None:
            counted, no_count = self._select_digits(texts)
            return inside | counted, unreadable & no_count
        return inside, unreadable

    def _select_iso(self, texts: pa.Array) -> tuple[Flags, Flags]:
        parts = pc.extract_regex(texts, _TIME)
        matched = to_numpy(pc.is_valid(parts))
        year, month, day, hour, minute, second = (
            _whole(pc.struct_field(parts, name))
            for name in ("year", "month", "day", "hour", "minute", "second")
        )
        months = ((year - 1970) * 12 + month - 1).astype("datetime64[M]")
        days = months.astype("datetime64[D]") + (day - 1)
        # The 31st of a month with 30 days is a day of the next month.
        valid = matched & (month >= 1) & (month <= 12) & (day >= 1)
        valid &= days.astype("datetime64[M]") == months
        moment = days.astype(np.int64) * _DAY_SECONDS + hour * 3600 + minute * 60 + second
        zone = pc.fill_null(pc.struct_field(parts, "zone"), "")
        midnight = (self.night - _EPOCH).days * _DAY_SECONDS
        on_the_wall = (moment >= midnight) & (moment < midnight + _DAY_SECONDS)
        moment = moment - _offset(zone)
        absolute = (moment >= self.start.timestamp()) & (moment < self.end.timestamp())
        inside = np.where(to_numpy(pc.equal(zone, "")), on_the_wall, absolute)
        return valid & inside, ~valid

    def _select_digits(self, texts: pa.Array) -> tuple[Flags, Flags]:
        parts = pc.extract_regex(texts, _COUNT)
        valid = to_numpy(pc.is_valid(parts))
        whole = pc.fill_null(pc.struct_field(parts, "whole"), "0")
        part = pc.fill_null(pc.struct_field(parts, "part"), "")
        below = to_numpy(pc.starts_with(whole, "-")) & (to_numpy(pc.utf8_trim(part, "0")) != "")
        moment = to_numpy(whole.cast(pa.int64())) - below  # the unit in which it lies
        start, end = self._counts()
        inside = valid & (moment >= start) & (moment < end)
        spelt = to_numpy(pc.fill_null(pc.match_substring_regex(texts, _FLOAT), False))
        if spelt.any():
            floats = pc.if_else(pa.array(spelt), texts, "nan").cast(pa.float64())
            counted, no_count = self._select_floats(floats)
            return inside | counted, ~valid & no_count
        return inside, ~valid

    def _select_floats(self, counts: pa.Array) -> tuple[Flags, Flags]:
        count = to_numpy(pc.fill_null(counts.cast(pa.float64()), np.nan))
        start, end = self._counts()  # floats hold both exactly: seconds times a power of ten
        return (count >= start) & (count < end), ~np.isfinite(count)

    def _counts(self) -> tuple[int, int]:
        """Window in units of `epoch` since 1970, half-open."""
        scale = _PER_SECOND[self.epoch or "s"]
        return int(self.start.timestamp()) * scale, int(self.end.timestamp()) * scale


def _whole(digits: pa.Array) -> NDArray[np.int64]:
    """Read the integers that `digits` spell; 0 for an empty text."""
    empty = pc.fill_null(pc.equal(digits, ""), True)
    spelt: NDArray[np.int64] = to_numpy(pc.if_else(empty, "0", digits).cast(pa.int64()))
    return spelt


def _offset(zone: pa.Array) -> NDArray[np.int64]:
    """Seconds east of UTC, for `Z`, `+01:00`, `-0330` or an empty text."""
    digits = pc.replace_substring_regex(zone, "[^0-9]", "")
    hours, minutes = (_whole(pc.utf8_slice_codeunits(digits, *span)) for span in ((0, 2), (2, 4)))
    seconds = hours * 3600 + minutes * 60
    return np.where(to_numpy(pc.starts_with(zone, "-")), -seconds, seconds)


def misses_night(footer: pq.FileMetaData, group: int, window: Window, times: pa.Field) -> bool:
    """Whether the statistics of a row group show that all its times lie outside `window`.

    Args:
        footer: footer of the file.
        group: number of the row group.
        window: the night.
        times: the column of times, with the type in which its rows are read.
    """
    metadata = footer.row_group(group)
    columns = [metadata.column(place) for place in range(metadata.num_columns)]
    found = [column for column in columns if column.path_in_schema == times.name]
    known = found[0].statistics if len(found) == 1 else None
    # Rows without a time are set aside, so a group with such rows must be read.
    if known is None or not known.has_min_max or known.null_count != 0:
        return False
    kind = _stored_times(json.loads(known.logical_type.to_json()), times.type)
    return kind is not None and window.misses(known.min_raw, known.max_raw, kind)


def _stored_times(logical: Mapping[str, Any], read: pa.DataType) -> pa.DataType | None:
    """Return the type of stored times or dates, by their logical type in [Parquet]; None: another.

    A file may be written with a note that times are to be read in another unit than it stores.
    """
    if logical["Type"] == "Date" and pa.types.is_date(read):
        return pa.date32()
    if logical["Type"] == "Timestamp" and pa.types.is_timestamp(read):
        return pa.timestamp(_UNITS[logical["timeUnit"]], read.tz)
    return None


DELTA_LOG, ICEBERG_METADATA = "_delta_log", ".metadata.json"
# All parts of a night that a collector writes carry its first moment as their time, and those with
# few answers often have one size. A random id tells them apart; a copy under another name keeps it.
_PART = "hushrank part"
_STATED_ID = re.compile(rb"hushrank part ([0-9a-f]{16})\b")
_TAIL_BYTES = 1 << 16  # metadata stand at the end of a footer, and few bytes a column follow

IsInput = Callable[[PurePath], bool]


@dataclass(frozen=True, slots=True)
class Match:
    """File, or a table whose rows a service sends.

    Attributes:
        path, size, version: together they identify the content.
        table: name of its part of a table; None: a file that is its own.
        md5: digest of the bytes of an object, if the store states it.
    """

    path: str
    size: int
    version: str
    table: DataFile | ServedTable | None = None
    md5: str = ""


def matches(path: str, is_input: IsInput, times: str | None) -> list[Match]:
    """List the files that `path` names; empty if it names none.

    Args:
        path: a file, a folder, a pattern or a table.
        is_input: decides by the name below a folder whether a file belongs to the input.
        times: the column of times, if only the rows of some day are wanted.

    Raises:
        InputError: something cannot be read or listed, or the path is not valid; or a folder is
            that of a table, in which older rows lie too.
    """

    def of_no_table(below: PurePath) -> bool:
        if DELTA_LOG in below.parts or below.name.endswith(ICEBERG_METADATA):
            kind = "Delta" if DELTA_LOG in below.parts else "Iceberg"
            raise InputError(
                f"{path}: is the folder of a {kind} table, in which deleted and replaced rows lie"
                " too. Name the table instead: see docs/files.md. Nothing was read."
            )
        return is_input(below)

    if is_table(path):
        from hushrank.transforms.tables.tables import parts_of

        return [_match(path, part) for part in parts_of(path, times)]
    if is_cloud(path):
        return list(_cloud_matches(path, of_no_table))
    if is_object(path):
        from hushrank.transforms.tables.objects import object_matches

        return [Match(*each) for each in object_matches(path, of_no_table)]
    return [Match(*each) for each in _local_matches(path, of_no_table)]


def check_table(path: str, *, stated: bool, partition: str | None) -> None:
    """Refuse a table whose format is stated, or of which a folder is wanted."""
    if stated:
        raise InputError(f"{path}: a table says itself how it is stored; remove input.format.")
    if partition is not None:
        raise InputError(
            f"{path}: schedule.partition selects folders, but this is a table; set schedule.window"
            " to its column of times or dates instead."
        )


def version_now(path: str) -> str:
    """Return the present version of a file of its own; for a missing object, an impossible one."""
    if is_object(path):
        from hushrank.transforms.tables.objects import object_tag

        return object_tag(path)
    if is_cloud(path):
        return str(CloudPath.parse(path).generation())
    return str(Path(path).stat().st_mtime_ns)


def stated_id(id_: str) -> dict[str, str]:
    """Build the Parquet metadata of a part with this id, which has 16 hexadecimal digits."""
    return {_PART: f"{_PART} {id_}"}


def part_id(path: str) -> str:
    """Read the id that a local Parquet file states; empty if it states none or cannot be read.

    The end of the file is searched as bytes: nothing is parsed, so a damaged file does no harm.
    """
    try:
        descriptor = system.open_descriptor(path, os.O_RDONLY, 0, follow_links=True)
        try:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                return ""
            tail = system.read_at(descriptor, _TAIL_BYTES, max(found.st_size - _TAIL_BYTES, 0))
        finally:
            os.close(descriptor)
    except OSError:  # whoever reads its rows says so
        return ""
    stated = _STATED_ID.search(tail)
    return "" if stated is None else stated[1].decode()


def _match(path: str, part: DataFile | ServedTable) -> Match:
    if isinstance(part, DataFile):
        return Match(part.location, part.size, part.layout.version, part)
    return Match(path, part.size, part.version, part)


def _local_matches(path: str, is_input: IsInput) -> Iterator[tuple[str, int, str]]:
    """Yield path, size and modification time of local files."""
    start = Path(path)
    try:
        if start.exists():
            named: Iterable[Path] = [start]
        else:
            if any("**" in part and part != "**" for part in start.parts):
                raise ValueError("as `glob` itself before Python 3.13")
            root = Path(start.anchor)
            pattern = str(start.relative_to(root))
            named = (match for match in root.glob(pattern) if not match.name.startswith("."))
        for match in named:
            for file in _files_in(match, is_input) if match.is_dir() else [match]:
                status = file.stat()
                if not stat.S_ISREG(status.st_mode):
                    raise InputError(
                        f"{file}: is not a regular file; name a file. Nothing was read."
                    )
                yield file.as_posix(), status.st_size, str(status.st_mtime_ns)
    except PermissionError as error:
        raise InputError(f"{error.filename}: no permission to read it.") from None
    except FileNotFoundError as error:
        raise InputError(f"{error.filename}: no such file.") from None
    except OSError as error:  # e.g. a name too long, a link to itself, a lost disk
        raise InputError(f"{path}: cannot be read ({error.strerror}).") from None
    except InputError:
        raise
    except ValueError:
        raise InputError(f"{path}: in a pattern, ** must stand alone between slashes.") from None


def _files_in(folder: Path, is_input: IsInput) -> Iterator[Path]:
    def stop(error: OSError) -> None:  # otherwise an unreadable folder would be skipped
        raise error

    for parent, _, names in os.walk(folder, onerror=stop):
        for name in names:
            file = Path(parent, name)
            if is_input(file.relative_to(folder)):
                yield file


def _cloud_matches(url: str, is_input: Callable[[PurePosixPath], bool]) -> Iterator[Match]:
    """Yield the objects that `url` names; their generation is the version.

    Args:
        url: an object; or a folder, with or without a slash at its end, which stands for the
            objects in and below it that `is_input` accepts; or a pattern, in which `*` and `?`
            stand for anything but a slash and `**` for anything.
        is_input: decides by the name below the folder whether an object belongs to the input.

    Raises:
        InputError: the bucket cannot be listed, or the path is not valid.
    """
    try:
        yield from (
            Match(str(found.path), found.size, str(found.generation), md5=found.md5)
            for found in _objects(url, is_input)
        )
    except InputError:
        raise
    except ValueError as error:
        raise InputError(f"input.paths: {error}") from None
    except OSError as error:
        raise InputError(f"{url}: cannot be listed ({error.strerror}); nothing was read.") from None


def _objects(url: str, is_input: Callable[[PurePosixPath], bool]) -> Iterator[Listed]:
    magic = MAGIC.search(url)
    if magic is not None:
        folder, _, start = url[: magic.start()].rpartition("/")
        place, wanted = CloudPath.parse(folder), re.compile(as_regex(url[len(folder) + 1 :]))
        start_of_name = len(f"{place.key}/") if place.key else 0
        for found in place.objects(start):
            if wanted.fullmatch(found.path.key[start_of_name:]):
                yield found
        return
    place = CloudPath.parse(url)
    for found in place.parent.objects(place.name) if place.key else place.objects():
        below = PurePosixPath(found.path.key[len(place.key) :].lstrip("/"))
        if found.path == place:
            named = not url.endswith("/")
        else:
            named = place.contains(found.path) and is_input(below)
        if named:
            yield found
