"""Scores when people differ in how readily they prefer the first item of a pair.

The model is y ~ F(gamma_l + score_i - score_j) with an effect gamma_l of person l ([XSC] §S.1.2).
Effects and scores are fitted together, and the spread of the effects is read off the fitted ones.
With s and w an answer's terms of S and W (s = y and w = 1 without privacy), this minimises

    -sum over answers of [s log F(x) + (w - s) log F(-x)] + c |scores|^2 + b |gamma|^2,

x = gamma_l + score_i - score_j. b > 0 is not in the paper. Without it the effect of a person who
always chose the same side is infinite, and so is that of most people once answers are randomised;
a small b keeps those finite and moves the others little.

From a few noisy answers of a person nobody can tell gamma_l, but scores, the mean and the spread of
all gammas need none of them (`presentation_effect`). Averaged over gammas of mean g and standard
deviation s, P(first wins) = F((g + score_i - score_j) / k) for the logistic F but for a small
error, with k = sqrt(1 + 0.346 s^2) ([ZLA]). So a fit with one intercept for all gives g / k and the
scores over k. With F^ the fitted probability, r = s - w F^ and q = w F^ (1 - F^) of an answer,
products of two answers of one person have independent flips, and

    c = sum over people of [(sum r)^2 - sum r^2] / sum over people of [(sum q)^2 - sum q^2]

estimates s^2 / k^2, so s^2 = c / (1 - 0.346 c).

References:
    [ZLA] Zeger, Liang, Albert. Models for longitudinal data: a generalized estimating equation
        approach. Biometrics 44, 1988.
    [XSC] Xu, Sun, Cheng. Rate-optimal rank aggregation with private pairwise rankings.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from hushrank.estimation.common.links import LOGISTIC, Floats, Link
from hushrank.estimation.fit.solve import ConvergenceError

Codes = NDArray[np.int64]

NORMAL_LOGISTIC = 0.346  # (16 sqrt(3) / (15 pi))^2: a logistic law over that of a normal mixture
FAR = 4.0  # standard deviations
STEPS = 200
HALVINGS = 40  # halvings of one step
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
class PresentationEffect:
    """Readiness of people to take the item that they see first.

    Attributes:
        scores: shape (n_items,), sum to zero; of a person who prefers neither place.
        first: g, mean over people of the log odds that the first of two equal items wins.
        first_error: standard error of `first`, over people.
        variance: s^2 of those log odds between people; below 0 where chance makes it so.
        variance_error: standard error of `variance`, over people.
        unbalanced: pairs of which one item was shown first more often than chance explains, by more
            than 4 standard deviations: a fit without the intercept would favour that item.
    """

    scores: Floats
    first: float
    first_error: float
    variance: float
    variance_error: float
    unbalanced: int

    @property
    def spread(self) -> float:
        """Standard deviation s between people; 0 where no spread is seen."""
        return math.sqrt(max(self.variance, 0.0))


@dataclass(frozen=True, slots=True)
class MixedFit:
    """Scores and effects.

    Attributes:
        scores: shape (n_items,), sum to zero.
        effects: shape (n_people,).
        sigma: standard deviation of the effects ([XSC] §S.1.2); with noisy answers it holds their
            estimation error too.
        gradient_norm: norm of the objective's gradient at the end.
        steps: steps of the solver.
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
        answers: answers of at least 2 people.
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


def presentation_effect(answers: PersonAnswers, ridge: float = 1.0) -> PresentationEffect:
    """Estimate the mean and the spread of people's preference for the first item, and the scores.

    For the logistic link, from answers as they are or randomised. Randomised ones are private
    already, so whatever follows from them is; from true ones nothing here is private.

    Args:
        answers: answers of at least 2 people, one of whom has 2 answers.
        ridge: c, finite and > 0.

    Raises:
        ValueError: an argument is out of range, or people differ so much that all of them always
            take one side.
        ConvergenceError: the gradient did not vanish.
    """
    if not (math.isfinite(ridge) and ridge > 0):
        raise ValueError(f"ridge must be finite and > 0, got {ridge!r}")
    if answers.n_people < 2 or np.bincount(answers.person).max(initial=0) < 2:
        raise ValueError("the spread between people needs 2 people, and 2 answers of one of them")
    design = _signed_pairs(answers)
    found, curvature = _fit_first(answers, design, ridge)
    probability = LOGISTIC.cdf(design @ found)
    people, n = answers.person, answers.n_people
    residual, slope = (answers.s - answers.w * probability), answers.w * probability
    slope = slope * (1 - probability)
    pulls = scipy.sparse.csr_array((residual, (people, np.arange(len(people)))), (n, len(people)))
    own = (pulls @ design).toarray()
    inverse = np.linalg.inv(curvature)
    intercept_error = math.sqrt(float((inverse @ (own.T @ own) @ inverse)[0, 0]))
    products, weights = (
        np.bincount(people, each, n) ** 2 - np.bincount(people, each**2, n)
        for each in (residual, slope)
    )
    ratio = float(products.sum() / weights.sum())
    ratio_error = math.sqrt(float(np.square(products - ratio * weights).sum())) / weights.sum()
    left = 1 - NORMAL_LOGISTIC * ratio
    if left <= 0:
        raise ValueError("people differ too much: all of them seem to take one side always")
    variance = ratio / left
    k = math.sqrt(1 + NORMAL_LOGISTIC * max(variance, 0.0))
    return PresentationEffect(
        scores=k * found[1:],
        first=float(k * found[0]),
        first_error=k * intercept_error,
        variance=variance,
        variance_error=float(ratio_error) / left**2,
        unbalanced=_unbalanced(answers),
    )


def _fit_first(
    answers: PersonAnswers, design: scipy.sparse.csr_array, ridge: float
) -> tuple[Floats, Floats]:
    """Intercept and scores by Newton's method on a convex objective; and its second derivative."""
    penalty = np.full(answers.n_items + 1, 2 * ridge)
    penalty[0] = 0.0
    found, tolerance = np.zeros(len(penalty)), ACCURACY * max(1.0, float(answers.w.sum()))
    for _ in range(STEPS):
        probability = LOGISTIC.cdf(design @ found)
        slope = answers.w * probability * (1 - probability)
        gradient = design.T @ (answers.w * probability - answers.s) + penalty * found
        curvature = (design.T @ design.multiply(slope[:, np.newaxis])).toarray() + np.diag(penalty)
        if float(np.linalg.norm(gradient)) <= tolerance:
            return found, curvature
        step = scipy.linalg.solve(curvature, gradient, assume_a="pos")
        found = found - step / max(1.0, float(np.abs(step).max()))
    raise ConvergenceError("presentation effect: the gradient did not vanish")


def _signed_pairs(answers: PersonAnswers) -> scipy.sparse.csr_array:
    """1, and the first item less the second one, of each answer; shape (m, 1 + n_items)."""
    m = len(answers.person)
    rows, one = np.arange(m), np.ones(m)
    columns = np.concatenate([np.zeros(m, np.int64), 1 + answers.first, 1 + answers.second])
    cells = (np.concatenate([one, one, -one]), (np.tile(rows, 3), columns))
    return scipy.sparse.csr_array(cells, (m, 1 + answers.n_items))


def _unbalanced(answers: PersonAnswers) -> int:
    n_items = answers.n_items
    shown = np.bincount(answers.first * n_items + answers.second, minlength=n_items**2)
    shown = shown.reshape(n_items, n_items)
    apart = np.abs(shown - shown.T) > FAR * np.sqrt(shown + shown.T)
    return int(np.triu(apart, 1).sum())


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
        move = -scipy.linalg.solve(
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
