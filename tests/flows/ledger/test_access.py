"""Commands that show or delete confidential data, or make keys, leave a line in the ledger."""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest

from hushrank.flows.errors import LedgerError
from hushrank.flows.interfaces.cli.inspect_command import YES
from hushrank.flows.ledger.keys import make_key
from hushrank.flows.ledger.operator import operator_name
from hushrank.flows.methods.registry import load_config
from tests.flows.conftest import answers
from tests.flows.interfaces.cli.test_clean import age, set_aside

FIELDS = {"hushrank_ledger", "seq", "time", "population", "operator", "previous", "hash"} | {
    *("event", "command", "config_hash", "night", "signature")
}


def accesses(survey):
    """Lines about accesses, each with all that it says."""
    lines = survey.ledger.read_text().splitlines() if survey.ledger.exists() else []
    return [each for each in map(json.loads, lines) if each["event"] == "access"]


@pytest.fixture
def signed(survey, tmp_path):
    key = tmp_path / "keys" / "key.pem"
    make_key(key)
    survey.set(ledger__signing_key=str(key))
    return survey


def test_a_look_before_the_first_run_is_recorded_and_the_release_verifies(signed, command):
    code, printed = command("inspect", signed.config, YES)
    assert (code, "The ledger says who looked and when" in printed) == (0, True)
    (look,) = accesses(signed)
    assert {*look} <= FIELDS  # and so nothing of any row
    hashes = load_config(signed.config).job_hashes
    told = (look["command"], look["config_hash"], look["operator"], look["population"])
    assert told == (f"inspect {YES}", hashes[0], operator_name(), "zoo")
    assert look["signature"].startswith("ed25519:")
    assert command("run", signed.config, "--direct")[0] == 0
    assert command("inspect", signed.config, YES)[0] == 0
    release = signed.output / "release.json"
    code, printed = command("verify", release, "--ledger", signed.ledger)
    assert (code, "Nothing is wrong" in printed) == (0, True), printed
    code, printed = command("ledger", "show", signed.config, "--json")
    rows = [each for each in json.loads(printed)["entries"] if each["state"] == "access"]
    assert [each["note"] for each in rows] == [f"inspect {YES}"] * 2
    table = signed.folder / "ledger.csv"
    assert command("ledger", "export", signed.config, "--out", table)[0] == 0
    assert table.read_text().count(f"inspect {YES}") == 2
    assert command("ledger", "verify", signed.config)[0] == 0


def test_lines_do_not_depend_on_the_rows(signed, command):
    command("inspect", signed.config, YES)
    pq.write_table(answers(90, seed=8), signed.folder / "answers.parquet")
    command("inspect", signed.config, YES)
    varying = {"seq", "time", "previous", "hash", "signature"}
    first, second = (
        {name: value for name, value in each.items() if name not in varying}
        for each in accesses(signed)
    )
    assert first == second


def test_without_key_and_setting_nothing_is_recorded(survey, command):
    assert "Nothing was written" in command("inspect", survey.config, YES)[1]
    assert not survey.ledger.exists()
    survey.set(ledger__record_access=True)
    assert command("inspect", survey.config, YES)[0] == 0
    assert len(accesses(survey)) == 1


def test_a_look_that_cannot_be_recorded_is_refused(signed, command, monkeypatch):
    def unreachable(*_):
        raise LedgerError("the ledger cannot be written")

    asked = []
    monkeypatch.setattr("hushrank.pipelines.inspect.inspect_log.look", asked.append)
    with monkeypatch.context() as patch:
        patch.setattr("hushrank.flows.ledger.local_file.LedgerFile.append", unreachable)
        code, printed = command("inspect", signed.config, YES)
    assert (code, "cannot be written" in printed, asked) == (2, True, [])
    (signed.folder / "keys" / "key.pem").unlink()
    assert command("inspect", signed.config, YES)[0] == 2
    assert asked == []


def test_what_is_deleted_and_keys_that_are_made_are_recorded(signed, command, tmp_path):
    assert command("run", signed.config, "--direct")[0] == 0
    (work,) = (path for path in signed.work.iterdir() if path.is_dir())
    set_aside(work)
    assert command("clean", signed.config, "--delete")[0] == 0
    assert accesses(signed) == []  # nothing was old enough
    age(signed.work, 31)
    assert command("clean", signed.config)[0] == 0
    assert accesses(signed) == []  # they were only listed
    assert command("clean", signed.config, "--delete")[0] == 0
    made = ("ledger", "key", "--survey", signed.config, "--out", tmp_path / "keys" / "next.pem")
    assert command(*made)[0] == 0
    assert [each["command"] for each in accesses(signed)] == ["clean --delete", "ledger key"]
    assert not (work / "rejects").exists()
