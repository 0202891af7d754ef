"""Scores from a noisy matrix of wins by Rank Centrality: the stationary distribution of a chain.

The model: a beats b with probability pi_a / (pi_a + pi_b), pi = exp(scores). So the chain that
moves from a to b at a rate proportional to the wins of b over a has, in expectation, the stationary
distribution pi, whatever pairs met how often: pi_a wins[b, a] and pi_b wins[a, b] are equal in
expectation ([NOS] equation 2; with counts for shares a pair counts as much as it was compared,
which is the same chain where all pairs were compared equally often).

Privacy noise changes two things. A pair that is mostly noise gets the weight k = U / (U + v), U the
comparisons to expect of it and v the noise in its total (`fit.pair_meetings`): its two rates are
k (U + A - B) / 2 and k (U - A + B) / 2, whose ratio has the same expectation. And noise can make a
rate negative. The chain takes 0 there, and lambda is added to every rate, as in [NZ] Algorithm 2;
both draw scores together. lambda = 4 c / n, with c the ridge that the likelihood would have under
this noise (`noisy_pairs`): near equal scores both draw alike.

Intervals do not rest on rates raised to 0. In stationarity the balance

    u_a = sum over b of (pi_b k (U + A - B) / 2 - pi_a k (U - A + B) / 2)

is zero. It is the gradient of the likelihood with pairs weighted by pi_a + pi_b. At the true scores
every term has mean zero, so these weights are as good as fixed. Intervals are around one Newton
step from the published scores on the balance of the counts as they are, with a tenth of lambda
left, and hold the published scores too; covariance: a sandwich, as in `fit.pair_fit`. One step
does not reach an item that lost next to nothing: where all its losses may be noise its interval has
no upper end, and where all its wins may be, no lower one.

References:
    [NOS] Negahban, Oh, Shah. Rank centrality: ranking from pairwise comparisons. 2017.
    [NZ] Nguyen, Zhang. Optimal and private learning from human response data. 2023. Algorithm 2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import scipy
from numpy.typing import NDArray

from hushrank.estimation.common.links import LOGISTIC, Floats, laplacian, score_differences
from hushrank.estimation.common.matrices import PairCounts
from hushrank.estimation.common.uncertainty import far_sets, quantile
from hushrank.estimation.comparisons.planning import Exposures
from hushrank.estimation.fit.pair_fit import (
    KEPT,
    RIDGE,
    OpenAt,
    ShrunkScores,
    SimulatedVariances,
    unknown_covariance,
)
from hushrank.estimation.fit.pair_meetings import PairMeetings, pair_meetings
from hushrank.estimation.fit.stationary import stationary_distribution
from hushrank.privacy.noise import NoiseLaw

LONGEST_STEP = 3.0  # limit of the Newton step, in each score
MOST_SCALED = 2.0  # factor by which the comparisons of all pairs are scaled, up or down
LEAST = 1e-9  # least value of a sum that something is divided by


@dataclass(frozen=True, slots=True)
class _Balance:
    """Parts of the balance; matrices have the shape (n, n).

    Attributes:
        won: k (U + A - B) / 2, of any sign.
        used: k U.
        pull: lambda.
    """

    won: Floats
    used: Floats
    pull: float

    def weights(self, scores: Floats) -> Floats:
        """pi_a + pi_b, in units of their mean."""
        chances = np.exp(scores - scores.max())
        both = np.add.outer(chances, chances)
        np.fill_diagonal(both, 0)
        return np.asarray(both / both.mean())

    def curvature(self, scores: Floats) -> tuple[Floats, Floats]:
        """Fall of the balance as scores rise: by the counts, and by what is left of lambda."""
        weights = self.weights(scores) * LOGISTIC.information(score_differences(scores))
        left = 2 * KEPT * self.pull * weights
        return laplacian(weights * self.used), laplacian(left)

    def pulled(self, scores: Floats) -> Floats:
        """Remaining pull of lambda on each balance, shape (n,)."""
        chance = LOGISTIC.cdf(score_differences(scores))
        return np.asarray((KEPT * self.pull * self.weights(scores) * (chance.T - chance)).sum(1))

    def value(self, scores: Floats) -> Floats:
        """u and what is left of lambda's pull, shape (n,)."""
        chance = LOGISTIC.cdf(score_differences(scores))
        moved = self.weights(scores) * (self.won * chance.T - self.won.T * chance)
        return np.asarray(moved.sum(axis=1) + self.pulled(scores))


