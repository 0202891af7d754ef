"""Ties as outcomes in a release: the noisy counts, and how often equals tie."""

from __future__ import annotations

from typing import Self

from hushrank.estimation.ties.tie_models import TieModel, TieStrength
from hushrank.flows.statement.record import Extended, Record


class TieRecord(Record):
    """Share of ties, by the model of ties that scores were fitted with.

    Attributes:
        model: name of the model of ties.
        parameter: nu of Davidson, theta of Rao and Kupper.
        low, high: 95 % interval of the share.
        equals: percent of comparisons between two items of equal scores that tie.
        equals_low, equals_high: its 95 % interval.
    """

    model: TieModel
    parameter: Extended
    low: Extended
    high: Extended
    equals: float
    equals_low: float
    equals_high: float

    @classmethod
    def of(cls, model: TieModel, strength: TieStrength) -> Self:
        """The record of an estimate."""
        probabilities = strength.chance, strength.low, strength.high
        parameter, low, high = (model.parameter(chance) for chance in probabilities)
        equals, equals_low, equals_high = (100 * chance for chance in probabilities)
        return cls(
            model=model,
            parameter=parameter,
            low=low,
            high=high,
            equals=equals,
            equals_low=equals_low,
            equals_high=equals_high,
        )


def tie_sentence(ties: TieRecord) -> str:
    """Say in words what the estimate means."""
    return (
        f"Two equal items tie in {ties.equals:.1f} % of their comparisons (95 % interval:"
        f" {ties.equals_low:.1f} to {ties.equals_high:.1f} %)."
    )
