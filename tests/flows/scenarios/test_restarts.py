"""Whoever starts a run on Flink learns what its cluster says of restarts before it reserves."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pytest

from hushrank.flows.errors import HushrankError
from hushrank.flows.interfaces.python.run import run as run_in_python
from hushrank.flows.run import run
from tests.flows.conftest import InProcessReducer, Survey

PATIENT = {"restart-strategy.type": "exponential-delay"}
AT_ONCE = {"restart-strategy.type": "failure-rate"}
DOUBT = "runner: the cluster restarts a job at most 1 times in 60 s"
NOT_CHECKED = "runner: whether Flink makes up for a machine that dies was not checked"
STOPPED = "the test goes no further"


class Cluster:
    """The settings of a cluster, and its address."""

    def __init__(self) -> None:
        self.settings = AT_ONCE
        self.address = ""


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    found = Cluster()

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self):
            assert self.path == "/jobmanager/config"
            told = [{"key": key, "value": value} for key, value in found.settings.items()]
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(told).encode())

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        found.address = f"127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield found
        server.shutdown()


@pytest.fixture
def flink(survey, cluster, monkeypatch) -> Survey:
    """The survey on that cluster; its run stops as it is about to reserve."""

    def stop(*_):
        raise HushrankError(STOPPED)

    monkeypatch.setattr(run, "reserve", stop)
    monkeypatch.setattr("hushrank.flows.interfaces.python.run.Reducer", InProcessReducer)
    runner = {"kind": "flink", "job_server": "localhost:1", "rest": cluster.address}
    return survey.set(runner=runner)


def test_the_command_says_it_before_anything_is_reserved(flink, cluster, command):
    code, printed = command("run", flink.config, "--direct")
    assert code == 1
    assert printed.index(DOUBT) < printed.index(STOPPED)
    assert not flink.ledger.exists()
    cluster.settings = PATIENT
    assert "runner:" not in command("run", flink.config, "--direct")[1]


@pytest.mark.parametrize("known", [False, True])
def test_a_cluster_that_tells_nothing_was_not_checked(flink, cluster, command, known):
    flink.set(runner__rest="127.0.0.1:1" if known else None)
    _, printed = command("run", flink.config, "--direct")
    assert printed.index(NOT_CHECKED) < printed.index(STOPPED)
    assert ("does not answer" if known else "runner.rest does not name") in printed
    code, printed = command("validate", flink.config)
    assert code == 0
    assert NOT_CHECKED in printed


def test_python_says_it_too(flink, caplog, capsys):
    with pytest.raises(HushrankError, match=STOPPED):
        run_in_python(flink.config)
    assert [DOUBT in record.message for record in caplog.records].count(True) == 1
    with pytest.raises(HushrankError, match=STOPPED):
        run_in_python(flink.config, progress=True)
    assert DOUBT in capsys.readouterr().out.replace("\n", " ")


def test_a_scheduled_run_says_it_in_its_log(flink, monkeypatch):
    """Without a server: flow and tasks are functions, and the logger a list."""
    from hushrank.flows.nights import scheduled

    monkeypatch.setattr("prefect.flow", lambda **_: lambda function: function)
    monkeypatch.setattr("hushrank.flows.nights.flow.set_defaults", lambda: None)
    monkeypatch.setattr("hushrank.flows.nights.flow._as_task", lambda step, action: action)
    said = []
    logger = SimpleNamespace(warning=said.append)
    monkeypatch.setattr(scheduled, "get_run_logger", lambda: logger)
    monkeypatch.setattr(scheduled, "Reducer", InProcessReducer)
    with pytest.raises(HushrankError, match=STOPPED):
        scheduled._rank(str(flink.config), None, anyway=False)
    assert [DOUBT in each for each in said].count(True) == 1
