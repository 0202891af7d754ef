"""Names of tables, as `input.paths` and the command line write them.

iceberg://CATALOG/NAMESPACE.TABLE   with ?snapshot=ID or ?ref=BRANCH-OR-TAG
delta:FOLDER                        with ?version=NUMBER
bigquery://PROJECT.DATASET.TABLE    with ?time=2026-11-20T00:00:00Z
beam://VERSION                      rows of a Beam transform, by their public name: `input.version`

In a pattern of object names, `*` and `?` stand for anything but a slash, `**` for anything.

Requests to a service: in bounded time, many at once, with errors in our own words.

Texts of those libraries may hold a URL with a password, a signed request or a row. So no message
here quotes them: it names the kind of error, and what the user can do.

Data file of a table, and the places of the table's columns in it.

A table may rename, add and drop columns without writing its files again. So a file is asked for
columns by the numbers that the table gave them, never by the names that they have today.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeVar
from urllib.parse import unquote

import pyarrow as pa

from hushrank.transforms.common.local_files import slashed
from hushrank.transforms.common.schema import InputError, is_list, is_text

MAGIC = re.compile(r"[*?\[]")
_TOKEN = re.compile(
    r"(?P<folders>\*\*/)|(?P<all>\*\*)|(?P<some>\*)|(?P<one>\?)|\[(?P<set>[^\]]+)\]"
)
ICEBERG, DELTA, BIGQUERY = "iceberg://", "delta:", "bigquery://"
OBJECT_PREFIXES = ("s3://", "abfs://", "abfss://")
CLOUD = "gs://"
BEAM = "beam://"  # no path of a file: the configuration writes it where it has `input.version`
ELSEWHERE = (*OBJECT_PREFIXES, ICEBERG, DELTA, BIGQUERY)  # possible starts of an input path
_ICEBERG = re.compile(
    r"iceberg://(?P<catalog>[\w.-]+)/(?P<table>[^/?\s]+\.[^/?\s]+)"
    r"(\?(snapshot=(?P<snapshot>\d{1,19})|ref=(?P<ref>[^\s&?]+)))?"
)
_DELTA = re.compile(
    r"delta:(?P<folder>(((s3|gs|abfss?)://)|[A-Za-z]:(?=[/\\]))?[^?:]+)(\?version=(?P<version>\d{1,18}))?"
)
_BIGQUERY = re.compile(
    r"bigquery://(?P<project>[\w:.-]+)\.(?P<dataset>\w+)\.(?P<table>[^./?\s`]+)"
    r"(\?time=(?P<time>[^\s&?]+))?"
)


def as_regex(pattern: str) -> str:
    """Return the regular expression of the names that `pattern` matches as a whole."""
    parts, end = [], 0
    for token in _TOKEN.finditer(pattern):
        parts.append(re.escape(pattern[end : token.start()]))
        end = token.end()
        if token["set"] is not None:
            chosen = token["set"].replace("\\", "\\\\").replace("^", "\\^")
            parts.append(f"[{'^' if chosen[0] == '!' else ''}{chosen.removeprefix('!')}]")
        else:
            kinds = {"folders": "(?:.*/)?", "all": ".*", "some": "[^/]*", "one": "[^/]"}
            parts.append(kinds[token.lastgroup or ""])
    return "".join(parts) + re.escape(pattern[end:])


@dataclass(frozen=True, slots=True)
class IcebergName:
    """Table of an Iceberg catalog, at its newest snapshot unless one is named."""

    url: str
    catalog: str
    table: str
    snapshot: int | None
    ref: str | None


@dataclass(frozen=True, slots=True)
class DeltaName:
    """Delta table, at its newest version unless one is named; `folder` is a path or a URL."""

    url: str
    folder: str
    version: int | None


@dataclass(frozen=True, slots=True)
class BigQueryName:
    """Table of BigQuery, as it was at `time`; None: as it is."""

    url: str
    project: str
    dataset: str
    table: str
    time: datetime | None

    @property
    def path(self) -> str:
        """Name that the Storage Read API uses."""
        return f"projects/{self.project}/datasets/{self.dataset}/tables/{self.table}"


TableName = IcebergName | DeltaName | BigQueryName


def is_table(path: str) -> bool:
    """Whether `path` names a table."""
    return path.startswith((ICEBERG, DELTA, BIGQUERY))


def is_source(path: str) -> bool:
    """Whether `path` stands for the rows of a Beam transform."""
    return path.startswith(BEAM)


def is_object(path: str) -> bool:
    """Whether `path` names objects in S3 or Azure."""
    return path.startswith(OBJECT_PREFIXES)


def table_name(url: str) -> TableName:
    """Parse the name of a table.

    Raises:
        ValueError: the URL does not have the form of its kind; the text says which form that is.
    """
    if url.startswith(ICEBERG):
        return _iceberg_name(url)
    if url.startswith(DELTA):
        return _delta_name(url)
    return _bigquery_name(url)


def _iceberg_name(url: str) -> IcebergName:
    match = _ICEBERG.fullmatch(url)
    if match is None:
        raise ValueError(
            f"must be {ICEBERG}CATALOG/NAMESPACE.TABLE, with ?snapshot=ID or ?ref=NAME if it is"
            f" not the newest snapshot, got {url!r}"
        )
    snapshot = None if match["snapshot"] is None else int(match["snapshot"])
    return IcebergName(url, match["catalog"], match["table"], snapshot, match["ref"])


def _delta_name(url: str) -> DeltaName:
    match = _DELTA.fullmatch(url)
    if match is None or match["folder"].startswith("//"):
        raise ValueError(
            f"must be {DELTA} and the folder of the table, as in delta:/lake/battles or"
            f" delta:s3://lake/battles, with ?version=NUMBER for an older version, got {url!r}"
        )
    version = None if match["version"] is None else int(match["version"])
    return DeltaName(url, match["folder"].rstrip("/") or "/", version)


def _bigquery_name(url: str) -> BigQueryName:
    match = _BIGQUERY.fullmatch(url)
    if match is None:
        raise ValueError(
            f"must be {BIGQUERY}PROJECT.DATASET.TABLE, with ?time=2026-11-20T00:00:00Z for an older"
            f" state, got {url!r}"
        )
    time = None if match["time"] is None else _moment(match["time"], url)
    return BigQueryName(url, match["project"], match["dataset"], match["table"], time)


def _moment(text: str, url: str) -> datetime:
    try:
        time = datetime.fromisoformat(unquote(text))
    except ValueError:
        time = datetime.min
    if time.tzinfo is None:
        raise ValueError(f"?time= must be as 2026-11-20T00:00:00Z, with its zone, got {url!r}")
    return time.astimezone(UTC)


def absolute(url: str, folder: str) -> str:
    """Return `url`; for a Delta table in a local folder, with an absolute path from `folder`."""
    if not url.startswith(DELTA) or "://" in url:
        return url
    path = os.path.expanduser(url.removeprefix(DELTA))
    return f"{DELTA}{slashed(os.path.normpath(os.path.join(folder, path)))}"


def local_path(location: str) -> str | None:
    """Return the local path of a data file; None: it is elsewhere. A % in it is an ordinary
    character."""
    if location.startswith("file:"):
        return re.sub(r"^file:(//[^/]*)?(?=/)", "", location)
    return None if "://" in location else location


PATIENCE = 60.0  # seconds for one question to a catalog or a store, its repeats included
AT_ONCE = 16  # questions that wait for their answers at the same time

Place = TypeVar("Place")
Answer = TypeVar("Answer")


class ServiceError(InputError):
    """Error of a service or a library, in a sentence."""


def ask(question: Callable[[], Answer], where: str, advice: str) -> Answer:
    """Return the answer to `question`, asked in a thread, so that a silent service cannot block us.

    Args:
        question: function to call.
        where: the table or object, for messages.
        advice: place where the library finds its address and its credentials.

    Raises:
        InputError: no answer within `PATIENCE`, or an error; none of its text is shown.
    """
    answers: list[Answer] = []
    errors: list[BaseException] = []

    def call() -> None:
        try:
            answers.append(question())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=call, daemon=True, name="ask")
    thread.start()
    thread.join(PATIENCE)
    if thread.is_alive():
        raise ServiceError(
            f"{where}: no answer within {PATIENCE:.0f} seconds. {advice} Nothing was spent."
        )
    if errors:
        with explained(where, advice):
            raise errors[0]
    return answers[0]


def in_order(
    ask: Callable[[Place], Answer], places: Sequence[Place], *, remote: bool
) -> Iterator[Answer]:
    """Yield the answer of each place, in order; stop at the first place whose question raises.

    Args:
        ask: the question; where places are remote it is asked in threads.
        places: places to ask.
        remote: whether an answer takes so long that it pays to ask others meanwhile.
    """
    if not remote:
        yield from map(ask, places)
        return
    pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="ask")
    try:
        yield from pool.map(ask, places)
    finally:
        pool.shutdown(cancel_futures=True)


@contextlib.contextmanager
def explained(where: str, advice: str) -> Iterator[None]:
    """Raise a library's errors as `InputError`, without their text.

    Args:
        where: the table or object.
        advice: place where the library finds its address and its credentials.
    """
    try:
        yield
    except (InputError, GeneratorExit, KeyboardInterrupt):
        raise
    except Exception as error:
        kind = type(error).__name__
        raise ServiceError(
            f"{where}: cannot be read ({kind}). {advice} Nothing was spent."
        ) from None


class Answering(io.RawIOBase):
    """File of a library whose errors are told apart from those of a damaged file."""

    def __init__(self, file: Any, where: str, advice: str) -> None:
        super().__init__()
        self._file, self._where, self._advice = file, where, advice

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move, as files do."""
        with explained(self._where, self._advice):
            self._file.seek(offset, whence)
            return int(self._file.tell())

    def tell(self) -> int:
        """Return the position."""
        return int(self._file.tell())

    def readinto(self, buffer: Any) -> int:
        """Read as much as `buffer` holds; less only at the end of the file."""
        with explained(self._where, self._advice):
            content = self._file.read(len(buffer))
        buffer[: len(content)] = content
        return len(content)

    def close(self) -> None:
        """Close the library's file too."""
        if not self.closed:
            with contextlib.suppress(OSError):
                self._file.close()
        super().close()


