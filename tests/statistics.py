"""p-values for tests of random mechanisms.

A statistical test asserts two things: the stated law is accepted (`p > FALSE_POSITIVE_RATE`), and a
nearby wrong one is rejected on the same sample (`p < FALSE_POSITIVE_RATE`), so the test has power.
A correct mechanism fails the first assertion with probability FALSE_POSITIVE_RATE.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import stats

FALSE_POSITIVE_RATE = 1e-6  # of one assertion, on a correct mechanism
LEAST_EXPECTED = (
    100  # in a cell of a chi-square test: the chi-square law then holds far in its tail
)


def discrete_laplace_pmf(scale: float) -> Callable[[NDArray[np.int64]], NDArray[np.float64]]:
    """P(x) proportional to exp(-|x| / scale) on the integers."""
    return lambda values: np.exp(-np.abs(values) / scale) * math.tanh(0.5 / scale)


def discrete_gaussian_pmf(scale: float) -> Callable[[NDArray[np.int64]], NDArray[np.float64]]:
    """P(x) proportional to exp(-x^2 / (2 scale^2)) on the integers, for a scale of 0.5 or more."""
    support = np.arange(-math.ceil(40 * scale), math.ceil(40 * scale) + 1)
    total = np.exp(-0.5 * (support / scale) ** 2).sum()
    return lambda values: np.exp(-0.5 * (values / scale) ** 2) / total


def law_p_value(
    sample: NDArray[np.int64], pmf: Callable[[NDArray[np.int64]], NDArray[np.float64]]
) -> float:
    """Chi-square test that integers in `sample` are independent draws from `pmf`.

    Neighbouring values share a cell until LEAST_EXPECTED draws are expected in it; the two tails
    are the outermost cells, so an outlier anywhere counts.
    """
    reach = int(np.abs(sample).max())
    expected = pmf(np.arange(-reach, reach + 1)) * len(sample)
    expected[[0, -1]] += (len(sample) - expected.sum()) / 2  # beyond the largest draw
    observed = np.bincount(np.asarray(sample) + reach, minlength=len(expected))
    starts = _cell_starts(expected)
    counts, means = (np.add.reduceat(column, starts) for column in (observed, expected))
    return cells_p_value(counts, means / len(sample))


def _cell_starts(expected: NDArray[np.float64]) -> list[int]:
    """First value of each cell; what is left at the end joins the last full cell."""
    starts, held = [0], 0.0
    for position, mass in enumerate(expected):
        if held >= LEAST_EXPECTED:
            starts.append(position)
            held = 0.0
        held += mass
    return starts if held >= LEAST_EXPECTED or len(starts) == 1 else starts[:-1]


def cells_p_value(counts: NDArray[np.int64], probabilities: NDArray[np.float64]) -> float:
    """Chi-square test that `counts` are multinomial with these cell `probabilities`.

    Raises:
        ValueError: a cell expects too few draws for the chi-square law, or there is one cell only.
    """
    expected = np.asarray(probabilities) * np.sum(counts)
    if len(expected) < 2 or expected.min() < 0.99 * LEAST_EXPECTED:
        raise ValueError("a chi-square test needs two cells or more, and more draws in each")
    statistic = float(((counts - expected) ** 2 / expected).sum())
    return float(stats.chi2.sf(statistic, len(expected) - 1))


def uniform_p_value(counts: NDArray[np.int64]) -> float:
    """Chi-square test that all cells are equally likely."""
    return cells_p_value(np.asarray(counts), np.full(len(counts), 1 / len(counts)))


def binomial_p_value(successes: int, trials: int, probability: float) -> float:
    """Exact two-sided test of the probability of a success."""
    return float(stats.binomtest(successes, trials, probability).pvalue)


def mean_p_value(sample: NDArray[np.float64], mean: float, variance: float) -> float:
    """Two-sided normal test of the mean of independent values with a known `variance`.

    Needs thousands of draws, more for heavy tails: the normal law must hold five standard errors
    out. With squares in `sample` it is a test of a variance.
    """
    z = (float(np.mean(sample)) - mean) / math.sqrt(variance / len(sample))
    return float(2 * stats.norm.sf(abs(z)))
