"""Schedules on a real Prefect server, and what happens where there is none."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4
from zoneinfo import ZoneInfo

import pyarrow.parquet as pq
import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings

from hushrank.flows.release.archive import archived
from hushrank.transforms.storage.places import CloudPath
from tests.flows.conftest import answers
from tests.ports import free_port
from tests.prefect_server import PATIENCE, Forwarder, PrefectServer, wait_for

HUSHRANK = [sys.executable, "-m", "hushrank.flows.interfaces.cli.main"]
pytestmark = pytest.mark.timeout(3000)


def now_about_noon() -> str:
    """A time zone in which no night ends while a test runs."""
    hours = 12 - datetime.now(UTC).hour
    return f"Etc/GMT{-hours:+d}"  # whose sign is the other way round


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


def runs_of(server: PrefectServer, population: str, state: str) -> list[dict[str, Any]]:
    """Scheduled runs of a population in a state."""
    return server.flow_runs(
        deployments={"name": {"any_": [population]}},
        flow_runs={"state": {"type": {"any_": [state]}}},
    )


@pytest.mark.engine
# A stream goes through the same flow in the next test: ten seconds of Prefect for it are enough.
@pytest.mark.parametrize("kind", ["nights", pytest.param("stream", marks=pytest.mark.soak)])
def test_a_served_schedule_makes_runs_and_one_of_them_ranks_what_is_due(
    nightly, on_prefect, tmp_path, kind
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
        assert wait_for("scheduled run", lambda: runs_of(on_prefect, kind, "SCHEDULED"))
        assert wait_for("completed run", lambda: runs_of(on_prefect, kind, "COMPLETED"))
    finally:
        stop(served)
    # Later runs found nothing to do.
    assert sorted(folder.name[:10] for folder in archived(nightly.output)) == due
    assert deployment_of(on_prefect, kind)["entrypoint"] == "hushrank.flows.nights.scheduled.nights"
    lines = [json.loads(line) for line in nightly.ledger.read_text().splitlines()]
    assert all(
        re.search(r"[(; ]Prefect says flow run \S+ by schedule \S+\)$", line["operator"])
        for line in lines
    ), lines


def deployment_of(server: PrefectServer, population: str) -> dict[str, Any]:
    found: dict[str, Any] = server.get(f"/deployments/name/nights/{population}")
    return found


def container(checkout: Path, folder: Path, resource: str) -> list[str]:
    """Command and arguments of a container of Terraform's, with `folder` where the bucket is."""
    text = (checkout / "infra" / "terraform" / "prefect.tf").read_text()
    (body,) = re.findall(rf'^resource "{resource}" \{{\n(.*?)^\}}', text, re.M | re.S)
    (command,) = re.findall(r"^ +command += (\[.*\])$", body, re.M)
    (arguments,) = re.findall(r"^ +args += (\[.*\])$", body, re.M)
    arguments = arguments.replace("var.schedule", '"0 2 * * *"').replace(
        "${var.survey}", "survey.yaml"
    )
    words = [*json.loads(command), *json.loads(arguments)]
    assert not any("${" in word for word in words)
    return [sys.executable, "-m", *(word.replace("/survey/", f"{folder}/") for word in words)]


def run_from(server: PrefectServer, deployment: dict[str, Any], moment: datetime) -> str:
    """Have the schedule start a run that was to start at `moment`; the id of that run."""
    state = {"type": "SCHEDULED", "state_details": {"scheduled_time": moment.isoformat()}}
    made = server.post(f"/deployments/{deployment['id']}/create_flow_run", {"state": state})
    assert made.status_code == 201, made.text
    return str(made.json()["id"])


def drawn_nights(ledger: CloudPath) -> list[str]:
    """Nights that the ledger marks as drawn, each as often as it was."""
    entries = [json.loads(line) for line in ledger.read_text().splitlines()]
    night_of = {each["release_id"]: each.get("night") for each in entries if each.get("night")}
    return sorted(night_of[each["release_id"]] for each in entries if each["event"] == "draw")


