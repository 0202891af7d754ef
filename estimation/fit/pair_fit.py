"""Scores from privatised answers: adaptive debiased randomised response and its baselines.

With S and W of `weighted_pairs` and d_ij = score_i - score_j, minimises over the scores

    -sum_{i<j} [S_ij log F(d_ij) + (W_ij - S_ij) log F(-d_ij)] + c |scores|^2

([XSC] eq. 5, multiplied by G; its lambda of order c / G is then the constant c). Noise may put S
outside [0, W]. The logistic objective is convex all the same, since S enters it linearly; for
other links it is so with high probability only ([XSC] Lemma 4), so a trust-region method is used,
and the state of the Hessian at the end is part of the result.

`debiased-rr` fits `weighted_sums`; the baselines `classic-rr` and `laplace-rr` fit `counted_sums`
and `laplace_sums` by the same code, and `rr-counts` ranks by `win_totals`.

The ridge draws scores to zero by A^-1 2c scores, to first order, with A the expected Hessian of the
likelihood. Intervals are around `unshrunk`, from which that is taken off, but for what a tenth of
the ridge would do: where the likelihood knows next to nothing of a direction, a correction would be
all noise. What that tenth may pull is part of the covariance. Both moments are taken at the
unshrunk scores, further out and flatter: at the scores, errors of the best and the worst items
would seem smaller than they are.

Of many items S and W are sparse, and so is all that is done with them: see `simulated_errors`.

Errors of the scores of many items, whose covariance matrix would not fit: by simulation.

The errors of a fit are H^-1 z, where H is the Laplacian A of its pairs plus a ridge and z has a
covariance that is known (see `pair_fit`). Its part from the pairs is the Laplacian of a graph, so a
draw of z costs one coin a pair: its sign times the root of the pair's weight, along the pair. The
system is sparse, and solved by conjugate
gradients. `DRAWS` of them give the variance of each score without bias, at a relative error of
sqrt(2 / DRAWS); quantiles of Student's t with as many degrees of freedom allow for it. Memory is
linear in the pairs that met. How well items are connected counts in full: a score that hangs on one
pair has the error of that pair, and those behind it.

The coins are no secret and no guarantee rests on them. They follow from a fixed seed, so that one
release has the same intervals however often it is estimated.

References:
    [XSC] Xu, Sun, Cheng. Rate-optimal rank aggregation with private pairwise rankings.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit

from hushrank.estimation.common.estimate import Estimate, estimate_of
from hushrank.estimation.common.links import Floats, Link, laplacian, score_differences
from hushrank.estimation.common.pair_separation import (
    ScoreErrors,
    difference_variance,
    separate_intervals,
    separate_pairs,
)
from hushrank.estimation.common.uncertainty import LEVEL, EndsAt, RankSeparation
from hushrank.estimation.fit.likelihood import Objective, Weights
from hushrank.estimation.fit.solve import (
    ConvergenceError,
    Solution,
    minimise,
    minimise_nonconvex,
    smallest_curvature,
)
from hushrank.estimation.fit.weighted_pairs import WeightedPairs
from hushrank.privacy.randomness import RandomBits, seeded_bits

DRAWS = 100
SEED = 0  # seed of the coins
TOLERANCE = 1e-6  # tolerance of a residual, relative to z
MOST_STEPS = 20_000  # steps of conjugate gradients


@dataclass(frozen=True, slots=True)
class SimulatedVariances:
    """Variances of the errors of n scores.

    Attributes:
        of_scores: shape (n,).
        draws: simulated errors of which each is the mean square.
    """

    of_scores: Floats
    draws: int

    def reach(self, tail: float) -> Floats:
        """Value that each error exceeds with chance `tail`, shape (n,)."""
        return np.asarray(-stdtrit(self.draws, tail) * np.sqrt(self.of_scores))


@dataclass(frozen=True, slots=True)
class Edges:
    """Pairs of n items, each once.

    Attributes:
        low, high: shape (m,), the two items of each pair.
        n_items: n.
    """

    low: NDArray[np.int32]
    high: NDArray[np.int32]
    n_items: int

    @classmethod
    def of(cls, pairs: scipy.sparse.csr_array) -> Edges:
        """The pairs that a matrix stores, row by row."""
        n_items = int(pairs.shape[0])
        low = np.repeat(np.arange(n_items, dtype=np.int32), np.diff(pairs.indptr))
        return cls(low, pairs.indices.astype(np.int32), n_items)

    def differences(self, scores: Floats) -> Floats:
        """Score of `low` less that of `high`, shape (m,)."""
        return np.asarray(scores[self.low] - scores[self.high])

    def sums(self, values: Floats) -> Floats:
        """Sum of the values of each item's pairs, shape (n,): the diagonal of their Laplacian."""
        of_low = np.bincount(self.low, values, self.n_items)
        return np.asarray(of_low + np.bincount(self.high, values, self.n_items))

    def along(self, values: Floats) -> Floats:
        """Sum over pairs of the value times (e_low - e_high), shape (n,)."""
        of_low = np.bincount(self.low, values, self.n_items)
        return np.asarray(of_low - np.bincount(self.high, values, self.n_items))

    def laplacian(self, weights: Floats, diagonal: float) -> scipy.sparse.csr_array:
        """Laplacian of these weights plus `diagonal` times the identity, shape (n, n)."""
        ends = (np.concatenate([self.low, self.high]), np.concatenate([self.high, self.low]))
        shape = (self.n_items, self.n_items)
        off = scipy.sparse.csr_array((np.concatenate([weights, weights]), ends), shape=shape)
        return scipy.sparse.csr_array(scipy.sparse.diags_array(self.sums(weights) + diagonal) - off)


