"""Gain from weights for people with many answers (`privacy.bounding: weights`).

From a guess of how much people answer alone. A person with m answers adds m f(m) to the counts with
weights (`privacy.row_weights`), and min(m, L) where the others are left out; the noise is the same.
So the ratio of the two sums over people is that of the signal to the noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import ConfigError
from hushrank.flows.methods.reductions import CountedMethod
from hushrank.flows.methods.registry import METHODS
from hushrank.pipelines.simulate.planned_survey import Activity
from hushrank.privacy.row_weights import FACTOR_BITS, RowFactors
from hushrank.privacy.units import Bounding, NoiseKind, Unit

WORTH_SAYING = 1.05  # a smaller gain is not reported
OF_LEAVE_OUT = "times the signal-to-noise ratio of leave-out"
NEEDED = "unit: user, noise: gaussian, distinct_pairs: true"


def activity_of(levels: Sequence[str]) -> Activity:
    """Parse texts such as 5:0.9 and 60:0.1 into how much people answer; shares are relative.

    Raises:
        ConfigError: a text is something else.
    """
    found = []
    for level in levels:
        rows, _, share = level.partition(":")
        try:
            found.append((int(rows), float(share or 1)))
        except ValueError:
            found.append((0, 0.0))
        if not (found[-1][0] >= 1 and 0 < found[-1][1] < float("inf")):
            raise ConfigError(
                f"--activity must be a number of answers >= 1, or with a share > 0 as 60:0.1, got"
                f" {level!r}"
            )
    total = sum(share for _, share in found)
    return tuple((rows, share / total) for rows, share in sorted(found))


def gain_of_weights(
    config: SurveyConfig, method: str, most: int, activity: Activity
) -> float | None:
    """Signal to noise with weights divided by that without; None: the method takes no weights.

    Args:
        config: the job; its noise and distinct pairs are taken as weights need them.
        method: method that ranks.
        most: L.
        activity: numbers of answers that people give.
    """
    ranks = METHODS[method]
    if not isinstance(ranks, CountedMethod) or ranks.counted is None or not activity:
        return None
    if config.privacy.unit is not Unit.USER or config.privacy.public_graph:
        return None
    n_items = len(config.items.catalogue())
    params = replace(
        config.privacy.params(),
        noise=NoiseKind.GAUSSIAN,
        delta=0.0,
        rho=1.0,
        max_contributions=most,
        per_item_cap=None,
        distinct_pairs=True,
        bounding=Bounding.WEIGHTS,
    )
    rows = np.minimum([each for each, _ in activity], n_items * (n_items - 1) // 2)
    share = np.array([each for _, each in activity])
    weight = RowFactors(params, ranks.counted, n_items).of(rows) / 2**FACTOR_BITS
    return float(share @ (rows * weight) / (share @ np.minimum(rows, most)))


def weights_text(config: SurveyConfig, method: str, most: int, activity: Activity) -> str:
    """Text on the gain from weights; empty: there is nothing to say."""
    gain = gain_of_weights(config, method, most, activity)
    if gain is None:
        return ""
    privacy, chosen = config.privacy, config.privacy.bounding is Bounding.WEIGHTS
    if gain < WORTH_SAYING:
        advice = "leave-out is as good" if chosen else "nothing to gain"
        return f"Heavy users: privacy.bounding: weights has {gain:.2f} {OF_LEAVE_OUT}; {advice}."
    said = f"Heavy users: privacy.bounding: weights has {gain:.2f} {OF_LEAVE_OUT}"
    if chosen:
        return f"{said}, and the job uses it."
    ready = privacy.noise is NoiseKind.GAUSSIAN and privacy.distinct_pairs
    return f"{said}, at the same guarantee; add it." if ready else f"{said}; it needs {NEEDED}."
