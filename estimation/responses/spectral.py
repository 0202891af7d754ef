"""Items on whose relative difficulty released counts say nothing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from hushrank.estimation.responses.item_graph import ItemGraph

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
