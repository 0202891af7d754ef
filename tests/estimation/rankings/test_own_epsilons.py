"""Rankings whose people chose their own epsilon: weights, errors, and the check of them."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from hushrank.estimation.rankings.mechanism_choice import mallows_epsilon, mallows_places
from hushrank.estimation.rankings.net_evidence import NetEvidence, undone_nets
from hushrank.estimation.rankings.pair_answer_evidence import (
    AnswerSums,
    answered_nets,
    answered_pairs,
    count_answers,
    fitted_nets,
    precision_of,
)
from hushrank.estimation.rankings.ranking_counts import count_rankings
from hushrank.estimation.rankings.ranking_evidence import (
    answers_differ,
    combined_nets,
    combined_pairs,
    debiased_evidence,
    effective_rankings,
    mean_one,
    variance_of_nets,
    variance_of_pairs,
)
from hushrank.privacy.mallows import synthetic_rankings
from hushrank.privacy.random_pairs import Hide, RandomPairs, answer_pairs, laws_of_levels
from hushrank.privacy.randomness import seeded_bits

M, PEOPLE = 5, 4_000
EPSILONS = [mallows_epsilon(whole, M) for whole in (2.0, 8.0)]
ALIKE = np.ones(2)
Orders = NDArray[np.int64]
VARIANCES = [  # of a pair's share, by the length of the list and the epsilon of a whole ranking
    (3, 1, 12.4), (3, 2, 2.55), (3, 4, 0.43), (3, 8, 0.057),
    (5, 1, 312), (5, 2, 71), (5, 4, 13.5), (5, 8, 1.74), (5, 16, 0.18),
    (10, 4, 1.5e4), (10, 8, 1.1e3), (10, 16, 48),
]  # fmt: skip

OF_ANSWERS = {  # the same of random pairs, at 1, 2, 4, 8 and 16 for a whole ranking
    3: (3.5, 1.29, 0.65, 0.33, 0.26),
    5: (11.7, 4.3, 2.2, 1.08, 0.54),
    10: (53, 19, 9.7, 4.9, 2.4),
}


@pytest.mark.parametrize("length", OF_ANSWERS)
def test_the_variance_of_an_answered_pair_is_that_of_the_table(length):
    """P / 4 over the precision: P pairs, and a share has half the deviation of a margin."""
    laws = laws_of_levels((1.0, 2.0, 4.0, 8.0, 16.0), None, length, Hide.ORDER)
    found = [length * (length - 1) / 8 / precision_of(law) for law in laws]
    np.testing.assert_allclose(found, OF_ANSWERS[length], rtol=0.05)


@pytest.mark.parametrize(("length", "whole", "variance"), VARIANCES)
def test_the_variance_of_an_undone_pair_is_that_of_the_table(length, whole, variance):
    found = variance_of_pairs(length, mallows_epsilon(whole, length)) - 1 / 4
    assert found == pytest.approx(variance, rel=0.05)


def orders_of(seed: int, *, depends: bool) -> tuple[Orders, NDArray[np.int64]]:
    """True rankings, and the level of each: 70 % take the smaller epsilon.

    Where they depend, 90 % of the careless put item 0 above item 1, and 60 % of the careful.
    """
    rng = np.random.default_rng(seed)
    level = (rng.random(PEOPLE) > 0.7).astype(np.int64)
    orders = np.argsort(-np.linspace(0.6, -0.6, M) - rng.gumbel(size=(PEOPLE, M)), axis=1)
    if depends:
        above = rng.random(PEOPLE) < np.where(level == 0, 0.6, 0.9)
        places = np.sort(np.argsort(orders, axis=1)[:, :2], axis=1)
        rows = np.arange(PEOPLE)
        orders[rows, places[:, 0]], orders[rows, places[:, 1]] = 1 - above, above.astype(int)
        # `above` True puts 0 first
    return orders, level


def share_above(orders: Orders) -> NDArray[np.float64]:
    places = np.argsort(orders, axis=1)
    return np.asarray((places[:, :, None] < places[:, None, :]).mean(axis=0))


def undone(seed: int, *, depends: bool = False) -> tuple[list[NDArray[np.float64]], bool]:
    """Errors of shares with equal and with precision weights, and whether the check warns."""
    orders, level = orders_of(seed, depends=depends)
    pairs, nets = [], []
    for place, epsilon in enumerate(EPSILONS):
        own = orders[level == place]
        lengths = np.full(len(own), M)
        private = synthetic_rankings(own.ravel(), lengths, epsilon, seeded_bits(2 * seed + place))
        counts = count_rankings(private, lengths, M, M, by_place=True)
        pairs.append(debiased_evidence(counts, epsilon))
        nets.append(undone_nets(counts, lambda m, e=epsilon: mallows_places(m, e), PEOPLE))
    n = np.bincount(level).astype(float)
    weights = mean_one(1 / np.array([variance_of_pairs(M, each) for each in EPSILONS]), n)
    errors, above = [], np.triu_indices(M, 1)
    for each in (ALIKE, weights):
        evidence = combined_pairs(pairs, each)
        errors.append((evidence.wins / PEOPLE - share_above(orders))[above])
    return errors, answers_differ(nets, weights)


def test_precision_weights_have_the_smaller_error_and_both_have_the_one_predicted():
    found = [undone(seed) for seed in range(40)]
    variances = np.array([variance_of_pairs(M, each) for each in EPSILONS])
    shares = np.array([0.7, 0.3])
    predicted = [float(shares @ variances), 1 / float(shares @ (1 / variances))]
    for place, variance in enumerate(predicted):
        errors = np.array([errors[place] for errors, _ in found])
        rms, size = np.sqrt(np.square(errors).mean()), np.sqrt(variance / PEOPLE)
        # 10 pairs that hang together, 40 times: about 160 numbers of freedom
        assert abs(rms / size - 1) < 0.05 + 2 / np.sqrt(2 * 160)
        assert abs(errors.mean(axis=0)).max() < 4 * size / np.sqrt(40)
    assert sum(warned for _, warned in found) <= 7  # 5 % of 40; more once in 10^3


def test_who_chose_more_privacy_and_ranks_otherwise_is_noticed():
    found = [undone(seed, depends=True) for seed in range(20)]
    equal, precise = (np.mean([errors[place][0] for errors, _ in found]) for place in (0, 1))
    assert abs(equal) < 0.08
    assert precise == pytest.approx(0.188, abs=0.02)
    assert sum(warned for _, warned in found) >= 15


def of_pairs(seed: int, hide: Hide = Hide.ORDER) -> tuple[list[tuple[object, RandomPairs]], Orders]:
    orders, level = orders_of(seed, depends=False)
    found = []
    for place, law in enumerate(laws_of_levels((1.0, 8.0), None, M, hide)):
        own = orders[level == place]
        lengths = np.full(len(own), M)
        answers = answer_pairs(own.ravel(), lengths, M, law, seeded_bits(2 * seed + place))
        found.append((count_answers(answers, M, M, law), law))
    return found, orders


def half_nets_of(orders: Orders) -> NDArray[np.float64]:
    return (M - 1) / 2 - np.argsort(orders, axis=1).mean(axis=0)


@pytest.mark.parametrize("hide", Hide)
def test_answers_of_several_laws_are_undone_each_by_its_own(hide):
    deviations, sizes, errors = [], [], {"equal": [], "precision": []}
    for seed in range(60):
        levels, orders = of_pairs(seed, hide)
        n = np.array([counts.rankings for counts, _ in levels], float)
        weights = mean_one(np.array([precision_of(law) for _, law in levels]), n)
        truth = half_nets_of(orders)
        for name, each in (("equal", None), ("precision", weights)):
            evidence = answered_nets(AnswerSums.of(levels, each))
            error = evidence.sums / PEOPLE - truth
            errors[name].append(error)
            if name == "precision":
                deviations.append(error)
                sizes.append(np.sqrt(np.diagonal(evidence.covariance)) / PEOPLE)
    rms = {name: np.sqrt(np.square(found).mean()) for name, found in errors.items()}
    assert rms["precision"] < 0.75 * rms["equal"]
    covered = np.abs(deviations) < 1.96 * np.array(sizes)  # the rankings stay: at least 95 %
    assert covered.mean() > 0.92
    assert abs(np.mean(deviations, axis=0)).max() < 4 * rms["precision"] / np.sqrt(60)
    margins = answered_pairs(AnswerSums.of(levels, weights)).margins / PEOPLE
    assert np.abs(margins - (2 * share_above(orders) - 1) * (1 - np.eye(M))).max() < 0.3


def test_one_level_is_what_it_is_without_levels():
    levels, _ = of_pairs(1)
    alone = AnswerSums.of(levels[:1])
    for made in (answered_nets, lambda sums: fitted_nets(sums, 1.0)):
        part = made(alone)
        combined = combined_nets([part], np.ones(1))
        for name in ("sums", "covariance", "totals", "bias", "kept", "rankings"):
            np.testing.assert_allclose(getattr(combined, name), getattr(part, name))


def test_weights_have_the_mean_one_and_an_empty_level_has_none():
    n = np.array([10.0, 0.0, 30.0])
    weights = mean_one(np.array([1.0, 2.0, 5.0]), n)
    assert weights @ n == pytest.approx(n.sum())
    assert weights[2] == pytest.approx(5 * weights[0])
    assert effective_rankings(weights, n) == pytest.approx(160**2 / 760)
    assert effective_rankings(np.ones(3), n) == 40
    np.testing.assert_array_equal(mean_one(np.zeros(3), n), np.ones(3))


def test_the_weight_of_a_place_falls_with_epsilon():
    found = [
        variance_of_nets(lambda m, e=each: mallows_places(m, e), M, PEOPLE) for each in EPSILONS
    ]
    assert found[0] > 5 * found[1]
    nothing = NetEvidence(
        np.zeros(M), np.zeros((M, M)), np.zeros((M, M)), 0, one=1, longest=M, bias=np.inf
    )
    assert not combined_nets([nothing, nothing], ALIKE).undone
