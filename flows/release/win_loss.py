"""The record of noisy wins and losses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Self

from pydantic import Field

from hushrank.estimation.common.matrices import WinLossCounts
from hushrank.flows.release.public_pairs import require_noisy
from hushrank.flows.release.released import Figure, ReleasedRecord


class ReleasedWinLoss(ReleasedRecord):
    """The noisy numbers of comparisons that each item won and lost.

    Attributes:
        row_weight: what one comparison adds: 1, or 2 if ties were split into two halves; where rows
            have weights, a thousand times that for one of weight 1.
        wins, losses: by item, in catalogue order.
    """

    shows = (Figure.SCORES,)
    kind: Literal["win-loss-counts"] = "win-loss-counts"
    row_weight: int = Field(ge=1)
    wins: dict[str, int]
    losses: dict[str, int]

    @classmethod
    def of(cls, counts: WinLossCounts, items: Sequence[str]) -> Self:
        """The record of noisy `counts`.

        Raises:
            ValueError: the counts are confidential, or have another number of items.
        """
        require_noisy(counts, items)
        wins, losses = (
            dict(zip(items, part.tolist(), strict=True)) for part in (counts.wins, counts.losses)
        )
        return cls(row_weight=counts.row_weight, wins=wins, losses=losses)

    def wins_by_item(self) -> dict[str, int | float] | None:
        """Comparisons won by each item, noise included."""
        return in_comparisons(self.wins, self.row_weight)


def in_comparisons(wins: Mapping[str, int | float], row_weight: int) -> dict[str, int | float]:
    """Wins as numbers of comparisons."""
    if row_weight == 1:
        return {**wins}
    return {item: won / row_weight for item, won in wins.items()}
