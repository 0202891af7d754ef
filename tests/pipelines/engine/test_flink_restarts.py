"""Which settings of a Flink cluster make up for a machine that dies."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from hushrank.pipelines.engine.flink_restarts import doubt_about, settings_of

FIXED = {"restart-strategy.type": "fixed-delay"}
TIMES, DELAY = "restart-strategy.fixed-delay.attempts", "restart-strategy.fixed-delay.delay"


@pytest.mark.parametrize(
    "settings",
    [
        FIXED | {TIMES: "4", DELAY: "15 s"},
        FIXED | {TIMES: "4", DELAY: "3 s", "heartbeat.timeout": "8000"},
        FIXED | {TIMES: "2", DELAY: "1 min"},
        FIXED | {TIMES: "3", DELAY: "PT20S", "heartbeat.timeout": "50000 ms"},
        {"restart-strategy": "exponential-delay"},
        {"restart-strategy.type": "failure-rate"},
    ],
)
def test_patient_clusters_are_not_doubted(settings):
    assert doubt_about(settings) is None


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "the cluster restarts no job"),
        ({"restart-strategy": "off"}, "the cluster restarts no job"),
        (FIXED, "at most 1 times, 1 s apart, and takes 50 s to notice"),
        (FIXED | {TIMES: "1", DELAY: "1 s", "heartbeat.timeout": "8 s"}, "takes 8 s to notice"),
        (FIXED | {TIMES: "5", DELAY: "10 s"}, "at most 5 times, 10 s apart"),
    ],
)
def test_what_is_wrong_and_what_to_set(settings, said):
    doubt = doubt_about(settings)
    assert said in doubt
    assert "Set restart-strategy.type: fixed-delay" in doubt


def test_a_cluster_is_asked_and_one_that_does_not_answer_is_no_error():
    told = {"/jobmanager/config": [{"key": "a", "value": "b"}]}

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(told[self.path]).encode())

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        assert settings_of(f"127.0.0.1:{server.server_port}") == {"a": "b"}
    assert settings_of(f"127.0.0.1:{server.server_port}") is None
