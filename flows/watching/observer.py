"""Report what a run does to machines: log lines, metrics, OpenTelemetry spans, OpenLineage events.

Only `events.RunEvent` is reported, so nothing that was computed from rows can be. Every destination
is checked before anything is spent. A destination that fails later never stops a run: one warning
says why.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from hushrank.flows.run.context import Job
    from hushrank.flows.run.stages import Outcome, Perform, Step
    from hushrank.flows.watching.events import RunEvent, RunFacts

T = TypeVar("T")
EVENTS = logging.getLogger("hushrank.events")


class Destination(Protocol):
    """A place where events go."""

    def tell(self, event: RunEvent) -> None:
        """Take one more event of the run.

        Raises:
            OSError: the event cannot be written or sent.
        """
        ...


class Logged:
    """Hands each event to the logger `hushrank.events`, for whoever has asked for its level INFO.

    The message names event and population; the attribute `event` of the record has all fields.
    """

    def tell(self, event: RunEvent) -> None:
        """Log the event: a failure as ERROR, else as INFO."""
        fields = event.public_fields()
        level = logging.ERROR if event.ok is False else logging.INFO
        what = " ".join(str(fields[name]) for name in ("event", "step") if name in fields)
        EVENTS.log(level, "%s: %s", event.population, what, extra={"event": fields})


class Observer:
    """Reports to every destination what one run does."""

    def __init__(self, facts: RunFacts, destinations: tuple[Destination, ...]) -> None:
        """Args: facts that every event states, and the destinations."""
        self._facts = facts
        self._destinations = list(destinations)

    @contextmanager
    def run(self) -> Iterator[Callable[[Outcome], None]]:
        """Surround the whole run; call the yielded function with the outcome, if there is one."""
        started = time.monotonic()
        self._tell(self._facts.started())

        def ended(outcome: Outcome) -> None:
            self._tell(
                self._facts.ended(
                    time.monotonic() - started,
                    outcome.balance,
                    spent_now=outcome.charged,
                )
            )

        try:
            yield ended
        except BaseException as error:
            self._tell(self._facts.failed(time.monotonic() - started, error))
            raise

    def watch(self, perform: Perform) -> Perform:
        """A function that calls `perform` and reports the beginning and end of the step."""

        def watched(step: Step, action: Callable[[], T]) -> T:
            started = time.monotonic()
            try:
                result = perform(step, action)
            except BaseException as error:
                self._tell(self._facts.step_ended(step.name, time.monotonic() - started, error))
                raise
            self._tell(self._facts.step_ended(step.name, time.monotonic() - started, None))
            return result

        return watched

    def _tell(self, event: RunEvent) -> None:
        for destination in tuple(self._destinations):
            try:
                destination.tell(event)
            except OSError as error:
                self._destinations.remove(destination)
                why = error.strerror or type(error).__name__
                what = f"{type(destination).__name__}: {why}. The run goes on without it."
                logging.getLogger(__name__).warning(what)


def observer_of(job: Job) -> Observer | None:
    """The observer that the job's configuration asks for; None: nobody is told of the run.

    Raises:
        ConfigError: a destination cannot be written, or its library is not installed.
    """
    destinations = destinations_of(job)
    if not destinations:
        return None
    from hushrank.flows.watching.events import RunFacts

    return Observer(RunFacts(job), destinations)


def destinations_of(job: Job) -> tuple[Destination, ...]:
    """The configured destinations; opening one also checks it.

    Raises:
        ConfigError: `observer_of` refuses.
    """
    config = job.config.observability
    found: list[Destination] = [Logged()] if EVENTS.isEnabledFor(logging.INFO) else []
    if config.log is not None:
        from hushrank.flows.watching.destinations import LogFile

        found.append(LogFile(config.log, config.log_format))
    if config.metrics is not None:
        from hushrank.flows.watching.destinations import MetricsFile

        found.append(MetricsFile(config.metrics))
    if config.traces:
        from hushrank.flows.watching.destinations import Traces

        found.append(Traces())
    if config.support is not None:
        from hushrank.flows.watching.support import SupportFolder

        found.append(SupportFolder(config.support, job.config))
    if config.lineage is not None:
        from hushrank.flows.watching.destinations import LineageFeed

        found += LineageFeed.of(config.lineage, job)
    return tuple(found)
