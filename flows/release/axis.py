"""The part of a scale that drawings show, chosen to fit the intervals, and its round marks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hushrank.flows.release.scale import BARE, Scale, Scored

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
