"""Effects of covariates in a release, and scores that depend on public features of people."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field

from hushrank.estimation.common.links import LOGISTIC
from hushrank.flows.statement.record import Extended, Record
from hushrank.transforms.common.plain_text import write_cell

if TYPE_CHECKING:
    from hushrank.estimation.comparisons.covariate_effects import EffectEstimates

MOST_SHOWN = 20  # effects of features of people that a terminal lists


class Effect(Record):
    """Effect of a covariate on the chance of winning, beside the items.

    Attributes:
        name: name of the covariate.
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
    """Say in words what the effect means."""
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


class PersonFeatureRecord(Record):
    """A public feature of people: numbers from the first to the last, or words."""

    name: str
    numbers: tuple[float, ...]
    words: tuple[str, ...]


class PersonalEffect(Record):
    """Effect of a feature of a person on scores.

    Attributes:
        of: the item whose score changes, or the feature of items by which scores change.
        by: the feature of the person: its name for a number, which counts as -1 and 1 at the ends
            of its range; `name=word` for a word, compared with the first one.
        estimate: log odds; of a feature of items for one standard deviation of it.
        low, high: 95 % interval of this effect alone.
    """

    of: str
    by: str
    estimate: float
    low: Extended
    high: Extended


class PersonalRecord(Record):
    """Scores of items for each person, from which anybody can rank for a new person.

    Attributes:
        features: features of people.
        of_items: features of items; empty: each item has effects of its own.
        item_features: their values less the mean, in standard deviations; a row for each item in
            catalogue order.
        effects: by feature of a person, and then by feature of items, or item.
        coefficients: base score of each item in catalogue order, then the effects.
        centre: effects without the ridge.
        covariance: covariance of the errors of `centre`.
        known: intervals hold; false: nothing is known of how far off scores are.
        ridge: weight c of c |coefficients|^2 / 2 in the fit.
        rankings: number of rankings that the model was fitted to.
        mean_features: mean of the features over these rankings, as scores use them; `ranking` is
            that of a person with these.
    """

    features: tuple[PersonFeatureRecord, ...]
    of_items: tuple[str, ...]
    item_features: tuple[tuple[float, ...], ...]
    effects: tuple[PersonalEffect, ...]
    coefficients: tuple[float, ...]
    centre: tuple[float, ...]
    covariance: tuple[tuple[float, ...], ...]
    known: bool
    ridge: float = Field(gt=0)
    rankings: int
    mean_features: tuple[float, ...]


def effect_sentences(personal: PersonalRecord) -> Iterator[str]:
    """Yield what the features of people surely change, in words, the largest effects first."""
    sure = [each for each in personal.effects if each.low > 0 or each.high < 0]
    if not personal.known:
        yield "What the features of people change is not known: no interval is stated."
        return
    if not sure:
        yield "No effect of the features of people is beyond chance."
        return
    yield (
        f"{len(sure)} of {len(personal.effects)} effects of features of people are beyond chance,"
        " each by itself:"
    )
    for each in sorted(sure, key=lambda effect: -abs(effect.estimate))[:MOST_SHOWN]:
        interval = f"95 % interval: {each.low:+.2f} to {each.high:+.2f}"
        yield f"{each.by} changes the score of {each.of} by {each.estimate:+.2f} ({interval})."
