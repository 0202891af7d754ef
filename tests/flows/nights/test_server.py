"""Whether Prefect runs a job where nobody says so."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL, temporary_settings

ASKED = """
import os, sys
from hushrank.flows.errors import HushrankError
from hushrank.flows.nights.server import server_configured
try:
    found = server_configured()
except HushrankError as error:
    found = error
print(found, "prefect" in sys.modules)
"""
ADDRESS = "http://127.0.0.1:9/api"
PROFILE = 'active = "own"\n[profiles.own]\nPREFECT_API_URL = "{}"\n'
YES, NO, UNASKED = "True True", "False True", "False False"


def asked(folder: Path, **environment: str) -> str:
    """Of a fresh process, in a folder and with a home of its own."""
    clean = {name: text for name, text in os.environ.items() if not name.startswith("PREFECT_")}
    home = {"HOME": str(folder), "PYTHONWARNINGS": "ignore", **environment}
    words = [sys.executable, "-c", ASKED]
    done = subprocess.run(
        words, cwd=folder, env={**clean, **home}, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_without_settings_there_is_no_server_and_prefect_is_not_loaded(tmp_path):
    (tmp_path / "pyproject.toml").write_text("[tool.other]\nkey = 1\n")
    assert asked(tmp_path) == UNASKED
    assert asked(tmp_path, PREFECT_SERVER_ANALYTICS_ENABLED="false", PREFECT_API_URL="") in (
        UNASKED,
        NO,
    )


def test_the_environment_names_a_server(tmp_path):
    assert asked(tmp_path, PREFECT_API_URL=ADDRESS) == "True False"


@pytest.mark.parametrize(
    ("name", "text", "answer"),
    [
        (".prefect/profiles.toml", PROFILE.format(ADDRESS), YES),
        (".prefect/profiles.toml", 'active = "own"\n[profiles.own]\n', NO),
        ("prefect.toml", f'[api]\nurl = "{ADDRESS}"\n', YES),
        ("pyproject.toml", f'[tool.prefect.api]\nurl = "{ADDRESS}"\n', YES),
        ("pyproject.toml", '[project]\nname = "a"\ndependencies = ["prefect"]\n', NO),
        (".env", f"PREFECT_API_URL={ADDRESS}\n", YES),
    ],
)
def test_a_file_of_settings_is_read_as_prefect_reads_it(tmp_path, name, text, answer):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(text)
    assert asked(tmp_path) == answer


def test_a_profile_is_chosen_by_the_environment(tmp_path):
    assert asked(tmp_path, PREFECT_PROFILE="local") == YES  # one that comes with Prefect
    assert asked(tmp_path, PREFECT_PROFILE="ephemeral") == NO


def test_a_home_elsewhere_has_profiles_too(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "profiles.toml").write_text(PROFILE.format(ADDRESS))
    assert asked(tmp_path, PREFECT_HOME=str(tmp_path / "elsewhere")) == YES


def test_settings_that_prefect_cannot_read_are_refused_without_their_text(tmp_path):
    (tmp_path / "prefect.toml").write_text('[api]\nurl = ["secret"]\n')
    told = asked(tmp_path)
    assert "its settings cannot be read" in told
    assert "--direct" in told
    assert "secret" not in told


class FakeServer(BaseHTTPRequestHandler):
    """Answers as a server of another major version does, or with one status to everything."""

    status, version = 200, "2.20.1"

    def do_GET(self) -> None:
        content = json.dumps(self.version if self.path.endswith("/version") else []).encode()
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.do_GET()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def fake_server(monkeypatch) -> Iterator[str]:
    """Address of an API that is none."""
    with ThreadingHTTPServer(("127.0.0.1", 0), FakeServer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/api"
        server.shutdown()


@pytest.fixture
def named(monkeypatch) -> Iterator[Callable[..., None]]:
    """A function that has Prefect's settings name a server, and a key if one is given."""
    with ExitStack() as stack:

        def name(url: str, key: str | None = None) -> None:
            monkeypatch.setenv("PREFECT_API_URL", url)
            updates = {PREFECT_API_URL: url, PREFECT_API_AUTH_STRING: key}
            stack.enter_context(temporary_settings(updates))

        yield name


DAY = "2026-11-20"
COMMANDS = [
    ("run",),
    ("backfill", "--from", DAY, "--to", DAY, "--prefect"),
    ("serve", "--cron", "0 2 * * *"),
    ("deploy", "--cron", "0 2 * * *"),
]


def refused(survey, command, words, code: int) -> str:
    """What a command says that is refused in one line, before anything is read or spent."""
    dated = {"input__paths": ["{date}.parquet"]} if words[0] == "backfill" else {}
    (survey.folder / "answers.parquet").rename(survey.folder / f"{DAY}.parquet")
    survey.set(**{"input__paths": [f"{DAY}.parquet"], **dated})
    got, printed = command(words[0], survey.config, *words[1:])
    assert got == code, printed
    assert not survey.ledger.exists()
    assert not survey.output.exists()
    (line,) = [line for line in printed.splitlines() if line.startswith("Prefect: ")]
    assert line.endswith("Nothing was read or spent.")
    return line


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_a_server_that_does_not_answer_is_an_error_in_one_sentence(survey, command, named, words):
    named(ADDRESS)
    line = refused(survey, command, words, 1)
    assert "the server at http://127.0.0.1:9/api does not answer. Start it" in line


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_a_wrong_key_is_refused_and_not_shown(survey, command, named, prefect_server, words):
    named(prefect_server.url, "anna:wrong")
    line = refused(survey, command, words, 2)
    assert "refuses the key. Check PREFECT_API_KEY or PREFECT_API_AUTH_STRING." in line
    assert "wrong" not in line


