"""Counts beside a ranking: what they cost, how far a person moves them, and where the truth is."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from hushrank.estimation.common.central_noise import calibrate_look
from hushrank.estimation.common.private_counts import (
    SENSITIVITIES,
    Interval,
    calibrate_counts,
    noisy_counts,
    share_of_contradicting,
)
from hushrank.privacy.accounting import Spend, decimal_value
from hushrank.privacy.noise import NoiseKind, NoiseLaw
from hushrank.privacy.pilot_query import (
    MOST_SHARE,
    epsilon_of_counts,
    epsilon_with,
    spend_with_look,
    with_look,
)
from hushrank.privacy.private_counts import with_counts
from hushrank.privacy.randomness import seeded_bits
from hushrank.privacy.units import Adjacency, PrivacyParams, Query, Unit
from tests.statistics import FALSE_POSITIVE_RATE

ALL = tuple(Query)
MOST = 3


def params_of(adjacency: Adjacency = Adjacency.REPLACE_ONE, **budget) -> PrivacyParams:
    return PrivacyParams(
        unit=Unit.USER, adjacency=adjacency, max_contributions=MOST, **{"epsilon": 2.0, **budget}
    )


def counted(answers: tuple[tuple[int, int], ...]) -> dict[Query, np.ndarray]:
    """What one person adds: each answer is a pair and its outcome; at most `MOST` count."""
    sides = [{result for pair, result in answers if pair == each} for each in (0, 1)]
    often = [sum(pair == each for pair, _ in answers) for each in (0, 1)]
    contrary = any(len(each) == 2 for each in sides)
    repeated = max(often) > 1
    return {
        Query.PEOPLE: np.array([bool(answers)]),
        Query.ANSWERS: np.array([len(answers)]),
        Query.CONTRADICTIONS: np.array([contrary, repeated and not contrary]),
    }


EVERY_PERSON = [
    person
    for n in range(MOST + 1)
    for person in combinations_with_replacement(list(product((0, 1), (0, 1))), n)
]


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("query", ALL)
def test_the_sensitivity_is_the_largest_change_over_all_small_people(query, adjacency):
    people = [counted(each)[query].astype(int) for each in EVERY_PERSON]
    nobody = [np.zeros_like(people[0])]
    others = nobody if adjacency is Adjacency.ADD_REMOVE else [*people, *nobody]
    moved = [one - other for one in people for other in others]
    stated = SENSITIVITIES[query](params_of(adjacency))
    assert max(np.abs(each).sum() for each in moved) == stated.l1
    assert max((each**2).sum() for each in moved) == stated.l2_squared


@given(
    st.floats(1e-6, 1e3),
    st.floats(1e-3, MOST_SHARE),
    st.sets(st.sampled_from(ALL), min_size=1),
)
def test_the_parts_never_exceed_the_whole(epsilon, share, queries):
    whole = params_of(epsilon=epsilon)
    parted = with_counts(with_look(whole, 0.1), share, tuple(queries), epsilon)
    each = decimal_value(parted.counts.epsilon) * len(queries)
    total = each + decimal_value(parted.look) + decimal_value(parted.epsilon)
    assert Fraction(0) < total <= decimal_value(epsilon)
    assert float(each) == pytest.approx(share * epsilon)
    assert float(total) == pytest.approx(epsilon)
    joint = spend_with_look(Spend(epsilon=parted.epsilon), parted).epsilon
    assert joint == epsilon_with(parted.epsilon, parted) <= epsilon


def test_gaussian_releases_are_told_as_epsilon_and_delta():
    whole = params_of(noise=NoiseKind.GAUSSIAN, delta=1e-6)
    parted = with_counts(whole, 0.1, ALL[:2], 2.0)
    assert (parted.epsilon, parted.delta, epsilon_of_counts(parted)) == (1.8, 1e-6, 0.2)
    assert spend_with_look(Spend(rho=0.1), parted) == Spend(epsilon=2.0, delta=1e-6)


def test_what_cannot_be_set_aside_is_refused():
    whole = params_of()
    for share in (0.0, 0.6, math.nan):
        with pytest.raises(ValueError, match="above 0 and at most"):
            with_counts(whole, share, ALL, 2.0)
    for queries in ((), (Query.PEOPLE, Query.PEOPLE)):
        with pytest.raises(ValueError, match="each once"):
            with_counts(whole, 0.1, queries, 2.0)
    with pytest.raises(ValueError, match="already"):
        with_counts(with_counts(whole, 0.1, ALL, 2.0), 0.1, ALL, 2.0)
    with pytest.raises(ValueError, match="leaves no epsilon"):
        with_counts(with_look(whole, 0.5), 0.5, ALL[:2], 2.0)
    rho = params_of(epsilon=math.inf, rho=0.1, noise=NoiseKind.GAUSSIAN)
    with pytest.raises(ValueError, match="rho is given instead"):
        with_counts(rho, 0.1, ALL, 2.0)
    unprotected = params_of(epsilon=math.inf)
    assert with_counts(unprotected, 0.1, ALL, math.inf) == unprotected


@pytest.mark.parametrize("names", [1, 3])
def test_each_query_has_laplace_noise_of_its_part_whatever_the_rest_has(names):
    whole = params_of(noise=NoiseKind.GAUSSIAN, delta=1e-6, names_per_person=names)
    parted = with_counts(whole, 0.3, ALL, 2.0)
    laws = calibrate_counts(parted)
    scales = {query: law.law.scale for query, law in laws.items()}
    assert scales == pytest.approx({ALL[0]: 5 * names, ALL[1]: 15 * names, ALL[2]: 10 * names})
    assert all(law.law.kind is NoiseKind.LAPLACE for law in laws.values())
    assert calibrate_look(parted) is None
    assert calibrate_counts(replace(parted, counts=None)) == {}


@pytest.mark.parametrize("query", ALL)
def test_the_noise_has_its_law_and_every_number_its_own(query):
    """False positives: the stated rate, halved for two tests of a query."""
    laws = {query: calibrate_counts(with_counts(params_of(), 0.3, ALL, 2.0))[query]}
    runs, size = 4_000, 2
    exact = {query: np.full((runs, size), 50)}
    noise = noisy_counts(exact, laws, seeded_bits(5))[query] - 50
    scale = laws[query].law.scale
    beyond = int((np.abs(noise) > scale).sum())  # a scale of 0.9 or 1.1 times fails
    ratio = math.exp(-1 / scale)
    expected = 2 * ratio ** (math.floor(scale) + 1) / (1 + ratio)
    test = binomtest(beyond, runs * size, expected)
    assert test.pvalue > FALSE_POSITIVE_RATE / 2
    same = binomtest(
        int((noise[:, 0] > noise[:, 1]).sum()), int((noise[:, 0] != noise[:, 1]).sum())
    )
    assert same.pvalue > FALSE_POSITIVE_RATE / 2


@pytest.mark.parametrize("true", [0, 3, 400])
@pytest.mark.parametrize("scale", [0.3, 5.0, 60.0])
def test_an_interval_holds_the_true_number(true, scale):
    """In 95 % of draws or more; a false positive has the stated rate."""
    law, runs = NoiseLaw(NoiseKind.LAPLACE, scale), 2_000
    random = np.random.default_rng(round(true + 10 * scale))
    p = -math.expm1(-1 / scale)
    drawn = true + random.geometric(p, runs) - random.geometric(p, runs)
    held = sum(each.low <= true <= each.high for each in (Interval.of(int(k), law) for k in drawn))
    assert binomtest(held, runs, 0.95, "less").pvalue > FALSE_POSITIVE_RATE


@pytest.mark.parametrize(("contrary", "consistent"), [(7, 93), (60, 20), (0, 40), (2, 1), (0, 1)])
def test_the_interval_of_the_share_holds_the_true_share(contrary, consistent):
    law, runs = NoiseLaw(NoiseKind.LAPLACE, 6.0), 1_000
    random = np.random.default_rng(contrary)
    p = -math.expm1(-1 / 6.0)
    held = 0
    for _ in range(runs):
        noise = random.geometric(p, 2) - random.geometric(p, 2)
        seen = share_of_contradicting(np.array([contrary, consistent]) + noise, law)
        low, high = seen.interval()
        assert seen.share is None or low <= seen.share <= high
        held += low <= contrary / (contrary + consistent) <= high
    assert binomtest(held, runs, 0.95, "less").pvalue > FALSE_POSITIVE_RATE