# Prefect's worker asks every ten seconds, and gives up after some minutes without an answer. One
# that asks six times a second does so after some seconds: its minute is an hour of the first.
HOUR_IN_A_MINUTE = {
    "PREFECT_WORKER_QUERY_SECONDS": "0.16",
    "PREFECT_WORKER_HEARTBEAT_SECONDS": "1",
    "PREFECT_CLIENT_MAX_RETRIES": "2",
    "PREFECT_API_REQUEST_TIMEOUT": "300",  # a server that is there may be slow
}


@contextmanager
def worker(checkout: Path, folder: Path, **settings: str) -> Iterator[subprocess.Popen[bytes]]:
    """The worker's container of Terraform's; its processes all end with the block, as there."""
    words = container(checkout, folder, 'google_cloud_run_v2_service" "worker')
    mark = f"container-{uuid4()}"
    own = {"MARK": mark, "PREFECT_WORKER_WEBSERVER_PORT": str(free_port())}
    with (folder / "worker.log").open("ab") as log:
        process = subprocess.Popen(words, stdout=log, stderr=log, env=os.environ | own | settings)
    try:
        yield process
    finally:
        for each in Path("/proc").glob("[0-9]*/environ"):
            with suppress(OSError):
                if mark.encode() in each.read_bytes():
                    os.kill(int(each.parent.name), signal.SIGKILL)
        process.wait()


@pytest.fixture
def farm_in_cloud(nightly):
    """A survey whose places are in Cloud Storage: its ledger, and two nights that are late."""
    places = {"output": "out", "confidential": "work", "ledger__path": "ledger.jsonl"}
    nightly.set(name="farm", **{key: f"gs://survey/{name}" for key, name in places.items()})
    last = max(date.fromisoformat(path.name[-10:]) for path in (nightly.folder / "log").iterdir())
    nights = [str(last - timedelta(days=1)), str(last)]
    return CloudPath.parse("gs://survey/ledger.jsonl"), nights


def run_to_its_end(server: PrefectServer, farm: dict[str, Any]) -> None:
    """Run what is due now; a run that the busy server has refused is started again."""
    made = {run_from(server, farm, datetime.now(UTC))}

    def completed() -> bool:
        states = {state_of(server, run) for run in made}
        if states <= {"CRASHED", "FAILED"}:
            made.add(run_from(server, farm, datetime.now(UTC)))
        return "COMPLETED" in states

    wait_for("completed run", completed)


def check_nights(ledger: CloudPath, nights: list[str]) -> None:
    """Each night was drawn and published once."""
    assert drawn_nights(ledger) == nights
    assert [folder.name[:10] for folder in archived(CloudPath.parse("gs://survey/out"))] == nights


@pytest.mark.engine
def test_the_containers_of_terraform_rank_late_nights_once_though_a_worker_is_killed(
    nightly, farm_in_cloud, on_prefect, emulator, checkout
):
    """The container that starts again finishes what was due."""
    ledger, nights = farm_in_cloud
    with worker(checkout, nightly.folder):
        farm = deployed(on_prefect, checkout, nightly.folder)
        killed = run_from(on_prefect, farm, datetime.now(UTC) - timedelta(days=1))
        wait_for("reservation", ledger.exists)
    on_prefect.end_lease(killed)
    with worker(checkout, nightly.folder):
        run_to_its_end(on_prefect, farm)
    check_nights(ledger, nights)


@pytest.mark.engine
@pytest.mark.soak
def test_the_containers_of_terraform_rank_late_nights_once_though_the_server_is_away(
    nightly, farm_in_cloud, on_prefect, emulator, checkout
):
    """One container loses its server for an hour; another one starts while the server is away."""
    ledger, nights = farm_in_cloud
    network = Forwarder(on_prefect)
    away = HOUR_IN_A_MINUTE | {"PREFECT_API_URL": network.url}
    late = datetime.now(UTC) - timedelta(days=1)
    with worker(checkout, nightly.folder, **away) as first:
        farm = deployed(on_prefect, checkout, nightly.folder)
        lost = run_from(on_prefect, farm, late)

        def drawn() -> list[str]:
            nonlocal lost
            if state_of(on_prefect, lost) in ("CRASHED", "FAILED"):  # a busy server refused it
                lost = run_from(on_prefect, farm, late)
            return drawn_nights(ledger) if ledger.exists() else []

        wait_for("draw of the first night", drawn)
        network.close()
        assert first.wait(PATIENCE) != 0  # Cloud Run starts it again
        assert state_of(on_prefect, lost) == "RUNNING"  # as the server believes
    on_prefect.end_lease(lost)
    with worker(checkout, nightly.folder, **away):
        log = nightly.folder / "worker.log"
        wait_for("worker without a server", lambda: "while starting up" in log.read_text())
        network.open()
        run_to_its_end(on_prefect, farm)
    network.close()
    check_nights(ledger, nights)


