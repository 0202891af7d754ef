"""Schedules on a real Prefect server, and what happens where there is none."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import httpx
import pyarrow.parquet as pq
import pytest

from hushrank.flows.release.archive import archived
from tests.flows.conftest import Survey, answers
from tests.ports import free_port

HUSHRANK = [sys.executable, "-m", "hushrank.flows.interfaces.cli.main"]
pytestmark = pytest.mark.timeout(3000)
PATIENCE = 800.0  # seconds; a server starts in 10, but in minutes on a very busy machine


def now_about_noon() -> str:
    """A time zone in which no night ends while a test runs."""
    hours = 12 - datetime.now(UTC).hour
    return f"Etc/GMT{-hours:+d}"  # whose sign is the other way round


def wait_for(what: str, condition) -> Any:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.2)
    raise AssertionError(f"no {what} within {PATIENCE:g} s")


def stop(process: subprocess.Popen) -> None:
    os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(timeout=60)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.fixture
def nightly(survey):
    """Two nights with files, today's last night one of them."""
    zone = now_about_noon()
    last = datetime.now(ZoneInfo(zone)).date() - timedelta(days=1)
    for back in (0, 1):
        folder = survey.folder / "log" / f"date={last - back * timedelta(days=1)}"
        folder.mkdir(parents=True)
        pq.write_table(answers(50, back), folder / "part-0.parquet")
    return survey.set(input__paths=["log"], schedule={"partition": "date", "timezone": zone})


@pytest.fixture(scope="module")
def server(tmp_path_factory, prefect_home) -> Iterator[str]:
    """URL of a Prefect server of its own; the environment names it to child processes."""
    home = shutil.copytree(prefect_home, tmp_path_factory.mktemp("prefect") / "home")
    port = free_port()
    url = f"http://127.0.0.1:{port}/api"
    environment = {
        "PREFECT_HOME": str(home),
        "PREFECT_API_URL": url,
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "1",
        "PREFECT_RUNNER_POLL_FREQUENCY": "1",
    }
    command = ["-m", "prefect", "server", "start", "--port", str(port), "--no-ui"]
    with pytest.MonkeyPatch.context() as patch, (home / "server.log").open("wb") as log:
        for name, value in environment.items():
            patch.setenv(name, value)
        process = subprocess.Popen(
            [sys.executable, *command], stdout=log, stderr=log, start_new_session=True
        )
        try:
            wait_for("server", lambda: answers_at(url))
            yield url
        finally:
            stop(process)


def answers_at(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health", timeout=PATIENCE).status_code == 200
    except httpx.TransportError:
        return False


def runs_of(url: str, population: str, state: str) -> list[dict[str, Any]]:
    """Scheduled runs of a population in a state."""
    wanted = {
        "deployments": {"name": {"any_": [population]}},
        "flow_runs": {"state": {"type": {"any_": [state]}}},
    }
    found: list[dict[str, Any]] = posted(f"{url}/flow_runs/filter", wanted).json()
    return found


def posted(url: str, content: Any) -> httpx.Response:
    return httpx.post(url, json=content, timeout=PATIENCE)


@pytest.mark.engine
# A stream goes through the same flow in the next test: ten seconds of Prefect for it are enough.
@pytest.mark.parametrize("kind", ["nights", pytest.param("stream", marks=pytest.mark.soak)])
def test_a_served_schedule_makes_runs_and_one_of_them_ranks_what_is_due(
    nightly, server, tmp_path, kind
):
    """The last night; of a stream every night from its first, in order, for one budget."""
    nightly.set(name=kind)
    dates = sorted(path.name[-10:] for path in (nightly.folder / "log").iterdir())
    due = dates if kind == "stream" else dates[-1:]
    if kind == "stream":
        terms = {"nights": 9, "participations": 2, "gap": 1, "show": "cumulative"}
        nightly.set(
            schedule__stream=terms | {"first": dates[0]},
            privacy={"unit": "user", "epsilon": 2.0, "delta": 1e-6, "noise": "gaussian",
                     "max_contributions": 5},
            ledger={"path": "ledger.jsonl", "epsilon": 2.0, "delta": 1e-6},
        )  # fmt: skip
    log = (tmp_path / "serve.log").open("wb")
    cron = "* * * * * */10"  # every ten seconds, which no operator would want
    served = subprocess.Popen(
        [*HUSHRANK, "serve", str(nightly.config), "--cron", cron],
        stdout=log,
        stderr=log,
        start_new_session=True,
    )
    try:
        assert wait_for("scheduled run", lambda: runs_of(server, kind, "SCHEDULED"))
        assert wait_for("completed run", lambda: runs_of(server, kind, "COMPLETED"))
    finally:
        stop(served)
    # Later runs found nothing to do.
    assert sorted(folder.name[:10] for folder in archived(nightly.output)) == due
    assert deployment_of(server, kind)["entrypoint"] == "hushrank.flows.nights.scheduled.nights"


def deployment_of(url: str, population: str) -> dict[str, Any]:
    told = httpx.get(f"{url}/deployments/name/nights/{population}", timeout=PATIENCE)
    found: dict[str, Any] = told.json()
    return found


def hushrank(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*HUSHRANK, *words], capture_output=True, text=True)


def deployed(config: Path, url: str, population: str) -> dict[str, Any]:
    """The deployment of a job, of which a worker is to make a run now."""
    done = hushrank("deploy", str(config), "--cron", "0 2 * * *")
    assert done.returncode == 0, done.stderr
    assert f"Deployed nights/{population}: workers of pool hushrank run it." in done.stdout
    found = deployment_of(url, population)
    start = {"state": {"type": "SCHEDULED"}}
    posted(f"{url}/deployments/{found['id']}/create_flow_run", start)
    return found


