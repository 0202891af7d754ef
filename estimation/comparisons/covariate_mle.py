"""Private scores and effects of covariates, and what is needed to say how good they are.

One release has two stages, each with its part of epsilon.

Minimiser. Scores and effects by objective perturbation (`privacy.covariate_perturbation`), with
what a computer makes of the minimiser covered by noise (`privacy.exact_minimiser`).

Information. How far the minimiser may be off depends on who met whom with which covariates, which
is private. Let h = F' at the row's difference as the released minimiser has it, a function of the
row and of published numbers. The sums over rows of

    h           for either of its items: the information about a score,
    h z         for the winner, -h z for the loser: what scores and effects share,
    h z_k z_l   for k <= l: the information about effects,

are released with discrete Laplace noise. (Not the one for k = l where k tells who was shown first:
there |z| = 1, and it is half of what all scores have together.) h is a whole number of units of
1 / (4 H), at most H of them, from a table by the size of the difference, which is itself computed
in whole numbers; z is a whole number of units of 1 / STEPS, at most STEPS. So the sums are exact
integers, and a row moves them, in their units and in l1 norm, by at most

    2 H,     2 H STEPS q,     H STEPS^2 m,   m = q (q + 1) / 2 sums, or one less,

all attained where h and |z| are largest. Two adjacent inputs differ in `changed_rows` rows.

Both stages together cost the sum of their epsilons, though the second depends on what the first
released ([DR14] Theorem B.1).

Groups. Each group of rows has scores, effects and sums of its own, and so have all rows together:
one minimiser of all their values, whose objective is the sum of all. A row takes part in two fits,
so it moves all of the above twice. The cover is for more values: each fit's gradient is within the
tolerance, that of k fits together within sqrt(k) times it.

References:
    [DR14] Dwork, Roth. The Algorithmic Foundations of Differential Privacy. 2014.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.common.covariates import STEPS, CovariateCounts
from hushrank.estimation.common.links import LOGISTIC, Floats
from hushrank.estimation.comparisons.perturbed_mle import (
    CROWDED,
    LARGEST_DRAW,
    LEAST_TOLERANCE,
    OUTPUT_SHARE,
    PRECISION,
)
from hushrank.estimation.fit.covariate_fit import BLOCK, fit_covariates, likelihood_of
from hushrank.estimation.fit.likelihood import UNIT_ROUNDOFF, covered_fits
from hushrank.privacy.accounting import Spend
from hushrank.privacy.covariate_perturbation import (
    CovariateNoise,
    calibrate_covariates,
    changed_rows,
    free_ridge,
    share_of_effects,
)
from hushrank.privacy.exact_minimiser import (
    GriddedNoise,
    OutputCover,
    gridded,
    output_cover,
)
from hushrank.privacy.noise import NoiseLaw, add_noise, laplace_law
from hushrank.privacy.randomness import RandomBits
from hushrank.privacy.sensitivity import Sensitivity
from hushrank.privacy.units import NoiseKind, PrivacyParams

MOST_ITEMS = 1_000  # matrices of so many items are solved in a second
INFORMATION_PART = 4  # one part of epsilon in so many pays for the information
PARTS = (4, 4, 2)  # one part of that in so many pays for each of the three kinds
GRIDS = (1, STEPS, STEPS**2)  # units of the three kinds in one of h
# Comparisons an item to expect: float64 fits a hundred times as many with ease. It has no part in
# the guarantee, nor in what is made of the scores.
ROUND_SIZE = 10_000.0

H = 1 << 10  # units of the largest information in a row, 1/4
POINT_BITS = 20  # bits of scores and effects at which the information is computed
LARGEST_POINT = 32.0
TABLE_BITS = 8  # bits of differences in the table
TABLE_SIZE = 1 << 12  # differences up to 16


@dataclass(frozen=True, slots=True, kw_only=True)
class InformationNoise:
    """Noise on one kind of sums of information.

    Attributes:
        law: law of each entry, in units.
        sensitivity: l1, in units.
        epsilon: cost of the information.
        unit: worth of a unit, in rows.
    """

    law: NoiseLaw
    sensitivity: int
    epsilon: float
    unit: float

    @property
    def variance(self) -> float:
        """Variance of one entry, in rows."""
        return self.law.variance * self.unit**2


@dataclass(frozen=True, slots=True, kw_only=True)
class CovariateMle:
    """Calibrated mechanism: all of it is public and belongs in the release.

    Attributes:
        params, n_items, n_effects, row_weight: arguments that it was made for.
        first: whether the first covariate tells who was shown first, and so is 1 or -1.
        objective: scale of w, ridges, and what the minimiser costs.
        score_noise, effect_noise: w on its grids.
        cover: noise that covers the computed minimiser; None without privacy.
        tolerance: gradient norm that the computed minimiser must not exceed, rounding included.
        of_scores, between, of_effects: noise on the three kinds of information.
        spend: cost of one release.
        n_fits: minimisers with values and information of their own; 1: there are no groups.
    """

    params: PrivacyParams
    n_items: int
    n_effects: int
    first: bool
    row_weight: int
    objective: CovariateNoise
    score_noise: GriddedNoise
    effect_noise: GriddedNoise
    cover: OutputCover | None
    tolerance: float
    of_scores: InformationNoise
    between: InformationNoise
    of_effects: InformationNoise
    spend: Spend
    n_fits: int = 1

    def draw_noise(self, runs: int, bits: RandomBits) -> Floats:
        """Every w of so many releases, of scores first, shape (runs, n + q)."""
        laws = (self.score_noise, self.n_items), (self.effect_noise, self.n_effects)
        return np.hstack([law.draw(runs * size, bits).reshape(runs, size) for law, size in laws])

    @property
    def information(self) -> tuple[InformationNoise, InformationNoise, InformationNoise]:
        """The three kinds."""
        return self.of_scores, self.between, self.of_effects

    @property
    def ridges(self) -> Floats:
        """Ridge of each score and each effect, shape (n + q,)."""
        ridge, share = self.objective.ridge, self.objective.share
        return np.repeat([ridge, ridge / share], [self.n_items, self.n_effects])

    @property
    def noise_variance(self) -> Floats:
        """Variance of w, shape (n + q,)."""
        variances = [self.score_noise.variance, self.effect_noise.variance]
        return np.repeat(variances, [self.n_items, self.n_effects])


@dataclass(frozen=True, slots=True)
class CovariateRelease:
    """Release: all that leaves the protected side.

    Attributes:
        scores: shape (n,), sum zero.
        effects: shape (q,), log odds for a covariate of 1.
        of_scores, between, of_effects: shapes (n,), (n, q) and (m,), the noisy sums of information
            in units.
    """

    scores: Floats
    effects: Floats
    of_scores: NDArray[np.int64]
    between: NDArray[np.int64]
    of_effects: NDArray[np.int64]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Arrays by name; `CovariateRelease(**arrays)` reads them."""
        return {name: getattr(self, name) for name in self.__slots__}


