"""Scores and ties from noisy counts of three outcomes, whatever the design.

With x the noisy counts of a pair and N their sum, minimises

    - sum over pairs and outcomes c of u_c log P_c(d, t) + c |scores|^2 + penalty of t,

where u = x for every pair; that is the likelihood of the noisy counts. The gradient is linear in
them, so noise of mean zero leaves it unbiased, and negative counts enter as they are. Where pairs
of few comparisons cost more than they bring, u = x k(N) - v k'(N) instead, with v the variance of
the noise in a count and k the function of `noisy_pairs` that is 0 where N does not stand clear of
its noise. By Stein's identity, E[noise_c k(N)] = v E[k'(N)] for normal noise, so that
E[u_c] = m_c E[k] for all three outcomes, and the gradient at the truth has mean zero ([S81]).

Errors are those of the gradient through the curvature (`pair_fit.sandwich`), t being unknown: what
a pair adds to its covariance is N k^2 times the information in one comparison, and from the noise
v k^2 sum over c of x_c x_c', x being the slopes of log P_c. The slope of k adds nothing: the sum
over c of m_c x_c is zero.

Sums over pairs become matrices of items. Parameters are in this order: n scores, n log exposures
(where they are fitted), and t. A pair a < b enters by d = score_a - score_b, by the log of how
often it met, and by t.

References:
    [S81] Stein. Estimation of the mean of a multivariate normal distribution. 1981. Lemma 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.common.links import Floats
from hushrank.estimation.common.pooling import Evidence
from hushrank.estimation.comparisons.noisy_pairs import CLEAR_PAIR, WHOLE_TOTAL
from hushrank.estimation.fit.pair_fit import RIDGE, sandwich
from hushrank.estimation.fit.solve import ConvergenceError
from hushrank.estimation.ties.tie_models import TIE_CENTRE, TIE_SPREAD, TieModel, outcomes_of

MOST_STEPS, MOST_HALVINGS = 300, 40
TOLERANCE = 1e-7  # tolerance of a step
ROUNDING = 1e-14  # share of the loss: a smaller promise of a step cannot be seen
LONGEST_STEP = 1.0
SUFFICIENT = 1e-4


@dataclass(frozen=True, slots=True)
class Pairs:
    """The pairs a < b of n items.

    Attributes:
        n_items: n.
        first, second: shape (pairs,).
    """

    n_items: int
    first: NDArray[np.intp]
    second: NDArray[np.intp]

    @classmethod
    def of(cls, n_items: int) -> Pairs:
        """All pairs."""
        return cls(n_items, *np.triu_indices(n_items, 1))

    def gaps(self, values: Floats) -> Floats:
        """values[a] - values[b], shape (pairs,)."""
        return np.asarray(values[self.first] - values[self.second])

    def sums(self, values: Floats) -> Floats:
        """values[a] + values[b], shape (pairs,)."""
        return np.asarray(values[self.first] + values[self.second])

    def to_items(self, values: Floats, sign: int) -> Floats:
        """Sum over pairs of value (e_a + sign e_b), shape (n,)."""
        at_first = np.bincount(self.first, values, self.n_items)
        return np.asarray(at_first + sign * np.bincount(self.second, values, self.n_items))

    def matrix(self, values: Floats) -> Floats:
        """values in a symmetric matrix of items, shape (n, n)."""
        found = np.zeros((self.n_items, self.n_items))
        found[self.first, self.second] = values
        return found + found.T

    def gaps_by_gaps(self, values: Floats) -> Floats:
        """Sum over pairs of value (e_a - e_b)(e_a - e_b)': a Laplacian."""
        whole = self.matrix(values)
        return np.asarray(np.diag(whole.sum(axis=1)) - whole)

    def sums_by_sums(self, values: Floats) -> Floats:
        """Sum over pairs of value (e_a + e_b)(e_a + e_b)'."""
        whole = self.matrix(values)
        return np.asarray(np.diag(whole.sum(axis=1)) + whole)

    def gaps_by_sums(self, values: Floats) -> Floats:
        """Sum over pairs of value (e_a - e_b)(e_a + e_b)'."""
        found = np.zeros((self.n_items, self.n_items))
        found[self.first, self.second], found[self.second, self.first] = values, -values
        return np.asarray(np.diag(found.sum(axis=1)) + found)

    def with_exposures(self, weight: Floats, by_gap: Floats, by_tie: Floats) -> Floats:
        """Sum over pairs and outcomes of weight x x', x being an outcome's slopes.

        Args:
            weight: shape (3, pairs), as the slopes are.
            by_gap, by_tie: derivatives in d and in t; the one in the log of how often the pair met
                is 1.
        """
        return np.block(
            [
                [
                    self.gaps_by_gaps((weight * by_gap**2).sum(axis=0)),
                    self.gaps_by_sums((weight * by_gap).sum(axis=0)),
                    self.to_items((weight * by_gap * by_tie).sum(axis=0), -1)[:, np.newaxis],
                ],
                [
                    self.gaps_by_sums((weight * by_gap).sum(axis=0)).T,
                    self.sums_by_sums(weight.sum(axis=0)),
                    self.to_items((weight * by_tie).sum(axis=0), 1)[:, np.newaxis],
                ],
                [
                    self.to_items((weight * by_gap * by_tie).sum(axis=0), -1),
                    self.to_items((weight * by_tie).sum(axis=0), 1),
                    np.full(1, (weight * by_tie**2).sum()),
                ],
            ]
        )

    def without_exposures(self, weight: Floats, by_gap: Floats, by_tie: Floats) -> Floats:
        """Information about the scores and t alone."""
        cross = self.to_items((weight * by_gap * by_tie).sum(axis=0), -1)[:, np.newaxis]
        scores = self.gaps_by_gaps((weight * by_gap**2).sum(axis=0))
        return np.block([[scores, cross], [cross.T, np.full((1, 1), (weight * by_tie**2).sum())]])


