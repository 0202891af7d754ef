"""Noise for all names of a person together, against every change of two names at once."""

from __future__ import annotations

from itertools import product
from math import isclose

import numpy as np
import pytest

from hushrank.estimation.common import central_noise
from hushrank.privacy.noise import laplace_law
from hushrank.privacy.sensitivity import Sensitivity
from hushrank.privacy.stream import stream_of
from hushrank.privacy.stream_encoder import Terms, Workload
from hushrank.privacy.units import Adjacency, NoiseKind, PrivacyParams, Unit
from tests.privacy.test_sensitivity import ADJACENCIES, STATISTICS, bundles

CALIBRATED = {
    "wins": central_noise.calibrate_win_counts,
    "pairs": central_noise.calibrate_pair_counts,
    "win-loss": central_noise.calibrate_win_loss,
}


def params_of(names: int, most: int = 2, **given: object) -> PrivacyParams:
    fields = {"adjacency": Adjacency.REPLACE_ONE, "epsilon": 1.0, **given}
    fields = {"unit": Unit.USER, **fields}
    return PrivacyParams(max_contributions=most, names_per_person=names, **fields)


def largest_of_two(statistic: str, adjacency: Adjacency, n: int, distinct: bool) -> Sensitivity:
    """Over each two names, of which both, one or none change, each by itself."""
    values = bundles(statistic, n, 2, distinct, False, None)
    starts = np.zeros_like(values[:1]) if adjacency is Adjacency.ADD_REMOVE else values
    changes = np.unique((values[:, None] - starts[None]).reshape(-1, values.shape[1]), axis=0)
    changes = np.unique(np.concatenate([changes, -changes]), axis=0)
    l1 = l2_squared = 0
    for change in changes:
        both = changes + change
        l1 = max(l1, int(np.abs(both).sum(axis=1).max()))
        l2_squared = max(l2_squared, int((both**2).sum(axis=1).max()))
    return Sensitivity(l1, l2_squared)


@pytest.mark.parametrize(
    ("statistic", "adjacency", "distinct", "n_items"),
    list(product(STATISTICS, ADJACENCIES, [False, True], [2, 3])),
)
def test_two_names_move_counts_exactly_so_far(statistic, adjacency, distinct, n_items):
    params = params_of(2, adjacency=adjacency, distinct_pairs=distinct)
    found = CALIBRATED[statistic](params, n_items).sensitivity
    assert found == largest_of_two(statistic, adjacency, n_items, distinct)


@pytest.mark.parametrize("names", [1, 2, 5])
def test_the_noise_is_of_all_names(names):
    pure = central_noise.calibrate_win_counts(params_of(names), 4)
    one = central_noise.calibrate_win_counts(params_of(1), 4)
    assert pure.law == laplace_law(Sensitivity(names * one.sensitivity.l1, 0), 1.0)
    zcdp = {"noise": NoiseKind.GAUSSIAN, "rho": 0.1}
    wide = central_noise.calibrate_win_counts(params_of(names, **zcdp), 4).law.scale
    narrow = central_noise.calibrate_win_counts(params_of(1, **zcdp), 4).law.scale
    assert isclose(wide, names * narrow, rel_tol=1e-9)


def test_the_look_is_of_all_names():
    params = params_of(3, look=0.1)
    look = central_noise.calibrate_look(params)
    assert look is not None
    assert look.sensitivity == Sensitivity(6, 18)


@pytest.mark.parametrize("noise", [{}, {"noise": NoiseKind.GAUSSIAN, "rho": 0.1}])
def test_a_stream_is_of_all_names(noise):
    def scale(names: int) -> float:
        terms, workload = Terms(nights=6, participations=2, gap=2), Workload(window=3)
        return stream_of(params_of(names, **noise), Sensitivity(2, 4), terms, workload).law.scale

    assert isclose(scale(3), 3 * scale(1), rel_tol=1e-9)


def test_names_are_of_people():
    with pytest.raises(ValueError, match=r"names_per_person bounds .* unit: user"):
        params_of(2, most=1, unit=Unit.COMPARISON)
    with pytest.raises(ValueError, match=r"names_per_person must be >= 1"):
        params_of(0)
