"""Reliability, abilities by raw score, and steps between points, on the page of a report."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from hushrank.flows.release.release import Release
from hushrank.flows.release.sheet_report import BookletRecord, reliability_sentences, step_rows

MOST_ROWS = 62  # of a table of abilities
MOST_STEPS = 150  # lines of the table of steps
MOST_SECTIONS = 10  # booklets that the page has tables of
NORMAL = 1.96  # standard errors from an ability to the ends of its 95 % interval


@dataclass(frozen=True, slots=True)
class AbilityRow:
    """One raw score: texts as they are shown."""

    score: str
    ability: str
    error: str
    interval: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BookletFacts:
    """What the page says of one booklet.

    Attributes:
        name: of the booklet; None: the test has none.
        sentences: how reliable scores and abilities are.
        rows: abilities of raw scores.
        step: from one score of `rows` to the next.
    """

    name: str | None
    sentences: tuple[str, ...]
    rows: tuple[AbilityRow, ...]
    step: int


@dataclass(frozen=True, slots=True)
class StepRow:
    """One step of an item that gives points: texts as they are shown."""

    item: str
    step: str
    difficulty: str
    interval: str


@dataclass(frozen=True, slots=True)
class StepFacts:
    """Steps that the page shows.

    Attributes:
        rows: of the first items if there are many.
        left_out: how many steps are in the file alone.
    """

    rows: tuple[StepRow, ...]
    left_out: int


def step_facts(release: Release) -> StepFacts | None:
    """Steps of the items of a test with points; None: of other releases."""
    steps = [] if release.test is None else step_rows(release.test)
    if not steps:
        return None
    shown = release.shown()
    rows = (
        StepRow(
            shown[step.item],
            f"{step.points - 1} to {step.points}",
            _signed(step.difficulty),
            _interval(step.low, step.high),
        )
        for step in steps[:MOST_STEPS]
    )
    return StepFacts(tuple(rows), max(0, len(steps) - MOST_STEPS))


def _interval(low: float, high: float) -> str:
    if math.isinf(low):
        return "open" if math.isinf(high) else f"{_signed(high)} and below"
    return f"{_signed(low)} and above" if math.isinf(high) else f"{_signed(low)} to {_signed(high)}"


def booklet_facts(release: Release) -> list[BookletFacts]:
    """The facts of each booklet, of the first ones if there are many; none of other releases."""
    return [_facts(booklet) for booklet in (release.test or ())[:MOST_SECTIONS]]


def _facts(booklet: BookletRecord) -> BookletFacts:
    step = -(-len(booklet.ability) // MOST_ROWS)
    return BookletFacts(
        name=booklet.name,
        sentences=tuple(reliability_sentences(booklet)),
        rows=tuple(_rows(booklet, step)),
        step=step,
    )


def _rows(booklet: BookletRecord, step: int) -> Iterator[AbilityRow]:
    last = len(booklet.ability) - 1
    for score in sorted({*range(0, last, step), last}):
        ability, error = booklet.ability[score], booklet.error[score]
        low, high = ability - NORMAL * error, ability + NORMAL * error
        interval = f"{_signed(low)} to {_signed(high)}"
        yield AbilityRow(f"{score}", _signed(ability), f"{error:.2f}", interval)


def _signed(value: float) -> str:
    text = f"{value:+.2f}"
    return text if text.strip("+-0.") else "0.00"
