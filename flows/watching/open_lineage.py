"""Events in the form of OpenLineage 2-0-2 [OL], with a facet on privacy. Pure: facts in, JSON out.

Events go to a file with one JSON object a line, or to an HTTP endpoint.

References:
    [OL] OpenLineage specification, https://openlineage.io/spec/2-0-2/OpenLineage.json
"""

from __future__ import annotations

import errno
import json
import math
import os
import re
import threading
import urllib.error
import urllib.request
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from http.client import HTTPException
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal

from pydantic import BaseModel, ConfigDict, Field

from hushrank.flows.errors import ConfigError
from hushrank.privacy.units import Adjacency, Unit
from hushrank.transforms import system
from hushrank.transforms.common.local_files import open_local
from hushrank.transforms.tables.names import BigQueryName, IcebergName, is_table, table_name

SCHEMA = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"
ERROR_SCHEMA = (
    "https://openlineage.io/spec/facets/1-0-1/ErrorMessageRunFacet.json#/$defs/ErrorMessageRunFacet"
)
FACET = "hushrank_privacy"
FACET_SCHEMA = "urn:hushrank:schema:privacy-facet:1"
_URL = re.compile(r"(?P<namespace>[a-z][a-z0-9+.-]*://[^/]+)/?(?P<name>.*)", re.DOTALL)