@dataclass(frozen=True, slots=True)
class EdgeSystem:
    """H, the Laplacian A of weights on edges plus a ridge: what it takes to solve by it.

    Attributes:
        edges: the pairs that met.
        matrix: shape (n, n).
    """

    edges: Edges
    matrix: scipy.sparse.csr_array

    @classmethod
    def of(cls, edges: Edges, weights: Floats, ridge: float) -> EdgeSystem:
        """Build the system of weights of shape (m,), at least 0, and a ridge > 0."""
        return cls(edges, edges.laplacian(weights, ridge))

    def solve(self, z: Floats) -> Floats:
        """H^-1 z, shape (n,).

        Raises:
            ConvergenceError: the system could not be solved.
        """
        preconditioner = scipy.sparse.diags_array(1 / self.matrix.diagonal())
        found, failed = scipy.sparse.linalg.cg(
            self.matrix, z, rtol=TOLERANCE, maxiter=MOST_STEPS, M=preconditioner
        )
        if failed:
            raise ConvergenceError(
                "the errors of the scores could not be found: items hang together too loosely for"
                " this ridge; a larger one helps"
            )
        return np.asarray(found)


def simulated_variances(system: EdgeSystem, noise: Floats, pull: float) -> SimulatedVariances:
    """Diagonal of H^-1 (B + pull (1 - 1/n)) H^-1, by simulation.

    Args:
        system: H.
        noise: shape (m,), at least 0: weights of the Laplacian B.
        pull: variance of what the ridge adds to the gradient of each score.

    Raises:
        ConvergenceError: a system could not be solved.
    """
    edges, root, bits = system.edges, np.sqrt(noise), seeded_bits(SEED)
    squares = np.zeros(edges.n_items)
    for _ in range(DRAWS):
        own = np.sqrt(pull) * _signs(edges.n_items, bits)
        z = edges.along(root * _signs(len(root), bits)) + own - own.mean()
        squares += system.solve(z) ** 2
    return SimulatedVariances(squares / DRAWS, DRAWS)


