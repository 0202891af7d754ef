"""The `ledger` section: the privacy budget of the population."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from hushrank.flows.config.places import AnyPlace
from hushrank.flows.config.section import LEAST_LOSS, MOST_LOSS, Delta, Section

Fraction = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]


class LedgerConfig(Section):
    """The privacy budget of the population.

    Attributes:
        path: the file of the ledger.
        epsilon: the most that one unit may lose altogether in a period, at `delta`.
        delta: delta at which totals are stated; more than 0 if a release has a delta or a rho.
        refresh: when the total renews; None: never.
        alerts: fractions of the total at which people are warned, once a period; 1.0 warns when one
            more release does not fit.
        other_people: names of other jobs that read the same files although their people are others
            than those of this job; without this key, the same files under two names are refused.
    """

    path: AnyPlace = Field(examples=[".hushrank/ledger.jsonl"])
    epsilon: float = Field(ge=LEAST_LOSS, le=MOST_LOSS, allow_inf_nan=False, examples=["10"])
    delta: Delta = Field(default=0.0, examples=["1.0e-6"])
    refresh: Literal["daily", "weekly", "monthly", "yearly"] | None = None
    alerts: Annotated[tuple[Fraction, ...], Field(strict=False)] = Field(
        default=(), examples=["[0.5, 0.8, 1.0]"]
    )
    other_people: Annotated[tuple[str, ...], Field(strict=False)] = Field(
        default=(), examples=["[staff-choice]"]
    )
