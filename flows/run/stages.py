"""The stages of a run, what carries them out, and what a run comes to.

A stage is named here once. `flows.run.run` goes through them in order; whoever performs them shows
them at the terminal, tells destinations, or makes tasks of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from hushrank.flows.ledger.budget import Balance
from hushrank.flows.release.release import Release
from hushrank.privacy.accounting import Spend
from hushrank.transforms.storage.cloud_storage import Place

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Step:
    """A part of a run.

    Attributes:
        name: as people read it.
        retries: how often it is repeated after a failure that is nobody's mistake.
    """

    name: str
    retries: int = 0


RESERVE = Step("reserve")
REDUCE = Step("reduce", retries=2)
DRAW = Step("draw")  # never again: a second draw would be a second release
ESTIMATE = Step("estimate", retries=2)
PUBLISH = Step("publish", retries=2)
COMMIT = Step("commit", retries=2)


class Perform(Protocol):
    """Carries out a step."""

    def __call__(self, step: Step, action: Callable[[], T]) -> T:
        """Return what `action` returns."""
        ...


def directly(step: Step, action: Callable[[], T]) -> T:
    """Just do it, in this process, without retries."""
    return action()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run did.

    Attributes:
        release: what is published now.
        folder: where.
        spent: what the ledger was charged; None where the release had been drawn before.
        balance: of the population's budget, afterwards.
        alerts: fractions of the budget that are used and of which nobody was told before.
    """

    release: Release
    folder: Place
    spent: Spend | None
    balance: Balance
    alerts: tuple[float, ...] = ()
