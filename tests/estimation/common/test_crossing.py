"""Crossings are where the curve crosses, and infinite where it does not."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logit

from hushrank.estimation.common.crossing import FARTHEST, crossing


def test_each_item_has_its_own_crossing() -> None:
    targets = np.array([-2.5, 0.0, 1.25, 7.0])
    found = crossing(lambda at: at > targets, np.array([-1.0, 0.0, 0.5, 3.0]))
    np.testing.assert_allclose(found, targets, atol=1e-8)


def test_what_is_crossed_everywhere_or_nowhere_is_infinite() -> None:
    always = np.array([True, False])
    found = crossing(lambda at: np.where(always, True, False), np.array([2.0, -4.0]))
    assert found.tolist() == [-np.inf, np.inf]


@pytest.mark.parametrize("share", [1e-6, 0.5, 1 - 1e-6])
def test_a_logistic_curve_is_inverted(share: float) -> None:
    found = crossing(lambda at: 1 / (1 + np.exp(-at)) > share, np.zeros(2))
    np.testing.assert_allclose(found, logit(share), rtol=1e-6, atol=1e-8)


def test_a_score_beyond_all_that_anybody_could_see_is_infinite() -> None:
    targets = np.array([FARTHEST + 2.0, -FARTHEST - 2.0])
    found = crossing(lambda at: at > targets, np.array([-1.0, 1.0]))
    assert found.tolist() == [np.inf, -np.inf]
