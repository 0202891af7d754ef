"""Shares of surveys in which the best items come first, from few simulated surveys.

Whether the best item of a survey comes first is yes or no, so a share of R surveys has a standard
error of up to 1 / (2 sqrt(R)). The errors of the scores say more: errors of one survey could have
happened to the scores of any other. So the errors of each survey are set against the true scores of
all of them, and of many more that are drawn alike, R M pairs in place of R.

Scores are drawn to zero, and those at the ends have larger errors. Therefore items are taken by
their true place, best first, and the error of the score s at a place is s - a w, where w is what
the method claims to find and a is the slope of all s against all w. What remains is that errors
depend a little on the distances between true scores, not on places alone; by how much shares are
off is in docs/choosing.md and tests/flows/planning/plan/test_crossed.py.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.common.links import Floats
from hushrank.flows.planning.plan.world import BEST, Accuracy
from hushrank.flows.release.scale import Scale

TRUTHS = 96  # true scores against which errors are set, beside those of the replicates


@dataclass(frozen=True, slots=True)
class Replicate:
    """One simulated survey, ranked.

    Attributes:
        scale: scale of the scores.
        found: `MEASURES` by name.
        scores: as released, shape (n,).
        wanted: the same without noise and chance; NaN: the scale has no true scores.
        in_order: whether the scores give the order.
    """

    scale: Scale
    found: dict[str, float]
    scores: Floats
    wanted: Floats
    in_order: bool


def with_crossed(
    accuracy: Accuracy, scores: Floats, wanted: Floats, further: Floats, n_top: int | None
) -> Accuracy:
    """Return it with `crossed_shares`, if some item is the best in each survey.

    Args:
        accuracy: means over surveys.
        scores, wanted, further: as for `crossed_shares`.
        n_top: number of the best items; None: the usual one.
    """
    if not np.ptp(wanted, axis=1).all():
        return accuracy
    k = min(n_top or BEST, wanted.shape[1] - 1)
    shares = crossed_shares(scores, wanted, further, k)
    spread = dict(zip(("top", "best"), shares.spread, strict=True))
    return replace(accuracy, top=shares.top, best=shares.best, spread={**accuracy.spread, **spread})


@dataclass(frozen=True, slots=True)
class Shares:
    """Shares of surveys, and of the best items, that come out right at the top.

    Attributes:
        top: share of the pairs in which the best item is first.
        best: mean share of the best k items among the first k.
        spread: standard errors of both.
    """

    top: float
    best: float
    spread: tuple[float, float]


def crossed_shares(scores: Floats, wanted: Floats, others: Floats, k: int) -> Shares:
    """Set the errors of each survey against the true scores of all.

    Args:
        scores: as released, shape (surveys, n).
        wanted: the same without noise and chance, not all equal.
        others: what would be wanted in further surveys, shape (any, n).
        k: how many items are the best.
    """
    best_first = np.argsort(-wanted, axis=1, kind="stable")
    placed = np.take_along_axis(wanted, best_first, 1)
    slope = float((scores * wanted).sum() / np.square(wanted).sum())
    errors = np.take_along_axis(scores, best_first, 1) - slope * placed
    truths = np.concatenate([placed, -np.sort(-others, axis=1)])
    found = np.array([_of_truth(slope * each + errors, k) for each in truths])
    of_truths, of_errors = found.mean(axis=2), found.mean(axis=0)
    spread = np.hypot(_standard_error(of_truths), _standard_error(of_errors.T))
    top, best = of_truths.mean(axis=0)
    return Shares(float(top), float(best), (float(spread[0]), float(spread[1])))


def _of_truth(scores: Floats, k: int) -> NDArray[np.float64]:
    """Whether place 1 is first, and the share of the first k places that are; shape (2, surveys)"""
    highest = np.argpartition(-scores, k - 1, axis=1)[:, :k]
    return np.stack([scores.argmax(axis=1) == 0, (highest < k).mean(axis=1)])


def _standard_error(values: Floats) -> Floats:
    return np.asarray(values.std(axis=0, ddof=1) / np.sqrt(len(values)))
