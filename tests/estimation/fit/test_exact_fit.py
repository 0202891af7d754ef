"""Any counts are fitted, and the exact gradient is within the tolerance: checked in 80 digits."""

from __future__ import annotations

from collections.abc import Callable

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.sparse import csr_array

from hushrank.estimation.common.links import LAPLACE, LOGISTIC, Floats, Link
from hushrank.estimation.common.matrices import PairCounts
from hushrank.estimation.fit import exact_fit as module
from hushrank.estimation.fit.exact_fit import CountedObjective, FixedPoint, exact_fit
from hushrank.estimation.fit.likelihood import Objective
from hushrank.estimation.fit.solve import minimise

MOST = 2**62
TOLERANCE = 1e-9
BOTH_LINKS = pytest.mark.parametrize("link", [LOGISTIC, LAPLACE], ids=["logistic", "laplace"])
Wins = NDArray[np.int64]


def fitted(
    wins: Wins,
    link: Link,
    ridge: float,
    linear: Floats,
    tolerance: float = TOLERANCE,
    start: Floats | None = None,
    row_weight: int = 1,
) -> FixedPoint:
    counts = PairCounts(wins, row_weight)
    objective = CountedObjective.of(counts, link, ridge, linear, tolerance)
    return exact_fit(objective, np.zeros(len(linear)) if start is None else start)


def exact_norm(
    theta: FixedPoint, wins: Wins, link: Link, ridge: float, linear: Floats, row_weight: int = 1
) -> float:
    """The l2 norm of the objective's gradient on the scores that sum to zero."""
    with mpmath.workdps(80):
        at = [mpmath.mpf(unit) / 2**theta.bits for unit in theta.units]
        mean = mpmath.fsum(map(mpmath.mpf, linear.tolist())) / len(at)
        gradient = [ridge * x + w - mean for x, w in zip(at, linear.tolist(), strict=True)]
        for a, b in np.argwhere(wins):
            d = at[a] - at[b]
            decay = mpmath.exp(-max(d, 0))
            slope = 1 / (1 + mpmath.exp(d)) if link is LOGISTIC else decay / (2 - decay)
            pull = int(wins[a, b]) * slope / row_weight
            gradient[a] -= pull
            gradient[b] += pull
        return float(mpmath.sqrt(mpmath.fsum(g**2 for g in gradient)))


def matrix(n: int, *cells: tuple[int, int, int]) -> Wins:
    wins = np.zeros((n, n), np.int64)
    for a, b, times in cells:
        wins[a, b] = times
    return wins


def full(n: int, entry: Callable[[int, int], int]) -> Wins:
    return np.array([[0 if a == b else entry(a, b) for b in range(n)] for a in range(n)], np.int64)


EXTREMES = {
    "nothing": matrix(4),
    "one comparison": matrix(4, (0, 1, 1)),
    "one side always wins": matrix(4, (0, 1, MOST)),
    "two sets that never met": matrix(5, (0, 1, MOST), (1, 0, MOST), (2, 3, MOST)),
    "two sets that met once": matrix(4, (0, 1, MOST), (1, 0, MOST), (2, 3, MOST), (3, 1, 1)),
    "a cycle": matrix(3, (0, 1, MOST), (1, 2, MOST), (2, 0, MOST)),
    "a ladder": full(9, lambda a, b: MOST if b == a + 1 else 0),
    "a strict order": full(7, lambda a, b: MOST if b > a else 0),
    "all equal": full(6, lambda a, b: MOST),
    "equal but for one": full(6, lambda a, b: MOST - (a < b)),
    "of all sizes": full(6, lambda a, b: 2 ** (7 * a + 5 * b)),
    "one star": full(6, lambda a, b: MOST if a == 0 else int(b == 0)),
}


@BOTH_LINKS
@pytest.mark.parametrize("wins", EXTREMES.values(), ids=EXTREMES)
def test_extreme_counts_are_fitted_to_the_tolerance(wins: Wins, link: Link) -> None:
    rng = np.random.default_rng(1)
    for ridge, scale in ((2.0, 4.0), (1e-3, 1e5)):
        linear = rng.laplace(0, scale, len(wins))
        theta = fitted(wins, link, ridge, linear)
        assert exact_norm(theta, wins, link, ridge, linear) <= TOLERANCE


COUNTS = st.one_of(
    st.just(0), st.integers(0, 50), st.integers(0, 62).map(lambda e: 2**e), st.integers(0, MOST)
)


@BOTH_LINKS
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_counts_are_fitted_to_the_tolerance(link: Link, data: st.DataObject) -> None:
    n = data.draw(st.integers(2, 6))
    cells = data.draw(st.lists(COUNTS, min_size=n * n, max_size=n * n))
    wins = np.array(cells, np.int64).reshape(n, n)
    np.fill_diagonal(wins, 0)
    exponents = st.integers(-6, 6)
    ridge, scale = (10.0 ** data.draw(exponents) for _ in range(2))
    row_weight = data.draw(st.sampled_from([1, 2]))
    rng = np.random.default_rng(data.draw(st.integers(0, 9)))
    linear, start = rng.laplace(0, scale, n), rng.normal(0, 10, n)
    theta = fitted(wins, link, ridge, linear, start=start, row_weight=row_weight)
    assert exact_norm(theta, wins, link, ridge, linear, row_weight) <= TOLERANCE


@BOTH_LINKS
@pytest.mark.timeout(600)
def test_a_start_whose_mean_floats_do_not_make_zero_is_left(link: Link) -> None:
    """Times this ridge, what is left of the mean is more than the tolerance; it took for ever."""
    wins = np.array([[0, 7], [131072, 0]], np.int64)
    linear = np.array([-0.00010016033729812994, 0.0003751806279691821])
    start = np.array([21.64063247876866, -7.919610800145951])
    assert (start - start.mean()).sum() != 0
    theta = fitted(wins, link, 1e6, linear, start=start)
    assert exact_norm(theta, wins, link, 1e6, linear) <= TOLERANCE


@BOTH_LINKS
def test_where_floats_have_digits_enough_it_is_what_they_find(link: Link) -> None:
    rng = np.random.default_rng(2)
    wins = full(8, lambda a, b: 3 * a + b)
    linear = rng.laplace(0, 2.0, 8)
    theta = fitted(wins, link, 2.0, linear)
    found = minimise(Objective(wins.astype(np.float64), link, 2.0, linear)).theta
    np.testing.assert_allclose(theta.floats(), found, atol=1e-9)


def test_the_tolerance_is_the_one_that_was_asked_for() -> None:
    linear = np.random.default_rng(3).laplace(0, 2.0, 6)
    wins = EXTREMES["of all sizes"]
    for tolerance in (1e3, 1e-9, 1e-30):
        theta = fitted(wins, LOGISTIC, 2.0, linear, tolerance)
        assert exact_norm(theta, wins, LOGISTIC, 2.0, linear) <= tolerance


def test_sparse_counts_are_the_same_as_dense_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK", 3)
    wins, linear = EXTREMES["of all sizes"], np.random.default_rng(4).laplace(0, 2.0, 6)
    dense, sparse = (fitted(each, LOGISTIC, 2.0, linear) for each in (wins, csr_array(wins)))
    np.testing.assert_array_equal(dense.units, sparse.units)
