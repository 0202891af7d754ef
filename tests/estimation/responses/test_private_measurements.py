"""Noise on differential measurements: its law, on every entry of the graph, zeros included.

False-positive rate of each statistical assertion: 1e-6.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from hushrank.estimation.common.central_noise import Calibration
from hushrank.estimation.responses.item_graph import (
    ItemGraph,
    complete_graph,
    even_graph,
    random_graph,
)
from hushrank.estimation.responses.measurements import (
    DifferentialMeasurements,
    calibrate_measurements,
    measurements_on,
    release_measurements,
)
from hushrank.privacy.accounting import epsilon_of
from hushrank.privacy.audit import audit_epsilon, one_by_one
from hushrank.privacy.noise import add_noise
from hushrank.privacy.randomness import RandomBits, seeded_bits, system_bits
from hushrank.privacy.units import Adjacency, NoiseKind, PrivacyParams, Unit
from tests.statistics import (
    FALSE_POSITIVE_RATE,
    discrete_gaussian_pmf,
    discrete_laplace_pmf,
    law_p_value,
)

Mechanism = Callable[[DifferentialMeasurements, PrivacyParams, RandomBits], NDArray[np.int64]]

GAUSSIAN = PrivacyParams(
    unit=Unit.USER,
    adjacency=Adjacency.REPLACE_ONE,
    epsilon=1.0,
    delta=1e-6,
    noise=NoiseKind.GAUSSIAN,
    max_contributions=3,
)
LAPLACE = PrivacyParams(
    unit=Unit.USER, adjacency=Adjacency.REPLACE_ONE, epsilon=2.0, max_contributions=3
)
SPARSE = random_graph(60, 0.1, seeded_bits(5))
PMF = {NoiseKind.LAPLACE: discrete_laplace_pmf, NoiseKind.GAUSSIAN: discrete_gaussian_pmf}


def counts_on(graph: ItemGraph) -> DifferentialMeasurements:
    """Measurements of which nearly all are zero, as in a small or well designed test."""
    y = np.random.default_rng(0).poisson(0.3, (graph.n_items, graph.n_items)).astype(np.int64)
    return measurements_on(graph, y)


@pytest.mark.parametrize("params", [GAUSSIAN, LAPLACE], ids=["gaussian", "laplace"])
@pytest.mark.parametrize("graph", [complete_graph(60), SPARSE], ids=["dense", "sparse"])
def test_noise_has_the_calibrated_law_on_every_entry(
    params: PrivacyParams, graph: ItemGraph
) -> None:
    counts = counts_on(graph)
    n_draws = 30_000 // (2 * graph.n_edges)
    calibration = calibrate_measurements(params, graph.n_items, graph.n_edges)
    draws = [release_measurements(counts, calibration, system_bits()) for _ in range(n_draws)]
    noise = np.array([noisy.y - counts.y for noisy in draws])
    assert not noise[:, ~graph.mask()].any()
    law = calibration.law
    for where in (graph.mask() & (counts.y == 0), graph.mask() & (counts.y > 0)):
        sample = noise[:, where].ravel()
        assert len(sample) > 1000
        assert law_p_value(sample, PMF[law.kind](law.scale)) > FALSE_POSITIVE_RATE
    everywhere = noise[:, graph.mask()].ravel()
    for wrong in (0.8, 1.25):  # the test has power
        assert law_p_value(everywhere, PMF[law.kind](wrong * law.scale)) < FALSE_POSITIVE_RATE


def test_calibration_is_the_theorem_s() -> None:
    gaussian = calibrate_measurements(GAUSSIAN, 10, 45)
    assert gaussian.sensitivity.l2_squared == 4  # 2 floor(9 / 4)
    rho = gaussian.spend.rho
    assert rho is not None
    assert gaussian.law.scale**2 == pytest.approx(4 / (2 * rho))
    assert 0.999 < epsilon_of(gaussian.spend, GAUSSIAN.delta) <= GAUSSIAN.epsilon
    laplace = calibrate_measurements(LAPLACE, 10, 45)
    assert laplace.law.scale == pytest.approx(4 / 2.0)
    assert laplace.spend.epsilon == LAPLACE.epsilon


def test_without_privacy_nothing_is_added() -> None:
    counts = counts_on(SPARSE)
    open_ = PrivacyParams(unit=Unit.USER, adjacency=Adjacency.REPLACE_ONE, epsilon=math.inf)
    calibration = calibrate_measurements(open_, SPARSE.n_items, SPARSE.n_edges)
    released = release_measurements(counts, calibration, system_bits())
    assert (released.y == counts.y).all()
    assert calibration.law.scale == 0


def test_noise_is_added_once() -> None:
    calibration = calibrate_measurements(GAUSSIAN, SPARSE.n_items, SPARSE.n_edges)
    released = release_measurements(counts_on(SPARSE), calibration, seeded_bits(1))
    assert not released.confidential
    with pytest.raises(ValueError, match="noise already"):
        release_measurements(released, calibration, seeded_bits(2))


def calibrated(measurements: DifferentialMeasurements, params: PrivacyParams) -> Calibration:
    graph = measurements.graph
    return calibrate_measurements(params, graph.n_items, graph.n_edges)


def spares_the_zeros(
    measurements: DifferentialMeasurements, params: PrivacyParams, bits: RandomBits
) -> NDArray[np.int64]:
    """Erratum E5, planted: noise only where a count is not zero."""
    law = calibrated(measurements, params).law
    return np.where(measurements.y == 0, 0, add_noise(measurements.y, law, bits))


def half_the_noise(
    measurements: DifferentialMeasurements, params: PrivacyParams, bits: RandomBits
) -> NDArray[np.int64]:
    """Planted: calibrated as if replacing a person moved no more than adding one."""
    cheap = replace(params, adjacency=Adjacency.ADD_REMOVE)
    return release_measurements(measurements, calibrated(measurements, cheap), bits).y


def as_released(
    measurements: DifferentialMeasurements, params: PrivacyParams, bits: RandomBits
) -> NDArray[np.int64]:
    return release_measurements(measurements, calibrated(measurements, params), bits).y


@pytest.mark.parametrize(
    ("mechanism", "private"),
    [(as_released, True), (spares_the_zeros, False), (half_the_noise, False)],
)
def test_an_audit_finds_what_is_not_private(mechanism: Mechanism, private: bool) -> None:
    """Three items and one person who is replaced by their opposite: right where they were wrong."""
    y = np.array([[0, 0, 0], [1, 0, 0], [1, 0, 0]])
    left, right = (measurements_on(complete_graph(3), each) for each in (y, y.T))
    bits = seeded_bits(7)
    found = audit_epsilon(
        one_by_one(lambda measurements: mechanism(measurements, LAPLACE, bits)),
        left,
        right,
        trials=30_000,
        confidence=1 - FALSE_POSITIVE_RATE,
    )
    assert (found.epsilon_lower <= LAPLACE.epsilon) == private
    if private:
        assert found.epsilon_lower > 0.5 * LAPLACE.epsilon  # the audit is not idle


@pytest.mark.parametrize(("largest_degree", "private"), [(2, True), (1, False)])
def test_an_audit_finds_a_degree_that_is_too_small(largest_degree: int, private: bool) -> None:
    """A cycle of six items: of four in a row every second is right; the reverse replaces it."""
    graph = even_graph(6, 2, seeded_bits(3))
    walk = [0]
    while len(walk) < 4:
        beside = np.flatnonzero(graph.mask()[walk[-1]])
        walk.append(next(int(item) for item in beside if int(item) not in walk))
    y = np.zeros((6, 6), np.int64)
    y[np.ix_(walk[::2], walk[1::2])] = 1
    left, right = (measurements_on(graph, each) for each in (y, y.T))
    params = replace(LAPLACE, max_contributions=4)
    calibration = calibrate_measurements(params, 6, graph.n_edges, largest_degree)
    bits = seeded_bits(9)

    def released(measurements: DifferentialMeasurements) -> NDArray[np.int64]:
        return release_measurements(measurements, calibration, bits).y[graph.entries]

    found = audit_epsilon(
        one_by_one(released), left, right, trials=40_000, confidence=1 - FALSE_POSITIVE_RATE
    )
    assert (found.epsilon_lower <= params.epsilon) == private
    if private:
        assert found.epsilon_lower > 0.35 * params.epsilon  # the audit is not idle
