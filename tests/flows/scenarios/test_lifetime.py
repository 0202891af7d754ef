"""Three jobs on three days over the same people: every place tells what they cost together."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime, timedelta

import pytest

import hushrank as hr
from hushrank.flows.ledger.ledger import Ledger
from hushrank.verifier.verify_release import verify
from tests.flows.conftest import Survey

DAYS = [datetime(2026, 11, day, 12, tzinfo=UTC) for day in (23, 24, 25)]
EPSILONS = (1.0, 1.1, 1.2)
SINCE_FIRST = "ince the first release: epsilon 3.30 by 3 releases"


class Today:
    """The day that every ledger of a test lives in."""

    now = DAYS[0]


@pytest.fixture
def today(monkeypatch) -> Today:
    day = Today()
    monkeypatch.setattr(Ledger, "clock", lambda ledger: day.now)
    return day


@pytest.fixture
def daily(survey) -> Survey:
    ledger = {"path": "ledger.jsonl", "epsilon": 2.0, "refresh": "daily"}
    metrics = {"metrics": str(survey.folder / "hushrank.prom")}
    return survey.set(ledger=ledger, observability=metrics)


def released(daily, command, epsilon: float) -> tuple[int, str]:
    """A run of a job of that epsilon, into a folder of its own."""
    daily.set(privacy__epsilon=epsilon, output=f"out-{epsilon}")
    return command("run", daily.config, "--direct")


def test_every_place_tells_the_loss_since_the_first_release(daily, command, today):
    for today.now, epsilon in zip(DAYS, EPSILONS, strict=True):
        code, printed = released(daily, command, epsilon)
        assert code == 0, printed
    assert f"has epsilon 0.80 left of 2.00 until 26 November. S{SINCE_FIRST}." in printed
    page = (daily.folder / "out-1.2" / "report.html").read_text()
    assert "epsilon 1.20 of 2.00 is spent (at delta 0) by 1 release, this one included." in page
    assert f"S{SINCE_FIRST}. One more release" in page
    assert SINCE_FIRST in command("ledger", "show", daily.config)[1]
    assert SINCE_FIRST in command("ledger", "forecast", daily.config)[1]
    code, printed = command("validate", daily.set(privacy__epsilon=0.5, output="next").config)
    assert code == 0
    assert SINCE_FIRST in printed
    year = datetime.now(UTC).year
    assert f"In {year} its 36" in printed
    assert (
        "limit the total over all periods, set for example ledger.lifetime_epsilon: 20" in printed
    )
    assert SINCE_FIRST in repr(hr.Ledger(daily.ledger))
    assert hr.Ledger(daily.ledger).balance.lifetime.spent_epsilon == 3.3
    metrics = (daily.folder / "hushrank.prom").read_text()
    assert 'hushrank_budget_epsilon_since_first{population="zoo"} 3.3' in metrics
    for words in (("ledger", "show"), ("validate",)):
        told = json.loads(command(*words, daily.config, "--json")[1])["budget"]
        assert (told["spent_since_first"], told["releases_since_first"]) == (3.3, 3)
        assert told["lifetime_epsilon"] is None


def test_no_run_brings_the_total_above_the_limit(daily, command, today):
    daily.set(ledger__lifetime_epsilon=3.0)
    for today.now, epsilon in zip(DAYS[:2], EPSILONS, strict=False):
        code, printed = released(daily, command, epsilon)
        assert code == 0
    assert "Since the first release: epsilon 2.10 of 3.00 by 2 releases." in printed
    today.now = DAYS[2]
    daily.set(privacy__epsilon=1.2, output="out-1.2")
    before = daily.ledger.read_bytes()
    for words in (("run", daily.config, "--direct"), ("validate", daily.config)):
        code, printed = command(*words)
        assert code == 3
        assert "ledger.lifetime_epsilon allows epsilon 3.00 at delta 0 over all periods" in printed
        assert "Nothing was read or spent." in printed
    assert daily.ledger.read_bytes() == before
    daily.set(privacy__epsilon=1.1, output="out-1.1")  # its result is lost
    shutil.rmtree(daily.work)
    shutil.rmtree(daily.folder / "out-1.1")
    code, printed = command("run", daily.config, "--direct", "--again")
    assert code == 3, printed
    with pytest.raises(hr.BudgetRefused, match=r"ledger.lifetime_epsilon allows epsilon 3\.00"):
        hr.run(daily.set(privacy__epsilon=1.5).config)
    assert daily.ledger.read_bytes() == before


@pytest.mark.parametrize("knows", ["archive", "confidential"])
def test_a_recovery_enters_the_spends_of_all_periods_again(daily, command, today, knows):
    """Else a ledger that was lost would open the limit anew."""
    daily.set(ledger__lifetime_epsilon=3.0, observability=None)
    for today.now, epsilon in zip(DAYS[:2], EPSILONS, strict=False):
        assert released(daily, command, epsilon)[0] == 0
    today.now = DAYS[2]
    daily.ledger.unlink()
    daily.set(ledger__path="fresh/ledger.jsonl")
    if knows == "archive":
        shutil.rmtree(daily.work)
    else:
        daily.set(output="out-next", privacy__epsilon=1.2)
    assert command("ledger", "recover", daily.config, "--yes")[0] == 0
    (daily.folder / "ledger.jsonl").unlink(missing_ok=True)
    told = command("ledger", "show", daily.config)[1]
    known = "1.10 of 3.00 by 1 release" if knows == "archive" else "2.10 of 3.00 by 2 releases"
    assert f"Since the first release: epsilon {known}." in told, told


def test_nights_stop_at_the_limit(daily, command, today):
    for day in (16, 17, 18):
        shutil.copy(daily.folder / "answers.parquet", daily.folder / f"n-2024-11-{day}.parquet")
    daily.set(input__paths=["n-{date}.parquet"], ledger__epsilon=4.0, ledger__lifetime_epsilon=5.0)
    nights = ("--from", "2024-11-16", "--to", "2024-11-16")
    assert command("backfill", daily.config, *nights, "--direct")[0] == 0
    today.now = DAYS[1]
    nights = ("--from", "2024-11-17", "--to", "2024-11-18")
    code, printed = command("backfill", daily.config, *nights, "--direct")
    assert code == 3
    assert "2024-11-17  released; spent epsilon 2.00" in printed
    assert "ledger.lifetime_epsilon allows epsilon 5.00" in printed
    assert daily.ledger.read_text().count('"event":"draw"') == 2


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            {"ledger__lifetime_epsilon": 1.5},
            "ledger.lifetime_epsilon: must be at least epsilon (2), the total of one period",
        ),
        (
            {"ledger__lifetime_epsilon": 3.0, "ledger__refresh": None},
            "ledger.lifetime_epsilon: needs refresh; without it epsilon (2) is the total for good",
        ),
    ],
)
def test_a_limit_that_cannot_be_meant_is_refused(daily, command, changes, told):
    code, printed = command("validate", daily.set(**changes).config)
    assert code == 2
    assert told in printed


def test_a_limit_from_python_is_recorded_and_holds(daily, today):
    ledger = hr.Ledger(daily.ledger, epsilon=2.0, refresh="daily", lifetime_epsilon=3.0)
    assert ledger.terms_for("zoo")["lifetime_epsilon"] == 3.0
    hr.run(daily.set(ledger__lifetime_epsilon=3.0).config)
    assert hr.Ledger(daily.ledger).terms_for("zoo")["lifetime_epsilon"] == 3.0
    today.now += timedelta(days=1)
    assert hr.Ledger(daily.ledger).remaining == 1.0
    with pytest.raises(hr.ConfigError, match="lifetime_epsilon: 3 is the most over all periods"):
        _ = hr.Ledger(daily.ledger, epsilon=4.0).balance


def test_the_certificate_has_the_limit_and_verify_checks_it(daily, command):
    daily.set(ledger__lifetime_epsilon=3.0)
    assert command("run", daily.config, "--direct")[0] == 0
    (folder,) = daily.archived()
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    content = daily.ledger.read_bytes()
    certificate = json.loads(files["certificate.json"])
    assert certificate["ledger"]["budget"]["lifetime_epsilon"] == "3/1"
    found = verify(files, content)
    assert found.good, found.lines
    assert ("holds", "the total of all periods is within lifetime_epsilon") in found.lines
    for limit, told in (
        ("1/1", "the total of all periods is above lifetime_epsilon"),
        ("4/1", "budget"),
    ):
        certificate["ledger"]["budget"]["lifetime_epsilon"] = limit
        forged = {**files, "certificate.json": json.dumps(certificate).encode()}
        lines = verify(forged, content).lines
        assert any(kind == "WRONG" and told in text for kind, text in lines)
