"""Who a ledger names: account, cloud and maker of a Prefect run, and what is only claimed."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
import sys
import threading
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import certifi
import httpx
import pytest

from hushrank.flows.ledger import operator
from hushrank.flows.ledger.ledger import Ledger
from hushrank.flows.ledger.operator import CLAIMS, FLOW_RUN, operator_name
from tests.ledgers import pure, terms_of
from tests.ports import closed_port
from tests.prefect_server import KEY, PATIENCE, PrefectServer

OWN = pwd.getpwuid(os.getuid()).pw_name
CLOUD = "Google Cloud: runner@survey.iam.gserviceaccount.com"


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment that claims nothing, and no answer from an earlier test."""
    for variable in (*CLAIMS, FLOW_RUN):
        monkeypatch.delenv(variable, raising=False)
    operator._maker_of.cache_clear()
    monkeypatch.setattr(operator, "SECONDS", PATIENCE)


def test_an_account_that_only_the_environment_names_is_a_claim(monkeypatch):
    for variable in CLAIMS:
        assert operator_name() == OWN
        monkeypatch.setenv(variable, OWN)
        assert operator_name() == OWN
        monkeypatch.setenv(variable, "ada\x1b[2J; Google Cloud: eve")
        name = operator_name()
        assert name.startswith(f"{OWN} ({variable} says ada")
        assert "\x1b" not in name
        assert ";" not in name
        monkeypatch.delenv(variable)


def test_the_operator_is_recorded_even_without_a_name(tmp_path, monkeypatch):
    def nameless(uid: int) -> str:
        raise KeyError("uid not found")

    monkeypatch.setattr(pwd, "getpwuid", nameless)
    assert operator_name() == f"uid {os.getuid()}"
    path = tmp_path / "ledger.jsonl"
    Ledger(path, terms_of()).reserve("a", pure(1))
    assert json.loads(path.read_text().splitlines()[0])["operator"] == operator_name()


def test_a_line_names_the_account_of_each_cloud_of_the_job(tmp_path, monkeypatch):
    def found(places: Any) -> tuple[str, ...]:
        return (CLOUD,) if "gs://survey/out" in places else ()

    monkeypatch.setattr(operator, "accounts_of", found)
    path = tmp_path / "ledger.jsonl"
    Ledger(path, terms_of()).reserve("a", pure(1))
    monkeypatch.setenv("SUDO_USER", "ada")
    Ledger(path, terms_of(), places=("gs://survey/out",)).reserve("b", pure(1))
    names = [each["operator"] for each in map(json.loads, path.read_text().splitlines())]
    assert names == [OWN, OWN, f"{OWN} (SUDO_USER says ada; {CLOUD})"]


def test_every_place_of_a_job_is_asked_about(survey, command, monkeypatch):
    asked = set[str]()
    monkeypatch.setattr(operator, "accounts_of", lambda places: asked.update(places) or ())
    assert command("run", survey.config, "--direct")[0] == 0
    paths = (survey.ledger, survey.output, *survey.folder.glob("*.parquet"))
    assert {str(each) for each in paths} <= asked


def test_a_reader_asks_no_cloud(survey, command, monkeypatch):
    assert command("run", survey.config, "--direct")[0] == 0
    monkeypatch.setattr(operator, "accounts_of", lambda places: pytest.fail("asked"))
    assert command("ledger", "show", survey.config)[0] == 0
    assert command("ledger", "verify", survey.config)[0] == 0


def made_run(server: PrefectServer, **headers: str) -> str:
    """A run on the server, not yet begun; its id."""
    ask = {"auth": tuple(KEY.split(":")), "timeout": PATIENCE, "headers": headers}
    flow = httpx.post(f"{server.url}/flows/", json={"name": "nights"}, **ask).json()["id"]
    told = {"flow_id": flow, "name": "brave-fox", "state": {"type": "PENDING"}}
    made = httpx.post(f"{server.url}/flow_runs/", json=told, **ask)
    assert made.status_code == 201, made.text
    return str(made.json()["id"])


def automation(name: str) -> dict[str, str]:
    """What Prefect's server takes for the maker of a run."""
    coded = b64encode(name.encode()).decode()
    return {"prefect-automation-id": f"{uuid4()}", "prefect-automation-name": coded}


