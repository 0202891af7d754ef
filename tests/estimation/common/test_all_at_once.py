"""What is sure of all items at once: nothing that is read off it contradicts anything else."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtri

from hushrank.estimation.common.estimate import mean_ranks
from hushrank.estimation.common.pair_separation import (
    difference_variance,
    joint_tails,
    separate_intervals,
    separate_pairs,
)
from hushrank.estimation.common.uncertainty import (
    LEVEL,
    SPENT_ON_FAR,
    RankSeparation,
    every_pair_tail,
    every_score_tail,
    separate_ranks,
)

RELEASES = 1_600  # a rate of 5 % then has an sd of 0.54 points
KINDS = ["pairs", "joint", "intervals", "ranks"]


def normal_separation(
    scores: np.ndarray, covariance: np.ndarray, kind: str = "pairs"
) -> RankSeparation:
    """Of scores whose errors are normal, by each of the four ways."""
    sd = np.sqrt(np.diagonal(covariance))
    between = np.sqrt(difference_variance(covariance))

    def ends_at(tail):
        return scores + ndtri(tail) * sd, scores - ndtri(tail) * sd

    def better_at(tail):
        return scores[:, np.newaxis] - scores > -ndtri(tail) * between

    def margin_at(tail):
        return lambda x, y: np.full(x.shape, -ndtri(tail) * between.max())

    if kind == "ranks":
        return separate_ranks(scores, margin_at, ends_at)
    if kind == "intervals":
        return separate_intervals(scores, ends_at)
    return separate_pairs(scores, better_at, ends_at, covariance if kind == "joint" else None)


def errors_of(generator: np.random.Generator, n: int) -> np.ndarray:
    """A covariance with items that are known well and items that are not."""
    root = generator.normal(size=(n, n)) * generator.lognormal(sigma=1.5, size=(n, 1))
    return root @ root.T / n


@pytest.mark.parametrize("kind", KINDS)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(2, 12), apart=st.floats(0, 30))
def test_places_intervals_and_ranks_never_contradict(kind, seed, n, apart):
    generator = np.random.default_rng(seed)
    scores = generator.normal(scale=apart, size=n).round(1)
    found = normal_separation(scores, errors_of(generator, n), kind)
    sure = found.at_once
    disjoint = sure.low[:, np.newaxis] > sure.high
    together = found.groups[:, np.newaxis] == found.groups
    assert not (together & disjoint).any()
    assert not (together & sure.better).any()
    assert (sure.better | ~disjoint).all()  # intervals that lie apart are in order
    assert (sure.better.sum(axis=0) + 1 == sure.rank_low).all()
    assert (n - sure.better.sum(axis=1) == sure.rank_high).all()
    assert (sure.better | ~(sure.better @ sure.better)).all()  # better than a better one
    assert (sure.rank_low <= found.rank_low).all()  # one item alone is known at least as well
    assert (sure.rank_high >= found.rank_high).all()
    last = np.flatnonzero(sure.rank_high == n)
    if len(last) == 1:  # so "comes last" is true of all others
        assert sure.rank_low[last[0]] == n
    if (found.groups == 1).sum() == 1 and (sure.rank_low == 1).sum() == 1:
        assert sure.rank_high[sure.rank_low == 1] == [1]


@pytest.mark.parametrize("kind", KINDS)
def test_all_of_it_is_right_in_95_percent_of_releases(kind):
    generator, n, wrong, ordered = np.random.default_rng(4), 8, 0, 0
    releases = RELEASES // 4 if kind == "joint" else RELEASES  # which takes longer
    for _ in range(releases):
        covariance = errors_of(generator, n)
        truth = generator.choice([0.0, 3.0, 10.0], n)  # with ties: any order of them is an error
        scores = truth + generator.multivariate_normal(np.zeros(n), covariance)
        sure, ranks = normal_separation(scores, covariance, kind).at_once, mean_ranks(truth)
        right = ((sure.low <= truth) & (truth <= sure.high)).all()
        right &= not (sure.better & (truth[:, np.newaxis] <= truth)).any()
        right &= ((sure.rank_low <= ranks) & (ranks <= sure.rank_high)).all()
        wrong += not right
        ordered += sure.better.sum()
    assert wrong / releases <= 0.05
    assert wrong > 0  # or else it would say far too little
    assert ordered / releases > 2  # and it does say something


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(2, 12), apart=st.floats(0, 30))
@settings(max_examples=30, deadline=None)
def test_the_joint_law_says_no_less_than_bonferroni(seed, n, apart):
    generator = np.random.default_rng(seed)
    scores, covariance = generator.normal(scale=apart, size=n), errors_of(generator, n)
    plain, joint = (normal_separation(scores, covariance, kind) for kind in ("pairs", "joint"))
    assert (joint.at_once.better | ~plain.at_once.better).all()
    assert (joint.at_once.low >= plain.at_once.low).all()
    assert (joint.rank_high - joint.rank_low <= plain.rank_high - plain.rank_low).all()


def test_the_joint_law_makes_ranks_narrower():
    """Of 12 items of equal errors, by a hundredth where nearly all orders are sure either way."""
    generator, covariance = np.random.default_rng(6), np.eye(12)
    widths = np.zeros(2)
    for _ in range(30):
        scores = 3 * generator.normal(size=12)
        for kind, name in enumerate(("pairs", "joint")):
            sure = normal_separation(scores, covariance, name).at_once
            widths[kind] += (sure.rank_high - sure.rank_low).mean()
    assert widths[1] < 0.995 * widths[0]


@pytest.mark.parametrize("n", [2, 12, 40])
def test_tails_of_independent_errors_are_those_of_the_exact_law(n):
    """One of n normal errors misses with 1 - (1 - 2 t)^n; t is found from below, within 15 %."""
    exact = (1 - (1 - LEVEL / 2) ** (1 / n)) / 2
    assert 0.85 * exact <= joint_tails(n, np.eye(n)).of_scores <= exact
    pair = joint_tails(n, np.ones((n, n)) + 1e-3 * np.eye(n))  # scores as good as one
    assert pair.of_scores > 0.6 * LEVEL / 4


@pytest.mark.parametrize(
    "covariance",
    [None, np.diag([1.0, 0.0, 1.0]), np.diag([1.0, np.inf, 1.0]), np.ones((3, 3))],
)
def test_errors_without_a_joint_law_are_judged_by_their_number(covariance):
    found = joint_tails(3, covariance)
    assert found.of_scores == every_score_tail(3)
    open_ = ~np.eye(3, dtype=bool)
    assert found.of_orders(open_) == pytest.approx((LEVEL / 2 - SPENT_ON_FAR) / 6)


def test_the_five_percent_are_spent_once():
    n = 17
    pairs, scores = n * (n - 1) / 2, n
    assert 2 * pairs * every_pair_tail(n) + 2 * scores * every_score_tail(n) == pytest.approx(0.05)


def test_what_follows_from_two_sure_pairs_is_sure():
    scores, nobody = np.array([3.0, 2.0, 1.0]), np.zeros((3, 3), bool)
    nobody[0, 1] = nobody[1, 2] = True
    found = separate_pairs(
        scores, lambda _: nobody, lambda _: (np.full(3, -np.inf), np.full(3, np.inf))
    )
    assert found.at_once.better[0, 2]
    assert found.at_once.rank_high.tolist() == [1, 2, 3]
