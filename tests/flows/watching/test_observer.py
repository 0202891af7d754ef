"""What machines are told of a run: public facts only, and never at the price of the run."""

from __future__ import annotations

import json
import logging
import os
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, HTTPServer

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client.parser import text_string_to_metric_families

from hushrank.flows.errors import BudgetRefused
from hushrank.flows.watching.destinations import Traces
from hushrank.flows.watching.events import RunEvent
from tests.flows.conftest import answers

STEPS = ["reserve", "reduce", "draw", "estimate", "publish", "commit"]
TOLD = {
    "event", "time", "population", "release_id", "night", "method", "step", "seconds", "ok",
    "error", "message", "epsilon_left", "epsilon_total", "epsilon_since_first",
    "spent_now", "versions",
}  # fmt: skip


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def metrics(path) -> dict[tuple[str, ...], float]:
    families = text_string_to_metric_families(path.read_text())
    return {
        (sample.name.removeprefix("hushrank_"), *sorted(sample.labels.values())): sample.value
        for family in families
        for sample in family.samples
    }


def test_a_run_is_told_step_by_step(survey, command):
    survey.set(observability={"log": "logs/run.jsonl", "metrics": "m/hushrank.prom"})
    assert command("run", survey.config, "--direct")[0] == 0
    told = lines(survey.folder / "logs/run.jsonl")
    assert [event["event"] for event in told] == [
        "run started", *["step ended"] * len(STEPS), "run ended",
    ]  # fmt: skip
    assert [event["step"] for event in told[1:-1]] == STEPS
    assert all(event["ok"] for event in told[1:])
    assert {event["population"] for event in told} == {"zoo"}
    assert told[0]["versions"].keys() >= {"hushrank", "python", "apache-beam", "opendp"}
    assert (told[-1]["epsilon_left"], told[-1]["epsilon_total"]) == (3.0, 5.0)
    assert told[-1]["spent_now"] is True
    found = metrics(survey.folder / "m/hushrank.prom")
    assert found["last_run_success", "zoo"] == 1
    assert found["last_success_timestamp_seconds", "zoo"] > 0
    assert found["budget_epsilon_left", "zoo"] == 3.0
    assert {key[1] for key in found if key[0] == "step_duration_seconds"} == set(STEPS)

    command("run", survey.config, "--direct")
    assert lines(survey.folder / "logs/run.jsonl")[-1]["spent_now"] is False


def test_a_logger_gets_the_same_events_if_somebody_listens(survey, command, caplog):
    survey.set(observability={"log": "run.jsonl"})
    command("run", survey.config, "--direct")
    assert [each for each in caplog.records if each.name == "hushrank.events"] == []
    with caplog.at_level(logging.INFO, "hushrank.events"):
        command("run", survey.config, "--direct")
        survey.set(privacy__epsilon=4.0, output="other")
        command("run", survey.config, "--direct")
    heard = [each for each in caplog.records if each.name == "hushrank.events"]
    written = lines(survey.folder / "run.jsonl")[-len(heard) :]
    assert [json.loads(json.dumps(each.event)) for each in heard] == written
    assert [each.levelname for each in heard if each.event.get("ok") is False] == ["ERROR"] * 2
    assert heard[0].getMessage() == "zoo: run started"


def test_the_vocabulary_is_closed():
    assert set(RunEvent.__slots__) == TOLD  # a new field needs a thought about what it tells


def test_of_two_inputs_the_same_is_told(survey, command, monkeypatch):
    """All but ids and times: nothing tells how many rows there were, or what they said."""
    monkeypatch.setattr("hushrank.flows.watching.observer.time.monotonic", lambda: 0.0)
    survey.set(observability={"log": "run.jsonl"})
    told = []
    for people in (200, 37):
        pq.write_table(answers(people, seed=people), survey.folder / "answers.parquet")
        survey.set(name=f"zoo{people}", ledger__path=f"l{people}.jsonl", output=f"out{people}")
        survey.set(confidential=f"work{people}")  # or it knows the other ledger
        command("run", survey.config, "--direct")
        told.append(lines(survey.folder / "run.jsonl"))
        (survey.folder / "run.jsonl").unlink()
    for event in (*told[0], *told[1]):
        for name in ("time", "release_id", "population"):
            del event[name]
    assert told[0] == told[1]


