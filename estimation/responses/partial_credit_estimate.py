"""Item and step difficulties with intervals, reliability and abilities, from totals with points.

An item's difficulty is the mean of its steps: with it as ability, no points and all points are as
likely as each other. Intervals are those of `totals_estimate`. All of it is computed from what was
released, so it is post-processing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.common.estimate import Estimate, nothing_learned
from hushrank.estimation.responses.partial_credit_fit import PartialCreditFit, fit_partial_credit
from hushrank.estimation.responses.point_totals import PointTotals
from hushrank.estimation.responses.reliability import (
    PointsByScore,
    Reliability,
    ScoredSheets,
    alpha,
    person_separation,
)
from hushrank.estimation.responses.score_table import ScoreTable, point_score_table
from hushrank.estimation.responses.totals_estimate import (
    CLEAR_SHEETS,
    CONFIRMED,
    TotalsEstimate,
    errors_of_the_chosen,
    informative_estimate,
)
from hushrank.privacy.noise import NoiseLaw

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepEstimate:
    """Difficulty of a step of an item, from `points` - 1 to `points` points, with its interval."""

    item: int
    points: int
    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PartialCreditEstimate:
    """What totals with points tell.

    Attributes:
        estimate: scores are difficulties of items, so rank 1 is the hardest. Those of items that
            are bounded on both sides sum to zero; those of all, if there are none.
        fit: steps with their errors, on this scale; None: nothing is learned.
        no_lower_limit: items of which no sheet without a point is confirmed, shape (items,).
        no_upper_limit: items of which no sheet with all points is confirmed.
        steps: of all items, in catalogue order.
    """

    estimate: Estimate
    fit: PartialCreditFit | None
    no_lower_limit: Mask
    no_upper_limit: Mask
    steps: tuple[StepEstimate, ...] = ()

    @property
    def of_items(self) -> TotalsEstimate:
        """Difficulties of items alone, in the form of a test of right and wrong answers."""
        return TotalsEstimate(
            estimate=self.estimate,
            fit=None if self.fit is None else self.fit.of_items,
            no_lower_limit=self.no_lower_limit,
            no_upper_limit=self.no_upper_limit,
        )


def estimate_partial_credit(totals: PointTotals, law: NoiseLaw) -> PartialCreditEstimate:
    """Difficulties from released totals, with intervals.

    Args:
        totals: released.
        law: of the noise in one entry.

    Raises:
        ValueError: the totals are confidential.
        ConvergenceError: the totals cannot be fitted.
    """
    if totals.confidential:
        raise ValueError("totals are confidential: only released ones may be estimated from")
    shape, n = totals.shape, totals.n_items
    people = totals.by_score.people
    of_people = math.sqrt(len(totals.histogram) * law.variance) / shape.sheet_weight
    counted = people > CLEAR_SHEETS * of_people and people > 0
    fit = fit_partial_credit(totals, law.variance) if counted else None
    if fit is None or not fit.of_steps.informed:
        nobody = np.zeros(n, np.bool_)
        estimate = nothing_learned(np.zeros(n), rank=np.full(n, (n + 1) / 2))
        return PartialCreditEstimate(
            estimate=estimate, fit=None, no_lower_limit=nobody, no_upper_limit=nobody
        )
    fit = fit.widened(errors_of_the_chosen(np.array(people), np.array(of_people)))
    of_cell = law.variance / (shape.answer_weight * shape.share) ** 2
    seen = []
    for own in totals.people_by_points():  # the cells' mean gives way to that of all sheets
        noise = of_cell * (1 - 1 / len(own)) + (of_people / len(own)) ** 2
        seen.append(own > CONFIRMED * math.sqrt(noise))
    easy = np.array([not own[0] for own in seen])
    hard = np.array([not own[-1] for own in seen])
    if (limited := ~(easy | hard)).any():
        fit = fit.with_zero_of(limited)
    no_low = ~np.concatenate([own[:-1] for own in seen])
    no_high = ~np.concatenate([own[1:] for own in seen])
    by_step = informative_estimate(fit.of_steps, law, no_low, no_high)
    places = zip(fit.steps.owner.tolist(), fit.steps.place.tolist(), strict=True)
    bounds = zip(by_step.scores.tolist(), by_step.low.tolist(), by_step.high.tolist(), strict=True)
    return PartialCreditEstimate(
        estimate=informative_estimate(fit.of_items, law, easy, hard),
        fit=fit,
        no_lower_limit=easy,
        no_upper_limit=hard,
        steps=tuple(
            StepEstimate(item=item, points=points, value=value, low=low, high=high)
            for (item, points), (value, low, high) in zip(places, bounds, strict=True)
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PointReport:
    """Abilities by raw score, and how reliable scores and abilities are; None: not told."""

    table: ScoreTable
    alpha: Reliability | None
    separation: Reliability | None


def point_report(totals: PointTotals, fit: PartialCreditFit, law: NoiseLaw) -> PointReport:
    """What is said of a test with points beside difficulties.

    Args:
        totals: released.
        fit: to these totals.
        law: of the noise in one entry.

    Raises:
        ConvergenceError: no ability was found for a score.
    """
    shape = totals.shape
    scores = ScoredSheets(
        histogram=totals.by_score,
        variance=law.variance / shape.sheet_weight**2,
        kind=law.kind,
    )
    points = PointsByScore(
        people=totals.people_by_points(),
        variance=law.variance / (shape.answer_weight * shape.share) ** 2,
        reached=fit.steps.of_steps(fit.by_points),
        curvature=fit.curvature,
    )
    table = point_score_table(fit.steps, fit.of_steps.covariance)
    return PointReport(
        table=table,
        alpha=alpha(scores, points),
        separation=person_separation(scores, table, fit.of_steps.covariance),
    )
