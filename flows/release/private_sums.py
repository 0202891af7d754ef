"""Sums of privatised answers as they are published, and which epsilons people chose.

Of comparisons, and of rankings by random pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Literal, Self

import numpy as np
import scipy

from hushrank.estimation.fit.alike import least_attenuation
from hushrank.estimation.fit.chosen_epsilons import EpsilonBins, shares, weight_of_lies
from hushrank.estimation.fit.presentation import OrderSums, order_effect
from hushrank.estimation.fit.weighted_pairs import UNITS, Chosen, WeightedPairs
from hushrank.flows.release.released import (
    MOST_MEASURED,
    Figure,
    ReleasedRecord,
    Rows,
    rows_of,
)
from hushrank.flows.statement.record import Record

MOST_SUMS = 1_000_000  # pairs whose sums are published where items are more: 30 MB


class ChosenEpsilons(Record):
    """Epsilons that people chose for their answers, in bins of equal width, and their effect.

    Attributes:
        low, high: the public range of epsilons.
        answers: number of answers with an epsilon in each bin.
        information: share of each bin in what its answers tell of the scores, the sum of a t.
        weight_of_lies: A: a share x of dishonest answers moves shares of wins by about A x at most.
    """

    low: float
    high: float
    answers: tuple[int, ...]
    information: tuple[float, ...]
    weight_of_lies: float

    @classmethod
    def of(cls, chosen: Chosen, bins: EpsilonBins, *, equal: bool = False) -> Self:
        """The record of counts by epsilon; there are answers.

        Args:
            chosen: the counts.
            bins: bins of the counts.
            equal: whether all answers count alike, whatever their epsilon.
        """
        return cls(
            low=bins.low,
            high=bins.high,
            answers=tuple(chosen[0].tolist()),
            information=tuple(shares(chosen)[1].tolist()),
            weight_of_lies=1 / least_attenuation(bins.low)
            if equal
            else weight_of_lies(chosen, bins),
        )


class AlikeSums(Record):
    """Sums of answers that people gave at their own epsilon, each weighed alike.

    With t of an answer, and b that of the smallest epsilon that the job accepts, the pull of an
    answer is a = b / t. All sums are in the form and unit of those of `ReleasedSums`.

    Attributes:
        s, w: sums of a (answer - p) and of a t = b.
        squares: sum of a^2, which tells the variance of s.
        squared_weights: sum of the squares of what each answer adds to w of `ReleasedSums`.
    """

    s: tuple[tuple[int, ...], ...]
    w: tuple[tuple[int, ...], ...]
    squares: tuple[tuple[int, ...], ...]
    squared_weights: tuple[tuple[int, ...], ...]


class Presentation(Record):
    """Effect of the order in which the two items of a pair were shown, where a coin decided it.

    Attributes:
        parts: for each of 20 parts of the people, U, V (in units of 2^-30), T, X and D (2^-24), as
            `hushrank.estimation.fit.presentation` derives them.
        shown: entry j of row i: answers in which item i was shown before item j.
        unbalanced: pairs of which one item was shown first more often than a coin explains, by more
            than 4 standard deviations.
        share: share of answers in which the item shown first won; null, as all below, if a pair is
            unbalanced, or if some part has nobody with two answers.
        low, high: its 95 % interval.
        spread: standard deviation of that share between people; 0 where none is seen.
        spread_low, spread_high: its 95 % interval.
    """

    parts: tuple[tuple[int, ...], ...]
    shown: tuple[tuple[int, ...], ...]
    unbalanced: int
    share: float | None
    low: float | None
    high: float | None
    spread: float | None
    spread_low: float | None
    spread_high: float | None

    @classmethod
    def of(cls, pairs: WeightedPairs) -> Self | None:
        """The record of the sums; None where nobody says who was shown first."""
        if not pairs.order.size:
            return None
        sums = OrderSums.of_row(pairs.order, pairs.n_items)
        effect = order_effect(sums, np.asarray(pairs.s), np.asarray(pairs.w))
        return cls(
            parts=tuple(map(tuple, sums.parts.tolist())),
            shown=tuple(map(tuple, sums.shown.tolist())),
            **asdict(effect),
        )

    def sentence(self) -> str:
        """What people read of it."""
        if self.unbalanced:
            return (
                f"In {self.unbalanced} pairs one item was shown first more often than a coin"
                " explains. If people prefer the first item, scores favour those items, and how"
                " much people prefer it cannot be told."
            )
        if self.share is None:
            return "Too few people gave two answers to tell whether people prefer the first item."
        return (
            f"The item shown first won {_percent(self.share)} % of answers (95 % interval"
            f" {_percent(self.low)} to {_percent(self.high)} %). Between people this share has a"
            f" standard deviation of {_percent(self.spread)} percentage points (95 % interval"
            f" {_percent(self.spread_low)} to {_percent(self.spread_high)})."
        )


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.1f}"


class ReleasedSums(ReleasedRecord):
    """Sums of privatised answers, from which all the rest is computed.

    An answer is 1 where the item of the row won. For `debiased-rr`, with t = tanh(epsilon / 2) and
    p the chance of a flip of each answer's epsilon, s sums t (answer - p) and w sums t^2 over the
    privatised answers to a pair; for other methods s sums these answers and w counts them.

    Attributes:
        items: in catalogue order; rows and columns are in this order.
        pairs: row i holds the items j > i that were compared with i; null: rows of s and w are
            whole, one entry an item. Given for more than `MOST_MEASURED` items.
        unit: worth of 1 in the sums.
        s, w: sums of each pair in row i of `pairs`; or entry j > i of row i, zero elsewhere. Null,
            as `pairs` is then, for more than `MOST_SUMS` pairs.
        g: sum of t^2 over people, in units; 0 where it was not counted.
        chosen: epsilons that people chose; null where all answers have one, or it is not counted.
        alike: sums that count all of these answers alike; null likewise.
        presentation: effect of the order in which items were shown; null where no column tells it.
    """

    shows = (
        Figure.SCORES,
        Figure.CHOSEN,
    )
    kind: Literal["private-sums"] = "private-sums"
    items: tuple[str, ...]
    unit: float
    pairs: tuple[tuple[int, ...], ...] | None = None
    s: tuple[tuple[int, ...], ...] | None
    w: tuple[tuple[int, ...], ...] | None
    g: int
    chosen: ChosenEpsilons | None = None
    alike: AlikeSums | None = None
    presentation: Presentation | None = None

    def order_sentence(self) -> str:
        """The effect of the order of presentation in words; empty: no column tells it."""
        return "" if self.presentation is None else self.presentation.sentence()

    @classmethod
    def of(
        cls,
        pairs: WeightedPairs,
        items: Sequence[str],
        bins: EpsilonBins | None = None,
        *,
        equal: bool = False,
    ) -> Self:
        """The record of sums, which are private since each answer was.

        Args:
            pairs: the sums.
            items: the catalogue.
            bins: bins of the epsilons that `pairs` counts.
            equal: whether scores count all answers alike, whatever their epsilon.

        Raises:
            ValueError: the sums have another number of items.
        """
        if len(items) != pairs.n_items:
            raise ValueError(f"got {len(items)} items, but sums of {pairs.n_items}")
        met, sums = _rows_of_sums(pairs)
        s, w, *alike = sums or (None, None)
        chosen, measured = None, None
        if bins is not None and pairs.chosen.any():
            chosen = ChosenEpsilons.of(pairs.chosen, bins, equal=equal)
        if alike:
            own, weights, squares, squared = alike
            measured = AlikeSums.model_construct(
                s=own, w=weights, squares=squares, squared_weights=squared
            )
        return cls.model_construct(  # checked above: millions of entries are not checked again
            items=tuple(items),
            unit=1 / UNITS,
            pairs=met,
            s=s,
            w=w,
            g=pairs.g,
            chosen=chosen,
            alike=measured,
            presentation=Presentation.of(pairs),
        )


def _rows_of_sums(pairs: WeightedPairs) -> tuple[Rows | None, list[Rows] | None]:
    """Return `pairs` of `ReleasedSums`, and s, w and the sums alike as rows; None: too many."""
    sums = [np.asarray(each) for each in pairs.entries()]
    if pairs.n_items <= MOST_MEASURED and not pairs.sparse:
        return None, [tuple(map(tuple, each.tolist())) for each in sums]
    if len(pairs.met()) > MOST_SUMS:
        return None, None
    places = scipy.sparse.csr_array(pairs.w)
    if not pairs.sparse:
        sums = [each[places.nonzero()] for each in sums]
    met, *listed = (rows_of(each, places.indptr) for each in (places.indices, *sums))
    return met, listed
