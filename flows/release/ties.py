"""Ties as outcomes in a release: the noisy counts, and how often equals tie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.ties.tie_counts import TieCounts
from hushrank.estimation.ties.tie_models import TieModel, TieStrength
from hushrank.flows.release.public_pairs import among_items, require_noisy
from hushrank.flows.release.released import Figure, ReleasedRecord
from hushrank.flows.release.win_loss import in_comparisons
from hushrank.flows.statement.record import Extended, Record


class TieRecord(Record):
    """How often items tie, by the model of ties that scores were fitted with.

    Attributes:
        model: of ties.
        parameter: nu of Davidson, theta of Rao and Kupper.
        low, high: its 95 % interval.
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
        chances = strength.chance, strength.low, strength.high
        parameter, low, high = (model.parameter(chance) for chance in chances)
        equals, equals_low, equals_high = (100 * chance for chance in chances)
        return cls(
            model=model,
            parameter=parameter,
            low=low,
            high=high,
            equals=equals,
            equals_low=equals_low,
            equals_high=equals_high,
        )


class ReleasedTies(ReleasedRecord):
    """The noisy counts of three outcomes of each pair, from which all the rest is computed.

    Attributes:
        items: in catalogue order; rows and columns are in this order.
        wins: entry b of row a is how often a beat b, noise included; zero on the diagonal.
        ties: entry b of row a is how often a and b tied, noise included, for b after a; else zero.
    """

    shows = (
        Figure.SCORES,
        Figure.WINS,
    )
    kind: Literal["tie-counts"] = "tie-counts"
    items: tuple[str, ...]
    wins: tuple[tuple[int, ...], ...]
    ties: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, counts: TieCounts, items: Sequence[str]) -> Self:
        """The record of noisy `counts`.

        Raises:
            ValueError: they are confidential, or of another number of items.
        """
        require_noisy(counts, items)
        wins, ties = (tuple(map(tuple, matrix)) for matrix in counts.cells.tolist())
        # Checked above: a million entries are not checked again.
        return cls.model_construct(items=tuple(items), wins=wins, ties=ties)

    def among(self, items: Sequence[str]) -> NDArray[np.float64]:
        """Noisy wins of some items over each other."""
        return among_items(self.wins, self.items, items)

    def wins_by_item(self) -> dict[str, int | float] | None:
        """Comparisons won by each item: the sums of the rows, noise included."""
        return in_comparisons(dict(zip(self.items, map(sum, self.wins), strict=True)), 1)


def tie_sentence(ties: TieRecord) -> str:
    """What the estimate means, in words."""
    return (
        f"Two equal items tie in {ties.equals:.1f} % of their comparisons (95 % interval:"
        f" {ties.equals_low:.1f} to {ties.equals_high:.1f} %)."
    )
