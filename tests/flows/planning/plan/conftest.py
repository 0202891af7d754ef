"""Plans whose numbers are looked at."""

from __future__ import annotations

import pytest

from hushrank.flows.planning.plan import survey as planned_surveys


@pytest.fixture(autouse=True)
def few_simulated_surveys(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan simulates as few surveys of small jobs as of large ones: 12, not 120."""
    monkeypatch.setattr(planned_surveys, "MOST", planned_surveys.FEWEST)
