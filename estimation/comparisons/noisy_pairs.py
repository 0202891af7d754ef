"""Scores from a noisy matrix of wins: post-processing of counts that anybody may see.

With A and B the noisy wins of a pair's two items and d the difference of their scores, minimises

    - sum over pairs [(u + k (A - B)) / 2 log F(d) + (u - k (A - B)) / 2 log F(-d)] + c |scores|^2

With k = 1 and u = A + B that is the likelihood of the noisy counts. They enter as they are,
negative ones too: the gradient is linear in them, so noise of mean zero leaves it unbiased, and
clipping would not. But a pair of few comparisons adds the noise of two counts and little else.
Where such pairs cost more than they bring, k is a function of the released total T = A + B that
leaves them out: 0 up to 2, 1 from 4 standard deviations s of the noise in T on, a straight line
between.

Leaving out by T alone would favour pairs with high noise in T: their counts would seem to be more
than they are, as many wins as losses, and all scores would shrink (by a third, where the totals are
2.5 s). Stein's identity for normal noise, E[(T - W) k(T)] = s^2 E[k'(T)], has the remedy: with
u = T k(T) - s^2 k'(T) it is E[u] = W E[k], and the noise in A - B is uncorrelated with that in T.
So the gradient at the true scores has mean zero whatever the totals W are ([S81] Lemma 1; for
Laplace noise, which the sum of two draws brings near to normal, nearly so).

The ridge c is at least 1, and grows with the noise: for scores of variance 1, seen through
information h with noise v, the mean error is smallest near 2 c = 1 + v / h. Where v is far above h,
scores would run away with less.

All this is for counts without noise, groups of rows, and where no other fit is found:
`pairs_by_chance` has smaller errors where partners meet by chance, `pairs_in_groups` mostly where
items meet in groups, as in a league. `rank_noisy_pairs` looks which it is.

If nobody states that chance decided who met whom, noisy totals must show it
(`pair_meetings.confirms_chance`). Otherwise only pairs whose totals stand clear of their noise are
fitted, which is right for any design; what they leave open stays open.

Errors: what noise and chance add to the gradient, pair by pair, through the curvature (a sandwich,
see `debiased`). Comparisons are taken as independent given the scores: answers of one person that
agree with each other more than the scores explain make the intervals too short.

Scores from a noisy matrix of wins where items meet in groups, or some pairs far oftener.

With A and B the noisy wins of a pair's two items, T = A + B and W the comparisons that they made,
A - B is independent of the noise in T where noise is normal (nearly so for Laplace), and so

    E[A - B | T] = E[W | T] (2 F(d) - 1).

`fit.pair_meetings` has U = E[W | T]. So with any weight k that T decides, the scores of

    - sum over pairs k [(U + A - B) / 2 log F(d) + (U - A + B) / 2 log F(-d)] + c |scores|^2

have a gradient of mean zero at the truth. No weight is below zero, so with a logistic link it is
convex. k = U / (U + the noise's variance) makes the error least. Errors of U move k as well, and
where s was fitted to T that is a bias: k U is lowered by their covariance, k' Var(U), as in Stein's
identity. The published scores have the ridge that suits the noise (see `noisy_pairs`).

The errors are those of scores with hardly any ridge, so that no interval rests on the belief that
scores of two groups are alike. Three parts of the gradient vary: A - B; W about U; and U, where s
was fitted: along a unit vector u its errors are spread (u e' + e u'), e normal. Across the groups
that u tells apart, that is taken to matter as if one item won three of four there at least
(`pair_meetings.APART`).

Comparisons are taken as independent given the scores.

References:
    [S81] Stein. Estimation of the mean of a multivariate normal distribution. 1981. Lemma 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import scipy
from numpy.typing import NDArray

from hushrank.estimation.common.estimate import Estimate
from hushrank.estimation.common.links import Floats, Link, laplacian, score_differences
from hushrank.estimation.common.matrices import PairCounts
from hushrank.estimation.common.pooling import Evidence, EvidenceAt
from hushrank.estimation.common.uncertainty import quantile
from hushrank.estimation.comparisons.pairs_by_chance import ChanceEvidence, fit_pairs_by_chance
from hushrank.estimation.comparisons.planning import Exposures
from hushrank.estimation.comparisons.spectral_pairs import fit_spectral, without_far_sets
from hushrank.estimation.fit.likelihood import Objective
from hushrank.estimation.fit.pair_fit import (
    RIDGE,
    DebiasedFit,
    OpenAt,
    ShrunkScores,
    SimulatedVariances,
    estimate_from,
    require_fittable,
    sandwich_fit,
    unknown_covariance,
)
from hushrank.estimation.fit.pair_meetings import (
    clear_of_noise,
    confirms_chance,
    met_otherwise,
    pair_meetings,
    shows_schedule,
)
from hushrank.estimation.fit.solve import ConvergenceError, Solution, minimise, minimise_nonconvex
from hushrank.privacy.noise import NoiseLaw
from hushrank.privacy.units import NoiseKind

FREE_IN_GROUPS = 0.1  # ridge c of scores that intervals are around
NO_FIT = (ConvergenceError, np.linalg.LinAlgError)  # the noise is spent: another fit is worth more
REST = 0.1  # share of it that is left after a step without


def fit_pairs_in_groups(
    counts: PairCounts, law: NoiseLaw, link: Link
) -> tuple[DebiasedFit, Floats]:
    """Scores fitted to noisy counts, whoever met whom, and the noise's share in what moves each.

    Args:
        counts: noisy counts of at least 2 items.
        law: law of the noise in one entry, in the counts' own integer units; of a scale > 0.
        link: F.

    Raises:
        ConvergenceError: no fit was found.
    """
    wins, variance = counts.dense() / counts.row_weight, law.variance / counts.row_weight**2
    totals, n = wins + wins.T, counts.n_items
    design = Exposures(totals.sum(axis=1), 2 * (n - 1) * variance).design()
    meetings = pair_meetings(totals, design, 2 * variance, law.kind)
    weights = meetings.mean / (meetings.mean + 2 * variance)
    used = meetings.used(weights, 2 * variance)

    def moments_at(scores: Floats) -> tuple[Floats, Floats]:
        curvature = laplacian(used * link.information(score_differences(scores)))
        return curvature, meetings.gradient_noise(weights, variance, scores, link)

    def objective_of(ridge: float) -> Objective:
        won = (used + weights * (wins - wins.T)) / 2
        return Objective(won, link, 2 * ridge, np.zeros(n))

    curvature, noise = moments_at(np.zeros(n))
    information = float(np.trace(curvature))
    ridge = max(RIDGE, float(np.trace(noise)) / information / 2) if information > 0 else RIDGE
    solved = minimise if link.outcome_free_curvature else minimise_nonconvex
    objective, free = objective_of(ridge), objective_of(FREE_IN_GROUPS)
    found = sandwich_fit(objective, solved(objective), moments_at)
    unshrunk, covariance = _free(solved(free).theta, moments_at)
    _, everything = moments_at(unshrunk)
    from_noise = variance / 2 * np.square(weights).sum(axis=1)
    share = np.minimum(from_noise / np.maximum(np.diagonal(everything), from_noise), 1.0)
    return replace(found, unshrunk=unshrunk, covariance=covariance), share


def _free(
    scores: Floats, moments_at: Callable[[Floats], tuple[Floats, Floats]]
) -> tuple[Floats, Floats]:
    """Scores without most of the ridge that is left, and the covariance of their errors."""
    rest = 2 * REST * FREE_IN_GROUPS * np.eye(len(scores))
    curvature, _ = moments_at(scores)
    step = scipy.linalg.solve(
        curvature + rest, 2 * (1 - REST) * FREE_IN_GROUPS * scores, assume_a="pos"
    )
    unshrunk = scores + step - step.mean()
    curvature, noise = moments_at(unshrunk)
    half = scipy.linalg.solve(curvature + rest, noise, assume_a="pos")
    covariance = scipy.linalg.solve(curvature + rest, half.T, assume_a="pos")
    covariance = covariance - covariance.mean(axis=0)
    covariance = covariance - covariance.mean(axis=1, keepdims=True)
    return unshrunk, np.asarray(
        covariance + unknown_covariance(curvature, 2 * REST * FREE_IN_GROUPS)
    )


Mask = NDArray[np.bool_]
CLEAR_PAIR = 2.0  # standard deviations of its noise up to which a pair's total may be left out
WHOLE_TOTAL = 4.0  # and from which on the pair always enters as it is
FREE = 0.02  # least ridge c where few pairs met: a stronger one would bend a long chain
FEWEST = 5  # items of which a few pairs may be a schedule
LAPLACE_KURTOSIS, NORMAL_KURTOSIS = 4.5, 3.0  # kurtosis of a sum of two draws


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisyPairsFit:
    """Evidence of a noisy matrix of wins.

    Attributes:
        fit: scores and their errors; `debiased.estimate_from` makes intervals and ranks of it.
        n_pairs: pairs of items that may have met: n (n - 1) / 2, or those that were asked about.
        n_left_out: number of pairs whose total was too near its noise to be used.
        used: the others, symmetric, shape (n, n).
        noise_share: shape (n,), share of privacy noise in the variance of what moves each score.
    """

    fit: DebiasedFit
    n_pairs: int
    n_left_out: int
    used: Mask
    noise_share: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedPairs:
    """Items ranked by a noisy matrix of wins.

    Attributes:
        estimate: scores, intervals, ranks.
        by_chance: whether the counts fit a design in which partners meet by chance; the scores are
            then of its likelihood.
        n_pairs: pairs of items.
        n_left_out: pairs that the fit did not use, since their totals are too near their noise.
        is_minimum: False where the fit ended at a stationary point that is no minimum.
        clear: the pairs that were used, shape (n, n), where few pairs met; None: all.
        as_one: number of answers on a pair that counted as one, because they agree more than scores
            explain, as where one opinion was asked several times.
        hidden: whether the totals show neither which pairs met nor that chance decided it, so that
            only pairs that stand clear of their noise were used.
        spectral: whether scores are those of `spectral_pairs`.
    """

    estimate: Estimate
    by_chance: bool
    n_pairs: int
    n_left_out: int
    is_minimum: bool
    clear: Mask | None = None
    as_one: int = 1
    hidden: bool = False
    spectral: bool = False


def rank_noisy_pairs(
    counts: PairCounts,
    law: NoiseLaw,
    link: Link,
    asked: Mask | None = None,
    *,
    chance: bool = False,
    ridge: float | None = None,
    spectral: bool = False,
) -> RankedPairs:
    """Rank items by noisy counts, in the way that suits their design.

    Args:
        counts: noisy counts of at least 2 items.
        law: law of the noise in one entry, in the counts' own integer units.
        link: F.
        asked: the pairs that people were asked about, a public matrix, symmetric, of shape (n, n);
            the others have no count, and no noise. None: it is not known which.
        chance: whether the operator states that chance decided which items met; otherwise the
            counts must show it.
        ridge: c, finite and > 0, in a fit that takes no design for granted. None: by the noise, in
            the fit that suits the design.
        spectral: take the scores of `spectral_pairs` instead of a likelihood's; the link is then
            logistic, and chance decided which items met.

    Raises:
        ValueError: the counts are confidential, or of fewer than 2 items.
        ConvergenceError: no fit was found.
    """
    if spectral and (link.name != "logistic" or asked is not None or not chance):
        raise ValueError("a spectral fit needs link: logistic and a design of chance")

    def rank(counts: PairCounts) -> RankedPairs:
        if spectral:
            return _spectral(counts, law)
        return _ranked(counts, law, link, asked, chance, ridge)

    ranked = rank(counts)
    if law.scale == 0:
        return ranked
    wins = counts.dense() / counts.row_weight
    used = ~np.eye(counts.n_items, dtype=bool) if asked is None else asked
    if ranked.clear is not None:
        used = ranked.clear
    won = link.cdf(score_differences(ranked.estimate.scores))
    noise = law.variance / counts.row_weight**2
    from hushrank.estimation.common.alike_answers import answers_as_one

    as_one = answers_as_one(wins, noise, _kurtosis(law), won, used)
    if as_one == 1:
        return ranked
    fewer = replace(counts, row_weight=as_one * counts.row_weight)
    return replace(rank(fewer), as_one=as_one)


def _spectral(counts: PairCounts, law: NoiseLaw) -> RankedPairs:
    n, (fit, noise_share) = counts.n_items, fit_spectral(counts, law)
    fit, open_at = without_far_sets(fit, counts, law)
    return RankedPairs(
        estimate=_estimate_of(fit, noise_share, law.kind, 2 * (n - 1), open_at),
        by_chance=False,
        n_pairs=n * (n - 1) // 2,
        n_left_out=0,
        is_minimum=True,
        spectral=True,
    )


def _ranked(
    counts: PairCounts, law: NoiseLaw, link: Link, asked: Mask | None, chance: bool, c: float | None
) -> RankedPairs:
    """The ranking of answers that are independent given the scores; `c` is the ridge."""
    n_pairs = counts.n_items * (counts.n_items - 1) // 2
    scheduled = asked is not None or _shows_schedule(counts, law)
    hidden = not (scheduled or chance or law.scale == 0 or _shows_chance(counts, law))
    if scheduled or hidden or c is not None:
        found = fit_noisy_pairs(counts, law, link, c, asked, few=scheduled or hidden)
        draws = 2 * max(int(found.used.sum(axis=1).min()), 1)
        return RankedPairs(
            estimate=_estimate_of(found.fit, found.noise_share, law.kind, draws),
            by_chance=False,
            n_pairs=found.n_pairs,
            n_left_out=found.n_left_out,
            is_minimum=found.fit.is_minimum,
            clear=found.used,
            hidden=hidden,
        )
    if (estimate := _by_chance(counts, law, link)) is not None:
        return RankedPairs(
            estimate=estimate, by_chance=True, n_pairs=n_pairs, n_left_out=0, is_minimum=True
        )
    if (in_groups := _in_groups_fit(counts, law, link)) is not None:
        fit, noise_share, left_out = *in_groups, 0
    else:
        found = fit_noisy_pairs(counts, law, link)
        fit, noise_share, left_out = found.fit, found.noise_share, found.n_left_out
    return RankedPairs(
        estimate=_estimate_of(fit, noise_share, law.kind, 2 * (counts.n_items - 1)),
        by_chance=False,
        n_pairs=n_pairs,
        n_left_out=left_out,
        is_minimum=fit.is_minimum,
    )


def _estimate_of(
    fit: ShrunkScores,
    noise_share: Floats,
    kind: NoiseKind,
    draws: int,
    open_at: OpenAt | None = None,
) -> Estimate:
    """The estimate by the law of an item's noise: a sum of two draws for each opponent."""

    def quantile_at(tail: float) -> float:
        return float(quantile(np.asarray(noise_share.max()), tail, kind, draws))

    found = estimate_from(fit, quantile_at, open_at)
    if isinstance(fit.covariance, SimulatedVariances):
        return replace(found, noise_share=noise_share)
    deviation = np.sqrt(np.maximum(np.diagonal(fit.covariance), 0))
    return replace(found, noise_share=noise_share, deviation=deviation)


