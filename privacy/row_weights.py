"""Rows that count with weights: those of people with many rows, and those of a survey's design.

A row adds w to its winner's count (and to other cells, as the statistic has it), w in integer units
of 1 / `UNITS`, and times `row_weight` where ties are split. Two things make a weight, each alone or
both:

*Survey weights* (`max_weight` W): w is a public column, rounded and clipped to [0, W]. Of one unit
let u(w) be what its rows add. Both norms of u(w), and of u(w) - v(w'), are convex in each weight,
so they are largest where every weight is 0 or W; a row of weight 0 is a row that is left out. So
each sensitivity is that of unweighted rows times W (squared: times W^2). Exact where that is.

*Heavy users* (`bounding: weights`, [EMMV20]): all m rows of a person count, on distinct pairs, each
with the factor

    f(m) = min(1, sqrt(Q(L) / Q(m))),

in place of L of them with factor 1. Q(m) is the largest squared l2 norm of what m rows of weight 1
on distinct pairs add: on the matrix of wins Q(m) = m, so f(m) = min(1, sqrt(L / m)); on wins by
item, where one item can win several pairs, `win_counts_sensitivity` has Q. By convexity rows of
weights in [0, W f(m)] add at most W^2 f(m)^2 Q(m) <= W^2 Q(L): the squared l2 sensitivity of L rows
that are left as they are, for every m. So a person added moves the statistic by l2^2 <= W^2 Q(L);
and replaced by at most 2 W^2 Q(L), as u and v have no negative entries. Both are attained on the
matrix of wins, by L rows of weight W that are turned round. (Where several items must win in both
u and v, as with more rows than half the items can win, 2 Q(L) is above the exact sensitivity of
unweighted wins; the weights pay that.) The l1 norm grows with m, so no Laplace noise.

Weights are rounded down: f(m) to a multiple of 2^-`FACTOR_BITS`, in exact integers, and then its
product with the row's units. `per_item_cap` leaves rows out before m is counted, which makes
m smaller and breaks nothing.

*The sum of squares.* If rows are independent, a count has mean proportional to sum w and variance
to sum w^2, so it is a Poisson variable only in units of sum w^2 / sum w ([K65]; 1 without weights).
So sum w^2 over all rows is released as well, divided by a public K and rounded down, as one more
entry of the vector that gets noise. Of one unit it is at most S: L W^2 without `bounding: weights`,
and W^2 Q(L) with it, as w >= 0 makes the sum of squares of the rows at most that of the cells. The
entry moves by at most ceil(S / K) under either adjacency, whatever the others do; K is so large
that this adds at most 1 / `SHARE` to the squared l2 sensitivity, or to l1 with Laplace noise.

*For nothing*, where a person is replaced, the norms of both bundles add up in the sensitivity of
the counts (`norms_add_up`), and weights are those of a survey or the counts the matrix of wins. A
bundle whose squares are below the most adds less to the counts, too, and the entry moves by what
the squares of u and v differ, d at most. Let R be the most rows, W in units, S = R W^2, and S_u the
sum of squares of u.

    Squared l2 norm: |u|^2 <= Q - (S - S_u), where Q is that of a bundle in the sensitivity. For
    |u|^2 - S_u is the sum of products of two rows in one cell (and S_u once more, if rows are in
    two cells): it falls if a weight does. And Q grows by W^2 at least with each further row.
    On distinct pairs of the matrix |u|^2 = S_u <= Q = S, whatever the weights. So |u - v|^2 <=
    2 Q - d, and ceil(d / K)^2 <= d for all d <= S if K >= 2 sqrt(S): it is 1 for d <= K, and at
    most (2 d / K)^2 else.

    l1 norm: |u|_1 falls by at least W - w for each weight w (0 of a row that is left out), and S_u
    by W^2 - w^2 <= 2 W (W - w). So for K = 2 W the whole numbers W - w of u and v add up to
    ceil(d / K) at least.

There K is the smaller of both, and the squares are finer at no cost. With `row_weight` the counts
fall by more, and the squares do not.

References:
    [EMMV20] Epasto, Mahdian, Mao, Mirrokni, Ren. Smoothly bounding user contributions in
        differential privacy. NeurIPS 2020.
    [K65] Kish. Survey sampling. 1965. Chapter 11.7.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from hushrank.privacy.sensitivity import (
    Sensitivity,
    pair_counts_sensitivity,
    win_counts_sensitivity,
    win_loss_sensitivity,
)
from hushrank.privacy.units import Adjacency, Bounding, NoiseKind, PrivacyParams, Unit

FACTOR_BITS = 20
SHARE = 100  # 1 / this of a sensitivity is for the sum of squares

Units = NDArray[np.int64]


class Counted(StrEnum):
    """Counts that rows add to."""

    WINS = "wins"  # wins of each item
    PAIRS = "pairs"  # the matrix of wins
    WIN_LOSS = "win-loss"  # wins and losses of each item


_SENSITIVITY = {
    Counted.WINS: win_counts_sensitivity,
    Counted.PAIRS: pair_counts_sensitivity,
    Counted.WIN_LOSS: win_loss_sensitivity,
}


@dataclass(frozen=True, slots=True)
class RowFactors:
    """f(m), by which all rows of a person with m rows are multiplied.

    Attributes:
        params: parameters with `bounding: weights`.
        counted: counts that the rows add to.
        n_items: size of the public catalogue.
    """

    params: PrivacyParams
    counted: Counted
    n_items: int

    def of(self, rows: Units) -> Units:
        """f for each number of rows m, in units of 2^-`FACTOR_BITS`, rounded down."""
        distinct, places = np.unique(rows, return_inverse=True)
        found = [_factor(self, each) for each in distinct.tolist()]
        return np.array(found, np.int64)[places]


@lru_cache(maxsize=1 << 16)
def _factor(factors: RowFactors, rows: int) -> int:
    most = factors.params.max_contributions
    if rows <= most:
        return 1 << FACTOR_BITS
    bundle, larger = (
        _squares(factors.params, factors.counted, factors.n_items, each) for each in (most, rows)
    )
    return math.isqrt((bundle << 2 * FACTOR_BITS) // larger)


def _squares(params: PrivacyParams, counted: Counted, n_items: int, rows: int) -> int:
    """Q: largest squared l2 norm of what at most so many rows of weight 1 add."""
    plain = replace(_plain(params), adjacency=Adjacency.ADD_REMOVE, max_contributions=rows)
    return _SENSITIVITY[counted](plain, n_items).l2_squared


def _plain(params: PrivacyParams) -> PrivacyParams:
    """Bounds for rows without weights."""
    return replace(params, bounding=Bounding.LEAVE_OUT, max_weight=None)


@dataclass(frozen=True, slots=True)
class WeightedSensitivity:
    """Sensitivity of counts of weighted rows, and of their sum of squares.

    Attributes:
        counts: sensitivity of the counts alone.
        whole: sensitivity of counts and sum together, as one vector.
        divisor: K, of the sum of squares.
    """

    counts: Sensitivity
    whole: Sensitivity
    divisor: int


def weighted_sensitivity(
    params: PrivacyParams, counted: Counted, n_items: int, row_weight: int = 1
) -> WeightedSensitivity:
    """Sensitivity of weighted counts, in integer units; see the module for its derivation.

    Args:
        params: unit, adjacency and enforced bounds, with weights.
        counted: kind of counts.
        n_items: size of the public catalogue, n >= 2.
        row_weight: amount that one win of one unit adds to its count, >= 1.

    Raises:
        ValueError: rows have no weights, or a size is too small.
    """
    if not params.weighted:
        raise ValueError("rows have no weights")
    most = params.most_units
    counts = _of_counts(params, counted, n_items, row_weight).scaled(most)
    squares = _most_squares(params, counted, n_items) * most**2
    laplace = params.noise is NoiseKind.LAPLACE
    room = counts.l1 // SHARE if laplace else math.isqrt(counts.l2_squared // SHARE)
    divisor = -(-squares // room)
    free = 2 * most if laplace else 1 + math.isqrt(4 * squares - 1)
    if free <= divisor and norms_add_up(params, counted, n_items):
        return WeightedSensitivity(counts, counts, free)
    moves = -(-squares // divisor)
    whole = Sensitivity(counts.l1 + moves, counts.l2_squared + moves**2)
    return WeightedSensitivity(counts, whole, divisor)


def norms_add_up(params: PrivacyParams, counted: Counted, n_items: int) -> bool:
    """Whether a person is replaced, and counts move by both bundles' norms, so squares are free.

    Args:
        params: unit, adjacency and enforced bounds, with weights.
        counted: kind of counts.
        n_items: size of the public catalogue, n >= 2.
    """
    if params.bounding is Bounding.WEIGHTS and counted is not Counted.PAIRS:
        return False
    moved, added = (
        _SENSITIVITY[counted](replace(_plain(params), adjacency=adjacency), n_items)
        for adjacency in (params.adjacency, Adjacency.ADD_REMOVE)
    )
    if params.noise is NoiseKind.LAPLACE:
        return moved.l1 == 2 * added.l1
    return moved.l2_squared == 2 * added.l2_squared


def _of_counts(
    params: PrivacyParams, counted: Counted, n_items: int, row_weight: int
) -> Sensitivity:
    """Sensitivity of counts of rows that weigh 1 at most."""
    plain = _SENSITIVITY[counted](_plain(params), n_items, row_weight)
    if params.bounding is Bounding.LEAVE_OUT:
        return plain
    norms = 1 if params.adjacency is Adjacency.ADD_REMOVE else 2
    squares = _most_squares(params, counted, n_items)
    # (sum w)^2 <= m sum w^2, and a person has no more rows than there are pairs.
    cells = 2 if counted is Counted.WIN_LOSS else 1
    rows = 1 + math.isqrt(squares * (n_items * (n_items - 1) // 2))
    return Sensitivity(norms * cells * row_weight * rows, norms * row_weight**2 * squares)


def _most_squares(params: PrivacyParams, counted: Counted, n_items: int) -> int:
    """Largest sum of squares of one unit's weights, each at most 1."""
    if params.bounding is Bounding.WEIGHTS:
        return _squares(params, counted, n_items, params.max_contributions)
    if params.unit is Unit.COMPARISON:
        return 1
    return params.max_contributions
