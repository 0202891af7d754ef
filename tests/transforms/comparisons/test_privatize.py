"""The local trust boundary: the law of what crosses it, and that sums do not depend on the way.

False-positive rate of each statistical assertion: 1e-6.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from hushrank.estimation.common.matrices import CellSums
from hushrank.estimation.fit.chosen_epsilons import PLAIN, EpsilonBins, Weighing
from hushrank.estimation.fit.weighted_pairs import weighted_pairs_of
from hushrank.privacy.audit import audit_epsilon
from hushrank.privacy.laplace_baselines import GRID
from hushrank.privacy.randomness import system_bits
from hushrank.transforms.common.randomisation import Randomisation
from hushrank.transforms.comparisons.privatize import (
    Answers,
    PrivateAnswers,
    PrivatePairsFn,
    SparsePrivatePairsFn,
    privatize,
    sums_of,
)
from tests.statistics import FALSE_POSITIVE_RATE, binomial_p_value

N_ITEMS, M = 4, 200_000


def answers(outcome, epsilon, m=M) -> Answers:
    return Answers(np.full(m, 1), np.full(m, outcome, np.uint8), np.full(m, epsilon))


@pytest.mark.parametrize("randomisation", [Randomisation.WEIGHTED, Randomisation.COUNTED])
@pytest.mark.parametrize("outcome", [0, 1])
def test_answers_flip_at_the_theorem_s_rate(randomisation, outcome):
    crossed = privatize(answers(outcome, 1.0), randomisation, system_bits())
    flips = int((crossed.value != outcome).sum())
    assert binomial_p_value(flips, M, 1 / (1 + math.e)) > FALSE_POSITIVE_RATE
    assert binomial_p_value(flips, M, 1 / (1 + math.exp(1.1))) < FALSE_POSITIVE_RATE
    assert binomial_p_value(flips, M, 1 / (1 + math.exp(0.9))) < FALSE_POSITIVE_RATE


def test_each_answer_has_the_noise_of_its_own_epsilon():
    epsilon = np.tile([0.5, 3.0], M // 2)
    rows = Answers(np.full(M, 1), np.zeros(M, np.uint8), epsilon)
    flipped = privatize(rows, Randomisation.WEIGHTED, system_bits()).value
    for own, other in ((0.5, 3.0), (3.0, 0.5)):
        flips = int(flipped[epsilon == own].sum())
        assert binomial_p_value(flips, M // 2, 1 / (1 + math.exp(own))) > FALSE_POSITIVE_RATE
        assert binomial_p_value(flips, M // 2, 1 / (1 + math.exp(other))) < FALSE_POSITIVE_RATE


@pytest.mark.parametrize(("epsilon", "trials"), [(1.0, 4_000_000), (5.0, 500_000)])
def test_audit_of_what_crosses_finds_the_stated_epsilon_and_no_more(epsilon, trials):
    found = audit_epsilon(
        lambda outcome, runs: (
            privatize(answers(outcome, epsilon, runs), Randomisation.WEIGHTED, system_bits()).value
        ),
        0,
        1,
        trials=trials,
        confidence=1 - FALSE_POSITIVE_RATE,
    )
    assert 0.9 * epsilon <= found.epsilon_lower <= epsilon


def test_audit_catches_answers_that_cross_twice():
    """Two draws of one answer, as a retry that is seen would leave, cost twice the epsilon."""

    def twice(outcome, runs):
        draws = [
            privatize(answers(outcome, 1.0, runs), Randomisation.WEIGHTED, system_bits()).value
            for _ in range(2)
        ]
        return np.column_stack(draws)

    found = audit_epsilon(twice, 0, 1, trials=200_000, confidence=1 - FALSE_POSITIVE_RATE)
    assert found.epsilon_lower > 1.5


def test_laplace_noise_has_the_scale_of_the_epsilon():
    noisy = privatize(answers(1, 2.0), Randomisation.LAPLACE, system_bits()).value / GRID - 1
    assert abs(noisy.mean()) < 5 * math.sqrt(2 / 4 / M)
    # Mean of |Laplace(1/2)| is 1/2 with standard deviation 1/2; 5 standard errors: 6e-7.
    assert abs(np.abs(noisy).mean() - 0.5) < 5 * 0.5 / math.sqrt(M)
    assert abs(np.abs(noisy).mean() - 0.6) > 5 * 0.5 / math.sqrt(M)


def test_answers_that_came_privatised_pass_as_they_are():
    rows = answers(1, 0.1, 100)
    crossed = privatize(rows, Randomisation.WEIGHTED, system_bits(), already_private=True)
    assert crossed.value is rows.outcome
    assert crossed.epsilon is rows.epsilon


@pytest.mark.parametrize("randomisation", list(Randomisation))
def test_sums_are_the_same_for_every_way_of_merging(randomisation):
    rng = np.random.default_rng(2)
    m = 1000
    rows = PrivateAnswers(
        rng.choice([1, 2, 3, 6, 7, 11], m),
        rng.integers(0, 2, m).astype(np.uint8),
        rng.uniform(0.1, 4, m),
    )
    chosen = randomisation is Randomisation.WEIGHTED  # only then epsilons are counted
    weighing = Weighing(1.5, EpsilonBins(0.1, 4, 1.5) if chosen else None)
    whole = sums_of(rows, randomisation, N_ITEMS, weighing)
    combine = PrivatePairsFn(randomisation, N_ITEMS, weighing)
    parts = []
    for share in np.array_split(rng.permutation(m), 7):
        part = PrivateAnswers(rows.cell[share], rows.value[share], rows.epsilon[share], 3)
        parts.append(combine.add_input(combine.create_accumulator(), part))
    merged = combine.extract_output(combine.merge_accumulators(parts))
    np.testing.assert_array_equal([merged.s, merged.w, *merged.alike[: len(whole) - 2]], whole)
    assert merged.g == 21
    np.testing.assert_array_equal(merged.chosen, weighing.chosen(rows.epsilon))
    sparse = SparsePrivatePairsFn(randomisation, N_ITEMS, weighing)
    parts = [
        sparse.add_input(
            sparse.create_accumulator(),
            PrivateAnswers(rows.cell[share], rows.value[share], rows.epsilon[share], 3),
        )
        for share in np.array_split(rng.permutation(m), 5)
    ]
    parts.append(sparse.create_accumulator())
    few = sparse.extract_output(sparse.merge_accumulators(parts))
    np.testing.assert_array_equal([few.s.toarray(), few.w.toarray()], whole[:2])
    np.testing.assert_array_equal(few.table()[2], merged.table()[2])
    assert few.g == 15
    again = weighted_pairs_of(few.arrays())
    np.testing.assert_array_equal(again.chosen, merged.chosen)
    assert again.sparse
    np.testing.assert_array_equal(again.s.toarray(), whole[0])
    np.testing.assert_array_equal(again.alike, few.alike)
    np.testing.assert_array_equal(weighted_pairs_of(merged.arrays()).alike, merged.alike)
    for one, other in zip(again.pair_values(), merged.pair_values(), strict=True):
        np.testing.assert_array_equal(one.toarray(), other)


def test_a_sum_that_does_not_fit_is_an_error():
    combine = PrivatePairsFn(Randomisation.COUNTED, 2)
    full = np.zeros((2, 2, 2), np.int64)
    full[:, 0, 1] = np.iinfo(np.int64).max - 1
    with pytest.raises(OverflowError, match="too many answers"):
        combine.merge_accumulators([(full, 0, PLAIN.nothing(), np.zeros(0, np.int64))] * 2)
    many = CellSums(np.array([1]), np.full((2, 1), np.iinfo(np.int64).max - 1))
    with pytest.raises(OverflowError, match="too many answers"):
        CellSums.sum([many, many])
