"""`infra/worker_pool.py`: what it says where it cannot serve, or cannot fork."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

# Stand-ins for Beam, which takes seconds to load. The first word says what the system does.
POOL = """
import os, runpy, sys, types

case, pool = sys.argv[1:3]


class Response:
    def __init__(self, error=""):
        self.error = error


class Servicer:
    @classmethod
    def start(cls, port):
        if case == "taken":
            raise RuntimeError(f"cannot bind port {port}")
        url = types.SimpleNamespace(url="machine")
        for name in ("1-1", "1-2", "1-3"):
            asked = types.SimpleNamespace(control_endpoint=url, worker_id=name)
            cls.asked.append((name, asked))
        import threading
        threading.Thread(target=cls.ask).start()
        return "here", types.SimpleNamespace(stop=lambda _: None)

    asked = []

    @classmethod
    def ask(cls):
        for name, asked in cls.asked:
            print(name, cls().StartWorker(asked, None).error or "started", flush=True)
        os._exit(0)


class Harness:
    def __init__(self, machine, worker_id):
        pass

    def run(self):
        pass


def module(name, **content):
    made = sys.modules[name] = types.ModuleType(name)
    vars(made).update(content)


beam = "apache_beam.portability.api", "apache_beam.runners.worker"
for name in ("apache_beam", "apache_beam.portability", beam[0], "apache_beam.runners", beam[1]):
    module(name)
api = types.SimpleNamespace(StartWorkerResponse=Response)
module(beam[0], beam_fn_api_pb2=api)
module(f"{beam[1]}.sdk_worker", SdkHarness=Harness)
module(f"{beam[1]}.worker_pool_main", BeamFnExternalWorkerPoolServicer=Servicer)
for name in ("hushrank", "hushrank.pipelines", "hushrank.pipelines.reduce"):
    module(name)
module("hushrank.pipelines.reduce.reduce")

fork, forks = os.fork, []


def fork_twice():
    forks.append(1)
    if len(forks) == 3:  # after what answers machines, and the first worker
        raise BlockingIOError(11, "Resource temporarily unavailable")
    return fork()


os.fork = fork_twice
sys.argv = [pool, "1"]
runpy.run_path(pool, run_name="__main__")
"""


@pytest.mark.parametrize("case", ["taken", "full"])
def test_a_pool_that_cannot_serve_ends_with_1_and_one_that_cannot_fork_says_so(
    checkout: Path, case: str
) -> None:
    pool = checkout / "infra" / "worker_pool.py"
    command = [sys.executable, "-c", POOL, case, str(pool)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1, done.stderr  # in both cases what answers machines ended first
    if case == "taken":
        assert "cannot bind port 1" in done.stderr
    else:
        why = "the pool cannot fork a worker: Resource temporarily unavailable"
        assert done.stdout.splitlines() == ["1-1 started", f"1-2 {why}", "1-3 started"]
        assert "Cannot fork worker 1-2: Resource" in done.stderr
