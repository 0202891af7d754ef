"""Figures of the experiments of [RDP], as PNG and SVG.

References:
    [RDP] Xu, Sun, Cheng. Ranking differential privacy. Figures 2 and 4 to 8.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hushrank.experiments.rdp.rdp_trial import Summary

matplotlib.use("Agg")  # files only: no window system is needed

EPSILON, N_RANKINGS, USERS = r"$\epsilon$ of a ranking", "synthetic rankings $N$", "users $n$"
LABELS = {
    "2": (EPSILON, "concordant pairs"),
    "4": (r"stated $\epsilon$", r"estimated $\epsilon$"),
    "5": (N_RANKINGS, "probability of the right guess"),
    "6": (N_RANKINGS, "probability of the right guess"),
    "7": (USERS, "pairwise accuracy for new users"),
    "8": (EPSILON, "accuracy relative to no privacy"),
}
BASE_RATE = "no-privacy"  # in the table, not in the figure


def draw_figures(summaries: Sequence[Summary], out: Path) -> None:
    """Draw every figure that has rows into `out`."""
    for name, labels in LABELS.items():
        rows = [
            row
            for row in summaries
            if row.setting.figure == name and not row.method.startswith(BASE_RATE)
        ]
        if rows:
            figure = _figure(rows, *labels)
            for kind in ("png", "svg"):
                figure.savefig(out / f"figure_{name}.{kind}", dpi=120)


def _figure(rows: Sequence[Summary], x_label: str, y_label: str) -> Figure:
    panels = list(dict.fromkeys(_panel(row) for row in rows))
    columns = min(len(panels), 4)
    n_rows = math.ceil(len(panels) / columns)
    figure = Figure(figsize=(4.2 * columns, 3.4 * n_rows), layout="constrained")
    grid = figure.subplots(n_rows, columns, squeeze=False).ravel()
    for axes, panel in zip(grid, panels, strict=False):
        _draw_panel(axes, [row for row in rows if _panel(row) == panel])
        axes.set(title=panel, xlabel=x_label, ylabel=y_label)
    for axes in grid[len(panels) :]:
        axes.set_axis_off()
    return figure


def _draw_panel(axes: Axes, rows: Sequence[Summary]) -> None:
    for line in dict.fromkeys(_line(row) for row in rows):
        own = [row for row in rows if _line(row) == line]
        error = [0.0 if math.isnan(row.se) else 2 * row.se for row in own]
        axes.errorbar(
            [_x(row) for row in own], [row.mean for row in own], error, fmt="o-", ms=3, label=line
        )
    if rows[0].setting.figure == "4":
        stated = sorted({row.setting.epsilon for row in rows})
        axes.plot(stated, stated, "k:", lw=1, label="equal")
    axes.legend(fontsize="x-small")


def _panel(row: Summary) -> str:
    title = f"m = {row.setting.m}"
    return f"{title}, ε = {row.setting.epsilon:g}" if row.setting.figure == "7" else title


def _line(row: Summary) -> str:
    own = row.setting
    if own.figure == "4":
        return row.metric
    if own.figure == "5":
        return f"ε = {own.epsilon:g}"
    return own.note or row.method


def _x(row: Summary) -> float:
    own = row.setting
    return {"5": own.N, "6": own.N, "7": own.n}.get(own.figure, own.epsilon)
