"""The item map: test items along an axis of difficulty, as a plot for the report."""

from __future__ import annotations

from itertools import groupby

import numpy as np
from matplotlib.axes import Axes

from hushrank.flows.release.axis import Axis, axis_of
from hushrank.flows.release.boards import RankedItem
from hushrank.flows.release.release import Release
from hushrank.flows.release.scale import WORDS
from hushrank.flows.report.plots import band, beyond, dot, mark, ranked_svg
from hushrank.flows.report.style import ACCENT, LINE, SOFT

STRIPE = 0.42  # from an item to the edge of its stripe; leaves a gap to the next stripe


def item_map_svg(release: Release, description: str) -> str:
    """Dots at the difficulties, hardest on top, with their 95 % intervals.

    A band whose end is open or far away leaves the frame under an arrow. Items that cannot be put
    in order share a shaded stripe.

    Args:
        release: a release of difficulties.
        description: text for readers who do not see the plot.

    Returns:
        An `svg` element without references to anything outside it.
    """
    axis = axis_of(release.scale, release.ranking)

    def draw(axes: Axes, lines: list[RankedItem]) -> None:
        mark(axes, axis)
        _shade_groups(axes, lines)
        if release.informative:
            _draw_bands(axes, lines, axis)
        at = [line.score for line in lines]
        axes.plot(at, range(len(lines)), "o", color=ACCENT, markersize=dot(lines), zorder=3)
        axes.axvline(0, color=LINE, linewidth=1.2, zorder=0.5)
        axes.set_xlabel(WORDS[release.scale].plot)

    return ranked_svg(release, draw, description)


def _draw_bands(axes: Axes, lines: list[RankedItem], axis: Axis) -> None:
    y = np.arange(len(lines))
    low, high = (np.array([getattr(line, end) for line in lines]) for end in ("low", "high"))
    axes.hlines(y, *beyond(axis, low, high), color=SOFT, linewidth=band(lines))
    cut_off = (low < axis.low, axis.low, "<"), (high > axis.high, axis.high, ">")
    for is_open, end, arrow in cut_off:
        edge = np.full(int(is_open.sum()), end)
        axes.plot(edge, y[is_open], arrow, color=ACCENT, markersize=6, clip_on=False, zorder=4)


def _shade_groups(axes: Axes, lines: list[RankedItem]) -> None:
    first = 0
    for _, group in groupby(lines, key=lambda line: line.group):
        size = len(list(group))
        if size > 1:
            top, bottom = first - STRIPE, first + size - 1 + STRIPE
            axes.axhspan(top, bottom, color=LINE, alpha=0.45, linewidth=0)
        first += size
