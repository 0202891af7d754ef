"""Figures of the experiments of [NZ], as PNG and SVG.

References:
    [NZ] Nguyen, Zhang. Optimal and private learning from human response data. 2023. Figures 1 to 3,
        and Figure 1 of the supplement.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hushrank.experiments.nz.nz_trial import (
    DEBIASED,
    GAUSSIAN,
    LAPLACE,
    PAPER,
    PLAIN,
    TIGHT,
    Method,
    Outcomes,
    Series,
    Setting,
)

matplotlib.use("Agg")  # files only: no window system is needed

ERROR = r"$\|\tilde\beta-\beta\|_2$ to the estimate without privacy"
ERROR_TO_TRUTH = r"$\|\tilde\beta-\beta^*\|_2$ to the true difficulties"
COLORS = {
    (GAUSSIAN, "dense"): "C0",
    (GAUSSIAN, "sparse"): "C1",
    (LAPLACE, "dense"): "C2",
    (LAPLACE, "sparse"): "C3",
    (PLAIN, "dense"): "C4",
    (DEBIASED, "dense"): "C5",
}
STYLES = {TIGHT: "o-", PAPER: "x--"}


def draw_figures(outcomes: Outcomes, out: Path) -> None:
    """Draw every figure that has outcomes into `out`."""
    for name in dict.fromkeys(series.setting.figure for series in outcomes):
        own = {
            series: values for series, values in outcomes.items() if series.setting.figure == name
        }
        if name == "p0":
            figures = {name: _sweep(own)}
        elif name == "growth":
            figures = {name: _growth(own)}
        else:
            figures = {name: _mechanisms(own), f"{name}_gain": _gain(own)}
        for title, figure in figures.items():
            for kind in ("png", "svg"):
                figure.savefig(out / f"figure_{title}.{kind}", dpi=120)


def _panels(rows: int, columns: int) -> tuple[Figure, Any]:
    figure = Figure(figsize=(4.6 * columns, 3.6 * rows), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False)


def _settings(outcomes: Outcomes) -> list[Setting]:
    return list(dict.fromkeys(series.setting for series in outcomes))


def _line(
    axes: Axes,
    outcomes: Outcomes,
    chosen: Callable[[Series], bool],
    x: Callable[[Series], float],
    style: str,
    **options: Any,
) -> None:
    """Mean over trials with a band of two standard errors, over the chosen series."""
    members = sorted((series for series in outcomes if chosen(series)), key=x)
    places = [x(series) for series in members]
    mean = np.array([np.mean(outcomes[series]) for series in members])
    error = np.array([np.std(outcomes[s]) / math.sqrt(len(outcomes[s])) for s in members])
    (line,) = axes.plot(places, mean, style, markersize=4, **options)
    axes.fill_between(
        places,
        np.maximum(mean - 2 * error, 0.5 * mean),  # above 0, for the logarithmic axis
        mean + 2 * error,
        color=line.get_color(),
        alpha=0.15,
    )


def _mechanisms(outcomes: Outcomes) -> Figure:
    """Error against epsilon, a panel a setting; solid: tight constants, dashed: the paper's."""
    settings = _settings(outcomes)
    columns = min(2, len(settings))
    figure, axes = _panels(math.ceil(len(settings) / columns), columns)
    for panel, setting in zip(axes.flat, settings, strict=False):
        for (mechanism, graph), color in COLORS.items():
            for constants, style in STYLES.items():
                _line(
                    panel,
                    outcomes,
                    _is(setting, Method(mechanism, graph, constants), "l2"),
                    _epsilon,
                    style,
                    color=color,
                    label=f"{mechanism}, {graph}" if constants == TIGHT else None,
                )
        panel.loglog()
        panel.set_title(f"{setting.data}: m = {setting.m}, n = {setting.n}")
        panel.set_xlabel(r"$\epsilon$")
        panel.set_ylabel(ERROR)
    for panel in axes.flat[len(settings) :]:
        panel.set_axis_off()
    axes[0, 0].legend(fontsize=7, title="dashed: the paper's constants", title_fontsize=7)
    return figure


def _gain(outcomes: Outcomes) -> Figure:
    """Error with the paper's constants over error with tight ones, discrete Gaussian, dense."""
    figure, axes = _panels(1, 1)
    panel = axes[0, 0]
    for setting in _settings(outcomes):
        ratios = {}
        for series, values in outcomes.items():
            if series.setting == setting and series.metric == "l2":
                ratios[series.epsilon, series.method] = float(np.mean(values))
        tight, paper = (Method(GAUSSIAN, "dense", constants) for constants in (TIGHT, PAPER))
        epsilons = sorted(epsilon for epsilon, method in ratios if method == tight)
        gain = [ratios[epsilon, paper] / ratios[epsilon, tight] for epsilon in epsilons]
        label = f"{setting.data}: m = {setting.m}, n = {setting.n}"
        panel.semilogx(epsilons, gain, "o-", markersize=4, label=label)
    panel.axhline(1, color="grey", linewidth=1)
    panel.axhline(math.sqrt(2), color="grey", linestyle=":", label="half the variance")
    panel.set_xlabel(r"$\epsilon$")
    panel.set_ylabel("error with the paper's constants / ours")
    panel.legend(fontsize=7)
    return figure


def _sweep(outcomes: Outcomes) -> Figure:
    """Error against the edge probability, a line an epsilon; dashed: the paper's constants."""
    figure, axes = _panels(1, 1)
    panel = axes[0, 0]
    for number, epsilon in enumerate(sorted({s.epsilon for s in outcomes} - {math.inf})):
        for constants, style in STYLES.items():
            _line(
                panel,
                {
                    series: values
                    for series, values in outcomes.items()
                    if series.epsilon == epsilon and series.method.constants == constants
                },
                lambda series: series.metric == "l2",
                lambda series: float(series.method.graph.removeprefix("p0=")),
                style,
                color=f"C{number}",
                label=rf"$\epsilon$ = {epsilon:g}" if constants == TIGHT else None,
            )
    panel.loglog()
    panel.set_xlabel("edge probability $p_0$")
    panel.set_ylabel(ERROR)
    panel.legend(fontsize=7)
    return figure


def _growth(outcomes: Outcomes) -> Figure:
    """Error to the truth against the number of people, with and without privacy."""
    figure, axes = _panels(1, 1)
    panel = axes[0, 0]
    lines = {Method("none", "dense", TIGHT): "k"}
    lines |= {Method(*key, TIGHT): color for key, color in COLORS.items()}
    for method, color in lines.items():
        _line(
            panel,
            outcomes,
            _is(None, method, "l2_truth"),
            lambda series: float(series.setting.n),
            "o-",
            color=color,
            label=f"{method.mechanism}, {method.graph}",
        )
    panel.loglog()
    panel.set_xlabel("people n")
    panel.set_ylabel(ERROR_TO_TRUTH)
    panel.legend(fontsize=7)
    return figure


def _is(setting: Setting | None, method: Method, metric: str) -> Callable[[Series], bool]:
    return lambda series: (
        (setting is None or series.setting == setting)
        and series.method == method
        and series.metric == metric
    )


def _epsilon(series: Series) -> float:
    return series.epsilon
