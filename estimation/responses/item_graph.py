"""The public comparison graph: which pairs of items a release says anything about.

It is drawn without looking at a single answer, so it may be published with everything else. A
sparse graph asks for noise on fewer entries and, where people answer many items, for less of it.

When a sparse graph is the better one: from public numbers alone.

A difficulty's privacy noise. On a graph of |E| pairs an item has 2 |E| / m of them, and each tells
the same whatever the graph. So the noise in an item's balance has a variance of s^2 |E|, s^2 that
of one count, its slope is as |E|, and a difficulty's noise has a variance in proportion to

    s^2 / |E|,    s as the l1 sensitivity D for Laplace noise, as the root of D for Gaussian.

All pairs: |E| = m^2 / 2 and D = K^2 / 4, nearly. A graph of degree d: |E| = m d / 2 and D = K d / 2
(`privacy.response_sensitivity`). The variance with all pairs over that with the graph is

    Laplace    K^2 / (4 m d)      above 1 for d < K^2 / (4 m)
    Gaussian   K / (2 m)          never above 1/2: all pairs, always

Sampling of people. Where everybody answers everything, a graph costs next to nothing, since all
pairs of a person follow from those that connect the items. Else a person's K items are connected by
d K / m pairs each: at 4 of them nearly all that the person tells is still counted. So the degree is
the least even number that gives those 4, and 6 at least; and the graph is taken where it at least
halves the variance of the noise.

References:
    [NZ] Nguyen, Zhang. Optimal and private learning from human response data. 2023. Section 4.3.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from hushrank.privacy.randomness import RandomBits
from hushrank.privacy.response_sensitivity import measurement_sensitivity
from hushrank.privacy.units import NoiseKind, PrivacyParams

LEAST_DEGREE = 6
PAIRS_OF_AN_ANSWER = 4.0  # that connect it with the person's other answers
WORTHWHILE = 2.0  # times less variance


def degree_for(n_items: int, max_answers: int) -> int:
    """The least degree that loses next to nothing of what a person tells; even, below m."""
    wanted = PAIRS_OF_AN_ANSWER * n_items / min(max_answers, n_items)
    degree = max(LEAST_DEGREE, 2 * math.ceil(wanted / 2))
    return max(2, min(degree, n_items - 1) // 2 * 2)


def noise_ratio(params: PrivacyParams, n_items: int, degree: int) -> float:
    """Variance of the noise in a difficulty with all pairs, over that on a graph of this degree.

    Args:
        params: unit `user`; K is `max_contributions`.
        n_items: m, at least 2.
        degree: pairs of each item, at most m - 1.
    """
    n_pairs, n_edges = n_items * (n_items - 1) // 2, max(1, n_items * degree // 2)
    dense = measurement_sensitivity(params, n_items)
    even = measurement_sensitivity(params, n_items, n_edges, degree)
    if params.noise is NoiseKind.GAUSSIAN:
        return dense.l2_squared / even.l2_squared * n_edges / n_pairs
    return (dense.l1 / even.l1) ** 2 * n_edges / n_pairs


def even_graph_pays(params: PrivacyParams, n_items: int) -> bool:
    """Whether a graph of `degree_for` at least halves the variance of the noise."""
    if params.max_contributions < 2 or n_items < 3:
        return False
    degree = degree_for(n_items, params.max_contributions)
    return degree < n_items - 1 and noise_ratio(params, n_items, degree) >= WORTHWHILE


MOST_DRAWS = 1000  # at the default probability about one draw in three is connected


@dataclass(frozen=True, slots=True)
class ItemGraph:
    """An undirected, connected graph on the items.

    Attributes:
        n_items: m, size of the public catalogue, at least 2.
        edges: shape (|E|, 2), int64; items (i, j) with i < j, in lexicographic order, none twice.

    Raises:
        ValueError: an edge breaks one of these rules, or the graph is not connected.
    """

    n_items: int
    edges: NDArray[np.int64]

    def __post_init__(self) -> None:
        if self.n_items < 2:
            raise ValueError(f"a graph on items needs at least 2 of them, got {self.n_items}")
        if self.edges.ndim != 2 or self.edges.shape[1] != 2 or self.edges.dtype != np.int64:
            raise ValueError(
                f"edges must be an int64 array of shape (edges, 2), got {self.edges.shape} "
                f"{self.edges.dtype}"
            )
        low, high = self.edges.T
        if not ((low >= 0) & (low < high) & (high < self.n_items)).all():
            raise ValueError(f"an edge (i, j) must have 0 <= i < j < {self.n_items}")
        if not (np.diff(low * self.n_items + high) > 0).all():
            raise ValueError("edges must be in lexicographic order, none twice")
        if not _connected(self.n_items, self.edges):
            raise ValueError("the graph must connect all items, else they have no common scale")

    @property
    def n_edges(self) -> int:
        """|E|, undirected edges; a release holds two entries for each."""
        return len(self.edges)

    @property
    def largest_degree(self) -> int:
        """Edges of the item that has most."""
        return int(np.bincount(self.edges.ravel()).max())

    @property
    def complete(self) -> bool:
        """Whether every pair of items is an edge (the `dense` graph)."""
        return self.n_edges == self.n_items * (self.n_items - 1) // 2

    @property
    def entries(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Row and column of the 2 |E| entries, in the order that noise is drawn for them."""
        low, high = self.edges.T
        return np.concatenate([low, high]), np.concatenate([high, low])

    def mask(self) -> NDArray[np.bool_]:
        """Symmetric (m, m) array, True on the edges, both ways."""
        on_edge = np.zeros((self.n_items, self.n_items), np.bool_)
        on_edge[self.entries] = True
        return on_edge


