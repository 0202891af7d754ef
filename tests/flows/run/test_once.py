"""What a run does once: calibrate a method, hash the job, read ledger, audit and drawn noise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import hushrank as hr
from hushrank.flows.assembly import run_job
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import BudgetRefused
from hushrank.flows.ledger import local_file
from hushrank.flows.ledger.ledger import Ledger
from hushrank.flows.methods import registry
from hushrank.flows.run import drawn as stored
from hushrank.flows.run.job import prepare_job, read_survey
from tests.flows.conftest import ITEMS, InProcessReducer, answers
from tests.ledgers import Clock, pure, terms_of

READS = 4  # at the start, and under the lock of each of three appends


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """How often a run does what costs time or must not differ from one time to the next."""
    found: Counter[str] = Counter()

    def count(target: Any, name: str, what: str | None = None) -> None:
        before: Callable[..., Any] = getattr(target, name)

        def counting(*given: Any, **named: Any) -> Any:
            found[what or f"{name} {sorted(named.items())}".strip()] += 1
            return before(*given, **named)

        monkeypatch.setattr(target, name, counting)

    for method in registry.METHODS.values():
        for way in method.ways:
            count(type(way), "calibrate", f"calibrate {way.facts.name}")
    count(SurveyConfig, "job_hash")
    count(local_file.LedgerFile, "_content", "ledger")
    count(local_file, "_read_all", "ledger")
    count(stored, "drawn_of", "drawn")
    count(hr.flows.run.context, "audited_pairs", "audit")
    return found


def of(counted: Counter[str], what: str) -> list[int]:
    return [times for name, times in counted.items() if name.startswith(what)]


def test_a_run_does_once_what_it_needs_throughout(survey, counted):
    survey.set(method="auto")
    job = prepare_job(read_survey(survey.config))
    outcome = run_job(job, InProcessReducer())
    assert outcome.charged
    assert set(of(counted, "calibrate")) == {1}, counted
    assert set(of(counted, "job_hash")) == {1}, counted
    assert counted["audit"] == 1
    assert counted["drawn"] == 0, "a run goes on with what it has stored, and reads nothing back"
    assert counted["ledger"] == READS, counted


def test_a_run_from_python_calibrates_once(survey, counted, monkeypatch):
    monkeypatch.setattr("hushrank.flows.interfaces.python.run.Reducer", InProcessReducer)
    names = {"left": "item_i", "right": "item_j", "outcome": "outcome", "user": "user"}
    hr.rank(
        answers(200),
        **names,
        words={"left": 1, "right": -1, "tie": 0},
        items={"names": ITEMS, "first_code": 0},
        epsilon=2.0,
        max_contributions=6,
        design="balanced",
        ledger=survey.ledger,
        name="zoo",
        progress=False,
    )
    assert set(of(counted, "calibrate")) == {1}, counted
    assert counted["drawn"] == 0


def test_what_is_known_is_read_afresh_before_it_is_refused(tmp_path):
    """The budget was full when it was read, and another process gave some of it back since."""
    path, clock = tmp_path / "ledger.jsonl", Clock()
    one, other = (Ledger(path, terms_of(), clock=clock) for _ in range(2))
    one.reserve("a", pure(8))
    other.known()
    one.cancel("a")
    other.reserve("b", pure(8))
    one.known()
    other.mark_drawn("b")
    with pytest.raises(BudgetRefused):
        one.reserve("c", pure(8))


def test_what_another_run_has_drawn_meanwhile_is_published(survey):
    """The ledger was read before the other run; this one waited for its lock."""
    waits = prepare_job(read_survey(survey.config))
    waits.ledger.known()
    run_job(prepare_job(read_survey(survey.config)), InProcessReducer())
    (survey.output / "releases").rename(survey.folder / "elsewhere")
    outcome = run_job(waits, InProcessReducer())
    assert outcome.spent is None
    assert survey.ledger.read_text().count('"event":"draw"') == 1
