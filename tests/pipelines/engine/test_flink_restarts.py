"""Which settings of a Flink cluster make up for a machine that dies."""

from __future__ import annotations

import json
import socket
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from hushrank.pipelines.engine.flink_restarts import doubt_about, settings_of

FIXED = {"restart-strategy.type": "fixed-delay"}
RATE, GROWING = ({"restart-strategy.type": name} for name in ("failure-rate", "exponential-delay"))
MOST, INTERVAL, PAUSE = (
    f"restart-strategy.failure-rate.{name}"
    for name in ("max-failures-per-interval", "failure-rate-interval", "delay")
)
TRIES, FIRST, LONGEST, FACTOR = (
    f"restart-strategy.exponential-delay.{name}"
    for name in (
        "attempts-before-reset-backoff",
        "initial-backoff",
        "max-backoff",
        "backoff-multiplier",
    )
)
TIMES, DELAY = "restart-strategy.fixed-delay.attempts", "restart-strategy.fixed-delay.delay"


@pytest.mark.parametrize(
    "settings",
    [
        FIXED | {TIMES: "4", DELAY: "15 s"},
        FIXED | {TIMES: "4", DELAY: "3 s", "heartbeat.timeout": "8000"},
        FIXED | {TIMES: "2", DELAY: "1 min"},
        FIXED | {TIMES: "3", DELAY: "PT20S", "heartbeat.timeout": "50000 ms"},
        FIXED | {TIMES: "2", DELAY: "1 minute"},
        {"restart-strategy": "fixeddelay", TIMES: "51"},
        {"restart-strategy": "exponential-delay"},
        GROWING,
        GROWING | {TRIES: "9"},  # 0.9 (1 + 1.5 + ... + 1.5^8) = 67 s
        GROWING | {TRIES: "2", FIRST: "30 s"},
        GROWING | {TRIES: "60", LONGEST: "1 s"},
        GROWING | {FACTOR: "1.000000000001"},  # whose delays grow 10^12 times before the longest
        RATE | {MOST: "4", PAUSE: "15 s"},
        RATE | {MOST: "51"},
        RATE | {MOST: "2", PAUSE: "10 s", INTERVAL: "15 s"},  # never so many in so short a time
        RATE | {MOST: "1", PAUSE: "9 s", "heartbeat.timeout": "8 s"},
        {"restart-strategy": "failurerate", MOST: "2", PAUSE: "30 s"},
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
        (FIXED | {TIMES: "9", DELAY: "5000 milliseconds"}, "at most 9 times, 5 s apart"),
        (FIXED | {TIMES: "often"}, "at most 0 times"),
        ({"restart-strategy.type": "None"}, "the cluster restarts no job"),
        ({"restart-strategy.type": "disable"}, "the cluster restarts no job"),
        (RATE, "at most 1 times in 60 s, 1 s apart, and takes 50 s"),
        (RATE | {MOST: "3", PAUSE: "10 s"}, "at most 3 times in 60 s, 10 s apart"),
        (RATE | {MOST: "3", INTERVAL: "3 s"}, "at most 3 times in 3 s, 1 s apart"),
        (RATE | {MOST: "5", PAUSE: "10 s"}, "at most 5 times in 60 s, 10 s apart"),
        (GROWING | {TRIES: "8"}, "at most 8 times, 1 s apart at first and 60 s at last"),  # 44 s
        (GROWING | {TRIES: "50", LONGEST: "1 s"}, "at most 50 times, 1 s apart at first and 1 s"),
        (GROWING | {TRIES: "2", FIRST: "27 s", FACTOR: "1.01"}, "at most 2 times, 27 s apart"),
        (GROWING | {FIRST: "soon"}, "0 s apart at first"),
        ({"restart-strategy.type": "org.example.Mine"}, "strategy 'org.example.mine' is unknown"),
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


@pytest.mark.parametrize("timeout", ["PT1M30S", "soon"])
def test_a_heartbeat_that_is_no_duration_is_told_of(timeout):
    doubt = doubt_about(FIXED | {TIMES: "4", DELAY: "3 s", "heartbeat.timeout": timeout})
    assert "was not checked" in doubt
    assert timeout in doubt


@pytest.mark.parametrize(
    "answer", [b"\x15\x03\x01\x00\x02\x02\x16", b"HTTP/1.0 200 OK\r\nContent-Length: 9\r\n\r\n["]
)
def test_an_answer_of_another_protocol_or_a_cut_one_is_no_error(answer):
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        assert settings_of(f"127.0.0.1:{server.getsockname()[1]}") is None
