"""Scores and intervals from noisy net wins: what wins say beyond what exposure does.

The net wins of an item is its wins less half its comparisons. Where W[i, j] comparisons of two
items are to be expected and F is the link, the scores theta make the net wins

    C_i(theta) = sum over j of W[i, j] (F(theta_i - theta_j) - 1/2),

and a release shows them but for a sampling error and the privacy noise. Both `win-loss`, which
releases wins and losses, and `perturbed-mle`, whose scores are stationary for such an equation,
come to this form; exposures are noisy too, and so W is (`estimation.comparisons.planning`).

Scores are those that solve pull_i = C_i + precision_i theta_i. As for any estimate of a score that
has variance 1 / PRECISION and is seen through an information h with noise v, the mean error is
smallest near precision_i = PRECISION (1 + v / h) [`perturbed_mle.default_ridge`].

An interval holds every value of theta_i that its net wins does not contradict, the others being at
their estimates ([F54], because the exposure is a noisy denominator):

    |pull_i - C_i| <= q sqrt(V_i),
    V_i = d_i p (1 - p) + Var(net-win noise) + (p - p_0)^2 Var(exposure noise) + Var(others),

p being the share of its comparisons that an item of that score wins and d_i its exposure. An error
of the exposure shifts the net wins by its product with p - p_0, where p_0 is the share at which the
exposure does not matter: 1/2 for counts, that of the released score for `perturbed-mle`. The first
term holds the chance of who wins and, where partners meet by chance, of whom an item meets. Of the
other items' errors comes the share that their scores have in C_i. So where an exposure does not
stand clear of its noise, no net wins contradicts any score, and the interval is infinite.

Two items are told apart by the error of their difference: its standard deviation, of the joint
covariance of all scores, times its own quantile, for it sums up more draws of noise than one score.
How much further than that an interval of one item reaches, on the side of the other item, stretches
that item's part of the error: where curves are flat, or an exposure is hardly known.

Ranking by noisy wins and losses of each item, where pairs met by chance (`win-loss`).

The release is the number of comparisons that each item won and the number that it lost, each with
noise of its own. What an item was shown how often is thereby known, and its share won is wins over
appearances, whatever the exposure. That makes scores, too, where an item's opponents are a chance
sample of all comparisons: then wins less losses are the sufficient statistic of the Bradley-Terry
model whose design is that of the exposures (`estimation.comparisons.planning`). Where strong
items meet strong ones, as in a league, the pairing has to be known: use `perturbed-mle` there.

Noise: with Laplace noise of scale b on each count, the net wins (wins - losses) / 2 has noise of
variance b^2 and the exposure wins + losses one of variance 4 b^2, uncorrelated. At sensitivity 4 L
for a person replaced that is half the variance of the net wins that `perturbed-mle` pays for, and
the exposures come with it.

References:
    [F54] Fieller. Some problems in interval estimation. 1954.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.common.estimate import CLEAR_TOTAL, Estimate, estimate_of, nothing_learned
from hushrank.estimation.common.links import LOGISTIC, Floats, Link, laplacian, score_differences
from hushrank.estimation.common.matrices import WinLossCounts, check_released
from hushrank.estimation.common.pair_separation import ScoreErrors, apart, separate_pairs
from hushrank.estimation.common.pooling import Evidence, EvidenceAt
from hushrank.estimation.common.uncertainty import (
    LEVEL,
    WinCurves,
    crossing,
    ends_together,
    quantile,
)
from hushrank.estimation.comparisons.planning import Exposures
from hushrank.privacy.noise import NoiseLaw
from hushrank.privacy.units import NoiseKind

PRECISION = 1.0  # precision of a score of which nothing is known: standard deviation 1
NEWTON_STEPS = 100
SOLVED = 1e-10
SINGULAR = 1e-9  # part of a covariance that is singular without privacy: net wins add up to zero
FLAT = 1e-7  # share of the steepest direction of the scores: less is rounding
LONGEST_STEP = 1.5  # step of a score: the expansion of F holds no further


@dataclass(frozen=True, slots=True, kw_only=True)
class NetWins:
    """Noisy net wins and what is known of their errors.

    Attributes:
        values: shape (n,), in comparisons.
        design: shape (n, n), weight of each pair: comparisons to expect, times a factor that is 1
            but for links whose likelihood weighs comparisons; symmetric, zero diagonal.
        sampling_factor: shape (n, n), variance that a comparison of the pair adds, over
            design F (1 - F): the same factor.
        link: F.
        noise_variance: shape (n,), of the privacy noise in each item's net wins.
        exposure_variance: variance of the noise in each exposure; one for all, or shape (n,).
        free_share: shape (n,), share of wins at which the exposure's error does not matter.
        kind, draws: law of the noise, and how many draws of equal scale it is the sum of.
    """

    values: Floats
    design: Floats
    sampling_factor: Floats
    link: Link
    noise_variance: Floats
    exposure_variance: float | Floats
    free_share: Floats
    kind: NoiseKind
    draws: int

    def probabilities_and_slopes(self, scores: Floats) -> tuple[Floats, Floats]:
        """F and the derivative of each term of the net wins at the scores, shapes (n, n)."""
        d = score_differences(scores)
        chance = self.link.cdf(d)
        return chance, np.asarray(self.design * self.link.slope(d) * chance)

    @property
    def information(self) -> Floats:
        """About each score, at equal scores; shape (n,)."""
        at_zero = float(self.link.slope(np.zeros(1))[0]) / 2  # F'(0)
        return np.asarray(self.design.sum(axis=1) * at_zero)


@dataclass(frozen=True, slots=True)
class _Opponents:
    """Opponents of each item; arrays of shape (n,).

    Attributes:
        met: comparisons of each item, at least a little above 0.
        curves: wins of an item against them.
        chance: factor of p (1 - p) in V_i.
        variance: variance that the errors of their scores add to C_i.
    """

    met: Floats
    curves: WinCurves
    chance: Floats
    variance: Floats

    @classmethod
    def of(cls, net_wins: NetWins, scores: Floats, variance: Floats) -> _Opponents:
        return cls(
            met=np.maximum(net_wins.design.sum(axis=1), np.finfo(float).tiny),
            curves=WinCurves.of(net_wins.design, scores, net_wins.link),
            chance=(net_wins.design * net_wins.sampling_factor).sum(axis=1),
            variance=variance,
        )


def rank_by_net_wins(net_wins: NetWins) -> Estimate:
    """Scores with 95 % intervals, rank intervals and groups.

    Where no score is bounded on both sides, `informative` is False.
    """
    scores = fit_net_wins(net_wins)
    return rank_around(
        net_wins, scores, _variance_of_others(net_wins, scores), _errors_of(net_wins, scores)
    )


def rank_around(
    net_wins: NetWins, scores: Floats, others_variance: Floats, errors: ScoreErrors
) -> Estimate:
    """Rank as `rank_by_net_wins` does, around given scores.

    Args:
        net_wins: evidence about each item.
        scores: shape (n,), sum zero.
        others_variance: shape (n,), that all but an item's own score add to its net wins.
        errors: errors of the scores.
    """
    intervals = _Intervals.of(net_wins, scores, others_variance)
    intervals_at = ends_together(intervals.at, len(scores))

    def ends_at(tail: float) -> tuple[Floats, Floats]:
        low, high = intervals_at(tail)
        return np.minimum(low, scores), np.maximum(high, scores)

    def better_at(tail: float) -> NDArray[np.bool_]:
        reach, quantiles = intervals.reach(tail), intervals.of_differences(tail)
        sure = apart(errors, intervals.centre, intervals_at(tail), reach, quantiles)
        return np.asarray(sure & (score_differences(scores) > 0))

    low, high = ends_at(LEVEL / 2)
    if not (np.isfinite(low) & np.isfinite(high)).any():
        return nothing_learned(scores)
    separation = separate_pairs(scores, better_at, ends_at, errors.covariance)
    return estimate_of(scores, low, high, separation, errors=errors)


def precision_of(net_wins: NetWins) -> Floats:
    """Weights of the penalty, shape (n,)."""
    return np.asarray(PRECISION * (1 + net_wins.noise_variance / net_wins.information))


def fit_net_wins(net_wins: NetWins) -> Floats:
    """The scores, shape (n,): by Newton steps on a strictly convex function; they sum to zero."""
    scores, precision = np.zeros(len(net_wins.values)), precision_of(net_wins)
    for _ in range(NEWTON_STEPS):
        chance, slopes = net_wins.probabilities_and_slopes(scores)
        left = net_wins.values - (net_wins.design * (chance - 0.5)).sum(axis=1) - precision * scores
        step = np.linalg.solve(laplacian(slopes) + np.diag(precision), left)
        longest = np.abs(step).max()
        scores = scores + step * min(1.0, LONGEST_STEP / max(longest, SOLVED))
        if longest <= SOLVED:
            break
    return np.asarray(scores - scores.mean())


def _variance_of_others(net_wins: NetWins, scores: Floats) -> Floats:
    """Variance that the errors of the other items' scores add to C_i, shape (n,).

    Scores are drawn to zero, some by far and many of them together, so what counts is not how much
    the estimates vary but how far the truth may lie from them: their covariance given the net wins,
    for scores of precision PRECISION.
    """
    slopes, _, known = _known(net_wins, scores)
    errors = np.linalg.inv(known + PRECISION * np.eye(len(scores)))
    errors = errors - errors.mean(axis=0)  # an equal shift of all scores changes nothing: sum zero
    errors = errors - errors.mean(axis=1, keepdims=True)
    return np.asarray(np.einsum("ij,jk,ik->i", slopes, errors, slopes, optimize=True))


def _known(
    net_wins: NetWins, scores: Floats, from_exposure: Floats | float = 0.0
) -> tuple[Floats, Floats, Floats]:
    """Slopes of the net wins, their Laplacian and the information in the net wins; shapes (n, n).

    Args:
        from_exposure: shape (n,), variance that an item's own exposure adds to its net wins.
    """
    chance, slopes = net_wins.probabilities_and_slopes(scores)
    stiffness = laplacian(slopes)
    sampling = laplacian(net_wins.design * net_wins.sampling_factor * chance * (1 - chance))
    noise = net_wins.noise_variance + from_exposure + SINGULAR * np.diagonal(sampling).max()
    known = stiffness @ np.linalg.solve(sampling + np.diag(noise), stiffness)
    return slopes, stiffness, (known + known.T) / 2


def evidence_of_net_wins(net_wins: NetWins, scores: Floats, n_parts: int = 0) -> Evidence:
    """Return the net wins' evidence near some scores, where chance decides whom an item meets.

    Then the W[i, j] comparisons of two items are the mean of a Poisson law. What they differ from
    it adds to net wins, given the exposures, W[i, j] (F_ij - p_i)^2, p being an item's share of
    wins.

    With `n_parts` = G the evidence is what net wins of all rows add to those of G groups of these
    rows, each with as much noise of its own. Let V be the variance by sampling and N that of one
    noise, as numbers. Without sampling, sums of groups have the variance G N, and with the whole's
    C = G N / (G + 1). So precisions are 1 / (V + G N) and 1 / (V + C), and their difference is

        1 / (N + (1 + 2 / G) V + (1 / G) (1 + 1 / G) V^2 / N).
    """
    weights = np.maximum(net_wins.design.sum(axis=1), np.finfo(float).tiny)
    chance, slopes = net_wins.probabilities_and_slopes(scores)
    share = (net_wins.design * chance).sum(axis=1) / weights
    stiffness, won = laplacian(slopes), net_wins.design * net_wins.sampling_factor
    beyond = chance - share[:, np.newaxis]
    sampling = laplacian(won * chance * (1 - chance)) + won * beyond * beyond.T
    noise = (
        net_wins.noise_variance + (share - net_wins.free_share) ** 2 * net_wins.exposure_variance
    )
    noise = noise + (won * beyond**2).sum(axis=1)
    if n_parts:
        sampling = (1 + 2 / n_parts) * sampling + (1 / n_parts + 1 / n_parts**2) * (
            sampling @ (sampling / noise[:, np.newaxis])
        )
    variance = sampling + np.diag(noise + SINGULAR * np.diagonal(sampling).max())
    left = net_wins.values - weights * (share - 0.5)
    solved = np.linalg.solve(variance, np.column_stack([stiffness, left]))
    return Evidence(stiffness @ solved[:, :-1], stiffness @ solved[:, -1])


def _errors_of(net_wins: NetWins, scores: Floats) -> ScoreErrors:
    """Return scores without the penalty, to first order, and their errors."""
    weights = np.maximum(net_wins.design.sum(axis=1), np.finfo(float).tiny)
    share = (net_wins.design * net_wins.link.cdf(score_differences(scores))).sum(axis=1) / weights
    off = (share - net_wins.free_share) ** 2 * net_wins.exposure_variance
    _, stiffness, known = _known(net_wins, scores, off)
    penalty = precision_of(net_wins) * scores
    centre = scores + np.linalg.pinv(stiffness, rcond=FLAT, hermitian=True) @ penalty
    covariance = np.linalg.pinv(known, rcond=FLAT**2, hermitian=True)
    return ScoreErrors(centre, np.asarray(covariance, np.float64))


@dataclass(frozen=True, slots=True)
class _Intervals:
    """Evidence of each score's net wins alone, the others being at their estimates.

    Attributes:
        net_wins, scores, others: parts that the intervals are made of.
        centre: shape (n,), the score that gives the net wins.
        noise_part: shape (n,), of V_i at the scores: the privacy noise in the net wins.
        deviation: shape (n,), of each score by the slope of its curve at the scores, who meets whom
            taken as known.
    """

    net_wins: NetWins
    scores: Floats
    others: _Opponents
    centre: Floats
    noise_part: Floats
    deviation: Floats

    @classmethod
    def of(cls, net_wins: NetWins, scores: Floats, others_variance: Floats) -> _Intervals:
        others = _Opponents.of(net_wins, scores, others_variance)
        _, variance = _expected(net_wins, scores, others)
        noise_part = net_wins.noise_variance / np.maximum(variance, np.finfo(float).tiny)
        centre = _crossing(net_wins, scores, others, np.zeros(len(scores)))
        chance, slopes = net_wins.probabilities_and_slopes(scores)
        share = (net_wins.design * chance).sum(axis=1) / others.met
        # The covariance of all scores leaves out the chance of whom an item meets: so does this.
        won = (net_wins.design * net_wins.sampling_factor * chance * (1 - chance)).sum(axis=1)
        variance = variance - others.chance * share * (1 - share) + won
        deviation = np.sqrt(variance) / np.maximum(slopes.sum(axis=1), np.finfo(float).tiny)
        return cls(net_wins, scores, others, centre, np.clip(noise_part, 0, 1), deviation)

    def reach(self, tail: float) -> Floats:
        """Value that a score error exceeds with chance `tail` if its curve is a line: shape (n,)"""
        net_wins = self.net_wins
        return quantile(self.noise_part, tail, net_wins.kind, net_wins.draws) * self.deviation

    def of_differences(self, tail: float) -> Floats:
        """Value that the error of each difference exceeds, in standard deviations, shape (n, n)."""
        noise, whole = self.noise_part * self.deviation**2, self.deviation**2
        share = np.add.outer(noise, noise) / np.add.outer(whole, whole)
        return quantile(share, tail, self.net_wins.kind, 2 * self.net_wins.draws)

    def at(self, tails: Sequence[float]) -> tuple[Floats, Floats]:
        """The intervals' two ends, shape (tails, n)."""
        net_wins = self.net_wins
        q = np.array(
            [quantile(self.noise_part, each, net_wins.kind, net_wins.draws) for each in tails]
        )
        low, high = _crossing(net_wins, self.scores, self.others, np.array([-q, q]))
        # Where the exposure is not clear of its noise, C - q sqrt(V) does not increase: no end is
        # sure.
        clear = net_wins.design.sum(axis=1) ** 2 > q**2 * net_wins.exposure_variance
        low, high = np.where(clear, low, -np.inf), np.where(clear, high, np.inf)
        return np.minimum(low, self.centre), np.maximum(high, self.centre)


