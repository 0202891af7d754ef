"""Scores when people differ in how readily they prefer the first item of a pair.

The model is y ~ F(gamma_l + score_i - score_j) with an effect gamma_l of person l ([XSC] §S.1.2).
Effects and scores are fitted together, and the spread of the effects is read off the fitted ones.
With s and w an answer's terms of S and W (s = y and w = 1 without privacy), this minimises

    -sum over answers of [s log F(x) + (w - s) log F(-x)] + c |scores|^2 + b |gamma|^2,

x = gamma_l + score_i - score_j. b > 0 is not in the paper. Without it the effect of a person who
always chose the same side is infinite, and so is that of most people once answers are randomised;
a small b keeps those finite and moves the others little.

References:
    [XSC] Xu, Sun, Cheng. Rate-optimal rank aggregation with private pairwise rankings.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve

from hushrank.estimation.common.links import Floats, Link
from hushrank.estimation.fit.solve import ConvergenceError

Codes = NDArray[np.int64]

STEPS = 200
HALVINGS = 40  # of one step
ACCURACY = 1e-9  # gradient per unit of the largest weight of a person or item


@dataclass(frozen=True, slots=True)
class PersonAnswers:
    """Answers with the person who gave them; arrays of shape (m,).

    Attributes:
        person: code of the person, 0 to n_people - 1.
        first, second: codes of the two items, 0 to n_items - 1, never equal.
        s: term of S of each answer: t (noisy - p), or the answer itself without privacy.
        w: term of W of each answer: t^2, or 1 without privacy; at least 0.
        n_people, n_items: sizes.

    Raises:
        ValueError: shapes differ, a code is out of range, or a weight is negative.
    """

    person: Codes
    first: Codes
    second: Codes
    s: Floats
    w: Floats
    n_people: int
    n_items: int

    def __post_init__(self) -> None:
        columns = (self.person, self.first, self.second, self.s, self.w)
        if any(column.shape != (len(self.person),) for column in columns):
            raise ValueError("person, first, second, s and w must have the same length")
        codes = (("person", self.n_people), ("first", self.n_items), ("second", self.n_items))
        for name, size in codes:
            column = getattr(self, name)
            if len(column) and not 0 <= int(column.min()) <= int(column.max()) < size:
                raise ValueError(f"{name} must hold codes from 0 to {size - 1}")
        if (self.first == self.second).any():
            raise ValueError("first and second must differ: no item meets itself")
        if not (np.isfinite(self.s).all() and (self.w >= 0).all()):
            raise ValueError("s must be finite and w at least 0")


@dataclass(frozen=True, slots=True)
class MixedFit:
    """Scores and effects.

    Attributes:
        scores: shape (n_items,), sum to zero.
        effects: shape (n_people,).
        sigma: standard deviation of the effects ([XSC] §S.1.2); with noisy answers it holds their
            estimation error too.
        gradient_norm: of the objective at the end.
        steps: of the solver.
    """

    scores: Floats
    effects: Floats
    sigma: float
    gradient_norm: float
    steps: int


def fit_mixed(
    answers: PersonAnswers, link: Link, ridge: float = 1.0, effect_ridge: float = 0.05
) -> MixedFit:
    """Fit scores and person effects together by Fisher scoring with step halving.

    For the logistic link this is Newton's method on a convex objective, whatever the noise. The
    matrix of second derivatives is an arrow: diagonal for the effects, with a border of n_items
    columns. Eliminating the effects costs n_people n_items^2, not n_people^3.

    Args:
        answers: at least 2 people.
        link: F.
        ridge: c, finite and > 0.
        effect_ridge: b, finite and > 0. Raise it with the noise: 1 / (2 sigma^2) is the prior of
            effects with standard deviation sigma.

    Returns:
        The fit.

    Raises:
        ValueError: an argument is out of range.
        ConvergenceError: the gradient did not vanish.
    """
    if answers.n_people < 2:
        raise ValueError(f"person effects need at least 2 people, got {answers.n_people}")
    for name, value in (("ridge", ridge), ("effect_ridge", effect_ridge)):
        if not (math.isfinite(value) and value > 0):
            raise ValueError(f"{name} must be finite and > 0, got {value!r}")
    objective = _Objective(answers, link, ridge, effect_ridge)
    effects, scores = np.zeros(answers.n_people), np.zeros(answers.n_items)
    tolerance = ACCURACY * max(1.0, objective.largest_weight())
    for step in range(STEPS):
        gradient = objective.gradient(effects, scores)
        norm = math.hypot(*(float(np.linalg.norm(part)) for part in gradient))
        if norm <= tolerance:
            return MixedFit(scores, effects, float(np.std(effects, ddof=1)), norm, step)
        direction = objective.direction(effects, scores, gradient)
        effects, scores = _halved(objective, (effects, scores), direction, gradient)
    raise ConvergenceError(
        f"mixed effects: gradient norm {norm:.3g} after {STEPS} steps, wanted {tolerance:.3g}"
    )


@dataclass(frozen=True, slots=True)
class _Objective:
    answers: PersonAnswers
    link: Link
    ridge: float
    effect_ridge: float

    def largest_weight(self) -> float:
        per_person = self._per_person(self.answers.w)
        per_item = self._per_item(self.answers.w, self.answers.w)
        return float(max(per_person.max(), per_item.max()))

    def value(self, effects: Floats, scores: Floats) -> float:
        x = self._x(effects, scores)
        wins, losses = self.answers.s, self.answers.w - self.answers.s
        loss = -(wins @ self.link.log_cdf(x) + losses @ self.link.log_cdf(-x))
        return float(
            loss + self.ridge * (scores @ scores) + self.effect_ridge * (effects @ effects)
        )

    def gradient(self, effects: Floats, scores: Floats) -> tuple[Floats, Floats]:
        x = self._x(effects, scores)
        wins, losses = self.answers.s, self.answers.w - self.answers.s
        push = losses * self.link.slope(-x) - wins * self.link.slope(x)
        return (
            self._per_person(push) + 2 * self.effect_ridge * effects,
            self._per_item(push, -push) + 2 * self.ridge * scores,
        )

    def direction(
        self, effects: Floats, scores: Floats, gradient: tuple[Floats, Floats]
    ) -> tuple[Floats, Floats]:
        """Fisher scoring step, the effects eliminated."""
        n_people, n_items = self.answers.n_people, self.answers.n_items
        stiffness = self.answers.w * self.link.information(self._x(effects, scores))
        diagonal = self._per_person(stiffness) + 2 * self.effect_ridge
        border = np.zeros((n_people, n_items))
        for items, sign in ((self.answers.first, 1.0), (self.answers.second, -1.0)):
            cells = self.answers.person * n_items + items
            border += sign * np.bincount(cells, stiffness, border.size).reshape(border.shape)
        pairs = self.answers.first * n_items + self.answers.second
        pair_stiffness = np.bincount(pairs, stiffness, n_items**2).reshape(n_items, n_items)
        pair_stiffness += pair_stiffness.T
        corner = np.diag(pair_stiffness.sum(axis=1) + 2 * self.ridge) - pair_stiffness
        scaled = border / diagonal[:, None]
        move = -solve(
            corner - border.T @ scaled, gradient[1] - scaled.T @ gradient[0], assume_a="pos"
        )
        return -(gradient[0] / diagonal) - scaled @ move, move

    def _x(self, effects: Floats, scores: Floats) -> Floats:
        difference = scores[self.answers.first] - scores[self.answers.second]
        return np.asarray(effects[self.answers.person] + difference)

    def _per_person(self, terms: Floats) -> Floats:
        sums = np.bincount(self.answers.person, terms, self.answers.n_people)
        return np.asarray(sums, np.float64)

    def _per_item(self, first: Floats, second: Floats) -> Floats:
        n_items = self.answers.n_items
        of_first = np.bincount(self.answers.first, first, n_items)
        return np.asarray(of_first + np.bincount(self.answers.second, second, n_items))


def _halved(
    objective: _Objective,
    start: tuple[Floats, Floats],
    direction: tuple[Floats, Floats],
    gradient: tuple[Floats, Floats],
) -> tuple[Floats, Floats]:
    """Go 1, 1/2, 1/4, ... of the way until the value falls or, hidden by rounding, the norm."""
    value = objective.value(*start)
    slope = sum(float(g @ d) for g, d in zip(gradient, direction, strict=True))
    norm = sum(float(g @ g) for g in gradient)
    length = 1.0
    for _ in range(HALVINGS):
        effects, scores = (
            part + length * move for part, move in zip(start, direction, strict=True)
        )
        if objective.value(effects, scores) <= value + 1e-4 * length * slope:
            return effects, scores
        if sum(float(g @ g) for g in objective.gradient(effects, scores)) < norm / 4:
            return effects, scores
        length /= 2
    raise ConvergenceError("mixed effects: no step lowers the objective")
