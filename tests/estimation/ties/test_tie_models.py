"""Probabilities of the three outcomes by the formulas of the papers, and slopes by differences."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logit

from hushrank.estimation.ties.tie_models import TieModel, outcomes_of

GAPS = np.array([-4.0, -0.7, 0.0, 0.3, 6.0])


@pytest.mark.parametrize("equals", [0.02, 0.3, 0.8])
def test_davidson_is_the_papers(equals: float) -> None:
    nu = TieModel.DAVIDSON.parameter(equals)
    strength = np.exp(GAPS)  # against an item of strength 1
    weights = np.stack([strength, np.ones(5), nu * np.sqrt(strength)])
    found = outcomes_of(TieModel.DAVIDSON, GAPS, float(logit(equals))).probabilities
    assert found == pytest.approx(weights / weights.sum(axis=0), rel=1e-12)
    assert nu / (2 + nu) == pytest.approx(equals)


@pytest.mark.parametrize("equals", [0.02, 0.3, 0.8])
def test_rao_kupper_is_the_papers(equals: float) -> None:
    theta = TieModel.RAO_KUPPER.parameter(equals)
    strength = np.exp(GAPS)
    won, lost = strength / (strength + theta), 1 / (1 + theta * strength)
    tied = (theta**2 - 1) * strength / ((strength + theta) * (1 + theta * strength))
    found = outcomes_of(TieModel.RAO_KUPPER, GAPS, float(logit(equals))).probabilities
    assert found == pytest.approx(np.stack([won, lost, tied]), rel=1e-12)
    assert (theta - 1) / (theta + 1) == pytest.approx(equals)


@pytest.mark.parametrize("model", TieModel)
@pytest.mark.parametrize("tie", [-3.0, -0.5, 1.5])
def test_probabilities_add_up_and_slopes_are_theirs(model: TieModel, tie: float) -> None:
    step = 1e-6
    found = outcomes_of(model, GAPS, tie)
    assert found.probabilities.sum(axis=0) == pytest.approx(np.ones(5))
    for slopes, (gap, more) in ((found.by_gap, (step, 0)), (found.by_tie, (0, step))):
        ahead, back = (
            np.log(outcomes_of(model, GAPS + sign * gap, tie + sign * more).probabilities)
            for sign in (1, -1)
        )
        assert slopes == pytest.approx((ahead - back) / (2 * step), abs=1e-8)
