"""Sums of privatised answers as they are published, and which epsilons people chose.

Of comparisons, and of rankings by random pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Self

import numpy as np
import scipy

from hushrank.estimation.fit.chosen_epsilons import EpsilonBins, shares, weight_of_lies
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
        information: share of each bin in what is known about the scores.
        weight_of_lies: A: a share x of dishonest answers moves shares of wins by about A x at most.
    """

    low: float
    high: float
    answers: tuple[int, ...]
    information: tuple[float, ...]
    weight_of_lies: float

    @classmethod
    def of(cls, chosen: Chosen, bins: EpsilonBins) -> Self:
        """The record of counts by epsilon; there are answers."""
        return cls(
            low=bins.low,
            high=bins.high,
            answers=tuple(chosen[0].tolist()),
            information=tuple(shares(chosen)[1].tolist()),
            weight_of_lies=weight_of_lies(chosen, bins),
        )


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
        s, w: of each pair in row i of `pairs`; or entry j > i of row i, zero elsewhere. Null, as
            `pairs` is then, for more than `MOST_SUMS` pairs.
        g: sum of t^2 over people, in units; 0 where it was not counted.
        chosen: epsilons that people chose; null where all answers have one, or it is not counted.
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

    @classmethod
    def of(
        cls, pairs: WeightedPairs, items: Sequence[str], bins: EpsilonBins | None = None
    ) -> Self:
        """The record of sums, which are private since each answer was.

        Args:
            pairs: the sums.
            items: the catalogue.
            bins: bins of the epsilons that `pairs` counts.

        Raises:
            ValueError: the sums have another number of items.
        """
        if len(items) != pairs.n_items:
            raise ValueError(f"got {len(items)} items, but sums of {pairs.n_items}")
        met, s, w = _rows_of_sums(pairs)
        return cls.model_construct(  # checked above: millions of entries are not checked again
            items=tuple(items),
            unit=1 / UNITS,
            pairs=met,
            s=s,
            w=w,
            g=pairs.g,
            chosen=ChosenEpsilons.of(pairs.chosen, bins) if bins and pairs.chosen.any() else None,
        )


def _rows_of_sums(pairs: WeightedPairs) -> tuple[Rows | None, Rows | None, Rows | None]:
    """Return the `pairs`, `s` and `w` that `ReleasedSums` shows."""
    s, w = pairs.s, pairs.w
    if pairs.n_items <= MOST_MEASURED and not (
        isinstance(s, scipy.sparse.csr_array) or isinstance(w, scipy.sparse.csr_array)
    ):
        return None, tuple(map(tuple, s.tolist())), tuple(map(tuple, w.tolist()))
    if len(pairs.met()) > MOST_SUMS:
        return None, None, None
    places = scipy.sparse.csr_array(w)
    of_s = s.data if isinstance(s, scipy.sparse.csr_array) else s[places.nonzero()]
    columns = (places.indices, np.asarray(of_s), np.asarray(places.data))
    met, listed_s, listed_w = (rows_of(each, places.indptr) for each in columns)
    return met, listed_s, listed_w
