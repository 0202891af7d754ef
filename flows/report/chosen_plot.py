"""Which epsilons people chose, and what that bought, as a plot for the report."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from hushrank.flows.release.private_sums import ChosenEpsilons
from hushrank.flows.release.release import Release
from hushrank.flows.report.style import ACCENT, MUTED, SOFT, WIDTH, Spot, page_style, page_svg


def bins_of(chosen: ChosenEpsilons) -> list[tuple[float, float, int, float, float]]:
    """Ends, answers, share of answers and share of information of each bin, in percent."""
    edges = np.linspace(chosen.low, chosen.high, len(chosen.answers) + 1).tolist()
    everyone = sum(chosen.answers)
    return [
        (low, high, answers, 100 * answers / everyone, 100 * known)
        for low, high, answers, known in zip(
            edges[:-1], edges[1:], chosen.answers, chosen.information, strict=True
        )
    ]


def chosen_svg(release: Release, chosen: ChosenEpsilons, description: str) -> str:
    """Two bars for each bin: its share of the answers, and of what is known about the scores.

    Args:
        release: whose page it is for.
        chosen: the counts.
        description: text for readers who do not see the plot.

    Returns:
        An `svg` element without references to anything outside it.
    """
    bins = bins_of(chosen)
    left = np.array([low for low, *_ in bins])
    width = (chosen.high - chosen.low) / len(bins)
    with page_style(release):
        figure = Figure(figsize=(WIDTH, 2.6), layout="constrained")
        axes = figure.add_subplot()
        sides = (0.05, 3, SOFT, "answers"), (0.5, 4, ACCENT, "what is known about the scores")
        for shift, column, colour, label in sides:
            heights = [each[column] for each in bins]
            at = left + shift * width
            axes.bar(at, heights, 0.43 * width, align="edge", color=colour, label=label)
        axes.set_xlim(chosen.low, chosen.high)
        axes.set_xlabel("epsilon")
        axes.set_ylabel("percent")
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, labelcolor=MUTED)
        spots = [
            Spot(x=(low, high), y=axes.get_ylim(), text=_text(low, high, answers, known))
            for low, high, answers, _, known in bins
        ]
        return page_svg(figure, axes, description, spots)


def _text(low: float, high: float, answers: int, known: float) -> str:
    return (
        f"epsilon {low:.3g} to {high:.3g}: {answers:,} answers,"
        f" {known:.1f} % of what is known about the scores"
    )
