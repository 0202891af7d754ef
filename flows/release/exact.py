"""A line of a ranking with all its digits, as in `ranking.csv`."""

from __future__ import annotations

import math

from hushrank.flows.release.release import RankedItem, Release
from hushrank.flows.release.scale import WORDS


def exact_text(release: Release, line: RankedItem) -> str:
    """Item, score and interval with as many digits as `ranking.csv` has, in the release's unit."""
    name = line.item if line.label is None else f"{line.label} ({line.item})"
    if not release.informative:
        return f"{name}: nothing is known"
    score, low, high = (
        f"{value:.6f}" if math.isfinite(value) else "open"
        for value in (line.score, line.low, line.high)
    )
    unit = WORDS[release.scale].unit
    return f"{name}: {score}{unit}, 95 % interval {low} to {high}{unit}"