def _shows_schedule(counts: PairCounts, law: NoiseLaw) -> bool:
    """Whether the noisy counts show which few pairs met; see `shows_schedule`."""
    if law.scale == 0 or counts.n_items < FEWEST or counts.confidential:
        return False
    wins = counts.dense() / counts.row_weight
    return shows_schedule(wins + wins.T, 2 * law.variance / counts.row_weight**2)


def _shows_chance(counts: PairCounts, law: NoiseLaw) -> bool:
    """Whether the noisy counts show that chance decided who met whom; see `confirms_chance`."""
    wins, noise = counts.dense() / counts.row_weight, 2 * law.variance / counts.row_weight**2
    totals = wins + wins.T
    design = Exposures(totals.sum(axis=1), (counts.n_items - 1) * noise).design()
    return confirms_chance(totals, design, noise, _kurtosis(law))


def _kurtosis(law: NoiseLaw) -> float:
    """Kurtosis of the noise in a total, the sum of two draws."""
    return LAPLACE_KURTOSIS if law.kind is NoiseKind.LAPLACE else NORMAL_KURTOSIS


def _in_groups_fit(
    counts: PairCounts, law: NoiseLaw, link: Link
) -> tuple[DebiasedFit, Floats] | None:
    """Return the fit of `pairs_in_groups`; None: it has no fit."""
    if law.scale == 0 or counts.confidential:
        return None
    try:
        with np.errstate(all="ignore"):
            fit, noise_share = fit_pairs_in_groups(counts, law, link)
    except NO_FIT:
        return None
    return fit, noise_share


