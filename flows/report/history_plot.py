"""Ranks over time, as a picture of its own.

Importing this module imports matplotlib, which takes a second: import it where a plot is drawn.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Collection, Sequence
from datetime import date

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure

from hushrank.flows.release.release import Release
from hushrank.flows.report.style import WIDTH, page_style, page_svg, short_name
from hushrank.transforms.common.plain_text import short

EPOCH = date(1970, 1, 1)  # start of the axis of days
MOST_LINES = 10  # items drawn: the first of the last release


def ranks_over_time(
    releases: Sequence[Release], format_: str, breaks: Collection[str] = ()
) -> bytes:
    """A line for each item, rank 1 on top, with the 95 % interval of the rank at each release.

    Args:
        releases: releases of one population, the earliest first.
        format_: `svg` or `png`.
        breaks: ids of releases before which the job changed: a line stands there.
    """
    items = [line.item for line in releases[-1].ranking[:MOST_LINES]]
    with warnings.catch_warnings(), mpl.rc_context({"font.size": 9.5, "svg.hashsalt": "history"}):
        warnings.filterwarnings("ignore", "Glyph .* missing")
        figure = Figure(figsize=(8.0, 1.2 + 0.36 * len(items)), layout="constrained")
        axes = figure.add_subplot()
        for position, item in enumerate(items):
            _draw(axes, releases, item, f"C{position}")
        _frame(axes, releases, len(items))
        places = _positions(releases, [release.release_id for release in releases])
        for place, release in enumerate(releases):
            if release.release_id in breaks:
                between = places[place - 1 : place + 1].mean()
                axes.axvline(between, color="#777777", linestyle=":", linewidth=1)
        heading = f"{short(releases[-1].heading)}: {len(releases)} releases"
        axes.set_title(heading, loc="left", fontsize=10.5, parse_math=False)
        content = io.BytesIO()
        metadata = {"Date": None} if format_ == "svg" else {}
        figure.savefig(content, format=format_, dpi=120, metadata=metadata)
        return content.getvalue()


def ranks_over_time_svg(releases: Sequence[Release], description: str) -> str:
    """The same for the page of the last release, an `svg` element.

    Args:
        releases: at least two, of one population, the earliest first.
        description: text for readers who do not see the plot.
    """
    items = [line.item for line in releases[-1].ranking[:MOST_LINES]]
    with page_style(releases[-1]):
        figure = Figure(figsize=(WIDTH, 1.0 + 0.3 * len(items)), layout="constrained")
        axes = figure.add_subplot()
        for position, item in enumerate(items):
            _draw(axes, releases, item, f"C{position}")
        _frame(axes, releases, len(items))
        return page_svg(figure, axes, description)


def _draw(axes: Axes, releases: Sequence[Release], item: str, color: str) -> None:
    lines = [
        (release.release_id, line)
        for release in releases
        for line in release.ranking
        if line.item == item
    ]
    when = _positions(releases, [release_id for release_id, _ in lines])
    ranks = np.array([float(line.rank) for _, line in lines])
    low, high = (
        np.array([float(getattr(line, end)) for _, line in lines])
        for end in ("rank_low", "rank_high")
    )
    axes.fill_between(when, low, high, color=color, alpha=0.12, linewidth=0)
    axes.errorbar(
        when,
        ranks,
        yerr=(np.maximum(ranks - low, 0), np.maximum(high - ranks, 0)),
        color=color,
        marker="o",
        markersize=5,
        linewidth=1.8,
        elinewidth=0.8,
    )
    label = axes.annotate(
        short_name(releases[-1].shown()[item]),
        (when[-1], ranks[-1]),
        xytext=(9, 0),
        textcoords="offset points",
        va="center",
        color=color,
        annotation_clip=False,
    )
    label.set_parse_math(False)


def _positions(releases: Sequence[Release], release_ids: Sequence[str]) -> np.ndarray:
    """Places of releases on the axis of days; several of one day stand beside each other."""
    days = [release.day for release in releases]
    place = {}
    for index, release in enumerate(releases):
        same = [i for i, day in enumerate(days) if day == release.day]
        shift = same.index(index) / len(same)
        place[release.release_id] = (release.day - EPOCH).days + shift
    return np.array([place[release_id] for release_id in release_ids])


def _frame(axes: Axes, releases: Sequence[Release], n_drawn: int) -> None:
    lowest = max(line.rank_high for line in releases[-1].ranking[:n_drawn])
    axes.set_ylim(max(lowest, n_drawn) + 0.5, 0.5)
    axes.yaxis.set_major_locator(mpl.ticker.MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
    axes.set_ylabel("rank, with 95 % interval")
    locator = AutoDateLocator(minticks=2, maxticks=8)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    form = ConciseDateFormatter(locator)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_formatter(form)
    axes.grid(axis="y", linewidth=0.5, color="#dddddd")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