def calibrate_covariate_mle(
    params: PrivacyParams,
    n_items: int,
    n_effects: int,
    row_weight: int = 1,
    ridge: float | None = None,
    *,
    first: bool = False,
    n_fits: int = 1,
) -> CovariateMle:
    """The mechanism for these public choices; no data are looked at.

    Args:
        params: Laplace noise; `epsilon: inf` gives the mechanism without noise.
        n_items: size of the public catalogue, at most `MOST_ITEMS`.
        n_effects: number of covariates.
        row_weight: as in `CovariateCounts`.
        ridge: ridge of scores; None chooses it by `_default_ridge`.
        first: whether the first covariate tells who was shown first, and so is 1 or -1.
        n_fits: with groups: those of each group, and that of all rows; else 1.

    Raises:
        ValueError: the ridge is too small for epsilon (the text says how large it must be), or an
            argument is out of range.
    """
    if not 2 <= n_items <= MOST_ITEMS:
        raise ValueError(f"items must be 2 to {MOST_ITEMS} with covariates, got {n_items}")
    information = params.epsilon / INFORMATION_PART  # powers of two: exact
    rest = params.epsilon - information
    rest = math.nextafter(rest, 0.0) if params.private else rest
    cover_epsilon, share = OUTPUT_SHARE * rest, share_of_effects(n_items)
    noise_epsilon = (1 - OUTPUT_SHARE) * rest
    sizes = n_items, n_effects, n_fits
    if ridge is None:
        ridge = _default_ridge(params, sizes, share, noise_epsilon, cover_epsilon)
    copies = copies_of(n_fits)
    objective = calibrate_covariates(
        params, n_items, n_effects, ridge, share, noise_epsilon, copies
    )
    scores, effects = _grids(objective.scale, share)
    cover = None
    if params.private:
        cover = _cover(sizes, objective.scale / share, effects.step, ridge, cover_epsilon)
    rows = changed_rows(params, n_items, copies)
    kinds = _kinds_of_information(rows, n_effects, row_weight, information, first=first)
    of_scores, between, of_effects = kinds
    return CovariateMle(
        params=params,
        n_items=n_items,
        n_effects=n_effects,
        first=first,
        row_weight=row_weight,
        objective=objective,
        score_noise=scores,
        effect_noise=effects,
        cover=cover,
        tolerance=_tolerance(n_items + n_effects, objective.scale / share),
        of_scores=of_scores,
        between=between,
        of_effects=of_effects,
        spend=Spend(epsilon=params.epsilon, delta=0.0),
        n_fits=n_fits,
    )


