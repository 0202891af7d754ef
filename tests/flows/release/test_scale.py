"""Scores as people read them, on each scale."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest

from hushrank.estimation.common.links import LINKS
from hushrank.flows.release.scale import (
    SCALE_OF_LINK,
    WORDS,
    Scale,
    axis_of,
    interval_text,
    score_decimals,
    score_text,
)


@dataclass
class Line:
    score: float
    low: float
    high: float


def wide(width: float) -> list[Line]:
    return [Line(0.0, -width / 2, width / 2)] * 3


def test_shares_are_percent_of_comparisons_won():
    shares = [score_text(Scale.WIN_SHARE, value, 0) for value in (-0.5, 0.0, 0.284, 0.5)]
    assert shares == ["0", "50", "78", "100"]
    assert score_text(Scale.WIN_SHARE, 0.2846, 1) == "78.5"
    assert interval_text(Scale.WIN_SHARE, Line(0.0, -0.04, 0.04), 0) == "46–54"


@pytest.mark.parametrize("scale", SCALE_OF_LINK.values())
def test_other_scores_carry_their_sign(scale):
    texts = [score_text(scale, value, 2) for value in (1.234, -0.5, 0.0, -0.001)]
    assert texts == ["+1.23", "-0.50", "0.00", "0.00"]
    assert interval_text(scale, Line(0.5, -0.1, 1.0), 1) == "-0.1 to +1.0"
    assert interval_text(scale, Line(0.5, -math.inf, math.inf), 1) == "open to open"


def test_a_place_is_no_score():
    assert score_text(Scale.PLACE, 2.0, 1) == "none"


@pytest.mark.parametrize(
    ("scale", "width", "decimals"),
    [
        *((Scale.WIN_SHARE, width, n) for width, n in [(0.3, 0), (0.05, 0), (0.03, 1), (0.003, 2)]),
        *((Scale.LOG_ODDS, width, n) for width, n in [(3, 1), (0.5, 2), (0.01, 3), (math.inf, 1)]),
    ],
)
def test_scores_have_as_many_decimals_as_their_intervals_deserve(scale, width, decimals):
    assert score_decimals(scale, wide(width)) == decimals


def test_every_link_has_a_scale_that_says_what_a_difference_of_one_means():
    assert set(SCALE_OF_LINK) == set(LINKS)
    for name, scale in SCALE_OF_LINK.items():
        chance = float(LINKS[name].cdf(np.ones(1))[0])
        assert f"wins {100 * chance:.0f} % of them" in WORDS[scale].explanation


def test_the_axis_of_scores_holds_every_finite_end_with_zero_in_the_middle():
    axis = axis_of(Scale.LOG_ODDS, [Line(1.0, 0.2, 1.7), Line(-1.0, -math.inf, 0.5)])
    assert (axis.low, axis.high, axis.ticks) == (-2.0, 2.0, ("-2", "0", "+2"))
    assert [axis.percent(value) for value in (-math.inf, -2, 0, 1, 9)] == [0, 0, 50, 75, 100]
    empty = axis_of(Scale.LOG_ODDS, [Line(0.0, -math.inf, math.inf)])
    assert (empty.low, empty.high) == (-1.0, 1.0)


def test_the_axis_of_shares_is_all_of_them():
    assert axis_of(Scale.WIN_SHARE, wide(0.1)).ticks == ("0", "50", "100 %")
