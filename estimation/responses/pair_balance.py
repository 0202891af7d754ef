"""Difficulties that balance the counts of each item's pairs, without clipping a noisy count.

Of people right on exactly one of two items i, j, a share p_ij = 1 / (1 + exp(s_j - s_i)) is wrong
on i, whatever their abilities. So at the true difficulties s the balance

    u_i(s) = sum over j of w_ij [Y_ji (1 - p_ij) - Y_ij p_ij]

is zero in expectation. It is the balance pi_i Y_ij = pi_j Y_ji of the chain of [NZ], pi = exp(s),
with the pairs weighted otherwise: the solution is the stationary distribution of a chain with rates
w_ij Y_ij / (pi_i + pi_j) ([MG15] Section 3). A chain needs counts of at least 0, and raising those
that noise made negative draws difficulties together without end. Here counts enter as they are: u
is linear in them, so noise of mean zero leaves it unbiased, and what sums over many pairs show is
used even where each single count is mostly noise.

    weights     w_ij = T / (T + 2 v), T what Y_ij + Y_ji is expected to be, v the noise's variance:
                pairs of items that are seldom answered bring little but noise
    ridge       u(s) = k s, with k the variance of u over its slope: scores are then drawn to 0 as
                far as noise makes them wander, and more where they lie nearer to 0 than sd 1
    intervals   around where u itself is zero: s + k M^+ s, M the Laplacian of w T p (1 - p), with
                covariance M^+ Cov(u) M^+. Far ends are mapped back through the item's own curve,
                sum of w T p, as in `mle_uncertainty`: where the curve ends, so does what is known.

How many people were right on exactly one of two items, as far as noisy counts tell.

T_ij = Y_ij + Y_ji of a pair is as noisy as its counts, and of many items mostly noise. What it is
expected to be follows from sums over many pairs:

    T_ij = h_i h_j exp(-c s_i s_j),

h_i how often item i was answered, by whoever may answer it, and s the difficulties. The last factor
is there because two hard items, or two easy ones, are seldom answered differently, and a hard and
an easy one often. What T shows beyond that pattern is kept as far as it stands clear of the noise
(a relative spread common to all pairs, [M83]), so without noise T stays as it is.

Where the test has booklets the pattern is multiplied by how often the two items were asked of one
person, in proportion: how many people had a booklet with both. Those numbers are fitted to sums of
T over each booklet's pairs, so nobody has to know who had which booklet.

References:
    [NZ] Nguyen, Zhang. Optimal and private learning from human response data. 2023.
    [MG15] Maystre, Grossglauser. Fast and accurate inference of Plackett-Luce models. 2015.
    [M83] Morris. Parametric empirical Bayes inference. 1983.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy.special import expit

from hushrank.estimation.common.links import LOGISTIC, Floats, laplacian, score_differences
from hushrank.estimation.common.uncertainty import scores_of_net_wins
from hushrank.estimation.fit.likelihood import Objective
from hushrank.estimation.fit.solve import ConvergenceError, minimise_nonconvex
from hushrank.estimation.responses.item_graph import ItemGraph

LEAST_SHARE = 0.02  # of the mean item's sum that any item is taken to have
STEPS = 5  # of the fit of c; each is Gauss-Newton's
SCALINGS = 30  # of the fit of h
LARGEST_C = 1.0
LEAST_REST = 1e-9  # of the sums, of items that are answered by not all
LARGEST_EXPONENT = 3.0
CLEAR = 5.0  # standard deviations by which a sum of squares must exceed that of noise
SMALLEST = float(np.finfo(float).tiny)  # of a sum that something is divided by


def expected_totals(
    totals: Floats,
    mask: Floats,
    variance: float,
    scores: Floats,
    asked: Floats | None = None,
) -> Floats:
    """T of the module's text for all pairs, at least 0; off the graph the pattern alone.

    Args:
        totals: shape (m, m), symmetric, Y + its transpose, noisy and of any sign.
        mask: shape (m, m), 1 on the edges of the graph, else 0.
        variance: of the noise in one entry of Y.
        scores: shape (m,), difficulties as far as they are known; zeros where nothing is.
        asked: shape (m, m), how often two items were asked of one person, in proportion; None: all
            pairs alike.

    Returns:
        Symmetric, shape (m, m), zero diagonal.
    """
    everywhere = _fitted_pattern(totals, mask, variance, scores, asked)
    beyond = mask * (totals - everywhere)
    kept = _kept(beyond, mask * everywhere, mask, variance)
    return np.asarray(np.maximum(everywhere + kept * beyond, 0))


def uneven_share(totals: Floats, mask: Floats, variance: float, scores: Floats) -> float:
    """Relative spread of T around its pattern, if it stands clear of the noise; else 0.

    It is near 0 where all items are asked of everybody, or gaps come by chance, and near 1 or above
    where people have booklets: most pairs are then never answered by one person.

    Args:
        totals, mask, variance, scores: as for `expected_totals`.
    """
    pattern = mask * _fitted_pattern(totals, mask, variance, scores, None)
    n_pairs, noise = float(mask.sum()) / 2, 2 * variance
    excess = float(np.square(mask * totals - pattern).sum()) / 2 - noise * n_pairs
    if excess <= CLEAR * noise * np.sqrt(2 * n_pairs):
        return 0.0
    return float(np.sqrt(2 * excess / max(float(np.square(pattern).sum()), SMALLEST)))


def _fitted_pattern(
    totals: Floats, mask: Floats, variance: float, scores: Floats, asked: Floats | None
) -> Floats:
    asked = np.ones_like(mask) if asked is None else asked
    sums, product = _item_sums(totals, mask, variance, asked), np.outer(scores, scores)
    c, everywhere = 0.0, _pattern(sums, mask, product, 0.0, asked)
    for _ in range(STEPS if scores.any() else 0):
        pattern = mask * everywhere
        slope = _without_item_effects(pattern * product, pattern)
        size = float((slope * slope).sum())
        if size == 0:
            break
        c = float(np.clip(c - (slope * (totals - pattern)).sum() / size, 0, LARGEST_C))
        everywhere = _pattern(sums, mask, product, c, asked)
    return everywhere


def third_answer_shares(totals: Floats, max_answers: int) -> Floats:
    """Share of the people who answered two items that also answered a third one, by the third one.

    Shape (m,); 1 where everybody answers everything. Else items are taken to be answered in
    proportion to their sums of `totals`, and everybody to answer `max_answers` of them.
    """
    n_items = len(totals)
    if max_answers >= n_items:
        return np.ones(n_items)
    sums = totals.sum(axis=1)
    if not sums.any():
        sums = np.ones(n_items)
    often = sums / sums.sum() * n_items
    wanted = (max_answers - 2) * n_items / (n_items - 2)
    # min(1, factor * often) sums to `wanted`: items from some place on are answered by all.
    ordered = -np.sort(-often)
    rest = ordered.sum() - np.concatenate([[0.0], np.cumsum(ordered)[:-1]])
    factors = (wanted - np.arange(n_items)) / np.maximum(rest, LEAST_REST)
    factor = factors[np.argmax(factors * ordered <= 1)]
    return np.asarray(np.clip(factor * often, 0, 1))


def booklet_shares(totals: Floats, variance: float, members: Floats) -> Floats:
    """How many people had each booklet, in proportion; shape (booklets,), at least 0, mean 1.

    Args:
        totals: shape (m, m), symmetric, Y + its transpose, noisy and of any sign.
        variance: of the noise in one entry of Y.
        members: shape (booklets, m), 1 where an item is in a booklet, else 0.
    """
    size = members.sum(axis=1)
    overlap = members @ members.T
    together = overlap * (overlap - 1)  # entries of one booklet that another has, too
    sums = np.einsum("bi,ij,bj->b", members, totals, members, optimize=True)
    even = np.ones(len(size)) * sums.sum() / max(float(together.sum()), SMALLEST)
    if (even <= 0).any():
        return np.ones(len(size))
    found, _ = scipy.optimize.nnls(together, sums)
    # Drawn to equal numbers as far as noise explains how they differ.
    inverse = np.linalg.pinv(together)
    of_noise = 4 * variance * float(np.trace(inverse))  # the sums' covariance is 4 v `together`
    kept = _clear_share(float(np.square(found - even).sum()), of_noise)
    shares = even + kept * (found - even)
    return np.asarray(shares / shares.mean())


def _item_sums(totals: Floats, mask: Floats, variance: float, asked: Floats) -> Floats:
    """Sums over each item's pairs, drawn to what is asked as far as noise explains the rest."""
    n_pairs, times = mask.sum(axis=1), (mask * asked).sum(axis=1)
    even = totals.sum() / times.sum() * times
    apart = totals.sum(axis=1) - even
    kept = _clear_share(float(np.square(apart).sum()), 2 * variance * float(n_pairs.sum()))
    return np.asarray(np.maximum(even + kept * apart, LEAST_SHARE * np.maximum(even, 0)))


