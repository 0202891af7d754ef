"""How far a released count can move between two adjacent inputs.

Every bound carries its derivation and is checked by enumeration over all small inputs in
`tests/privacy/test_sensitivity.py`. In all of them a comparison adds `row_weight` to its winner's
count: 1; or 2 when ties are split, so that half a win is the integer 1. A tie's row is then the
mean of the two winning rows, and the norm of a difference is convex in either bundle, so it is
largest where no row is a tie: ties change only the factor.

References:
    [CCW] Cai, Chakraborty, Wang. Optimal differentially private ranking from pairwise comparisons.
        2025.
    [C98] de Caen. An upper bound on the sum of squares of degrees in a graph. 1998.
"""

from __future__ import annotations

from dataclasses import dataclass

from hushrank.privacy.units import Adjacency, PrivacyParams, Unit


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """Largest change of an integer statistic over adjacent inputs: l1 norm and squared l2 norm."""

    l1: int
    l2_squared: int

    def scaled(self, factor: int) -> Sensitivity:
        """Sensitivity of `factor` times the statistic."""
        return Sensitivity(factor * self.l1, factor**2 * self.l2_squared)


def win_counts_sensitivity(params: PrivacyParams, n_items: int, row_weight: int = 1) -> Sensitivity:
    """Sensitivity of N_i, the number of comparisons won by item i, shape (n_items,).

    Unit `comparison`: adding a row raises one count by one; replacing it moves one win from one
    item to another. Exact.

    Unit `user`, at most L rows: a bundle holds a vector u >= 0 of wins with sum at most L. Adding
    it moves N by u, so l1 <= L and l2^2 <= max u * sum u <= L^2. Replacing u by v gives
    l1 <= sum u + sum v <= 2L and, as u, v >= 0, l2^2 <= |u|^2 + |v|^2 <= 2L^2. All four are exact:
    item a wins all of u, item b all of v. [CCW] Alg. 3 uses L for l1 under `replace-one`; erratum
    E1: one replaced bundle moves L counts down and L others up, so it gives only 2 epsilon.

    `distinct_pairs`: a bundle has at most n(n-1)/2 rows and no item wins more than n-1 of them, so
    |u|^2 <= (n-1) L. For the l1 norm of u - v let S be the s items that win more under u than
    under v. Then l1 = sum_S (u - v) + sum_{S^c} (v - u) <= sum_S u + sum_{S^c} v. A win of an item
    of S is a row on a pair that meets S, and rows are on distinct pairs; likewise for S^c. So
    l1 <= (pairs meeting S) + (pairs meeting S^c) = n(n-1)/2 + s(n-s), because exactly the s(n-s)
    pairs across meet both; at most n(n-1)/2 + floor(n^2/4). Attained where in u every row that
    meets S is won by S, and in v every row that meets S^c by S^c. So the l1 bounds are exact,
    except that for odd n and L strictly between the pairs that meet (n-1)/2 items and those that
    meet (n+1)/2 the truth is a little smaller.

    `per_item_cap` c: no item occurs in more than c rows, hence wins at most c: max u <= c. A row
    uses up two occurrences, so there are at most floor(n c / 2) rows.

    Args:
        params: unit, adjacency and enforced bounds.
        n_items: size of the public catalogue, n >= 2.
        row_weight: what one win adds to its count, >= 1.

    Returns:
        l1 and squared l2 sensitivity.

    Raises:
        ValueError: `n_items` or `row_weight` is too small.
    """
    _check_sizes(n_items, row_weight)
    if params.unit is Unit.COMPARISON:
        bundle, replaced = Sensitivity(1, 1), Sensitivity(2, 2)
    else:
        rows, most_wins = _most_rows(params, n_items), params.max_contributions
        if params.distinct_pairs:
            most_wins = min(most_wins, n_items - 1)
        if params.per_item_cap is not None:
            most_wins = min(most_wins, params.per_item_cap)
        bundle = Sensitivity(rows, rows * min(rows, most_wins))
        replaced = Sensitivity(2 * rows, 2 * bundle.l2_squared)
        if params.distinct_pairs:
            two_orders = n_items * (n_items - 1) // 2 + n_items**2 // 4
            replaced = Sensitivity(min(replaced.l1, two_orders), replaced.l2_squared)
    chosen = bundle if params.adjacency is Adjacency.ADD_REMOVE else replaced
    return chosen.scaled(row_weight)


