"""The table of effects of covariates in a report."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hushrank.flows.release.effects import Effect, sentence_of
from hushrank.flows.release.release import Release


@dataclass(frozen=True, slots=True)
class EffectRow:
    """One line: texts as they are shown.

    Attributes:
        name: of the covariate.
        scale: the difference that the effect is of.
        estimate, interval: in log odds.
        words: what that means.
    """

    name: str
    scale: str
    estimate: str
    interval: str
    words: str


def effect_rows(release: Release) -> list[EffectRow]:
    """A line for each effect; none where the job names no covariates."""
    return [_row(effect) for effect in release.effects or ()]


def _row(effect: Effect) -> EffectRow:
    return EffectRow(
        name=effect.name,
        scale="being first" if effect.scale is None else f"{effect.scale:g} more",
        estimate=f"{effect.estimate:.2f}",
        interval=f"{_end(effect.low)} to {_end(effect.high)}",
        words=sentence_of(effect),
    )


def _end(value: float) -> str:
    return f"{value:.2f}" if math.isfinite(value) else ("−∞" if value < 0 else "∞")


@dataclass(frozen=True, slots=True)
class PersonalRow:
    """One effect of a feature of people; texts as they are shown."""

    by: str
    of: str
    estimate: str
    interval: str


def personal_rows(release: Release) -> list[PersonalRow]:
    """A line for each effect of features of people; none if the release has no such effects."""
    if release.personal is None:
        return []
    return [
        PersonalRow(
            by=each.by,
            of=each.of,
            estimate=f"{each.estimate:.2f}",
            interval=f"{_end(each.low)} to {_end(each.high)}",
        )
        for each in release.personal.effects
    ]
