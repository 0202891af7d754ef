"""How much oftener the item that is shown first wins, and how people differ in that.

The model is [XSC] §S.1.2: person l prefers i, shown first, to j with probability
F(gamma_l + score_i - score_j). Of an answer let a be its pull and w = a t its weight (see
`weighted_pairs`), and u = a if its randomised answer says that the first item won, else -a. Then
E u = w m with m = 2 P(the first one won) - 1, whatever the noise. If a coin decides for each answer
which item is first, the scores cancel in m, and what is left is a person's readiness to take the
first one: for log odds gamma and a pair d apart, m = F(gamma + d) + F(gamma - d) - 1. The flips of
two answers are independent, so with sums over one person's answers, and over pairs of different
answers,

    U = sum u,  V = sum w,  T = U^2 - sum u^2,  X = U V - sum u w,  D = V^2 - sum w^2,

E T = sum w w' m m' and E X = sum w w' m. Summed over people, U / V estimates the mean of m over
answers, and T / D - (X / D)^2 the variance of m between people, weighted by D. Neither needs scores
or a model of m. Errors: people fall into `PARTS` parts by a secret hash, and the sums of parts vary
as those of people do (a t law with `PARTS` - 1 degrees of freedom).

The coins may have fallen unevenly. What that adds to U is estimated from the shares of wins, and
widens the interval; where the counts of a pair say that no coin decided, nothing is estimated.

All sums are of answers that are private already. They show no answer, but they do show how many
answers people gave: D alone is the sum of squares of their numbers.

References:
    [XSC] Xu, Sun, Cheng. Rate-optimal rank aggregation with private pairwise rankings. §S.1.2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.common.links import Floats

PARTS = 20
SUMS = 5  # U, V, T, X, D
UNIT_BITS = 30  # U and V are in units of 2^-30
COARSE_BITS = 24  # the others are in units of 2^-24, rounded for each person
T_QUANTILE = 2.0930240544083087  # of the t law with 19 degrees of freedom, 97.5 %
FAR = 4.0  # standard deviations
MOST = 2.0**62  # no sum may come near the end of 64 bits

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class OrderSums:
    """What is kept of the order of presentation.

    Attributes:
        parts: shape (PARTS, SUMS), U and V in units of 2^-30, T, X and D in units of 2^-24.
        shown: shape (n, n), answers in which the item of the row was shown before the other one.
    """

    parts: Integers
    shown: Integers

    @classmethod
    def of_row(cls, row: Integers, n_items: int) -> OrderSums:
        """Rebuild the sums from `row`."""
        size = PARTS * SUMS
        return cls(row[:size].reshape(PARTS, SUMS), row[size:].reshape(n_items, n_items))

    @property
    def row(self) -> Integers:
        """All numbers, one after the other."""
        return np.concatenate([self.parts.ravel(), self.shown.ravel()])


def length_of(n_items: int) -> int:
    """Number of integers in `OrderSums.row`."""
    return PARTS * SUMS + n_items * n_items


def added(one: Integers, other: Integers) -> Integers:
    """Sum of two rows.

    Raises:
        OverflowError: a sum does not fit into 64 bits.
    """
    if (np.abs(one.astype(np.float64) + other) > MOST).any():
        raise OverflowError("people have too many answers for 64-bit sums")
    return one + other


@dataclass(frozen=True, slots=True)
class PresentedAnswers:
    """Private answers, all that each person gave; arrays of shape (m,), sorted by person.

    Attributes:
        person: numbers of the people, ascending from 0 without a gap.
        part: part of the person, below `PARTS`.
        first, second: codes of the item shown first and of the other.
        u, w: pull and weight in units of 2^-30, whole numbers.
    """

    person: Integers
    part: Integers
    first: Integers
    second: Integers
    u: Floats
    w: Floats

    def sums(self, n_items: int) -> OrderSums:
        """The sums of these people, the same bits in any order of the answers.

        Raises:
            OverflowError: a sum does not fit into 64 bits.
        """
        parts = np.zeros((PARTS, SUMS), np.int64)
        cells = np.bincount(self.first * n_items + self.second, minlength=n_items * n_items)
        shown = cells.reshape(n_items, n_items).astype(np.int64)
        if not len(self.person):
            return OrderSums(parts, shown)
        n_people, unit = int(self.person[-1]) + 1, 2.0**UNIT_BITS
        U, V = (np.bincount(self.person, each, n_people) for each in (self.u, self.w))
        own = [np.rint(one * other / unit) for one, other in self._squares()]
        uu, uw, ww = (np.bincount(self.person, each, n_people) for each in own)
        coarse = 2.0 ** (UNIT_BITS - COARSE_BITS)
        T, X, D = (
            np.rint((all_of_it - mine) / coarse)
            for all_of_it, mine in ((U * U / unit, uu), (U * V / unit, uw), (V * V / unit, ww))
        )
        of_people = np.stack([U, V, T, X, D], axis=1)
        if np.abs(of_people).sum(axis=0).max() > MOST:
            raise OverflowError("people have too many answers for 64-bit sums")
        starts = np.flatnonzero(np.append(True, self.person[1:] != self.person[:-1]))
        np.add.at(parts, self.part[starts], of_people.astype(np.int64))
        return OrderSums(parts, shown)

    def _squares(self) -> tuple[tuple[Floats, Floats], ...]:
        return (self.u, self.u), (self.u, self.w), (self.w, self.w)


@dataclass(frozen=True, slots=True)
class OrderEffect:
    """Shares are of answers, from 0 to 1.

    Attributes:
        unbalanced: pairs of which one item was shown first more often than a coin explains, by more
            than 4 standard deviations.
        share: share of answers in which the item shown first won; None, as all below, if a pair is
            unbalanced, or a part has nobody with two answers.
        low, high: its 95 % interval.
        spread: standard deviation of that share between people; 0 where no spread is seen.
        spread_low, spread_high: its 95 % interval.
    """

    unbalanced: int
    share: float | None = None
    low: float | None = None
    high: float | None = None
    spread: float | None = None
    spread_low: float | None = None
    spread_high: float | None = None


def order_effect(sums: OrderSums, s: Floats, w: Floats) -> OrderEffect:
    """Estimate the effect of the order of presentation.

    Args:
        sums: sums of all people.
        s, w: S and W of the pairs i < j, in any one unit, shape (n, n).
    """
    ahead = np.triu(sums.shown - sums.shown.T, 1)
    both = np.triu(sums.shown + sums.shown.T, 1)
    unbalanced = int((np.abs(ahead) > FAR * np.sqrt(both)).sum())
    U, V, T, X, D = sums.parts.T.astype(np.float64)
    if unbalanced or not (D > 0).all():
        return OrderEffect(unbalanced)
    mean = U.sum() / V.sum()
    reach = _reach(U - mean * V) / V.sum()
    uneven = ahead * np.clip(
        np.divide(s, w, out=np.full(s.shape, 0.5), where=w > 0) - 0.5, -0.5, 0.5
    )
    reach += 2 * abs(float(uneven.sum())) / float(both.sum())
    of_people = X.sum() / D.sum()
    variance = T.sum() / D.sum() - of_people**2
    error = _reach(T - 2 * of_people * X - (variance - of_people**2) * D) / D.sum()
    ends = (variance, variance - error, max(variance, 0.0) + error)
    spread = [math.sqrt(min(max(each, 0.0), 1.0)) / 2 for each in ends]
    share = [min(max((1 + each) / 2, 0.0), 1.0) for each in (mean, mean - reach, mean + reach)]
    return OrderEffect(0, *share, *spread)


def _reach(residuals: Floats) -> float:
    """What a sum of parts is off by at most, with 95 %."""
    return T_QUANTILE * math.sqrt(PARTS / (PARTS - 1) * float(np.square(residuals).sum()))