def _signs(count: int, bits: RandomBits) -> Floats:
    """Fair coins, +1 or -1."""
    coins = np.unpackbits(np.frombuffer(bits.take(-(-count // 8)), np.uint8), count=count)
    return np.asarray(2.0 * coins.astype(np.float64) - 1.0)


OpenAt = Callable[[float], tuple[NDArray[np.bool_], NDArray[np.bool_]]]  # see `estimate_from`
QuantileAt = Callable[[float], float]  # tail chance to an error's quantile, in standard errors
RIDGE = 1.0  # c
KEPT = 0.1  # part of the ridge that stays in `unshrunk`
LEAST_KNOWN = 2.0  # times the ridge's curvature: below it, a score is mostly the ridge's
UNKNOWN = 1e6  # variance of a score, a square of log odds, that stands for no knowledge at all


@dataclass(frozen=True, slots=True, kw_only=True)
class ShrunkScores:
    """Scores of n items that a ridge drew to zero, and how far they may be off.

    Attributes:
        scores: shape (n,); higher is better; they sum to zero.
        unshrunk: shape (n,), scores without what the ridge pulls, but for a tenth of it; they sum
            to zero.
        covariance: shape (n, n), of the errors of `unshrunk`: sampling error, privacy noise, and
            what is left of the pull; of many items their variances alone.
        information: shape (n,), expected curvature of the likelihood in each item's score.
        ridge: c.
    """

    scores: Floats
    unshrunk: Floats
    covariance: Floats | SimulatedVariances
    information: Floats
    ridge: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DebiasedFit(ShrunkScores):
    """Scores of n items from privatised answers.

    Attributes:
        link: name of F.
        loss: minus the weighted log-likelihood at the scores, without the ridge.
        gradient_norm: norm of the objective's gradient at the scores.
        smallest_curvature: smallest eigenvalue of the objective's Hessian at the scores, on the
            scores that sum to zero; the fit is a minimum only where it is above zero. Of many items
            whose objective is convex, the ridge's 2c, below which it cannot be.
    """

    link: str
    loss: float
    gradient_norm: float
    smallest_curvature: float

    @property
    def is_minimum(self) -> bool:
        """The Hessian is positive definite on the scores that sum to zero."""
        return self.smallest_curvature > 0


class SumsVariance(Protocol):
    """Variance of the sums S."""

    def of_sums(self, weights: Floats, win_chance: Floats) -> Floats:
        """Variance of each S, in the shape of its weight W and its chance F."""
        ...


@dataclass(frozen=True, slots=True)
class AnswerVariance:
    """Variance of the sums: S_ij has at most W_ij (1/4 - least_weight (F - 1/2)^2 + extra).

    [XSC] Lemma 2: the term of an answer has variance t^2/4 - t^4 (F - 1/2)^2, and sum t^4 is at
    least the smallest t^2 times W.

    Attributes:
        least_weight: a public lower bound on every answer's t^2. 0 is always right; with one
            epsilon for all, tanh(epsilon / 2)^2 makes the variance exact; 1 for counts.
        extra: variance of noise that was added to each answer: 2 / epsilon^2 for `laplace-rr`.
    """

    least_weight: float = 0.0
    extra: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.least_weight <= 1:
            raise ValueError(f"least_weight must be between 0 and 1, got {self.least_weight!r}")
        if not (math.isfinite(self.extra) and self.extra >= 0):
            raise ValueError(f"extra must be finite and >= 0, got {self.extra!r}")

    def of_sums(self, weights: Floats, win_chance: Floats) -> Floats:
        """Variance of each S, in the shape of `weights` and `win_chance`."""
        per_weight = 0.25 - self.least_weight * (win_chance - 0.5) ** 2 + self.extra
        return np.asarray(weights * per_weight)


def fit_scores(
    pairs: WeightedPairs, link: Link, variance: SumsVariance, ridge: float = RIDGE
) -> DebiasedFit:
    """Fit scores to sums of privatised answers; all of it is post-processing of the sums.

    Args:
        pairs: sums over at least 2 items.
        link: F.
        variance: variance of the sums.
        ridge: c, finite and > 0: it also carries items that nobody compared.

    Returns:
        The fit; look at `is_minimum` when the link is not logistic.

    Raises:
        ValueError: fewer than 2 items, or a bad ridge.
        ConvergenceError: no stationary point was reached.
    """
    require_fittable(pairs.n_items, ridge)
    return fit_sums(*pairs.pair_values(), link, variance, ridge)


def fit_sums(
    s: Weights, w: Weights, link: Link, variance: SumsVariance, ridge: float
) -> DebiasedFit:
    """Fit scores to S and W as real numbers.

    Args:
        s, w: shape (n, n), strictly upper triangle, both dense, or both CSR with the same places; w
            is at least 0.
        link: F.
        variance: variance of the entries of s.
        ridge: c, finite and > 0.

    Raises:
        ConvergenceError: no stationary point was reached.
    """
    objective = _objective(s, w, link, ridge)
    # A pair's curvature then holds W only, which noise does not touch: convex.
    convex = link.outcome_free_curvature
    solution = minimise(objective) if convex else minimise_nonconvex(objective)
    if isinstance(w, scipy.sparse.csr_array):
        return _fit_of_many(w, objective, solution, variance)

    def moments_at(scores: Floats) -> tuple[Floats, Floats]:
        information, noise = _moments(w, score_differences(scores), link, variance)
        return laplacian(information + information.T), laplacian(noise + noise.T)

    return sandwich_fit(objective, solution, moments_at)


MomentsAt = Callable[[Floats], tuple[Floats, Floats]]  # A and B at scores, each of shape (n, n)


def sandwich_fit(objective: Objective, solution: Solution, moments_at: MomentsAt) -> DebiasedFit:
    """The fit that ended at a stationary point of `objective`, with the errors of `sandwich`."""
    found = sandwich(solution.theta, objective.ridge, moments_at)
    smallest = smallest_curvature(objective, solution.theta)
    return _fit(objective, solution, found.unshrunk, found.covariance, found.information, smallest)


def sandwich(scores: Floats, ridge: float, moments_at: MomentsAt) -> ShrunkScores:
    """Scores without the ridge's pull, and their errors H^-1 (B + pull) H^-1 with H = A + 2c / 10.

    Args:
        scores: a stationary point, shape (n,).
        ridge: 2c.
        moments_at: A, expected Hessian of the likelihood without the ridge, and B, covariance of
            its gradient.
    """
    n = len(scores)
    curvature, _ = moments_at(scores)
    curvature, noise = moments_at(scores + _taken_off(curvature, ridge, scores))
    unshrunk = scores + _taken_off(curvature, ridge, scores)
    stiff = curvature + KEPT * ridge * np.eye(n)
    pull = _pull(unshrunk, ridge) * (np.eye(n) - 1 / n)
    pull = pull + (KEPT * ridge) ** 2 * np.outer(unshrunk, unshrunk)
    half = scipy.linalg.solve(stiff, noise + pull, assume_a="pos")
    covariance = np.asarray(scipy.linalg.solve(stiff, half.T, assume_a="pos"))
    return ShrunkScores(
        scores=scores,
        unshrunk=unshrunk,
        covariance=covariance + unknown_covariance(curvature, KEPT * ridge),
        information=np.diagonal(curvature).copy(),
        ridge=ridge / 2,
    )


def unknown_covariance(curvature: Floats, ridge: float) -> Floats:
    """Covariance, shape (n, n), of what the comparisons do not tell and the ridge alone decides.

    Where items fall into groups that never meet, or hardly ever, the curvature is about zero along
    the direction that moves one group against another. Scores in that direction are the ridge's,
    so they get the variance `UNKNOWN` times n. Differences within a group stay as well known as
    before: the items of a group move together.

    Args:
        curvature: expected Hessian of the likelihood, without the ridge.
        ridge: curvature of the ridge that is left in the scores.
    """
    covariance = np.zeros_like(curvature)
    met = np.flatnonzero(np.diagonal(curvature) > LEAST_KNOWN * ridge)  # others are open anyway
    if not len(met):
        return covariance
    among = curvature[np.ix_(met, met)]
    # The constant vector is not unknown, as scores sum to zero: it gets the mean curvature.
    whole = among + np.trace(among) / len(met) ** 2
    _, weak = scipy.linalg.eigh(whole, subset_by_value=(-np.inf, LEAST_KNOWN * ridge))
    covariance[np.ix_(met, met)] = UNKNOWN * len(met) * weak @ weak.T
    return covariance


def _taken_off(curvature: Floats, ridge: float, scores: Floats) -> Floats:
    """Shift of the scores by the ridge 2c, but for a tenth of it; shape (n,)."""
    stiff = curvature + KEPT * ridge * np.eye(len(scores))
    found = (1 - KEPT) * ridge * scipy.linalg.solve(stiff, scores, assume_a="pos")
    return np.asarray(found - found.mean())


def _fit_of_many(
    weights: scipy.sparse.csr_array,
    objective: Objective,
    solution: Solution,
    variance: SumsVariance,
) -> DebiasedFit:
    """The fit of sparse weights, with variances alone."""
    scores, link = solution.theta, objective.link
    edges, ridge = Edges.of(weights), objective.ridge

    def at(place: Floats) -> tuple[Floats, Floats, EdgeSystem]:
        moments = _moments(weights.data, edges.differences(place), link, variance)
        return *moments, EdgeSystem.of(edges, moments[0], KEPT * ridge)

    def without_pull(system: EdgeSystem) -> Floats:
        pulled = (1 - KEPT) * ridge * system.solve(scores)
        return np.asarray(scores + pulled - pulled.mean())

    *_, rough = at(scores)
    information, noise, system = at(without_pull(rough))
    unshrunk = without_pull(system)
    variances = simulated_variances(system, noise, _pull(unshrunk, ridge))
    convex = link.outcome_free_curvature
    smallest = ridge if convex else smallest_curvature(objective, scores)
    return _fit(objective, solution, unshrunk, variances, edges.sums(information), smallest)


def _fit(
    objective: Objective,
    solution: Solution,
    unshrunk: Floats,
    covariance: Floats | SimulatedVariances,
    information: Floats,
    smallest: float,
) -> DebiasedFit:
    scores, ridge = solution.theta, objective.ridge / 2
    return DebiasedFit(
        link=objective.link.name,
        scores=scores,
        unshrunk=unshrunk,
        covariance=covariance,
        information=information,
        ridge=ridge,
        loss=objective.value(scores) - ridge * float(scores @ scores),
        gradient_norm=solution.gradient_norm,
        smallest_curvature=smallest,
    )


def require_fittable(n_items: int, ridge: float) -> None:
    """Refuse a fit that would rank nothing, or whose ridge would not carry an item without answers.

    Raises:
        ValueError: fewer than 2 items, or a ridge that is not finite and > 0.
    """
    if n_items < 2:
        raise ValueError(f"a ranking needs at least 2 items, got {n_items}")
    if not (math.isfinite(ridge) and ridge > 0):
        raise ValueError(f"ridge must be finite and > 0, got {ridge!r}")


def normal_quantile(tail: float) -> float:
    """Value that a normal error exceeds with chance `tail`, in standard errors."""
    return -float(ndtri(tail))


def estimate_from(
    fit: ShrunkScores,
    quantile_at: QuantileAt = normal_quantile,
    open_at: OpenAt | None = None,
) -> Estimate:
    """Scores with 95 % intervals, rank intervals and groups.

    Intervals are around the unshrunk scores, and stretched where they would not hold the scores.

    An item of which the likelihood knows less than the ridge, by a factor, has a score that is
    mostly the ridge's: its interval is infinite and its rank open. So is the interval where the
    comparisons do not join the item to the others, but it may be better than items that it met.

    Args:
        fit: the scores and their covariance.
        quantile_at: what an error exceeds with a chance, in standard errors; errors whose
            covariance was simulated go by the law that was simulated.
        open_at: items whose interval has no lower end, and no upper end, at a tail chance.
    """
    known = fit.information > LEAST_KNOWN * 2 * fit.ridge
    bounded, covariance = known, fit.covariance
    if not isinstance(covariance, SimulatedVariances):
        variances = np.diagonal(covariance)
        known = known & (variances > 0)  # noise beyond all measure rounds to below
        bounded = known & (variances < UNKNOWN / 100)

    def ends_at(tail: float) -> tuple[Floats, Floats]:
        half_width = np.where(bounded, _reach(covariance, tail, quantile_at), np.inf)
        low, high = fit.unshrunk - half_width, fit.unshrunk + half_width
        if open_at is not None:
            lowest, highest = open_at(tail)
            low, high = np.where(lowest, -np.inf, low), np.where(highest, np.inf, high)
        return np.minimum(low, fit.scores), np.maximum(high, fit.scores)

    return estimate_of(
        fit.scores,
        *ends_at(LEVEL / 2),
        _separation(fit, known, ends_at, quantile_at),
        informative=bool(known.any()),
        errors=ScoreErrors(
            fit.unshrunk,
            covariance.of_scores if isinstance(covariance, SimulatedVariances) else covariance,
        ),
    )


def _reach(covariance: Floats | SimulatedVariances, tail: float, quantile_at: QuantileAt) -> Floats:
    """Value that each score's error exceeds with chance `tail`, shape (n,)."""
    if isinstance(covariance, SimulatedVariances):
        return covariance.reach(tail)
    return np.asarray(quantile_at(tail) * np.sqrt(np.maximum(np.diagonal(covariance), 0)))


def _separation(
    fit: ShrunkScores, known: NDArray[np.bool_], ends_at: EndsAt, quantile_at: QuantileAt
) -> RankSeparation:
    """Separate ranks by differences of scores, or for many items by intervals that lie apart."""
    covariance = fit.covariance
    if isinstance(covariance, SimulatedVariances):
        return separate_intervals(fit.scores, ends_at)
    spread = np.sqrt(difference_variance(covariance))
    spread[~(known[:, np.newaxis] & known)] = np.inf

    def better_at(tail: float) -> NDArray[np.bool_]:
        sure = score_differences(fit.unshrunk) > quantile_at(tail) * spread
        return np.asarray(sure & (score_differences(fit.scores) > 0))

    return separate_pairs(fit.scores, better_at, ends_at, covariance)


def win_totals(pairs: WeightedPairs) -> Floats:
    """Wins of each item over all its pairs, shape (n,): `rr-counts` ranks by them."""
    s, w = pairs.pair_values()
    return np.asarray(s.sum(axis=1) + (w - s).sum(axis=0))


def objective_of(pairs: WeightedPairs, link: Link, ridge: float) -> Objective:
    """The objective above: i has won S_ij against j, and j W_ij - S_ij against i."""
    return _objective(*pairs.pair_values(), link, ridge)


def _objective(s: Weights, w: Weights, link: Link, ridge: float) -> Objective:
    whole = s + (w - s).T
    weights = (
        scipy.sparse.csr_array(whole)
        if isinstance(w, scipy.sparse.csr_array)
        else np.asarray(whole)
    )
    return Objective(weights, link, 2 * ridge, np.zeros(w.shape[0]))


def _moments(
    weights: Floats, d: Floats, link: Link, variance: SumsVariance
) -> tuple[Floats, Floats]:
    """Moments of each pair: weight in A, the expected Hessian, and in B, the gradient's covariance.

    S_ij moves the gradient by -(slope(d) + slope(-d)) along e_i - e_j, so B is the Laplacian of
    those squares times Var S_ij. In expectation S = W F, and the curvature of a pair is W times
    the information F'^2 / (F (1 - F)): never negative, unlike the observed one.
    """
    noise = variance.of_sums(weights, link.cdf(d)) * (link.slope(d) + link.slope(-d)) ** 2
    return np.asarray(weights * link.information(d)), np.asarray(noise)


def _pull(scores: Floats, ridge: float) -> float:
    """Variance of what is left of the ridge's pull, 2c / 10 times the true score.

    True scores are taken to be as large as the largest one here, of any sign, and at least as the
    ridge expects them, 1 / (2c).

    Args:
        scores: unshrunk.
        ridge: 2c.
    """
    return (KEPT * ridge) ** 2 * max(float(np.square(scores).max()), 1 / ridge)
