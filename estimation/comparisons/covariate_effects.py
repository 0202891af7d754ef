"""Scores and effects of covariates from a release of `covariate_mle`, with 95 % intervals.

The released scores theta~ and effects beta~ are stationary: with W[i, j] comparisons of two items,
B what scores and effects share and Q the information about effects (sums over rows, as released),

    sum over j of W[i, j] (F(theta_i - theta_j) - F(theta~_i - theta~_j)) + B_i (beta - beta~)
                                                                       - ridge theta~_i
    B' (theta - theta~) + Q (beta - beta~) - ridge beta~ / share

are, at the true theta and beta and to first order in beta - beta~, errors of sampling and of the
noise w. W is of the form W[i, j] = a_i a_j, partners meeting by chance (`exposures`), with the
released information of each item, sum over j of W[i, j] F'(theta~_i - theta~_j). Informations of
items are drawn to those of a balanced design, and the columns of B, which sum to zero, to zero, as
far as noise explains their size; what noise may hide of B is taken off what is known of effects.

The ridge draws effects to zero, and these equations put them back, as far as what is known of them
stands clear of its noise. Scores then follow from the net wins of items at these effects, and so do
their intervals, where the effects' errors count among those of the others (`net_wins`). An effect's
interval is that of a normal and a Laplace variable of the variances that the linearised equations
give; it is widened where the information about the effect, the factor by which errors are divided,
is itself noisy ([F54]), and infinite where it does not stand clear of its noise.

References:
    [F54] Fieller. Some problems in interval estimation. 1954.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hushrank.estimation.common.estimate import Estimate
from hushrank.estimation.common.links import LOGISTIC, Floats, laplacian, score_differences
from hushrank.estimation.common.pair_separation import ScoreErrors
from hushrank.estimation.common.uncertainty import LEVEL, quantile
from hushrank.estimation.comparisons.covariate_mle import CovariateMle, CovariateRelease
from hushrank.estimation.comparisons.net_wins import (
    FLAT,
    LONGEST_STEP,
    NEWTON_STEPS,
    PRECISION,
    SINGULAR,
    SOLVED,
    NetWins,
    fit_net_wins,
    rank_around,
)
from hushrank.privacy.units import NoiseKind

FITTING_STEPS = 500
FITTED = 1e-9  # relative error of a row sum at which the fit of the design is over
LEAST_CLEAR = 0.5  # standard deviations of its noise that every information is taken to be at least
CLEAR = 2.0  # standard deviations of its noise, below which what is known of an effect is not used
LEAST_KNOWN = 0.125  # rows at equal scores, likewise: where there is no noise, there may be none


@dataclass(frozen=True, slots=True)
class EffectEstimates:
    """Effects of covariates, in log odds for a covariate of 1; all of shape (q,).

    Attributes:
        values: the estimates.
        low, high: 95 % intervals, one effect at a time.
    """

    values: Floats
    low: Floats
    high: Floats


def rank_with_covariates(
    released: CovariateRelease, mechanism: CovariateMle
) -> tuple[Estimate, EffectEstimates]:
    """Scores at equal covariates, with intervals and ranks, and the effects.

    Args:
        released: release by `mechanism`.
        mechanism: the mechanism that drew it.
    """
    world, wary = worlds_of(released, mechanism)
    effects = effects_in(world, wary)
    scores = fit_net_wins(world.net_wins(effects, world.w_variance))
    errors, wary_errors = (Errors.at(each, scores, effects) for each in (world, wary))
    estimate = rank_around(
        world.net_wins(effects, errors.noise), scores, errors.of_others, errors.of_scores
    )
    return estimate, wary_errors.intervals(wary, effects)


def worlds_of(released: CovariateRelease, mechanism: CovariateMle) -> tuple[World, World]:
    """The world that scores follow from, and a warier one for effects; see `_kept`."""
    world, wary = (World.of(released, mechanism, doubt) for doubt in (0.0, 1.0))
    return world, wary


def effects_in(world: World, wary: World) -> Floats:
    """The effects, of which the ridge is taken off as far as what is known of them is clear."""
    return world.effects + wary.clarity * (world.fitted()[1] - world.effects)


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """The released minimiser, and the equations around it.

    Attributes:
        scores, effects: theta~ and beta~.
        design: W, shape (n, n).
        between, of_effects: B and Q, shapes (n, q) and (q, q), in rows.
        force: shape (n + q,), the ridges times the released values.
        w_variance: shape (n + q,), of w.
        cover_variance: variance of the noise that covers rounding, in each released value.
        design_variance: variance of the error in the information of an item.
        between_variance, effects_variance: shapes (q,) and (q, q), of errors in B and Q.
        information: that about all items together, in standard deviations of its noise.
    """

    scores: Floats
    effects: Floats
    design: Floats
    between: Floats
    of_effects: Floats
    force: Floats
    w_variance: Floats
    cover_variance: float
    design_variance: float
    between_variance: Floats
    effects_variance: Floats
    information: float

    @property
    def n_items(self) -> int:
        """Number of scores."""
        return len(self.scores)

    @classmethod
    def of(cls, released: CovariateRelease, mechanism: CovariateMle, doubt: float) -> World:
        """Build the world from the release; `doubt`: see `_kept`."""
        kinds = mechanism.information
        noise = [kind.variance for kind in kinds]
        known, between, of_effects = (
            np.asarray(sums * kind.unit, np.float64)
            for sums, kind in zip(
                (released.of_scores, released.between, released.of_effects), kinds, strict=True
            )
        )
        slopes = LOGISTIC.curvature(score_differences(released.scores))
        balanced = slopes.sum(axis=1) - np.diagonal(slopes)
        of_scores, variance = _drawn_together(known, balanced, noise[0], doubt)
        least = max(LEAST_CLEAR * np.sqrt(variance), LEAST_KNOWN)
        design = _design(np.maximum(of_scores, least), slopes)
        between, between_variance = _drawn_to_zero(between, noise[1], doubt)
        if mechanism.first:
            of_effects = np.append(known.sum() / 2, of_effects)
        of_effects = _clear(
            _symmetric(of_effects), between, laplacian(design * slopes), between_variance, noise[2]
        )
        cover = mechanism.cover
        own = np.full((mechanism.n_effects, mechanism.n_effects), noise[2])
        if mechanism.first:
            own[0, 0] = mechanism.n_items * noise[0] / 4
        return cls(
            scores=released.scores,
            effects=released.effects,
            design=design,
            between=between,
            of_effects=of_effects,
            force=mechanism.ridges * np.concatenate([released.scores, released.effects]),
            w_variance=mechanism.noise_variance,
            cover_variance=0.0 if cover is None else cover.noise.variance,
            design_variance=variance,
            between_variance=between_variance,
            effects_variance=own,
            information=_in_deviations(float(known.sum()), mechanism.n_items * noise[0]),
        )

    def stiffness(self, scores: Floats) -> Floats:
        """Derivative of the equations, shape (n + q, n + q)."""
        of_scores = laplacian(self.design * LOGISTIC.curvature(score_differences(scores)))
        return np.block([[of_scores, self.between], [self.between.T, self.of_effects]])

    def left(self, scores: Floats, effects: Floats) -> Floats:
        """Minus the equations' left sides, shape (n + q,)."""
        apart, moved = scores - self.scores, effects - self.effects
        probabilities = LOGISTIC.cdf(score_differences(scores))
        released = LOGISTIC.cdf(score_differences(self.scores))
        of_scores = (self.design * (probabilities - released)).sum(axis=1) + self.between @ moved
        of_effects = self.between.T @ apart + self.of_effects @ moved
        return np.asarray(self.force - np.concatenate([of_scores, of_effects]))

    def noise_at(self, scores: Floats, effects: Floats, effect_errors: Floats) -> Floats:
        """Variance of the noise in the equations where these are the truth, shape (n + q,).

        That of an item's own information is left to `net_wins`. An error of B counts by how far the
        effects are from beta~, or may be: `effect_errors`, shape (q,), their variances.
        """
        apart, moved = ((scores - self.scores) ** 2).sum(), (effects - self.effects) ** 2
        cover = self.cover_variance * (self.stiffness(self.scores) ** 2).sum(axis=1)
        of_items = np.full(self.n_items, self.between_variance @ (moved + effect_errors))
        of_effects = self.between_variance * apart + self.effects_variance @ moved
        return np.asarray(self.w_variance + cover + np.concatenate([of_items, of_effects]))

    def precision(self, noise: Floats) -> Floats:
        """Weights of the penalty, shape (n + q,); see `net_wins.precision_of`."""
        known = np.concatenate([self.design.sum(axis=1) / 4, np.diagonal(self.of_effects)])
        return np.asarray(PRECISION * (1 + noise / known))

    def fitted(self) -> tuple[Floats, Floats]:
        """Scores and effects."""
        n, precision = self.n_items, self.precision(self.w_variance)
        values = np.zeros(n + len(self.effects))
        for _ in range(NEWTON_STEPS):
            left = self.left(values[:n], values[n:]) - precision * values
            step = np.linalg.solve(self.stiffness(values[:n]) + np.diag(precision), left)
            longest = np.abs(step).max()
            values = values + step * min(1.0, LONGEST_STEP / max(longest, SOLVED))
            if longest <= SOLVED:
                break
        return values[:n] - values[:n].mean(), values[n:]

    @property
    def known_of_effects(self) -> tuple[Floats, Floats]:
        """Information about each effect beside all else, and the variance of the error in it."""
        n, stiffness = self.n_items, self.stiffness(self.scores)
        inverse = np.linalg.pinv(stiffness, rcond=FLAT, hermitian=True)
        known = 1 / np.diagonal(inverse)[n:]
        # A change dM of the stiffness moves 1 / inverse_kk by v' dM v, v the column over that.
        v = inverse[:, n:] * known
        of_items, of_effects = (v[:n] ** 2).sum(axis=0), v[n:] ** 2
        own = np.einsum("kj,kl,lj->j", of_effects, self.effects_variance, of_effects)
        return known, np.asarray(own + 4 * (self.between_variance @ of_effects) * of_items)

    @property
    def clarity(self) -> Floats:
        """Clearness of what is known of each effect against the noise in it, 0 to 1."""
        known, error = self.known_of_effects
        return np.asarray(np.clip(1 - CLEAR**2 * error / known**2, 0.0, 1.0))

    def net_wins(self, effects: Floats, noise: Floats) -> NetWins:
        """Return the net wins of items, at these effects."""
        chance = LOGISTIC.cdf(score_differences(self.scores))
        slopes = LOGISTIC.curvature(score_differences(self.scores))
        weights = self.design.sum(axis=1)
        typical = (self.design * slopes).sum(axis=1) / weights
        moved = self.between @ (effects - self.effects)
        return NetWins(
            values=(self.design * (chance - 0.5)).sum(axis=1) + self.force[: self.n_items] - moved,
            design=self.design,
            sampling_factor=np.ones_like(self.design),
            link=LOGISTIC,
            noise_variance=noise[: self.n_items],
            exposure_variance=self.design_variance / typical**2,
            free_share=(self.design * chance).sum(axis=1) / weights,
            kind=NoiseKind.LAPLACE,
            draws=1,
        )


