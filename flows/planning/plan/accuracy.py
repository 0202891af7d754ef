"""Accuracy of a planned release: its measures over replicates, and targets for them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hushrank.estimation.common.estimate import Estimate, nothing_learned
from hushrank.estimation.common.links import Floats
from hushrank.estimation.common.metrics import linf_error, rms_error, top_k_distance
from hushrank.flows.release.scale import Scale

SHARES, ERRORS = ("top", "best", "order"), ("error", "largest", "width")
MEASURES = (*SHARES, *ERRORS, "equal", "largest_equal", "informative")


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """Accuracy of one setting: means over replicates. NaN where a method does not give the measure.

    Attributes:
        top: share of replicates in which the best item is ranked first.
        best: share of the best k items that are among the first k.
        order: share of the pairs of items that are in the right order.
        error: n^(-1/2) times the l2 norm of the scores' error: of a typical score.
        largest: l-infinity norm of the scores' error.
        width: mean ranks that an item may be better or worse, `rank_high - rank_low`.
        equal: value of `error` if all items are called equal; scores that are further off than that
            say nothing.
        largest_equal: value of `largest` in that case.
        informative: share of replicates whose release says anything.
        spread: standard error of each of these, by name.
        scale: scale of the scores.
    """

    top: float
    best: float
    order: float
    error: float
    largest: float
    width: float
    equal: float
    largest_equal: float
    informative: float
    spread: Mapping[str, float]
    scale: Scale


@dataclass(frozen=True, slots=True)
class Target:
    """Wanted accuracy: at least `value` of a share, or at most `value` of an error."""

    name: str
    value: float

    def met(self, accuracy: Accuracy) -> bool:
        """Whether a setting reaches the target."""
        reached = float(getattr(accuracy, self.name))
        return reached >= self.value if self.name in SHARES else reached <= self.value


def mean_accuracy(found: Sequence[Mapping[str, float]], scale: Scale) -> Accuracy:
    """Compute means and their standard errors over replicates, each of which has all `MEASURES`."""
    table = np.array([[measured[name] for name in MEASURES] for measured in found])
    errors = table.std(axis=0, ddof=1) / math.sqrt(len(table))
    return Accuracy(
        **dict(zip(MEASURES, table.mean(axis=0).tolist(), strict=True)),
        spread=dict(zip(MEASURES, errors.tolist(), strict=True)),
        scale=scale,
    )


def measured(estimate: Estimate, truth: Floats, n_top: int | None) -> dict[str, float]:
    """Measure the order and the ranks of an estimate; see `scores_measured` for `n_top`."""
    k = min(n_top or 3, len(truth) - 1)
    return {
        "top": float(estimate.order[0] == truth.argmax()),
        "best": 1 - top_k_distance(-estimate.rank, truth, k),
        "order": in_order(-estimate.rank, truth),
        "width": float((estimate.rank_high - estimate.rank_low).mean()),
        "informative": float(estimate.informative),
    }


def scores_measured(scores: Floats, truth: Floats, n_top: int | None) -> dict[str, float]:
    """Measure scores without intervals by `MEASURES`; no rank has a width.

    Args:
        scores: shape (n,), larger is better.
        truth: true scores.
        n_top: number of the best items; None: 3.
    """
    found = measured(nothing_learned(scores), truth, n_top) | score_errors(scores, truth)
    return found | {"width": math.nan, "informative": 1.0}


def score_errors(scores: Floats, wanted: Floats) -> dict[str, float]:
    """Errors of scores, and of equal scores for all items."""
    equal = np.zeros(len(wanted))
    return {
        "error": rms_error(scores, wanted),
        "largest": linf_error(scores, wanted),
        "equal": rms_error(equal, wanted),
        "largest_equal": linf_error(equal, wanted),
    }


def in_order(scores: Floats, truth: Floats) -> float:
    """Share of the pairs of items in the right order; equal ones count as half right."""
    n = len(truth)
    found, wanted = (np.sign(np.subtract.outer(values, values)) for values in (scores, truth))
    return float(1 + (found * wanted).sum() / (n * (n - 1))) / 2
