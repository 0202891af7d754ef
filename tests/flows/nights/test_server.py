"""Whether Prefect runs a job where nobody says so."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

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


@pytest.mark.slow
def test_a_server_that_does_not_answer_is_an_error_in_one_sentence(survey):
    words = [sys.executable, "-m", "hushrank", "run", str(survey.config), "--json"]
    home = {"PREFECT_HOME": str(survey.folder / "prefect"), "PREFECT_API_URL": ADDRESS}
    done = subprocess.run(
        words, env={**os.environ, **home}, capture_output=True, text=True, timeout=840
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    message = json.loads(done.stdout)["error"]["message"]
    assert "Check PREFECT_API_URL, or run with --direct, which needs no server." in message
    assert message in done.stderr
    assert not survey.ledger.exists()


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
    monkeypatch.setattr("hushrank.flows.nights.server.server_configured", lambda: configured)
    code, printed = command("run", survey.config, *words)
    assert code == 0, printed
    assert bool(flows) is through_prefect
    assert ("starts a server" in printed) is (through_prefect and not configured)