def _kept(beyond: Floats, pattern: Floats, mask: Floats, variance: float) -> Floats | float:
    """Share of what lies beyond the pattern that is kept, pair by pair.

    True totals lie off the pattern by a relative spread that all pairs have in common. So a pair of
    items that are seldom answered, whose noise may be far above the pattern, is not given it.
    """
    if variance == 0:
        return 1.0
    squares, noise = np.square(pattern), 2 * variance
    excess = float(np.square(beyond).sum()) - noise * float(mask.sum())
    spread = max(0.0, excess) / (float(squares.sum()) or 1.0)
    return np.asarray(spread * squares / (spread * squares + noise))


def _clear_share(squares: float, of_noise: float) -> float:
    return max(0.0, 1 - of_noise / squares) if squares > 0 else 0.0


def _pattern(sums: Floats, mask: Floats, product: Floats, c: float, asked: Floats) -> Floats:
    """The pattern of all pairs, with these sums over each item's pairs on the graph.

    An item's sum is lowered to that of its neighbours, where only noise can have made it larger: no
    pattern has such sums, and h would grow without end.
    """
    sums = np.minimum(sums, mask @ sums)
    everywhere = asked * np.exp(-np.clip(c * product, -LARGEST_EXPONENT, LARGEST_EXPONENT))
    np.fill_diagonal(everywhere, 0)
    factor = mask * everywhere
    h = np.sqrt(np.maximum(sums, SMALLEST))
    for _ in range(SCALINGS):
        h = np.sqrt(h * sums / np.maximum(factor @ h, SMALLEST))
    return np.asarray(everywhere * np.outer(h, h))


