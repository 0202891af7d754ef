"""Figures of the experiments of [XSC], as PNG and SVG.

References:
    [XSC] Xu, Sun, Cheng. Rate-optimal rank aggregation with private pairwise rankings. Figures 3
        to 10 and 14.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.special import stdtrit

from hushrank.estimation.common.links import Floats
from hushrank.experiments.xsc.xsc_paper import PRINTED
from hushrank.experiments.xsc.xsc_scenarios import EXPECTED, METRIC
from hushrank.experiments.xsc.xsc_setting import OURS, Setting

Outcomes = Mapping[tuple[Setting, str, str], Sequence[float]]
LABELS = {
    "l2": r"$n^{-1/2}\,\|\hat\theta-\theta^*\|_2$",
    "linf": r"$\|\hat\theta-\theta^*\|_\infty$",
    "kendall": "full ranking error (Kendall)",
    "topk": "top-K ranking error",
    "sigma_error": r"$|\hat\sigma-\sigma|$",
    "correct_link": "share of correct links",
    "seconds_to_sums": "seconds to randomise and sum",
    "seconds_to_scores": "seconds from sums to scores",
    METRIC: "smallest eigenvalue on sums of zero",
    "m": "items m",
    "L": "people L",
    "delta": "gap of neighbouring scores",
    "share": "share p of the pairs",
}


@dataclass(frozen=True, slots=True)
class Lines:
    """Means with error bands: one panel for each group and metric, one line for each value."""

    metrics: tuple[str, ...]
    x: str
    line: str
    group: Callable[[Setting], str]
    log: bool = False


LINES = {
    "I": Lines(("l2", "linf"), "L", "m", lambda s: s.link),
    "III": Lines(("linf",), "L", "m", lambda s: f"{s.link}, scheme {s.scheme}"),
    "IV": Lines(("kendall", "topk"), "delta", "L", lambda s: f"{s.link}, m = {s.m}"),
    "S.1.2": Lines(("l2", "sigma_error"), "L", "m", lambda s: s.link),
    "S.1.3": Lines(("correct_link",), "L", "m", lambda s: "link: auto"),
    "S.3": Lines(("seconds_to_sums", "seconds_to_scores"), "L", "m", lambda s: s.link, log=True),
}
BOXES = {"V": ("l2", "linf", "kendall"), "application": ("kendall",), "table-2": ("kendall",)}
CURVATURE = "figure-3"
PRIVACY = "inverse_sqrt_b"  # what errors are drawn against
TENTHS = 10
POINTS = 50  # at which a band is drawn
SCATTERS = {"II": ("l2", "linf"), "application": ("kendall",)}  # [XSC] Figures 5 and 14


def draw_figures(outcomes: Outcomes, out: Path) -> None:
    """Draw every experiment that has outcomes into `out`."""
    for scenario in dict.fromkeys(setting.scenario for setting, _, _ in outcomes):
        own = {key: values for key, values in outcomes.items() if key[0].scenario == scenario}
        name = scenario.replace(".", "_")
        if scenario in LINES:
            _save(_lines(own, LINES[scenario]), f"{scenario}: mean over replicates", out / name)
        if scenario in BOXES:
            _save(_boxes(own, BOXES[scenario]), scenario, out / name)
        if scenario == CURVATURE:
            _save(_eigenvalues(own), scenario, out / name)
        if scenario in SCATTERS:
            tail = "_by_privacy" if scenario in BOXES else ""
            _save(_scatter(own, SCATTERS[scenario]), scenario, out / f"{name}{tail}")


def _save(figure: Figure, title: str, path: Path) -> None:
    figure.suptitle(title)
    for kind in ("png", "svg"):
        figure.savefig(path.parent / f"{path.name}.{kind}", dpi=120)


def _panels(rows: int, columns: int) -> tuple[Figure, Any]:
    figure = Figure(figsize=(4.5 * columns, 3.2 * rows), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False)


def _lines(outcomes: Outcomes, layout: Lines) -> Figure:
    groups = list(dict.fromkeys(layout.group(setting) for setting, _, _ in outcomes))
    figure, axes = _panels(len(layout.metrics), len(groups))
    for row, metric in enumerate(layout.metrics):
        for column, group in enumerate(groups):
            panel = {
                setting: values
                for (setting, _, name), values in outcomes.items()
                if name == metric and layout.group(setting) == group
            }
            _line_panel(axes[row, column], panel, metric, layout)
            axes[row, column].set_title(group)
    return figure


def _line_panel(
    axes: Axes, panel: Mapping[Setting, Sequence[float]], metric: str, layout: Lines
) -> None:
    for number, value in enumerate(dict.fromkeys(getattr(s, layout.line) for s in panel)):
        members = [setting for setting in panel if getattr(setting, layout.line) == value]
        x = np.array([getattr(setting, layout.x) for setting in members])
        mean = np.array([np.mean(panel[setting]) for setting in members])
        error = np.array([np.std(panel[s]) / math.sqrt(len(panel[s])) for s in members])
        color = f"C{number}"
        axes.plot(x, mean, "o-", color=color, label=f"{layout.line} = {value}")
        axes.fill_between(x, mean - 2 * error, mean + 2 * error, color=color, alpha=0.2)
        printed = {
            getattr(cell.setting, layout.x): cell.mean
            for cell in PRINTED
            if cell.metric == metric and cell.setting in members
        }
        axes.plot(list(printed), list(printed.values()), "x--", color=color, alpha=0.6)
    if layout.log:
        axes.loglog()
    axes.set_xlabel(LABELS[layout.x])
    axes.set_ylabel(LABELS[metric])
    axes.legend(title="crosses: the paper" if printed else None)


def _boxes(outcomes: Outcomes, metrics: Sequence[str]) -> Figure:
    settings = list(dict.fromkeys(setting for setting, _, _ in outcomes))
    figure, axes = _panels(len(settings), len(metrics))
    for row, setting in enumerate(settings):
        for column, metric in enumerate(metrics):
            series = {
                method: values
                for (own, method, name), values in outcomes.items()
                if own == setting and name == metric
            }
            panel = axes[row, column]
            panel.boxplot(list(series.values()), tick_labels=list(series), showmeans=True)
            panel.tick_params("x", rotation=30)
            panel.set_title(f"{setting.link} {setting.scheme}".strip())
            panel.set_ylabel(LABELS[metric])
    return figure


def _eigenvalues(outcomes: Outcomes) -> Figure:
    """Boxes of the measured eigenvalues along what differs, and the expected Hessian's as line."""
    settings = list(dict.fromkeys(setting for setting, _, _ in outcomes))
    panels = {"items": "m", "share": "share"}
    figure, axes = _panels(1, len(panels))
    for panel, (scheme, attribute) in zip(axes[0], panels.items(), strict=True):
        members = [setting for setting in settings if setting.scheme == scheme]
        found = [list(outcomes[setting, OURS, METRIC]) for setting in members]
        labels = [str(getattr(setting, attribute)) for setting in members]
        places = range(1, len(members) + 1)
        panel.boxplot(found, tick_labels=labels, positions=places)
        expected = [np.mean(outcomes[setting, EXPECTED, METRIC]) for setting in members]
        panel.plot(places, expected, "x-", label="of the expected Hessian")
        panel.set(xlabel=LABELS[attribute], ylabel=LABELS[METRIC], ylim=(0, None))
        panel.legend()
    return figure


