"""Figure 3: the eigenvalue of the expected Hessian, and what is measured beside it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hushrank.estimation.common.links import PROBIT
from hushrank.experiments.xsc.xsc_scenarios import (
    EXPECTED,
    METRIC,
    curvature_settings,
    expected_eigenvalue,
    hessian_eigenvalue,
)
from hushrank.experiments.xsc.xsc_setting import OURS, Setting


def test_of_equal_scores_the_eigenvalue_is_known() -> None:
    """Each pair has information F'(0)^2 / (1/4) = 2 / pi, and the complete graph eigenvalue m."""
    found = expected_eigenvalue(np.zeros(7), PROBIT, 0.3)
    assert found == pytest.approx(0.3 * 7 * 2 / math.pi)


def test_with_many_people_the_eigenvalue_is_the_expected_one() -> None:
    few, many = (Setting("figure-3", "probit", 8, people, share=0.5) for people in (30, 30_000))
    found = {s.L: hessian_eigenvalue(s, np.random.default_rng(1)) for s in (few, many)}
    errors = {
        people: abs(values[OURS, METRIC] / values[EXPECTED, METRIC] - 1)
        for people, values in found.items()
    }
    assert errors[30_000] < 0.01  # one or two standard errors; 30 people: thirty times as much
    assert 0.01 < errors[30] < 0.5


def test_the_eigenvalue_grows_like_m_and_p() -> None:
    rng = np.random.default_rng(2)
    found = {
        (setting.scheme, setting.m, setting.share): hessian_eigenvalue(setting, rng)
        for setting in curvature_settings()
    }
    per_pair = [
        values[OURS, METRIC] / (m * share)
        for (_, m, share), values in found.items()
        if m is not None and share is not None
    ]
    assert min(per_pair) > 0.45
    assert max(per_pair) < 0.56
    assert all(values[OURS, "convex"] == 1 for values in found.values())
