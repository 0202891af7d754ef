"""The scale and unit of a release's scores, and how a score is written for people.

A method with another scale adds a member, its unit and its `ScaleWords`; report, terminal and
ranking then follow. A method computes on the scale of its formulas. A release holds the same scores
in the unit that people read (`published`), so every file and every page shows the same number.

The part of a scale that drawings show, chosen to fit the intervals, and its round marks.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray


class Scale(StrEnum):
    """Meaning of a score."""

    WIN_SHARE = "win-share"  # the share of its comparisons that an item wins
    LOG_ODDS = "log-odds"  # logistic link: differences are log odds
    ELO = "elo"  # log odds as ratings of chess: see `elo_of`
    LAPLACE = "laplace"  # Laplace link
    PROBIT = "probit"  # probit link
    DIFFICULTY = "difficulty"  # log odds of a right answer to a test item; larger is harder
    POINT_DIFFICULTY = "point-difficulty"  # difficulty of items that give points, in log odds
    ANCHORED_DIFFICULTY = "anchored-difficulty"  # difficulty, with the zero of an item bank
    ABOVE_MIDDLE = "above-middle"  # places above the middle of a list
    VOTES = "votes"  # number of rankings with an item at the first place
    PLACE = "place"  # mean rank minus rank; only the order was released


class ScoreUnit(StrEnum):
    """The unit of the numbers in a release."""

    PERCENT = "percent"  # percentage of an item's comparisons
    LOG_ODDS = "log-odds"  # natural logarithm of odds
    ELO = "elo"  # 400 points are odds of 10 to 1
    LAPLACE = "laplace"  # scale of the Laplace distribution
    PROBIT = "probit"  # standard deviation of the normal distribution
    PLACES = "places"
    VOTES = "votes"
    NONE = "none"  # no score was released


UNITS = {
    Scale.WIN_SHARE: ScoreUnit.PERCENT,
    Scale.LOG_ODDS: ScoreUnit.LOG_ODDS,
    Scale.ELO: ScoreUnit.ELO,
    Scale.LAPLACE: ScoreUnit.LAPLACE,
    Scale.PROBIT: ScoreUnit.PROBIT,
    Scale.DIFFICULTY: ScoreUnit.LOG_ODDS,
    Scale.POINT_DIFFICULTY: ScoreUnit.LOG_ODDS,
    Scale.ANCHORED_DIFFICULTY: ScoreUnit.LOG_ODDS,
    Scale.ABOVE_MIDDLE: ScoreUnit.PLACES,
    Scale.VOTES: ScoreUnit.VOTES,
    Scale.PLACE: ScoreUnit.NONE,
}
# The scale of scores that a link fitted.
SCALE_OF_LINK = {"logistic": Scale.LOG_ODDS, "laplace": Scale.LAPLACE, "probit": Scale.PROBIT}
ELO_A_LOGIT = 400 / math.log(10)  # a rating 400 higher has odds of 10 to 1
MEAN_ELO = 1000.0  # rating of the mean item
BARE = (Scale.WIN_SHARE, Scale.ELO, Scale.VOTES)  # scales written without a sign
RASCH = (Scale.DIFFICULTY, Scale.ANCHORED_DIFFICULTY)  # of items that are right or wrong
DIFFICULTIES = (*RASCH, Scale.POINT_DIFFICULTY)  # scales on which higher is harder
Number = TypeVar("Number", float, NDArray[np.float64])


def published(scale: Scale, value: Number) -> Number:
    """A method's score in the unit of a release: shares, stored less one half, become percent."""
    return 100 * (value + 0.5) if scale is Scale.WIN_SHARE else value


def elo_of(log_odds: Number) -> Number:
    """The Elo rating of a score in log odds, 1000 + 400 / ln 10 times the score.

    Scores sum to zero, so the mean item has 1000.
    """
    return MEAN_ELO + ELO_A_LOGIT * log_odds


def log_odds_of(elo: Number) -> Number:
    """The inverse of `elo_of`."""
    return (elo - MEAN_ELO) / ELO_A_LOGIT


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleWords:
    """Words in which a scale is shown.

    Attributes:
        heading: heading of the column of scores.
        unit: text after a score, with a space in front; empty: none.
        explanation: meaning of a score, for somebody who never heard of it.
        plot: label of a plot's axis.
        first: one word for the first item of a ranking; `last`: one word for the last item.
        leads: words for the first item, and for several.
        very_likely_leads: words for an item that is very likely the first, before the others
            that may be.
        behind: words for the next items, before the item that is ahead of them.
        comes_last: words for the last item.
        up_and_down: words for an item whose score rose or fell since the last release.
    """

    heading: str
    unit: str
    explanation: str
    plot: str
    first: str = "best"
    last: str = "worst"
    leads: tuple[str, str] = ("leads", "lead")
    very_likely_leads: str = "very likely leads"
    behind: str = "behind"
    comes_last: str = "comes last"
    up_and_down: tuple[str, str] = ("up", "down")


