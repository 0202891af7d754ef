"""Effects of covariates in a release: what is published of them, and what was drawn."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from hushrank.estimation.common.links import LOGISTIC
from hushrank.flows.statement.record import Extended, Record
from hushrank.transforms.common.plain_text import write_cell

if TYPE_CHECKING:
    from hushrank.estimation.comparisons.covariate_effects import EffectEstimates


class Effect(Record):
    """What a covariate does to the chance of winning, beside the items.

    Attributes:
        name: of the covariate.
        scale: the difference that counts as 1; null for who was shown first.
        estimate: log odds that this difference, or being shown first, is worth.
        low, high: 95 % interval of this effect alone.
    """

    name: str
    scale: float | None
    estimate: float
    low: Extended
    high: Extended


def effects_of(
    estimates: EffectEstimates, names: Sequence[str], scales: Sequence[float | None]
) -> tuple[Effect, ...]:
    """The records of `estimates`."""
    columns = (estimates.values, estimates.low, estimates.high)
    return tuple(
        Effect(name=name, scale=scale, estimate=value, low=low, high=high)
        for name, scale, value, low, high in zip(
            names, scales, *(column.tolist() for column in columns), strict=True
        )
    )


def effects_csv(effects: Sequence[Effect]) -> str:
    """Effects as a table, in log odds to six decimals; `scale` is empty for who was shown first.

    `share` and its ends say the same as the share of comparisons that an item wins against an equal
    one by that effect alone.
    """
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    shares = ("share", "share_low", "share_high")
    table.writerow(["effect", "scale", "estimate", "low", "high", *shares])
    for effect in effects:
        values = np.array([effect.estimate, effect.low, effect.high])
        scale = "" if effect.scale is None else f"{effect.scale:g}"
        numbers = (f"{value:.6f}" for value in (*values, *LOGISTIC.cdf(values)))
        table.writerow([write_cell(effect.name), scale, *numbers])
    return text.getvalue()


def sentence_of(effect: Effect) -> str:
    """What the effect means, in words."""
    if effect.scale is None:
        of_what = "The item that is shown first wins"
    elif effect.scale == 1:
        of_what = f"One extra unit of {effect.name} wins"
    else:
        of_what = f"{effect.scale:g} extra units of {effect.name} win"
    known = math.isfinite(effect.low) and math.isfinite(effect.high)
    if not known:
        return f"The noise hides what {effect.name} does."
    share, low, high = (_percent(value) for value in (effect.estimate, effect.low, effect.high))
    return (
        f"{of_what} {share} % of comparisons between otherwise equal items (95 % interval: {low} to"
        f" {high} %)."
    )


def _percent(log_odds: float) -> str:
    return f"{100 / (1 + math.exp(-log_odds)):.1f}"