def _without_item_effects(values: Floats, weights: Floats) -> Floats:
    """Less what h could take up: the weighted means of rows and columns."""
    sums = np.maximum(weights.sum(axis=1), SMALLEST)
    row = values.sum(axis=1) / sums
    return np.asarray(values - weights * (row[:, np.newaxis] + row - values.sum() / sums.sum()))


PRIOR_SPREAD = 1.0  # of difficulties, at most
LEAST_SPREAD = 0.2
LEAST_SLOPE = 0.1  # of the balances' standard deviation: where the totals are all noise
LONGEST_STEP = 3.0  # from a score to the one without ridge; the intervals go on from there
STIFFER = 4.0  # times the ridge where the balance has no zero
MOST_STIFFENINGS = 20
LOOSE = 1e-7  # of the ridge: holds sets of items together that nothing connects


@dataclass(frozen=True, slots=True)
class PairState:
    """The released counts, and what they are expected to be at some difficulties.

    Attributes:
        y: shape (m, m), released counts of any sign.
        weights: w, shape (m, m), symmetric, 0 off the graph.
        totals: T, shape (m, m), symmetric, at least 0.
        scores: s, shape (m,).
    """

    y: Floats
    weights: Floats
    totals: Floats
    scores: Floats

    @property
    def chance(self) -> Floats:
        """p, shape (m, m)."""
        return np.asarray(expit(score_differences(self.scores)))

    @property
    def stiffness(self) -> Floats:
        """M: how the balances fall as the scores rise."""
        chance = self.chance
        return laplacian(self.weights * self.totals * chance * chance.T)

    def balance(self, y: Floats) -> Floats:
        """u of these counts, shape (m,)."""
        chance = self.chance
        return np.asarray((self.weights * (y.T * chance.T - y * chance)).sum(axis=1))


BalanceCovariance = Callable[[PairState], tuple[Floats, Floats]]  # of u: noise, sampling


@dataclass(frozen=True, slots=True, kw_only=True)
class BalancedFit:
    """Difficulties and their errors.

    Attributes:
        scores: shape (m,), drawn to 0 by the ridge; those of the limited items sum to zero.
        unbiased: shape (m,), without the ridge's pull.
        noise, sampling: shape (m, m), covariance of the errors of `unbiased`.
        kept: share of the scores that the ridge leaves, in (0, 1]: their slope on `unbiased`.
        state: counts, weights and totals at `unbiased`.
        stiffness: M, by which errors of a balance become errors of scores.
    """

    scores: Floats
    unbiased: Floats
    noise: Floats
    sampling: Floats
    kept: float
    state: PairState
    stiffness: Floats

    @property
    def covariance(self) -> Floats:
        """Covariance of the errors of `unbiased`: both parts."""
        return self.noise + self.sampling

    def ends(self, reach: Floats) -> tuple[Floats, Floats]:
        """Ends of intervals that reach so far, shape (m,), on the scale of the scores' errors.

        An interval is stretched where it would not hold its score, which the ridge draws to 0.
        """
        state, curve = self.state, self.state.weights * self.state.totals
        pull = (curve * state.chance).sum(axis=1)
        on_pull = reach * np.diagonal(self.stiffness)
        low, high = (
            scores_of_net_wins(pull + side * on_pull, curve, state.scores, LOGISTIC)
            for side in (-1, 1)
        )
        return np.minimum(low, self.scores), np.maximum(high, self.scores)


