"""Figures of the experiments of streams, as PNG and SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from hushrank.privacy.sensitivity import Sensitivity
from hushrank.privacy.stream import stream_of
from hushrank.privacy.stream_encoder import Terms, Workload
from hushrank.privacy.units import Adjacency, NoiseKind, PrivacyParams, Unit

Rows = Sequence[Mapping[str, Any]]
COLORS = {"composition": "tab:grey", "caps": "tab:orange", "encoder": "tab:blue"}
WIDTH, HEIGHT = 3.4, 2.9  # of a panel, inches


def draw_figures(rows: Rows, out: Path) -> None:
    """`noise`, `error` and `nights`, each as PNG and SVG, into `out`."""
    for name, figure in (
        ("noise", _lines(rows, "noise", "noise in a shown cell (one release = 1)", ("shown",))),
        ("error", _lines(rows, "error", "error of win shares, points", ("pattern", "shown"))),
        ("nights", _nights()),
    ):
        for ending in ("png", "svg"):
            figure.savefig(out / f"{name}.{ending}", dpi=150)


def _lines(rows: Rows, value: str, label: str, panels: tuple[str, ...]) -> Figure:
    """The best terms of each way, against the number of nights; one panel for each group."""
    groups = list(dict.fromkeys(tuple(row[name] for name in panels) for row in rows))
    columns = len({group[-1] for group in groups})
    lines = -(-len(groups) // columns)
    figure = Figure(figsize=(WIDTH * columns, HEIGHT * lines), layout="constrained")
    axes = figure.subplots(lines, columns, squeeze=False).ravel()
    for group, axis in zip(groups, axes, strict=False):
        own = [row for row in rows if tuple(row[name] for name in panels) == group]
        for way, color in COLORS.items():
            mine = [row for row in own if row["way"] == way]
            lengths = sorted({row["nights"] for row in mine})
            best = [min(row[value] for row in mine if row["nights"] == t) for t in lengths]
            axis.plot(lengths, best, marker="o", color=color, label=way)
        axis.set(xscale="log", yscale="log", title=", ".join(group), xlabel="nights", ylabel=label)
        axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.yaxis.set_major_formatter("{x:g}")
        axis.minorticks_off()
        axis.set_xticks(lengths, map(str, lengths))
    axes[0].legend()
    return figure


def _nights() -> Figure:
    """Standard deviation of a shown cell, night by night of a year."""
    figure = Figure(figsize=(2 * WIDTH, HEIGHT), layout="constrained")
    for axis, (title, window) in zip(
        figure.subplots(1, 2), (("last 28 nights", 28), ("all so far", None)), strict=True
    ):
        for way, color in COLORS.items():
            times, gap = (365, 1) if way == "composition" else (12, 28)
            terms, workload = Terms(nights=365, participations=times, gap=gap), Workload(window)
            bands = workload.most_bands(terms) if way == "encoder" else 1
            params = PrivacyParams(
                unit=Unit.USER,
                adjacency=Adjacency.ADD_REMOVE,
                epsilon=1.0,
                rho=0.5,
                noise=NoiseKind.GAUSSIAN,
            )
            stream = stream_of(params, Sensitivity(1, 1), terms, workload, bands)
            label = way if way == "composition" else f"{way}: 12 nights, 28 apart"
            axis.plot(np.sqrt(stream.variances), color=color, label=label)
        axis.set(title=title, xlabel="night", ylabel="noise (one release = 1)", yscale="log")
    axis.legend()
    return figure