def state_of(server: PrefectServer, run: str) -> str:
    return str(server.get(f"/flow_runs/{run}")["state_type"])


def deployed(server: PrefectServer, checkout: Path, folder: Path) -> dict[str, Any]:
    """The deployment that Terraform's job makes, once a worker has made the pool."""
    pool = {"work_pools": {"name": {"any_": ["hushrank"]}}}
    wait_for("pool", lambda: server.post("/work_pools/filter", pool).json())
    words = container(checkout, folder, 'google_cloud_run_v2_job" "deploy')
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Deployed nights/farm: workers of pool hushrank run it." in done.stdout
    farm = deployment_of(server, "farm")
    assert farm["schedules"][0]["schedule"]["cron"] == "0 2 * * *"
    assert farm["global_concurrency_limit"]["limit"] == 1
    return farm


def test_a_pool_that_is_not_there_is_refused(nightly, command, on_prefect):
    code, printed = command("deploy", nightly.config, "--cron", "0 2 * * *", "--pool", "none")
    assert code == 2
    assert "--pool none: the server has no such work pool." in printed
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


@pytest.fixture
def served(monkeypatch):
    """Stand-in for serving: each call takes the next of these, an error or None."""
    from hushrank.flows.nights import scheduled

    ends = list[Exception | None]()

    def serve(**_: Any) -> None:
        if (error := ends.pop(0)) is not None:
            raise error

    monkeypatch.setattr(scheduled.nights, "serve", serve)
    return ends


def test_a_lost_server_is_waited_for_and_serving_goes_on(
    nightly, command, monkeypatch, on_prefect, served
):
    """The server is there at the start, is lost while serving, and comes back."""
    from hushrank.flows.interfaces.cli import schedule_commands

    answers_then, waits = iter([False, False, False, True]), list[float]()
    served += [RuntimeError("Service exceeded error threshold."), None]
    monkeypatch.setattr(schedule_commands, "_server_answers", lambda: next(answers_then))
    monkeypatch.setattr(schedule_commands.time, "sleep", waits.append)
    code, printed = command("serve", nightly.config, "--cron", "0 2 * * *")
    assert code == 0
    assert f"Prefect shows the runs at {on_prefect.url.removesuffix('/api')}/runs." in printed
    assert "The Prefect server does not answer. Waiting for it." in printed
    assert served == []
    assert waits == [schedule_commands.WAIT_SECONDS] * 2


def test_an_error_that_is_not_the_servers_ends_serving(nightly, command, on_prefect, served):
    served.append(RuntimeError("no such thing"))
    code, printed = command("serve", nightly.config, "--cron", "0 2 * * *")
    assert code == 1
    assert "Prefect: no such thing" in printed


def test_serving_ends_if_the_server_that_it_started_has_ended(
    nightly, command, monkeypatch, served
):
    server = "hushrank.flows.nights.server"
    monkeypatch.setattr(f"{server}.server_configured", lambda: False)
    monkeypatch.setattr(f"{server}.own_server", lambda: nullcontext("http://127.0.0.1:9"))
    served.append(RuntimeError("Service exceeded error threshold."))
    with temporary_settings({PREFECT_API_URL: "http://127.0.0.1:9/api"}):
        code, printed = command("serve", nightly.config, "--cron", "0 2 * * *")
    assert code == 1
    assert "the server that this command started has ended" in printed


def test_the_pool_of_infra_is_the_one_that_deploy_names(checkout: Path):
    import yaml

    described = yaml.safe_load((checkout / "infra" / "prefect.yaml").read_text())
    names = {entry["work_pool"]["name"] for entry in described["deployments"]}
    assert "hushrank" in names
    assert {entry["entrypoint"] for entry in described["deployments"]} == {
        "hushrank.flows.nights.scheduled.nights"
    }
