"""Link functions against high-precision arithmetic, and the constants that privacy rests on."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushrank.estimation.common.links import LAPLACE, LINKS, LOGISTIC, PROBIT, Link, link_named

DIFFERENCES = [-200.0, -99.0, -40.0, -8.0, -1.0, -1e-6, 1e-6, 0.5, 3.0, 37.0]
GRID = np.linspace(-30, 30, 60_001)

CDF = {
    "logistic": lambda d: 1 / (1 + mpmath.exp(-d)),
    "probit": mpmath.ncdf,
    "laplace": lambda d: mpmath.exp(d) / 2 if d < 0 else 1 - mpmath.exp(-d) / 2,
}


@pytest.mark.parametrize("link", LINKS.values(), ids=LINKS)
@pytest.mark.parametrize("d", DIFFERENCES)
def test_values_and_derivatives_are_those_of_log_f(link: Link, d: float) -> None:
    def log_f(x: mpmath.mpf) -> mpmath.mpf:
        return mpmath.log(CDF[link.name](x))

    with mpmath.workdps(120):
        value, slope, bend = (mpmath.diff(log_f, mpmath.mpf(d), order) for order in range(3))
    point = np.array([d])
    assert link.log_cdf(point)[0] == pytest.approx(float(value), rel=1e-12)
    assert link.slope(point)[0] == pytest.approx(float(slope), rel=1e-11)
    assert link.curvature(point)[0] == pytest.approx(-float(bend), rel=1e-8, abs=1e-99)


@pytest.mark.parametrize("link", LINKS.values(), ids=LINKS)
def test_extreme_differences_stay_finite(link: Link) -> None:
    with np.errstate(all="raise", under="ignore", over="ignore"):
        for d in (-1e8, -800.0, 800.0, 1e8):
            point = np.array([d])
            assert np.isfinite(link.log_cdf(point)).all()
            assert np.isfinite(link.derivatives(point)).all()
            assert (np.array(link.derivatives(point)) >= 0).all()


@pytest.mark.parametrize("link", LINKS.values(), ids=LINKS)
@given(d=st.floats(-50, 50))
def test_winning_and_losing_are_complements(link: Link, d: float) -> None:
    probabilities = link.cdf(np.array([d, -d]))
    assert probabilities.sum() == pytest.approx(1, abs=1e-14)


@pytest.mark.parametrize("link", [LOGISTIC, LAPLACE], ids=["logistic", "laplace"])
def test_privacy_constants_are_suprema(link: Link) -> None:
    """Each bound holds on a fine grid and is attained to 0.5 % on it: neither broken nor loose."""
    flip = link.slope(GRID) + link.slope(-GRID)  # F'/F + F'/(1 - F) = F'/(F(1 - F))
    curvature = link.curvature(GRID)
    for values, bound in (
        (link.slope(GRID), link.slope_bound),
        (flip, link.kappa1),
        (curvature, link.kappa2),
    ):
        assert values.max() <= bound * (1 + 1e-12)
        assert values.max() >= bound * 0.995
    even = np.allclose(curvature, curvature[::-1], rtol=1e-12)
    assert even == link.outcome_free_curvature


def test_probit_has_no_bounded_gradient() -> None:
    """Why objective perturbation refuses it: one comparison can move the gradient without limit."""
    assert PROBIT.slope(np.array([-1e4]))[0] == pytest.approx(1e4, rel=1e-6)
    assert math.isinf(PROBIT.slope_bound)
    assert math.isinf(PROBIT.kappa1)


def test_laplace_curvature_at_the_kink_lies_between_its_sides() -> None:
    left, middle, right = LAPLACE.curvature(np.array([-1e-12, 0.0, 1e-12]))
    assert (left, middle) == (0, 1)
    assert right == pytest.approx(2)


@pytest.mark.parametrize("link", LINKS.values(), ids=LINKS)
def test_information_is_the_variance_of_the_score(link: Link) -> None:
    d = np.linspace(-4, 4, 41)
    chance = link.cdf(d)
    variance = chance * link.slope(d) ** 2 + (1 - chance) * link.slope(-d) ** 2
    assert link.information(d) == pytest.approx(variance, rel=1e-10)


def test_unknown_link_is_refused() -> None:
    assert link_named("laplace") is LAPLACE
    with pytest.raises(ValueError, match="logistic, probit, laplace; got 'cauchy'"):
        link_named("cauchy")
