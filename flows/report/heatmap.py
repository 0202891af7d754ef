"""The noisy matrix of wins as a heatmap, for the page.

Importing this module imports matplotlib, which takes a second: import it where a plot is drawn.
"""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from hushrank.flows.release.private_sums import ReleasedPairAnswers
from hushrank.flows.release.public_pairs import ReleasedOutcomes
from hushrank.flows.release.ranking_counts import ReleasedAbove
from hushrank.flows.release.release import Release
from hushrank.flows.release.statistics import ReleasedPairs, ReleasedRankings
from hushrank.flows.release.ties import ReleasedTies
from hushrank.flows.report.style import (
    ACCENT,
    INK,
    PAGE,
    WIDTH,
    Spot,
    page_style,
    page_svg,
    short_name,
)

MOST = 25  # items shown; a longer ranking shows its best
MOST_WITH_NUMBERS = 10  # most items for which each cell shows its count
LIGHT_ON_DARK = 0.55  # a cell with a stronger colour shows its number in the page's colour
COLUMN_NAME = 14


Matrix = (
    ReleasedPairs
    | ReleasedOutcomes
    | ReleasedTies
    | ReleasedRankings
    | ReleasedAbove
    | ReleasedPairAnswers
)


def heatmap_svg(release: Release, pairs: Matrix, description: str) -> str:
    """Rows and columns by rank; the more often a row beat a column, the stronger the colour.

    Pairs that were never compared have no cell.

    Args:
        release: gives the order.
        pairs: the matrix.
        description: text for readers who do not see the plot.

    Returns:
        An `svg` element without references to anything outside it.
    """
    names = shown_items(release)
    wins = pairs.among(names)
    with page_style(release):
        figure = Figure(figsize=(WIDTH, 0.9 + 0.3 * len(names)), layout="constrained")
        axes = figure.add_subplot()
        _draw_cells(axes, wins)
        _label(axes, [release.shown()[name] for name in names])
        return page_svg(figure, axes, description, _spots(release, pairs, names, wins))


def _spots(
    release: Release, pairs: Matrix, names: list[str], wins: NDArray[np.float64]
) -> list[Spot]:
    """What each cell says."""
    of_rankings = isinstance(pairs, ReleasedRankings | ReleasedAbove | ReleasedPairAnswers)
    verb = "above" if of_rankings else "over"
    shown = release.shown()
    return [
        Spot(
            x=(column, column + 1),
            y=(row, row + 1),
            text=f"{shown[names[row]]} {verb} {shown[names[column]]}: {wins[row, column]:,g}",
        )
        for row, column in np.ndindex(wins.shape)
        if row != column and not np.isnan(wins[row, column])
    ]


def shown_items(release: Release) -> list[str]:
    """The items that the heatmap shows: all, or the best if there are many."""
    return [line.item for line in release.ranking[:MOST]]


def _draw_cells(axes: Axes, wins: NDArray[np.float64]) -> None:
    n, most = len(wins), max(float(np.nanmax(wins)), 1.0)
    for row in range(n):
        for column in range(n):
            if row == column or np.isnan(wins[row, column]):
                continue
            strength = min(max(float(wins[row, column]) / most, 0.0), 1.0)
            cell = Rectangle((column, row), 1, 1, facecolor=ACCENT, alpha=strength, linewidth=0)
            axes.add_patch(cell)
            if n <= MOST_WITH_NUMBERS:
                ink = PAGE if strength > LIGHT_ON_DARK else INK
                text = f"{wins[row, column]:,.0f}"
                axes.text(column + 0.5, row + 0.5, text, ha="center", va="center", color=ink)
    axes.set_xlim(0, n)
    axes.set_ylim(n, 0)


def _label(axes: Axes, names: list[str]) -> None:
    centres = np.arange(len(names)) + 0.5
    numbered = [f"{place}. {short_name(name)}" for place, name in enumerate(names, start=1)]
    axes.set_yticks(centres, numbered, parse_math=False)
    if len(names) <= MOST_WITH_NUMBERS:
        columns = [short_name(name, COLUMN_NAME) for name in names]
        rotation = 30 if max(map(len, columns)) > 4 else 0
    else:
        columns, rotation = [f"{place}" for place in range(1, len(names) + 1)], 0
    alignment = "left" if rotation else "center"
    axes.set_xticks(centres, columns, parse_math=False, rotation=rotation, ha=alignment)
    axes.xaxis.tick_top()
    axes.tick_params(length=0, pad=4)
    if len(names) > MOST_WITH_NUMBERS:
        axes.tick_params(axis="x", labelsize=7.5)
    for spine in axes.spines.values():
        spine.set_visible(False)
