"""Conditional maximum likelihood of the partial credit model, from totals that may hold noise.

What `conditional_fit` does for right and wrong answers, for points. T_is is the number of sheets
with at least s points on item i, and H_r that of sheets with raw score r. In expectation, whatever
the abilities are, u_is = T_is - sum over r of H_r P(x_i >= s | r) is zero at the true steps d, and
it is linear in the noisy numbers. The solution of u + k d = 0 has no bias but that of the ridge
k_is = (1 + noise_is / V_is,is) / RIDGE_SD^2. V, the covariance of steps given scores, is the slope
of u and the covariance of what sampling adds to it. That of d is V^+ (V + noise of u) V^+, in which
the mean over items of their mean step is zero.

Noise of variance s^2 in each cell of an item leaves, after the cells' mean is replaced,
s^2 (1 - 1 / (m + 1)) in each and -s^2 / (m + 1) in two of them; steps add up cells.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.common.links import Floats
from hushrank.estimation.fit.solve import ConvergenceError
from hushrank.estimation.responses.conditional_fit import (
    CLOSE,
    FLAT,
    HALF,
    LEAST_DAMPING,
    LONGEST_STEP,
    MOST_STEPS,
    RIDGE_SD,
    ConditionalFit,
    inverse_of_centred,
)
from hushrank.estimation.responses.knots import (
    ScoreHistogram,
    chances_at_all_scores,
    not_negative,
)
from hushrank.estimation.responses.point_totals import PointTotals
from hushrank.estimation.responses.points_given_score import (
    Steps,
    is_exact,
    points_at_scores,
    step_covariance,
)

QUICK_CELLS = 500_000  # of laws without two items, up to which every pass has the exact covariance


@dataclass(frozen=True, slots=True, kw_only=True)
class PartialCreditFit:
    """Step difficulties from totals with points.

    Attributes:
        steps: d, with the ridge's pull; the mean over items of their mean steps is zero, or as
            `with_zero_of` says.
        of_steps: the same with its errors, one entry a step.
        of_items: mean steps of items with their errors, one entry an item.
        by_points: chances of points by which the equations hold at the knots, shape (knots, items,
            most + 1).
        curvature: V, shape (steps, steps).
    """

    steps: Steps
    of_steps: ConditionalFit
    of_items: ConditionalFit
    by_points: Floats
    curvature: Floats

    def with_zero_of(self, limited: NDArray[np.bool_]) -> PartialCreditFit:
        """The same differences, with zero the mean of the mean steps of these items."""
        of_items = limited / limited.sum()
        of_steps = (of_items / self.steps.points)[self.steps.owner]
        told = self.of_steps.with_zero(of_steps)
        return replace(
            self,
            steps=replace(self.steps, values=told.difficulty),
            of_steps=told,
            of_items=self.of_items.with_zero(of_items),
        )


@dataclass(frozen=True, slots=True)
class _Equations:
    """Totals as real numbers, and what noise adds to them."""

    totals: PointTotals
    sheets: ScoreHistogram
    reached: Floats  # T
    noise: Floats  # covariance that noise in cells adds to T
    of_sheets: float  # variance of the noise in a number of sheets

    @classmethod
    def of(cls, totals: PointTotals, variance: float) -> _Equations:
        shape = totals.shape
        reached = [own[::-1].cumsum()[::-1][1:] for own in totals.people_by_points()]
        of_cell = variance / (shape.answer_weight * shape.share) ** 2
        steps = Steps(np.zeros(sum(shape.points)), shape.points)
        noise = np.zeros((steps.top, steps.top))
        for item, most in enumerate(shape.points):
            above = np.triu(np.ones((most, most + 1)), 1)
            own = above @ (np.eye(most + 1) - 1 / (most + 1)) @ above.T
            noise[np.ix_(steps.owner == item, steps.owner == item)] = of_cell * own
        return cls(
            totals=totals,
            sheets=totals.by_score,
            reached=np.concatenate(reached),
            noise=noise,
            of_sheets=variance / shape.sheet_weight**2,
        )

    def points_given_scores(self, steps: Steps) -> Floats:
        """Chances of points by which sheets at knots expect as many as sheets at their scores."""
        knots = self.sheets.knots
        return self.sheets.at_knots(
            chances_at_all_scores(lambda scores: points_at_scores(steps, scores), knots)
        )

    def covariance(self, steps: Steps, *, exact: bool) -> Floats:
        """V, as if all sheets were at knots."""
        knots = self.sheets.knots
        weights, at_knots = not_negative(self.sheets.sheets), points_at_scores(steps, knots)
        return step_covariance(steps, knots, weights, at_knots, exact=exact)

    def loadings(self, steps: Steps, by_points: Floats) -> Floats:
        """How u moves with a sheet more at each knot, shape (steps, knots)."""
        most = np.array(steps.points)[steps.owner]
        return np.asarray(
            steps.of_steps(by_points).T - ((most + 1 - steps.place) / (most + 1))[:, np.newaxis]
        )


def fit_partial_credit(totals: PointTotals, variance: float) -> PartialCreditFit:
    """Fit step difficulties to released totals.

    Args:
        totals: of more sheets than noise could make.
        variance: of the noise in each entry; 0: there is none, and no ridge where the likelihood
            has a maximum.

    Raises:
        ConvergenceError: no solution was found.
    """
    equations = _Equations.of(totals, variance)
    if variance == 0 and min(own.min() for own in totals.people_by_points()) > 0:
        try:
            return _fitted(equations, 0.0)
        except (ConvergenceError, np.linalg.LinAlgError):  # no maximum: sheets are ordered
            pass
    return _fitted(equations, 1 / RIDGE_SD**2)


def _fitted(equations: _Equations, ridge: float) -> PartialCreditFit:
    points = equations.totals.shape.points
    values = _solve(equations, ridge)
    steps = Steps(values, points)
    by_points = equations.points_given_scores(steps)
    curvature = equations.covariance(steps, exact=is_exact(steps, len(equations.sheets.knots)))
    loadings = equations.loadings(steps, by_points)
    pull, _ = _pull(equations, curvature, loadings, ridge)
    mean_step = np.zeros((len(points), len(values)))
    mean_step[steps.owner, np.arange(len(values))] = 1 / np.array(points)[steps.owner]
    centre = np.eye(len(values)) - mean_step.mean(axis=0)
    inverse = centre @ inverse_of_centred(curvature)
    noise = equations.noise + equations.of_sheets * loadings @ loadings.T
    private = inverse @ noise @ inverse.T
    covariance = inverse @ centre.T + private
    unbiased = values + inverse @ (pull * values)
    own = np.maximum(np.diagonal(curvature), 0)
    kept = own / np.maximum(own + pull, np.finfo(np.float64).tiny)
    people = np.full(len(points), equations.sheets.people)

    def told(linear: Floats) -> ConditionalFit:
        return ConditionalFit(
            difficulty=linear @ values,
            unbiased=linear @ unbiased,
            covariance=linear @ covariance @ linear.T,
            noise=linear @ private @ linear.T,
            people=people,
            kept=float(kept.min()),
            informed=bool(kept.max() >= HALF),
        )

    return PartialCreditFit(
        steps=steps,
        of_steps=told(np.eye(len(values))),
        of_items=told(mean_step),
        by_points=by_points,
        curvature=curvature,
    )


def _pull(
    equations: _Equations, curvature: Floats, loadings: Floats, ridge: float
) -> tuple[Floats, Floats]:
    """Weight of the ridge for each step, and the part of it that noise makes."""
    least = FLAT * equations.sheets.people
    own = np.maximum(np.diagonal(curvature), least)
    added = np.diagonal(equations.noise) + equations.of_sheets * np.square(loadings).sum(axis=1)
    return ridge * (1 + added / own), ridge * added / own


def _solve(equations: _Equations, ridge: float) -> Floats:
    """Damped Newton steps from 0 to u + k d = 0, with mean steps of mean zero over items."""
    points, knots = equations.totals.shape.points, equations.sheets.knots
    values, before, damping = np.zeros(sum(points)), np.inf, 1.0
    mean = 1 / (len(points) * np.repeat(points, points))
    quick = len(points) ** 2 * len(knots) * (sum(points) + 1) <= QUICK_CELLS
    for _ in range(MOST_STEPS):
        steps = Steps(values, points)
        by_points = equations.points_given_scores(steps)
        curvature = equations.covariance(steps, exact=quick)
        loadings = equations.loadings(steps, by_points)
        missing = equations.sheets.sheets @ steps.of_steps(by_points) - equations.reached
        pull, by_noise = _pull(equations, curvature, loadings, ridge)
        flat = float(np.trace(curvature)) / len(values) ** 2  # V says nothing of the mean
        system = curvature + np.diag(pull + by_noise * np.abs(values)) + flat
        wanted = np.linalg.solve(
            system, np.column_stack([missing - pull * values, np.ones(len(values))])
        )
        move = wanted[:, 0] - wanted[:, 1] * ((mean @ wanted[:, 0]) / (mean @ wanted[:, 1]))
        longest = float(np.abs(move).max())
        if not np.isfinite(longest):
            raise ConvergenceError("step difficulties are not finite")
        if longest < CLOSE:
            return values
        damping = min(1.0, 1.2 * damping) if longest < before else max(damping / 2, LEAST_DAMPING)
        before = longest
        values = values + move * damping * min(1.0, LONGEST_STEP / longest)
        values -= mean @ values
    raise ConvergenceError(f"step difficulties still move by {longest:.3g}")
