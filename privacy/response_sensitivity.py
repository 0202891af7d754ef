"""Sensitivities of sums over responses to test items: measurements of pairs of items, and points.

Sensitivity of the pairwise differential measurements Y.

Y_ij counts the people who were right on item i and wrong on item j. A person with s right and f
wrong answers, s + f <= K, adds a table of ones: s f of them, at most floor(K^2 / 4). Of Y_ij and
Y_ji at most one gets a one. The bound is exact on the complete graph, and checked by enumeration
over all small inputs, like the others, in `tests/privacy/test_measurement_sensitivity.py`.

Sensitivity of how often each item got each number of points, beside a histogram of raw scores.

An item that gives 0 to m points has m + 1 cells. A sheet adds to the cell of its points, so it
moves K cells for K items. Where people are added or removed and the noise is Gaussian, each sheet
also takes an equal share off every cell of the item: the vector of a sheet is then shorter by the
factor m / (m + 1), and no information is lost, because the shares are the same for every sheet.

References:
    [NZ] Nguyen, Zhang. Optimal and private learning from human response data. 2023.
"""

from __future__ import annotations

from collections.abc import Sequence

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


def point_totals_sensitivity(
    params: PrivacyParams,
    points: Sequence[int],
    answer_weight: int = 1,
    sheet_weight: int = 1,
    share: int = 1,
) -> Sensitivity:
    """Sensitivity of cells of items by points beside a histogram of raw scores, in one vector.

    Bound, without shares (D = 1), for K items: l1 = sides (a K + S), l2^2 = sides (a^2 K + S^2);
    `sides` is 1 for a sheet that is added, and 2 for one that is replaced. With shares, for a sheet
    that is added: l1 = 2 a sum_i D m_i / (m_i + 1) + S and
    l2^2 = a^2 sum_i D^2 m_i / (m_i + 1) + S^2. Exact.

    Without shares a sheet adds a to one cell of each of its K items, and integers t >= 0 of sum S
    to the histogram, on one score or on the two knots around it. Added, it moves the cells by
    l1 = a K, l2^2 = a^2 K, and |t|_1 = S, |t|^2 <= S^2 (attained at a knot). Replaced, it moves an
    item by 0, where both sheets have the same points, or by a in two cells: at most 2 a K and
    2 a^2 K. The histogram moves by t - t': at most 2 S and 2 S^2. Both are attained together, by a
    sheet without a point and one with all points. Sheets of different groups have no cell in
    common and move K + K cells by a, which is the same bound.

    With shares a sheet adds a D (1 - 1 / (m + 1)) to the cell of its points and takes
    a D / (m + 1) off the m others: l1 = 2 a D m / (m + 1) and
    l2^2 = a^2 D^2 (m^2 + m) / (m + 1)^2 = a^2 D^2 m / (m + 1) for each item. D is a multiple of
    every m + 1, so these are integers. A replaced sheet would move an item by a D in two cells, the
    same as without shares, so there is nothing to gain, and shares are not for `replace-one`.

    A sheet that breaks a rule adds nothing, so it may be the one that is replaced: that moves no
    more than a sheet that is added.

    Args:
        params: unit `user`; `max_contributions` is at least the number of items.
        points: m of each item, >= 1; a sheet has all items.
        answer_weight: a, >= 1.
        sheet_weight: S, what a sheet adds to the histogram, >= 1.
        share: D, a common multiple of all m + 1; 1: no shares.

    Raises:
        ValueError: a rule above is broken.
    """
    if params.unit is not Unit.USER:
        raise ValueError(f"test answers are protected by person: unit: user, got {params.unit}")
    if len(points) < 2 or min(points) < 1:
        raise ValueError(f"points must be >= 1, of at least 2 items, got {points!r}")
    if min(answer_weight, sheet_weight) < 1:
        raise ValueError(f"weights must be >= 1, got {answer_weight} and {sheet_weight}")
    if params.max_contributions < len(points):
        raise ValueError(
            f"max_contributions must be >= {len(points)}, got {params.max_contributions}"
        )
    sides = 1 if params.adjacency is Adjacency.ADD_REMOVE else 2
    if share == 1:
        moved = len(points)
        return Sensitivity(
            sides * (answer_weight * moved + sheet_weight),
            sides * (answer_weight**2 * moved + sheet_weight**2),
        )
    if sides == 2 or share < 1 or any(share % (most + 1) for most in points):
        raise ValueError(f"shares of {share} are not for {params.adjacency} and these points")
    l1 = sum(2 * share * most // (most + 1) for most in points)
    squares = sum(share**2 * most // (most + 1) for most in points)
    return Sensitivity(
        answer_weight * l1 + sheet_weight, answer_weight**2 * squares + sheet_weight**2
    )