def test_a_failure_is_told_and_the_last_success_is_kept(survey, command):
    survey.set(observability={"log": "run.txt", "log_format": "text", "metrics": "h.prom"})
    command("run", survey.config, "--direct")
    before = metrics(survey.folder / "h.prom")
    survey.set(privacy__epsilon=4.0, output="other")
    code, printed = command("run", survey.config, "--direct")
    assert code == BudgetRefused.exit_code
    last = (survey.folder / "run.txt").read_text().splitlines()[-1]
    assert " run failed zoo " in last
    assert 'error="BudgetRefused"' in last
    assert json.loads(last.partition("message=")[2]) in printed.replace("\n", "")
    after = metrics(survey.folder / "h.prom")
    assert after["last_run_success", "zoo"] == 0
    for name in ("last_success_timestamp_seconds", "budget_epsilon_left"):
        assert after[name, "zoo"] == before[name, "zoo"]


def test_the_text_of_an_unforeseen_error_is_not_told(survey, command, monkeypatch):
    def fail(*_):
        raise ZeroDivisionError("CANARY 17 people prefer ants")

    survey.set(observability={"log": "run.jsonl", "metrics": "h.prom"})
    monkeypatch.setattr("hushrank.flows.run.run.estimate", fail)
    with pytest.raises(ZeroDivisionError):
        command("run", survey.config, "--direct")
    told = lines(survey.folder / "run.jsonl")
    assert told[-1]["error"] == told[-2]["error"] == "ZeroDivisionError"
    for name in ("run.jsonl", "h.prom"):
        assert "CANARY" not in (survey.folder / name).read_text()


@pytest.mark.parametrize("key", ["log", "metrics"])
def test_a_destination_that_cannot_be_written_is_refused_before_anything_is_spent(
    survey, command, key
):
    (survey.folder / "file").write_text("")
    survey.set(observability={key: "file/inside"})
    code, printed = command("run", survey.config, "--direct")
    assert code == 2
    assert f"observability.{key}:" in printed
    assert "Nothing was read or spent" in printed.replace("\n", " ")
    assert not survey.ledger.exists()


def test_a_destination_that_fails_later_does_not_stop_the_run(survey, command, caplog, monkeypatch):
    from hushrank.flows.watching.destinations import LogFile

    def full(self, event):
        raise OSError(28, "No space left on device")

    survey.set(observability={"log": "run.jsonl", "metrics": "h.prom"})
    monkeypatch.setattr(LogFile, "tell", full)
    assert command("run", survey.config, "--direct")[0] == 0
    assert "report.html" in survey.published()
    assert [record.message for record in caplog.records if "LogFile" in record.message] == [
        "LogFile: No space left on device. The run goes on without it."
    ]
    assert metrics(survey.folder / "h.prom")["last_run_success", "zoo"] == 1


def test_spans_of_a_run_have_its_steps_below_it(survey, command, monkeypatch):
    exporter = InMemorySpanExporter()
    monkeypatch.setattr("hushrank.flows.watching.destinations.Traces", lambda: Traces(exporter))
    survey.set(observability={"traces": True})
    assert command("run", survey.config, "--direct")[0] == 0
    *steps, run = exporter.get_finished_spans()
    assert [span.name for span in steps] == STEPS
    assert run.name == "hushrank run"
    assert all(span.parent.span_id == run.context.span_id for span in steps)
    assert all(span.status.is_ok for span in (*steps, run))
    assert run.attributes["hushrank.population"] == "zoo"
    assert {key.removeprefix("hushrank.") for key in run.attributes} <= TOLD