@dataclass(frozen=True, slots=True)
class Errors:
    """Errors of scores and effects, jointly.

    Attributes:
        centre: shape (n + q,), the values without any penalty, to first order.
        covariance: shape (n + q, n + q), of these.
        noise: shape (n + q,), variance of the noise in the equations.
        noise_part: shape (n + q,), the part of the variances that it has.
        likely: shape (n + q, n + q), covariance for scores and effects that had the precision
            PRECISION beforehand.
        of_others: shape (n,), variance that the errors of all but an item's score add to its net
            wins.
    """

    centre: Floats
    covariance: Floats
    noise: Floats
    noise_part: Floats
    likely: Floats
    of_others: Floats

    @classmethod
    def at(cls, world: World, scores: Floats, effects: Floats) -> Errors:
        """Return the errors where these are the estimates."""
        n = world.n_items
        first = cls._of(world, scores, effects, world.w_variance)
        noise = world.noise_at(scores, effects, np.diagonal(first.likely)[n:])
        return cls._of(world, scores, effects, noise)

    @classmethod
    def _of(cls, world: World, scores: Floats, effects: Floats, noise: Floats) -> Errors:
        n, values = world.n_items, np.concatenate([scores, effects])
        stiffness = world.stiffness(scores)
        spread = stiffness + np.diag(noise + SINGULAR * np.diagonal(stiffness).max())
        known = stiffness @ np.linalg.solve(spread, stiffness)
        known = (known + known.T) / 2
        centring = np.eye(len(values))
        centring[:n, :n] -= 1 / n  # an equal shift of all scores changes nothing: sum zero
        likely = centring @ np.linalg.inv(known + PRECISION * np.eye(len(values))) @ centring
        slopes = world.design * LOGISTIC.curvature(score_differences(scores))
        others = np.hstack([-slopes, world.between])
        inverse = np.linalg.pinv(stiffness, rcond=FLAT, hermitian=True)
        return cls(
            centre=values + inverse @ world.left(scores, effects),
            covariance=np.asarray(np.linalg.pinv(known, rcond=FLAT**2, hermitian=True), np.float64),
            noise=noise,
            noise_part=np.asarray(inverse**2 @ noise),
            likely=likely,
            of_others=np.asarray(np.einsum("ij,jk,ik->i", others, likely, others, optimize=True)),
        )

    @property
    def of_scores(self) -> ScoreErrors:
        """Return the errors of the scores."""
        n = len(self.of_others)
        return ScoreErrors(self.centre[:n], self.covariance[:n, :n].copy())

    def of_effects(self, world: World, reach: Floats | float = CLEAR) -> tuple[Floats, Floats]:
        """Effects without any penalty, and their variances, shape (q,).

        Where what is known of an effect is not `reach` standard deviations of its noise, its
        variance is infinite.
        """
        n = world.n_items
        known, error = world.known_of_effects
        sure, variance = 1 - reach**2 * error / known**2, np.diagonal(self.covariance)[n:]
        found = np.full(len(known), np.inf)
        told = (sure > 0) & (variance > 0)
        found[told] = variance[told] / sure[told]
        return self.centre[n:], found

    def intervals(self, world: World, effects: Floats) -> EffectEstimates:
        """Intervals of the effects."""
        n = world.n_items
        variance = np.maximum(np.diagonal(self.covariance)[n:], np.finfo(float).tiny)
        share = np.clip(self.noise_part[n:] / variance, 0, 1)
        q = quantile(share, LEVEL / 2, NoiseKind.LAPLACE, 1)
        centre, variance = self.of_effects(world, q)
        half = q * np.sqrt(variance)
        return EffectEstimates(
            effects, np.minimum(centre - half, effects), np.maximum(centre + half, effects)
        )


