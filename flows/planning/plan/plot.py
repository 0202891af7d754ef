"""Accuracy against epsilon as a picture that stands alone.

Importing this module imports matplotlib, which takes a second: import it where a plot is drawn.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hushrank.flows.planning.plan.accuracy import Accuracy
from hushrank.flows.planning.plan.survey import Setting
from hushrank.flows.release.scale import Scale

FORMATS = {".svg": "svg", ".png": "png"}
Curves = Mapping[str, Sequence[tuple[Setting, Accuracy]]]


def accuracy_plot(name: str, curves: Curves, formula: Sequence[float | None], suffix: str) -> bytes:
    """The best item first, and the error of the first method's scores, against epsilon.

    Args:
        name: of the population.
        curves: by method, the configured one first.
        formula: of the first method's typical error at the same settings.
        suffix: `.svg` or `.png`.
    """
    with mpl.rc_context({"font.size": 9.5, "svg.hashsalt": "plan"}):
        figure = Figure(figsize=(8.0, 3.6), layout="constrained")
        left, right = figure.subplots(1, 2)
        for position, (method, tried) in enumerate(curves.items()):
            _draw_shares(left, method, tried, f"C{position}")
        _draw_error(right, next(iter(curves.values())), formula)
        for axes in (left, right):
            axes.set_xscale("log")
            axes.set_xlabel("epsilon")
            axes.grid(linewidth=0.5, color="#dddddd")
            ticks = [setting.epsilon for setting, _ in next(iter(curves.values()))]
            axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
            axes.minorticks_off()
            for side in ("top", "right"):
                axes.spines[side].set_visible(False)
        figure.suptitle(name, x=0.01, ha="left", fontsize=10.5)
        content = io.BytesIO()
        metadata = {"Date": None} if suffix == ".svg" else {}
        figure.savefig(content, format=FORMATS[suffix], dpi=120, metadata=metadata)
        return content.getvalue()


def _draw_shares(
    axes: Axes,
    method: str,
    tried: Sequence[tuple[Setting, Accuracy]],
    color: str,
) -> None:
    epsilon = np.array([setting.epsilon for setting, _ in tried])
    top = np.array([100 * found.top for _, found in tried])
    half = np.array([200 * found.spread["top"] for _, found in tried])
    axes.fill_between(
        epsilon, np.maximum(top - half, 0), np.minimum(top + half, 100), color=color, alpha=0.12
    )
    axes.plot(epsilon, top, marker="o", markersize=4, color=color, label=method)
    axes.set_ylim(0, 102)
    axes.set_ylabel("best item comes out first, %")
    axes.legend(frameon=False, loc="lower right")


def _draw_error(
    axes: Axes, tried: Sequence[tuple[Setting, Accuracy]], formula: Sequence[float | None]
) -> None:
    shares = tried[0][1].scale is Scale.WIN_SHARE
    unit = 100 if shares else 1
    epsilon = [setting.epsilon for setting, _ in tried]
    for values, label, marker in (
        ([found.largest for _, found in tried], "largest", "s"),
        ([found.error for _, found in tried], "typical", "o"),
    ):
        axes.plot(epsilon, [unit * value for value in values], marker=marker, label=label)
    if all(value is not None for value in formula):
        known = [unit * value for value in formula if value is not None]
        axes.plot(epsilon, known, linestyle="--", color="#666666", label="typical, by formula")
    axes.set_ylim(bottom=0)
    axes.set_ylabel("error of a score, points" if shares else "error of a score")
    axes.legend(frameon=False)