def _expected(net_wins: NetWins, at: Floats, others: _Opponents) -> tuple[Floats, Floats]:
    """C_i and V_i where item i has the scores `at[..., i]` and the others their own."""
    share = others.curves.at(at) / others.met
    variance = (
        others.chance * share * (1 - share)
        + net_wins.noise_variance
        + (share - net_wins.free_share) ** 2 * net_wins.exposure_variance
        + others.variance
    )
    return others.met * (share - 0.5), variance


def _crossing(net_wins: NetWins, scores: Floats, others: _Opponents, q: Floats) -> Floats:
    """The scores at which C - q sqrt(V) is the item's pull, q of shape (..., n), or infinite."""

    def beyond(at: Floats) -> NDArray[np.bool_]:
        expected, variance = _expected(net_wins, at, others)
        return np.asarray(expected - q * np.sqrt(variance) > net_wins.values)

    return crossing(beyond, scores, q.shape[:-1])


def rank_by_win_loss(counts: WinLossCounts, law: NoiseLaw, link: Link = LOGISTIC) -> Estimate:
    """Rank items by their scores, with 95 % intervals, rank intervals and groups.

    Args:
        counts: noisy counts of at least 2 items.
        law: law of the noise in one count, in the counts' own integer units.
        link: F.

    Returns:
        Scores that sum to zero. A total that does not stand clear of its own noise says nothing of
        any item: scores are 0 and `informative` is False.

    Raises:
        ValueError: `counts` is confidential, or has fewer than 2 items.
    """
    check_released(counts)
    exposures = exposures_of(counts, law)
    if not _clear(exposures):
        return nothing_learned(np.zeros(counts.n_items))
    net_wins = _net_wins(counts, law, exposures, link)
    found = rank_by_net_wins(net_wins)
    if not found.informative:
        return found
    return replace(found, noise_share=_noise_share(net_wins, found.scores))


