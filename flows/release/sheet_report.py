"""What a release says of a test beside difficulties: reliability, and abilities by raw score."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Self

from pydantic import Field

from hushrank.flows.statement.record import Record
from hushrank.transforms.common.plain_text import write_cell

if TYPE_CHECKING:
    from hushrank.estimation.responses.booklet_report import BookletEstimate
    from hushrank.estimation.responses.reliability import Reliability

KR20, SEPARATION = "Reliability (KR-20)", "Person separation"
NOT_TOLD = {
    KR20: "noise and chance hide how far raw scores differ",
    SEPARATION: "abilities do not differ by more than noise, chance and their own errors",
}


class ReliabilityRecord(Record):
    """An estimate of a reliability, with its 95 % interval, which noise and chance make wide."""

    estimate: float = Field(le=1)
    low: float = Field(le=1)
    high: float = Field(le=1)

    @classmethod
    def of(cls, found: Reliability | None) -> Self | None:
        """The record of an estimate; None: there is none."""
        return None if found is None else cls(estimate=found.value, low=found.low, high=found.high)


class BookletRecord(Record):
    """What is said of one booklet, or of the whole test if it has no booklets.

    Attributes:
        name: of the booklet; null: everybody had all items.
        kr20: reliability of raw scores by KR-20; null: it is not told. With booklets it never is,
            as right answers are counted over all booklets together.
        separation: reliability of abilities; null: it is not told.
        ability: by raw score, from 0 points to all, in units of difficulties.
        error: standard errors of these abilities.
    """

    name: str | None
    kr20: ReliabilityRecord | None
    separation: ReliabilityRecord | None
    ability: tuple[float, ...]
    error: tuple[float, ...]

    @classmethod
    def of(cls, name: str | None, found: BookletEstimate) -> Self:
        """The record of what was computed from noisy totals."""
        return cls(
            name=name,
            kr20=ReliabilityRecord.of(found.kr20),
            separation=ReliabilityRecord.of(found.separation),
            ability=tuple(found.table.ability.tolist()),
            error=tuple(found.table.error.tolist()),
        )


def score_rows(
    sheets: Sequence[BookletRecord],
) -> Iterator[tuple[str | None, int, float, float]]:
    """Booklet, raw score, ability and its standard error, line by line."""
    for booklet in sheets:
        lines = zip(booklet.ability, booklet.error, strict=True)
        for score, (ability, error) in enumerate(lines):
            yield booklet.name, score, ability, error


def scores_csv(sheets: Sequence[BookletRecord]) -> str:
    """Abilities by raw score as a table, to six decimals."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    several = len(sheets) > 1
    table.writerow([*["booklet"] * several, "score", "ability", "standard_error"])
    for name, score, ability, error in score_rows(sheets):
        booklet = [write_cell(name or "")] * several
        table.writerow([*booklet, score, f"{ability:.6f}", f"{error:.6f}"])
    return text.getvalue()


def reliability_sentences(booklet: BookletRecord) -> Iterator[str]:
    """How reliable scores and abilities are, in words."""
    known = {KR20: booklet.kr20, SEPARATION: booklet.separation}
    for what, found in known.items():
        if found is not None:
            yield (
                f"{what}: {found.estimate:.2f} (95 % interval: {found.low:.2f} to"
                f" {found.high:.2f})."
            )
        elif what != KR20 or booklet.name is None:
            yield f"{what} is not told: {NOT_TOLD[what]}."
