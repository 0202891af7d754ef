"""Item difficulties of the Rasch model from the stationary distribution of a Markov chain.

The model: P(person l is right on item i) = 1 / (1 + exp(-(ability_l - difficulty_i))). For each
person the chance of "right on i, wrong on j" over that of "right on j, wrong on i" is
exp(difficulty_j - difficulty_i), whatever the ability. So the chain that moves from i to j at rate
Y_ij has, up to sampling error, pi_i proportional to exp(difficulty_i): it ends up on hard items.

References:
    [NZ] Nguyen, Zhang. Optimal and private learning from human response data. 2023. Algorithms 1
        and 2; as there, difficulties sum to zero.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from hushrank.estimation.responses.item_graph import ItemGraph
from hushrank.estimation.responses.stationary import (
    sparse_stationary_distribution,
    stationary_distribution,
)

DIRECT_ITEMS = 5000  # up to here the direct solve takes seconds and a few hundred MB
CLEAR = 5.0  # noise standard deviations by which one of many counts must exceed zero to be seen
LIMIT = 2.0  # the same of a sum that limits a difficulty: a 95 % interval of it stays above zero


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainOptions:
    """From released counts to jump rates: clip, then regularise. Both use public numbers only.

    Attributes:
        floor: what counts below it are raised to; at least 0. Noise makes counts negative.
        regularization: lambda, added on every edge, both ways; in people, at least 0. Where it is
            positive the chain is irreducible; it pulls difficulties together by lambda over the
            typical count.

    Raises:
        ValueError: a field is negative or not finite.
    """

    floor: float = 0.0
    regularization: float = 1.0

    def __post_init__(self) -> None:
        for name in ("floor", "regularization"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{name} must be finite and >= 0, got {value!r}")


def jump_rates(
    y: NDArray[np.float64], graph: ItemGraph, options: ChainOptions
) -> NDArray[np.float64]:
    """max(y, floor) + lambda on the entries of the graph, 0 elsewhere; shape (m, m).

    Args:
        y: shape (m, m), people right on i and wrong on j, noisy or not.
        graph: the public graph.
        options: floor and regularisation.
    """
    rates = np.zeros(y.shape)
    rates[graph.entries] = np.maximum(y[graph.entries], options.floor) + options.regularization
    return rates


def chain_of(rates: NDArray[np.float64], graph: ItemGraph) -> NDArray[np.float64]:
    """Stationary distribution of the chain with these rates, by the solver that its size needs.

    Raises:
        ReducibleChainError: some items cannot be compared (lambda is 0).
        ConvergenceError: a large sparse chain mixes too slowly for the iterative solver.
    """
    if graph.n_items > DIRECT_ITEMS and not graph.complete:
        return sparse_stationary_distribution(csr_array(rates))
    return stationary_distribution(rates)


def difficulties(pi: NDArray[np.float64]) -> NDArray[np.float64]:
    """log pi less its mean: larger is harder; they sum to zero."""
    logarithm = np.log(pi)
    return np.asarray(logarithm - logarithm.mean())


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
    n_sets, component = connected_components(clear, directed=True, connection="strong")
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
