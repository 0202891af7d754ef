"""The officer's terms, from the command line to the page and to a stranger's verifier."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hushrank.flows.ledger import operator
from tests.flows.conftest import Survey
from tests.flows.forgeries import Forger
from tests.flows.honest_releases import own_terms

Command = Callable[..., tuple[int, str]]


@pytest.fixture
def owned(survey: Survey) -> Survey:
    """A survey whose officer has opened the budget at 9 and raised it to 12."""
    own_terms(survey)
    return survey


def test_report_certificate_and_verifier_show_each_change(owned: Survey, command: Command):
    assert command("run", owned.config)[0] == 0
    page = (owned.output / "report.html").read_text()
    assert "opened at epsilon 9, delta 1e-06, monthly" in page
    assert "changed from epsilon 9, delta 1e-06, monthly to epsilon 12, delta 1e-06" in page
    assert "Reason: second wave" in page
    terms = json.loads((owned.output / "certificate.json").read_text())["ledger"]["terms"]
    assert [each["budget"]["epsilon"] for each in terms] == ["9/1", "12/1"]
    assert [each["reason"] for each in terms] == ["board of 3 May", "second wave"]
    assert terms[0]["approved_by"] == terms[1]["approved_by"] is not None
    code, printed = command("verify", owned.config, "--terms-key", owned.folder / "officer.pub")
    assert code == 0, printed
    assert "was set from epsilon 9 to epsilon 12" in printed
    assert "the budget was set by the holder of key" in printed
    other = owned.folder / "other.pub"
    other.write_text(command("ledger", "key", "--out", owned.folder / "other.pem")[1])
    code, printed = command("verify", owned.config, "--terms-key", other)
    assert (code, "not by a holder given with --terms-key" in printed) == (1, True)


@pytest.mark.parametrize("form", ["csv", "json"])
def test_an_auditor_gets_all_terms_costs_and_methods(owned: Survey, command: Command, form: str):
    assert command("run", owned.config)[0] == 0
    (release_id,) = (path.name[11:] for path in (owned.output / "releases").iterdir())
    out = owned.folder / f"ledger.{form}"
    code, printed = command("ledger", "export", owned.config, "--out", out)
    assert (code, "3 rows" in printed) == (0, True), printed
    text = out.read_text()
    rows = json.loads(text) if form == "json" else list(csv.DictReader(text.splitlines()))
    opened, raised, paid = rows
    assert [float(each["total_epsilon"]) for each in (opened, raised)] == [9, 12]
    assert opened["approved_by"] == raised["approved_by"] != ""
    assert "second wave" in raised["note"]
    assert (paid["release_id"], paid["state"]) == (release_id, "committed")
    assert (paid["method"], float(paid["epsilon"])) == ("noisy-counts", 2)
    assert paid["drawn_at"]


def without(part: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: each for key, each in part.items() if key != name}


def test_a_verifier_finds_terms_that_nobody_approved(owned: Survey, command: Command):
    assert command("run", owned.config)[0] == 0
    forger = Forger.of(owned)
    assert forger.found().good

    raised = json.loads(forger.ledger.splitlines()[1]) | {"epsilon": 1000.0}
    for fields in (raised, {name: each for name, each in raised.items() if name != "approval"}):
        line = json.dumps(fields, separators=(",", ":")).encode() + b"\n"
        forged = forger.copy().lines(lambda lines, line=line: [*lines, line]).with_hashes()
        assert "without a signature of key" in forged.wrong()
    for path, value in (
        ("ledger.terms.1.reason", "the board wished it"),
        ("ledger.terms.1.by", "ada"),
        ("ledger.terms.0.budget.epsilon", "3/1"),
        ("ledger.terms.0.approved_by", None),
        ("ledger.terms", lambda terms: terms[1:]),
    ):
        assert "other changes of its terms" in forger.copy().certify(path, value).wrong(), path
    untold = forger.copy().certify("ledger", lambda part: without(part, "terms"))
    assert "other changes of its terms" in untold.wrong()


def test_a_verifier_with_the_officers_key_finds_a_ledger_without_officer(
    survey: Survey, command: Command
):
    assert command("run", survey.config)[0] == 0
    public = survey.folder / "officer.pub"
    public.write_text(command("ledger", "key", "--out", survey.folder / "officer.pem")[1])
    assert command("verify", survey.config)[0] == 0
    code, printed = command("verify", survey.config, "--terms-key", public)
    assert (code, "the budget was set without a key" in printed) == (1, True)


def test_a_run_with_other_terms_spends_nothing(owned: Survey, command: Command):
    before = owned.ledger.read_bytes()
    for changes in ({"ledger__epsilon": 1000.0}, {"ledger__terms_key": None}):
        owned.set(**changes)  # the second edit on top of the first
        for words in (("run", owned.config), ("validate", owned.config)):
            code, printed = command(*words)
            assert code != 0
            assert "this job states epsilon 1000" in printed
    assert owned.ledger.read_bytes() == before
    assert not owned.output.exists()


def test_only_the_holder_repairs_the_ledger(owned: Survey, command: Command):
    assert command("run", owned.config)[0] == 0
    lines = owned.ledger.read_bytes().splitlines(keepends=True)
    owned.ledger.write_bytes(b"".join(lines[:2]))  # what was spent is cut off
    owned.ledger.with_name(f"{owned.ledger.name}.length").unlink()
    code, printed = command("run", owned.config)
    assert code != 0, printed
    before = {path: path.read_bytes() for path in owned.folder.glob("ledger*") if path.is_file()}
    code, printed = command("ledger", "recover", owned.config, "--yes")
    assert (code, "its terms belong to key" in printed) == (2, True), printed
    assert {path: path.read_bytes() for path in before} == before
    key = owned.folder / "officer.pem"
    code, printed = command("ledger", "recover", owned.config, "--yes", "--terms-key", key)
    assert code == 0, printed
    assert b'"approval":' in owned.ledger.read_bytes().splitlines()[2]
    assert command("run", owned.config)[0] == 0


@pytest.mark.parametrize("reason", ["", "x" * 201, "two\nlines"])
def test_a_reason_that_cannot_be_published_is_refused(owned: Survey, command: Command, reason: str):
    key, before = owned.folder / "officer.pem", owned.ledger.read_bytes()
    words = ("ledger", "terms", owned.config, "--terms-key", key, "--epsilon", 20)
    code, printed = command(*words, "--reason", reason)
    assert (code, "--reason: must be" in printed) == (2, True), printed
    assert owned.ledger.read_bytes() == before


@pytest.mark.parametrize("epsilon", ["0", "-1", "nan", "inf", "1e9"])
def test_a_total_that_is_none_is_refused(owned: Survey, command: Command, epsilon: str):
    key, before = owned.folder / "officer.pem", owned.ledger.read_bytes()
    words = ("ledger", "terms", owned.config, "--terms-key", key, "--reason", "x")
    code, printed = command(*words, "--epsilon", epsilon)
    assert (code, "--epsilon" in printed) == (2, True), printed
    assert owned.ledger.read_bytes() == before


def test_terms_that_would_belong_to_nobody_are_not_approved(survey: Survey, command: Command):
    key = survey.folder / "officer.pem"
    command("ledger", "key", "--out", key)
    words = ("ledger", "terms", survey.config, "--terms-key", key, "--reason", "x")
    code, printed = command(*words)
    assert (code, "ledger.terms_key is missing" in printed) == (2, True), printed
    assert not Path(survey.ledger).exists()


def test_the_officers_account_in_a_cloud_stands_on_the_page_and_in_the_table(
    survey: Survey, command: Command, monkeypatch: pytest.MonkeyPatch
):
    account = f"AWS: arn:aws:sts::123456789012:assumed-role/{'Officer' * 9}/ada@example.org"
    monkeypatch.setattr(operator, "accounts_of", lambda _: (account,))
    own_terms(survey)
    monkeypatch.undo()
    assert command("run", survey.config, "--direct")[0] == 0
    page = (survey.output / "report.html").read_text()
    assert account in page.replace("&#64;", "@")
    terms = json.loads((survey.output / "certificate.json").read_text())["ledger"]["terms"]
    assert all(account in each["by"] for each in terms)
    code, printed = command("verify", survey.config, "--terms-key", survey.folder / "officer.pub")
    assert code == 0, printed
    table = survey.folder / "ledger.csv"
    assert command("ledger", "export", survey.config, "--out", table)[0] == 0
    opened, raised, paid = csv.DictReader(table.read_text().splitlines())
    assert account in opened["operator"] == raised["operator"] != paid["operator"]
