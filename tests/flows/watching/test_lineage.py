"""OpenLineage events of runs: their form, what they tell, and that they cost a run nothing."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import jsonschema
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hushrank.flows.errors import BudgetRefused
from hushrank.flows.watching.destinations import CERTIFICATE, dataset
from tests.flows.conftest import ITEMS, answers

CANARY = "canary-91c4"
SPEC = "https://openlineage.io/spec/2-0-2/OpenLineage.json"
URI = {"type": "string", "pattern": "^[a-z][a-z0-9+.-]*:.+$"}
DATASET = {
    "type": "object",
    "required": ["namespace", "name"],
    "properties": {name: {"type": "string", "minLength": 1} for name in ("namespace", "name")},
    "additionalProperties": False,
}
FACET = {"type": "object", "required": ["_producer", "_schemaURL"]}
FACET["properties"] = {"_producer": URI, "_schemaURL": URI}
RUN_EVENT = {  # what OpenLineage 2-0-2 requires of a RunEvent, in short, and no more than we send
    "type": "object",
    "required": ["eventTime", "producer", "schemaURL", "eventType", "run", "job"],
    "additionalProperties": False,
    "properties": {
        "eventType": {"enum": ["START", "COMPLETE", "FAIL"]},
        "eventTime": {"pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00$"},
        "producer": URI,
        "schemaURL": {"const": f"{SPEC}#/$defs/RunEvent"},
        "run": {
            "type": "object",
            "required": ["runId", "facets"],
            "additionalProperties": False,
            "properties": {
                "runId": {"pattern": "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"},
                "facets": {
                    "type": "object",
                    "additionalProperties": FACET,
                    "propertyNames": {"enum": ["hushrank_privacy", "errorMessage"]},
                },
            },
        },
        "job": DATASET,
        "inputs": {"type": "array", "items": DATASET},
        "outputs": {"type": "array", "items": DATASET},
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def facet_schema(checkout):
    return json.loads((checkout / "docs/privacy_facet.schema.json").read_text())


def check(events, facet_schema) -> None:
    for event in events:
        jsonschema.validate(event, RUN_EVENT)
        jsonschema.validate(event["run"]["facets"]["hushrank_privacy"], facet_schema)


def of_file(survey) -> list[dict]:
    return [json.loads(line) for line in (survey.folder / "lineage.jsonl").read_text().splitlines()]


def privacy_of(event) -> dict:
    return event["run"]["facets"]["hushrank_privacy"]


@contextmanager
def endpoint(answer) -> Iterator[tuple[str, list]]:
    """A server whose answer to a POST `answer(handler)` gives; what it got."""
    got: list[tuple[str, dict, dict]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            got.append((self.path, dict(self.headers), json.loads(body)))
            answer(self)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/api/v1/lineage", got
    finally:
        server.shutdown()
        server.server_close()


def created(handler) -> None:
    handler.send_response(201)
    handler.end_headers()


def test_a_run_tells_where_its_release_came_from(survey, command, facet_schema, monkeypatch):
    monkeypatch.setenv("OPENLINEAGE_API_KEY", "not-for-files")
    with endpoint(created) as (url, got):
        survey.set(
            observability={"lineage": {"file": "lineage.jsonl", "url": url, "timeout": 60.0}}
        )
        assert command("run", survey.config, "--direct")[0] == 0
    start, complete = of_file(survey)
    check((start, complete), facet_schema)
    assert [body for _, _, body in got] == [start, complete]
    assert {(path, heads["Authorization"]) for path, heads, _ in got} == {
        ("/api/v1/lineage", "Bearer not-for-files")
    }
    assert "not-for-files" not in (survey.folder / "lineage.jsonl").read_text()
    assert (start["eventType"], complete["eventType"]) == ("START", "COMPLETE")
    assert start["run"]["runId"] == complete["run"]["runId"]
    assert start["job"] == {"namespace": "hushrank", "name": "zoo"}
    for event in (start, complete):
        named = f"{survey.folder}/answers.parquet"
        assert event["inputs"] == [{"namespace": "file", "name": named}]
        assert event["outputs"] == [{"namespace": "file", "name": str(survey.output)}]
    release = json.loads((survey.output / "release.json").read_text())
    planned, told = privacy_of(start), privacy_of(complete)
    assert told["release_id"] == planned["release_id"] == release["release_id"]
    assert (told["epsilon"], told["delta"]) == (planned["epsilon"], planned["delta"]) == (2.0, 0.0)
    for name in ("unit", "adjacency", "mechanism"):
        assert told[name] == release["privacy"][name]
    assert told["safe"] is True
    assert planned.keys() < told.keys()


def test_a_failure_is_told_by_its_kind_alone(survey, command, facet_schema, monkeypatch):
    survey.set(observability={"lineage": {"file": "lineage.jsonl"}}, privacy__epsilon=9.0)
    assert command("run", survey.config, "--direct")[0] == BudgetRefused.exit_code

    def fail(*_):
        raise ZeroDivisionError(CANARY)

    survey.set(privacy__epsilon=1.0)
    monkeypatch.setattr("hushrank.flows.run.run.estimate", fail)
    with pytest.raises(ZeroDivisionError):
        command("run", survey.config, "--direct")
    events = of_file(survey)
    check(events, facet_schema)
    assert [event["eventType"] for event in events] == ["START", "FAIL"] * 2
    kinds = [event["run"]["facets"]["errorMessage"]["message"] for event in events[1::2]]
    assert kinds == ["BudgetRefused", "ZeroDivisionError"]
    assert CANARY not in (survey.folder / "lineage.jsonl").read_text()


def test_of_two_inputs_the_same_is_told(survey, command):
    """All but ids and times: nothing tells how many rows there were, or what they said."""
    told = []
    for people in (150, 40):
        table = answers(people, seed=people)
        users = [f"{CANARY}-{user}" for user in table["user"].to_pylist()]
        items = [ITEMS[item] for item in table["item_i"].to_pylist()]
        if people == 40:
            items[0] = f"{CANARY}-item"
        table = table.set_column(0, "user", pa.array(users)).set_column(1, "item_i", [items])
        right = [ITEMS[item] for item in table["item_j"].to_pylist()]
        pq.write_table(table.set_column(2, "item_j", [right]), survey.folder / "answers.parquet")
        survey.set(observability={"lineage": {"file": "lineage.jsonl"}}, output=f"out{people}")
        survey.set(ledger__path=f"l{people}/ledger.jsonl", confidential=f"work{people}")
        assert command("run", survey.config, "--direct")[0] == 0
        text = (survey.folder / "lineage.jsonl").read_text()
        assert CANARY not in text
        told.append(json.loads(f"[{','.join(text.splitlines())}]"))
        (survey.folder / "lineage.jsonl").unlink()
    for event in (*told[0], *told[1]):
        del event["eventTime"], event["run"]["runId"], event["outputs"]
        del privacy_of(event)["release_id"]
        privacy_of(event).pop("certificate_sha256", None)  # a digest of the release's own bytes
    assert told[0] == told[1]


def refusing(handler) -> None:
    handler.send_response(500)
    handler.end_headers()


def elsewhere(handler) -> None:
    handler.send_response(302)
    handler.send_header("Location", "http://127.0.0.1:9/")
    handler.end_headers()


def dripping(handler) -> None:
    """A byte now and then: each resets the timeout of a socket."""
    with suppress(OSError):  # until the run gives up
        handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
        for _ in range(300):  # far longer than it waits
            time.sleep(0.1)
            handler.wfile.write(b"X")


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (refusing, "it answered with status 500"),
        (elsewhere, "it answered with status 302"),
        (dripping, "no answer within 2 s"),
        (None, "it cannot be reached (Connection refused)"),
    ],
)
def test_a_failing_endpoint_neither_fails_nor_delays_a_run(survey, command, caplog, answer, why):
    with endpoint(answer or created) as (url, got):
        if answer is None:
            url = "http://127.0.0.1:9/api/v1/lineage"
        patience = 2.0 if answer is dripping else 60.0
        survey.set(observability={"lineage": {"url": url, "timeout": patience}})
        assert command("run", survey.config, "--direct")[0] == 0
    assert "report.html" in survey.published()
    assert len(got) == (answer is not None)  # the second event is not tried
    warned = [record.message for record in caplog.records if "LineageFeed" in record.message]
    assert warned == [f"LineageFeed: {why}. The run goes on without it."]


@pytest.mark.parametrize(
    ("section", "told"),
    [
        ({}, "needs file or url"),
        ({"url": "ftp://host/path"}, "must be an http:// or https:// URL"),
        ({"url": "https://user:secret@host/path"}, "URL without a password"),
        ({"file": "out/lineage.jsonl"}, "is in output, in which nothing else may be"),
        ({"file": "answers.parquet/lineage.jsonl"}, "cannot be written"),
        ({"file": "a", "timeout": 0.0}, "timeout"),
    ],
)
def test_a_bad_section_is_refused_and_nothing_is_spent(survey, command, section, told):
    survey.set(observability={"lineage": section})
    code, printed = command("run", survey.config, "--direct")
    assert (code, told in " ".join(printed.split())) == (2, True), printed
    assert "secret" not in printed
    assert not survey.ledger.exists()


@pytest.mark.parametrize(
    ("place", "namespace", "name"),
    [
        ("/data/{date}/*.csv", "file", "/data/{date}/*.csv"),
        ("gs://bucket/answers/*.parquet", "gs://bucket", "answers/*.parquet"),
        ("s3://bucket/a", "s3://bucket", "a"),
        ("abfss://c@account.dfs.core.windows.net/x", "abfss://c@account.dfs.core.windows.net", "x"),
        ("bigquery://p.d.t?time=2026-11-20T00:00:00Z", "bigquery", "p.d.t"),
        ("iceberg://lake/arena.battles?ref=main", "iceberg://lake", "arena.battles"),
        ("delta:/lake/battles?version=3", "file", "/lake/battles"),
        ("delta:s3://lake/battles", "s3://lake", "battles"),
    ],
)
def test_data_sets_are_named_as_openlineage_names_them(place, namespace, name):
    assert dataset(place) == {"namespace": namespace, "name": name}


def test_a_certificate_is_named_by_its_digest(survey, command, facet_schema):
    survey.set(observability={"lineage": {"file": "lineage.jsonl"}})
    assert command("run", survey.config, "--direct")[0] == 0
    certificate = survey.archived()[0] / CERTIFICATE
    if not certificate.exists():  # whether a release has one is not for lineage to know
        certificate.write_text("{}")
    assert command("run", survey.config, "--direct")[0] == 0
    check(of_file(survey), facet_schema)
    digest = hashlib.sha256(certificate.read_bytes()).hexdigest()
    assert privacy_of(of_file(survey)[-1])["certificate_sha256"] == digest
