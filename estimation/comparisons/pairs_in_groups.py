"""Scores from a noisy matrix of wins where items meet in groups, or some pairs far oftener.

With A and B the noisy wins of a pair's two items, T = A + B and W the comparisons that they made,
A - B is independent of the noise in T where noise is normal (nearly so for Laplace), and so

    E[A - B | T] = E[W | T] (2 F(d) - 1).

`fit.pair_meetings` has U = E[W | T]. So with any weight k that T decides, the scores of

    - sum over pairs k [(U + A - B) / 2 log F(d) + (U - A + B) / 2 log F(-d)] + c |scores|^2

have a gradient of mean zero at the truth. No weight is below zero, so with a logistic link it is
convex. k = U / (U + the noise's variance) makes the error least. Errors of U move k as well, and
where s was fitted to T that is a bias: k U is lowered by their covariance, k' Var(U), as in Stein's
identity. Published are the scores with the ridge that suits the noise (see `noisy_pairs`).

Errors are of scores with hardly any ridge, so that no interval rests on the belief that scores of
two groups are alike. In the gradient vary: A - B; W about U; and U, where s was fitted: along a
unit vector u its errors are spread (u e' + e u'), e normal. Across the groups that u tells apart,
that is taken to matter as if one item won three of four there at least (2 F - 1 = `APART`).

Comparisons are taken as independent given the scores.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy.linalg import solve

from hushrank.estimation.common.links import Floats, Link, laplacian, score_differences
from hushrank.estimation.common.matrices import PairCounts
from hushrank.estimation.comparisons.exposures import Exposures
from hushrank.estimation.fit.likelihood import Objective
from hushrank.estimation.fit.pair_fit import RIDGE, DebiasedFit, sandwich_fit, unknown_covariance
from hushrank.estimation.fit.pair_meetings import PairMeetings, pair_meetings
from hushrank.estimation.fit.solve import minimise
from hushrank.estimation.fit.trust_region import minimise_nonconvex
from hushrank.privacy.noise import NoiseLaw

FREE = 0.1  # ridge c of scores that intervals are around
REST = 0.1  # share of it that is left after a step without
APART = 0.5  # of 2 F - 1


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
    used = _used(meetings, weights, 2 * variance)

    def moments_at(scores: Floats) -> tuple[Floats, Floats]:
        curvature = laplacian(used * link.information(score_differences(scores)))
        return curvature, _noise(meetings, weights, variance, scores, link)

    def objective_of(ridge: float) -> Objective:
        won = (used + weights * (wins - wins.T)) / 2
        return Objective(won, link, 2 * ridge, np.zeros(n))

    curvature, noise = moments_at(np.zeros(n))
    information = float(np.trace(curvature))
    ridge = max(RIDGE, float(np.trace(noise)) / information / 2) if information > 0 else RIDGE
    solved = minimise if link.outcome_free_curvature else minimise_nonconvex
    objective, free = objective_of(ridge), objective_of(FREE)
    found = sandwich_fit(objective, solved(objective), moments_at)
    unshrunk, covariance = _free(solved(free).theta, moments_at)
    _, everything = moments_at(unshrunk)
    from_noise = variance / 2 * np.square(weights).sum(axis=1)
    share = np.minimum(from_noise / np.maximum(np.diagonal(everything), from_noise), 1.0)
    return replace(found, unshrunk=unshrunk, covariance=covariance), share


def _used(meetings: PairMeetings, weights: Floats, noise_variance: float) -> Floats:
    """k U less the covariance of k with the error of U, by its derivative; >= 0, shape (n, n)."""
    squares = np.square(meetings.along)
    own = squares.sum(axis=1)
    error = np.square(meetings.spread) * (np.add.outer(own, own) - squares @ squares.T)
    slope = noise_variance / np.square(meetings.mean + noise_variance)
    used = np.maximum(weights * meetings.mean - slope * error, 0.0)
    return np.asarray(used * (weights > 0))


def _free(
    scores: Floats, moments_at: Callable[[Floats], tuple[Floats, Floats]]
) -> tuple[Floats, Floats]:
    """Scores without most of the ridge that is left, and the covariance of their errors."""
    rest = 2 * REST * FREE * np.eye(len(scores))
    curvature, _ = moments_at(scores)
    step = solve(curvature + rest, 2 * (1 - REST) * FREE * scores, assume_a="pos")
    unshrunk = scores + step - step.mean()
    curvature, noise = moments_at(unshrunk)
    half = solve(curvature + rest, noise, assume_a="pos")
    covariance = solve(curvature + rest, half.T, assume_a="pos")
    covariance = covariance - covariance.mean(axis=0)
    covariance = covariance - covariance.mean(axis=1, keepdims=True)
    return unshrunk, np.asarray(covariance + unknown_covariance(curvature, 2 * REST * FREE))


def _noise(
    meetings: PairMeetings, weights: Floats, variance: float, scores: Floats, link: Link
) -> Floats:
    """Covariance of the gradient, shape (n, n).

    The gradient of a pair is k (A - B) (slope(d) + slope(-d)) / 2 and k U times half their gap.
    """
    d = score_differences(scores)
    both, gap = link.slope(d) + link.slope(-d), link.slope(-d) - link.slope(d)
    chance = link.cdf(d)
    of_wins = (meetings.mean * chance * (1 - chance) + variance / 2) * both**2
    of_meetings = meetings.variance * (gap / 2) ** 2
    noise = laplacian(weights**2 * (of_wins + of_meetings))
    for place, along in enumerate(meetings.along.T):
        moved = weights * gap / 2
        noise = noise + _together(along, moved * meetings.spread)
        if place:  # groups: what if they were further apart than they seem?
            apart = np.sign(np.subtract.outer(along, along))
            moved = weights * np.maximum(np.abs(gap), APART * both) / 2 * apart
            noise = noise + _together(along, moved * meetings.spread)
    return noise


def _together(along: Floats, moved: Floats) -> Floats:
    """Covariance of the gradient where U has the error spread (u e' + e u'), less its part twice.

    With e = E u for E symmetric of independent normal entries, e has covariance I + u u'.
    """
    sums = moved @ along
    linear = along[:, np.newaxis] * moved + np.diag(sums) - np.outer(along * sums, along)
    onto = linear @ along
    return np.asarray(linear @ linear.T + np.outer(onto, onto))