def complete_graph(n_items: int) -> ItemGraph:
    """The `dense` graph: every pair of items."""
    return ItemGraph(n_items, _all_pairs(n_items))


def booklet_graph(n_items: int, booklets: Sequence[Sequence[int]]) -> ItemGraph:
    """Every pair of items that are in a booklet together: nobody can answer another pair.

    Args:
        n_items: m, at least 2.
        booklets: codes of the items of each; together they connect all items.

    Raises:
        ValueError: a code is out of range, or the booklets do not connect all items.
    """
    return ItemGraph(n_items, np.argwhere(np.triu(shared_booklets(n_items, booklets), 1)))


def shared_booklets(n_items: int, booklets: Sequence[Sequence[int]]) -> NDArray[np.int64]:
    """In how many booklets two items are together, shape (m, m); zero on the diagonal.

    Raises:
        ValueError: a code is out of range.
    """
    if not all(0 <= item < n_items for items in booklets for item in items):
        raise ValueError(f"items of booklets must be codes between 0 and {n_items - 1}")
    members = booklet_members(n_items, booklets).astype(np.int64)
    shared = members.T @ members
    np.fill_diagonal(shared, 0)
    return shared


def booklet_members(n_items: int, booklets: Sequence[Sequence[int]]) -> NDArray[np.bool_]:
    """Which items each booklet has, shape (booklets, m)."""
    members = np.zeros((len(booklets), n_items), np.bool_)
    for booklet, items in enumerate(booklets):
        members[booklet, list(items)] = True
    return members


def connecting_probability(n_items: int) -> float:
    """Edge probability log(m) / m of [NZ] Section 4.3, the threshold of connectedness; at most 1.

    At it a graph is connected with probability about 1/e, so `random_graph` draws about three.
    """
    return min(1.0, math.log(n_items) / n_items) if n_items > 2 else 1.0


def random_graph(n_items: int, edge_probability: float, bits: RandomBits) -> ItemGraph:
    """The `sparse` graph: Erdős–Rényi, drawn again until it is connected.

    Guarantee: uses public numbers and `bits` only, so the graph tells nothing about anybody, and
    seeded bits are as good as others: a graph needs to be public, not secret.

    Args:
        n_items: m, at least 2.
        edge_probability: p_0 in (0, 1], of each pair, independently.
        bits: source of 64-bit words.

    Raises:
        ValueError: an argument is out of range, or no draw in 1000 was connected.
    """
    if not 0 < edge_probability <= 1:
        raise ValueError(f"edge_probability must be above 0, at most 1, got {edge_probability!r}")
    pairs = _all_pairs(n_items)
    if edge_probability == 1:
        return ItemGraph(n_items, pairs)
    threshold = np.uint64(int(edge_probability * 2**64))
    for _ in range(MOST_DRAWS):
        edges = pairs[bits.words(len(pairs)) < threshold]
        if _connected(n_items, edges):
            return ItemGraph(n_items, edges)
    raise ValueError(
        f"none of {MOST_DRAWS} graphs on {n_items} items with edge_probability "
        f"{edge_probability!r} was connected: raise it; log(m) / m is "
        f"{connecting_probability(n_items):.3g}"
    )


def even_graph(n_items: int, degree: int, bits: RandomBits) -> ItemGraph:
    """The `even` graph: the union of degree / 2 cycles through all items in random order.

    Every item has `degree` pairs, or a few less where two cycles hold the same pair, and one cycle
    connects all: no item hangs on a single pair, as on an Erdős–Rényi graph so sparse.

    Guarantee: as `random_graph`.

    Args:
        n_items: m, at least 3.
        degree: even, at least 2, below m.
        bits: source of 64-bit words.

    Raises:
        ValueError: an argument is out of range.
    """
    if n_items < 3 or degree % 2 or not 2 <= degree < n_items:
        raise ValueError(
            f"degree must be even, at least 2 and below the number of items ({n_items}), got"
            f" {degree!r}"
        )
    pairs = []
    for _ in range(degree // 2):
        cycle = np.argsort(bits.words(n_items), kind="stable")
        pairs.append(np.sort(np.column_stack([cycle, np.roll(cycle, 1)]), axis=1))
    return ItemGraph(n_items, np.unique(np.concatenate(pairs), axis=0).astype(np.int64))


def _all_pairs(n_items: int) -> NDArray[np.int64]:
    return np.column_stack(np.triu_indices(n_items, 1)).astype(np.int64)


def _connected(n_items: int, edges: NDArray[np.int64]) -> bool:
    low, high = edges.T
    adjacency = scipy.sparse.coo_array(
        (np.ones(len(edges), np.int8), (low, high)), shape=(n_items, n_items)
    )
    n_components, _ = scipy.sparse.csgraph.connected_components(adjacency, directed=False)
    return bool(n_components == 1)
