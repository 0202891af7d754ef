"""Draws of fits with noise inside, and the exact likelihood of what they release: for audits.

`perturbed-mle` and `noisy-objective` release the minimiser of an objective with a random linear
term w. A log and a minimiser determine w = -(gradient of the rest), and the minimiser has the
density of w there times the determinant of the second derivatives ([CCW] Proposition 2.1). So the
likelihood ratio of two logs follows from the output alone, and no other statistic tells them apart
better. Scores that sum to zero leave open one constant in all entries of w that belong to scores;
it is integrated out. Rounding and its cover are far smaller than w, and are left out.

References:
    [CCW] Cai, Chakraborty, Wang. Optimal differentially private ranking from pairwise comparisons.
        2025.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from scipy.special import exprel, logsumexp

from hushrank.estimation.common.covariates import CovariateCounts
from hushrank.estimation.common.links import Floats
from hushrank.estimation.common.matrices import pair_counts_of
from hushrank.estimation.comparisons import perturbed_mle
from hushrank.estimation.comparisons.covariate_mle import information_sums
from hushrank.estimation.fit import covariate_fit
from hushrank.estimation.fit.likelihood import Likelihood
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import AuditStopped
from hushrank.flows.methods.base import Arrays
from hushrank.flows.methods.likelihood.covariates import draws, fits_of
from hushrank.flows.methods.likelihood.perturbed_mle import PerturbedLikelihood
from hushrank.flows.methods.registry import METHODS
from hushrank.flows.statement.mechanism import Mechanism
from hushrank.flows.statement.perturbed_mle import EffectMechanism, ScoreMechanism
from hushrank.flows.trust.audit.result import Draws, as_row
from hushrank.privacy.audit import Rows, Statistic
from hushrank.privacy.randomness import RandomBits, seeded_bits, system_bits
from hushrank.privacy.units import NoiseKind

FEW = 40  # outputs whose mean says where a fit ends
BLOCK = 10_000  # outputs worked on at a time
TRIED = 4  # releases that are drawn one by one on each side, and so many at once
NEAR = 1e-3  # scales of w, by which rounding may move what scores determine


@dataclass(frozen=True, slots=True, kw_only=True)
class FitLikelihood:
    """Likelihood of the released minimiser under one log.

    Attributes:
        objective: objective of d values, scores first.
        n_items: number of scores among the values.
        kind: family of w.
        scales: shape (d,), of w.
    """

    objective: Likelihood
    n_items: int
    kind: NoiseKind
    scales: Floats

    def noise(self, points: Rows) -> Rows:
        """The w that leads to each point, shape (runs, d), but for a constant in that of scores."""
        return self.objective.pulls(points)

    def log_density(self, points: Rows) -> Floats:
        """Log density of each point, shape (runs,), up to a constant that all logs share."""
        starts = range(0, len(points), BLOCK)
        return np.concatenate([self._part(points[start : start + BLOCK]) for start in starts])

    def _part(self, points: Rows) -> Floats:
        determinant = np.linalg.slogdet(self.objective.hessians(points))[1]
        w, n = self.noise(points), self.n_items
        if self.kind is NoiseKind.GAUSSIAN:
            w[:, :n] -= w[:, :n].mean(axis=1, keepdims=True)
            return np.asarray(determinant - np.square(w / self.scales).sum(axis=1) / 2)
        effects = np.abs(w[:, n:] / self.scales[n:]).sum(axis=1)
        return np.asarray(determinant + log_shifted(w[:, :n] / self.scales[:n]) - effects)


def log_shifted(values: Rows) -> Floats:
    """log of the integral over c of exp(-sum_j |values_j - c|), shape (runs,).

    Between two neighbouring values the exponent is a straight line.
    """
    knots = np.sort(values, axis=1)
    n = knots.shape[1]
    heights = -np.abs(knots[:, :, None] - knots[:, None, :]).sum(axis=2)
    widths = np.diff(knots, axis=1)
    falls = np.abs(n - 2 * np.arange(1, n)) * widths
    with np.errstate(divide="ignore"):  # two equal values have nothing between them
        between = np.maximum(heights[:, 1:], heights[:, :-1]) + np.log(widths * exprel(-falls))
    ends = heights[:, [0, -1]] - np.log(n)
    return np.asarray(logsumexp(np.concatenate([ends, between], axis=1), axis=1))


@dataclass(frozen=True)
class FitDraws(Draws, ABC):
    """Draws of scores: noise and cover by the code of a release, minimisers many at once.

    A release finds its minimiser alone. `check_release` tries that both are right.
    """

    mechanism: ScoreMechanism | EffectMechanism
    block: int = 500

    def outputs(self, side: int, runs: int) -> Rows:
        """Draw as often as asked for."""
        return self._together(side, runs, system_bits())

    def check_release(self) -> None:
        """Draw a few outputs as a release does, and a few at once, by bits that can be repeated.

        Each determines the w that led to it, and that must be the one that was drawn. So both ways
        find the same minimiser. The noise that covers rounding is left out, which would blur it.

        Raises:
            AuditStopped: the release is another mechanism.
        """
        bare = self._without_cover()
        made, method = bare.mechanism.calibrated, bare._method
        drawn = [made.draw_noise(1, seeded_bits(seed)) for seed in range(TRIED)]
        w = np.vstack([*drawn, made.draw_noise(TRIED, seeded_bits(TRIED))])
        for side, exact in enumerate(bare.exact):
            likelihood = bare.likelihood(side)
            alone = [
                as_row(method.draw(exact, bare.mechanism, seeded_bits(seed)))
                for seed in range(TRIED)
            ]
            together = bare._together(side, TRIED, seeded_bits(TRIED))
            missed = likelihood.noise(bare.points(np.vstack([*alone, together]))) - w
            scores = missed[:, : likelihood.n_items]
            scores -= scores.mean(axis=1, keepdims=True)
            if not (np.abs(missed) <= NEAR * likelihood.scales).all():
                raise AuditStopped(
                    f"method: {self.config.method} releases other scores than its noise and a"
                    " synthetic log determine: the code that fits is broken. Do not release, and"
                    " report the fault. No row of the survey was read, and nothing was spent."
                )

    @abstractmethod
    def _without_cover(self) -> Self:
        """Return the same draws, of minimisers as they are computed."""

    @property
    def _method(self) -> PerturbedLikelihood:
        method = METHODS[self.config.method].resolve(self.config).method
        if not isinstance(method, PerturbedLikelihood):
            raise ValueError(f"method: {self.config.method} is no fit with noise inside")
        return method

    def _together(self, side: int, runs: int, bits: RandomBits) -> Rows:
        drawn = self._method.draws(self.exact[side], self.mechanism, runs, bits)
        return np.hstack([drawn[name].reshape(runs, -1) for name in sorted(drawn)]).astype(
            np.float64
        )

    def ratio(self, left: int, right: int) -> Statistic:
        """Log likelihood ratio at the noise that is stated."""
        return lambda rows: self.log_density(left, rows) - self.log_density(right, rows)

    def log_density(self, side: int, rows: Rows) -> Floats:
        """Log density of each output on that side, shape (runs,), but for a constant."""
        return self.likelihood(side).log_density(self.points(rows)) + self.of_others(side, rows)

    def apart(self, pairs: tuple[tuple[int, int], ...]) -> tuple[float, ...]:
        """Distance between the w of each two inputs, in scales, where the first fit ends."""
        point = self.points(self.outputs(0, FEW)).mean(axis=0, keepdims=True)
        fits = [self.likelihood(side) for side in range(len(self.exact))]
        kind, n = fits[0].kind, fits[0].n_items
        needed = np.concatenate([fit.noise(point) / fit.scales for fit in fits])
        laplace = kind is NoiseKind.LAPLACE

        def between(a: int, b: int) -> float:
            change = needed[a] - needed[b]
            change[:n] -= np.median(change[:n]) if laplace else np.mean(change[:n])
            return float(np.linalg.norm(change, 1 if laplace else 2))

        return tuple(between(a, b) for a, b in pairs)

    @abstractmethod
    def likelihood(self, side: int) -> FitLikelihood:
        """Likelihood of the minimiser."""

    @abstractmethod
    def points(self, rows: Rows) -> Rows:
        """The minimiser of each output."""

    @abstractmethod
    def of_others(self, side: int, rows: Rows) -> Floats:
        """Log density of what else is released, given the minimiser, shape (runs,)."""


@dataclass(frozen=True)
class ScoreDraws(FitDraws):
    """Draws of scores, and of exposures where they are shown."""

    mechanism: ScoreMechanism

    def _without_cover(self) -> Self:
        return replace(self, mechanism=replace(self.mechanism, cover=None))

    def likelihood(self, side: int) -> FitLikelihood:
        """Likelihood of the scores."""
        made, n = self.mechanism, self.mechanism.n_items
        counts = pair_counts_of(self.exact[side], made.ties.row_weight)
        return FitLikelihood(
            objective=perturbed_mle.likelihood_of(counts, made.calibrated),
            n_items=n,
            kind=made.objective.kind,
            scales=np.full(n, made.objective.scale),
        )

    def points(self, rows: Rows) -> Rows:
        """Scores come last."""
        return rows[:, -self.mechanism.n_items :]

    def of_others(self, side: int, rows: Rows) -> Floats:
        """Exposures."""
        made = self.mechanism
        if made.exposures is None:
            return np.zeros(len(rows))
        counts = pair_counts_of(self.exact[side], made.ties.row_weight)
        noise = rows[:, : made.n_items] - (counts.won() + counts.lost())
        return np.asarray(-np.abs(noise).sum(axis=1) / made.exposures.law.scale)


@dataclass(frozen=True)
class EffectDraws(FitDraws):
    """Draws of scores, effects of covariates and information."""

    mechanism: EffectMechanism

    def _without_cover(self) -> Self:
        made = replace(self.mechanism.calibrated, cover=None)
        return replace(self, mechanism=replace(self.mechanism, calibrated=made))

    def likelihood(self, side: int) -> FitLikelihood:
        """Likelihood of scores and effects."""
        made, counts = self.mechanism.calibrated, self._counts(side)
        shares = np.repeat([1.0, made.objective.share], [made.n_items, made.n_effects])
        return FitLikelihood(
            objective=covariate_fit.likelihood_of(counts, made.ridges),
            n_items=made.n_items,
            kind=NoiseKind.LAPLACE,
            scales=made.objective.scale / shares,
        )

    def points(self, rows: Rows) -> Rows:
        """Scores come last, and effects second."""
        n, q = self.mechanism.calibrated.n_items, self.mechanism.calibrated.n_effects
        return np.hstack([rows[:, -n:], rows[:, n * q : n * q + q]])

    def of_others(self, side: int, rows: Rows) -> Floats:
        """Sums of information: they depend on the log, and on scores and effects as released."""
        made, points = self.mechanism.calibrated, self.points(rows)
        n, q = made.n_items, made.n_effects
        of_scores, between, of_effects = information_sums(
            self._counts(side), points[:, :n], points[:, n:]
        )
        exact = (between.reshape(len(rows), n * q), of_effects[:, made.first :], of_scores)
        laws = (made.between.law, made.of_effects.law, made.of_scores.law)
        released, found = np.delete(rows, slice(n * q, n * q + q), axis=1), np.zeros(len(rows))
        start = 0
        for sums, law in zip(exact, laws, strict=True):
            stop = start + sums.shape[1]
            found -= np.abs(released[:, start:stop] - sums).sum(axis=1) / law.scale
            start = stop
        return found

    def _counts(self, side: int) -> CovariateCounts:
        made = self.mechanism.calibrated
        return CovariateCounts.of_arrays(
            self.exact[side], made.n_items, made.n_effects, made.row_weight
        )


@dataclass(frozen=True)
class GroupedEffectDraws(Draws):
    """The same of a job with groups: draws of several fits, which are independent given a log."""

    mechanism: EffectMechanism
    block: int = 500

    @property
    def fits(self) -> list[EffectDraws]:
        """Draws of each fit: those of the groups, and that of all rows."""
        alone = replace(self.mechanism, groups=None)
        sides = zip(*(fits_of(exact, self.mechanism) for exact in self.exact), strict=True)
        return [
            EffectDraws(self.config, alone, tuple(counts.arrays() for counts in fit))
            for fit in sides
        ]

    def outputs(self, side: int, runs: int) -> Rows:
        """Draw as often as asked for; numbers of a fit stand together."""
        drawn = draws(self.exact[side], self.mechanism, runs, system_bits())
        n_fits = self.mechanism.calibrated.n_fits
        parts = [drawn[name].reshape(runs, n_fits, -1) for name in sorted(drawn)]
        return np.concatenate(parts, axis=2).reshape(runs, -1).astype(np.float64)

    def check_release(self) -> None:
        """See `FitDraws.check_release`, of each fit."""
        for fit in self.fits:
            fit.check_release()

    def ratio(self, left: int, right: int) -> Statistic:
        """Log likelihood ratio at the noise that is stated: the sum of those of the fits."""

        def summed(rows: Rows) -> Floats:
            parts = np.split(rows, self.mechanism.calibrated.n_fits, axis=1)
            total = np.zeros(len(rows))
            for fit, part in zip(self.fits, parts, strict=True):
                total += fit.log_density(left, part) - fit.log_density(right, part)
            return total

        return summed

    def apart(self, pairs: tuple[tuple[int, int], ...]) -> tuple[float, ...]:
        """Distance between the w of each two inputs, in scales: the sum of those of the fits."""
        found = np.array([fit.apart(pairs) for fit in self.fits])
        return tuple(found.sum(axis=0).tolist())


def draws_of(small: SurveyConfig, mechanism: Mechanism, exact: tuple[Arrays, ...]) -> Draws:
    """Draws of a release, which know their likelihood where a fit has noise inside."""
    if isinstance(mechanism, ScoreMechanism):
        return ScoreDraws(small, mechanism, exact)
    if isinstance(mechanism, EffectMechanism):
        kind = EffectDraws if mechanism.groups is None else GroupedEffectDraws
        return kind(small, mechanism, exact)
    return Draws(small, mechanism, exact)
