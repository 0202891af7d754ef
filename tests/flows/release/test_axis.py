"""The axis of a drawing: the stretch that fits what is drawn."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushrank.flows.release.scale import FAR, Scale, axis_of


@dataclass
class Line:
    score: float
    low: float
    high: float


def around(score: float, half: float) -> Line:
    return Line(score, score - half, score + half)


def test_it_fits_the_intervals_and_has_round_marks():
    axis = axis_of(Scale.LOG_ODDS, [around(1.0, 0.2), around(-1.0, 0.3)])
    assert (axis.low, axis.high) == pytest.approx((-1.3 - 0.075, 1.2 + 0.075))
    assert [text for _, text in axis.ticks] == ["-1.0", "-0.5", "0", "+0.5", "+1.0"]
    ends = (-math.inf, axis.low, (axis.low + axis.high) / 2, 9)
    assert [axis.percent(value) for value in ends] == pytest.approx([0, 0, 50, 100])


def test_shares_that_are_close_have_an_axis_of_their_own():
    axis = axis_of(Scale.WIN_SHARE, [around(52, 1.5), around(48, 1.5)])
    assert (axis.low, axis.high) == pytest.approx((46.5 - 0.21, 53.5 + 0.21))
    assert [text for _, text in axis.ticks] == ["48", "50", "52"]
    whole = axis_of(Scale.WIN_SHARE, [Line(50, 0, 100)] * 3)
    assert (whole.low, whole.high) == (0, 100)
    assert [text for _, text in whole.ticks] == ["0", "20", "40", "60", "80", "100"]


def test_one_endless_or_very_wide_interval_does_not_press_all_others_into_one_dot():
    usual = [around(score / 10, 0.1) for score in range(-5, 6)]
    narrow = axis_of(Scale.LOG_ODDS, usual)
    for wide in (around(0.0, 50.0), Line(0.0, -math.inf, math.inf)):
        axis = axis_of(Scale.LOG_ODDS, [*usual, wide])
        assert (axis.low, axis.high) == (narrow.low, narrow.high)


def test_where_nothing_is_known_there_is_an_axis_still():
    axis = axis_of(Scale.LOG_ODDS, [Line(0.0, -math.inf, math.inf)] * 2)
    assert axis.low < 0 < axis.high


@given(
    st.lists(st.tuples(st.floats(-1e3, 1e3), st.floats(1e-3, 1e3)), min_size=2, max_size=40),
    st.sampled_from([Scale.LOG_ODDS, Scale.ELO, Scale.DIFFICULTY]),
)
def test_every_score_and_every_usual_end_is_on_it(drawn, scale):
    lines = [around(score, half) for score, half in drawn]
    axis = axis_of(scale, lines)
    typical = sorted(line.high - line.low for line in lines)[len(lines) // 2] / 2
    top, bottom = max(line.score for line in lines), min(line.score for line in lines)
    for line in lines:
        assert axis.low <= line.score <= axis.high
        if line.high <= top + 0.99 * FAR * typical:
            assert line.high <= axis.high
        if line.low >= bottom - 0.99 * FAR * typical:
            assert line.low >= axis.low
    at = [value for value, _ in axis.ticks]
    assert at == sorted(set(at))
    assert 2 <= len(at) <= 7
    texts = [float(text) for _, text in axis.ticks]
    assert texts == pytest.approx(at, abs=1e-9 * max(map(abs, at)))
