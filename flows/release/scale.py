"""On what scale the scores of a release are, and how one is written for people.

A method with another scale adds a member and its `ScaleWords`; report, terminal and ranking follow.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class Scale(StrEnum):
    """What a score is."""

    WIN_SHARE = "win-share"  # part of its comparisons that an item wins, less one half
    LOG_ODDS = "log-odds"  # logistic link: differences are log odds
    LAPLACE = "laplace"  # Laplace link
    PROBIT = "probit"  # probit link
    DIFFICULTY = "difficulty"  # of a test's items, in log odds of a right answer: larger is harder
    ABOVE_MIDDLE = "above-middle"  # places above the middle of a list
    PLACE = "place"  # mean rank less rank: only the order was released


# The scale of scores that were fitted with a link.
SCALE_OF_LINK = {"logistic": Scale.LOG_ODDS, "laplace": Scale.LAPLACE, "probit": Scale.PROBIT}


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleWords:
    """How a scale is shown.

    Attributes:
        heading: of the column of scores.
        unit: after a score, with a space in front; empty: none.
        explanation: of one score, for somebody who never heard of it.
        plot: label of a plot's axis.
        first: what the first item of a ranking is, in one word; `last`: what the last one is.
        leads: what is said of the first item, and of several.
        behind: what is said of the next ones, before who is ahead of them.
        comes_last: what is said of the last item.
        up_and_down: what an item is whose score rose or fell since the last release.
    """

    heading: str
    unit: str
    explanation: str
    plot: str
    first: str = "best"
    last: str = "worst"
    leads: tuple[str, str] = ("leads", "lead")
    behind: str = "behind"
    comes_last: str = "comes last"
    up_and_down: tuple[str, str] = ("up", "down")


def _fitted(chance_at_one: str) -> ScaleWords:
    return ScaleWords(
        heading="Score",
        unit="",
        explanation=(
            "How strongly an item is preferred; 0 is average. Only differences count: where two"
            " items are 0 apart, either wins half of their comparisons, and where they are 1"
            f" apart, the higher one wins {chance_at_one} of them."
        ),
        plot="score",
    )


WORDS = {
    Scale.WIN_SHARE: ScaleWords(
        heading="Share won",
        unit=" %",
        explanation=(
            "The part of its comparisons that an item wins. 50 % is average. It takes every pair"
            " of items to have been asked about equally often: an item that was shown more often"
            " than others gets a higher share for that reason alone."
        ),
        plot="share won, %",
    ),
    Scale.LOG_ODDS: _fitted("73 %"),  # 1 / (1 + e^-1)
    Scale.LAPLACE: _fitted("82 %"),  # 1 - e^-1 / 2
    Scale.PROBIT: _fitted("84 %"),  # the normal distribution function at 1
    Scale.DIFFICULTY: ScaleWords(
        heading="Difficulty",
        unit="",
        explanation=(
            "How hard an item is, by the Rasch model: 0 is the mean of these items, and larger is"
            " harder. Rank 1 is the hardest item. Only differences count: the odds of a right"
            " answer are 2.7 times lower on an item that is 1 harder, for whoever answers both."
        ),
        plot="difficulty (log odds; harder items to the right)",
        first="hardest",
        last="easiest",
        leads=("is the hardest", "are the hardest"),
        behind="easier than",
        comes_last="is the easiest",
        up_and_down=("harder than it was", "easier than it was"),
    ),
    Scale.ABOVE_MIDDLE: ScaleWords(
        heading="Above middle",
        unit="",
        explanation=(
            "How many places an item stands above the middle: of the consensus order where the"
            " method is kemeny, of the rankings on average where it is borda (a ranking without the"
            " item counts as 0). 0 is the middle; below 0 is the lower half."
        ),
        plot="places above the middle",
    ),
    Scale.PLACE: ScaleWords(
        heading="Score",
        unit="",
        explanation="None: only the order of the best items was released.",
        plot="",
    ),
}


class Scored(Protocol):
    """A score with its interval."""

    @property
    def score(self) -> float:
        """The score."""
        ...

    @property
    def low(self) -> float:
        """Lower end; may be infinite."""
        ...

    @property
    def high(self) -> float:
        """Upper end; may be infinite."""
        ...


def score_text(scale: Scale, value: float, decimals: int) -> str:
    """A score without its unit: a share in percent (-0.5 is 0, 0.5 is 100), or a signed number."""
    if scale is Scale.PLACE:
        return "none"
    if scale is Scale.WIN_SHARE:
        return f"{100 * (value + 0.5):.{decimals}f}"
    text = f"{value:+.{decimals}f}"
    return text if text.strip("+-0.") else text[1:]  # no sign on a zero


def interval_text(scale: Scale, line: Scored, decimals: int) -> str:
    """An interval without unit: `74–82`, `+0.31 to +0.52`; an end that is not known is `open`."""
    low, high = (
        score_text(scale, end, decimals) if math.isfinite(end) else "open"
        for end in (line.low, line.high)
    )
    return f"{low}–{high}" if scale is Scale.WIN_SHARE else f"{low} to {high}"


def score_decimals(scale: Scale, lines: Iterable[Scored]) -> int:
    """Decimals that the typical interval deserves, on the scale as it is written."""
    widths = sorted(line.high - line.low for line in lines)
    width = widths[len(widths) // 2]
    if scale is Scale.WIN_SHARE:
        return 0 if width > 0.04 else 1 if width > 0.004 else 2
    return 1 if width > 2 else 2 if width > 0.02 else 3


ROUND = (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10, 12)  # times powers of ten: ends of an axis


@dataclass(frozen=True, slots=True)
class Axis:
    """A stretch of the scale for drawings.

    Attributes:
        low, high: its ends.
        ticks: what to write at its ends and its middle.
    """

    low: float
    high: float
    ticks: tuple[str, str, str]

    def percent(self, value: float) -> float:
        """Where `value` lies on it, 0 to 100; beyond an end is at that end."""
        return min(max(100 * (value - self.low) / (self.high - self.low), 0.0), 100.0)


def axis_of(scale: Scale, lines: Iterable[Scored]) -> Axis:
    """All shares; on any other scale, zero in the middle and every finite number of `lines`."""
    if scale is Scale.WIN_SHARE:
        return Axis(-0.5, 0.5, ("0", "50", "100 %"))
    values = (abs(value) for line in lines for value in (line.score, line.low, line.high))
    reach = _round_up(max((value for value in values if math.isfinite(value)), default=1.0))
    return Axis(-reach, reach, (f"-{reach:g}", "0", f"+{reach:g}"))


def _round_up(value: float) -> float:
    """The next round number."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return float(next(step * power for step in ROUND if step * power >= value))