def known_of(information: Floats, wanted: slice) -> Floats:
    """Information about some parameters where the others are not known: the Schur complement.

    Args:
        information: about all, symmetric; that about the others has an inverse.
        wanted: parameters that are wanted.
    """
    others = np.ones(len(information), bool)
    others[wanted] = False
    cross = information[wanted][:, others]
    shared = cross @ np.linalg.solve(information[np.ix_(others, others)], cross.T)
    known = information[wanted, wanted] - shared
    return np.asarray((known + known.T) / 2)


@dataclass(frozen=True, slots=True)
class Used:
    """Parts of the noisy counts that are used.

    Attributes:
        kept: k, shape (pairs,).
        cells: u, shape (3, pairs).
    """

    kept: Floats
    cells: Floats

    @property
    def totals(self) -> Floats:
        """Sum over outcomes, shape (pairs,)."""
        return np.asarray(self.cells.sum(axis=0))


@dataclass(frozen=True, slots=True)
class TiesByPairs:
    """The objective, and moments of its gradient.

    Attributes:
        pairs: pairs of items.
        totals: N, shape (pairs,).
        used: parts of the counts that are used.
        variance: v.
        model: model of ties.
        ridge: c.
    """

    pairs: Pairs
    totals: Floats
    used: Used
    variance: float
    model: TieModel
    ridge: float = RIDGE

    def loss_and_gradient(self, values: Floats) -> tuple[float, Floats]:
        """The objective at scores and t, shape (n + 1,), and the likelihood's slope, uphill."""
        n, cells = self.pairs.n_items, self.used.cells
        outcomes = outcomes_of(self.model, self.pairs.gaps(values[:n]), float(values[-1]))
        of_scores = self.pairs.to_items((cells * outcomes.by_gap).sum(axis=0), -1)
        off, stiff = self.penalty(values)
        loss = -(cells * np.log(outcomes.probabilities)).sum() + (stiff * off**2).sum() / 2
        return float(loss), np.append(of_scores, (cells * outcomes.by_tie).sum())

    def penalty(self, values: Floats) -> tuple[Floats, Floats]:
        """Distances from the centres, and weights of their squares, shape (n + 1,)."""
        off, stiff = values.copy(), np.full(len(values), 2 * self.ridge)
        off[-1], stiff[-1] = values[-1] - TIE_CENTRE, TIE_SPREAD**-2
        return off, stiff

    def moments(self, values: Floats) -> tuple[Floats, Floats, Floats]:
        """Expected Hessian without penalties; covariance of the gradient by chance, by noise."""
        n, sums = self.pairs.n_items, self.pairs.without_exposures
        outcomes = outcomes_of(self.model, self.pairs.gaps(values[:n]), float(values[-1]))
        kept = np.square(self.used.kept)
        curving = np.maximum(self.used.totals, 0) * outcomes.probabilities
        chance = np.maximum(self.totals, 0) * kept * outcomes.probabilities
        noise = np.broadcast_to(self.variance * kept, chance.shape)
        slopes = outcomes.by_gap, outcomes.by_tie
        return sums(curving, *slopes), sums(chance, *slopes), sums(noise, *slopes)

    def of_scores(self, values: Floats) -> tuple[Floats, Floats, Floats]:
        """`moments` of the scores alone, t being found with them; each of shape (n, n)."""
        curvature, chance, noise = self.moments(values)
        _, stiff = self.penalty(values)
        rest = curvature[:-1, -1:] / (curvature[-1, -1] + stiff[-1])
        found = curvature[:-1, :-1] - rest @ curvature[-1:, :-1]
        without = np.hstack([np.eye(len(rest)), -rest])
        return found, without @ chance @ without.T, without @ noise @ without.T

    def tie_variance(self, values: Floats) -> float:
        """Variance of t, without its penalty."""
        curvature, chance, noise = self.moments(values)
        _, stiff = self.penalty(values)
        n = self.pairs.n_items
        among = curvature[:n, :n] + np.diag(stiff[:n])
        weight = np.append(-np.linalg.solve(among, curvature[:n, -1]), 1.0)
        known = float(curvature[-1] @ weight)
        return float(weight @ (chance + noise) @ weight) / known**2 if known > 0 else math.inf

    def solve(self) -> Floats:
        """Find where the objective's gradient vanishes: scores and t, shape (n + 1,).

        Raises:
            ConvergenceError: no such point was reached.
        """
        at = np.append(np.zeros(self.pairs.n_items), TIE_CENTRE)
        loss, gradient = self.loss_and_gradient(at)
        for _ in range(MOST_STEPS):
            off, stiff = self.penalty(at)
            uphill = gradient - stiff * off
            step = np.linalg.solve(self.moments(at)[0] + np.diag(stiff), uphill)
            if np.abs(step).max() <= TOLERANCE or uphill @ step <= ROUNDING * abs(loss):
                return at
            step *= LONGEST_STEP / max(LONGEST_STEP, float(np.abs(step).max()))
            for halvings in range(MOST_HALVINGS):
                there = at + step / 2**halvings
                loss_there, gradient_there = self.loss_and_gradient(there)
                if loss_there <= loss - SUFFICIENT * float(uphill @ step) / 2**halvings:
                    break
            else:
                return at  # the rest is rounding
            at, loss, gradient = there, loss_there, gradient_there
        raise ConvergenceError(f"the fit of the noisy counts took more than {MOST_STEPS} steps")

    def evidence(self, scores: Floats, tie: float) -> Evidence:
        """Return the counts' evidence near some scores, with t held."""
        values = np.append(scores, tie)
        curvature, chance, noise = self.of_scores(values)
        _, gradient = self.loss_and_gradient(values)
        weight = curvature @ np.linalg.pinv(chance + noise, hermitian=True)
        return Evidence(weight @ curvature, weight @ gradient[:-1])


