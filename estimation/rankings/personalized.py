"""Scores of items for each person, from public features and private answers to random pairs.

A person with the features x (p numbers) scores item a by

    f(x, a) = base_a + sum over features j of people, k of items: effect_jk x_j y_ak.

Without features of items each item has effects of its own (y is the identity). A ranking enters by
its private answers: an answer z about the items a and b, undone so that E z is what is true of the
ranking's pair (+1 or -1), adds log(e^(d / 2) + e^(-d / 2)) - z d / 2 with d = f(x, a) - f(x, b) to
the loss. That is the logistic loss of [RDP] equation 6 for z = +1 and -1. It is linear in z, so its
expectation is the loss of the true rankings at every f: the mechanism is undone, whatever the true
rankings are ([RDP] Lemma 6 needs no correction, and is wrong: docs/reproduction.md, erratum R3). No
curvature depends on z, so the loss is convex although z lies outside [-1, 1]. The exponential and
the psi loss of the paper have neither property.

Errors are those of the sandwich A^-1 B A^-1: A is the curvature, B sums the squared slopes of all
rankings, each with all its answers. It holds what chance, the randomisation and a wrong f add.

People with the same features make a *profile*, and sums of answers of each profile are all that is
needed. A ridge draws the coefficients towards zero as far as they show noise (empirical Bayes);
intervals are those of a Newton step without it, and hold the published value too. A normal interval
needs a loss that is nearly quadratic as far as it reaches: no interval is stated where the standard
error of the difference of two scores exceeds `LARGEST_ERROR` for people of some profile, by the
curvature at these coefficients or at those of the ridge. Nor is one where rankings leave some
difference of scores open: where no person has a feature, features are the same in all people, or
nobody ranked an item.

References:
    [RDP] Xu, Sun, Cheng. Ranking differential privacy. Sections 5 and 6.
    [W82] White. Maximum likelihood estimation of misspecified models. 1982.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from hushrank.estimation.common.estimate import Estimate, estimate_of, nothing_learned
from hushrank.estimation.common.links import LOGISTIC, Floats, laplacian, score_differences
from hushrank.estimation.common.pair_separation import (
    ScoreErrors,
    difference_variance,
    separate_pairs,
)
from hushrank.estimation.common.uncertainty import LEVEL
from hushrank.estimation.fit.solve import ConvergenceError
from hushrank.estimation.rankings.pair_answer_evidence import (
    AnswerSums,
    PairAnswerCounts,
    products_of_answers,
    products_of_rankings,
)
from hushrank.privacy.random_pairs import Hide, RandomPairs

LARGEST_ERROR = 1.5  # log odds; simulations in tests show that intervals hold up to it
MOST_STEPS, HALVINGS = 100, 30
ROUNDING = 1e-12  # of the loss
CLOSE = 1e-10  # of the largest slope at the start
LEAST_KEPT = 0.25  # of the noise in all coefficients, which they are taken to have as signal
RANK = 1e-9  # curvature below this share of the largest is none
DEPENDENT = 1e-4  # features of items nearer to a sum of each other than this are one
DEPENDENT_FEATURES = (
    "the features of items follow from each other (one is a multiple of another or a sum of"
    " several, or there are as many as items), so that their effects cannot be told apart; remove a"
    " column"
)


@dataclass(frozen=True, slots=True, eq=False)
class Personalization:
    """A fitted f; K = n + p q coefficients: of base scores, then of effects (j, k) row by row.

    Attributes:
        item_features: y, shape (n, q); the identity, less its mean, where items have none.
        people: p, features of people.
        coefficients: shape (K,); those that no ranking says anything about are 0.
        centre: the same without the ridge, around which errors are.
        covariance: of the errors, shape (K, K).
        known: whether intervals hold; False: nothing is known of how far off coefficients are.
        ridge: c of c |coefficients|^2 / 2 in the fit.
        rankings: how many rankings entered.
        mean_features: mean of x over these rankings, shape (p,).
        complete: whether rankings say something of all differences of scores, of people with any
            features; if not, nothing is known.
    """

    item_features: Floats
    people: int
    coefficients: Floats
    centre: Floats
    covariance: Floats
    known: bool
    ridge: float
    rankings: int
    mean_features: Floats
    complete: bool = True

    @property
    def n_items(self) -> int:
        """Size of the catalogue."""
        return len(self.item_features)

    def estimate_for(self, features: Floats) -> Estimate:
        """Scores, intervals and ranks for a person with `features`, shape (p,)."""
        design = design_for(features, self.item_features)
        scores, centre = design @ self.coefficients, design @ self.centre
        covariance = design @ self.covariance @ design.T
        if not self.known:
            return nothing_learned(scores)
        spread = difference_variance(covariance)
        error = np.sqrt(np.maximum(np.diagonal(covariance), 0.0))

        def ends_at(tail: float) -> tuple[Floats, Floats]:
            reach = scipy.stats.norm.isf(tail) * error
            return np.minimum(centre - reach, scores), np.maximum(centre + reach, scores)

        def better_at(tail: float) -> NDArray[np.bool_]:
            margin = scipy.stats.norm.isf(tail) * np.sqrt(np.maximum(spread, 0.0))
            ahead = score_differences(centre) > margin
            return np.asarray(ahead & (score_differences(scores) > 0))

        return estimate_of(
            scores,
            *ends_at(LEVEL / 2),
            separate_pairs(scores, better_at, ends_at, covariance),
            errors=ScoreErrors(centre, covariance),
        )

    def intervals(self) -> tuple[Floats, Floats]:
        """95 % interval of each coefficient alone; it holds the published one too."""
        if not self.known:
            return np.full(len(self.centre), -np.inf), np.full(len(self.centre), np.inf)
        reach = scipy.stats.norm.isf(LEVEL / 2) * np.sqrt(np.diagonal(self.covariance))
        return (
            np.minimum(self.centre - reach, self.coefficients),
            np.maximum(self.centre + reach, self.coefficients),
        )


def centred_features(features: Floats | None, n_items: int) -> Floats:
    """Features of items with the mean 0, shape (n, q); the identity where there are none.

    Raises:
        ValueError: some feature follows from the others, so its effects could not be told apart.
    """
    if features is None:
        return np.asarray(np.eye(n_items) - 1 / n_items)
    centred = np.asarray(features - features.mean(axis=0))
    length = np.linalg.norm(centred, axis=0)
    directions = centred / np.where(length > 0, length, 1.0)
    if np.linalg.matrix_rank(directions, rtol=DEPENDENT) < len(length):
        raise ValueError(DEPENDENT_FEATURES)
    return centred


def design_for(features: Floats, item_features: Floats) -> Floats:
    """Shape (n, K): what coefficients are multiplied by in the scores of one person."""
    n = len(item_features)
    effects = np.einsum("j,nk->njk", features, item_features).reshape(n, -1)
    return np.hstack([np.eye(n) - 1 / n, effects])


def fit_personalized(
    profiles: Sequence[PairAnswerCounts],
    law: RandomPairs,
    people: Floats,
    item_features: Floats,
    ridge: float = 1.0,
) -> Personalization:
    """Fit f to the private answers of all profiles.

    Args:
        profiles: sums of the answers of people with the same features.
        law: by which they answered; which items they ranked must not be hidden.
        people: the features of each profile, shape (profiles, p).
        item_features: as from `centred_features`.
        ridge: the least, for answers without noise; finite and > 0.

    Raises:
        ValueError: shapes differ, or the law hides which items were ranked.
        ConvergenceError: no minimum was reached.
    """
    if len(profiles) != len(people):
        raise ValueError(f"got {len(profiles)} profiles, but features of {len(people)}")
    if law.hide is not Hide.ORDER:
        raise ValueError("answers that hide which items were ranked have no likelihood by pairs")
    held = [k for k, counts in enumerate(profiles) if counts.asked.any()]
    n = np.array([profiles[k].rankings for k in held], np.float64)
    mean = n @ people[held] / n.sum() if len(held) else np.zeros(people.shape[1])
    size = len(item_features) + people.shape[1] * item_features.shape[1]
    nothing = np.zeros(size)
    if not held:
        empty = item_features, people.shape[1], nothing, nothing, np.zeros((size, size))
        return Personalization(*empty, False, ridge, 0, mean, complete=False)
    answers = [AnswerSums.of([(profiles[k], law)]) for k in held]
    loss = _Loss(answers, [design_for(people[k], item_features) for k in held])
    least = ridge / law.attenuation**2
    drawn = loss.minimum(nothing, least)
    centre = loss.without_ridge(drawn, least)
    covariance = loss.errors(centre)
    used = max(least, loss.ridge())
    complete = loss.complete(people.shape[1], *item_features.shape)
    return Personalization(
        item_features=item_features,
        people=people.shape[1],
        coefficients=loss.minimum(drawn, used),
        centre=centre,
        covariance=covariance,
        known=complete and max(map(loss.largest_error, (drawn, centre))) <= LARGEST_ERROR,
        ridge=used,
        rankings=int(n.sum()),
        mean_features=mean,
        complete=complete,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Loss:
    """The loss of all answers; those of longer lists count as often as they stand for.

    Attributes:
        answers: of each profile.
        designs: of each profile, shape (n, K).
    """

    answers: list[AnswerSums]
    designs: list[Floats]

    @property
    def scale(self) -> float:
        """What weights are multiplied by, so that answers count as one each on average."""
        asked = sum(float(each.asked.sum()) for each in self.answers)
        return asked / sum(float(each.squares.sum()) for each in self.answers)

    def parts(self) -> Iterator[tuple[AnswerSums, Floats]]:
        """Answers and design of each profile."""
        return zip(self.answers, self.designs, strict=True)

    def value(self, at: Floats, ridge: float) -> float:
        """The loss, with the ridge."""
        total = ridge * float(at @ at) / 2
        for answers, design in self.parts():
            scores, half = design @ at, answers.margins.sum(axis=1) / 2
            apart = score_differences(scores) / 2
            loss = float((answers.asked * np.logaddexp(apart, -apart)).sum()) / 2
            total += self.scale * (loss - float(half @ scores))
        return total

    def slope(self, at: Floats) -> Floats:
        """Gradient without the ridge."""
        total = np.zeros(len(at))
        for answers, design in self.parts():
            nets = (answers.asked * _half_margins(design @ at)).sum(axis=1)
            total += self.scale * design.T @ (nets - answers.margins.sum(axis=1) / 2)
        return total

    def curvature(self, at: Floats) -> Floats:
        """Hessian without the ridge."""
        total = np.zeros((len(at), len(at)))
        for answers, design in self.parts():
            margins = _half_margins(design @ at)
            total += self.scale * design.T @ laplacian(answers.asked * (0.25 - margins**2)) @ design
        return total

    def minimum(self, start: Floats, ridge: float) -> Floats:
        """Newton's method with halved steps, on a convex loss.

        Raises:
            ConvergenceError: the slope stayed above its tolerance.
        """
        at, unit = start, np.eye(len(start))
        least = CLOSE * max(float(np.abs(self.slope(np.zeros(len(start)))).max()), 1.0)
        for _ in range(MOST_STEPS):
            slope = self.slope(at) + ridge * at
            if np.abs(slope).max() <= least:
                return at
            step = -np.linalg.solve(self.curvature(at) + ridge * unit, slope)
            value, length = self.value(at, ridge), 1.0
            rounding = ROUNDING * max(abs(value), 1.0)
            for _ in range(HALVINGS):
                wanted = value + 1e-4 * length * float(slope @ step) + rounding
                if self.value(at + length * step, ridge) <= wanted:
                    break
                length /= 2
            at = at + length * step
        raise ConvergenceError("the fit of personalised scores did not reach its minimum")

    def without_ridge(self, drawn: Floats, ridge: float) -> Floats:
        """A Newton step without the ridge, by the curvature half-way."""
        pull = ridge * drawn
        near = drawn + _inverse(self.curvature(drawn)) @ pull / 2
        return np.asarray(drawn + _inverse(self.curvature(near)) @ pull)

    def noise(self, at: Floats) -> Floats:
        """B, the sum over rankings of squared slopes, shape (K, K)."""
        alone, together = np.zeros((2, len(at), len(at)))
        for answers, design in self.parts():
            expected = _half_margins(design @ at)
            alone += design.T @ products_of_answers(answers, expected) @ design
            together += design.T @ products_of_rankings(answers, expected) @ design
        values, vectors = np.linalg.eigh(together)
        whole = alone + (vectors * np.maximum(values, 0.0)) @ vectors.T
        return np.asarray(self.scale**2 * whole)

    def errors(self, at: Floats) -> Floats:
        """The sandwich A^-1 B A^-1, shape (K, K)."""
        inverse = _inverse(self.curvature(at))
        return np.asarray(inverse @ self.noise(at) @ inverse)

    def largest_error(self, at: Floats) -> float:
        """Largest standard error of the difference of two scores of somebody; infinite if the
        curvature there leaves a direction open that is not open at 0."""
        if self.free(at) < self.free(np.zeros(len(at))):
            return math.inf
        covariance = self.errors(at)
        spread = [difference_variance(each @ covariance @ each.T).max() for each in self.designs]
        return math.sqrt(max(max(spread), 0.0))

    def complete(self, people: int, n_items: int, width: int) -> bool:
        """Whether no difference of scores is open, by `people` features of people, `width` of
        items."""
        all_known = n_items - 1 + people * min(width, n_items - 1)
        return self.free(np.zeros(n_items + people * width)) == all_known

    def free(self, at: Floats) -> int:
        """How many directions the curvature at some coefficients knows."""
        values = np.linalg.eigvalsh(self.curvature(at))
        return int((values > RANK * values[-1]).sum())

    def ridge(self) -> float:
        """The ridge by which coefficients are nearest to the true ones, by what all show together.

        From a first Newton step, whose noise is known however large it is: c = B / (A s^2) for
        coefficients with the variance s^2, the mean square of the step less its noise.
        """
        nothing = np.zeros(self.designs[0].shape[1])
        curvature, noise = self.curvature(nothing), self.noise(nothing)
        inverse = _inverse(curvature)
        step, chance = inverse @ self.slope(nothing), float(np.trace(inverse @ noise @ inverse))
        signal = max(float(step @ step) - chance, LEAST_KEPT * chance)
        return self.free(nothing) * float(np.trace(noise)) / (float(np.trace(curvature)) * signal)


def _half_margins(scores: Floats) -> Floats:
    return np.asarray(LOGISTIC.cdf(score_differences(scores)) - 0.5)


def _inverse(curvature: Floats) -> Floats:
    return np.asarray(np.linalg.pinv(curvature, rcond=RANK, hermitian=True))
