"""The audit's bound is valid, close to the truth where it can be, and finds planted bugs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from hushrank.privacy.audit import AuditResult, Release, audit_epsilon, one_by_one
from tests.statistics import FALSE_POSITIVE_RATE

TRIALS = 200_000
CONFIDENCE = 1 - FALSE_POSITIVE_RATE  # a correct mechanism's epsilon is exceeded this rarely


def audit(release: Release[Any], left: Any, right: Any, **options: Any) -> AuditResult:
    return audit_epsilon(
        release, left, right, **{"trials": TRIALS, "confidence": CONFIDENCE, **options}
    )


def laplace(scale: float) -> Release[Sequence[float]]:
    rng = np.random.default_rng(1)
    return lambda counts, runs: counts + rng.laplace(scale=scale, size=(runs, len(counts)))


def randomized_response(epsilon: float, seed: int = 2) -> Release[int]:
    rng, truth = np.random.default_rng(seed), 1 / (1 + math.exp(-epsilon))
    return lambda answer, runs: np.where(rng.random(runs) < truth, answer, 1 - answer)


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
@pytest.mark.parametrize(
    ("left", "right"),
    [([0.0], [1.0]), ([0.0, 1.0], [1.0, 0.0]), ([3.0] * 8 + [0.0, 1.0], [3.0] * 8 + [1.0, 0.0])],
    ids=["one column", "two columns", "two columns of ten"],
)
def test_exact_laplace_is_met_and_not_exceeded(
    epsilon: float, left: list[float], right: list[float]
) -> None:
    l1 = np.abs(np.subtract(left, right)).sum()
    result = audit(laplace(l1 / epsilon), left, right)
    assert 0.8 * epsilon <= result.epsilon_lower <= epsilon


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
@pytest.mark.parametrize("columns", [1, 2])
def test_half_the_noise_is_caught(epsilon: float, columns: int) -> None:
    left, right = [0.0] * columns, [1.0] * columns
    result = audit(laplace(columns / epsilon / 2), left, right)
    assert epsilon < result.epsilon_lower <= 2 * epsilon


@pytest.mark.parametrize("epsilon", [0.25, 0.5, 2.0, 4.0])
def test_randomised_response_is_met_and_not_exceeded(epsilon: float) -> None:
    result = audit(randomized_response(epsilon), 0, 1)
    assert 0.7 * epsilon <= result.epsilon_lower <= epsilon


@pytest.mark.parametrize(("left", "right"), [(0, 1), (1, 0)])
def test_both_directions_are_searched(left: int, right: int) -> None:
    """One input leads to outputs that the other cannot produce, but not the other way round."""
    rng = np.random.default_rng(3)

    def one_sided(data: int, runs: int) -> NDArray[np.bool_]:
        return (rng.random(runs) < 0.2) & (data == 1)

    assert audit(one_sided, left, right, trials=20_000).epsilon_lower > 4


@pytest.mark.parametrize("others", [[5, 7], [0] * 29 + [5] * 20], ids=["3 items", "50 items"])
def test_noise_on_nonzero_counts_only_is_caught(others: list[int]) -> None:
    rng = np.random.default_rng(4)

    def leaking(counts: NDArray[np.int64], runs: int) -> NDArray[np.int64]:
        noise = np.rint(rng.laplace(scale=4.0, size=(runs, len(counts)))).astype(np.int64)
        return np.where(counts == 0, 0, counts + noise)  # epsilon 0.5, but for the zeros

    left, right = np.array([0, *others]), np.array([1, *others])
    result = audit(leaking, left, right, trials=20_000)
    assert result.epsilon_lower > 4
    assert result.counts[1] == 0


def test_a_leak_in_the_whole_output_only_is_caught() -> None:
    """Rankings whose single positions say nothing: the parity of the permutation is the input."""
    rng = np.random.default_rng(5)
    even, odd = [(0, 1, 2), (1, 2, 0), (2, 0, 1)], [(0, 2, 1), (1, 0, 2), (2, 1, 0)]

    def parity(data: int, runs: int) -> NDArray[np.int64]:
        return np.array([even, odd][data])[rng.integers(3, size=runs)]

    result = audit(parity, 0, 1, trials=10_000)
    assert result.epsilon_lower > 4
    assert "every column" not in result.event


def test_a_statistic_of_the_caller_is_used() -> None:
    rng = np.random.default_rng(6)

    def hidden(data: int, runs: int) -> NDArray[np.int64]:
        values = rng.integers(1 << 40, size=(runs, 2))
        values[:, 1] += (values.sum(axis=1) + data) % 2  # the parity of the sum is the input
        return values

    assert audit(hidden, 0, 1, trials=10_000).epsilon_lower == 0
    statistics = {"parity": lambda outputs: outputs.sum(axis=1) % 2}
    result = audit(hidden, 0, 1, trials=10_000, statistics=statistics)
    assert result.epsilon_lower > 4
    assert "parity" in result.event


def gaussian(data: float, runs: int) -> NDArray[np.float64]:
    return data + np.random.default_rng(int(7 + data)).normal(size=runs)


@pytest.mark.parametrize("delta", [0.01, 0.1])
def test_the_gaussian_mechanism_at_its_delta(delta: float) -> None:
    def excess(epsilon: float) -> float:  # Balle and Wang 2018, Theorem 8, at scale 1
        below = math.exp(epsilon) * stats.norm.cdf(-0.5 - epsilon)
        return float(stats.norm.cdf(0.5 - epsilon) - below - delta)

    bound = audit(gaussian, 0.0, 1.0, delta=delta).epsilon_lower
    assert excess(bound) >= 0  # the true epsilon is at least the bound
    assert excess(bound + 0.5) < 0  # and not far above


def test_a_rare_disclosure_is_a_matter_of_delta() -> None:
    rng = np.random.default_rng(8)

    def disclosing(data: int, runs: int) -> NDArray[np.int64]:
        return np.where(rng.random(runs) < 0.01, data, 7)

    assert audit(disclosing, 0, 1).epsilon_lower > 3
    assert audit(disclosing, 0, 1, delta=0.011).epsilon_lower == 0


def test_equal_inputs_tell_nothing() -> None:
    assert audit(laplace(1.0), [2.0, 3.0], [2.0, 3.0]).epsilon_lower < 0.02
    assert audit(lambda data, runs: np.zeros(runs), 0, 1, trials=1000).epsilon_lower == 0


def test_the_stated_confidence_is_kept() -> None:
    """At confidence 0.5 the bound exceeds the truth in at most half of many audits."""
    audits, epsilon = 400, 0.5
    exceeded = sum(
        audit(randomized_response(epsilon, seed), 0, 1, trials=400, confidence=0.5).epsilon_lower
        > epsilon
        for seed in range(audits)
    )
    assert exceeded > 0  # a bound that never fails would not test the claim
    assert stats.binom.sf(exceeded - 1, audits, 0.5) > FALSE_POSITIVE_RATE


def test_events_are_counted_on_outputs_that_did_not_choose_them() -> None:
    def revealing_at_first(data: int, runs: int) -> NDArray[np.int64]:
        return np.where(np.arange(runs) < runs // 2, data, 0)

    result = audit(revealing_at_first, 0, 1, trials=1000)
    assert result.epsilon_lower == 0
    assert result.counts[0] == result.counts[1]


def test_the_result_says_what_was_done() -> None:
    result = audit(randomized_response(2.0), 0, 1, trials=1001, delta=0.01)
    assert (result.trials, result.held_out) == (1001, 501)
    assert (result.confidence, result.delta) == (CONFIDENCE, 0.01)
    assert result.counts[0] > result.counts[1]
    assert "input by" in result.event


def test_single_outputs_are_collected() -> None:
    rng = np.random.default_rng(9)
    batch = one_by_one(lambda data: data + rng.integers(2, size=(2, 2)))
    assert np.shape(batch(5, 7)) == (7, 4)
    assert audit(batch, 0, 10, trials=200).epsilon_lower > 1


@pytest.mark.parametrize(
    ("release", "options", "message"),
    [
        (gaussian, {"trials": 99}, "trials must be >= 100, got 99"),
        (gaussian, {"confidence": 1.0}, "confidence must be strictly between 0 and 1, got 1.0"),
        (gaussian, {"confidence": 0.0}, "confidence must be strictly between 0 and 1, got 0.0"),
        (gaussian, {"delta": 1.0}, "delta must be at least 0 and below 1, got 1.0"),
        (lambda data, runs: np.zeros(runs - 1), {}, "need one row for each of 200 runs, got shape"),
        (lambda data, runs: np.zeros((runs, 2, 2)), {}, "need one row for each of 200 runs, got"),
        (lambda data, runs: np.full(runs, np.nan), {}, "the outputs must be finite numbers"),
        (lambda data, runs: np.zeros((runs, 1 + int(data))), {}, "different numbers of columns"),
    ],
)
def test_misuse_is_named(
    release: Callable[[float, int], Any], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        audit(release, 0.0, 1.0, **{"trials": 200, **options})
