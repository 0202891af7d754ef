"""How often the best items come first, from few simulated surveys.

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

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.common.links import Floats


@dataclass(frozen=True, slots=True)
class Shares:
    """How often the best items come first.

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