def _by_chance(counts: PairCounts, law: NoiseLaw, link: Link) -> Estimate | None:
    """Return the estimate by a design of chance; None where there is another design."""
    if law.scale == 0 or counts.n_items < 2 or counts.confidential:
        return None
    try:
        with np.errstate(all="ignore"):
            fitted = fit_pairs_by_chance(counts, law, link)
    except NO_FIT:
        return None
    return None if _not_by_chance(counts, law, fitted.meetings) else fitted.estimate


def _not_by_chance(counts: PairCounts, law: NoiseLaw, meetings: Floats) -> bool:
    """Whether pairs met otherwise than by chance; see `met_otherwise`."""
    wins = counts.dense() / counts.row_weight
    noise = 2 * law.variance / counts.row_weight**2
    return met_otherwise(wins + wins.T, meetings, noise, _kurtosis(law))


def fit_noisy_pairs(
    counts: PairCounts,
    law: NoiseLaw,
    link: Link,
    ridge: float | None = None,
    asked: Mask | None = None,
    *,
    few: bool = False,
) -> NoisyPairsFit:
    """Fit scores to noisy counts, whatever their design.

    Args:
        counts: noisy counts of at least 2 items.
        law: law of the noise in one entry, in the counts' own integer units.
        link: F.
        ridge: c, finite and > 0: it also carries items of which no pair is clear of its noise.
            None: by the noise.
        asked: the pairs that enter, symmetric, of shape (n, n); None: all may.
        few: few pairs met, so pairs in the noise are left out, and the least ridge is small.

    Returns:
        The fit; look at `fit.is_minimum` when the link is not logistic.

    Raises:
        ValueError: the counts are confidential, of fewer than 2 items, or the ridge is bad.
        ConvergenceError: no stationary point was reached.
    """
    if counts.confidential:
        raise ValueError("counts are confidential: only released counts may be fitted here")
    require_fittable(counts.n_items, RIDGE if ridge is None else ridge)
    wins = counts.dense() / counts.row_weight  # in comparisons, and so is all that follows
    variance = law.variance / counts.row_weight**2
    totals = wins + wins.T
    bar = CLEAR_PAIR if asked is not None or not few else clear_of_noise(len(totals), law.kind)
    pairs = _pair_weights(totals, variance, asked, bar)
    if ridge is None:
        ridge = _ridge_of(totals, pairs, variance, link)
        ridge = max(FREE, ridge - 1 / 2) if few else max(RIDGE, ridge)
    objective, solution = _solved(pairs, wins - wins.T, link, ridge)

    def moments_at(scores: Floats) -> tuple[Floats, Floats]:
        curvature, sampling, noise = _expected_moments(totals, pairs, variance, scores, link)
        return curvature, sampling + noise

    n_pairs = counts.n_items * (counts.n_items - 1) // 2 if asked is None else int(asked.sum()) // 2
    fit = sandwich_fit(objective, solution, moments_at)
    _, sampling, noise = _expected_moments(totals, pairs, variance, fit.unshrunk, link)
    return NoisyPairsFit(
        fit=fit,
        n_pairs=n_pairs,
        n_left_out=n_pairs - int((pairs.kept > 0).sum()) // 2,
        used=np.asarray(pairs.kept > 0),
        noise_share=_share(np.diagonal(noise), np.diagonal(sampling)),
    )