def pair_counts_sensitivity(
    params: PrivacyParams, n_items: int, row_weight: int = 1
) -> Sensitivity:
    """Sensitivity of the matrix wins[a, b], times a beat b, shape (n_items, n_items).

    One row touches one cell; unit `comparison` is L = 1. Unit `user`, at most L rows: adding a
    bundle moves the matrix by some u >= 0 of sum at most L, in the worst case in one cell, so
    l1 <= L and l2^2 <= L^2; with `distinct_pairs` each cell moves by at most one, so l2^2 <= L.
    Replacing u by v adds the norms: l1 <= |u|_1 + |v|_1, and cells are non-negative, so
    l2^2 <= |u|^2 + |v|^2. All exact (v reverses every row of u).

    `per_item_cap` c: a cell holds at most c rows, so |u|^2 <= c L; at most floor(n c / 2) rows.

    Args:
        params: unit, adjacency and enforced bounds.
        n_items: size of the public catalogue, n >= 2.
        row_weight: what one win adds to its cell, >= 1.

    Returns:
        l1 and squared l2 sensitivity.

    Raises:
        ValueError: `n_items` or `row_weight` is too small.
    """
    _check_sizes(n_items, row_weight)
    return _between_bundles(params, _bundle(params, n_items)).scaled(row_weight)


def win_loss_sensitivity(params: PrivacyParams, n_items: int, row_weight: int = 1) -> Sensitivity:
    """Sensitivity of wins and losses of each item, shape (2, n_items).

    One row touches two cells, a win of one item and a loss of another. Unit `comparison`: adding a
    row moves both by one, replacing it four cells. Unit `user`, at most L rows: a bundle holds a
    vector u >= 0 of sum 2L at most, so adding it gives l1 <= 2L, and replacing u by v l1 <= 4L and,
    as both are non-negative, l2^2 <= |u|^2 + |v|^2. For |u|^2 see `exposures_sensitivity`: of one
    item wins^2 + losses^2 <= (wins + losses)^2, with equality where it won all or none. The l1
    bounds are exact: u has one item beat another L times, v has two others, or the same two the
    other way round.

    Args:
        params: unit, adjacency and enforced bounds.
        n_items: size of the public catalogue, n >= 2.
        row_weight: what one row adds to either cell, >= 1.

    Returns:
        l1 and squared l2 sensitivity.

    Raises:
        ValueError: `n_items` or `row_weight` is too small.
    """
    return exposures_sensitivity(params, n_items, row_weight)


def exposures_sensitivity(params: PrivacyParams, n_items: int, row_weight: int = 1) -> Sensitivity:
    """Sensitivity of the number of comparisons in which each item took part, shape (n_items,).

    A row adds one to two items; unit `comparison` is L = 1. Unit `user`, at most L rows: a bundle
    is a vector u >= 0, the degrees of a multigraph with at most L edges, of sum at most 2L. Adding
    it gives l1 <= 2L, replacing u by v l1 <= 4L and l2^2 <= |u|^2 + |v|^2.

    |u|^2 is the sum over edges of the degrees of both ends. These are at most L each, so
    |u|^2 <= 2 L^2, attained where all rows are on one pair. With `per_item_cap` c, at most c each:
    |u|^2 <= 2 c L. With `distinct_pairs` the graph is simple, and only the edge itself meets both
    of its ends: their degrees add up to at most L + 1, and |u|^2 <= L (L + 1); besides
    |u|^2 <= L (2 L / (n - 1) + n - 2) [C98], which is exact for stars and complete graphs.

    Args:
        params: unit, adjacency and enforced bounds.
        n_items: size of the public catalogue, n >= 2.
        row_weight: what one row adds to each of its items, >= 1.

    Returns:
        l1 and squared l2 sensitivity.

    Raises:
        ValueError: `n_items` or `row_weight` is too small.
    """
    _check_sizes(n_items, row_weight)
    return _between_bundles(params, _exposures_of_bundle(params, n_items)).scaled(row_weight)


