"""What a release says is sure about all items at once, and how probable ranks are.

All of it is computed from the released statistics, and from one relation: which items are surely
better than which (`estimation.common.uncertainty.AllAtOnce`). A release holds the relation as text,
one line for each item: `3..7 9` are lines of the ranking, counted from 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from hushrank.estimation.common.chances import RankChances, rank_chances
from hushrank.estimation.common.estimate import Estimate
from hushrank.flows.release.scale import Scale, published
from hushrank.flows.statement.record import Record

MANY = 30  # from so many items on, the best few are more than FEW_TOP
FEW_TOP, MANY_TOP = 3, 10
CHANCE_DECIMALS = 4
TO = ".."
MOST_LISTED = 300  # items whose covariance is published: a file of 1 MB
DIGITS = 6  # of a variance or covariance


class ReleasedErrors(Record):
    """How far the scores may be off, in the unit of the ranking; computed from what was drawn.

    Attributes:
        centre: what each score would be without being drawn towards the others, in the order of
            the ranking.
        covariance: of the errors of `centre`, line by line up to the diagonal, since it is
            symmetric. Errors that are taken as independent have zeros beside the diagonal.
    """

    centre: tuple[float, ...] = Field(min_length=2)
    covariance: tuple[tuple[float, ...], ...] = Field(min_length=2)

    @classmethod
    def of(cls, estimate: Estimate, scale: Scale) -> Self | None:
        """The errors of an estimate on a scale; None if not known or of too many items."""
        errors, order = estimate.errors, estimate.order
        if errors is None or not estimate.informative or len(order) > MOST_LISTED:
            return None
        whole = errors.covariance if errors.covariance.ndim == 2 else np.diag(errors.covariance)
        if not (np.isfinite(whole).all() and np.isfinite(errors.centre).all()):
            return None
        rows = whole[order][:, order]
        lower = (row[: position + 1] for position, row in enumerate(rows))
        zero = published(scale, 0.0)
        found = cls(
            centre=tuple(errors.centre[order].tolist()),
            covariance=tuple(tuple(float(f"{each:.{DIGITS}g}") for each in row) for row in lower),
        )
        return found.moved(zero, published(scale, 1.0) - zero)

    def moved(self, origin: float, unit: float) -> Self:
        """The errors of scores that are `origin` more than `unit` times these."""
        rows = (tuple(float(f"{unit**2 * x:.{DIGITS}g}") for x in row) for row in self.covariance)
        centre = (origin + unit * each for each in self.centre)
        return self.model_copy(update={"centre": tuple(centre), "covariance": tuple(rows)})


def chances_of(estimate: Estimate, n_top: int | None) -> RankChances | None:
    """Chances of ranks; None if the estimate does not say how far it may be off.

    Args:
        estimate: an estimate for at least 2 items.
        n_top: how many items are the best few; None: 3, or 10 of 30 items or more, but never all.
    """
    if estimate.errors is None or not estimate.informative:
        return None
    return rank_chances(estimate.errors, number_of_best(estimate.n_items, n_top))


def number_of_best(n_items: int, n_top: int | None) -> int:
    """How many items are the best few; for the arguments see `chances_of`."""
    few = min(FEW_TOP if n_items < MANY else MANY_TOP, n_items - 1)
    return few if n_top is None else n_top


def surely_above(better: NDArray[np.bool_], order: NDArray[np.intp]) -> list[str]:
    """For each item in catalogue order, the lines of the ranking that it is surely better than.

    Args:
        better: shape (n, n), in catalogue order.
        order: shape (n,), items from best to worst.
    """
    return [_ranges(np.flatnonzero(row[order]) + 1) for row in better]


def _ranges(lines: NDArray[np.intp]) -> str:
    """`3..7 9` of ascending numbers."""
    runs = np.split(lines, np.flatnonzero(np.diff(lines) > 1) + 1)
    texts = (f"{run[0]}" if len(run) == 1 else f"{run[0]}{TO}{run[-1]}" for run in runs if len(run))
    return " ".join(texts)


def better_lines(texts: Sequence[str]) -> NDArray[np.bool_]:
    """Read the relation back, shape (n, n), in the order of the ranking.

    Raises:
        ValueError: a text does not consist of ranges of lines.
    """
    better = np.zeros((len(texts), len(texts)), np.bool_)
    for row, text in zip(better, texts, strict=True):
        for run in text.split():
            first, _, last = run.partition(TO)
            row[int(first) - 1 : int(last or first)] = True
    return better