def fit_spectral(counts: PairCounts, law: NoiseLaw) -> tuple[ShrunkScores, Floats]:
    """Scores of Rank Centrality, and the noise's share in what moves each.

    Args:
        counts: noisy counts of at least 2 items.
        law: law of the noise in one entry, in the counts' own integer units.

    Raises:
        ValueError: the counts are confidential.
    """
    if counts.confidential and law.scale > 0:
        raise ValueError("counts are confidential: only released counts may be fitted here")
    wins, variance = counts.dense() / counts.row_weight, law.variance / counts.row_weight**2
    totals, n = wins + wins.T, counts.n_items
    if variance == 0:
        meetings, weights = PairMeetings.without_noise(totals), (totals > 0).astype(np.float64)
    else:
        design = Exposures(totals.sum(axis=1), 2 * (n - 1) * variance).design()
        meetings = pair_meetings(totals, design, 2 * variance, law.kind)
        weights = meetings.mean / (meetings.mean + 2 * variance)
    used = meetings.used(weights, 2 * variance)
    if variance > 0:
        used = used * _scale(meetings, weights, totals, used, 2 * variance)
    noise = meetings.gradient_noise(weights, variance, np.zeros(n), LOGISTIC)
    known = float((used * LOGISTIC.information(np.zeros((n, n)))).sum())
    ridge = max(RIDGE, float(np.trace(noise)) / known / 2) if known > 0 else RIDGE
    balance = _Balance((used + weights * (wins - wins.T)) / 2, used, 4 * ridge / n)

    rates = np.maximum(balance.won.T, 0) + balance.pull
    scores = np.log(stationary_distribution(rates))
    scores -= scores.mean()
    unshrunk = scores + _newton_step(balance, scores)
    curvature, left = balance.curvature(unshrunk)
    moving = weights * balance.weights(unshrunk)
    noise = meetings.gradient_noise(moving, variance, unshrunk, LOGISTIC)
    pulled = balance.pulled(unshrunk)
    pull = np.outer(pulled, pulled) + float(np.square(pulled).max()) * (np.eye(n) - 1 / n)
    inverse = scipy.linalg.pinvh(curvature + left)
    weakest = float(np.trace(left)) / n
    own = np.diagonal(curvature) / np.diagonal(left) * KEPT * 2 * ridge
    from_noise = variance / 2 * np.square(moving).sum(axis=1)
    fit = ShrunkScores(
        scores=scores,
        unshrunk=unshrunk,
        covariance=inverse @ (noise + pull) @ inverse + unknown_covariance(curvature, weakest),
        information=own,
        ridge=ridge,
    )
    return fit, np.minimum(from_noise / np.maximum(np.diagonal(noise), from_noise), 1.0)


def without_far_sets(
    fit: ShrunkScores, counts: PairCounts, law: NoiseLaw
) -> tuple[ShrunkScores, OpenAt]:
    """The fit with the zero of the items that others limit, and the items that nothing limits.

    These may have no win but for noise, or no loss, alone or in a set.
    """
    confirmed_at, deviation = _unconfirmed(counts, law), math.sqrt(law.variance)
    wins = counts.dense() / counts.row_weight
    above, below = far_sets(wins, fit.scores, deviation / counts.row_weight)

    def open_at(tail: float) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        no_wins, no_losses = confirmed_at(tail)
        return no_wins | below, no_losses | above

    aside = above | below
    if not aside.any() or isinstance(fit.covariance, SimulatedVariances):
        return fit, open_at
    zero = ~aside / np.sum(~aside)
    to_zero = np.eye(len(zero)) - zero
    moved = replace(
        fit,
        scores=to_zero @ fit.scores,
        unshrunk=to_zero @ fit.unshrunk,
        covariance=to_zero @ fit.covariance @ to_zero.T,
    )
    return moved, open_at


def _unconfirmed(counts: PairCounts, law: NoiseLaw) -> OpenAt:
    """The items that may have no win but for noise, and no loss: nothing limits them there."""
    wins, n = counts.dense() / counts.row_weight, counts.n_items
    won, lost = wins.sum(axis=1), wins.sum(axis=0)
    deviation = math.sqrt((n - 1) * law.variance) / counts.row_weight

    def open_at(tail: float) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        reach = deviation * float(quantile(np.ones(()), tail, law.kind, n - 1))
        return won <= reach, lost <= reach

    return open_at


def _scale(
    meetings: PairMeetings, weights: Floats, totals: Floats, used: Floats, noise: float
) -> float:
    """Factor that gives the sum of k U its expectation, which no U >= 0 has where noise is large.

    Law: E sum k T = sum E k W + v sum E k'(T) for normal noise of variance v (Stein's identity),
    with k' = v / (U + v)^2 dU/dT, and v dU/dT is the variance of W given T (Tweedie's formula).
    """
    moved = noise * meetings.variance / np.square(meetings.mean + noise)
    expected = float((weights * totals - moved).sum())
    return float(np.clip(expected / max(float(used.sum()), LEAST), 1 / MOST_SCALED, MOST_SCALED))


def _newton_step(balance: _Balance, scores: Floats) -> Floats:
    """Step from the published scores to those that intervals are around, shape (n,)."""
    curvature, left = balance.curvature(scores)
    step = scipy.linalg.pinvh(curvature + left) @ balance.value(scores)
    step = np.clip(step, -LONGEST_STEP, LONGEST_STEP)
    return np.asarray(step - step.mean())
