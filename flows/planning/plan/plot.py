"""Plot of accuracy against epsilon."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from hushrank.flows.planning.plan.accuracy import Accuracy
from hushrank.flows.planning.plan.survey import Setting
from hushrank.flows.release.axis import Axis, round_marks
from hushrank.flows.release.scale import Scale
from hushrank.flows.report.drawings import Curve, curves
from hushrank.flows.report.svg import drawing, element, picture_bytes, text
from hushrank.transforms.common.plain_text import short

# pixels: width of the picture, width of one plot, height of its curves
WIDTH, PANEL, HEIGHT = 900, 430, 240
MARGIN = 0.04  # share of the epsilon axis before the first point, and after the last
SPREADS = 2  # standard errors over replicates on each side of a share
Curves = Mapping[str, Sequence[tuple[Setting, Accuracy]]]


def accuracy_plot(name: str, found: Curves, formula: Sequence[float | None], suffix: str) -> bytes:
    """Plot the probability that the best item comes first, and the error of scores, against
    epsilon.

    Args:
        name: name of the population.
        found: accuracy by method, the configured one first.
        formula: typical error of the first method at the same settings, by a formula.
        suffix: `.svg` or `.png`.
    """
    tried = next(iter(found.values()))
    epsilons = [math.log(setting.epsilon) for setting, _ in tried]
    margin = MARGIN * max(epsilons[-1] - epsilons[0], 1.0)
    ticks = tuple((math.log(each.epsilon), f"{each.epsilon:g}") for each, _ in tried)
    across = Axis(epsilons[0] - margin, epsilons[-1] + margin, ticks)
    shares = Axis(0, 102, tuple((at, f"{at} %") for at in range(0, 101, 20)))
    percent = tried[0][1].scale is Scale.WIN_SHARE
    errors = _errors(tried, formula, 100 if percent else 1)
    highest = 1.05 * max(max(y for _, y, _ in curve.points) for curve in errors) or 1.0
    marks, decimals = round_marks(0, highest)
    up = Axis(0, highest, tuple((at, f"{at:.{decimals}f}") for at in marks))
    plots = (
        (_shares(found), shares, "best item comes out first"),
        (errors, up, "error of a score" + ", points" * percent),
    )
    panels = [
        element(
            "svg",
            curves(drawn, across, axis, height=HEIGHT, width=PANEL, words=words, below="epsilon"),
            x=place * (WIDTH - PANEL),
            y=34,
            width=PANEL,
            overflow="visible",
        )
        for place, (drawn, axis, words) in enumerate(plots)
    ]
    heading = text(short(name), 0, 14, "title")
    whole = drawing("plan", HEIGHT + 130, f"Accuracy of {short(name)}", heading, *panels)
    return picture_bytes(whole, WIDTH, suffix)


def _shares(found: Curves) -> list[Curve]:
    """Curves of how often the best item comes first, by method, in percent."""
    drawn = []
    for method, tried in found.items():
        points, area = [], []
        for setting, accuracy in tried:
            share, half = 100 * accuracy.top, 100 * SPREADS * accuracy.spread["top"]
            if not math.isnan(share):
                said = f"{method}, epsilon {setting.epsilon:g}: {share:.0f} %"
                points.append((math.log(setting.epsilon), share, said))
                area.append((max(share - half, 0), min(share + half, 100)))
        if points:
            drawn.append(Curve(name=method, title=method, points=points, area=area))
    return drawn


def _errors(
    tried: Sequence[tuple[Setting, Accuracy]], formula: Sequence[float | None], unit: int
) -> list[Curve]:
    """Curves of the first method's errors, as measured and by the formula."""
    kinds = [
        ("largest", [accuracy.largest for _, accuracy in tried]),
        ("typical", [accuracy.error for _, accuracy in tried]),
    ]
    if all(value is not None for value in formula):
        kinds.append(("typical, by formula", [value for value in formula if value is not None]))
    return [
        Curve(
            name=kind,
            title=f"{kind} error of a score",
            points=[
                (
                    math.log(setting.epsilon),
                    unit * value,
                    f"{kind}, epsilon {setting.epsilon:g}: {unit * value:.3g}",
                )
                for (setting, _), value in zip(tried, values, strict=True)
            ],
            dashed=kind.endswith("by formula"),
        )
        for kind, values in kinds
    ]
