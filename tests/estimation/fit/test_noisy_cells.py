"""The law of a noisy count: against sums over all cases, and by numeric derivatives."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm, poisson

from hushrank.estimation.fit import pair_meetings
from hushrank.estimation.fit.pair_meetings import CLOSED_SCALE, EXACT_MEAN, EXACT_SCALE, CellLaw
from hushrank.privacy.noise import NoiseLaw
from hushrank.privacy.units import NoiseKind

SMALL = {
    "laplace": NoiseLaw(NoiseKind.LAPLACE, 1.5),
    "gaussian": NoiseLaw(NoiseKind.GAUSSIAN, 1.5),
}
LARGE = {
    "laplace": NoiseLaw(NoiseKind.LAPLACE, 20.0),
    "gaussian": NoiseLaw(NoiseKind.GAUSSIAN, 20.0),
}


def probabilities(noise: NoiseLaw, mean: float) -> tuple[np.ndarray, np.ndarray]:
    """Every count that matters, and its chance: a Poisson number plus noise, summed up."""
    z = np.arange(-120, 121)
    power = (
        np.abs(z / noise.scale) if noise.kind is NoiseKind.LAPLACE else (z / noise.scale) ** 2 / 2
    )
    weight = np.exp(-power) / np.exp(-power).sum()
    k = np.arange(0, 80)
    whole = np.convolve(poisson.pmf(k, mean), weight)
    return np.arange(-120, 200.0), whole


@pytest.mark.parametrize("noise", SMALL.values(), ids=SMALL)
@pytest.mark.parametrize("mean", [0.05, 1.3, 14.0])
def test_small_counts_have_the_exact_law(noise: NoiseLaw, mean: float) -> None:
    assert mean <= EXACT_MEAN
    assert noise.scale <= EXACT_SCALE
    counts, chance = probabilities(noise, mean)
    seen = slice(110, 150)
    means = np.full(40, mean)
    loss, score = CellLaw(noise).loss_and_score(counts[seen], means, means)
    np.testing.assert_allclose(np.exp(-loss), chance[seen], rtol=1e-6, atol=1e-13)
    ahead, _ = CellLaw(noise).loss_and_score(counts[seen], means + 1e-5, means)
    behind, _ = CellLaw(noise).loss_and_score(counts[seen], means - 1e-5, means)
    likely = chance[seen] > 1e-9
    slope = (behind - ahead) / 2e-5
    np.testing.assert_allclose(score[likely], slope[likely], atol=1e-5)


@pytest.mark.parametrize("noise", SMALL.values(), ids=SMALL)
@pytest.mark.parametrize("mean", [0.05, 1.3, 14.0])
def test_the_score_has_mean_zero_and_the_information_is_its_variance(noise, mean) -> None:
    counts, chance = probabilities(noise, mean)
    used = chance > 1e-12
    means = np.full(int(used.sum()), mean)
    _, score = CellLaw(noise).loss_and_score(counts[used], means, means)
    assert abs((chance[used] * score).sum()) < 1e-5
    information = CellLaw(noise).information(np.array([mean]))[0]
    assert information == pytest.approx((chance[used] * score**2).sum(), rel=0.01)
    linear = 1 / (mean + noise.variance)  # what a mean of the counts would hold
    assert information > 0.999 * linear


@pytest.mark.parametrize("noise", LARGE.values(), ids=LARGE)
@pytest.mark.parametrize("mean", [0.5, 30.0, 4000.0])
def test_large_noise_is_added_to_a_normal_count(noise: NoiseLaw, mean: float) -> None:
    law, means = CellLaw(noise), np.full(7, mean)
    counts = mean + np.linspace(-70, 70, 7)
    loss, score = law.loss_and_score(counts, means, means)
    scale = np.sqrt(law.variance / 2)

    def density(count: float) -> float:
        if noise.kind is NoiseKind.GAUSSIAN:
            return float(norm.pdf(count, mean, np.sqrt(mean + law.variance)))

        def product(z: float) -> float:
            return float(np.exp(-abs(z) / scale) * norm.pdf(count - z, mean, np.sqrt(mean)))

        return quad(product, -900, 900, points=[0, count - mean], limit=400)[0]

    expected = np.log([density(count) for count in counts])
    np.testing.assert_allclose(-loss - -loss[3], expected - expected[3], atol=1e-4)
    ahead, _ = law.loss_and_score(counts, means + 1e-3, means)
    behind, _ = law.loss_and_score(counts, means - 1e-3, means)
    np.testing.assert_allclose(score, (behind - ahead) / 2e-3, atol=1e-6)


def test_laplace_noise_leaves_twice_the_information_that_a_mean_takes() -> None:
    law = CellLaw(LARGE["laplace"])
    found = law.information(np.array([0.5]))[0] * law.variance
    assert 1.8 < found < 2


def test_halves_of_split_ties_count_as_halves() -> None:
    whole, half = (
        CellLaw(NoiseLaw(NoiseKind.GAUSSIAN, 20.0)),
        CellLaw(NoiseLaw(NoiseKind.GAUSSIAN, 40.0), row_weight=2),
    )
    assert half.variance == whole.variance
    means = np.array([3.0, 50.0])
    np.testing.assert_allclose(half.information(means), whole.information(means))


@pytest.mark.parametrize("scale", [CLOSED_SCALE, 0.5, EXACT_SCALE])
def test_the_closed_form_is_the_sum(scale: float) -> None:
    """Of every count near every mean up to the largest that is summed."""
    means, counts = np.meshgrid(np.geomspace(1e-3, EXACT_MEAN, 60), np.arange(-25.0, 30.0))
    closed = pair_meetings._poisson_laplace(counts, means, scale)
    summed = pair_meetings._poisson_summed(counts, means, NoiseLaw(NoiseKind.LAPLACE, scale))
    np.testing.assert_allclose(closed[0], summed[0], rtol=1e-7)
    np.testing.assert_allclose(closed[1], summed[1], rtol=1e-5, atol=1e-6)
