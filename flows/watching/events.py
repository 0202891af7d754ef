"""Events of a run: a closed vocabulary of public facts.

Every field comes from the configuration, the ledger, the clock or the installed software. None is
computed from rows, but for one thing that no one can hide from whoever runs the machine: how long
a step took, to a tenth of a second.
"""

from __future__ import annotations

import math
import platform
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError
from typing import TYPE_CHECKING, Any, Literal

from hushrank.flows.errors import HushrankError
from hushrank.flows.release.provenance import installed_version
from hushrank.flows.run.context import code_version

if TYPE_CHECKING:
    from hushrank.flows.ledger.entries import Balance
    from hushrank.flows.run.context import Job

EventName = Literal["run started", "step ended", "run ended", "run failed"]
SOFTWARE = ("apache-beam", "prefect", "pyarrow", "numpy", "scipy", "opendp", "dp-accounting")
PLACES_OF_SECONDS = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEvent:
    """Something that happened in a run; `public_fields` leaves out what does not apply.

    Attributes:
        event: name of the event.
        time: time of the event, UTC.
        population, release_id, night, method: facts of the job.
        step: name of the step.
        seconds: duration of the step or the run, rounded.
        ok: whether it did what it should.
        error: kind of failure.
        message: text of a failure that explains itself: such texts hold no private value.
        epsilon_left, epsilon_total: epsilon of the population's budget, after the run.
        epsilon_since_first: epsilon of all its releases in all periods, if the budget renews.
        spent_now: whether the run was charged, rather than published what was drawn before.
        versions: versions of the software.
    """

    event: EventName
    time: datetime = field(default_factory=lambda: datetime.now(UTC))
    population: str
    release_id: str
    night: str | None = None
    method: str
    step: str | None = None
    seconds: float | None = None
    ok: bool | None = None
    error: str | None = None
    message: str | None = None
    epsilon_left: float | None = None
    epsilon_total: float | None = None
    epsilon_since_first: float | None = None
    spent_now: bool | None = None
    versions: dict[str, str] | None = None

    def public_fields(self) -> dict[str, Any]:
        """JSON-ready, in order, without what does not apply."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        values["time"] = self.time.isoformat(timespec="milliseconds")
        return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True, slots=True)
class RunFacts:
    """Makes the events of one job.

    Attributes:
        job: job whose public facts every event carries.
    """

    job: Job

    def started(self) -> RunEvent:
        """The run begins."""
        return self._event("run started", versions=software_versions())

    def step_ended(self, step: str, seconds: float, error: BaseException | None) -> RunEvent:
        """A step succeeded, or failed with `error`."""
        return self._event("step ended", step=step, **_result(seconds, error))

    def ended(self, seconds: float, balance: Balance, *, spent_now: bool) -> RunEvent:
        """The release is published."""
        return self._event(
            "run ended",
            **_result(seconds, None),
            epsilon_left=_finite(balance.remaining_epsilon),
            epsilon_total=_finite(balance.total),
            epsilon_since_first=epsilon_since_first(balance),
            spent_now=spent_now,
        )

    def failed(self, seconds: float, error: BaseException) -> RunEvent:
        """The run stopped."""
        return self._event("run failed", **_result(seconds, error))

    def _event(self, event: EventName, **what: Any) -> RunEvent:
        job = self.job
        return RunEvent(
            event=event,
            population=job.config.name,
            release_id=job.release_id,
            night=None if job.night is None else job.night.isoformat(),
            method=job.config.method,
            **what,
        )


def _result(seconds: float, error: BaseException | None) -> dict[str, Any]:
    """The text of an unforeseen error may quote a row, so only that of our own is told."""
    told = str(error) if isinstance(error, HushrankError) else None
    return {
        "seconds": round(seconds, PLACES_OF_SECONDS),
        "ok": error is None,
        "error": None if error is None else type(error).__name__,
        "message": told,
    }


def epsilon_since_first(balance: Balance) -> float | None:
    """Epsilon of all releases of a budget that renews; None of others, or if none holds."""
    return None if balance.lifetime is None else _finite(balance.lifetime.spent_epsilon)


def _finite(epsilon: float) -> float | None:
    return epsilon if math.isfinite(epsilon) else None


def software_versions() -> dict[str, str]:
    """Versions of what a run depends on."""
    found = {"hushrank": code_version(), "python": platform.python_version()}
    for name in SOFTWARE:
        try:
            found[name] = installed_version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found
