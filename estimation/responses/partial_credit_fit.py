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

Chances of points given raw scores, in the adjacent category (partial credit) model.

Item i gives h = 0..m points with a chance that is proportional to exp(h w - d_i1 - .. - d_ih) at
ability w, where d_is is the difficulty of its step s from s - 1 to s points [M82]. For m = 1 that
is the Rasch model. The raw score is sufficient for w, so the law of a sheet given its score r
depends on steps alone. It is computed at the ability whose mean score is r:
P(x_i = h | r) = p_ih L(r - h) / sum over k of p_ik L(r - k), with L the law of the score of all
other items.

References:
    [M82] Masters. A Rasch model for partial credit scoring. Psychometrika 47, 1982.
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
from hushrank.estimation.responses.knots import ScoreHistogram, chances_at_all_scores, not_negative
from hushrank.estimation.responses.point_totals import PointTotals

HALVINGS, FURTHEST = 45, 40.0  # of the range of abilities, which exceeds the steps by so much
MOST_CELLS = 4_000_000  # of laws of scores that are held at once
EXACT_CELLS = 5_000_000  # of laws without two items, up to which covariances are exact

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Steps:
    """Step difficulties of items, in one row, item by item.

    Attributes:
        values: shape (sum of points,).
        points: most points of each item.
    """

    values: Floats
    points: tuple[int, ...]

    @property
    def most(self) -> int:
        """Most points that an item gives."""
        return max(self.points)

    @property
    def top(self) -> int:
        """Highest raw score."""
        return sum(self.points)

    @property
    def owner(self) -> Integers:
        """The item of each step."""
        return np.repeat(np.arange(len(self.points)), self.points)

    @property
    def place(self) -> Integers:
        """The number of each step within its item, from 1."""
        return np.concatenate([np.arange(1, most + 1) for most in self.points])

    def log_weights(self) -> Floats:
        """Shape (items, most + 1): minus the sum of steps up to h points; -inf: never given."""
        table = np.full((len(self.points), self.most + 1), np.inf)
        table[:, 0] = 0.0
        table[self.owner, self.place] = self.values
        return -np.cumsum(table, axis=1)

    def chances(self, ability: Floats) -> Floats:
        """Chance of each number of points, shape (abilities, items, most + 1)."""
        points = np.arange(self.most + 1)
        logs = self.log_weights() + ability[:, np.newaxis, np.newaxis] * points
        logs -= logs.max(axis=2, keepdims=True)
        weights = np.exp(logs)
        return np.asarray(weights / weights.sum(axis=2, keepdims=True))

    def of_steps(self, by_points: Floats) -> Floats:
        """Sums over at least s points, for each step s: from shape (.., items, most + 1)."""
        above = np.cumsum(by_points[..., ::-1], axis=-1)[..., ::-1]
        return np.asarray(above[..., self.owner, self.place])


