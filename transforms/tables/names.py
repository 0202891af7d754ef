"""Names of tables, as `input.paths` and the command line write them.

iceberg://CATALOG/NAMESPACE.TABLE   with ?snapshot=ID or ?ref=BRANCH-OR-TAG
delta:FOLDER                        with ?version=NUMBER
bigquery://PROJECT.DATASET.TABLE    with ?time=2026-11-20T00:00:00Z
beam://VERSION                      rows of a Beam transform, by their public name: `input.version`

In a pattern of object names, `*` and `?` stand for anything but a slash, `**` for anything.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import unquote

from hushrank.transforms.common.local_files import slashed

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