def test_spans_arrive_at_a_collector(survey, command, monkeypatch):
    bodies: list[tuple[str, bytes]] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            bodies.append((self.path, body))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "600")  # seconds, on a busy machine
    monkeypatch.setattr("hushrank.flows.watching.destinations.FLUSH_MILLISECONDS", 600_000)
    survey.set(observability={"traces": True})
    assert command("run", survey.config, "--direct")[0] == 0
    server.shutdown()
    server.server_close()
    assert {path for path, _ in bodies} == {"/v1/traces"}
    sent = b"".join(body for _, body in bodies)  # of a slow run, some steps are sent before its end
    assert b"hushrank run" in sent
    assert b"reserve" in sent


CANARY = "canary-7f3a"


def test_a_support_bundle_holds_no_data(survey, command, monkeypatch):
    """A canary in rows, rejects, the confidential area and an error's text is not in the bundle."""
    table = answers(50)
    users = pa.array([f"{CANARY}-{user}" for user in table["user"].to_pylist()])
    bad = pa.array([f"{CANARY}-item", *["ants"] * (len(table) - 1)])
    table = table.set_column(0, "user", users).set_column(1, "item_i", bad)
    pq.write_table(table, survey.folder / "answers.parquet")
    survey.set(observability={"log": "run.jsonl"})
    command("run", survey.config, "--direct")
    (release,) = (path for path in survey.work.iterdir() if path.is_dir())
    planted = f'ValueError: {CANARY}\n  File "{CANARY}.py", line 3, in {CANARY}\n'
    real = f'  File "{os.path.abspath(json.__file__)}", line 7, in loads\n'
    posing = f'  File "{os.path.abspath(json.__file__)}", line 7, in canary\n'
    (release / "error.txt").write_text(f"Traceback:\n{real}{posing}{planted}")
    target = survey.folder / "bundle.zip"
    code, printed = command("support", survey.config, "--to", target)
    assert code == 0, printed
    with zipfile.ZipFile(target) as bundle:
        contents = {name: bundle.read(name).decode() for name in bundle.namelist()}
    assert set(contents) == {
        "README.txt", "versions.json", "configuration.json", "ledger.txt",
        "confidential-files.json", "code-places.json", "log-tail.txt",
    }  # fmt: skip
    assert not [name for name, text in contents.items() if "canary" in text.lower()]
    assert not [name for name, text in contents.items() if '"ants"' in text or "bees" in text]
    assert "reserve" in contents["log-tail.txt"]
    assert json.loads(contents["configuration.json"])["items"] == {"count": 4}
    assert (release / "rejects").is_dir()
    assert set(json.loads(contents["confidential-files.json"])[release.name]) == {
        "drawn.npz", "diagnostics.json", "error.txt",
    }  # fmt: skip
    assert json.loads(contents["code-places.json"])[release.name] == [
        f"{'/'.join(os.path.abspath(json.__file__).split('/')[-3:])}:7 loads"
    ]
    code, printed = command("support", survey.config, "--to", target)
    assert code == 2
    assert "exists already" in printed


def test_a_bundle_of_a_broken_configuration_says_what_is_broken(survey, command):
    survey.set(top_k=99)
    target = survey.folder / "bundle.zip"
    assert command("support", survey.config, "--to", target)[0] == 0
    with zipfile.ZipFile(target) as bundle:
        assert "top_k" in bundle.read("configuration-error.txt").decode()


def test_a_run_that_fails_unforeseen_leaves_a_bundle_where_one_is_asked_for(
    survey, command, monkeypatch, caplog
):
    survey.set(observability={"support": "support"}, privacy__epsilon=9.0)
    assert command("run", survey.config, "--direct")[0] == BudgetRefused.exit_code
    assert not (survey.folder / "support").exists()

    def fail(*_):
        raise ZeroDivisionError(CANARY)

    survey.set(privacy__epsilon=1.0)
    monkeypatch.setattr("hushrank.flows.run.run.reduce", fail)
    with pytest.raises(ZeroDivisionError):
        command("run", survey.config, "--direct")
    (bundle,) = (survey.folder / "support").iterdir()
    assert any(str(bundle) in record.message for record in caplog.records)
    with zipfile.ZipFile(bundle) as contents:
        assert not any(CANARY.encode() in contents.read(name) for name in contents.namelist())
