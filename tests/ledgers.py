"""What tests of the ledger share: a clock that they set, terms, and short ways to spend."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from hushrank.flows.ledger.entries import BudgetTerms
from hushrank.flows.ledger.ledger import Ledger
from hushrank.privacy.accounting import Spend
from hushrank.privacy.units import Adjacency, Unit

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


class Clock:
    """A clock that tests set."""

    def __init__(self, now: datetime = NOW) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now


def terms_of(**changes: Any) -> BudgetTerms:
    """Epsilon 10 a month for the people of `campus-choice`, with `changes`."""
    terms: dict[str, Any] = {
        "population": "campus-choice",
        "epsilon": 10.0,
        "delta": 0.0,
        "refresh": "monthly",
        "unit": Unit.USER,
        "adjacency": Adjacency.REPLACE_ONE,
    }
    return BudgetTerms(**{**terms, **changes})


def pure(epsilon: float) -> Spend:
    """The cost of a release with laplace noise."""
    return Spend(epsilon=epsilon)


def release(ledger: Ledger, release_id: str, epsilon: float) -> None:
    """One whole run."""
    ledger.reserve(release_id, pure(epsilon))
    ledger.mark_drawn(release_id)
    ledger.commit(release_id)
