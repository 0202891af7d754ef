"""Plans whose numbers are looked at."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from hushrank.flows.planning.plan import survey as planned_surveys


@pytest.fixture(autouse=True)
def few_simulated_surveys(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan simulates as few surveys of small jobs as of large ones: 12, not 120."""
    monkeypatch.setattr(planned_surveys, "MOST", planned_surveys.FEWEST)


@pytest.fixture
def each_survey_simulated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a test that has one job planned several times, as text and as JSON.

    What is simulated follows from the arguments, which name the seed of people and noise: a survey
    that was simulated in this test has the same result again.
    """
    anew, kept = planned_surveys._one, dict[bytes, Any]()

    def one(config: Any, method: Any, *others: Any) -> Any:
        simulated = pickle.dumps((config, *others))
        if simulated not in kept:
            kept[simulated] = anew(config, method, *others)
        return kept[simulated]

    monkeypatch.setattr(planned_surveys, "_one", one)
