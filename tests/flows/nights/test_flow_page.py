"""What a Prefect server shows of nights, and what becomes of a night whose server goes away."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date, timedelta

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from hushrank.flows.nights.flow import ALERT_EVENT, CHANGE_EVENT, NOT_SHOWN
from hushrank.flows.run import run
from tests.flows.conftest import answers
from tests.prefect_server import Forwarder, wait_for

DAYS = ("2026-11-19", "2026-11-20")
STEPS = ["reserve", "reduce", "draw", "estimate", "publish", "commit"]


@pytest.fixture
def nightly(survey):
    """Two nights; on the second one everybody has changed their mind."""
    first = answers(300)
    second = first.set_column(3, "outcome", pc.negate(first["outcome"]))
    for day, table in zip(DAYS, (first, second), strict=True):
        pq.write_table(pa.table(table), survey.folder / f"{day}.parquet")
    return survey.set(
        name="page", input__paths=["{date}.parquet"], ledger__epsilon=4.0, ledger__alerts=[0.5]
    )


def backfill(nightly, command) -> tuple[int, str]:
    days = ("--from", DAYS[0], "--to", DAYS[1])
    return command("backfill", nightly.config, *days, "--prefect")


def test_each_night_is_a_flow_run_with_named_tasks_artifacts_and_events(
    nightly, command, on_prefect
):
    code, printed = backfill(nightly, command)
    assert code == 0, printed
    assert printed.count("shows each run at ") == 1
    assert f"shows each run at {on_prefect.url.removesuffix('/api')}/runs" in printed
    runs = on_prefect.flow_runs(flow_runs={"name": {"like_": "page-"}})
    assert sorted(each["name"][: len("page-") + 10] for each in runs) == [
        f"page-{day}" for day in DAYS
    ]
    for each in runs:
        assert (each["state_type"], each["parameters"]) == ("COMPLETED", {})
        wanted = {
            "task_runs": {"flow_run_id": {"any_": [each["id"]]}},
            "sort": "EXPECTED_START_TIME_ASC",
        }

        def tasks(wanted=wanted):
            found = on_prefect.post("/task_runs/filter", wanted).json()
            return len(found) == len(STEPS) and found

        found = wait_for("tasks", tasks)
        assert [task["name"] for task in found] == STEPS
        assert {json.dumps(task["task_inputs"]) for task in found} == {"{}"}
        assert {task["state"]["data"] for task in [each, *found]} == {None}
        kept = on_prefect.post(
            "/artifacts/filter", {"artifacts": {"flow_run_id": {"any_": [each["id"]]}}}
        ).json()
        assert sorted(artifact["key"] for artifact in kept if artifact["key"]) == [
            f"hushrank-page-{what}" for what in ("plot", "ranking", "report", "summary")
        ]

    def told(event: str) -> list[dict]:
        since = (date.today() - timedelta(days=2)).isoformat()
        wanted = {
            "event": {"name": [event]},
            "resource": {"id": ["hushrank.population.page"]},
            "occurred": {"since": f"{since}T00:00:00Z"},
        }
        return on_prefect.post("/events/filter", {"filter": wanted}).json()["events"]

    (alert,) = wait_for("alert", lambda: told(ALERT_EVENT))
    assert alert["payload"]["fraction"] == 0.5
    (change,) = wait_for("change", lambda: told(CHANGE_EVENT))
    assert "ants" in {each["item"] for each in change["payload"]["items"]}
    assert "dogs" in change["payload"]["what"]


@pytest.fixture
def forwarder(on_prefect, monkeypatch) -> Iterator[Forwarder]:
    """The server behind a network that can fail; nobody asks it twice then."""
    from prefect.settings import PREFECT_API_URL, PREFECT_CLIENT_MAX_RETRIES, temporary_settings

    found = Forwarder(on_prefect)
    monkeypatch.setenv("PREFECT_API_URL", found.url)
    with temporary_settings({PREFECT_API_URL: found.url, PREFECT_CLIENT_MAX_RETRIES: 0}):
        yield found
    found.close()


def test_a_night_is_released_although_the_server_goes_away_in_its_middle(
    nightly, command, forwarder, monkeypatch
):
    draw = run.draw

    def draw_and_lose_the_server(*arguments):
        drawn = draw(*arguments)
        forwarder.close()
        return drawn

    monkeypatch.setattr(run, "draw", draw_and_lose_the_server)
    nightly.set(name="lost")  # the other test, which may run beside this one, counts runs of `page`
    day = ("--from", DAYS[0], "--to", DAYS[0])
    code, printed = command("backfill", nightly.config, *day, "--prefect")
    assert code == 0, printed
    assert NOT_SHOWN in printed
    assert f"{DAYS[0]}  released" in printed
    (folder,) = nightly.archived()
    assert folder.name.startswith(DAYS[0])
