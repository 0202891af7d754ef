"""The released statistics of several families: counts, scores, sums and a list of names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from hushrank.estimation.common.matrices import PairCounts, WinCounts
from hushrank.estimation.rankings.ranking_counts import RankingCounts
from hushrank.estimation.responses.measurements import DifferentialMeasurements
from hushrank.estimation.responses.randomized_measurements import RandomizedMeasurements
from hushrank.flows.release.public_pairs import (
    MOST_MEASURED,
    among_items,
    require_noisy,
)
from hushrank.flows.release.released import Figure, Made, ReleasedRecord
from hushrank.flows.release.win_loss import in_comparisons

LARGEST_MEAN = 1e-6  # of released scores, which sum to zero but for rounding


class ReleasedCounts(ReleasedRecord):
    """The noisy win counts, from which all the rest is computed.

    Attributes:
        row_weight: what one win adds: 1, or 2 where ties were split into two halves; where rows
            have weights, a thousand times that for a win of weight 1.
        wins: by item, in catalogue order; whole numbers, but for what a night of a stream shows.
    """

    shows = (Figure.WIN_COUNTS,)
    kind: Literal["win-counts"] = "win-counts"
    row_weight: int = Field(ge=1)
    wins: dict[str, int | float]

    @classmethod
    def of(cls, counts: WinCounts, items: Sequence[str]) -> Self:
        """The record of noisy `counts`.

        Raises:
            ValueError: they are confidential, or of another number of items.
        """
        require_noisy(counts, items)
        wins = dict(zip(items, counts.wins.tolist(), strict=True))
        return cls(row_weight=counts.row_weight, wins=wins)

    def wins_by_item(self) -> dict[str, int | float] | None:
        """Comparisons won by each item, noise included; None where the release has no such."""
        return in_comparisons(self.wins, self.row_weight)


class ReleasedPairs(ReleasedRecord):
    """The noisy matrix of wins, from which all the rest is computed.

    In `release.json` every row of the matrix is one line of integers: 2 000 items take 20 to 30 MB.

    Attributes:
        row_weight: what one win adds: 1, or 2 where ties were split into two halves; where rows
            have weights, a thousand times that for a win of weight 1.
        items: in catalogue order; rows and columns are in this order.
        wins: entry b of row a is how often a beat b, noise included; zero on the diagonal, where
            there is nothing to count. Whole numbers, but for what a night of a stream shows.
        asked: row i holds the items j > i that people were asked to compare with i, which is
            public; `wins` of other pairs are zero. Null: all pairs were, or nobody says.
    """

    shows = (
        Figure.SCORES,
        Figure.WINS,
    )
    tells_rates = True
    kind: Literal["pair-counts"] = "pair-counts"
    row_weight: int = Field(ge=1)
    items: tuple[str, ...]
    wins: tuple[tuple[int | float, ...], ...]
    asked: tuple[tuple[int, ...], ...] | None = None

    @classmethod
    def of(
        cls, counts: PairCounts, items: Sequence[str], asked: NDArray[np.bool_] | None = None
    ) -> Self:
        """The record of noisy `counts`, of all pairs or of those `asked` about, shape (n, n).

        Raises:
            ValueError: they are confidential, or of another number of items.
        """
        require_noisy(counts, items)
        return cls.model_construct(  # checked above: millions of entries are not checked again
            row_weight=counts.row_weight,
            items=tuple(items),
            wins=tuple(map(tuple, counts.dense().tolist())),
            asked=None
            if asked is None
            else tuple(tuple(np.flatnonzero(row).tolist()) for row in np.triu(asked)),
        )

    def among(self, items: Sequence[str]) -> NDArray[np.float64]:
        """Noisy wins of some items over each other, in comparisons."""
        return among_items(self.wins, self.items, items) / self.row_weight

    def wins_by_item(self) -> dict[str, int | float] | None:
        """Comparisons won by each item: the sums of the rows, noise included."""
        totals = dict(zip(self.items, map(sum, self.wins), strict=True))
        return in_comparisons(totals, self.row_weight)


class ReleasedScores(ReleasedRecord):
    """Scores that were drawn with noise; nothing else leaves the protected side.

    Attributes:
        scores: by item, in catalogue order; they sum to zero.
        exposures: comparisons in which each item took part, with noise of their own, or as the
            job's public file says; null where the method does not look at them.
    """

    shows = (Figure.SCORES,)
    made = Made.FITTED
    kind: Literal["scores"] = "scores"
    scores: dict[str, float]
    exposures: dict[str, float] | None = None

    @classmethod
    def of(
        cls,
        scores: NDArray[Any],
        items: Sequence[str],
        exposures: NDArray[np.float64] | None = None,
    ) -> Self:
        """The record of drawn `scores`, shape (n,), and of `exposures`, likewise.

        Raises:
            ValueError: these are no scores: integers (counts are), not finite, or of a sum other
                than zero.
        """
        if scores.dtype != np.float64 or scores.ndim != 1 or not np.isfinite(scores).all():
            raise ValueError("released scores must be a 1-d array of finite real numbers")
        if abs(float(scores.mean())) > LARGEST_MEAN * max(1.0, float(np.abs(scores).max())):
            raise ValueError("released scores must sum to zero")
        named = None
        if exposures is not None:
            named = dict(zip(items, exposures.tolist(), strict=True))
        return cls(scores=dict(zip(items, scores.tolist(), strict=True)), exposures=named)

    @property
    def assumes_exposures(self) -> bool:
        """True where no numbers of comparisons stand beside the scores."""
        return self.exposures is None


class ReleasedList(ReleasedRecord):
    """The names of the best items; nothing else leaves the protected side.

    Attributes:
        items: best first.
    """

    made = Made.LISTED
    kind: Literal["top-list"] = "top-list"
    items: tuple[str, ...] = Field(min_length=1)

    @property
    def best(self) -> tuple[str, ...]:
        """All that is released."""
        return self.items


class ReleasedMeasurements(ReleasedRecord):
    """Noisy counts of people right on one item and wrong on another, on the pairs of a graph.

    In `release.json` every row of the matrix is one line of integers, as in `ReleasedPairs`.

    Attributes:
        items: in catalogue order; rows and columns are in this order.
        pairs: row i holds the items j > i that are compared with i; null: every pair is.
        right_wrong: entry j of row i counts who was right on i and wrong on j, noise included; zero
            for pairs that are not compared. Null for more than `MOST_MEASURED` items.
    """

    shows = (Figure.ITEM_MAP,)
    kind: Literal["right-wrong-counts"] = "right-wrong-counts"
    items: tuple[str, ...]
    pairs: tuple[tuple[int, ...], ...] | None
    right_wrong: tuple[tuple[int, ...], ...] | None

    @classmethod
    def of(cls, measurements: DifferentialMeasurements, items: Sequence[str]) -> Self:
        """The record of noisy `measurements`.

        Raises:
            ValueError: they are confidential, or of another number of items.
        """
        require_noisy(measurements, items)
        low, high = measurements.graph.edges.T
        later = np.split(high, np.searchsorted(low, np.arange(1, len(items))))
        return cls.model_construct(  # checked above: millions of entries are not checked again
            items=tuple(items),
            pairs=None
            if measurements.graph.complete
            else tuple(tuple(row.tolist()) for row in later),
            right_wrong=tuple(map(tuple, measurements.y.tolist()))
            if len(items) <= MOST_MEASURED
            else None,
        )


class ReleasedRandomized(ReleasedRecord):
    """Sums of randomised test answers.

    Attributes:
        items: in catalogue order; rows and columns are in this order.
        epsilon: of a person, split over their answers.
        people: entry k counts the people with k answers, which randomised response does not hide.
        sums: entry j of row i estimates who was right on i and wrong on j, in units of 2^-30.
    """

    shows = (Figure.ITEM_MAP,)
    kind: Literal["randomised-answers"] = "randomised-answers"
    items: tuple[str, ...]
    epsilon: float
    people: tuple[int, ...]
    sums: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, measurements: RandomizedMeasurements, items: Sequence[str]) -> Self:
        """The record of `measurements`, which are private from the start.

        Raises:
            ValueError: they are of another number of items.
        """
        if len(items) != measurements.n_items:
            raise ValueError(f"got {len(items)} items, but sums of {measurements.n_items}")
        return cls(
            items=tuple(items),
            epsilon=measurements.response.epsilon,
            people=tuple(measurements.people.tolist()),
            sums=tuple(map(tuple, measurements.sums.tolist())),
        )


class ReleasedRankings(ReleasedRecord):
    """Counts of private rankings, from which all the rest is computed.

    Attributes:
        items: in catalogue order; rows and columns are in this order.
        rankings: entry k is how many rankings had k items, which no mechanism hides.
        wins: entry b of row a counts the private rankings with a above b.
        places: entry p of row a counts the private rankings with a at place p, 0 = best.
        moments: entry b of row a sums, over private rankings, the product of the two items' nets:
            items below less items above.
        by_place: a row for each pair of places of each length of list (`ranking_counts`), with the
            matrix of the pairs of items that stood there, row by row; null: not kept.
    """

    shows = (
        Figure.SCORES,
        Figure.ABOVE,
    )
    ballots = "private rankings"
    kind: Literal["private-rankings"] = "private-rankings"
    items: tuple[str, ...]
    rankings: tuple[int, ...]
    wins: tuple[tuple[int, ...], ...]
    places: tuple[tuple[int, ...], ...]
    moments: tuple[tuple[int, ...], ...]
    by_place: tuple[tuple[int, ...], ...] | None

    @classmethod
    def of(cls, counts: RankingCounts, items: Sequence[str]) -> Self:
        """The record of `counts`, which are private since each ranking was.

        Raises:
            ValueError: they are of another number of items.
        """
        if len(items) != counts.n_items:
            raise ValueError(f"got {len(items)} items, but counts of {counts.n_items}")
        by_place = counts.by_place
        return cls.model_construct(  # checked above: millions of entries are not checked again
            items=tuple(items),
            rankings=tuple(counts.lengths.tolist()),
            wins=tuple(map(tuple, counts.wins.tolist())),
            places=tuple(map(tuple, counts.places.tolist())),
            moments=tuple(map(tuple, counts.moments.tolist())),
            by_place=None
            if by_place is None
            else tuple(map(tuple, by_place.reshape(len(by_place), -1).tolist())),
        )

    def among(self, items: Sequence[str]) -> NDArray[np.float64]:
        """Private rankings with the row's item above the column's, of some items."""
        return among_items(self.wins, self.items, items)
