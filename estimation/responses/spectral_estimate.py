"""Item difficulties with intervals, from released measurements or from randomised answers.

An interval covers one true difficulty with 95 %. Its variance has two parts, privacy noise and the
sampling of people; what the ridge draws to 0 is undone, so it is not in the interval's centre (see
`pair_balance`). All of it is computed from what was released, so it is post-processing.

The balance of each item varies by chance. With p_ij = 1 / (1 + exp(s_j - s_i)) the chance that item
i is the wrong one of a pair of which one answer was right, and symmetric weights w of the pairs,
the balance of an item is

    u_i = sum over j of w_ij [Y_ji (1 - p_ij) - Y_ij p_ij],

zero in expectation at the true difficulties, whatever the abilities. Pair by pair this is the
balance pi_i Y_ij = pi_j Y_ji of the chain of [NZ], in other weights.

Noise: independent entries of equal variance, so Cov(u) is a graph Laplacian.

Sampling: people are independent of each other, but the entries of one person are not, and the
counts alone do not hold their covariance. The model supplies it. With pi_i = exp(s_i) let
D_ij = pi_i X_i (1 - X_j) - pi_j X_j (1 - X_i), which has mean zero for every ability, since
pi_i P(i right, j wrong) = pi_j P(j right, i wrong). Then for every ability

    E[D_ij^2]     = pi_i^2 P(i right, j wrong) + pi_j^2 P(j right, i wrong)
    E[D_ij D_ik]  = pi_i pi_j P(j right, k wrong)          (j, k, i different)

and D of four different items are uncorrelated given the ability. A person adds
-sum over j of w_ij / (pi_i + pi_j) D_ij to u_i. So the covariance needs pairs only:
F_ij = pi_i E[Y_ij], whatever the abilities are and however they are distributed. Besides the model
this takes: of the people who answered two items, a share t_k answered item k too, whichever the two
are (1 where everybody answers everything; see `one_right.third_answer_shares`).

Items on whose relative difficulty released counts say nothing.

Item difficulties of the Rasch model from the stationary distribution of a Markov chain.

The model: P(person l is right on item i) = 1 / (1 + exp(-(ability_l - difficulty_i))). For each
person the chance of "right on i, wrong on j" over that of "right on j, wrong on i" is
exp(difficulty_j - difficulty_i), whatever the ability. So the chain that moves from i to j at rate
Y_ij has, up to sampling error, pi_i proportional to exp(difficulty_i): it ends up on hard items.

Intervals. In stationarity sum over j of (pi_j q_ji - pi_i q_ij) = 0 for each item, which is the
balance u of `pair_balance` with the weights w_ij = pi_i + pi_j. At the true difficulties every term
has mean zero, so the weights are as good as fixed, and the covariance of u follows as there. The
published difficulties are the paper's: negative counts are raised to 0 and lambda is added, which
draws difficulties together. The intervals are those of one Newton step from there on the counts as
they were released, without either, and hold the published difficulty too.

References:
    [NZ] Nguyen, Zhang. Optimal and private learning from human response data. 2023.
    [T58] Tukey. Bias and confidence in not quite large samples. 1958. (The jackknife.)
    [NZ] Nguyen, Zhang. Optimal and private learning from human response data. 2023. Algorithms 1
        and 2; as there, difficulties sum to zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy.special import expit, stdtrit

from hushrank.estimation.common.estimate import (
    CLEAR_TOTAL,
    Estimate,
    estimate_of,
    mean_ranks,
    nothing_learned,
)
from hushrank.estimation.common.links import Floats, laplacian, score_differences
from hushrank.estimation.common.pair_separation import (
    ScoreErrors,
    difference_variance,
    separate_pairs,
)
from hushrank.estimation.common.uncertainty import LEVEL, quantile
from hushrank.estimation.fit.stationary import stationary_distribution
from hushrank.estimation.responses.item_graph import ItemGraph, booklet_members
from hushrank.estimation.responses.measurements import (
    DifferentialMeasurements,
    RandomizedMeasurements,
    merge_measurements,
)
from hushrank.estimation.responses.pair_balance import (
    LONGEST_STEP,
    BalanceCovariance,
    BalancedFit,
    PairState,
    booklet_shares,
    expected_totals,
    fit_balance,
    third_answer_shares,
    uneven_share,
)
from hushrank.privacy.noise import NoiseLaw


def fit_chain(
    y: Floats,
    graph: ItemGraph,
    variance: float,
    covariance: BalanceCovariance,
    limited: NDArray[np.bool_] | None = None,
    asked: Floats | None = None,
) -> BalancedFit:
    """Difficulties of [NZ] Algorithm 2, with the errors of a Newton step from there.

    Arguments are those of `pair_balance.fit_balance`.
    """
    mask = graph.mask().astype(np.float64)
    scores = chain_difficulties(jump_rates(y, graph))
    totals = expected_totals(y + y.T, mask, variance, scores, asked)
    chances = np.exp(scores - scores.max())
    state = PairState(y, mask * (chances[:, np.newaxis] + chances), totals, scores)
    stiffness = state.stiffness
    on = np.ones(len(y)) if limited is None else limited.astype(np.float64)
    centre = np.eye(len(y)) - on / on.sum()
    inverse = centre @ np.linalg.pinv(stiffness, hermitian=True)
    scores = centre @ scores
    unbiased = scores + np.clip(inverse @ state.balance(y), -LONGEST_STEP, LONGEST_STEP)
    noise, sampling = (inverse @ part @ inverse.T for part in covariance(state))
    return BalancedFit(
        scores=scores,
        unbiased=unbiased,
        noise=noise,
        sampling=sampling,
        kept=1.0,
        state=replace(state, scores=unbiased),
        stiffness=stiffness,
    )


def jump_rates(
    y: NDArray[np.float64], graph: ItemGraph, *, floor: float = 0.0, regularization: float = 1.0
) -> NDArray[np.float64]:
    """Rates max(y, floor) + regularization on the entries of the graph, 0 elsewhere; shape (m, m).

    Args:
        y: shape (m, m), people right on i and wrong on j, noisy or not.
        graph: the public graph.
        floor: value that counts below it are raised to; noise makes counts negative.
        regularization: lambda, added on every edge, both ways; in people. Where it is positive the
            chain is irreducible; it pulls difficulties together by lambda over the typical count.
    """
    rates = np.zeros(y.shape)
    rates[graph.entries] = np.maximum(y[graph.entries], floor) + regularization
    return rates


def chain_difficulties(rates: NDArray[np.float64]) -> NDArray[np.float64]:
    """Difficulties log pi less their mean: larger is harder."""
    logarithm = np.log(stationary_distribution(rates))
    return np.asarray(logarithm - logarithm.mean())


CLEAR = 5.0  # noise standard deviations by which one of many counts must exceed zero to be seen
LIMIT = 2.0  # the same of a sum that limits a difficulty: a 95 % interval of it stays above zero


@dataclass(frozen=True, slots=True)
class Connection:
    """Items on whose relative difficulty the counts say nothing, in one direction at least.

    Attributes:
        component: shape (m,), number of a set of items that are linked both ways by counts that
            stand clear of the noise.
        no_lower_limit: shape (m,); True where nothing was seen to lead into the item's set from
            another, as for an item that everybody got right.
        no_upper_limit: shape (m,); True where nothing was seen to lead out of the set into another,
            as for an item that nobody got right. Both are True for an item that nobody answered.
    """

    component: NDArray[np.int64]
    no_lower_limit: NDArray[np.bool_]
    no_upper_limit: NDArray[np.bool_]


def connection(y: NDArray[np.float64], graph: ItemGraph, noise_sd: float) -> Connection:
    """Find items whose difficulty rests on the regularisation or on noise.

    Sets of items are the strong components of the entries that exceed 5 noise standard deviations
    (0 without noise). A set of more than half of the items is the scale, so it has both limits.
    Another has one if the sum of the entries that lead into it, or out of it, exceeds 2 standard
    deviations of that sum's noise. With noise this is a test, which can be wrong either way.

    Args:
        y: shape (m, m), released counts.
        graph: the public graph.
        noise_sd: standard deviation of the noise in an entry; 0 without noise.
    """
    mask = graph.mask()
    clear = mask & (y > CLEAR * noise_sd)
    n_sets, component = scipy.sparse.csgraph.connected_components(
        clear, directed=True, connection="strong"
    )
    member = (np.arange(n_sets)[:, np.newaxis] == component).astype(np.float64)
    flow, entries = (member @ matrix @ member.T for matrix in (np.where(mask, y, 0.0), mask))
    for between in (flow, entries):
        np.fill_diagonal(between, 0)
    is_scale = member.sum(axis=1) > graph.n_items / 2
    leads_in, leads_out = (
        is_scale | (flow.sum(axis=axis) > LIMIT * noise_sd * np.sqrt(entries.sum(axis=axis)))
        for axis in (0, 1)
    )
    return Connection(component.astype(np.int64), ~leads_in[component], ~leads_out[component])


FEWEST_PARTS = 8  # of the jackknife: the interval is 1.2 times as wide as with many
NEARLY_NORMAL = 100  # more draws than this are treated as no nearer to normal
Vector = NDArray[np.float64]
Limited: TypeAlias = NDArray[np.bool_] | None
Asked: TypeAlias = Vector | None
FitTo = Callable[[Vector, ItemGraph, float, BalanceCovariance, Limited, Asked], BalancedFit]
Quantile = Callable[[Vector, float], Vector]  # (noise's share of the variance, tail chance)


def noise_covariance(variance: float, weights: Floats, chance: Floats) -> Floats:
    """Covariance of u from independent noise of `variance` in every entry of Y.

    Args:
        variance: of the noise in an entry.
        weights: w, shape (m, m), symmetric, 0 off the graph.
        chance: p, shape (m, m).
    """
    return laplacian(variance * np.square(weights) * (np.square(chance) + np.square(chance.T)))


def sampling_covariance(
    totals: Floats, scores: Floats, weights: Floats, third_share: Floats
) -> Floats:
    """Covariance of u from the sampling of people, under the Rasch model.

    Its off-diagonal (i, k) holds the pair itself, the triples that share k, those that share i, and
    those that share a third item.

    Args:
        totals: E[Y + its transpose], shape (m, m), at least 0, zero off the graph.
        scores: difficulties s, shape (m,).
        weights: w, shape (m, m), symmetric, 0 off the graph.
        third_share: t, shape (m,), in [0, 1].

    Returns:
        Positive semi-definite, shape (m, m): where the t do not fit together, the nearest one.
    """
    # In probabilities, which stay in [0, 1]: pi_k pi_i pi_l over the three sums is p_ik p_kl p_li.
    chance = expit(score_differences(scores))
    own, across = weights * chance, totals * chance.T
    pairs = np.square(weights) * totals * chance * chance.T
    shared = own * (across @ own.T) * third_share
    covariance = -pairs - shared - shared.T + across * ((own * third_share) @ own)
    of_item = pairs.sum(axis=1) + third_share * (own * (own.T @ across)).sum(axis=1)
    np.fill_diagonal(covariance, of_item)
    return _without_negative_variance(covariance)


def _without_negative_variance(covariance: Floats) -> Floats:
    """Nearest positive semi-definite matrix."""
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    return np.asarray((vectors * np.maximum(values, 0)) @ vectors.T)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpectralEstimate:
    """Difficulties of m items, and what they rest on.

    Attributes:
        estimate: scores are difficulties, so rank 1 is the hardest item. Their zero is the mean of
            the items that the counts limit on both sides; where there are none, of all items.
        covariance: shape (m, m), of the errors of the difficulties without the ridge's pull.
        connection: items whose difficulty the counts do not limit on one side; their intervals are
            infinite there.
        kept: share of the difficulties that the ridge leaves, in (0, 1].
        uneven: as of `one_right.uneven_share`; 0 where booklets are known.
    """

    estimate: Estimate
    covariance: NDArray[np.float64]
    connection: Connection
    kept: float
    uneven: float = 0.0


def estimate_difficulties(
    measurements: DifferentialMeasurements,
    law: NoiseLaw,
    max_answers: int,
    booklets: Sequence[Sequence[int]] = (),
    *,
    chain: bool = False,
) -> SpectralEstimate:
    """Difficulties from released measurements ([NZ] Algorithm 2), with intervals.

    The sampling error assumes the Rasch model, and that every person answers `max_answers` items,
    chosen without regard to abilities, some items perhaps more often than others. With booklets
    every person answers the items of one of them, or `max_answers` of those by chance; people with
    different booklets may differ in ability.

    Args:
        measurements: released counts.
        law: of the noise in one entry.
        max_answers: K, answers of one person.
        booklets: codes of the items of each; empty: there are none.
        chain: take the paper's own difficulties, of a Markov chain; see `spectral_chain`.

    Returns:
        Difficulties; not `informative` where the sum of all counts does not stand clear of noise.

    Raises:
        ValueError: the measurements are confidential, or `max_answers` is below 2.
        ConvergenceError: the counts cannot be fitted.
    """
    if measurements.confidential:
        raise ValueError("measurements are confidential: only released ones may be estimated from")
    if max_answers < 2:
        raise ValueError(f"max_answers must be >= 2, got {max_answers!r}: one answer has no pair")
    graph, y = measurements.graph, measurements.y.astype(np.float64)
    fewest_entries = int(np.bincount(graph.edges.ravel()).min())  # that weigh on one item
    n_draws = min(fewest_entries, NEARLY_NORMAL)
    people, asked = None, None
    if booklets:
        members = booklet_members(graph.n_items, booklets).astype(np.float64)
        people = booklet_shares(y + y.T, law.variance, members)
        asked = (members.T * people) @ members

    def covariance(state: PairState) -> tuple[Vector, Vector]:
        noise = noise_covariance(law.variance, state.weights, state.chance)
        if people is not None and asked is not None:
            return noise, _sampling_of_booklets(state, booklets, people, asked, max_answers)
        third = third_answer_shares(state.totals, max_answers)
        return noise, sampling_covariance(state.totals, state.scores, state.weights, third)

    def error_quantile(noise_share: Vector, tail: float) -> Vector:
        return quantile(noise_share, tail, law.kind, n_draws)

    fit = fit_chain if chain else fit_balance
    found = _estimated(y, graph, law.variance, covariance, error_quantile, asked, fit)
    if booklets or not found.estimate.informative:
        return found
    mask = graph.mask().astype(np.float64)
    return replace(found, uneven=uneven_share(y + y.T, mask, law.variance, found.estimate.scores))


def _sampling_of_booklets(
    state: PairState,
    booklets: Sequence[Sequence[int]],
    people: Vector,
    asked: Vector,
    max_answers: int,
) -> Vector:
    """Covariance of the balances from the sampling of people, added up over booklets."""
    covariance = np.zeros(asked.shape)
    share = np.divide(state.totals, asked, out=np.zeros_like(asked), where=asked > 0)
    for items, number in zip(booklets, people, strict=True):
        part = np.ix_(items, items)
        kept = min(1.0, (max_answers - 2) / max(len(items) - 2, 1))
        third = np.full(len(items), kept)
        covariance[part] += sampling_covariance(
            number * share[part], state.scores[list(items)], state.weights[part], third
        )
    return covariance


def estimate_randomized(
    parts: Sequence[RandomizedMeasurements], graph: ItemGraph
) -> SpectralEstimate:
    """Difficulties from randomised answers, with jackknife intervals ([T58]).

    The parts are disjoint sets of people, split at random and of about equal size. How far their
    balances lie apart shows sampling error and randomised response together, whatever the abilities
    and whoever answered what. Where the measurements are not debiased the intervals say how far the
    baseline's own estimate may vary; they do not cover the true difficulties.

    Args:
        parts: measurements of at least 8 sets of people.
        graph: the public graph on which the counts are compared.

    Raises:
        ValueError: there are too few parts, or they do not belong together.
        ConvergenceError: the counts cannot be fitted.
    """
    if len(parts) < FEWEST_PARTS:
        raise ValueError(f"the jackknife needs at least {FEWEST_PARTS} parts, got {len(parts)}")
    merged, mask = merge_measurements(parts), graph.mask()
    y = np.where(graph.mask(), merged.y(), 0.0)
    each = [np.where(mask, replace(merged, sums=part.sums).y(), 0.0) for part in parts]
    entries = np.array([own[graph.entries] for own in each])
    variance = len(parts) * float(entries.var(axis=0, ddof=1).mean())  # of a sum over parts

    def covariance(state: PairState) -> tuple[Vector, Vector]:
        balances = np.array([state.balance(own) for own in each])
        return len(parts) * np.cov(balances.T), np.zeros(y.shape)

    def error_quantile(noise_share: Vector, tail: float) -> Vector:
        return np.full(np.shape(noise_share), stdtrit(len(parts) - 1, 1 - tail))

    return _estimated(y, graph, variance, covariance, error_quantile)


def _estimated(
    y: NDArray[np.float64],
    graph: ItemGraph,
    variance: float,
    covariance: BalanceCovariance,
    error_quantile: Quantile,
    asked: Vector | None = None,
    fit_to: FitTo = fit_balance,
) -> SpectralEstimate:
    entry_sd = math.sqrt(variance)
    linked = connection(y, graph, entry_sd)
    limited = ~(linked.no_lower_limit | linked.no_upper_limit)
    centre = limited if limited.any() else None
    fit = fit_to(y, graph, variance, covariance, centre, asked)
    if y.sum() <= CLEAR_TOTAL * entry_sd * math.sqrt(2 * graph.n_edges):
        estimate = nothing_learned(np.zeros(len(y)), rank=mean_ranks(fit.scores))
    else:
        estimate = _informative(fit, linked, error_quantile)
    return SpectralEstimate(
        estimate=estimate, covariance=fit.covariance, connection=linked, kept=fit.kept
    )


def _informative(fit: BalancedFit, linked: Connection, error_quantile: Quantile) -> Estimate:
    covariance, noise = fit.covariance, fit.noise
    variance = np.diagonal(covariance)
    between, between_noise = difference_variance(covariance), difference_variance(noise)
    same_set = linked.component[:, np.newaxis] == linked.component
    limited = ~linked.no_lower_limit[:, np.newaxis] & ~linked.no_upper_limit
    gap, ahead = (values[:, np.newaxis] - values for values in (fit.unbiased, fit.scores))

    def ends_at(tail: float) -> tuple[Vector, Vector]:
        low, high = fit.ends(_reach(variance, np.diagonal(noise), tail, error_quantile))
        low = np.where(linked.no_lower_limit, -np.inf, low)
        return low, np.where(linked.no_upper_limit, np.inf, high)

    def better_at(tail: float) -> NDArray[np.bool_]:
        margin = _reach(between, between_noise, tail, error_quantile)
        return np.asarray((gap > margin) & (ahead > 0) & (same_set | limited))

    separation = separate_pairs(fit.scores, better_at, ends_at)
    open_ended = linked.no_lower_limit.any() or linked.no_upper_limit.any()
    errors = None if open_ended else ScoreErrors(fit.unbiased, covariance)
    return estimate_of(fit.scores, *ends_at(LEVEL / 2), separation, errors=errors)


def _reach(
    variance: Vector, noise: Vector, tail: float, error_quantile: Quantile
) -> NDArray[np.float64]:
    """What an error of these variances exceeds with chance `tail`.

    Rounding leaves variances below 0, or far below those of the noise, where all is known.
    """
    variance = np.maximum(variance, 0)
    share = np.ones_like(variance)
    np.divide(noise, variance, out=share, where=np.abs(noise) < variance)
    reach = np.zeros_like(variance)  # what has no error is exact, even where a quantile is infinite
    quantile = error_quantile(np.clip(share, 0, 1), tail)
    return np.multiply(quantile, np.sqrt(variance), out=reach, where=variance > 0)