def points_at_scores(steps: Steps, scores: Integers) -> Floats:
    """P(x_i = h | r) of some raw scores, shape (scores, items, most + 1)."""
    found = np.zeros((len(scores), len(steps.points), steps.most + 1))
    found[scores == 0, :, 0] = 1.0
    full = np.flatnonzero(scores == steps.top)
    found[full[:, np.newaxis], np.arange(len(steps.points)), list(steps.points)] = 1.0
    inner = np.flatnonzero((scores > 0) & (scores < steps.top))
    rows = max(1, MOST_CELLS // (len(steps.points) * (steps.top + 1)))
    for part in np.split(inner, range(rows, len(inner), rows)):
        if len(part):
            found[part] = _inner_points(steps, scores[part])
    return found


def _at_mean_score(steps: Steps, scores: Integers) -> Floats:
    """Chances at the abilities whose mean scores these are, by bisection."""
    low = np.full(len(scores), steps.values.min() - FURTHEST)
    high = np.full(len(scores), steps.values.max() + FURTHEST)
    points = np.arange(steps.most + 1)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        above = (steps.chances(middle) @ points).sum(axis=1) > scores
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return steps.chances((low + high) / 2)


def _with_item(law: Floats, chance: Floats) -> Floats:
    """Law of a score with one more item: law shape (.., top + 1), chance shape (.., most + 1)."""
    found = law * chance[..., :1]
    for points in range(1, chance.shape[-1]):
        found[..., points:] += law[..., :-points] * chance[..., points : points + 1]
    return found


def _at(law: Floats, scores: Integers) -> Floats:
    """The law read backwards from each score, shape (.., scores, top + 1): entry u is at
    score - u, and 0 below 0."""
    place = scores[:, np.newaxis] - np.arange(law.shape[-1])
    index = np.broadcast_to(np.maximum(place, 0), law.shape)
    return np.asarray(np.take_along_axis(law, index, axis=-1) * (place >= 0))


def _inner_points(steps: Steps, scores: Integers) -> Floats:
    chance, n = _at_mean_score(steps, scores), len(steps.points)
    before = np.zeros((n + 1, len(scores), steps.top + 1))
    before[0, :, 0] = 1.0
    after = before.copy()
    for item in range(n):
        before[item + 1] = _with_item(before[item], chance[:, item])
        after[item + 1] = _with_item(after[item], chance[:, n - 1 - item])
    after = after[::-1]  # entry i: the law of the items from i on
    weights = np.empty_like(chance)
    for points in range(steps.most + 1):
        others = np.einsum("isu,isu->si", before[:-1], _at(after[1:], scores - points))
        weights[:, :, points] = chance[:, :, points] * others
    return np.asarray(weights / weights.sum(axis=2, keepdims=True))


def is_exact(steps: Steps, n_scores: int) -> bool:
    """Whether `step_covariance` is exact for so many scores."""
    return len(steps.points) ** 2 * n_scores * (steps.top + 1) <= EXACT_CELLS


def step_covariance(
    steps: Steps, scores: Integers, weights: Floats, by_points: Floats, *, exact: bool
) -> Floats:
    """Covariance of reached steps given scores, summed over sheets, shape (steps, steps).

    Args:
        steps: their difficulties.
        scores: raw scores.
        weights: sheets at each of them, at least 0.
        by_points: `points_at_scores` of them.
        exact: whether to take pairs of items out of the law of scores; else items are independent
            but for the sum, which is nearly so where they are many.
    """
    points = np.arange(steps.most + 1)
    reached = steps.of_steps(by_points)
    if not exact:
        spread = steps.of_steps(by_points * (points - (by_points @ points)[..., np.newaxis]))
        total = (by_points @ points**2 - np.square(by_points @ points)).sum(axis=1)
        share = np.divide(weights, total, out=np.zeros_like(total), where=total > 0)
        found = -np.einsum("r,ri,rj->ij", share, spread, spread)
        return np.asarray(found + _within_items(steps, weights, reached))
    joint = _sheets_with_both(steps, scores, weights)
    both = steps.of_steps(np.moveaxis(steps.of_steps(joint), -1, 0))  # steps of j, then of i
    found = both.T - np.einsum("r,ri,rj->ij", weights, reached, reached)
    same = steps.owner[:, np.newaxis] == steps.owner
    found[same] = _within_items(steps, weights, reached)[same]
    return np.asarray((found + found.T) / 2)


def _within_items(steps: Steps, weights: Floats, reached: Floats) -> Floats:
    """Covariance of steps of the same item, zero elsewhere: who reached one reached all before."""
    later = np.maximum(steps.place[:, np.newaxis], steps.place)
    mean = weights @ reached
    first = np.searchsorted(steps.owner, np.arange(len(steps.points)))
    at = np.minimum(first[steps.owner][:, np.newaxis] + later, len(mean)) - 1
    found = mean[at] - np.einsum("r,ri,rj->ij", weights, reached, reached)
    found[steps.owner[:, np.newaxis] != steps.owner] = 0.0
    return np.asarray(found)


def _sheets_with_both(steps: Steps, scores: Integers, weights: Floats) -> Floats:
    """Sheets with h points on item i and k on item j, shape (i, h, j, k); of i = j meaningless."""
    n, most = len(steps.points), steps.most
    found = np.zeros((n, most + 1, n, most + 1))
    for end, sheets in ((0, weights[scores == 0]), (1, weights[scores == steps.top])):
        at = np.array(steps.points) * end
        found[np.arange(n)[:, np.newaxis], at[:, np.newaxis], np.arange(n), at] += sheets.sum()
    inner = (scores > 0) & (scores < steps.top) & (weights > 0)
    if not inner.any():
        return found
    score, chance = scores[inner], _at_mean_score(steps, scores[inner])
    before = np.zeros((n + 1, n, len(score), steps.top + 1))  # laws without the item of axis 1
    before[0, :, :, 0] = 1.0
    after = before.copy()
    for item in range(n):
        for laws, added in ((before, item), (after, n - 1 - item)):
            laws[item + 1] = _with_item(laws[item], chance[np.newaxis, :, added])
            laws[item + 1, added] = laws[item, added]
    after, law = after[::-1], _law_of_all(chance, steps.top)
    scale = weights[inner] / law[np.arange(len(score)), score]
    for points in range(2 * most + 1):
        others = np.einsum("jisu,jisu->jis", before[:-1], _at(after[1:], score - points))
        for own in range(max(0, points - most), min(most, points) + 1):
            other = points - own
            found[:, own, :, other] += np.einsum(
                "s,si,sj,jis->ij", scale, chance[:, :, own], chance[:, :, other], others
            )
    return found


def _law_of_all(chance: Floats, top: int) -> Floats:
    law = np.zeros((len(chance), top + 1))
    law[:, 0] = 1.0
    for item in range(chance.shape[1]):
        law = _with_item(law, chance[:, item])
    return law


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

    def widened(self, by: Floats) -> PartialCreditFit:
        """The same difficulties, with errors that are `by` times as large: one number."""
        return replace(self, of_steps=self.of_steps.widened(by), of_items=self.of_items.widened(by))


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