def by_pairs(counts: Floats, variance: float, model: TieModel, n_items: int) -> TiesByPairs:
    """The objective of noisy counts, with the pairs and the ridge that promise the smaller errors.

    Args:
        counts: counts in comparisons, shape (3, pairs).
        variance: v.
        model: model of ties.
        n_items: n.
    """
    totals, pairs = np.asarray(counts.sum(axis=0)), Pairs.of(n_items)
    ways = [Used(np.ones(len(totals)), counts)]
    if variance > 0:
        ways.append(_clear(counts, totals, variance))
    found = [TiesByPairs(pairs, totals, used, variance, model) for used in ways]
    found = [replace(each, ridge=_ridge_of(each)) for each in found]
    return min(found, key=_error)


def _clear(counts: Floats, totals: Floats, variance: float) -> Used:
    """The pairs that are clear of their noise."""
    deviation = math.sqrt(3 * variance)
    kept = np.clip((totals / deviation - CLEAR_PAIR) / (WHOLE_TOTAL - CLEAR_PAIR), 0, 1)
    slope = ((kept > 0) & (kept < 1)) / ((WHOLE_TOTAL - CLEAR_PAIR) * deviation)
    return Used(kept, counts * kept - variance * slope)


def _error(objective: TiesByPairs) -> float:
    """Sum of the variances of all scores, if they were alike."""

    def moments_at(scores: Floats) -> tuple[Floats, Floats]:
        curvature, chance, noise = objective.of_scores(np.append(scores, TIE_CENTRE))
        return curvature, chance + noise

    scores = np.zeros(objective.pairs.n_items)
    covariance = sandwich(scores, 2 * objective.ridge, moments_at).covariance
    return float(np.trace(np.asarray(covariance)))


def _ridge_of(objective: TiesByPairs) -> float:
    """c, of an item's mean information and of the mean noise in its gradient at equal scores."""
    values = np.append(np.zeros(objective.pairs.n_items), TIE_CENTRE)
    curvature, chance, noise = (np.trace(each) for each in objective.of_scores(values))
    if curvature <= 0:
        return RIDGE
    return max(RIDGE, (1 + float((chance + noise - curvature) / curvature)) / 2)