def _fitted(chance_at_one: str) -> ScaleWords:
    return ScaleWords(
        heading="Score",
        unit="",
        explanation=(
            "How strongly an item is preferred; 0 is average. Only differences count: if two"
            " items are 0 apart, each wins half of their comparisons; if they are 1 apart, the"
            f" higher one wins {chance_at_one} of them."
        ),
        plot="score",
    )


def _difficulty(explanation: str) -> ScaleWords:
    return ScaleWords(
        heading="Difficulty",
        unit="",
        explanation=explanation,
        plot="difficulty (log odds; harder items to the right)",
        first="hardest",
        last="easiest",
        leads=("is the hardest", "are the hardest"),
        very_likely_leads="is very likely harder than",
        behind="easier than",
        comes_last="is the easiest",
        up_and_down=("harder than it was", "easier than it was"),
    )


WORDS = {
    Scale.WIN_SHARE: ScaleWords(
        heading="Share won",
        unit=" %",
        explanation=(
            "The part of its comparisons that an item wins. 50 % is average. It assumes that every"
            " pair of items was asked about equally often: an item that was shown more often"
            " than others gets a higher share for that reason alone."
        ),
        plot="share won, %",
    ),
    Scale.LOG_ODDS: _fitted("73 %"),  # 1 / (1 + e^-1)
    Scale.ELO: ScaleWords(
        heading="Elo",
        unit="",
        explanation=(
            "How strongly an item is preferred, as a rating of chess players: the mean item has"
            " 1000. Only differences count: if two items are 400 apart, the higher one has odds"
            " of 10 to 1, so it wins 91 % of their comparisons; if they are 100 apart, 64 %."
        ),
        plot="Elo rating",
    ),
    Scale.LAPLACE: _fitted("82 %"),  # 1 - e^-1 / 2
    Scale.PROBIT: _fitted("84 %"),  # the normal distribution function at 1
    Scale.DIFFICULTY: _difficulty(
        "How hard an item is, by the Rasch model: 0 is the mean of these items, and larger is"
        " harder. Rank 1 is the hardest item. Only differences count: the odds of a right"
        " answer are 2.7 times lower on an item that is 1 harder, if a person answers both."
    ),
    Scale.POINT_DIFFICULTY: _difficulty(
        "How hard an item is, by the partial credit model: the mean difficulty of its steps from"
        " one point to the next. 0 is the mean of these items, and larger is harder. Rank 1 is the"
        " hardest item. A person whose ability is 1 higher has odds that are 2.7 times higher of"
        " one point more, on every item."
    ),
    Scale.ANCHORED_DIFFICULTY: _difficulty(
        "How hard an item is, by the Rasch model, on the scale of the anchors: items with fixed"
        " difficulties, whose weighted mean here is that of the fixed ones. Larger is harder. Rank"
        " 1 is the hardest item. Intervals take the fixed difficulties to be exact. The odds of a"
        " right answer are 2.7 times lower on an item that is 1 harder, if a person answers both."
    ),
    Scale.ABOVE_MIDDLE: ScaleWords(
        heading="Above middle",
        unit="",
        explanation=(
            "How many places an item is above the middle: with method kemeny in the consensus"
            " order, with method borda on average over the rankings (a ranking without the item"
            " counts as 0). 0 is the middle; below 0 is the lower half."
        ),
        plot="places above the middle",
    ),
    Scale.VOTES: ScaleWords(
        heading="First preferences",
        unit="",
        explanation=(
            "In how many rankings an item is at the first place, in all groups together, with the"
            " noise that protects people."
        ),
        plot="first preferences",
    ),
    Scale.PLACE: ScaleWords(
        heading="Score",
        unit="",
        explanation="None: only the order of the best items was released.",
        plot="",
    ),
}


UNBOUNDED = "unbounded"  # an interval with no end


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
    """A score without its unit: shares and ratings as they are, others with a sign."""
    if scale is Scale.PLACE:
        return "none"
    if scale in BARE:
        return f"{value:.{decimals}f}"
    text = f"{value:+.{decimals}f}"
    return text if text.strip("+-0.") else text[1:]  # no sign on a zero


