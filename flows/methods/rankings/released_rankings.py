"""Records of what is released of private rankings: counts of them, or of their private answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.rankings.pair_answer_evidence import PairAnswerCounts, merge_answers
from hushrank.estimation.rankings.ranking_counts import RankingCounts, merge_counts
from hushrank.flows.release.released import Figure, ReleasedRecord, among_items
from hushrank.flows.statement.record import Record
from hushrank.transforms.common.randomisation import RankingLevels

Table = tuple[tuple[int, ...], ...]


class RankingsOfLevel(Record):
    """Counts of the private rankings of one level of epsilon.

    Attributes:
        epsilon: the level.
        rankings, wins, places, moments, by_place: as in `ReleasedRankings`.
    """

    epsilon: float
    rankings: tuple[int, ...]
    wins: Table
    places: Table
    moments: Table
    by_place: Table | None


class PairAnswersOfLevel(Record):
    """Sums of the private answers of the rankings of one level of epsilon.

    Attributes:
        epsilon: the level.
        pairs: how many pairs a ranking answers.
        rankings, wins, asked, squares, moments: as in `ReleasedPairAnswers`.
    """

    epsilon: float
    pairs: int
    rankings: tuple[int, ...]
    wins: Table
    asked: Table
    squares: Table
    moments: Table


class PairAnswersOfProfile(Record):
    """Sums of the private answers of the people with one combination of public features.

    Attributes:
        features: by name.
        rankings, wins, asked, squares, moments: as in `ReleasedPairAnswers`.
    """

    features: dict[str, float | str]
    rankings: tuple[int, ...]
    wins: Table
    asked: Table
    squares: Table
    moments: Table


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
        by_epsilon: the same of each level of epsilon that somebody chose; null: all rankings have
            one epsilon.
    """

    shows = (
        Figure.SCORES,
        Figure.ABOVE,
    )
    ballots = "private rankings"
    kind: Literal["private-rankings"] = "private-rankings"
    items: tuple[str, ...]
    rankings: tuple[int, ...]
    wins: Table
    places: Table
    moments: Table
    by_place: Table | None
    by_epsilon: tuple[RankingsOfLevel, ...] | None = None

    @classmethod
    def of(
        cls, counts: Sequence[RankingCounts], items: Sequence[str], levels: RankingLevels | None
    ) -> Self:
        """The record of `counts`, which are private since each ranking was.

        Args:
            counts: of each level, or of all rankings.
            items: names of the catalogue.
            levels: of epsilon; None: all rankings have one.

        Raises:
            ValueError: they are of another number of items.
        """
        whole = _of_all(merge_counts(counts), items)
        if levels is None:
            return cls.model_construct(**whole)
        return cls.model_construct(
            **{**whole, "by_place": None},
            by_epsilon=tuple(
                RankingsOfLevel.model_construct(epsilon=epsilon, **_tables(part))
                for epsilon, part in zip(levels.levels, counts, strict=True)
                if part.rankings
            ),
        )

    def among(self, items: Sequence[str]) -> NDArray[np.float64]:
        """Private rankings with the row's item above the column's, of some items."""
        return among_items(self.wins, self.items, items)


class ReleasedPairAnswers(ReleasedRecord):
    """Sums of private answers to random pairs of rankings, from which all the rest is computed.

    An answer counts as often as its list has pairs for each answer of it (`pair_answer_counts`).

    Attributes:
        items: in catalogue order; rows and columns are in this order.
        rankings: entry k is how many rankings had k items; where that is hidden, entry 0 is all.
        wins: entry b of row a counts the private answers that put a above b.
        asked: entry b of row a counts the private answers about a and b, whatever they say.
        squares: the same of squared counts of an answer.
        moments: entry b of row a sums, over rankings, the product of the two items' nets: answers
            for the item less answers against it.
        by_epsilon: the same of each level of epsilon that somebody chose; null: all rankings have
            one epsilon.
        by_profile: the same of each combination of public features of people that somebody has;
            null: the job names no such features.
    """

    shows = (
        Figure.SCORES,
        Figure.ABOVE,
    )
    ballots = "private answers"
    kind: Literal["private-pairs"] = "private-pairs"
    items: tuple[str, ...]
    rankings: tuple[int, ...]
    wins: Table
    asked: Table
    squares: Table
    moments: Table
    by_epsilon: tuple[PairAnswersOfLevel, ...] | None = None
    by_profile: tuple[PairAnswersOfProfile, ...] | None = None

    @classmethod
    def of(
        cls, counts: Sequence[PairAnswerCounts], items: Sequence[str], levels: RankingLevels | None
    ) -> Self:
        """The record of `counts`, which are private since each answer was.

        Args:
            counts: of each level, or of all rankings.
            items: names of the catalogue.
            levels: of epsilon; None: all rankings have one.

        Raises:
            ValueError: they are of another number of items.
        """
        whole = _of_all(merge_answers(counts), items)
        if levels is None:
            return cls.model_construct(**whole)
        each = zip(levels.levels, levels.pairs, counts, strict=True)
        return cls.model_construct(
            **whole,
            by_epsilon=tuple(
                PairAnswersOfLevel.model_construct(
                    epsilon=epsilon, pairs=law.pairs, **_tables(part)
                )
                for epsilon, law, part in each
                if part.rankings
            ),
        )

    @classmethod
    def of_profiles(
        cls,
        counts: Sequence[PairAnswerCounts],
        items: Sequence[str],
        features: Sequence[dict[str, float | str]],
    ) -> Self:
        """The record of `counts` of each profile, and of its `features`, which are public.

        Raises:
            ValueError: they are of another number of items.
        """
        return cls.model_construct(
            **_of_all(merge_answers(counts), items),
            by_profile=tuple(
                PairAnswersOfProfile.model_construct(features=own, **_tables(part))
                for own, part in zip(features, counts, strict=True)
                if part.rankings
            ),
        )

    def among(self, items: Sequence[str]) -> NDArray[np.float64]:
        """Private answers with the row's item above the column's, of some items."""
        return among_items(self.wins, self.items, items)


def _of_all(whole: RankingCounts | PairAnswerCounts, items: Sequence[str]) -> dict[str, Any]:
    """Fields of a record, from the counts of all rankings; they need no check by the record.

    Raises:
        ValueError: the counts are of another number of items.
    """
    if len(items) != whole.n_items:
        raise ValueError(f"got {len(items)} items, but counts of {whole.n_items}")
    return {"items": tuple(items), **_tables(whole)}  # may hold millions of entries


def _tables(counts: RankingCounts | PairAnswerCounts) -> dict[str, Any]:
    """Fields of a record, from counts by name."""
    found: dict[str, Any] = {} if isinstance(counts, PairAnswerCounts) else {"by_place": None}
    for name, array in counts.arrays().items():
        if name == "lengths":
            found["rankings"] = tuple(array.tolist())
        else:
            found[name] = tuple(map(tuple, array.reshape(len(array), -1).tolist()))
    return found