def evidence_of_pairs(
    counts: PairCounts, law: NoiseLaw, link: Link, *, by_chance: bool, clear: bool = False
) -> EvidenceAt:
    """Return noisy counts' evidence near any scores, as `rank_noisy_pairs` took it for all groups.

    Args:
        counts: noisy counts.
        law: law of the noise in one entry.
        link: F.
        by_chance: whether pairs met by chance.
        clear: whether otherwise only pairs clear of their noise count, as nobody states a design.
    """
    if by_chance:
        return ChanceEvidence.of(counts, law, link)
    wins, variance = counts.dense() / counts.row_weight, law.variance / counts.row_weight**2
    totals, gap = wins + wins.T, wins - wins.T
    bar = clear_of_noise(counts.n_items, law.kind) if clear else CLEAR_PAIR
    pairs = _pair_weights(totals, variance, bar=bar)

    def at(scores: Floats) -> Evidence:
        d = score_differences(scores)
        won, lost = (pairs.used + pairs.kept * gap) / 2, (pairs.used - pairs.kept * gap) / 2
        gradient = (won * link.slope(d) - lost * link.slope(-d)).sum(axis=1)
        curvature, sampling, noise = _expected_moments(totals, pairs, variance, scores, link)
        weight = curvature @ np.linalg.pinv(sampling + noise, hermitian=True)
        return Evidence(weight @ curvature, weight @ gradient)

    return at