def test_a_server_of_another_version_is_refused(survey, command, named, fake_server):
    named(fake_server)
    line = refused(survey, command, COMMANDS[1], 2)
    assert f"the server at {fake_server} has version 2.20.1, but this client has version 3." in line


def test_an_address_that_is_no_api_is_refused(survey, command, named, fake_server, monkeypatch):
    monkeypatch.setattr(FakeServer, "status", 404)
    monkeypatch.setattr(
        "prefect.client.orchestration.SyncPrefectClient.api_healthcheck", lambda _: None
    )
    named(fake_server)
    line = refused(survey, command, COMMANDS[1], 2)
    assert "is not a Prefect API. Check PREFECT_API_URL, which ends with /api." in line


def test_the_password_in_an_address_is_not_shown(survey, command, named):
    named("http://anna:secret@127.0.0.1:9/api")
    assert "secret" not in refused(survey, command, COMMANDS[0], 1)


@pytest.mark.parametrize(
    ("words", "configured", "through_prefect"),
    [
        ((), False, False),
        ((), True, True),
        (("--direct",), True, False),
        (("--prefect",), False, True),
        (("--prefect",), True, True),
    ],
)
def test_options_go_before_settings(
    survey, command, monkeypatch, words, configured, through_prefect
):
    flows = []

    def in_flow(job, reducer, watch, tell):
        from hushrank.flows.assembly import run_job

        flows.append(job)
        return run_job(job, reducer, watch, tell)

    monkeypatch.setattr("hushrank.flows.nights.flow.run_in_flow", in_flow)
    server = "hushrank.flows.nights.server"
    monkeypatch.setattr(f"{server}.server_configured", lambda: configured)
    monkeypatch.setattr(f"{server}.check_server", lambda: "http://theirs")
    monkeypatch.setattr(f"{server}.own_server", lambda: nullcontext("http://ours"))
    code, printed = command("run", survey.config, *words)
    assert code == 0, printed
    assert bool(flows) is through_prefect
    assert ("starts a server" in printed) is (through_prefect and not configured)
    page = f"shows each run at http://{'theirs' if configured else 'ours'}/runs"
    assert (page in printed) is through_prefect


def test_nights_start_one_server_for_all_of_them(survey, monkeypatch, in_process):
    """No server is configured; if nothing is left to do, none is started."""
    from hushrank.flows.interfaces.cli.main import main

    started, flows = [], []

    @contextmanager
    def own_server():
        started.append(1)
        yield "http://ours"

    def in_flow(job, reducer, watch, tell):
        from hushrank.flows.assembly import run_job

        flows.append(job.night)
        return run_job(job, reducer, watch, tell)

    server = "hushrank.flows.nights.server"
    monkeypatch.setattr(f"{server}.server_configured", lambda: False)
    monkeypatch.setattr(f"{server}.own_server", own_server)
    monkeypatch.setattr("hushrank.flows.nights.flow.run_in_flow", in_flow)
    days = ["2026-11-19", "2026-11-20"]
    for day in days:
        shutil.copy(survey.folder / "answers.parquet", survey.folder / f"{day}.parquet")
    survey.set(input__paths=["{date}.parquet"])
    backfill = ["backfill", str(survey.config), "--from", days[0], "--to", days[1]]
    for _ in range(2):  # the second time nothing is left to do
        main(backfill)
        assert [str(night) for night in flows] == days
        assert started == [1]


@pytest.fixture
def without_home(monkeypatch):
    """An account as in a container: no HOME, and no entry in the list of accounts."""

    def unknown(_):
        raise KeyError

    for name in os.environ:
        if name == "HOME" or name.startswith("PREFECT_"):
            monkeypatch.delenv(name)
    monkeypatch.setattr("pwd.getpwuid", unknown)


@pytest.mark.usefixtures("without_home")
def test_an_account_without_a_home_ranks(survey, command, monkeypatch):
    """The place of Prefect's profile was looked up in the home, and a run ended in a traceback."""
    monkeypatch.chdir(survey.folder)  # no file in it speaks of Prefect
    code, printed = command("run", survey.config)
    assert code == 0, printed
    assert "uid " in (survey.folder / "ledger.jsonl").read_text()


@pytest.mark.usefixtures("without_home")
def test_what_needs_a_home_says_so(survey, command, monkeypatch):
    monkeypatch.setenv("PREFECT_API_URL", ADDRESS)
    code, printed = command("run", survey.config)
    assert (code, "Set HOME to a folder" in printed) == (1, True)
    code, printed = command("ledger", "key", "--out", "~/key")
    assert code == 2
    assert "~/key: begins with ~, but no home folder of that account is known." in printed
    survey.set(ledger__path="~/ledger.jsonl")
    code, printed = command("validate", survey.config)
    assert (code, "no home folder of that account is known; write the path in full" in printed) == (
        2,
        True,
    )
