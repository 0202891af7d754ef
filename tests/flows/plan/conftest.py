"""Plans from few invented surveys: what these tests look at does not hang on the last digit."""

from __future__ import annotations

import pytest

from hushrank.flows.plan import survey as planned


@pytest.fixture(autouse=True)
def few_surveys(monkeypatch: pytest.MonkeyPatch) -> None:
    """As few as large surveys get anyway; `World(replicates=...)` still says how many."""
    monkeypatch.setattr(planned, "MOST", planned.FEWEST)
