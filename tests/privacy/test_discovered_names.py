"""Names by a threshold: sensitivity by enumeration, the tables of the design, laws, an audit."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom, norm

from hushrank.privacy.accounting import Spend, composed_epsilon, rho_for
from hushrank.privacy.discovered_names import (
    ONE,
    WEIGHTS,
    NamesMechanism,
    discovery_of,
    names_sensitivity,
    publish_names,
    threshold_of,
)
from hushrank.privacy.noise import gaussian_law
from hushrank.privacy.randomness import system_bits
from hushrank.privacy.units import MOST_NAMES_FOUND, Adjacency, Discovery
from tests.statistics import FALSE_POSITIVE_RATE, discrete_gaussian_pmf, law_p_value

ADDED, REPLACED = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE
ITEMS = 5


def weights_of(people: list[set[int]], most: int) -> np.ndarray:
    """The sums of weights, name by name, straight from the definition."""
    total = np.zeros(ITEMS, np.int64)
    for names in people:
        kept = sorted(names)[:most]
        for name in kept:
            total[name] += math.isqrt(ONE**2 // len(kept))
    return total


@pytest.mark.parametrize("most", [1, 2, 3, 5])
@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_the_sensitivity_is_the_largest_change_of_all_small_inputs(most, adjacency):
    """All sets of names of one person, and all pairs of such sets."""
    sets = [set(s) for k in range(ITEMS + 1) for s in itertools.combinations(range(ITEMS), k)]
    others = [{0}, {0, 1}]
    l1 = l2 = 0
    for one, two in itertools.product(sets, sets if adjacency is REPLACED else [None]):
        other = others if two is None else [*others, two]
        change = weights_of([*others, one], most) - weights_of(other, most)
        l1, l2 = max(l1, int(abs(change).sum())), max(l2, int((change**2).sum()))
    bound = names_sensitivity(most, adjacency)
    assert bound.l2_squared == l2
    sides = 1 if adjacency is ADDED else 2
    fits = sides * most <= ITEMS  # two people with most names each, none in common
    assert bound.l1 == l1 if fits else bound.l1 >= l1


def test_no_number_of_names_weighs_more_than_one_name():
    numbers = np.arange(1, MOST_NAMES_FOUND + 1)
    assert (numbers * WEIGHTS[1:] ** 2 <= ONE**2).all()
    assert (np.diff(numbers * WEIGHTS[1:]) > 0).all()
    assert (WEIGHTS[1:] > ONE / np.sqrt(numbers) - 1).all()


# People for an even chance, of people with 1, 10 and 50 names, at epsilon_d 1, .2 and .05.
PEOPLE = {
    ADDED: {1.0: (23, 75, 176), 0.2: (98, 334, 785), 0.05: (356, 1222, 2878)},
    REPLACED: {1.0: (33, 105, 246), 0.2: (149, 471, 1109), 0.05: (546, 1728, 4069)},
}


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("epsilon", [1.0, 0.2, 0.05])
def test_as_many_people_as_in_the_table_have_an_even_chance(adjacency, epsilon):
    law = gaussian_law(names_sensitivity(50, adjacency), rho_for(epsilon, 5e-7, ONE**2))
    single, ten, fifty = PEOPLE[adjacency][epsilon]
    for most, names, people in ((1, 1, single), (10, 10, ten), (50, 50, fifty)):
        needed = threshold_of(law, 5e-7, most) / WEIGHTS[names]
        tolerance = 0.05 if adjacency is ADDED or names > 1 else 0.09  # at most 10 names there
        assert needed == pytest.approx(people, rel=tolerance), (most, names)


@pytest.mark.parametrize("most", [1, 3, 20, 100])
@pytest.mark.parametrize("delta", [2.5e-7, 1e-4])
def test_no_name_of_one_person_alone_passes_with_more_than_delta(most, delta):
    """By the exact tail of the discrete Gaussian, at a scale where it can be summed."""
    law = gaussian_law(names_sensitivity(most, REPLACED), 2.0**37)  # a scale of a few units
    least = threshold_of(law, delta, most)
    worst = 0.0
    values = np.arange(-200, 201)
    mass = discrete_gaussian_pmf(law.scale)(values)
    for t in range(1, most + 1):
        passes = mass[values >= least - WEIGHTS[t]].sum()
        worst = max(worst, 1 - (1 - passes) ** t)
    assert worst <= delta
    assert worst > delta / 1e4  # three units are much at this scale


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize(("epsilon", "most"), [(0.2, 10), (1.0, 20), (4.0, 100)])
def test_no_number_of_own_names_passes_with_more_than_delta(adjacency, epsilon, most):
    """At the scales of a release the tail is the normal one, but for 1 part in 10^5."""
    delta = 5e-7
    law = gaussian_law(names_sensitivity(most, adjacency), rho_for(epsilon, delta, ONE**2))
    least, numbers = threshold_of(law, delta, most), np.arange(1, most + 1)
    passes = norm.sf((least - WEIGHTS[numbers] - 1) / law.scale)
    any_of_them = -np.expm1(numbers * np.log1p(-passes))
    assert any_of_them.max() <= delta
    assert any_of_them.max() == pytest.approx(delta, rel=1e-4)


@pytest.mark.parametrize(
    ("epsilon", "delta", "share"), [(0.1, 1e-6, 0.2), (2, 1e-7, 0.5), (9, 1e-6, 0.1)]
)
@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_the_parts_together_are_no_more_than_the_whole(epsilon, delta, share, adjacency):
    parts = discovery_of(epsilon, delta, share, 20, adjacency)
    squared = names_sensitivity(20, adjacency).l2_squared
    spends = [Spend(rho=parts.rho, l2_squared=squared), Spend(rho=parts.rest)]
    left = float(Fraction(repr(delta)) * Fraction(3, 4))
    assert parts.delta_names <= delta / 4
    assert composed_epsilon(spends, left) <= epsilon
    assert composed_epsilon(spends, left) > 0.9 * epsilon
    assert parts.rho == pytest.approx(share * (parts.rho + parts.rest))


@pytest.mark.parametrize(("share", "most"), [(0.0, 20), (0.6, 20), (0.2, 0), (0.2, 101)])
def test_terms_out_of_range_are_refused(share, most):
    with pytest.raises(ValueError, match=r"share|most_items"):
        discovery_of(1.0, 1e-6, share, most, REPLACED)


TERMS = Discovery(epsilon=1.0, delta=1e-6, rho=0.5, rest=0.5, delta_names=0.04, most_names=3)


def test_the_noise_has_the_stated_law():
    """A correct draw fails with probability 1e-6; a scale 20 % off is told apart."""
    scale = 3.0
    rho = names_sensitivity(1, ADDED).l2_squared / (2 * scale**2)
    law = gaussian_law(names_sensitivity(1, ADDED), rho)
    every = NamesMechanism(names_sensitivity(1, ADDED), law, threshold=-(10**9))
    _, noisy = publish_names(np.full(200_000, 1000, np.int64), every, system_bits())
    for wrong, right in ((1.0, True), (1.2, False), (0.8, False)):
        p = law_p_value(noisy - 1000, discrete_gaussian_pmf(wrong * law.scale))
        assert (p > FALSE_POSITIVE_RATE) is right


def test_only_names_that_reach_the_threshold_are_published_and_none_without_weight():
    still = NamesMechanism(
        names_sensitivity(3, ADDED), gaussian_law(names_sensitivity(3, ADDED), math.inf), 10
    )
    places, noisy = publish_names(np.array([9, 10, 0, 30]), still, system_bits())
    assert places.tolist() == [3, 1]
    assert noisy.tolist() == [30, 10]


RUNS = 40_000


def published(weights: np.ndarray, mechanism: NamesMechanism) -> np.ndarray:
    """Which names are published, shape (RUNS, names)."""
    repeated = np.tile(weights, RUNS)
    places, _ = publish_names(repeated, mechanism, system_bits())
    found = np.zeros(len(repeated), np.bool_)
    found[places] = True
    return found.reshape(RUNS, len(weights))


def breaks(with_person: np.ndarray, without: np.ndarray, mechanism: NamesMechanism) -> bool:
    """Whether an attacker proves that the person's own names appear more often than delta allows.

    The event: a name appears that only the person wrote. Without the person it never does, so its
    probability is at most delta. A correct mechanism is called broken with probability 1e-6.
    """
    seen = published(with_person, mechanism)[:, without == 0].any(axis=1).sum()
    return bool(binom.sf(seen - 1, RUNS, TERMS.delta_names) < FALSE_POSITIVE_RATE)


def test_an_audit_of_a_person_with_own_names_finds_nothing():
    mechanism = NamesMechanism.of(TERMS, ADDED)
    for names in (1, 2, 3):
        own = np.full(names, WEIGHTS[names])
        assert not breaks(np.append(9 * ONE, own), np.append(9 * ONE, 0 * own), mechanism)


@pytest.mark.parametrize(
    ("bug", "threshold", "own"),
    [
        ("no threshold", -(10**9), [WEIGHTS[3]] * 3),
        ("weight 1 in place of 1 / sqrt(d)", None, [ONE] * 3),
        ("a name counts as often as it is written", None, [3 * ONE]),
    ],
)
def test_the_audit_finds_planted_bugs(bug, threshold, own):
    sound = NamesMechanism.of(TERMS, ADDED)
    least = sound.threshold if threshold is None else threshold
    broken = NamesMechanism(sound.sensitivity, sound.law, least)
    alone = np.append(9 * ONE, own)
    assert breaks(alone, np.append(9 * ONE, np.zeros(len(own), np.int64)), broken), bug