def _drawn_together(
    values: Floats, expected: Floats, variance: float, doubt: float
) -> tuple[Floats, float]:
    """Noisy values drawn to multiples of `expected` as far as noise explains how they differ.

    Returns:
        Shape (n,); the variance of the error that is left in each.
    """
    n, centre = len(values), expected * (values.sum() / expected.sum())
    kept = _kept(float(((values - centre) ** 2).sum()) / (n - 1), variance, n - 1, doubt)
    return centre + kept * (values - centre), variance * (kept + (1 - kept) / n)


def _drawn_to_zero(values: Floats, variance: float, doubt: float) -> tuple[Floats, Floats]:
    """Noisy columns that sum to zero, shape (n, q), each drawn to zero as far as noise explains it.

    Returns:
        Shape (n, q); shape (q,), the variance of the error that an entry has still.
    """
    n, centred = len(values), values - values.mean(axis=0)
    kept = np.array(
        [_kept(float(size), variance, n - 1, doubt) for size in (centred**2).sum(axis=0) / (n - 1)]
    )
    return centred * kept, kept * variance


def _kept(seen: float, variance: float, n: int, doubt: float) -> float:
    """The share of a deviation from the mean that is kept, by the mean square of n deviations.

    The mean square is taken to be larger by `doubt` times its standard error: if that is above 0,
    rather too much noise is kept than too little of what is true.
    """
    if variance == 0:
        return 1.0
    return max(0.0, 1 - variance / (seen * (1 + doubt * math.sqrt(2 / n))))


