"""Events in the form of OpenLineage 2-0-2 [OL], with a facet on privacy. Pure: facts in, JSON out.

References:
    [OL] OpenLineage specification, https://openlineage.io/spec/2-0-2/OpenLineage.json
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from hushrank.privacy.units import Adjacency, Unit
from hushrank.transforms.tables.names import (
    BigQueryName,
    IcebergName,
    is_table,
    table_name,
)

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
    """What a release guarantees: the run facet `hushrank_privacy`.

    Attributes:
        release_id: id of the release.
        night: the day whose answers are ranked, where there are nights.
        method: how answers become a ranking.
        unit: whose answers are protected.
        adjacency: when two inputs count as neighbours; left out under unit `local`.
        epsilon: privacy loss of one unit, in nats; left out where a release has no bound, or was
            not drawn yet and its cost is not known.
        delta: probability with which the bound may fail.
        rho: zero-concentrated privacy loss, where the noise is Gaussian and counted so.
        mechanism: how noise was drawn; only of a published release.
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
    """What every event of a run says.

    Attributes:
        run_id: UUID of the run.
        namespace: of the job.
        job: its name.
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
    """One event, JSON-ready.

    Args:
        facts: of the run.
        kind: what happened.
        time: when.
        privacy: what the run guarantees.
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
