"""Figures of the experiments of [CCW], as PNG and SVG.

References:
    [CCW] Cai, Chakraborty, Wang. Optimal differentially private ranking from pairwise comparisons.
        2025. Figures 1 to 8.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from hushrank.experiments.ccw.ccw_trials import (
    COUNTS,
    L2,
    LINF,
    MLE,
    ONE_SHOT,
    ONE_SHOT_DELTA_DP,
    ONE_SHOT_TUNED,
    RANKS,
    RANKS_DECIDED,
    TOP_K,
    Setting,
)
from hushrank.privacy.objective_perturbation import Constants

LABELS = {
    L2: r"$\log\,\|\hat\theta-\theta^*\|_2/\|\theta^*\|_2$",
    LINF: r"$\log\,\|\hat\theta-\theta^*\|_\infty/\|\theta^*\|_\infty$",
    TOP_K: "items of the top k that are missing",
    RANKS: "mean rank difference, ties split",
    RANKS_DECIDED: "mean rank difference, ties dropped",
    "n": "items n",
    "p": "comparison probability p",
    "m": "people m",
    "epsilon": r"$\epsilon$",
}
STYLES = {
    COUNTS: ("s-", "noisy counts"),
    MLE[Constants.TIGHT]: ("o-", "perturbed MLE, our constants"),
    MLE[Constants.PAPER]: ("x--", "perturbed MLE, the paper's constants"),
    ONE_SHOT: ("^:", "one-shot, charged for each item of the list"),
    ONE_SHOT_DELTA_DP: ("v:", "one-shot, with the noise of Qiao, Su and Zhang for a delta"),
    ONE_SHOT_TUNED: ("d-.", "one-shot, our calibration"),
}


@dataclass(frozen=True, slots=True)
class Summary:
    """Mean of one metric over the replicates of a setting at one epsilon, with standard error."""

    setting: Setting
    epsilon: float
    method: str
    metric: str
    mean: float
    se: float
    replicates: int


@dataclass(frozen=True, slots=True)
class Plan:
    """What is drawn along the axis and, in colours, as lines."""

    x: Callable[[Summary], float]
    x_name: str
    line: Callable[[Summary], float]
    line_name: str


def _epsilon(row: Summary) -> float:
    return row.epsilon


def _items(row: Summary) -> float:
    return row.setting.n


def _people(row: Summary) -> float:
    return row.setting.m or 0


def _chance(row: Summary) -> float:
    return row.setting.p or 0.0


PLANS = {
    1: Plan(_items, "n", _epsilon, r"$\epsilon$"),
    2: Plan(_chance, "p", _epsilon, r"$\epsilon$"),
    3: Plan(_epsilon, "epsilon", _chance, "p"),
    4: Plan(_items, "n", _epsilon, r"$\epsilon$"),
    5: Plan(_items, "n", _epsilon, r"$\epsilon$"),
    6: Plan(_people, "m", _epsilon, r"$\epsilon$"),
    7: Plan(_epsilon, "epsilon", _people, "m"),
    8: Plan(_epsilon, "epsilon", _people, "m"),
}


def draw_figures(summaries: Sequence[Summary], out: Path) -> None:
    """Draw every experiment that has results into `out`."""
    for number in sorted({row.setting.experiment for row in summaries}):
        rows = [row for row in summaries if row.setting.experiment == number]
        figure = _figure(rows, PLANS[number])
        figure.suptitle(f"Experiment {number}: means with bands of two standard errors")
        for kind in ("png", "svg"):
            figure.savefig(out / f"experiment_{number}.{kind}", dpi=120)


def _figure(rows: Sequence[Summary], plan: Plan) -> Figure:
    """A panel for each metric; colours are lines of the plan, line styles are methods."""
    metrics = list(dict.fromkeys(row.metric for row in rows))
    figure = Figure(figsize=(4.8 * len(metrics), 4.2), layout="constrained")
    panels: Any = figure.subplots(1, len(metrics), squeeze=False)
    lines = sorted({plan.line(row) for row in rows})
    colors = {line: f"C{number}" for number, line in enumerate(lines)}
    for panel, metric in zip(panels.flat, metrics, strict=True):
        for method in STYLES:
            for line in lines:
                _draw(
                    panel,
                    [
                        row
                        for row in rows
                        if (row.metric, row.method) == (metric, method)
                        and plan.line(row) == line
                        and math.isfinite(plan.x(row))
                    ],
                    plan,
                    STYLES[method][0],
                    colors[line],
                )
        panel.set_xlabel(LABELS[plan.x_name])
        panel.set_ylabel(LABELS[metric])
        if plan.x_name == "epsilon":
            panel.set_xscale("log")
            panel.set_xticks(sorted({row.epsilon for row in rows if math.isfinite(row.epsilon)}))
            panel.xaxis.set_major_formatter("{x:g}")
            panel.xaxis.set_minor_formatter(NullFormatter())
    _legends(panels.flat[-1], rows, plan, colors)
    return figure


def _draw(panel: Axes, rows: Sequence[Summary], plan: Plan, style: str, color: str) -> None:
    if not rows:
        return
    ordered = sorted(rows, key=plan.x)
    x = np.array([plan.x(row) for row in ordered])
    mean, se = (np.array([getattr(row, name) for row in ordered]) for name in ("mean", "se"))
    panel.plot(x, mean, style, color=color, markersize=4, linewidth=1.2)
    if np.isfinite(se).all():
        panel.fill_between(x, mean - 2 * se, mean + 2 * se, color=color, alpha=0.15)


def _legends(panel: Axes, rows: Sequence[Summary], plan: Plan, colors: dict[float, str]) -> None:
    """One for the methods, one for the lines."""
    methods = [method for method in STYLES if any(row.method == method for row in rows)]
    styles = [
        panel.plot([], [], STYLES[method][0], color="grey", label=STYLES[method][1])[0]
        for method in methods
    ]
    panel.add_artist(panel.legend(handles=styles, fontsize=7, loc="upper right"))
    marks = [
        panel.plot([], [], color=color, label=_named(plan.line_name, line))[0]
        for line, color in colors.items()
    ]
    panel.legend(handles=marks, fontsize=7, loc="lower left")


def _named(name: str, value: float) -> str:
    return f"{name} = " + (r"$\infty$" if math.isinf(value) else f"{value:g}")
