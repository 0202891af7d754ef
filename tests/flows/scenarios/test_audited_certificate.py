"""What `hushrank audit` has shown stands in the certificates of the same job, and of no other."""

from __future__ import annotations

import json
from fractions import Fraction
from functools import partial

import pytest

from hushrank.flows.assembly import MEMORY
from hushrank.flows.run.confidential_folder import Exact
from hushrank.flows.run.job import prepare_job, read_survey
from hushrank.flows.run.run import draw, reduce, reserve
from hushrank.flows.trust.audit import audit
from hushrank.flows.trust.audit.result import ASSUMPTIONS
from tests.flows.conftest import InProcessReducer
from tests.flows.crashes import drawn_job_of
from tests.statistics import FALSE_POSITIVE_RATE


@pytest.fixture(scope="module")
def told() -> list[str]:
    """What the one audit of all tests has written, once it has."""
    return []


@pytest.fixture
def audited(survey, command, monkeypatch, told):
    """A job, and what an audit of a second, which errs once in 10^6, has written beside it.

    One audit serves all tests: their jobs differ in their folders alone.
    """
    sure = partial(audit.audit, wrong=FALSE_POSITIVE_RATE)
    monkeypatch.setattr(audit, "audit", sure)
    survey.set(report={"audit": "audit.json"})
    written = survey.folder / "audit.json"
    if told:
        written.write_text(told[0])
        edit(survey, job=read_survey(survey.config).config.job_hash())
        return survey
    code, printed = command("audit", survey.config, "--minutes", "0.02", "--processes", "1")
    assert code == 0, printed
    told.append(written.read_text())
    return survey


def test_bounds_of_an_audit_stand_in_the_certificate(audited, command):
    code, printed = command("run", audited.config, "--direct")
    assert code == 0, printed
    told = json.loads((audited.folder / "audit.json").read_text())
    certificate = json.loads((audited.folder / "out" / "certificate.json").read_text())
    assert [line["pair"] for line in certificate["audit"]] == [
        line["pair"] for line in told["certificate"]
    ]
    for part, line in zip(told["parts"], certificate["audit"], strict=True):
        largest = max(part["bounds"], key=lambda bound: bound["epsilon_lower"])
        assert line["pair"].endswith(f"; assumes {ASSUMPTIONS[largest['assumes']]}")
        assert Fraction(line["epsilon_lower"]) == Fraction(largest["epsilon_lower"])
        assert Fraction(line["epsilon_lower"]) <= Fraction(line["stated"])
    code, printed = command("verify", audited.config)
    assert code == 0, printed


def edit(audited, **changes) -> None:
    path = audited.folder / "audit.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"job": "0" * 64}, "is an audit of another configuration"),
        ({"refuted": True}, "shows that the mechanism breaks what is stated"),
        ({"certificate": [{"pair": 1}]}, "is not what hushrank audit writes"),
    ],
)
def test_an_audit_that_says_nothing_for_this_job_is_refused_before_the_budget(
    audited, command, changes, message
):
    edit(audited, **changes)
    code, printed = command("run", audited.config, "--direct")
    assert code == 2
    assert message in " ".join(printed.split())
    assert not (audited.folder / "ledger.jsonl").exists()


def test_a_resumed_release_states_the_audit_of_when_it_was_drawn(audited, command):
    before = json.loads((audited.folder / "audit.json").read_text())["certificate"]
    drawn_job_of(audited.config)  # and then the run dies
    edit(audited, certificate=[])
    code, printed = command("run", audited.config, "--direct")
    assert code == 0, printed
    certificate = json.loads((audited.folder / "out" / "certificate.json").read_text())
    assert certificate["audit"] == before


def test_what_was_drawn_is_published_where_the_audit_is_gone(audited, command):
    """Whoever resumes has the audit in what was drawn."""
    job = drawn_job_of(audited.config)
    (audited.folder / "audit.json").unlink()
    code, printed = command("resume", job.release_id, audited.config)
    assert code == 0, printed
    certificate = json.loads((audited.folder / "out" / "certificate.json").read_text())
    assert certificate["audit"]


def test_an_audit_that_goes_during_a_run_was_read_before_it(audited, command):
    job = prepare_job(read_survey(audited.config))
    reserve(job, MEMORY)
    (audited.folder / "audit.json").unlink()
    reduce(job, InProcessReducer().run)
    draw(job, Exact(job.work))
    code, printed = command("resume", job.release_id, audited.config)
    assert code == 0, printed
    certificate = json.loads((audited.folder / "out" / "certificate.json").read_text())
    assert certificate["audit"]
