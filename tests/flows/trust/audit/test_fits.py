"""The likelihood that audits of fits use: densities of what is released, by numerical integrals."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad

from hushrank.estimation.common.links import LOGISTIC
from hushrank.estimation.fit.likelihood import Likelihood
from hushrank.flows.trust.audit.fits import FitLikelihood, log_shifted
from hushrank.privacy.units import NoiseKind


@pytest.mark.parametrize(
    "values", [[0.0, 0.0], [1.0, -2.5], [0.3, 0.3, 4.0], [3.0, -1.0, 2.0, 9.0]]
)
def test_the_constant_is_integrated_out(values):
    exponent = lambda c: np.exp(-np.abs(np.array(values) - c).sum())  # noqa: E731
    whole, _ = quad(exponent, -40, 50, points=sorted(set(values)), limit=400)
    assert log_shifted(np.array([values]))[0] == pytest.approx(np.log(whole), abs=1e-6)


def fit(wins: list[float], kind: NoiseKind, effects: int) -> FitLikelihood:
    """Two items: item 0 won so often, item 1 so often, with a covariate or none."""
    design = np.array([[1.0, -1.0, 0.5], [-1.0, 1.0, 1.0]])[:, : 2 + effects]
    ridges = np.array([0.8, 0.8, 1.5])[: 2 + effects]
    objective = Likelihood(design=design, wins=np.array(wins), link=LOGISTIC, ridges=ridges)
    scales = np.array([1.0, 1.0, 2.0])[: 2 + effects]
    return FitLikelihood(objective=objective, n_items=2, kind=kind, scales=scales)


@pytest.mark.parametrize("kind", NoiseKind)
def test_densities_of_scores_have_the_same_integral(kind):
    """It is a constant of all logs, so ratios are exact; without the determinant it is not."""
    half = np.linspace(-40, 40, 40_001)
    points = np.column_stack([half, -half])
    totals, others = [], []
    for wins in ([1.0, 0.0], [7.0, 2.0], [0.0, 30.0]):
        log_density = fit(wins, kind, 0).log_density(points)
        determinant = np.linalg.slogdet(fit(wins, kind, 0).objective.hessians(points))[1]
        totals.append(np.trapezoid(np.exp(log_density), half))
        others.append(np.trapezoid(np.exp(log_density - determinant), half))
    assert totals == pytest.approx([totals[0]] * 3, rel=1e-4)
    assert others != pytest.approx([others[0]] * 3, rel=0.1)


def test_densities_of_scores_and_effects_have_the_same_integral():
    half = np.linspace(-18, 18, 361)
    effect = np.linspace(-30, 30, 361)
    scores, effects = (each.ravel() for each in np.meshgrid(half, effect))
    points = np.column_stack([scores, -scores, effects])
    totals = [
        np.exp(fit(wins, NoiseKind.LAPLACE, 1).log_density(points)).sum()
        for wins in ([1.0, 0.0], [4.0, 2.0], [0.0, 9.0])
    ]
    assert totals == pytest.approx([totals[0]] * 3, rel=5e-3)
