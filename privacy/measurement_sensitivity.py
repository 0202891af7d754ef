"""Sensitivity of the pairwise differential measurements Y.

Y_ij counts the people who were right on item i and wrong on item j. A person with s right and f
wrong answers, s + f <= K, adds a table of ones: s f of them, at most floor(K^2 / 4). Of Y_ij and
Y_ji at most one gets a one. The bound is exact on the complete graph, and checked by enumeration
over all small inputs, like the others, in `tests/privacy/test_measurement_sensitivity.py`.

References:
    [NZ] Nguyen, Zhang. Optimal and private learning from human response data. 2023.
"""

from __future__ import annotations

from hushrank.privacy.sensitivity import Sensitivity
from hushrank.privacy.units import Adjacency, PrivacyParams, Unit


def measurement_sensitivity(
    params: PrivacyParams,
    n_items: int,
    n_edges: int | None = None,
    largest_degree: int | None = None,
) -> Sensitivity:
    """Sensitivity of Y on the entries of a public graph, both ways on each edge.

    Adding a person moves at most a = min(floor(K^2 / 4), |E|, floor(K / 2) D) entries, each by one:
    s f ones in all, and at most one of the two on an edge. With D the largest degree of the graph,
    the s items that were right have at most s D edges and the f wrong ones at most f D; each moved
    entry lies on an edge of both, and the smaller of s and f is at most floor(K / 2). Replacing u
    by v moves the entries that are in one of the two tables and not in the other, each by one: at
    most 2 a. So l1 = l2^2 in every case. On the complete graph both are reached: v is right where u
    was wrong and the other way round.

    With booklets the graph holds the pairs that share one, and K is at most the number of items of
    the largest booklet. Which booklet a person had is protected too: replacing u by v of another
    booklet moves the ones of both tables, again 2 a at most. What a blank means changes nothing
    here, because a sheet has at most K answers, given or filled in.

    [NZ] Lemma 4.1 lets every entry move: its l2^2 is 2 |E|, m (m - 1) on the complete graph, about
    twice what is needed there. Erratum E6: the lemma prints the noise variance with the square root
    of that number; its proof needs the number itself.

    Args:
        params: unit `user`; K is `max_contributions`, the answered items kept of one person.
        n_items: m, size of the public catalogue, at least 2; nobody answers more.
        n_edges: undirected edges of the public graph; None: the complete graph.
        largest_degree: D, edges of the item that has most; None: not known.

    Returns:
        l1 and squared l2 sensitivity.

    Raises:
        ValueError: the unit is not `user`, or a number is out of range.
    """
    if params.unit is not Unit.USER:
        raise ValueError(f"test answers are protected by person: unit: user, got {params.unit}")
    if n_items < 2:
        raise ValueError(f"measurements need at least 2 items, got {n_items}")
    n_pairs = n_items * (n_items - 1) // 2
    if n_edges is None:
        n_edges = n_pairs
    if not 1 <= n_edges <= n_pairs:
        raise ValueError(f"n_edges must be between 1 and {n_pairs}, got {n_edges}")
    if largest_degree is None:
        largest_degree = n_items - 1
    if not 1 <= largest_degree < n_items:
        raise ValueError(
            f"largest_degree must be between 1 and {n_items - 1}, got {largest_degree}"
        )
    answers = min(params.max_contributions, n_items)
    moved = min(answers**2 // 4, n_edges, answers // 2 * largest_degree)
    if params.adjacency is Adjacency.REPLACE_ONE:
        moved *= 2
    return Sensitivity(moved, moved)
