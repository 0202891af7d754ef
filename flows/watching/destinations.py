"""Destinations for events of runs: a log file, metrics, OpenTelemetry spans, OpenLineage events.

A destination gets only public facts (`flows.watching.events`). Opening a destination checks it.

Events in the form of OpenLineage 2-0-2 [OL], with a facet on privacy. Pure: facts in, JSON out.

Events go to a file with one JSON object a line, or to an HTTP endpoint.

References:
    [OL] OpenLineage specification, https://openlineage.io/spec/2-0-2/OpenLineage.json
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import re
import threading
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from http.client import HTTPException
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal, Protocol

from prometheus_client import CollectorRegistry, Gauge, write_to_textfile
from prometheus_client.parser import text_string_to_metric_families
from pydantic import BaseModel, ConfigDict, Field

from hushrank.flows.config.runner import LineageConfig
from hushrank.flows.errors import ConfigError, HushrankError, require
from hushrank.flows.release.archive import find_archived, load_archived
from hushrank.flows.run.context import Job, code_version
from hushrank.flows.watching.events import RunEvent
from hushrank.privacy.units import Adjacency, Unit
from hushrank.transforms import system
from hushrank.transforms.common.local_files import (
    MostBytes,
    open_local,
    read_local,
    require_regular,
)
from hushrank.transforms.storage.places import read_whole
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


LEADING = ("time", "event", "population")


class LogFile:
    """Appends one line for each event."""

    def __init__(self, path: Path, form: Literal["json", "text"]) -> None:
        """Open the file; see `AppendedFile`."""
        self._lines, self._form = AppendedFile("observability.log", path), form

    def tell(self, event: RunEvent) -> None:
        """Append the event."""
        content = event.public_fields()
        line = json.dumps(content) if self._form == "json" else _text(content)
        self._lines.append(line)


def _text(content: dict[str, object]) -> str:
    """`time event population key=value ...`, with values as JSON."""
    lead = " ".join(str(content[name]) for name in LEADING)
    rest = (f"{key}={json.dumps(value)}" for key, value in content.items() if key not in LEADING)
    return " ".join([lead, *rest])


LAST_SUCCESS = "hushrank_last_success_timestamp_seconds"
AMOUNTS = tuple(f"hushrank_budget_epsilon_{name}" for name in ("left", "total", "since_first"))


class MetricsFile:
    """Replaces the whole file when a run ends, as scrapers need it.

    Metrics, each with the label `population`: hushrank_last_run_timestamp_seconds,
    hushrank_last_run_success (0 or 1), hushrank_last_success_timestamp_seconds,
    hushrank_last_run_duration_seconds, hushrank_step_duration_seconds (label `step`),
    hushrank_budget_epsilon_left, hushrank_budget_epsilon_total and, if the budget renews,
    hushrank_budget_epsilon_since_first (as of the last success).
    """

    def __init__(self, path: Path) -> None:
        """Check that the file can be written.

        Raises:
            ConfigError: the file cannot be written.
        """
        self._path = path
        self._steps: dict[str, float] = {}
        try:
            require_regular(path)
            system.make_private_folder(path.parent)
            probe = path.with_name(f".{path.name}.probe")
            probe.touch()
            probe.unlink()
        except OSError as error:
            raise ConfigError(
                f"observability.metrics: {path} cannot be written: {error.strerror}. Name another"
                " file, or remove the key. Nothing was read or spent."
            ) from None

    def tell(self, event: RunEvent) -> None:
        """Record how long a step took; at the end of the run, write the file."""
        if event.step is not None and event.seconds is not None:
            self._steps[event.step] = event.seconds
        if event.event in ("run ended", "run failed"):
            write_to_textfile(str(self._path), self._registry(event))

    def _registry(self, event: RunEvent) -> CollectorRegistry:
        registry, population = CollectorRegistry(), event.population
        last = self._values_before()
        if event.ok:
            last[LAST_SUCCESS] = event.time.timestamp()
            if event.epsilon_left is not None and event.epsilon_total is not None:
                amounts = (event.epsilon_left, event.epsilon_total, event.epsilon_since_first)
                told = dict(zip(AMOUNTS, amounts, strict=True))
                for name, amount in told.items():
                    last.pop(name, None)
                    last |= {} if amount is None else {name: amount}
        last["hushrank_last_run_timestamp_seconds"] = event.time.timestamp()
        last["hushrank_last_run_success"] = float(bool(event.ok))
        last["hushrank_last_run_duration_seconds"] = event.seconds or 0.0
        for name, value in sorted(last.items()):
            words = name.removeprefix("hushrank_").replace("_", " ")
            Gauge(name, words, ["population"], registry=registry).labels(population).set(value)
        steps = Gauge(
            "hushrank_step_duration_seconds", "of the last run", ["population", "step"],
            registry=registry,
        )  # fmt: skip
        for step, seconds in self._steps.items():
            steps.labels(population, step).set(seconds)
        return registry

    def _values_before(self) -> dict[str, float]:
        """Values of the last success; only another success changes them."""
        try:
            text = read_local(self._path, MostBytes.SETTINGS).decode()
            families = list(text_string_to_metric_families(text))
        except (OSError, ValueError):  # no file yet, or not ours: start anew
            return {}
        kept = (LAST_SUCCESS, *AMOUNTS)
        samples = (sample for family in families for sample in family.samples)
        return {sample.name: sample.value for sample in samples if sample.name in kept}


NANOSECONDS = 1_000_000_000
FLUSH_MILLISECONDS = 5_000  # the longest that a dead collector can delay a run
PREFIX = "hushrank."


class Traces:
    """Sends a run's spans when it ends; OTEL_EXPORTER_OTLP_* in the environment says where to."""

    def __init__(self, exporter: Any = None) -> None:
        """Args: an exporter of the OpenTelemetry SDK; None: OTLP over HTTP.

        Raises:
            ConfigError: the exporter is not installed.
        """
        require("otel", "observability.traces")
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        resource = Resource.create({"service.name": "hushrank"})
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(exporter or OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("hushrank")
        self._run: Any = None

    def tell(self, event: RunEvent) -> None:
        """Open the run's span, add a step's span, or close the run's span and send all."""
        from opentelemetry.trace import set_span_in_context

        moment = int(event.time.timestamp() * NANOSECONDS)
        if event.event == "run started":
            self._run = self._tracer.start_span("hushrank run", start_time=moment)
            return
        span = self._run
        if event.event == "step ended":
            began = moment - int((event.seconds or 0.0) * NANOSECONDS)
            inside = set_span_in_context(self._run)
            span = self._tracer.start_span(event.step or "step", inside, start_time=began)
        _describe(span, event)
        span.end(moment)
        if span is self._run:
            self._provider.force_flush(FLUSH_MILLISECONDS)
            self._provider.shutdown()


def _describe(span: Any, event: RunEvent) -> None:
    from opentelemetry.trace import Status, StatusCode

    facts = event.public_fields()
    for name in facts.keys() - {"event", "time", "versions"}:
        span.set_attribute(PREFIX + name, facts[name])
    span.set_status(Status(StatusCode.OK if event.ok else StatusCode.ERROR))


LINEAGE: dict[str, EventType] = {
    "run started": "START",
    "run ended": "COMPLETE",
    "run failed": "FAIL",
}
CERTIFICATE = "certificate.json"


class _Transport(Protocol):
    def send(self, event: dict[str, Any]) -> None: ...


class LineageFeed:
    """Sends the beginning and the end of a run as OpenLineage events."""

    def __init__(self, transport: _Transport, facts: RunFacts, job: Job) -> None:
        """Args: where to, what every event says, and the job."""
        self._transport, self._facts, self._job = transport, facts, job

    @classmethod
    def of(cls, config: LineageConfig, job: Job) -> list[LineageFeed]:
        """A feed for each configured place; the events of all have one run id.

        Raises:
            ConfigError: the file cannot be written.
        """
        facts = RunFacts(
            run_id=str(uuid.uuid4()),
            namespace=config.namespace,
            job=job.config.name,
            producer=f"urn:hushrank:{code_version()}",
            inputs=tuple(map(str, job.config.input.paths)),
            output=str(job.config.output),
        )
        places: list[_Transport] = []
        if config.file is not None:
            places.append(LineageFile(config.file))
        if config.url is not None:
            places.append(LineageEndpoint(config.url, config.timeout))
        return [cls(place, facts, job) for place in places]

    def tell(self, event: RunEvent) -> None:
        """Send the event if it begins or ends the run.

        Raises:
            OSError: the event cannot be written or sent.
        """
        kind = LINEAGE.get(event.event)
        if kind is None:
            return
        facet = self._planned(event)
        if kind == "COMPLETE":
            facet = self._released(facet)
        told = lineage_event(self._facts, kind, event.time, facet, event.error)
        self._transport.send(told)

    def _planned(self, event: RunEvent) -> PrivacyFacet:
        """Return what the job is to guarantee; the cost is known unless it was drawn before."""
        privacy, spend = self._job.config.privacy, None
        if self._job.calibrated is not None:
            spend = self._job.terms.spend
        epsilon, rho = (None, None) if spend is None else finite((spend.epsilon, spend.rho))
        return PrivacyFacet(
            release_id=event.release_id,
            night=event.night,
            method=event.method,
            unit=privacy.unit,
            adjacency=privacy.adjacency,
            epsilon=None if rho is not None else epsilon,
            delta=None if spend is None else spend.delta,
            rho=rho,
        )

    def _released(self, planned: PrivacyFacet) -> PrivacyFacet:
        """Return what the published release guarantees, as its record says."""
        folder = find_archived(self._job.config.output, planned.release_id)
        if folder is None:
            return planned
        try:
            release = load_archived(folder)
        except HushrankError as error:
            raise OSError(errno.EIO, type(error).__name__, str(folder)) from None
        told, certificate = release.privacy, folder / CERTIFICATE
        epsilon, rho = finite((told.epsilon, told.rho))
        digest = None
        if certificate.exists():
            digest = hashlib.sha256(read_whole(certificate, MostBytes.RELEASE)).hexdigest()
        return planned.model_copy(
            update={
                "unit": told.unit,
                "adjacency": told.adjacency,
                "epsilon": epsilon,
                "delta": told.delta,
                "rho": rho,
                "mechanism": told.mechanism,
                "safe": release.safe,
                "certificate_sha256": digest,
            }
        )
