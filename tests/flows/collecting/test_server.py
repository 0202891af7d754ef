"""A real collector: killed under load, held up by slow clients, flooded with connections."""

from __future__ import annotations

import asyncio
import collections
import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress

import httpx
import pytest

from hushrank.flows.collecting.server import terms_of
from hushrank.flows.collecting.spool import seal_spools
from hushrank.pipelines.simulate.simulate_responses import send
from tests.flows.collecting.collecting import PATIENCE, running
from tests.flows.collecting.surveys import ITEMS, body, comparison, encoded, parts, survey
from tests.ports import free_port

pytestmark = pytest.mark.slow

JSON = {"content-type": "application/json"}
CONNECTIONS = 10_000
AT_ONCE = 20  # connections that send answers
# Of each request: it has no TLS, so no certificates are read, which takes 40 ms of processor time.
LOCAL = {"timeout": PATIENCE, "verify": False}
MOST_MEMORY = 150 << 20  # bytes that a flood may add


def post(collector, content, **headers):
    url = f"http://127.0.0.1:{collector.port}/answers"
    return httpx.post(url, content=content, headers=JSON | headers, **LOCAL)


def numbered(number):
    """A body whose three answers show its number in their epsilon."""
    answers = [comparison(right=other, epsilon=1 + number / 2**20) for other in ITEMS[1:4]]
    return encoded(body(answers))


class BodiesUntil(list):
    """Bodies of requests: after some `killer` starts, and before the last it has ended.

    So some are acknowledged before the blow, and the last is not, however slow the machine is.
    """

    def __init__(self, bodies, killer):
        super().__init__(bodies)
        self.killer = killer

    def __getitem__(self, turn):
        if turn == 2 * AT_ONCE:
            self.killer.start()
        if turn == len(self) - 1:
            self.killer.join()
        return super().__getitem__(turn)


@pytest.mark.parametrize("days", [0, -1], ids=["within a night", "over its end"])
def test_a_killed_collector_has_every_answer_that_it_acknowledged_once(tmp_path, days):
    """kill -9 under load, four times; the last collector writes the parts, or `--seal` does."""
    config = survey(tmp_path)
    statuses = []
    for turn, seconds in enumerate((0.05, 0.2, 0.35, 0.5)):
        with running(tmp_path, days) as collector:
            bodies = [numbered(number) for number in range(2000 * turn, 2000 * (turn + 1))]
            bodies = BodiesUntil(bodies, threading.Timer(seconds, collector.kill))
            sent = asyncio.run(send(bodies, collector.port, "/answers", connections=AT_ONCE))
            assert {one.status for one in sent} == {200, 0}  # the kill came in the middle
            statuses += [one.status for one in sent]
    acknowledged = {number for number, status in enumerate(statuses) if status == 200}
    assert seal_spools(tmp_path / "spool", terms_of(config, print)) >= 1
    rows = parts(tmp_path / "answers")
    found = collections.Counter((eps - 1) * 2**20 for eps in rows["eps"].to_pylist())
    assert acknowledged <= found.keys()
    assert set(found.values()) == {3}
    assert all(statuses[int(number)] in (200, 0) for number in found)


@pytest.fixture(scope="module")
def abused(tmp_path_factory):
    """A collector that waits two seconds for a request."""
    folder = tmp_path_factory.mktemp("abused")
    survey(folder)
    with running(folder, RECEIVE_SECONDS=2.0) as collector:
        yield collector


@pytest.fixture(scope="module")
def patient(tmp_path_factory):
    """A collector that never calls a request slow."""
    folder = tmp_path_factory.mktemp("patient")
    survey(folder)
    with running(folder, RECEIVE_SECONDS=PATIENCE) as collector:
        yield collector


def slowly(collector, pieces, pause):
    """All that comes back while pieces are sent, `pause` seconds apart, until it is closed."""
    answer = b""
    with socket.create_connection(("127.0.0.1", collector.port), PATIENCE) as peer:
        for piece in pieces:
            peer.settimeout(PATIENCE)
            with suppress(OSError):  # it is closed: what was said before can still be read
                peer.sendall(piece)
            peer.settimeout(pause)
            try:
                got = peer.recv(10_000)
            except TimeoutError:
                continue
            except OSError:
                break
            answer += got
            if not got:
                break
    return answer


PAUSE = 0.1
MANY = round(PATIENCE / PAUSE)
HEAD = b"POST /answers HTTP/1.1\r\nHost: here\r\nContent-Type: application/json\r\n"


@pytest.mark.parametrize(
    "pieces",
    [
        [b""] * MANY,
        [b"P", b"O", b"S", b"T", b" "] + [b"/"] * MANY,
        [HEAD] + [b"X-Header: 1\r\n"] * MANY,
        [HEAD + b"Content-Length: 8000\r\n\r\n"] + [b"{"] * MANY,
    ],
    ids=["nothing", "a line", "headers", "a body"],
)
def test_a_slow_client_is_told_so_and_closed(abused, pieces):
    left = iter(pieces)
    answer = slowly(abused, left, PAUSE)
    assert next(left, None) is not None  # it wanted to go on for ten minutes
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"did not come within 2 seconds" in answer