def a_stream_beside(survey: Survey) -> Survey:
    """A stream of the same rows, of which one night is due and one was drawn."""
    work = survey.folder / "stream"
    work.mkdir()
    stream = Survey(work, deepcopy(survey.settings))
    first = datetime.now(ZoneInfo(survey.settings["schedule"]["timezone"])).date()
    terms = {"nights": 9, "participations": 3, "gap": 3, "show": {"window": 3}}
    stream.set(
        name="river",
        input__paths=[str(survey.folder / "log")],
        schedule__stream={**terms, "first": str(first - timedelta(days=2))},
        privacy__distinct_pairs=False,
    )
    done = hushrank("run", str(stream.config), "--direct", "--date", str(first - timedelta(days=2)))
    assert done.returncode == 0, done.stderr
    return stream


@pytest.mark.engine
def test_deploy_registers_with_a_pool_and_a_worker_runs_the_night(nightly, server):
    """Of a stream the night that is due alone: one was drawn before, and others are to come."""
    nightly.set(name="farm")
    refused = hushrank("deploy", str(nightly.config), "--cron", "0 2 * * *")
    assert refused.returncode == 2
    assert "--pool hushrank: the server has no such work pool." in refused.stderr
    pool = {"name": "hushrank", "type": "process"}
    assert posted(f"{server}/work_pools/", pool).status_code == 201
    river = a_stream_beside(nightly)
    found = deployed(nightly.config, server, "farm")
    assert found["schedules"][0]["schedule"]["cron"] == "0 2 * * *"
    assert found["global_concurrency_limit"]["limit"] == 1
    deployed(river.config, server, "river")
    told = ""

    def both_ranked() -> bool:
        """On a busy machine a worker that asks once may hear of one run alone: another asks."""
        nonlocal told
        worker = [sys.executable, "-m", "prefect", "worker", "start", "--pool", "hushrank"]
        worked = subprocess.run(
            [*worker, "--run-once", "--type", "process"],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        told += worked.stdout + worked.stderr
        return all(runs_of(server, each, "COMPLETED") for each in ("farm", "river"))

    assert any(both_ranked() for _ in range(5)), told
    assert len(archived(nightly.output)) == 1
    drawn = [json.loads(line) for line in river.ledger.read_text().splitlines()]
    assert [event["event"] for event in drawn].count("draw") == 2
    zone = ZoneInfo(nightly.settings["schedule"]["timezone"])
    yesterday = datetime.now(zone).date() - timedelta(days=1)
    due = [yesterday - timedelta(days=1), yesterday]
    assert sorted(folder.name[:10] for folder in archived(river.output)) == [
        str(day) for day in due
    ]


@pytest.mark.parametrize(
    ("url", "problem"),
    [(None, "no server is configured"), ("http://127.0.0.1:9/api", "does not answer")],
)
def test_without_a_server_serve_says_what_to_do(nightly, monkeypatch, command, url, problem):
    from prefect.settings import PREFECT_API_URL, temporary_settings

    with temporary_settings(updates={PREFECT_API_URL: url}):
        code, printed = command("serve", nightly.config, "--cron", "0 2 * * *")
    assert code == 1
    assert problem in printed
    assert "or, without a server, let cron run hushrank catch-up" in printed
    assert not nightly.ledger.exists()


@pytest.mark.parametrize(
    ("cron", "message"),
    [
        (None, 'no schedule. Add --cron "0 2 * * *", or write schedule.cron into the file.'),
        ("at two", "cron: 'at two' is not a schedule; write five fields"),
    ],
)
def test_a_schedule_that_is_none_is_refused(nightly, command, cron, message):
    code, printed = command("serve", nightly.config, *(() if cron is None else ("--cron", cron)))
    assert code == 2
    assert message in printed


def test_a_lost_server_is_waited_for_and_serving_goes_on(nightly, command, monkeypatch):
    """The server is there at the start, is lost while serving, and comes back."""
    from hushrank.flows.interfaces.cli import schedule_commands
    from hushrank.flows.nights import scheduled

    problems = iter([None, "gone", "gone", "gone", None])
    waits, served = [], []

    def serve(**_: Any) -> None:
        served.append(1)
        if len(served) == 1:
            raise RuntimeError("Service exceeded error threshold.")

    monkeypatch.setattr(schedule_commands, "_problem_with_server", lambda: next(problems))
    monkeypatch.setattr(schedule_commands.time, "sleep", waits.append)
    monkeypatch.setattr(scheduled.nights, "serve", serve)
    code, printed = command("serve", nightly.config, "--cron", "0 2 * * *")
    assert code == 0
    assert "The Prefect server does not answer. Waiting for it." in printed
    assert len(served) == 2
    assert waits == [schedule_commands.WAIT_SECONDS] * 2


def test_an_error_that_is_not_the_servers_ends_serving(nightly, command, monkeypatch):
    from hushrank.flows.interfaces.cli import schedule_commands
    from hushrank.flows.nights import scheduled

    def serve(**_: Any) -> None:
        raise RuntimeError("no such thing")

    monkeypatch.setattr(schedule_commands, "_problem_with_server", lambda: None)
    monkeypatch.setattr(scheduled.nights, "serve", serve)
    code, printed = command("serve", nightly.config, "--cron", "0 2 * * *")
    assert code == 1
    assert "Prefect: no such thing" in printed


def test_the_pool_of_infra_is_the_one_that_deploy_names(checkout: Path):
    import yaml

    described = yaml.safe_load((checkout / "infra" / "prefect.yaml").read_text())
    names = {entry["work_pool"]["name"] for entry in described["deployments"]}
    assert "hushrank" in names
    assert {entry["entrypoint"] for entry in described["deployments"]} == {
        "hushrank.flows.nights.scheduled.nights"
    }
