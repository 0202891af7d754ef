"""Scores as people read them, on each scale."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest

from hushrank.estimation.common.links import LINKS
from hushrank.flows.release.scale import (
    SCALE_OF_LINK,
    UNITS,
    WORDS,
    Scale,
    elo_of,
    interval_text,
    log_odds_of,
    published,
    score_decimals,
    score_text,
    with_unit,
)


@dataclass
class Line:
    score: float
    low: float
    high: float


def wide(width: float) -> list[Line]:
    return [Line(0.0, -width / 2, width / 2)] * 3


def test_shares_are_percent_of_comparisons_won():
    shares = [published(Scale.WIN_SHARE, value) for value in (-0.5, 0.0, 0.284, 0.5)]
    assert [score_text(Scale.WIN_SHARE, value, 0) for value in shares] == ["0", "50", "78", "100"]
    assert score_text(Scale.WIN_SHARE, 78.46, 1) == "78.5"
    assert interval_text(Scale.WIN_SHARE, Line(50, 46, 54), 0) == "46–54"
    assert published(Scale.LOG_ODDS, 0.3) == 0.3


def test_elo_is_400_a_factor_of_ten_and_the_mean_item_has_1000():
    assert elo_of(0.0) == 1000
    assert elo_of(math.log(10)) == pytest.approx(1400)
    assert log_odds_of(elo_of(0.7)) == pytest.approx(0.7)
    for apart, percent in ((400, 91), (100, 64)):  # as the explanation says
        chance = float(LINKS["logistic"].cdf(np.array([log_odds_of(1000.0 + apart)]))[0])
        assert f"{100 * chance:.0f}" == f"{percent}"
        assert f"{percent} %" in WORDS[Scale.ELO].explanation
    assert score_text(Scale.ELO, 1043.6, 0) == "1044"
    assert interval_text(Scale.ELO, Line(1000, 930, math.inf), 0) == "930 to open"
    assert interval_text(Scale.ELO, Line(0, -30, 20), 0) == "-30 to 20"


def test_every_scale_has_a_unit_and_words():
    assert set(UNITS) == set(WORDS) == set(Scale)


@pytest.mark.parametrize("scale", SCALE_OF_LINK.values())
def test_other_scores_carry_their_sign(scale):
    texts = [score_text(scale, value, 2) for value in (1.234, -0.5, 0.0, -0.001)]
    assert texts == ["+1.23", "-0.50", "0.00", "0.00"]
    assert interval_text(scale, Line(0.5, -0.1, 1.0), 1) == "-0.1 to +1.0"
    assert interval_text(scale, Line(0.5, -math.inf, math.inf), 1) == "unbounded"
    assert interval_text(scale, Line(0.5, -math.inf, 1.0), 1) == "open to +1.0"
    assert with_unit(scale, "unbounded") == "unbounded"
    assert with_unit(Scale.WIN_SHARE, "12–14") == "12–14 %"


def test_a_place_is_no_score():
    assert score_text(Scale.PLACE, 2.0, 1) == "none"


@pytest.mark.parametrize(
    ("scale", "width", "decimals"),
    [
        *((Scale.WIN_SHARE, width, n) for width, n in [(30, 0), (5, 0), (3, 1), (0.3, 2)]),
        *((Scale.ELO, width, n) for width, n in [(60, 0), (3, 1)]),
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