def test_a_quick_client_may_take_many_turns_on_one_connection(abused):
    with httpx.Client(timeout=PATIENCE) as client:
        for _ in range(6):  # together longer than one of them may take
            url = f"http://127.0.0.1:{abused.port}/answers"
            content = encoded(body([comparison()]))
            assert client.post(url, content=content, headers=JSON).status_code == 200
            time.sleep(0.45)


def test_a_body_without_end_is_cut_off(patient):
    head = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
    chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    before = patient.memory
    answer = slowly(patient, [head] + [chunk] * 500, 0.01)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert patient.memory - before < 20 << 20


@pytest.mark.parametrize(
    "content",
    [
        b"\x16\x03\x01\x02\x00\x01\x00" + bytes(50),  # the start of TLS
        b"GET / HTTP/9.9\r\n\r\n",
        b"\r\n" * 500,
        b"POST /answers HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
        b"POST /answers HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
        HEAD + b"X: " + b"y" * 100_000 + b"\r\n\r\n",
        HEAD + b"Connection: upgrade\r\nUpgrade: websocket\r\n\r\n",
    ],
)
def test_what_is_no_request_is_refused(abused, content):
    answer = slowly(abused, [content] + [b""] * 12, PAUSE)
    assert answer == b"" or re.match(rb"HTTP/1.1 4\d\d ", answer)


@pytest.fixture
def flooded(tmp_path):
    """A collector that holds 500 connections, each for ten seconds without a request."""
    survey(tmp_path)
    with running(tmp_path, RECEIVE_SECONDS=10.0, MOST_CONNECTIONS=500) as collector:
        yield collector


def told_at_once(peers):
    """What has come to each, without waiting."""
    for peer in peers:
        peer.setblocking(False)
        try:
            yield peer.recv(1000)
        except OSError:
            yield b""


def test_ten_thousand_connections_do_not_stop_it(flooded):
    """They are refused above the bound, memory stays, and answers are taken once they time out.

    At most 50 a second are let in, so most are refused wherever 100 a second are made.
    """
    collector = flooded
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < CONNECTIONS + 500:
        pytest.skip(f"this process may open {hard} files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    before, peers = collector.memory, []
    try:
        for _ in range(CONNECTIONS):
            peers.append(socket.create_connection(("127.0.0.1", collector.port), PATIENCE))
        peers[-1].recv(1000, socket.MSG_PEEK)  # the others have been refused, or let in, before
        refused = [told.startswith(b"HTTP/1.1 503 ") for told in told_at_once(peers)]
        assert sum(refused) > CONNECTIONS / 2
        assert collector.memory - before < MOST_MEMORY
        deadline = time.monotonic() + PATIENCE
        while (status := taken(collector)) != 200:
            assert status in (0, 408, 503)
            assert time.monotonic() < deadline
            time.sleep(0.2)
    finally:
        for peer in peers:
            peer.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def taken(collector):
    try:
        return post(collector, encoded(body([comparison()]))).status_code
    except httpx.TransportError:
        return 0


def test_nothing_is_printed_and_nothing_but_answers_is_kept(tmp_path):
    """Right, wrong and broken requests: not one line about anybody, and no address anywhere."""
    config = survey(tmp_path)
    with running(tmp_path) as collector:
        contents = [numbered(1), numbered(2), encoded(body([comparison(left="wolves")])), b"wolves"]
        assert [post(collector, each).status_code for each in contents] == [200, 200, 422, 422]
        slowly(collector, [b"GET / wolves\r\n\r\n"], 0.5)
        with socket.create_connection(("127.0.0.1", collector.port)) as peer:
            peer.sendall(HEAD + b"Content-Length: 500\r\n\r\n")  # and away
        counts = httpx.get(f"http://127.0.0.1:{collector.private}/metrics", **LOCAL).text
        assert collector.stop() == 0
    assert "hushrank_collect_answers_total 6.0" in counts
    assert (tmp_path / "printed.txt").read_text() == ""
    kept = b"".join(path.read_bytes() for path in (tmp_path / "spool").rglob("*.journal"))
    assert b"127.0.0.1" not in kept
    assert b"wolves" not in kept
    assert seal_spools(tmp_path / "spool", terms_of(config, print)) == 1
    assert len(parts(tmp_path / "answers")) == 6


def test_the_command_collects_stops_and_seals(tmp_path, command):
    survey(tmp_path)
    words = [sys.executable, "-m", "hushrank", "collect", "survey.yaml"]
    port = free_port()
    collector = subprocess.Popen(
        [*words, "--port", str(port)], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )
    try:
        content, url = encoded(body([comparison()])), f"http://127.0.0.1:{port}/answers"
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                response = httpx.post(url, content=content, headers=JSON, **LOCAL)
                break
            except httpx.ConnectError:
                assert time.monotonic() < deadline
                time.sleep(0.1)
        assert response.json() == {"accepted": 1}
        os.kill(collector.pid, signal.SIGTERM)
        printed, _ = collector.communicate(timeout=PATIENCE)
    finally:
        collector.kill()
    assert collector.returncode == 0
    assert printed.startswith(f"Collecting answers for campus at {url}.")
    assert not (tmp_path / "answers").exists()
    code, printed = command("collect", tmp_path / "survey.yaml", "--seal")
    assert code == 0
    assert printed.startswith("Wrote 1 part to ")
    assert len(parts(tmp_path / "answers")) == json.loads(response.text)["accepted"]
