"""What a figure of `hushrank reproduce beyond` is: how it is measured, and how it is drawn."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib.figure
import numpy as np

WIDTH, HEIGHT = 3.6, 3.0  # of a panel, inches


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One measured point.

    Attributes:
        panel: title of the panel.
        way: what was measured, a line of the panel.
        x: where on the axis.
        value: mean over replicates.
        se: its standard error.
    """

    panel: str
    way: str
    x: float
    value: float
    se: float


def points_of(found: Mapping[tuple[str, str, float], Sequence[float]]) -> list[Point]:
    """Means over replicates and their standard errors, of each panel, way and place on the axis."""
    return [
        Point(
            panel=panel,
            way=way,
            x=x,
            value=float(np.mean(values)),
            se=float(np.std(values) / math.sqrt(max(len(values) - 1, 1))),
        )
        for (panel, way, x), values in found.items()
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One figure: panels side by side, a line a way.

    Attributes:
        name: as `--only` takes it, and of the files.
        title: what it shows.
        x, y: labels of the axes.
        measure: from the number of replicates to points.
        replicates, quick: how many there are, and with `--quick`.
        log_x: whether that axis is logarithmic.
        log_y: titles of the panels in which the other one is.
    """

    name: str
    title: str
    x: str
    y: str
    measure: Callable[[int], Sequence[Point]]
    replicates: int
    quick: int
    log_x: bool = True
    log_y: tuple[str, ...] = ()


def draw(figure: Figure, points: Sequence[Point], out: Path) -> None:
    """The figure as PNG and SVG, into the folder `out`."""
    panels = list(dict.fromkeys(point.panel for point in points))
    drawing = matplotlib.figure.Figure(figsize=(WIDTH * len(panels), HEIGHT), layout="constrained")
    axes = drawing.subplots(1, len(panels), squeeze=False).ravel()
    for panel, axis in zip(panels, axes, strict=True):
        own = [point for point in points if point.panel == panel]
        for way in dict.fromkeys(point.way for point in own):
            line = sorted((p for p in own if p.way == way), key=lambda point: point.x)
            axis.errorbar(
                [point.x for point in line],
                [point.value for point in line],
                yerr=[1.96 * point.se for point in line],
                marker="o",
                markersize=3,
                label=way,
            )
        axis.set(title=panel, xlabel=figure.x, ylabel=figure.y)
        axis.set_xscale("log" if figure.log_x else "linear")
        axis.set_yscale("log" if panel in figure.log_y else "linear")
    axes[0].legend(fontsize="small")
    drawing.suptitle(figure.title)
    for ending in ("png", "svg"):
        drawing.savefig(out / f"{figure.name}.{ending}", dpi=150)