def fit_balance(
    y: Floats,
    graph: ItemGraph,
    variance: float,
    covariance: BalanceCovariance,
    limited: NDArray[np.bool_] | None = None,
    asked: Floats | None = None,
) -> BalancedFit:
    """Solve the module's equations.

    Args:
        y: shape (m, m), released counts of any sign, zero off the graph.
        graph: the public graph.
        variance: v, of what is no sampling error in one entry.
        covariance: what u varies by, given counts and difficulties.
        limited: shape (m,), items whose mean is the zero of the scale; None: all. An item that
            everybody gets right may lie anywhere far down; if it moved the zero, its error would be
            in every other item's interval.
        asked: as in `expected_totals`.

    Raises:
        ConvergenceError: no balance was found, however strong the ridge.
    """
    mask = graph.mask().astype(np.float64)
    totals, nothing = y + y.T, np.zeros(len(y))
    pattern = expected_totals(totals, mask, variance, nothing, asked)
    state = PairState(y, _weights(pattern, mask, variance), pattern, nothing)
    ridge = _ridge(state, covariance)
    scores, ridge = _balanced(state, ridge)
    ahead = _at(state, mask, variance, scores, asked)
    step = _step(_inverse(ahead.stiffness, ridge), ridge, scores)
    halfway = _at(state, mask, variance, scores + step / 2, asked)
    stiffness = halfway.stiffness
    inverse = _inverse(stiffness, ridge)
    unbiased = scores + _step(inverse, ridge, scores)
    on = np.ones(len(y)) if limited is None else limited.astype(np.float64)
    centre = np.eye(len(y)) - on / on.sum()
    inverse, scores, unbiased = centre @ inverse, centre @ scores, centre @ unbiased
    noise, sampling = (inverse @ part @ inverse.T for part in covariance(halfway))
    size = float(on * unbiased @ unbiased)
    return BalancedFit(
        scores=scores,
        unbiased=unbiased,
        noise=noise,
        sampling=sampling,
        kept=float(np.clip(on * scores @ unbiased / size, 0, 1)) if size > 0 else 1.0,
        state=PairState(y, state.weights, halfway.totals, unbiased),
        stiffness=stiffness,
    )


def _weights(totals: Floats, mask: Floats, variance: float) -> Floats:
    if variance == 0:
        return mask
    weights = mask * totals / (totals + 2 * variance)
    return weights / weights.max() if weights.any() else mask


def _at(
    state: PairState, mask: Floats, variance: float, scores: Floats, asked: Floats | None
) -> PairState:
    totals = expected_totals(state.y + state.y.T, mask, variance, scores, asked)
    return PairState(state.y, state.weights, totals, scores)


def _ridge(state: PairState, covariance: BalanceCovariance) -> float:
    """k, from what the balances at equal difficulties are and how far chance explains them."""
    stiffness = state.stiffness
    noise, sampling = covariance(state)
    by_chance = float(np.trace(noise + sampling))
    if by_chance == 0:
        return 1.0
    slope = max(float(np.trace(stiffness)), LEAST_SLOPE * math.sqrt(by_chance))
    squares = float(np.square(state.balance(state.y)).sum()) - by_chance
    spread = np.sqrt(
        max(squares, 0) / max(float(np.square(stiffness).sum()), slope**2 / len(state.y))
    )
    return by_chance / slope / float(np.clip(spread, LEAST_SPREAD, PRIOR_SPREAD)) ** 2


def _balanced(state: PairState, ridge: float) -> tuple[Floats, float]:
    """Where u(s) = ridge s, and the ridge: a stronger one where noise leaves no such place."""
    won = np.ascontiguousarray((state.weights * state.y).T)
    tolerance = 1e-9 * max(1.0, float(np.abs(won).sum(axis=1).max()))
    for _ in range(MOST_STIFFENINGS):
        try:
            objective = Objective(won, LOGISTIC, ridge, np.zeros(len(won)))
            return minimise_nonconvex(objective, tolerance).theta, ridge
        except ConvergenceError:
            ridge *= STIFFER
    raise ConvergenceError("the counts have no balance: they are not what people can have answered")


def _step(inverse: Floats, ridge: float, scores: Floats) -> Floats:
    """From the scores to those without ridge, to first order and not too far."""
    step = np.clip(ridge * inverse @ scores, -LONGEST_STEP, LONGEST_STEP)
    return np.asarray(step - step.mean())


def _inverse(stiffness: Floats, ridge: float) -> Floats:
    """Inverse on the vectors that sum to zero, and zero on (1, ..., 1)."""
    n = len(stiffness)
    size = float(np.trace(stiffness)) / n or 1.0
    loose = LOOSE * ridge * np.eye(n)
    inverse = np.linalg.inv(stiffness + loose + size / n)
    centred = inverse - inverse.mean(axis=0)
    return np.asarray(centred - centred.mean(axis=1, keepdims=True))
