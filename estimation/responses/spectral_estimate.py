"""Item difficulties with intervals, from released measurements or from randomised answers.

An interval covers one true difficulty with 95 %. Its variance has three parts: privacy noise, the
sampling of people, and the square of what clipping and regularisation moved, to first order: they
pull difficulties together, and the released counts show by how much. All of it is computed from
what was released, so it is post-processing.

References:
    [NZ] Nguyen, Zhang. Optimal and private learning from human response data. 2023.
    [T58] Tukey. Bias and confidence in not quite large samples. 1958. (The jackknife.)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from hushrank.estimation.common.chances import ScoreErrors
from hushrank.estimation.common.estimate import Estimate, estimate_of, mean_ranks, nothing_learned
from hushrank.estimation.common.pair_separation import difference_variance, separate_pairs
from hushrank.estimation.common.uncertainty import LEVEL, quantile
from hushrank.estimation.responses.item_graph import ItemGraph
from hushrank.estimation.responses.measurements import DifferentialMeasurements
from hushrank.estimation.responses.randomized_measurements import (
    RandomizedMeasurements,
    merge_measurements,
)
from hushrank.estimation.responses.spectral import (
    ChainOptions,
    Connection,
    chain_of,
    connection,
    difficulties,
    jump_rates,
)
from hushrank.estimation.responses.spectral_covariance import (
    balanced_flow,
    effect_of,
    noise_covariance,
    responses,
    sampling_covariance,
)
from hushrank.privacy.noise import NoiseLaw

CLEAR_TOTAL = 5.0  # standard deviations of its error by which the sum of all counts exceeds zero
FEWEST_PARTS = 8  # of the jackknife: the interval is 1.2 times as wide as with many
NEARLY_NORMAL = 100  # more draws than this are treated as no nearer to normal

Vector = NDArray[np.float64]
Quantile = Callable[[Vector, float], Vector]  # (noise's share of the variance, tail chance)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpectralEstimate:
    """Difficulties of m items, and what they rest on.

    Attributes:
        estimate: scores are difficulties, so rank 1 is the hardest item.
        covariance: shape (m, m), of the difficulties' errors.
        connection: items whose difficulty the counts do not limit on one side; their intervals are
            infinite there.
        n_clipped: entries of the graph, of 2 |E|, that were raised to the floor.
    """

    estimate: Estimate
    covariance: NDArray[np.float64]
    connection: Connection
    n_clipped: int


def estimate_difficulties(
    measurements: DifferentialMeasurements,
    law: NoiseLaw,
    max_answers: int,
    options: ChainOptions | None = None,
) -> SpectralEstimate:
    """Difficulties from released measurements ([NZ] Algorithm 2), with intervals.

    The sampling error assumes the Rasch model and a design in which every person answers
    `max_answers` items at random, or all of them (see `spectral_covariance`).

    Args:
        measurements: released counts.
        law: of the noise in one entry.
        max_answers: K, answers of one person.
        options: floor and regularisation; by default 0 and one person.

    Returns:
        Difficulties; not `informative` where the sum of all counts does not stand clear of noise.

    Raises:
        ValueError: the measurements are confidential, or `max_answers` is below 2.
        ReducibleChainError: the options have no regularisation and some items cannot be compared.
    """
    if measurements.confidential:
        raise ValueError("measurements are confidential: only released ones may be estimated from")
    if max_answers < 2:
        raise ValueError(f"max_answers must be >= 2, got {max_answers!r}: one answer has no pair")
    graph, y = measurements.graph, measurements.y.astype(np.float64)
    chain = _fit(y, graph, options or ChainOptions())
    answers = min(max_answers, graph.n_items)
    third_share = (answers - 2) / (graph.n_items - 2) if graph.n_items > 2 else 0.0
    noise = noise_covariance(law.variance, graph, chain.pi, chain.response)
    flow = balanced_flow(y, graph, chain.pi)
    sampling = sampling_covariance(flow, graph, chain.pi, chain.response, third_share)
    fewest_entries = int(np.bincount(graph.edges.ravel()).min())  # that weigh on one item
    n_draws = min(fewest_entries, NEARLY_NORMAL)

    def error_quantile(noise_share: Vector, tail: float) -> Vector:
        return quantile(noise_share, tail, law.kind, n_draws)

    return _with_intervals(chain, noise, sampling, math.sqrt(law.variance), error_quantile)


def estimate_randomized(
    parts: Sequence[RandomizedMeasurements], graph: ItemGraph, options: ChainOptions | None = None
) -> SpectralEstimate:
    """Difficulties from randomised answers, with jackknife intervals ([T58]).

    The parts are disjoint sets of people, split at random and of about equal size. Leaving one
    out at a time shows sampling error and randomised response together, whatever the abilities and
    whoever answered what. Where the measurements are not debiased the intervals say how far the
    baseline's own estimate may vary; they do not cover the true difficulties.

    Args:
        parts: measurements of at least 8 sets of people.
        graph: the public graph on which the chain is built.
        options: floor and regularisation; by default 0 and one person.

    Raises:
        ValueError: there are too few parts, or they do not belong together.
        ReducibleChainError: the options have no regularisation and some items cannot be compared.
    """
    if len(parts) < FEWEST_PARTS:
        raise ValueError(f"the jackknife needs at least {FEWEST_PARTS} parts, got {len(parts)}")
    options = options or ChainOptions()
    merged = merge_measurements(parts)
    y = np.where(graph.mask(), merged.y(), 0.0)
    chain = _fit(y, graph, options)
    without = [
        replace(merged, sums=merged.sums - part.sums, people=merged.people - part.people).y()
        for part in parts
    ]
    left_out = [difficulties(chain_of(jump_rates(each, graph, options), graph)) for each in without]
    entries = np.array([each[graph.entries] for each in without])
    entry_sd = math.sqrt(len(parts) * entries.var(axis=0, ddof=1).mean())  # of a sum over parts

    def error_quantile(noise_share: Vector, tail: float) -> Vector:
        return np.full(np.shape(noise_share), stdtrit(len(parts) - 1, 1 - tail))

    jackknife = (len(parts) - 1) * np.cov(np.array(left_out).T, bias=True)
    return _with_intervals(chain, jackknife, np.zeros_like(jackknife), entry_sd, error_quantile)


@dataclass(frozen=True, slots=True)
class _Chain:
    """A fitted chain: counts, rates, stationary distribution and response."""

    y: NDArray[np.float64]
    graph: ItemGraph
    n_clipped: int
    rates: NDArray[np.float64]
    pi: Vector
    response: NDArray[np.float64]


def _fit(y: NDArray[np.float64], graph: ItemGraph, options: ChainOptions) -> _Chain:
    n_clipped = int((y[graph.entries] < options.floor).sum())
    rates = jump_rates(y, graph, options)
    pi = chain_of(rates, graph)
    return _Chain(y, graph, n_clipped, rates, pi, responses(rates, pi))


def _with_intervals(
    chain: _Chain,
    noise: NDArray[np.float64],
    sampling: NDArray[np.float64],
    entry_sd: float,
    error_quantile: Quantile,
) -> SpectralEstimate:
    scores = difficulties(chain.pi)
    linked = connection(chain.y, chain.graph, entry_sd)
    total = chain.y.sum()
    if total <= CLEAR_TOTAL * entry_sd * math.sqrt(2 * chain.graph.n_edges):
        return SpectralEstimate(
            estimate=nothing_learned(np.zeros(len(scores)), rank=mean_ranks(scores)),
            covariance=noise + sampling,
            connection=linked,
            n_clipped=chain.n_clipped,
        )
    # What raised the rates made the chain less sensitive than the counts alone would be.
    stiffness = max(1.0, chain.rates.sum() / total)
    moved = stiffness * effect_of(chain.y - chain.rates, chain.pi, chain.response)
    noise = stiffness**2 * noise
    covariance = noise + stiffness**2 * sampling + np.outer(moved, moved)
    return SpectralEstimate(
        estimate=_informative(scores, covariance, noise, linked, error_quantile),
        covariance=covariance,
        connection=linked,
        n_clipped=chain.n_clipped,
    )


def _informative(
    scores: Vector,
    covariance: NDArray[np.float64],
    noise: NDArray[np.float64],
    linked: Connection,
    error_quantile: Quantile,
) -> Estimate:
    variance = np.diagonal(covariance)
    between, between_noise = difference_variance(covariance), difference_variance(noise)
    same_set = linked.component[:, np.newaxis] == linked.component
    limited = ~linked.no_lower_limit[:, np.newaxis] & ~linked.no_upper_limit
    gap = scores[:, np.newaxis] - scores

    def ends_at(tail: float) -> tuple[Vector, Vector]:
        half = _half_width(variance, np.diagonal(noise), tail, error_quantile)
        low = np.where(linked.no_lower_limit, -np.inf, scores - half)
        return low, np.where(linked.no_upper_limit, np.inf, scores + half)

    def better_at(tail: float) -> NDArray[np.bool_]:
        margin = _half_width(between, between_noise, tail, error_quantile)
        return np.asarray((gap > margin) & (same_set | limited))

    separation = separate_pairs(scores, better_at, ends_at)
    open_ended = linked.no_lower_limit.any() or linked.no_upper_limit.any()
    errors = None if open_ended else ScoreErrors(scores, covariance)
    return estimate_of(scores, *ends_at(LEVEL / 2), separation, errors=errors)


def _half_width(
    variance: Vector, noise: Vector, tail: float, error_quantile: Quantile
) -> NDArray[np.float64]:
    share = np.divide(noise, variance, out=np.zeros_like(variance), where=variance > 0)
    return np.asarray(error_quantile(np.clip(share, 0, 1), tail) * np.sqrt(variance))
