"""A job server is started only where it must be, and its absence is one clear message."""

from __future__ import annotations

import contextlib

import pytest

from hushrank.pipelines.engine import options as job_server
from hushrank.pipelines.engine.options import reachable
from hushrank.pipelines.engine.runner import HERE, Engine, Runner
from hushrank.transforms.common.schema import InputError

CLUSTER = Engine(Runner.FLINK, ("--flink_master=localhost:1", "--environment_type=LOOPBACK"))


class Server:
    """Stands in for Beam's; remembers what became of it."""

    calls: list[str]
    options: dict[str, object]
    failure: Exception | None = None

    def __init__(self, options) -> None:
        type(self).calls = []
        type(self).options = options.get_all_options()

    def start(self) -> None:
        if self.failure is not None:
            raise self.failure
        self.calls.append("start")

    def stop(self) -> None:
        self.calls.append("stop")


@pytest.fixture
def server(monkeypatch) -> type[Server]:
    monkeypatch.setitem(job_server.JOB_SERVERS, Runner.FLINK, Server)
    monkeypatch.setattr(Server, "failure", None)
    monkeypatch.setattr(job_server.shutil, "which", lambda name: f"/usr/bin/{name}")
    return Server


def test_it_runs_as_long_as_the_context(server):
    with contextlib.suppress(KeyboardInterrupt), reachable(CLUSTER) as engine:
        assert server.calls == ["start"]
        raise KeyboardInterrupt
    assert server.calls == ["start", "stop"]
    port = server.options["job_port"]
    assert engine.arguments == (*CLUSTER.arguments, f"--job_endpoint=localhost:{port}")


@pytest.mark.parametrize("engine", [HERE, Engine(Runner.DATAFLOW, ("--project=p",)),
                                    Engine(Runner.FLINK, ("--job_endpoint=a:1",))])  # fmt: skip
def test_none_is_started_where_none_is_needed(monkeypatch, engine):
    monkeypatch.setattr(job_server.shutil, "which", lambda name: None)
    with reachable(engine) as same:
        assert same is engine


def test_no_java(server, monkeypatch):
    monkeypatch.setattr(job_server.shutil, "which", lambda name: None)
    with pytest.raises(InputError, match=r"runner.master: .*needs Java, but there is none"):
        reachable(CLUSTER).__enter__()


@pytest.mark.parametrize("failure", [OSError("unreachable"), RuntimeError("no such jar")])
def test_no_jar(server, monkeypatch, failure):
    monkeypatch.setattr(Server, "failure", failure)
    with pytest.raises(InputError, match=r"cannot be fetched or started \(\w+Error\)"):
        reachable(CLUSTER).__enter__()
