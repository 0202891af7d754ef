"""A line of a ranking with all its digits, as in `ranking.csv`."""

from __future__ import annotations

import math

from hushrank.flows.release.boards import RankedItem
from hushrank.flows.release.release import Release
from hushrank.flows.release.scale import WORDS


def exact_text(release: Release, line: RankedItem) -> str:
    """Item, score and interval with the digits of `ranking.csv`, in the release's unit."""
    name = line.item if line.label is None else f"{line.label} ({line.item})"
    if not release.informative:
        return f"{name}: nothing is known"
    score, low, high = (_end(value) for value in (line.score, line.low, line.high))
    unit = WORDS[release.scale].unit
    text = f"{name}: {score}{unit}, 95 % interval {low} to {high}{unit}"
    if line.low_all is None or line.high_all is None:
        return text
    low, high = (_end(value) for value in (line.low_all, line.high_all))
    text += f", all at once {low} to {high}{unit}"
    if line.p_best is None or line.p_top is None:
        return text
    return f"{text}, chance to be first {line.p_best:.6f}, among {release.top} {line.p_top:.6f}"


def _end(value: float) -> str:
    return f"{value:.6f}" if math.isfinite(value) else "open"