def _share(noise: Floats, sampling: Floats) -> Floats:
    both = noise + sampling
    return np.divide(noise, both, out=np.zeros(len(both)), where=both > 0)


def _ridge_of(totals: Floats, pairs: _PairWeights, variance: float, link: Link) -> float:
    """c, of an item's mean information and of the mean noise in its gradient at equal scores."""
    curvature, sampling, noise = _expected_moments(
        totals, pairs, variance, np.zeros(len(totals)), link
    )
    information, gradient = np.trace(curvature), np.trace(sampling) + np.trace(noise)
    from_noise = gradient - information
    return (1 + float(from_noise / information)) / 2 if information > 0 else RIDGE


def _solved(
    pairs: _PairWeights, gap: Floats, link: Link, ridge: float
) -> tuple[Objective, Solution]:
    """The objective and where its gradient vanishes.

    Noise can leave a pair with a weight below zero. Then not even the logistic link makes the
    objective convex, and it may fall without end: such weights are taken as zero where it does.
    """

    def objective_of(used: Floats) -> Objective:
        return Objective((used + pairs.kept * gap) / 2, link, 2 * ridge, np.zeros(len(gap)))

    objective = objective_of(pairs.used)
    if not link.outcome_free_curvature:
        return objective, minimise_nonconvex(objective)
    if (pairs.used >= 0).all():
        return objective, minimise(objective)
    try:
        return objective, minimise_nonconvex(objective)
    except ConvergenceError:
        convex = objective_of(np.maximum(pairs.used, 0))
        return convex, minimise(convex)