EventType = Literal["START", "COMPLETE", "FAIL"]
Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class PrivacyFacet(BaseModel):
    """Guarantee of a release: the run facet `hushrank_privacy`.

    Attributes:
        release_id: id of the release.
        night: the day whose answers are ranked, where there are nights.
        method: method by which answers become a ranking.
        unit: unit whose answers are protected.
        adjacency: relation between two neighbouring inputs; left out under unit `local`.
        epsilon: privacy loss of one unit, in nats; left out where a release has no bound, or was
            not drawn yet and its cost is not known.
        delta: probability with which the bound may fail.
        rho: zero-concentrated privacy loss, where the noise is Gaussian and counted so.
        mechanism: mechanism that drew the noise; only of a published release.
        safe: whether the release is private and a ledger counts it; only of a published release.
        certificate_sha256: digest of the release's `certificate.json`, where there is one.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", title=FACET)

    release_id: str
    night: str | None = None
    method: str
    unit: Unit
    adjacency: Adjacency | None = None
    epsilon: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    delta: float | None = Field(default=None, ge=0, lt=1)
    rho: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    mechanism: str | None = None
    safe: bool | None = None
    certificate_sha256: Digest | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """Facts that every event of a run carries.

    Attributes:
        run_id: UUID of the run.
        namespace: namespace of the job.
        job: name of the job.
        producer: URI of the program.
        inputs: paths and tables, as configured.
        output: the folder of releases.
    """

    run_id: str
    namespace: str
    job: str
    producer: str
    inputs: tuple[str, ...]
    output: str


def lineage_event(
    facts: RunFacts,
    kind: EventType,
    time: datetime,
    privacy: PrivacyFacet,
    error: str | None = None,
) -> dict[str, Any]:
    """Build one event, JSON-ready.

    Args:
        facts: facts of the run.
        kind: kind of the event.
        time: time of the event.
        privacy: guarantee of the run.
        error: the kind of a failure, never its text, which may quote a row.
    """
    facets = {FACET: _facet(facts, FACET_SCHEMA, _told(privacy))}
    if error is not None:
        told = {"message": error, "programmingLanguage": "Python"}
        facets["errorMessage"] = _facet(facts, ERROR_SCHEMA, told)
    return {
        "eventType": kind,
        "eventTime": time.isoformat(timespec="milliseconds"),
        "run": {"runId": facts.run_id, "facets": facets},
        "job": {"namespace": facts.namespace, "name": facts.job},
        "inputs": [dataset(path) for path in facts.inputs],
        "outputs": [dataset(facts.output)],
        "producer": facts.producer,
        "schemaURL": SCHEMA,
    }


def dataset(place: str) -> dict[str, str]:
    """Namespace and name of a path or table, by the naming rules of OpenLineage.

    A night's `{date}` and patterns stay in the name, so a job reads the same data set every night.
    """
    if is_table(place):
        table = table_name(place)
        if isinstance(table, BigQueryName):
            return _named("bigquery", f"{table.project}.{table.dataset}.{table.table}")
        if isinstance(table, IcebergName):
            return _named(f"iceberg://{table.catalog}", table.table)
        return dataset(table.folder)
    found = _URL.fullmatch(place)
    return _named("file", place) if found is None else _named(found["namespace"], found["name"])


def finite(values: Iterable[float | None]) -> tuple[float | None, ...]:
    """The values; None in place of one that is infinite, which JSON does not have."""
    return tuple(each if each is None or math.isfinite(each) else None for each in values)


def facet_schema() -> str:
    """The JSON Schema of the facet, as docs/privacy_facet.schema.json publishes it."""
    schema = PrivacyFacet.model_json_schema(mode="serialization")
    uri = {"type": "string", "format": "uri"}
    whole = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": FACET_SCHEMA,
        **schema,
        "properties": {"_producer": uri, "_schemaURL": uri, **schema["properties"]},
        "required": ["_producer", "_schemaURL", *schema["required"]],
    }
    return json.dumps(whole, indent=2) + "\n"


def _told(privacy: PrivacyFacet) -> dict[str, Any]:
    return privacy.model_dump(mode="json", exclude_none=True)


def _facet(facts: RunFacts, schema: str, told: dict[str, Any]) -> dict[str, Any]:
    return {"_producer": facts.producer, "_schemaURL": schema, **told}


def _named(namespace: str, name: str) -> dict[str, str]:
    return {"namespace": namespace, "name": name or "/"}


API_KEY = "OPENLINEAGE_API_KEY"  # the variable that OpenLineage's own clients read


class AppendedFile:
    """A file that grows by one line at a time, each in one write."""

    def __init__(self, key: str, path: Path) -> None:
        """Open the file, which also checks it.

        Args:
            key: key of the configuration that names the file.
            path: the file; its folder is made if there is none.

        Raises:
            ConfigError: the file cannot be appended to.
        """
        self._path = path
        try:
            system.make_private_folder(path.parent)
            self._open().close()
        except OSError as error:
            raise ConfigError(
                f"{key}: {path} cannot be written: {error.strerror}. Name another file, or remove"
                " the key. Nothing was read or spent."
            ) from None

    def append(self, line: str) -> None:
        """Append a line.

        Raises:
            OSError: the file cannot be written.
        """
        with self._open() as file:
            file.write(f"{line}\n".encode())

    def _open(self) -> BinaryIO:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        return os.fdopen(open_local(self._path, flags, mode=0o666), "ab")


class LineageFile:
    """Appends one line for each event."""

    def __init__(self, path: Path) -> None:
        """Open the file; see `AppendedFile`."""
        self._lines = AppendedFile("observability.lineage.file", path)

    def send(self, event: dict[str, Any]) -> None:
        """Append the event.

        Raises:
            OSError: the event cannot be written.
        """
        self._lines.append(json.dumps(event))


class LineageEndpoint:
    """Posts each event. An answer that does not come in time is a failure.

    Args:
        url: the whole URL, such as https://marquez.example.org/api/v1/lineage.
        timeout: seconds that one event may delay a run, whatever the endpoint does.
    """

    def __init__(self, url: str, timeout: float) -> None:
        self._url, self._timeout = url, timeout

    def send(self, event: dict[str, Any]) -> None:
        """Post the event, with the key from OPENLINEAGE_API_KEY if there is one.

        Raises:
            OSError: the endpoint did not accept it in time.
        """
        outcome: list[OSError | None] = []
        body = json.dumps(event).encode()
        # A socket's own timeout starts again with every byte, so a slow answer could take for ever.
        post = threading.Thread(target=lambda: outcome.append(self._tried(body)), daemon=True)
        post.start()
        post.join(self._timeout)
        if not outcome:
            raise OSError(errno.ETIMEDOUT, f"no answer within {self._timeout:g} s", self._url)
        if outcome[0] is not None:
            raise outcome[0]

    def _tried(self, body: bytes) -> OSError | None:
        headers = {"Content-Type": "application/json", "User-Agent": "hushrank"}
        if key := os.environ.get(API_KEY):
            headers["Authorization"] = f"Bearer {key}"
        request = urllib.request.Request(self._url, body, headers, method="POST")
        try:
            _OPENER.open(request, timeout=self._timeout).close()
        except urllib.error.HTTPError as error:
            error.close()
            return OSError(errno.EIO, f"it answered with status {error.code}", self._url)
        except (OSError, HTTPException, ValueError) as error:
            reason = getattr(error, "reason", error)
            why = getattr(reason, "strerror", None) or type(reason).__name__
            return OSError(errno.EIO, f"it cannot be reached ({why})", self._url)
        return None


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Makes a redirect an error: the event would be lost, and the key go elsewhere."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


_OPENER = urllib.request.build_opener(_NoRedirect)