def name_in(run: str) -> str:
    """The name that a flow finds as that run of the server."""
    from prefect import flow
    from prefect.client.orchestration import get_client
    from prefect.flow_engine import run_flow

    @flow(persist_result=False)
    def asked() -> str:
        return operator_name()

    with get_client(sync_client=True) as client:
        found = client.read_flow_run(UUID(run))
    return str(run_flow(asked, flow_run=found))


@pytest.mark.engine
def test_what_a_prefect_server_without_users_says_is_a_claim(on_prefect, monkeypatch, tmp_path):
    from prefect.settings import (
        PREFECT_API_SSL_CERT_FILE,
        PREFECT_API_TLS_INSECURE_SKIP_VERIFY,
        temporary_settings,
    )

    def name() -> str:
        return name_in(made_run(on_prefect, **automation("Nightly; by (Ada)")))

    assert name_in(made_run(on_prefect)) == OWN
    told = "Prefect says flow run brave-fox by automation Nightly_ by _Ada_"
    assert name() == f"{OWN} ({told})"
    monkeypatch.setattr(operator, "PREFECT_CLOUD", on_prefect.url)
    assert name() == f"{OWN} (Prefect Cloud: automation Nightly_ by _Ada_)"
    for trust in (
        {PREFECT_API_TLS_INSECURE_SKIP_VERIFY: True},
        {PREFECT_API_SSL_CERT_FILE: f"{others_certificates(tmp_path)}"},
    ):
        with temporary_settings(trust):
            assert name() == f"{OWN} ({told})"


def others_certificates(folder: Path) -> Path:
    """Certificates of the machine, in a file that others may write."""
    path = folder / "certificates.pem"
    path.write_bytes(Path(certifi.where()).read_bytes())
    path.chmod(0o666)
    return path


def test_a_run_that_only_the_environment_names_is_a_claim(monkeypatch):
    import prefect.context  # noqa: F401 - as a flow has

    monkeypatch.setattr(operator, "_maker", lambda: pytest.fail("asked"))
    monkeypatch.setenv(FLOW_RUN, run := f"{uuid4()}")  # of somebody else's, perhaps
    assert operator_name() == f"{OWN} ({FLOW_RUN} says {run})"


@pytest.fixture
def flow_context() -> Iterator[None]:
    """A flow that runs here, on a server that a test sets."""
    from prefect.client.schemas import FlowRun
    from prefect.context import FlowRunContext

    with FlowRunContext.model_construct(flow_run=FlowRun(flow_id=uuid4())):
        yield


@pytest.mark.engine
def test_a_flow_that_a_person_starts_here_adds_no_name(on_prefect):
    from prefect import flow

    @flow(persist_result=False)
    def inner() -> str:
        return operator_name()

    @flow(persist_result=False)
    def outer() -> str:
        return inner()

    assert outer() == OWN  # nobody but this process


def test_a_prefect_server_that_fails_leaves_its_user_unknown(flow_context):
    from prefect.settings import PREFECT_API_URL, PREFECT_CLIENT_MAX_RETRIES, temporary_settings

    with closed_port() as port:
        url = f"http://127.0.0.1:{port}/api"
        with temporary_settings({PREFECT_API_URL: url, PREFECT_CLIENT_MAX_RETRIES: 0}):
            assert operator_name() == f"{OWN} (Prefect user unknown)"


def test_a_silent_prefect_server_holds_nothing_up(flow_context, monkeypatch):
    over = threading.Event()
    monkeypatch.setattr(operator, "_maker", lambda: f"{over.wait()}")
    monkeypatch.setattr(operator, "SECONDS", 0.1)
    assert operator_name() == f"{OWN} (Prefect user unknown)"
    over.set()


def test_a_command_that_a_flow_starts_loads_no_prefect_to_say_so():
    asked = (
        "import sys; from hushrank.flows.ledger.operator import operator_name;"
        "print(operator_name(), 'prefect' in sys.modules)"
    )
    run = f"{uuid4()}"
    done = subprocess.run(
        [sys.executable, "-c", asked],
        env={**os.environ, FLOW_RUN: run},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == f"{OWN} ({FLOW_RUN} says {run}) False"