def copies_of(n_fits: int) -> int:
    """The most fits that a row takes part in: with groups, its group's and that of all rows."""
    return 1 if n_fits == 1 else 2


def covariate_mle(
    counts: CovariateCounts, mechanism: CovariateMle, bits: RandomBits
) -> CovariateRelease:
    """Draw w, minimise, cover, and add noise to the information: one private release.

    With groups it is one fit, and a release takes that of each group and that of all rows.

    Guarantee: spend.epsilon-DP for the unit and adjacency of the mechanism's `params`, whose bounds
    were enforced on the rows that were counted, if `bits.safe`. With `epsilon: inf` it is the
    penalised maximum likelihood estimate and protects nothing.

    Args:
        counts: raw counts; they stay inside the confidential area.
        mechanism: from `calibrate_covariate_mle`; none of it is computed from the counts.
        bits: `system_bits()` in a release.

    Raises:
        ValueError: the counts are of other items, covariates or weights than the mechanism.
    """
    drawn = covariate_mles(counts, mechanism, 1, bits).arrays()
    return CovariateRelease(**{name: values[0] for name, values in drawn.items()})


def covariate_mles(
    counts: CovariateCounts, mechanism: CovariateMle, runs: int, bits: RandomBits
) -> CovariateRelease:
    """Draw `runs` independent releases, each like `covariate_mle` and each at its cost.

    Several minimisers at once are for audits, on few items: they are found together.

    Returns:
        Arrays with one more axis, the first, of length `runs`.
    """
    made_for = mechanism.n_items, mechanism.n_effects, mechanism.row_weight
    if (counts.n_items, counts.n_covariates, counts.row_weight) != made_for:
        raise ValueError("the mechanism is for other items, covariates or ties than these counts")
    n = mechanism.n_items
    w = mechanism.draw_noise(runs, bits)
    points = covered_fits(
        w,
        partial(likelihood_of, counts, mechanism.ridges),
        lambda run: fit_covariates(counts, mechanism.ridges, w[run], mechanism.tolerance),
        mechanism.cover,
        mechanism.tolerance,
        bits,
    )
    scores, effects = points[:, :n], points[:, n:]
    scores = scores - scores.mean(axis=1, keepdims=True)
    of_scores, between, of_effects = information_sums(counts, scores, effects)
    of_effects = of_effects[:, mechanism.first :]
    return CovariateRelease(
        scores,
        effects,
        add_noise(of_scores, mechanism.of_scores.law, bits),
        add_noise(between, mechanism.between.law, bits),
        add_noise(of_effects, mechanism.of_effects.law, bits),
    )