def interval_text(scale: Scale, line: Scored, decimals: int) -> str:
    """An interval without unit: `74–82`, `+0.31 to +0.52`; an unknown end is `open`.

    If both are, the interval is `unbounded`.
    """
    if math.isinf(line.low) and math.isinf(line.high):
        return UNBOUNDED
    low, high = (
        score_text(scale, end, decimals) if math.isfinite(end) else "open"
        for end in (line.low, line.high)
    )
    short = scale in BARE and low[0].isdigit() and high[0].isdigit()
    return f"{low}–{high}" if short else f"{low} to {high}"


def with_unit(scale: Scale, text: str) -> str:
    """A score or an interval with the unit of its scale, if it holds a number."""
    return text if text == UNBOUNDED else f"{text}{WORDS[scale].unit}"


def score_decimals(scale: Scale, lines: Iterable[Scored]) -> int:
    """Return the number of decimals that the typical interval with two ends deserves."""
    widths = sorted(line.high - line.low for line in lines)
    ends = [width for width in widths if math.isfinite(width)] or widths
    width = ends[len(ends) // 2]
    if scale in BARE:
        return 0 if width > 4 else 1 if width > 0.4 else 2 if width > 0.04 else 3
    return 1 if width > 2 else 2 if width > 0.02 else 3


STEPS = (1, 2, 2.5, 5, 10)  # between ticks, times powers of ten
MOST_STEPS = 6
FAR = 6.0  # an interval is cut off this many typical half widths beyond the scores
MARGIN = 0.03  # part of the stretch between the last dot or end and the edge
ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Axis:
    """A part of the scale.

    Attributes:
        low, high: ends of the axis.
        ticks: marks of the axis and their texts, ascending.
    """

    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]

    def percent(self, value: float) -> float:
        """Place of `value` on the axis, 0 to 100; a value beyond an end is put at that end."""
        return min(max(100 * (value - self.low) / (self.high - self.low), 0.0), 100.0)


def axis_of(scale: Scale, lines: Iterable[Scored]) -> Axis:
    """An axis that holds every score, and every interval end but those far beyond all others.

    An item that was hardly compared has an interval many times as wide as any other. An axis that
    held it would press all other dots into one place.
    """
    low, high = _stretch(list(lines))
    if scale is Scale.WIN_SHARE:
        low, high = max(low, min(0.0, high - 1)), min(high, max(100.0, low + 1))
    marks, decimals = round_marks(low, high)
    return Axis(low, high, tuple((mark, _tick_text(scale, mark, decimals)) for mark in marks))


def round_marks(low: float, high: float, most: int = MOST_STEPS) -> tuple[list[float], int]:
    """Round numbers from `low` to `high`, ascending, and how many decimals they need.

    Args:
        low, high: ends of an axis.
        most: steps that there are between the marks.
    """
    step = _step(high - low, most)
    first, last = math.ceil(low / step - ROUNDING), math.floor(high / step + ROUNDING)
    decimals = max(0, -math.floor(math.log10(step) + ROUNDING))
    decimals += round(step, decimals + 1) != round(step, decimals)  # for a step of 2.5
    return [step * k for k in range(first, last + 1)], decimals


def _stretch(lines: Sequence[Scored]) -> tuple[float, float]:
    scores = [line.score for line in lines]
    low, high = min(scores), max(scores)
    halves = sorted((line.high - line.low) / 2 for line in lines)
    typical = halves[len(halves) // 2]
    reach = FAR * typical if math.isfinite(typical) else max(high - low, 1.0)
    low_ends = [line.low for line in lines if line.low >= low - reach]
    high_ends = [line.high for line in lines if line.high <= high + reach]
    low, high = min([low, *low_ends]), max([high, *high_ends])
    if high - low <= ROUNDING * max(1.0, abs(low), abs(high)):
        return low - 1.0, high + 1.0
    margin = MARGIN * (high - low)
    return low - margin, high + margin


def _step(width: float, most: int) -> float:
    """The smallest round step for which `most` steps cover the width."""
    least = width / most
    power = 10.0 ** math.floor(math.log10(least))
    return float(next(step * power for step in STEPS if step * power >= least * (1 - ROUNDING)))


def _tick_text(scale: Scale, value: float, decimals: int) -> str:
    text = f"{value:.{decimals}f}"
    if not text.strip("-0."):
        return "0"
    signed = scale not in BARE and value > 0
    return f"+{text}" if signed else text