@dataclass(frozen=True, slots=True)
class _PairWeights:
    """Weights of each pair; symmetric, shape (n, n), 0 on the diagonal.

    Attributes:
        kept: k.
        slope: derivative of k in the total.
        used: u.
    """

    kept: Floats
    slope: Floats
    used: Floats

    def error(self, totals: Floats, variance: float) -> float:
        """Variance of a score, but for a factor, if all pairs are alike."""
        either = np.square(self.kept) * (totals + 2 * variance)
        return float(either.sum() / self.used.sum() ** 2)


def _pair_weights(
    totals: Floats, variance: float, asked: Mask | None = None, bar: float = CLEAR_PAIR
) -> _PairWeights:
    """Weigh all pairs, or those clear of their noise, whichever promises the smaller errors.

    Pairs that were not asked about never enter. A bar above `CLEAR_PAIR` says that few pairs met:
    then those clear of their noise enter.
    """
    pairs = 1.0 - np.eye(len(totals)) if asked is None else asked.astype(np.float64)
    everything = _PairWeights(pairs, np.zeros_like(totals), pairs * totals)
    if variance == 0:
        return everything
    deviation, ramp = math.sqrt(2 * variance), WHOLE_TOTAL - CLEAR_PAIR
    kept = pairs * np.clip((totals / deviation - bar) / ramp, 0, 1)
    slope = ((kept > 0) & (kept < 1)) / (ramp * deviation)
    clear = _PairWeights(kept, slope, totals * kept - 2 * variance * slope)
    if totals.sum() <= 0 or clear.used.sum() <= 0 or bar > CLEAR_PAIR:
        return clear
    return min(everything, clear, key=lambda pairs: pairs.error(totals, variance))


def _expected_moments(
    totals: Floats, pairs: _PairWeights, variance: float, scores: Floats, link: Link
) -> tuple[Floats, Floats, Floats]:
    """Expected Hessian without ridge, and covariance of the gradient; each of shape (n, n).

    The covariance has two parts: of sampling, and of the noise.

    A pair moves the gradient by k (A - B) (slope(d) + slope(-d)) / 2 and by
    u (slope(d) - slope(-d)) / 2, whose derivative in the total is k + T k' times that.

    Args:
        totals: comparisons of each pair, noise included.
        pairs: weights of each pair.
        variance: variance of the noise in one entry of the matrix.
        scores: scores at which to expect.
        link: F.
    """
    d = score_differences(scores)
    both, gap = link.slope(d) + link.slope(-d), link.slope(d) - link.slope(-d)
    chance = link.cdf(d)
    sampling = np.maximum(totals, 0) * chance * (1 - chance) * (pairs.kept * both) ** 2
    from_difference = (pairs.kept * both) ** 2
    from_total = ((pairs.kept + totals * pairs.slope) * gap) ** 2
    noise = variance / 2 * (from_difference + from_total)
    curvature = np.maximum(pairs.used, 0) * link.information(d)
    return laplacian(curvature), laplacian(sampling), laplacian(noise)
