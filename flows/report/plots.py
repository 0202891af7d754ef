"""Plots of a release, as SVG for the page; `figures` decides which release gets which plot.

Importing this module imports matplotlib, which takes a second: import it where a plot is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from hushrank.estimation.common.uncertainty import LEVEL, quantile
from hushrank.flows.release.axis import Axis, axis_of
from hushrank.flows.release.boards import RankedItem
from hushrank.flows.release.exact import exact_text
from hushrank.flows.release.release import Release
from hushrank.flows.release.scale import WORDS, Scale
from hushrank.flows.report.style import (
    ACCENT,
    MUTED,
    SOFT,
    WIDTH,
    Spot,
    page_style,
    page_svg,
    short_name,
)
from hushrank.privacy.units import NoiseKind
from hushrank.transforms.common.schema import Ties

MOST_NAMED = 60  # most items for which each line has its name
MOST, BEST = 400, 360  # most items drawn; a longer ranking shows so many of its best, and its worst
NUMBERED = 20  # if lines have no names, every 20th line has its place
ROW, THIN_ROW = 0.28, 0.026  # height in inches of an item with a name, and without
LEAST_THIN = 4.0  # least height in inches of a plot without names


def win_counts_svg(release: Release, wins: dict[str, int | float], description: str) -> str:
    """Dots at the noisy win counts, best on top, with 95 % intervals.

    The thick part of an interval is the privacy noise alone: the exact count lies in it. The thin
    part adds sampling error. It is the interval of the score on the scale of the counts, and is
    left out if the release is not informative.

    Args:
        release: a release of noisy counts.
        wins: wins by item, in comparisons.
        description: text for readers who do not see the plot.

    Returns:
        An `svg` element without references to anything outside it.
    """
    noisy = release.privacy.mechanism != "none"

    def draw(axes: Axes, lines: list[RankedItem]) -> None:
        _draw_counts(axes, release, wins, lines)
        axes.set_xlabel("comparisons won, noise included" if noisy else "comparisons won")
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.xaxis.set_major_locator(mpl.ticker.MaxNLocator(6, integer=True))

    return ranked_svg(release, draw, description)


def scores_svg(release: Release, description: str) -> str:
    """Dots at the scores, best on top, with 95 % intervals; an open end leaves the frame.

    Args:
        release: a release on any scale.
        description: text for readers who do not see the plot.

    Returns:
        As `win_counts_svg`.
    """
    axis = axis_of(release.scale, release.ranking)

    def draw(axes: Axes, lines: list[RankedItem]) -> None:
        y = np.arange(len(lines))
        low, at, high = (
            np.array([getattr(line, name) for line in lines]) for name in ("low", "score", "high")
        )
        axes.hlines(y, *beyond(axis, low, high), color=SOFT, linewidth=band(lines))
        axes.plot(at, y, "o", color=ACCENT, markersize=dot(lines), zorder=3)
        mark(axes, axis)
        axes.set_xlabel(WORDS[release.scale].plot)

    return ranked_svg(release, draw, description)


def ranked_svg(
    release: Release, draw: Callable[[Axes, list[RankedItem]], None], description: str
) -> str:
    """A plot with one line for each item; `draw` draws into the empty frame."""
    lines = drawn_lines(release)
    named = len(lines) <= MOST_NAMED
    height = ROW * len(lines) if named else max(LEAST_THIN, THIN_ROW * len(lines))
    with page_style(release):
        figure = Figure(figsize=(WIDTH, 0.75 + height), layout="constrained")
        axes = figure.add_subplot()
        draw(axes, lines)
        _frame(axes, len(lines))
        (_label_items if named else _number_items)(axes, lines)
        if len(lines) < len(release.ranking):
            axes.axhline(BEST - 0.5, color=MUTED, linewidth=1, linestyle=(0, (1, 3)))
        spots = [
            Spot(x=axes.get_xlim(), y=(place - 0.5, place + 0.5), text=exact_text(release, line))
            for place, line in enumerate(lines)
        ]
        return page_svg(figure, axes, description, spots)


def mark(axes: Axes, axis: Axis) -> None:
    """Set the limits and the ticks of the axis."""
    axes.set_xlim(axis.low, axis.high)
    axes.set_xticks([at for at, _ in axis.ticks], [text for _, text in axis.ticks])


def beyond(
    axis: Axis, low: NDArray[np.float64], high: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Ends of bands as they are drawn; an open or far end lies outside the frame."""
    width = axis.high - axis.low
    return np.maximum(low, axis.low - width), np.minimum(high, axis.high + width)


def band(lines: Sequence[RankedItem]) -> float:
    """Width of a band, in points."""
    return 6 if len(lines) <= MOST_NAMED else 1.5


def dot(lines: Sequence[RankedItem]) -> float:
    """Diameter of a dot, in points."""
    return 5.5 if len(lines) <= MOST_NAMED else 2.2


def drawn_lines(release: Release) -> list[RankedItem]:
    """The lines of the ranking that a plot shows: all, or the best and the worst."""
    lines = list(release.ranking)
    if len(lines) <= MOST:
        return lines
    return lines[:BEST] + lines[BEST - MOST :]


def _draw_counts(
    axes: Axes, release: Release, wins: dict[str, int | float], lines: list[RankedItem]
) -> None:
    won = np.array([wins[line.item] for line in lines], float)
    y = np.arange(len(lines))
    if release.informative and release.scale is Scale.WIN_SHARE:
        asked = 2 * sum(wins.values()) / len(wins)  # comparisons of an item, as the scores assume
        low, high = (np.array([getattr(line, end) for line in lines]) for end in ("low", "high"))
        thin = 0.2 * band(lines)
        axes.hlines(y, low / 100 * asked, high / 100 * asked, color=ACCENT, linewidth=thin)
    half = noise_half_width(release)
    if half > 0:
        axes.hlines(y, won - half, won + half, color=SOFT, linewidth=band(lines), zorder=1)
    axes.plot(won, y, "o", color=ACCENT, markersize=dot(lines), zorder=3)


def noise_half_width(release: Release) -> float:
    """Half width of the 95 % interval of an exact count around the noisy one, in comparisons."""
    privacy = release.privacy
    if privacy.mechanism == "none" or release.noise_variance is None:
        return 0.0
    kind = NoiseKind(privacy.mechanism.removeprefix("discrete-"))
    deviations = float(quantile(np.array(1.0), LEVEL / 2, kind, n_draws=1))
    units = getattr(release.released, "row_weight", (privacy.ties or Ties.DROP).row_weight)
    return deviations * math.sqrt(release.noise_variance) / units


def _label_items(axes: Axes, lines: list[RankedItem]) -> None:
    short = [short_name(line.shown) for line in lines]
    axes.set_yticks(range(len(lines)), short, parse_math=False)  # a name may hold dollar signs


def _number_items(axes: Axes, lines: list[RankedItem]) -> None:
    """Label lines by place, because names do not fit; pointing at a line shows its name."""
    at = [0, *range(NUMBERED - 1, len(lines), NUMBERED)]
    axes.set_yticks(at, [f"{place + 1}" for place in at])
    axes.set_ylabel("place in the ranking")


def _frame(axes: Axes, n_lines: int) -> None:
    axes.set_ylim(n_lines - 0.4, -0.6)
    axes.grid(axis="x", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, pad=6)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