def information_sums(
    counts: CovariateCounts, scores: Floats, effects: Floats
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The exact sums of the module's text, in units, at published scores and effects.

    Args:
        counts: confidential.
        scores: shape (..., n).
        effects: shape (..., q).

    Returns:
        Shapes (..., n), (..., n, q) and (..., q (q + 1) / 2).
    """
    winner, loser = counts.items
    steps = counts.steps.astype(np.int64)
    theta, beta = (
        np.rint(np.clip(each, -LARGEST_POINT, LARGEST_POINT) * 2.0**POINT_BITS).astype(np.int64)
        for each in (scores, effects)
    )
    apart = np.abs((theta[..., winner] - theta[..., loser]) * STEPS + beta @ steps.T)
    cells = apart // (STEPS << (POINT_BITS - TABLE_BITS))
    weights = counts.counts * _table()[np.minimum(cells, TABLE_SIZE - 1)]
    of_scores = np.zeros(theta.shape, np.int64)
    between = np.zeros((*theta.shape, counts.n_covariates), np.int64)
    for items, sign in ((winner, 1), (loser, -1)):
        place: Any = (..., items)  # numpy's types know no ellipsis here
        np.add.at(of_scores, place, weights)
        for k in range(counts.n_covariates):
            np.add.at(between[..., k], place, sign * weights * steps[:, k])
    pairs = zip(*np.triu_indices(counts.n_covariates), strict=True)
    of_effects = [(weights * steps[:, k] * steps[:, m]).sum(axis=-1) for k, m in pairs]
    return of_scores, between, np.stack(of_effects, axis=-1)


def _table() -> NDArray[np.int64]:
    """Information of a row in units, by the size of its difference; at most `H`."""
    middle = np.asarray((np.arange(TABLE_SIZE) + 0.5) * 2.0**-TABLE_BITS, np.float64)
    return np.minimum(np.rint(4 * H * LOGISTIC.curvature(middle)), H).astype(np.int64)


def _kinds_of_information(
    rows: int, n_effects: int, row_weight: int, epsilon: float, *, first: bool
) -> Iterator[InformationNoise]:
    """Yield the noise on each of the three kinds where so many rows differ."""
    sums = n_effects * (n_effects + 1) // 2 - first
    moved = (2, 2 * STEPS * n_effects, STEPS**2 * sums)
    for most, part, grid in zip(moved, PARTS if sums else (2, 2, 2), GRIDS, strict=True):
        sensitivity = rows * row_weight * H * most
        yield _information_noise(sensitivity, epsilon / part, 1 / (4 * H * grid * row_weight))


def _information_noise(sensitivity: int, epsilon: float, unit: float) -> InformationNoise:
    law = laplace_law(Sensitivity(sensitivity, sensitivity**2), epsilon)
    return InformationNoise(law=law, sensitivity=sensitivity, epsilon=epsilon, unit=unit)


def _grids(scale: float, share: float) -> tuple[GriddedNoise, GriddedNoise]:
    return gridded(NoiseKind.LAPLACE, scale), gridded(NoiseKind.LAPLACE, scale / share)


def _cover(
    sizes: tuple[int, int, int], scale: float, step: float, ridge: float, epsilon: float
) -> OutputCover:
    """The cover of all groups' minimisers; `scale` and `step` are of noise in effects."""
    n_items, n_effects, n_fits = sizes
    tolerance = _tolerance(n_items + n_effects, scale)
    if n_fits > 1:
        tolerance *= math.sqrt(n_fits) * (1 + 8 * UNIT_ROUNDOFF)
    return output_cover(n_fits * (n_items + n_effects), tolerance, step, ridge, epsilon)


def _default_ridge(
    params: PrivacyParams,
    sizes: tuple[int, int, int],
    share: float,
    noise_epsilon: float,
    cover_epsilon: float,
) -> float:
    """Choose a ridge like `perturbed_mle.default_ridge`: the largest of three, one per error."""
    if not params.private:
        return PRECISION
    n_items, n_effects, n_fits = sizes
    copies = copies_of(n_fits)
    private = free_ridge(params, n_items, n_effects, share, noise_epsilon, copies)
    noise = calibrate_covariates(params, n_items, n_effects, private, share, noise_epsilon, copies)
    w, effects = _grids(noise.scale, share)
    known = ROUND_SIZE / 4
    cover = _cover(sizes, noise.scale / share, effects.step, 1.0, cover_epsilon)
    coverable = 5 * math.sqrt(cover.noise.variance * known)
    return max(private, PRECISION * (1 + w.variance / known), coverable)


def _tolerance(n_values: int, noise_scale: float) -> float:
    """The gradient norm that float64 can reach, whatever w and nearly any counts."""
    pulls = (BLOCK + 200) * CROWDED * ROUND_SIZE
    rounding = UNIT_ROUNDOFF * (pulls + 64 * LARGEST_DRAW * noise_scale) * math.sqrt(n_values)
    return max(LEAST_TOLERANCE, rounding)
