"""Verdicts and short numbers."""

from __future__ import annotations

import pytest

from hushrank.flows.release.release import RankedItem, Release
from hushrank.flows.release.wording import rank_interval, verdict
from tests.releases import make_release


def ranked(*intervals: tuple[int, int], width: float = 0.1, informative: bool = True) -> Release:
    """A release whose items A, B, C ... have these rank intervals."""
    lines = tuple(
        RankedItem(
            item=chr(ord("A") + position),
            rank=position + 1,
            score=0.0,
            low=-width / 2,
            high=width / 2,
            rank_low=low,
            rank_high=high,
            group=1,
        )
        for position, (low, high) in enumerate(intervals)
    )
    return make_release().model_copy(update={"ranking": lines, "informative": informative})


@pytest.mark.parametrize(
    ("intervals", "expected"),
    [
        (
            [(1, 1), (2, 3), (2, 3), (4, 4)],
            "A leads. B and C are behind it and cannot be told apart. D comes last.",
        ),
        (
            [(1, 2), (1, 2), (3, 3)],
            "A and B lead and cannot be told apart. C is behind both.",
        ),
        (
            [(1, 3), (1, 3), (1, 3), (4, 4)],
            "A, B and C lead and cannot be told apart. D is behind them.",
        ),
        ([(1, 1), (2, 2), (3, 3)], "A leads. B is behind it. C comes last."),
        ([(1, 3), (1, 3), (1, 3)], "No item can be told apart from any other."),
        # Only A is surely better than C, so C is not called behind both.
        ([(1, 2), (1, 3), (2, 3)], "A and B lead and cannot be told apart."),
        # D is behind both leaders but C, above it, is not: naming D would skip C.
        (
            [(1, 3), (1, 3), (2, 4), (3, 4), (5, 5), (6, 6)],
            "A and B lead and cannot be told apart. F comes last.",
        ),
        (
            [(1, 5)] * 5 + [(6, 6)],
            "A, B, C and 2 more lead and cannot be told apart. F is behind them.",
        ),
    ],
)
def test_verdict(intervals, expected):
    assert verdict(ranked(*intervals)) == expected


def test_verdict_of_noise_says_that_nothing_can_be_learned():
    release = ranked((1, 2), (1, 2), informative=False)
    assert verdict(release) == "Nothing useful can be learned from this release."


def test_a_rank_interval_of_one_rank_is_that_rank():
    first, second = ranked((1, 1), (2, 5)).ranking
    assert rank_interval(first) == "1"
    assert rank_interval(second) == "2–5"
