"""The section `schedule.stream`: nights that one budget pays for together (`privacy.stream`)."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, timedelta
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, field_validator

from hushrank.flows.config.problems import refuse
from hushrank.flows.config.section import Section
from hushrank.privacy.stream_encoder import MAX_NIGHTS, Terms, Workload

SHOWN_BY_NAME: dict[str, dict[str, int]] = {"night": {"window": 1}, "cumulative": {}}
FIRST_YEARS = range(1900, 2900)  # a stream lasts 90 years at most


def _date_of(value: object) -> object:
    """A date as text, which YAML 1.2 knows no other form of."""
    found = None
    if isinstance(value, str):
        try:
            found = date.fromisoformat(value)
        except ValueError:
            found = None
    if found is None or found.year not in FIRST_YEARS:
        refuse(("", f"must be a date such as 2026-11-20, got {str(value)[:40]!r}"))
    return found


class ShowConfig(Section):
    """What each night of a stream shows.

    `show: night` is short for `{window: 1}`, `show: cumulative` for all nights so far.

    Attributes:
        window: the last so many nights; left out: all nights so far.
    """

    window: int | None = Field(default=None, ge=1, le=MAX_NIGHTS, examples=["28"])


class StreamConfig(Section):
    """Nights that one budget pays for together. Changing any key here makes another stream.

    Attributes:
        nights: how many nights the stream has.
        participations: on how many of them one person's rows count at most.
        gap: how many nights lie at least between two of them, counted from the one to the other: 1
            is the next night.
        show: what each night shows: `night`, `cumulative` (all nights so far) or `{window: 28}`.
        first: date of its first night. Nights are numbered from it.
        bands: over how many nights a night's counts are spread, at most `gap` and at most the
            window; left out: as many as that allows, and 1 with `noise: laplace`.
    """

    nights: int = Field(ge=1, le=MAX_NIGHTS, examples=["365"])
    participations: int = Field(ge=1, le=MAX_NIGHTS, examples=["12"])
    gap: int = Field(ge=1, le=MAX_NIGHTS, examples=["28"])
    show: ShowConfig = Field(examples=["{window: 28}"])
    first: Annotated[date, BeforeValidator(_date_of)] = Field(examples=["2026-11-20"])
    bands: int | None = Field(default=None, ge=1, le=MAX_NIGHTS, examples=["28"])

    @field_validator("show", mode="before")
    @classmethod
    def _by_name(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        if value not in SHOWN_BY_NAME:
            refuse(("", f"must be night, cumulative or {{window: 28}}, got {value[:40]!r}"))
        return SHOWN_BY_NAME[value]

    def _problems(self) -> Iterable[tuple[str, str]]:
        if self.bands is None:
            return
        if self.bands > self.gap:
            yield (
                "bands",
                f"must be at most gap ({self.gap}), got {self.bands}: the bands of two nights of"
                " one person would overlap, and they would lose more than the budget; lower bands,"
                " or raise gap",
            )
        elif self.bands > self.workload.most_bands(self.terms):
            yield (
                "bands",
                f"must be at most the nights that are shown together"
                f" ({self.workload.most_bands(self.terms)}), got {self.bands}: coefficients beyond"
                " them are negative, and the guarantee needs them >= 0; lower bands, or leave it"
                " out",
            )

    @property
    def terms(self) -> Terms:
        """When a person's rows count."""
        return Terms(nights=self.nights, participations=self.participations, gap=self.gap)

    @property
    def workload(self) -> Workload:
        """What is shown."""
        return Workload(self.show.window)

    @property
    def last(self) -> date:
        """Date of the last night."""
        return self.first + timedelta(days=self.nights - 1)

    def number_of(self, night: date) -> int:
        """The number of a night, from 0; of no night of the stream below 0, or beyond its end."""
        return (night - self.first).days

    def night(self, number: int) -> date:
        """The date of a night."""
        return self.first + timedelta(days=number)