def _scatter(outcomes: Outcomes, metrics: Sequence[str]) -> Figure:
    settings = list(dict.fromkeys(setting for setting, _, _ in outcomes))
    figure, axes = _panels(len(settings), len(metrics))
    for row, setting in enumerate(settings):
        privacy = np.array(outcomes[setting, OURS, PRIVACY])
        for column, metric in enumerate(metrics):
            panel, errors = axes[row, column], np.array(outcomes[setting, OURS, metric])
            panel.plot(privacy, errors, ".", alpha=0.4)
            if len(errors) >= 10 * TENTHS:
                _draw_means_of_tenths(panel, privacy, errors)
            if len(errors) > 2:
                along = np.linspace(privacy.min(), privacy.max(), POINTS)
                line, reach = prediction_band(privacy, errors, along)
                panel.plot(along, line, "-", color="C1")
                panel.fill_between(along, line - reach, line + reach, color="C1", alpha=0.15)
                panel.set_title(f"{setting.link}, r = {np.corrcoef(privacy, errors)[0, 1]:.3f}")
            panel.set_xlabel(r"$1/\sqrt{B(\epsilon)}$")
            panel.set_ylabel(LABELS[metric])
    return figure


def prediction_band(x: Floats, y: Floats, at: Floats) -> tuple[Floats, Floats]:
    """Least squares line at some places, and how far 95 % of new values lie from it at most.

    Law: with n values, a new one differs from the line by s sqrt(1 + 1/n + (x - mean)^2 / Sxx)
    times Student's t with n - 2 degrees of freedom, for errors that are normal and alike.

    Args:
        x, y: shape (n,), n of at least 3; values of x are not all the same.
        at: places, of any shape.
    """
    n, spread = len(x), float(np.square(x - x.mean()).sum())
    fitted = np.polyfit(x, y, 1)
    rest = float(np.square(y - np.polyval(fitted, x)).sum())
    relative = 1 + 1 / n + np.square(at - x.mean()) / spread
    reach = stdtrit(n - 2, 0.975) * np.sqrt(rest / (n - 2) * relative)
    return np.asarray(np.polyval(fitted, at)), np.asarray(reach)


def _draw_means_of_tenths(panel: Axes, privacy: Floats, errors: Floats) -> None:
    """Means of the tenths of the replicates by privacy: single errors take few values."""
    tenths = np.array_split(np.argsort(privacy), TENTHS)
    middle, mean = (np.array([x[tenth].mean() for tenth in tenths]) for x in (privacy, errors))
    error = [2 * errors[tenth].std(ddof=1) / math.sqrt(len(tenth)) for tenth in tenths]
    panel.errorbar(middle, mean, error, fmt="ks", ms=4, capsize=2)