def _between_bundles(params: PrivacyParams, bundle: Sensitivity) -> Sensitivity:
    """One bundle added, or one replaced by another: cells are non-negative, so norms add up."""
    norms = 1 if params.adjacency is Adjacency.ADD_REMOVE else 2
    return Sensitivity(norms * bundle.l1, norms * bundle.l2_squared)


def _exposures_of_bundle(params: PrivacyParams, n_items: int) -> Sensitivity:
    """Largest norms of the exposures that one unit's rows can have."""
    rows = _most_rows(params, n_items)
    most = 2 * rows**2
    if params.per_item_cap is not None:
        most = min(most, 2 * rows * params.per_item_cap)
    if params.distinct_pairs:
        # The second bound grows with the rows, so all of them are the worst case.
        de_caen = rows * (2 * rows + (n_items - 2) * (n_items - 1)) // (n_items - 1)
        most = min(most, rows * (rows + 1), de_caen)
    return Sensitivity(2 * rows, most)


def outcomes_sensitivity(params: PrivacyParams, n_items: int, row_weight: int = 1) -> Sensitivity:
    """Sensitivity of wins[a, b] over the pairs a < b, where only who won is protected.

    Adjacent inputs then differ in the outcomes of one unit's rows, on the same pairs, so the
    other entry of a pair follows from its total, which does not move. A row moves one entry by at
    most `row_weight`, from a win of b to one of a or via a tie half of that; unit `comparison` is
    L = 1. Unit `user`, at most L rows of which at most m are on one pair: entries move by at most
    the numbers of rows on their pairs, so l1 <= L and l2^2 <= m L; m = 1 with `distinct_pairs`,
    and at most c with `per_item_cap` c. All exact: every row of the person ends the other way.

    It asks that which rows are kept does not depend on outcomes. They are a uniform choice among
    the person's rows, however these ended (`transforms.comparisons.bound`).

    Args:
        params: unit and enforced bounds; adjacency `replace-one`.
        n_items: size of the public catalogue, n >= 2.
        row_weight: what one win adds to its entry, >= 1.

    Returns:
        l1 and squared l2 sensitivity.

    Raises:
        ValueError: `n_items` or `row_weight` is too small, or the adjacency hides who took part.
    """
    _check_sizes(n_items, row_weight)
    if params.adjacency is Adjacency.ADD_REMOVE:
        raise ValueError("adjacency must be replace-one where who compared what is public")
    return _bundle(params, n_items).scaled(row_weight)


def _bundle(params: PrivacyParams, n_items: int) -> Sensitivity:
    """Largest norms of the counts of one unit's rows by cell."""
    rows = _most_rows(params, n_items)
    most_in_cell = 1 if params.distinct_pairs else rows
    if params.per_item_cap is not None:
        most_in_cell = min(most_in_cell, params.per_item_cap)
    return Sensitivity(rows, rows * most_in_cell)


def _most_rows(params: PrivacyParams, n_items: int) -> int:
    """Rows that a bundle can hold under all of its bounds."""
    rows = params.max_contributions
    if params.distinct_pairs:
        rows = min(rows, n_items * (n_items - 1) // 2)
    if params.per_item_cap is not None:
        rows = min(rows, n_items * params.per_item_cap // 2)
    return rows


def _check_sizes(n_items: int, row_weight: int) -> None:
    if n_items < 2:
        raise ValueError(f"n_items must be >= 2, got {n_items!r}")
    if row_weight < 1:
        raise ValueError(f"row_weight must be >= 1, got {row_weight!r}")
