"""The law of a place: by enumeration, by the mechanism itself, and where it is refused."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pytest

from hushrank.estimation.rankings.mechanism_choice import (
    MOST_LAPLACE,
    laplace_places,
    mallows_places,
)
from hushrank.privacy.laplace_baselines import laplace_rankings
from hushrank.privacy.randomness import seeded_bits

DRAWS = 200_000


@pytest.mark.parametrize("epsilon", [0.3, 4.0])
@pytest.mark.parametrize("m", [2, 3, 5])
def test_the_law_of_a_place_under_mallows_is_that_of_all_rankings(m: int, epsilon: float) -> None:
    places = np.array(list(permutations(range(m))))  # place of each true place
    above, below = np.triu_indices(m, 1)
    chance = np.exp(epsilon / (m - 1) * (places[:, above] < places[:, below]).sum(axis=1))
    chance /= chance.sum()
    for item in range(m):
        expected = np.bincount(places[:, item], chance, m)
        np.testing.assert_allclose(mallows_places(m, epsilon)[item], expected, atol=1e-14)


@pytest.mark.parametrize("epsilon", [1.0, 8.0])
def test_the_law_of_a_place_under_laplace_is_that_of_the_mechanism(epsilon: float) -> None:
    """Of each of 36 shares: five standard errors of a mean of 200 000; another epsilon is found."""
    m = 6
    items, lengths = np.tile(np.arange(m), DRAWS), np.full(DRAWS, m)
    places = np.argsort(laplace_rankings(items, lengths, epsilon, seeded_bits(1)).reshape(-1, m), 1)
    found = np.array([np.bincount(column, minlength=m) for column in places.T]) / DRAWS
    law = laplace_places(m, epsilon)
    assert (np.abs(found - law) < 5 * np.sqrt(law * (1 - law) / DRAWS)).all()
    other = laplace_places(m, 1.2 * epsilon)
    assert (np.abs(found - other) > 5 * np.sqrt(other * (1 - other) / DRAWS)).any()


@pytest.mark.parametrize("law", [mallows_places, laplace_places])
@pytest.mark.parametrize("m", [1, 2, 30])
def test_places_are_permuted(law, m):
    for epsilon in (1e-3, 1.0, 60.0):
        table = law(m, epsilon)
        np.testing.assert_allclose(table.sum(axis=0), 1, atol=1e-10)
        np.testing.assert_allclose(table.sum(axis=1), 1, atol=1e-10)
        np.testing.assert_allclose(table, table[::-1, ::-1], atol=1e-10)
    keep = math.exp(1.0) / (1 + math.exp(1.0))
    assert mallows_places(2, 1.0)[0, 0] == pytest.approx(keep)


@pytest.mark.parametrize("law", [mallows_places, laplace_places])
def test_arguments_that_do_not_fit_are_refused(law):
    with pytest.raises(ValueError, match="finite and > 0"):
        law(3, 0.0)
    with pytest.raises(ValueError, match="1 item or more"):
        law(0, 1.0)
    with pytest.raises(ValueError, match="takes too long"):
        laplace_places(MOST_LAPLACE + 1, 1.0)
