"""S and W: all that is kept of randomised answers, as sums of integers.

For each pair i < j, over its answers, with t and p of the answer's epsilon ([XSC] eq. 3 and 4
before normalising, see `randomized_response`):

    S = sum t (noisy - p)      W = sum t^2      S / W is unbiased for F(score_i - score_j).

With a cap c on epsilon an answer pulls by a = min(t, tanh(c / 2)) in the place of t:

    S = sum a (noisy - p)      W = sum a t      S / W is unbiased still, its variance <= 1 / (4 W).

Of all such sums with the same W in which no answer moves S by more than tanh(c / 2), these have the
least variance: to minimise sum a^2 at a given sum a t and a <= bound, a is t, clipped. So somebody
who claims a large epsilon for a lie moves S by at most tanh(c / 2).

Each answer's terms are rounded to multiples of 2^-30 before they are summed, so the sums are the
same bits for every split of the rows into files, batches and workers. The rounding is 2^-31 a term:
below epsilon = 0.001, where t^2 is less than 270 units, it begins to show.

Shares of wins that honest answers do not give: a sign that some answers follow no mechanism.

S / W of a pair estimates a chance, so it leaves [0, 1] by chance alone, and never by far. An
answer's term of S has the width a, so by Hoeffding S exceeds its mean, which is at most W, by x
with chance at most exp(-2 x^2 / sum a^2), and sum a^2 <= sum a t = W. The same holds of all answers
about one item together. Lies that stay within what is possible are not found.

References:
    [XSC] Xu, Sun, Cheng. Rate-optimal rank aggregation with private pairwise rankings.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import scipy
from numpy.typing import NDArray

from hushrank.estimation.common.links import Floats
from hushrank.estimation.common.matrices import CellSums
from hushrank.estimation.fit.likelihood import Weights
from hushrank.privacy.laplace_baselines import GRID
from hushrank.privacy.randomized_response import attenuation, flip_thresholds

UNITS = 1 << 30  # units in 1
LARGEST_ANSWER = GRID << 21  # limit with Laplace noise, in units of 1 / GRID
ROWS_AT_ONCE = 1 << 22  # times 2^30 units a row: sums in float64 stay exact integers

PairSums = NDArray[np.int64]  # shape (rows of `Terms`, n, n): S, W ... in units of 2^-30
Chosen = NDArray[np.int64]  # shape (2, bins): answers, and their information in units of 2^-20


@dataclass(frozen=True, slots=True)
class WeightedPairs:
    """Sums of randomised answers about each pair; already private, so anyone may keep them.

    Attributes:
        s: shape (n, n), int64, strictly upper triangle, units of 2^-30; may lie outside [0, w].
        w: weights in the form of `s`, at least 0. Of many items both are CSR and store the same
            pairs, all that met.
        g: sum of t^2 over the people (not the answers), in units of 2^-30; 0 where not known.
        chosen: counts of the answers' epsilons, as `chosen_epsilons.ChosenFn` sums them; empty
            where that was not asked for.
        order: sums of the order of presentation, a row of `presentation.OrderSums`; empty where
            nobody says who was shown first.
        alike: S', W', Q' and R of the module `alike`, shape (4, n, n), or (4, pairs that met) where
            s and w are CSR, in units of 2^-30; empty where all answers have one epsilon.

    Raises:
        ValueError: an array has another shape or type, lies outside the triangle, w is negative, or
        sparse ones store different pairs.
    """

    s: NDArray[np.int64] | scipy.sparse.csr_array
    w: NDArray[np.int64] | scipy.sparse.csr_array
    g: int = 0
    chosen: Chosen = field(default_factory=lambda: np.zeros((2, 0), np.int64))
    order: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    alike: NDArray[np.int64] = field(default_factory=lambda: np.zeros((4, 0), np.int64))

    def __post_init__(self) -> None:
        for name, matrix in (("s", self.s), ("w", self.w)):
            if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.dtype != np.int64:
                raise ValueError(
                    f"{name} must be a square int64 matrix, got {matrix.shape} {matrix.dtype}"
                )
            if _below_triangle(matrix):
                raise ValueError(f"{name} must be zero on and below the diagonal (pairs are i < j)")
        if self.s.shape != self.w.shape:
            raise ValueError(f"s has shape {self.s.shape}, w {self.w.shape}: they must agree")
        if not _same_places(self.s, self.w):
            raise ValueError("sparse s and w must store the same pairs")
        if self.alike.size and self.alike.shape != (4, *_entries(self.w).shape):
            raise ValueError(f"alike has shape {self.alike.shape}: it needs four numbers a pair")
        if (_entries(self.w) < 0).any() or self.g < 0 or (self.chosen < 0).any():
            raise ValueError("w, g and chosen cannot be negative")

    @property
    def n_items(self) -> int:
        """Size of the public catalogue."""
        return int(self.w.shape[0])

    @property
    def sparse(self) -> bool:
        """Whether only pairs that met are stored."""
        return isinstance(self.w, scipy.sparse.csr_array)

    def met(self) -> NDArray[np.int64]:
        """W of the pairs that met, in units."""
        weights = _entries(self.w)
        return weights[weights > 0]

    def entries(self) -> NDArray[np.int64]:
        """S, W and the sums alike, if there are any, as they are stored: shape (2 or 6, ...)."""
        return np.stack(
            [_entries(self.s), _entries(self.w), *(self.alike if self.alike.size else ())]
        )

    def pair_values(self) -> tuple[Weights, Weights]:
        """S and W as real numbers, shape (n, n), strictly upper triangle, dense or CSR."""
        return _real(self.s), _real(self.w)

    def table(self) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats]:
        """The pairs that met: items i and j, and S, W and the sums alike, shape (2 or 6, pairs)."""
        every = self.entries() / UNITS
        if isinstance(self.w, scipy.sparse.csr_array):
            low = np.repeat(np.arange(self.n_items), np.diff(self.w.indptr))
            return low, self.w.indices.astype(np.int64), every
        low, high = np.nonzero(self.w)
        return low, high, every[:, low, high]

    def with_sums(self, s: NDArray[np.int64], w: NDArray[np.int64]) -> WeightedPairs:
        """Return the same pairs with other sums, in the form of the entries that are stored."""
        if not isinstance(self.w, scipy.sparse.csr_array):
            return WeightedPairs(s, w)
        one, other = (
            scipy.sparse.csr_array((each, self.w.indices, self.w.indptr), shape=self.w.shape)
            for each in (s, w)
        )
        return WeightedPairs(one, other)

    def arrays(self) -> dict[str, NDArray[np.int64]]:
        """Return arrays by name; `weighted_pairs_of` reads them."""
        rest = {"g": np.array(self.g, np.int64)}
        if self.chosen.size:
            rest["chosen"] = self.chosen
        if self.order.size:
            rest["order"] = self.order
        if self.alike.size:
            rest["alike"] = self.alike
        if isinstance(self.w, scipy.sparse.csr_array):
            places = {"columns": self.w.indices, "row_ends": self.w.indptr}
            of_places = {name: each.astype(np.int64) for name, each in places.items()}
            return {"s": _entries(self.s), "w": _entries(self.w), **of_places, **rest}
        return {"s": _entries(self.s), "w": self.w, **rest}


def weighted_pairs_of(arrays: Mapping[str, NDArray[np.int64]]) -> WeightedPairs:
    """Rebuild the pairs from the arrays of `WeightedPairs.arrays`.

    Raises:
        ValueError: these are no such sums.
    """
    chosen = arrays.get("chosen", np.zeros((2, 0), np.int64))
    order = arrays.get("order", np.zeros(0, np.int64))
    alike = arrays.get("alike", np.zeros((4, 0), np.int64))
    if "row_ends" not in arrays:
        return WeightedPairs(arrays["s"], arrays["w"], int(arrays["g"]), chosen, order, alike)
    columns, ends = arrays["columns"], arrays["row_ends"]
    shape = (len(ends) - 1, len(ends) - 1)
    s, w = (
        scipy.sparse.csr_array((arrays[name], columns, ends), shape=shape) for name in ("s", "w")
    )
    return WeightedPairs(s, w, int(arrays["g"]), chosen, order, alike)


def _entries(matrix: NDArray[np.int64] | scipy.sparse.csr_array) -> NDArray[np.int64]:
    return np.asarray(matrix.data if isinstance(matrix, scipy.sparse.csr_array) else matrix)


def _real(matrix: NDArray[np.int64] | scipy.sparse.csr_array) -> Weights:
    if not isinstance(matrix, scipy.sparse.csr_array):
        return np.asarray(matrix / UNITS)
    return scipy.sparse.csr_array(
        (matrix.data / UNITS, matrix.indices, matrix.indptr), shape=matrix.shape
    )


def _below_triangle(matrix: NDArray[np.int64] | scipy.sparse.csr_array) -> bool:
    if isinstance(matrix, scipy.sparse.csr_array):
        return bool(scipy.sparse.triu(matrix, 1).nnz < matrix.nnz)
    return bool(np.tril(matrix).any())


def _same_places(
    s: NDArray[np.int64] | scipy.sparse.csr_array, w: NDArray[np.int64] | scipy.sparse.csr_array
) -> bool:
    if not (isinstance(s, scipy.sparse.csr_array) and isinstance(w, scipy.sparse.csr_array)):
        return isinstance(s, scipy.sparse.csr_array) == isinstance(w, scipy.sparse.csr_array)
    return np.array_equal(s.indices, w.indices) and np.array_equal(s.indptr, w.indptr)


@dataclass(frozen=True, slots=True)
class Terms:
    """Amounts that each of m answers adds to its pair's sums, real numbers without a fraction.

    Attributes:
        s, w: shape (m,), below 2^53, in multiples of `unit`.
        unit: unit of these numbers, in units of 2^-30.
        alike: what they add to the sums that weigh all answers alike; empty: those are not kept.
    """

    s: Floats
    w: Floats
    unit: int = 1
    alike: tuple[Floats, ...] = ()

    @property
    def rows(self) -> tuple[Floats, ...]:
        """All amounts: s, w, and those alike."""
        return (self.s, self.w, *self.alike)


def weighted_terms(
    noisy: NDArray[np.uint8],
    epsilon: float | Floats,
    cap: float | None = None,
    least: float | None = None,
) -> Terms:
    """Terms of randomised answers.

    Args:
        noisy: shape (m,), 1 where the randomised answer says that i won.
        epsilon: epsilon with which it was randomised; one for all rows, or shape (m,).
        cap: an answer of a larger epsilon pulls no harder than one of this epsilon; None: no cap.
        least: a lower bound on `epsilon`, which is also the unit of the sums of answers alike; None
            leaves those sums out.

    Raises:
        ValueError: an answer is not 0 or 1, or an epsilon is bad.
    """
    _require_binary(noisy)
    epsilons = np.atleast_1d(np.asarray(epsilon, np.float64))
    pull, t = pulls(epsilons, cap)
    s, w = _terms(noisy, pull, t)
    if least is None:
        return Terms(s, w)
    equal = attenuation(flip_thresholds(np.array([least]))) / t
    squares = (np.rint(each**2 * UNITS) for each in (equal, pull * t))
    of_answers = (np.broadcast_to(each, noisy.shape) for each in squares)
    return Terms(s, w, alike=(*_terms(noisy, equal, t), *of_answers))


def counted_terms(outcomes: NDArray[np.uint8]) -> Terms:
    """Wins of i and comparisons, in the place of S and W: `classic-rr`, `rr-counts`.

    Raises:
        ValueError: an outcome is not 0 or 1.
    """
    _require_binary(outcomes)
    ones = np.broadcast_to(np.float64(UNITS), outcomes.shape)
    return Terms(outcomes * np.float64(UNITS), ones)


def laplace_terms(noisy: NDArray[np.int64]) -> Terms:
    """Answers with Laplace noise, and comparisons: `laplace-rr`.

    Args:
        noisy: shape (m,), from `laplace_baselines.add_laplace`, in units of 1 / GRID. One beyond
            2^21 is taken for 2^21: a tiny epsilon, of somebody with very many rows, is no reason
            to fail.
    """
    ones = np.broadcast_to(np.float64(GRID), noisy.shape)
    kept = np.clip(noisy, -LARGEST_ANSWER, LARGEST_ANSWER)
    return Terms(kept.astype(np.float64), ones, UNITS // GRID)


def dense_sums(cells: NDArray[np.int64], terms: Terms, n_items: int) -> PairSums:
    """S, W and sums alike, if there are any, of one batch.

    Args:
        cells: shape (m,), i * n_items + j of each answer's pair, i < j.
        terms: terms of the answers.
        n_items: n, size of the public catalogue.

    Raises:
        ValueError: a cell is outside the matrix.
        OverflowError: a sum does not fit into 64 bits.
    """
    _require_cells(cells, n_items)
    n_cells = n_items * n_items
    sums = np.zeros((len(terms.rows), n_cells), np.int64)
    for start in range(0, len(cells), ROWS_AT_ONCE):
        rows = slice(start, start + ROWS_AT_ONCE)
        for total, each in zip(sums, terms.rows, strict=True):
            total += np.bincount(cells[rows], each[rows], n_cells).astype(np.int64)
    if (np.abs(sums) > np.iinfo(np.int64).max // terms.unit).any():
        raise OverflowError("a pair has too many answers for 64-bit sums")
    return terms.unit * sums.reshape(-1, n_items, n_items)


def cell_sums(cells: NDArray[np.int64], terms: Terms, n_items: int) -> CellSums:
    """Sum for many items, only the pairs that met; arguments as `dense_sums`."""
    _require_cells(cells, n_items)
    whole = np.stack(terms.rows).astype(np.int64)
    return CellSums.of(cells, terms.unit * whole)


def weighted_sums(
    cells: NDArray[np.int64], noisy: NDArray[np.uint8], epsilon: float | Floats, n_items: int
) -> PairSums:
    """`dense_sums` of `weighted_terms`."""
    return dense_sums(cells, weighted_terms(noisy, epsilon), n_items)


def counted_sums(cells: NDArray[np.int64], outcomes: NDArray[np.uint8], n_items: int) -> PairSums:
    """`dense_sums` of `counted_terms`."""
    return dense_sums(cells, counted_terms(outcomes), n_items)


def laplace_sums(cells: NDArray[np.int64], noisy: NDArray[np.int64], n_items: int) -> PairSums:
    """`dense_sums` of `laplace_terms`."""
    return dense_sums(cells, laplace_terms(noisy), n_items)


def add_sums(parts: Iterable[PairSums], n_items: int, rows: int = 2) -> PairSums:
    """Sum of the parts, which have so many rows, in any order and grouping.

    Raises:
        OverflowError: a sum does not fit into 64 bits (8 * 10^9 answers to one pair do).
    """
    total = np.zeros((rows, n_items, n_items), np.int64)
    for part in parts:
        before = total.copy()
        total += part
        # The sum of two numbers wrapped if and only if its sign differs from both of theirs.
        if (((before ^ total) & (part ^ total)) < 0).any():
            raise OverflowError("a pair has too many answers for 64-bit sums")
    return total


def information_units(epsilon_of_people: NDArray[np.float64]) -> int:
    """G = sum of t^2 over people, in units of 2^-30, as the answers' weights are rounded.

    Args:
        epsilon_of_people: shape (people,), one per person: of each of their answers.
    """
    t, _ = pulls(epsilon_of_people, None)
    if_one, if_zero = _amounts(t, t)
    return int((if_one + if_zero).astype(np.int64).sum())


def pulls(epsilon: Floats, cap: float | None) -> tuple[Floats, Floats]:
    """Return the pull of answers, a, and t = tanh(epsilon / 2); both in the shape of `epsilon`."""
    t = attenuation(flip_thresholds(epsilon))
    if cap is None:
        return t, t
    return np.minimum(t, attenuation(flip_thresholds(np.array([cap])))), t


def _terms(noisy: NDArray[np.uint8], pull: Floats, t: Floats) -> tuple[Floats, Floats]:
    """Terms of S and W in units."""
    if_one, if_zero = _amounts(pull, t)
    return np.where(noisy, if_one, if_zero), np.broadcast_to(if_one + if_zero, noisy.shape)


def _amounts(a: Floats, t: Floats) -> tuple[Floats, Floats]:
    """a (1 - p) and -a p in units. Their sum, a t, is the weight: the same with i and j swapped."""
    return np.rint(a * (1 + t) * (UNITS // 2)), np.rint(a * (t - 1) * (UNITS // 2))


def _require_cells(cells: NDArray[np.int64], n_items: int) -> None:
    n_cells = n_items * n_items
    if len(cells) and not 0 <= int(cells.min()) <= int(cells.max()) < n_cells:
        raise ValueError(f"cells must be between 0 and {n_cells - 1}")


def _require_binary(outcomes: NDArray[np.uint8]) -> None:
    if outcomes.dtype != np.uint8 or (outcomes > 1).any():
        raise ValueError("outcomes must be a uint8 array of 0 and 1")  # values are private


FALSE_ALARM = 1e-6  # chance that honest answers raise it, whatever the truth


@dataclass(frozen=True, slots=True)
class ImpossibleShares:
    """Impossible shares that were found.

    Attributes:
        items: numbers of the items whose wins, or losses, are too many.
        pairs: number of pairs that have such shares.
    """

    items: tuple[int, ...]
    pairs: int


def impossible_shares(pairs: WeightedPairs) -> ImpossibleShares:
    """Items and pairs whose shares of wins lie outside [0, 1] by more than chance allows."""
    s, w = pairs.pair_values()
    if isinstance(s, scipy.sparse.csr_array) and isinstance(w, scipy.sparse.csr_array):
        of_pairs = s.data, w.data
    else:
        met = np.asarray(w) > 0
        of_pairs = np.asarray(s)[met], np.asarray(w)[met]
    weight = _sums(w, 0) + _sums(w, 1)
    won = _sums(s, 1) + _sums(w, 0) - _sums(s, 0)  # as i, and as j, who wins where i loses
    tests = 2 * (len(of_pairs[0]) + pairs.n_items)
    return ImpossibleShares(
        items=tuple(np.flatnonzero(_outside(won, weight, tests)).tolist()),
        pairs=int(_outside(*of_pairs, tests).sum()),
    )


def _sums(matrix: Floats | scipy.sparse.csr_array, axis: int) -> Floats:
    return np.asarray(matrix.sum(axis=axis), np.float64).ravel()


def _outside(s: Floats, w: Floats, tests: int) -> Floats:
    reach = np.sqrt(w * math.log(tests / FALSE_ALARM) / 2)
    return np.asarray((s > w + reach) | (s < -reach))