_FIELD_ID = b"PARQUET:field_id"
PYTHON = "PTransform"  # stands for the type of a transform that was passed in Python


@dataclass(frozen=True, slots=True)
class StoredAs:
    """Storage of a column in files.

    Attributes:
        number: field id of the column; None: this table finds columns by their names in the files.
        names: possible names of the column in a file whose columns have no ids.
    """

    number: int | None
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """Properties that all data files of a snapshot share.

    Attributes:
        table: the table as the user names it.
        version: identity of the snapshot.
        schema: the table's columns.
        stored: columns as files keep them.
    """

    table: str
    version: str
    schema: pa.Schema
    stored: Mapping[str, StoredAs]


@dataclass(frozen=True, slots=True)
class DataFile:
    """Parquet file of a table's snapshot.

    Attributes:
        layout: layout that it shares with the other files.
        location: path or URL of the file.
        size: size in bytes.
        constants: values of columns that the file need not hold, such as those of its partition;
            dates and times are integers, as Arrow stores them.
        span: lowest and highest time of the column of times, as integers of the column's type;
            None: unknown, or a row has none.
    """

    layout: Layout
    location: str
    size: int
    constants: Mapping[str, Any] = field(default_factory=dict)
    span: tuple[int, int] | None = None

    @property
    def name(self) -> str:
        """Name of the file in messages: its table and its last name, because folders may hold
        values."""
        return f"{self.layout.table}: data file {self.location.rpartition('/')[2]}"

    def columns_of(self, stored: pa.Schema, wanted: Sequence[str]) -> dict[str, str | None]:
        """Return the name in the file of each column of the table in `wanted`; None: not in the
        file.

        Args:
            stored: schema of the file.
            wanted: names of columns of the table.

        Raises:
            InputError: columns of the file have no ids and the table does not say their names, or a
                column has another type than in the table.
        """
        numbers = {
            int(each.metadata[_FIELD_ID]): each.name
            for each in stored
            if each.metadata and _FIELD_ID in each.metadata
        }
        found: dict[str, str | None] = {}
        for name in wanted:
            kept = self.layout.stored[name]
            if numbers and kept.number is not None:
                found[name] = numbers.get(kept.number)
            elif kept.names:
                found[name] = next((each for each in kept.names if each in stored.names), None)
            else:
                raise InputError(
                    f"{self.name}: its columns have no field ids, and the table has no name mapping"
                    " (schema.name-mapping.default), so columns cannot be matched. Write the file"
                    " again, or add the mapping."
                )
            here = found[name]
            if here is not None and not _alike(
                stored.field(here).type, self.layout.schema.field(name).type
            ):
                raise InputError(
                    f"{self.name}: column {name} has type {stored.field(here).type}, but"
                    f" {self.layout.schema.field(name).type} in the table. Write the file again."
                )
        return found

    def as_in_table(
        self, rows: pa.RecordBatch, wanted: pa.Schema, found: Mapping[str, str | None]
    ) -> pa.RecordBatch:
        """Return the rows of the file with the columns `wanted`, named as in the table."""
        columns = [
            self._constant(each, len(rows)) if found[each.name] is None else rows[found[each.name]]
            for each in wanted
        ]
        return pa.RecordBatch.from_arrays(columns, names=wanted.names)

    def _constant(self, column: pa.Field, length: int) -> pa.Array:
        value = self.constants.get(column.name)
        if value is None:
            return pa.nulls(length, column.type)
        if isinstance(value, int) and pa.types.is_temporal(column.type):
            width = pa.int32() if pa.types.is_date32(column.type) else pa.int64()
            return pa.repeat(pa.scalar(value, width), length).cast(column.type)
        return pa.repeat(pa.scalar(value, column.type), length)


def _alike(stored: pa.DataType, declared: pa.DataType) -> bool:
    """Whether both types mean the same to a reader of rows; numbers may have grown."""
    if is_list(stored) or is_list(declared):
        return (
            is_list(stored) and is_list(declared) and _alike(stored.value_type, declared.value_type)
        )
    return is_text(stored) == is_text(declared)


@dataclass(frozen=True, slots=True)
class ServedTable:
    """Table whose rows a service sends.

    Attributes:
        table: the table as the user names it.
        version: identity of its state.
        schema: columns of the table.
        size: size in bytes, about.
        rows: about how many.
        at: the state to read; None: the present one, which is as old as `version` says.
    """

    table: str
    version: str
    schema: pa.Schema
    size: int
    rows: int
    at: datetime | None


@dataclass(frozen=True, slots=True)
class BeamSource:
    """Rows that a Beam transform yields.

    Attributes:
        type: Beam YAML's name of the transform, or `PYTHON` if `pickled` holds it.
        config: settings of the source as JSON, which may hold a password.
        pickled: a transform that was passed in Python, as Beam's pickler writes it.
    """

    type: str
    config: str = field(default="{}", repr=False)
    pickled: bytes = field(default=b"", repr=False)