def _in_deviations(value: float, variance: float) -> float:
    return value / math.sqrt(variance) if variance > 0 else math.inf


def _design(known: Floats, slopes: Floats) -> Floats:
    """Comparisons of each pair by chance, so that items have the information `known`, shape (n, n).

    Iterative proportional fitting; no item knows more than all others together.
    """
    rows = np.minimum(known, known.sum() - known)
    slopes = slopes - np.diag(np.diagonal(slopes))
    factors = np.sqrt(rows / slopes.sum(axis=1))
    for _ in range(FITTING_STEPS):
        sums = factors * (slopes @ factors)
        if np.abs(sums - rows).max() <= FITTED * rows.max():
            break
        factors = factors * np.sqrt(rows / sums)
    design = np.outer(factors, factors)
    np.fill_diagonal(design, 0.0)
    return design


def _symmetric(upper: Floats) -> Floats:
    """The matrix of which `upper` is the upper triangle, row by row."""
    q = int(np.sqrt(2 * len(upper)))
    matrix = np.zeros((q, q))
    matrix[np.triu_indices(q)] = upper
    return np.asarray(matrix + np.triu(matrix, 1).T)


def _clear(
    of_effects: Floats,
    between: Floats,
    of_scores: Floats,
    between_variance: Floats,
    variance: float,
) -> Floats:
    """Q for which what is known of effects beside the scores is right and stands clear of noise.

    That is Q - B' L^+ B, with L of scores; an error of variance v in B hides v trace(L^+) of it.
    """
    inverse = np.linalg.pinv(of_scores, rcond=FLAT, hermitian=True)
    taken = between.T @ inverse @ between
    hidden = np.diag(between_variance) * np.trace(inverse)
    sizes, axes = np.linalg.eigh(of_effects - taken - hidden)
    least = max(LEAST_CLEAR * float(np.sqrt(variance)), LEAST_KNOWN)
    alone = (axes * np.maximum(sizes, least)) @ axes.T
    return np.asarray((alone + alone.T) / 2 + taken)
