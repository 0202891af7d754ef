"""Crossings are where the curve crosses, and infinite where it does not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from scipy.special import logit

from hushrank.estimation.common.links import LAPLACE, LOGISTIC, PROBIT, Floats, Link
from hushrank.estimation.common.uncertainty import (
    FARTHEST,
    WinCurves,
    crossing,
    ends_together,
    rank_tails,
)


def test_each_item_has_its_own_crossing() -> None:
    targets = np.array([-2.5, 0.0, 1.25, 7.0])
    found = crossing(lambda at: at > targets, np.array([-1.0, 0.0, 0.5, 3.0]))
    np.testing.assert_allclose(found, targets, atol=1e-8)


@pytest.mark.parametrize("n", [2, 3, 250])  # three bisections at once, and one
def test_curves_found_together_are_those_found_alone(n: int) -> None:
    scores, targets = np.linspace(-2, 2, n), np.random.default_rng(5).normal(0, 9, (2, 3, n))
    targets[0, 1, 0], targets[1, 2, -1] = FARTHEST + 3, -FARTHEST - 3  # beyond both ends
    together = crossing(lambda at: at > targets, scores, (2, 3))
    for place in np.ndindex(2, 3):
        alone = crossing(lambda at, place=place: at > targets[place], scores)
        np.testing.assert_array_equal(together[place], alone)


@pytest.mark.parametrize("n", [2, 3, 250])
def test_ends_are_the_same_whether_they_are_found_at_once_or_not(n: int) -> None:
    asked: list[list[float]] = []

    def ends_at(tails: Sequence[float]) -> tuple[Floats, Floats]:
        asked.append(list(tails))
        high = np.outer(-np.log(tails), np.arange(1, n + 1))
        return -high, 2 * high

    at = ends_together(ends_at, n)
    for tail in (*rank_tails(n), 0.3):
        for end, alone in zip(at(tail), ends_at([tail]), strict=True):
            np.testing.assert_array_equal(end, alone[0])
    assert asked[0] == rank_tails(n)
    assert sum(map(len, asked)) == 2 * len(rank_tails(n)) + 2  # those of ranks only once together


def test_what_is_crossed_everywhere_or_nowhere_is_infinite() -> None:
    always = np.array([True, False])
    found = crossing(lambda at: np.broadcast_to(always, at.shape), np.array([2.0, -4.0]))
    assert found.tolist() == [-np.inf, np.inf]


@pytest.mark.parametrize("share", [1e-6, 0.5, 1 - 1e-6])
def test_a_logistic_curve_is_inverted(share: float) -> None:
    found = crossing(lambda at: 1 / (1 + np.exp(-at)) > share, np.zeros(2))
    np.testing.assert_allclose(found, logit(share), rtol=1e-6, atol=1e-8)


def test_a_score_beyond_all_that_anybody_could_see_is_infinite() -> None:
    targets = np.array([FARTHEST + 2.0, -FARTHEST - 2.0])
    found = crossing(lambda at: at > targets, np.array([-1.0, 1.0]))
    assert found.tolist() == [np.inf, -np.inf]


@pytest.mark.parametrize(
    ("link", "off"), [(LOGISTIC, 1e-7), (PROBIT, 1e-6), (LAPLACE, 1e-3)], ids=["l", "p", "laplace"]
)
def test_a_tabulated_curve_is_the_sum_over_opponents(link: Link, off: float) -> None:
    """The slope of the Laplace link has a corner, which a cubic cannot follow."""
    generator = np.random.default_rng(3)
    scores, weights = generator.normal(0, 2, 30), generator.gamma(0.5, size=(30, 30))
    curves = WinCurves.of(weights, scores, link)
    for x in (generator.normal(0, 3, 30), scores, scores - FARTHEST / 2, scores + 1e-9):
        wanted = (weights * link.cdf(np.subtract.outer(x, scores))).sum(axis=1)
        assert np.abs(curves.at(x) - wanted).max() <= off * weights.sum(axis=1).max()


def test_two_items_that_met_each_other_alone_are_level_where_each_wins_half() -> None:
    scores, met = np.array([0.3, -1.2]), np.array([[0.0, 9.0], [9.0, 0.0]])
    curves = WinCurves.of(met, scores, LOGISTIC)
    level = crossing(lambda x: curves.at(x) > 4.5, scores)
    np.testing.assert_allclose(level, scores[::-1], atol=1e-6)
    assert (crossing(lambda x: curves.at(x) > 9.5, scores) == np.inf).all()