def _noise_share(net_wins: NetWins, scores: Floats) -> Floats:
    """Share of privacy noise in the part of V_i that an item's own counts make."""
    weights = np.maximum(net_wins.design.sum(axis=1), np.finfo(float).tiny)
    share = (net_wins.design * net_wins.link.cdf(score_differences(scores))).sum(axis=1) / weights
    noise = (
        net_wins.noise_variance + (share - net_wins.free_share) ** 2 * net_wins.exposure_variance
    )
    sampled = (net_wins.design * net_wins.sampling_factor).sum(axis=1) * share * (1 - share)
    return np.asarray(noise / (noise + np.maximum(sampled, 0)))


def evidence_of_win_loss(counts: WinLossCounts, law: NoiseLaw, link: Link = LOGISTIC) -> EvidenceAt:
    """Return counts' evidence near any scores; none if the total is not clear of its noise."""
    check_released(counts)
    exposures = exposures_of(counts, law)
    if not _clear(exposures):
        nothing = Evidence(np.zeros((counts.n_items,) * 2), np.zeros(counts.n_items))
        return lambda _: nothing
    return partial(evidence_of_net_wins, _net_wins(counts, law, exposures.drawn_together(), link))


def _clear(exposures: Exposures) -> bool:
    variance = exposures.noise_variance * len(exposures.values)
    return bool(exposures.values.sum() > CLEAR_TOTAL * np.sqrt(variance))


def exposures_of(counts: WinLossCounts, law: NoiseLaw) -> Exposures:
    """Wins and losses of each item, in comparisons."""
    appearances = (counts.wins + counts.losses) / counts.row_weight
    return Exposures(appearances, 2 * law.variance / counts.row_weight**2)


def _net_wins(counts: WinLossCounts, law: NoiseLaw, exposures: Exposures, link: Link) -> NetWins:
    n, unit = counts.n_items, counts.row_weight
    values: Floats = (counts.wins - counts.losses) / (2 * unit)
    return NetWins(
        values=values,
        design=exposures.design(),
        sampling_factor=np.ones((n, n)),
        link=link,
        noise_variance=np.full(n, law.variance / (2 * unit**2)),
        exposure_variance=exposures.noise_variance,
        free_share=np.full(n, 0.5),
        kind=law.kind,
        draws=2,
    )
