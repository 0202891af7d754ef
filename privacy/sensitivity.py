"""Sensitivity of released counts: the largest change between two adjacent inputs.

Every bound carries its derivation and is checked by enumeration over all small inputs in
`tests/privacy/test_sensitivity.py`. In all of them a comparison adds `row_weight` to its winner's
count: 1; or 2 when ties are split, so that half a win is the integer 1. A tie's row is then the
mean of the two winning rows, and the norm of a difference is convex in either bundle, so it is
largest where no row is a tie: ties change only the factor.

Groups. Where rows are in groups and each group has counts of its own, a row touches the cells of
its group alone, and all bounds (L, the cap, distinct pairs) are of a unit's rows in all groups
together. Let u be the counts of a bundle without groups and u_g those of its rows in group g: they
are non-negative and add up to u. So sum_g |u_g|_1 = |u|_1 and sum_g |u_g|^2 <= |u|^2, with equality
where all rows are in one group: adding a bundle moves grouped counts by no more than counts without
groups. Replacing u by v moves them by u_g - v_g, whose norms are at most |u|_1 + |v|_1 and
|u|^2 + |v|^2, for both are non-negative; and that is attained where u is in one group and v in
another, however much of u - v cancels without groups. So with groups `replace-one` is exactly twice
`add-remove`, in both norms. Without bounds but L it is so without groups, too; under
`distinct_pairs` or a cap groups cost win counts, and the l1 norm of wins and losses, what would
cancel. For pair counts nothing changes.

Groups that overlap: a row counts in at most g groups, and besides in the cells of the whole. See
`Sensitivity.in_groups`.

Wins and losses on distinct pairs: their largest squared l2 norms, by a search of few shapes.

Let w and l be the wins and losses by item of one unit's rows u, at most L and no two on one pair.
Searched are the largest |w|^2 + |l|^2 of one bundle, and of two bundles u and v the largest
|w_u - w_v|^2 + |l_u - l_v|^2.

Turned round, the rows of v are a bundle t with w_t = l_v and l_t = w_v. With X = w_u - l_t and
Y = w_t - l_u the second is |X|^2 + |Y|^2, and as each row (a beats b) adds to both its wins and its
losses,

    |X|^2 + |Y|^2 = sum over rows of u of (X_a - Y_b) + sum over rows of t of (Y_a - X_b).    (1)

*Staircases.* Number the items 1 to n. A staircase is a bundle in which a beats b only if a < b, and
then every a' <= a beats every b' >= b: item a beats the r_a last items, r_1 >= r_2 >= ...,
r_a <= n - a, and L is at least their sum. Claim: both maxima are attained by staircases. So the
search goes through those alone, and finds the exact maxima.

*Proof.* Let X' and Y' be X and Y, each sorted, the largest first. Row (a beats b) of u is a cell:
its row is the place of a in X', its column that of b in Y'. For theta > 0 let S be the cells (i, j)
of X'_i - Y'_j >= theta: with (i, j) it has all (i', j') of i' <= i, j' >= j. A pair {a, b} has one
row in u at most, so u has no more cells in S than there are pairs of which S has one of the two
cells. That number is largest where X and Y put the items in the same order. For let g_a be the
columns that S lacks in the row of a, the first g_a, and k_a the column of a; S has neither cell of
{a, b} if k_b <= g_a and k_a <= g_b. If k_a < k_b and g_a > g_b, exchange the rows of a and b. Then
S has neither cell of {a, b} only if that was so before; and with any other item c there are, of
{a, c} and {b, c}, no more such pairs than before, since pq + p'q' >= pq' + p'q for p >= p' and
q >= q', here p = [k_c <= g_a], q = [k_a <= g_c] and the same of b. Some such exchanges put all
items in the same order. There a pair i < j has a cell in S if and only if (i, j) is in S. So u has
in S no more cells than the upper triangle i < j, nor more than L; hence the first sum in (1) is at
most that of the L largest X'_i - Y'_j of the triangle (without those below 0), which are a
staircase u', for they fall with i and grow with j. The same holds for t, with a staircase t'. Let
Z = (X', Y') and Z' = (w_u' - l_t', w_t' - l_u'). So |Z|^2 is at most the product of Z and Z', hence
|Z| <= |Z'|. For one bundle set X = w and Y = -l, and leave t out. Q.E.D.

`tests/privacy/test_staircases.py` compares with all pairs of bundles.

References:
    [CCW] Cai, Chakraborty, Wang. Optimal differentially private ranking from pairwise comparisons.
        2025.
    [C98] de Caen. An upper bound on the sum of squares of degrees in a graph. 1998.
    [HLP] Hardy, Littlewood, Polya. Inequalities. 1952.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from hushrank.privacy.units import Adjacency, PrivacyParams, Unit

MOST_ROWS = 20  # such rows have 2714 staircases; the search takes 0.2 seconds at most


def searched_squares(n_items: int, most_rows: int) -> tuple[int, int] | None:
    """Largest squared l2 norms of wins and losses: of a bundle, and between two bundles.

    Bound: exact, for bundles of at most `most_rows` rows on distinct pairs; see the module.

    Args:
        n_items: size of the public catalogue.
        most_rows: L, no more than there are pairs.

    Returns:
        Both; None if nothing is searched: above `MOST_ROWS` rows, and below `n_items` rows, where
        one item that meets L others attains L (L + 1) and 2 L (L + 1), the known bounds.
    """
    if not n_items <= most_rows <= MOST_ROWS:
        return None
    return _search(n_items, most_rows)


@cache
def _search(n_items: int, most_rows: int) -> tuple[int, int]:
    """Search all pairs of staircases whose norms alone leave a larger change possible."""
    shapes = []
    for beaten in _staircases(n_items, most_rows, n_items):
        wins = beaten + [0] * (n_items - len(beaten))
        losses = [sum(each >= n_items - item for each in beaten) for item in range(n_items)]
        shapes.append((sum(each**2 for each in wins + losses), wins + losses, losses + wins))
    shapes.sort(reverse=True)
    largest = 0
    for place, (one, counts, _) in enumerate(shapes):
        for other, _, turned in shapes[place:]:
            if one + other <= largest:
                break
            common = sum(x * y for x, y in zip(counts, turned, strict=True))
            largest = max(largest, one + other - 2 * common)
    return shapes[0][0], largest


def _staircases(n_items: int, most_rows: int, widest: int) -> Iterator[list[int]]:
    """Yield how many items each item beats, the first first, without those that beat none."""
    yield []
    for beaten in range(1, min(n_items - 1, most_rows, widest) + 1):
        for others in _staircases(n_items - 1, most_rows - beaten, beaten):
            yield [beaten, *others]


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """Largest change of an integer statistic over adjacent inputs: l1 norm and squared l2 norm."""

    l1: int
    l2_squared: int

    def of_names(self, names: int) -> Sensitivity:
        """Sensitivity to a change of all rows under `names` names together, if this is of one name.

        Exact, in both norms. The statistic is a sum over names, each with its own term: its rows
        are bounded under that name alone, whatever other names have. So names move it by the sum of
        `names` vectors that one name can move it by, whose norm is at most `names` times the
        largest (triangle inequality), and that is attained where all make the same worst change.
        A statistic that is no sum, as the fit of a likelihood, needs a proof of its own.
        """
        return self.scaled(names)

    def in_groups(self, most: int | None) -> Sensitivity:
        """Sensitivity where a row counts in at most `most` groups and once in the whole.

        Bound: (most + 1) times l1 and (most + 1) times l2^2, if this is of disjoint groups.

        Let u >= 0 be the counts of a bundle, and u_k those of its rows in group k, the whole among
        them. Each row adds to most + 1 of the u_k at most, and 0 <= u_k <= u in each entry. So
        sum_k |u_k|_1 <= (most + 1) |u|_1, and sum_k |u_k|^2 <= sum_k <u_k, u> <= (most + 1) |u|^2:
        that is a bundle that is added. Replacing u by v moves group k by u_k - v_k, whose norms are
        at most |u_k|_1 + |v_k|_1 and |u_k|^2 + |v_k|^2, as both are non-negative; and with groups
        `replace-one` is twice `add-remove` already. All rows of a bundle in the same `most` groups
        attain both norms under `add-remove`. Under `replace-one` pair counts attain them, where v
        has the rows of u turned round; other counts where no u cancels v.

        Args:
            most: the most groups of a row; None: groups are disjoint, or there are none.
        """
        times = 1 if most is None else most + 1
        return Sensitivity(times * self.l1, times * self.l2_squared)

    def scaled(self, factor: int) -> Sensitivity:
        """Sensitivity of `factor` times the statistic."""
        return Sensitivity(factor * self.l1, factor**2 * self.l2_squared)


def win_counts_sensitivity(
    params: PrivacyParams, n_items: int, row_weight: int = 1, n_groups: int = 1
) -> Sensitivity:
    """Sensitivity of N_i, the number of comparisons won by item i, shape (n_items,).

    Unit `comparison`: adding a row raises one count by one; replacing it moves one win from one
    item to another. Exact.

    Unit `user`, at most L rows: a bundle holds a vector u >= 0 of wins. Any k items together win at
    most f(k) rows: L in general, and with `distinct_pairs` at most the pairs that meet these items,
    k n - k(k+1)/2. `per_item_cap` c: an item wins at most c rows, k items k c; and as a row uses up
    two occurrences, a bundle has at most floor(n c / 2). So f is the least of some functions that
    are concave in k, and concave.

    Adding a bundle moves N by u, whose k largest entries add up to at most f(k): to no more than
    those of the vector f(1), f(2) - f(1), ... Sums of squares keep this order ([HLP] Theorem 108,
    weak majorisation), so that vector bounds both norms. Replacing u by v moves N by u - v. Of k of
    its entries let p be positive: in size they add up to at most f(p) + f(k - p), which is largest
    at p = k/2, rounded up or down, by concavity. So u - v is no larger, in that sense, than f's
    vector for floor(n/2) of the items beside f's vector for the others.

    All are exact, but for some bundles under a cap: put the items in order, and let each item win
    its pairs with all later ones, until L rows are used up; without `distinct_pairs` one item wins
    all. In v the items that win in u come last, and rows among themselves are left out.

    In general this is l1 = L, l2^2 = L^2, and 2L, 2L^2 under `replace-one`. [CCW] Alg. 3 uses L for
    l1 there; erratum E1: one replaced bundle moves L counts down and L others up, so it gives only
    2 epsilon.

    Args:
        params: unit, adjacency and enforced bounds.
        n_items: size of the public catalogue, n >= 2.
        row_weight: amount that one win adds to its count, >= 1.
        n_groups: groups with counts of their own, shape (n_groups, n_items); 1: there are none.

    Returns:
        l1 and squared l2 sensitivity.

    Raises:
        ValueError: a size is too small.
    """
    _check_sizes(n_items, row_weight, n_groups)
    if params.adjacency is Adjacency.ADD_REMOVE or n_groups > 1:
        bundle = _wins_of_bundle(params, n_items, n_items)
        return _between_bundles(params, bundle).scaled(row_weight)
    up = _wins_of_bundle(params, n_items, n_items - n_items // 2)
    down = _wins_of_bundle(params, n_items, n_items // 2)
    return Sensitivity(up.l1 + down.l1, up.l2_squared + down.l2_squared).scaled(row_weight)


def _wins_of_bundle(params: PrivacyParams, n_items: int, winners: int) -> Sensitivity:
    """Largest norms of the wins of that many items in one unit's rows."""
    rows = _most_rows(params, n_items)
    most_each = rows if params.per_item_cap is None else params.per_item_cap
    won = squares = 0
    for first in range(1, winners + 1):
        together = min(rows, first * most_each)
        if params.distinct_pairs:
            together = min(together, first * n_items - first * (first + 1) // 2)
        squares += (together - won) ** 2
        won = together
        if won == rows:
            break
    return Sensitivity(won, squares)


def pair_counts_sensitivity(
    params: PrivacyParams, n_items: int, row_weight: int = 1, n_groups: int = 1
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
        row_weight: amount that one win adds to its cell, >= 1.
        n_groups: groups with a matrix of their own; 1: there are none. They change nothing.

    Returns:
        l1 and squared l2 sensitivity.

    Raises:
        ValueError: a size is too small.
    """
    _check_sizes(n_items, row_weight, n_groups)
    return _between_bundles(params, _bundle(params, n_items)).scaled(row_weight)


def tie_counts_sensitivity(params: PrivacyParams, n_items: int, n_groups: int = 1) -> Sensitivity:
    """Sensitivity of three counts a pair: its one item won, its other item won, they tied.

    A row touches one of the three cells of its pair, and adds 1 to it: a tie is an outcome like
    the others, and is not split. So the derivation is that of `pair_counts_sensitivity`, with
    rows of weight 1 and cells of which a pair has three, not two. Unit `comparison`: adding a row
    moves one cell by one, l1 = l2^2 = 1; replacing it two, l1 = l2^2 = 2. Unit `user`, at most L
    rows: l1 = L and l2^2 = L^2 if a bundle is added, for all of its rows may be in one cell, and
    l1 = 2L and l2^2 = 2 L^2 if it is replaced, by one in another cell. With `distinct_pairs` no
    two rows of a bundle share a pair, and so no cell: l2^2 = L and 2L. `per_item_cap` c: a cell
    holds at most c rows, for each is an appearance of both of its items, so l2^2 is at most c
    times l1, and a bundle has at most floor(n c / 2) rows.

    All are exact as they are there: v has the rows of u, each with another outcome. Which of the
    two others that is does not matter, so ties cost nothing: noise on a third cell hides which
    comparisons tied, at the epsilon that hides who won them.

    Args:
        params: unit, adjacency and enforced bounds.
        n_items: size of the public catalogue, n >= 2.
        n_groups: groups with cells of their own; 1: there are none. They change nothing.

    Returns:
        l1 and squared l2 sensitivity.

    Raises:
        ValueError: a size is too small.
    """
    return pair_counts_sensitivity(params, n_items, 1, n_groups)


def win_loss_sensitivity(
    params: PrivacyParams, n_items: int, row_weight: int = 1, n_groups: int = 1
) -> Sensitivity:
    """Sensitivity of wins and losses of each item, shape (2, n_items).

    One row touches two cells, a win of one item and a loss of another. Unit `comparison`: adding a
    row moves both by one, replacing it four cells. Unit `user`, at most L rows: a bundle holds a
    vector u >= 0 of sum 2L at most, so adding it gives l1 <= 2L, and replacing u by v l1 <= 4L and,
    as both are non-negative, l2^2 <= |u|^2 + |v|^2. For |u|^2 see `exposures_sensitivity`: of one
    item wins^2 + losses^2 <= (wins + losses)^2, with equality where it won all or none. Losses are
    the wins of rows turned round, so l2^2 is also at most twice that of `win_counts_sensitivity`.

    The l1 bounds are exact: u has one item beat another L times, v has the same two the other way
    round. With `distinct_pairs` l1 <= 4 floor(n^2/4) under `replace-one`, and that is exact: u has
    items of one half beat those of the other in min(L, floor(n^2/4)) rows, v the other way round.
    Proof: let s_a and t_a, 1 or -1, be the signs by which the change of a's wins and losses adds to
    l1. A row in which a beats b adds at most s_a + t_b in u, and at most -(s_a + t_b) in v. Hence a
    pair adds 4 if s_a = t_b = -s_b = -t_a, or with a and b exchanged; else 2 at most, and 0 if
    (s_a, t_a) = (s_b, t_b) with s_a = -t_a. With x items of signs (1, -1), y of (-1, 1), z others
    that is at most 4xy + 2z(x + y) + z(z - 1). As 4xy <= (x + y)^2 - o, where o is 1 if x + y is
    odd, else 0, it is at most n^2 - z - o, and for odd n one of z and o is at least 1.

    On distinct pairs a search finds the exact maxima of l2^2 from n to 20 rows, of one bundle and
    between two (`privacy.sensitivity`). Whatever L is, l2^2 <= 2 n L under `replace-one`, attained
    where L = k (n - k): k items beat all others in u, and lose to them in v. Proof: let p be the
    change of wins less losses, q that of wins plus losses: l2^2 = (|p|^2 + |q|^2) / 2. Let u have m
    rows and v m' <= m, with j pairs in common that the same item won, and r that another did. By
    pairs p = B s and q = C z, where |s|^2 = m + m' - 2j + 2r and |z|^2 = m + m' - 2j - 2r, and the
    entries of z add up to m - m'. With J, the matrix of ones, B B' = n I - J and
    C C' = (n - 2) I + J. So |p|^2 <= n |s|^2, and as ones are an eigenvector of C' C,
    |q|^2 <= (n - 2) |z|^2 + 2 (m - m')^2 / (n - 1). Since j >= 0 and r <= m', both together are at
    most 2 (n - 1) (m + m') + 4 m' + 2 (m - m')^2 / (n - 1). This is convex in m', is 4 n m at
    m' = m, and no more at m' = 0, for m <= n (n - 1) / 2.

    There l2^2 <= 2 n (n^2 - 1) / 3 as well, attained where L allows all pairs: u ranks all items, v
    turns u round. Proof: of k of the 2n entries of u - v take the sum with signs s_a, t_b (0: not
    among the k). With x = (s - t) / 2, y = (s + t) / 2, d = |x_a - x_b| and e = |y_a + y_b| a pair
    adds max(0, s_a + t_b, s_b + t_a) in u at most, likewise in v, together d + max(d, e). In what
    follows k stays, and the sum over all pairs does not fall. (1) Items of x = 0, y = 1 or -1 get
    y = 0, and x = 1 or -1 in turn; if they are odd in number, the last one the better of the two.
    (2) Of two items of |x| = |y| = 1/2 with equal x one gets (2x, 0), the other (0, 0). (3) So do
    the last two of different x, with the better sign. Each compares the value of a pair before with
    that after, at worst the mean of both signs. That leaves j items of x = 1 or -1, i and j - i,
    perhaps one half item, and zeros: 4 i (j - i) + 2 j (n - j), largest for i = j / 2. So the
    largest k entries add up to at most G(k), whose steps are n - 1 four times, n - 3 four times and
    so on, and l2^2 to at most the sum of their squares ([HLP] Theorem 108).

    Args:
        params: unit, adjacency and enforced bounds.
        n_items: size of the public catalogue, n >= 2.
        row_weight: amount that one row adds to either cell, >= 1.
        n_groups: groups with counts of their own, shape (n_groups, 2, n_items); 1: there are none.

    Returns:
        l1 and squared l2 sensitivity.

    Raises:
        ValueError: a size is too small.
    """
    _check_sizes(n_items, row_weight, n_groups)
    rows, searched = _most_rows(params, n_items), searched_win_loss(params, n_items)
    squares = _squared_degrees(params, n_items)
    added = squares if searched is None else min(squares, searched[0])
    bound = _between_bundles(params, Sensitivity(2 * rows, added))
    wins = win_counts_sensitivity(params, n_items, n_groups=n_groups)
    l1, l2_squared = bound.l1, min(bound.l2_squared, 2 * wins.l2_squared)
    if params.distinct_pairs and params.adjacency is Adjacency.REPLACE_ONE and n_groups == 1:
        l1 = min(l1, 4 * (n_items**2 // 4))
        replaced = min(2 * n_items * rows, 2 * n_items * (n_items**2 - 1) // 3)
        l2_squared = min(l2_squared, replaced if searched is None else searched[1])
    return Sensitivity(l1, l2_squared).scaled(row_weight)


def searched_win_loss(params: PrivacyParams, n_items: int) -> tuple[int, int] | None:
    """Squared l2 norms of wins and losses that a search finds, of one bundle and between two.

    Returns:
        What `privacy.sensitivity` finds; None where nothing is searched.

    Raises:
        ValueError: rows have weights.
    """
    if not params.distinct_pairs:
        return None
    return searched_squares(n_items, _most_rows(params, n_items))


def exposures_sensitivity(params: PrivacyParams, n_items: int, row_weight: int = 1) -> Sensitivity:
    """Sensitivity of the number of comparisons in which each item took part, shape (n_items,).

    Bound: l1 = 2 m(n) for a bundle that is added, and 2 max over k of m(k) + m(n - k) for one that
    is replaced, where m(k) is the most rows of a bundle among k items alone: 0 for k < 2, else the
    least of L, of k (k - 1) / 2 with `distinct_pairs`, and of floor(k c / 2) with `per_item_cap` c.
    Both are exact. Unit `comparison` is L = 1.

    Proof: a row adds one to two items. So a bundle is a vector u >= 0, the degrees of a multigraph,
    and adding it gives twice its rows. The l1 norm of u - v is the largest sum of its entries with
    signs. Let k items have the sign 1, the others -1. A row of u adds 2 if both of its items have
    the sign 1, and 0 or -2 else, so u adds 2 m(k) at most; v adds 2 m(n - k) at most, by rows among
    the others. u and v can be chosen apart, so the maximum is attained: m(k) rows among k items
    exist, for some graph on k nodes has no degree above c and floor(k c / 2) edges (a simple one if
    c <= k - 1), and edges may be left out. With many items u and v have none in common, and l1 is
    4L; of two or three items they share one, or v has no row.

    Squared l2 norm: |u|^2 for u added, and at most |u|^2 + |v|^2 for u replaced by v, as both are
    non-negative. |u|^2 is the sum over edges of the degrees of both ends. These are at most L each,
    so |u|^2 <= 2 L^2, attained where all rows are on one pair. With `per_item_cap` c, at most c
    each: |u|^2 <= 2 c L. With `distinct_pairs` the graph is simple, and only the edge itself meets
    both of its ends: their degrees add up to at most L + 1, and |u|^2 <= L (L + 1); besides |u|^2
    <= L (2 L / (n - 1) + n - 2) [C98], which is exact for stars and complete graphs.

    Args:
        params: unit, adjacency and enforced bounds.
        n_items: size of the public catalogue, n >= 2.
        row_weight: amount that one row adds to each of its items, >= 1.

    Returns:
        l1 and squared l2 sensitivity.

    Raises:
        ValueError: `n_items` or `row_weight` is too small.
    """
    _check_sizes(n_items, row_weight)
    bundle = Sensitivity(2 * _most_rows(params, n_items), _squared_degrees(params, n_items))
    if params.adjacency is Adjacency.ADD_REMOVE:
        return bundle.scaled(row_weight)
    apart = max(
        _most_rows(params, k) + _most_rows(params, n_items - k) for k in range(n_items // 2 + 1)
    )
    return Sensitivity(2 * apart, 2 * bundle.l2_squared).scaled(row_weight)


def sheet_totals_sensitivity(
    params: PrivacyParams, n_items: int, answer_weight: int = 1, sheet_weight: int = 1
) -> Sensitivity:
    """Sensitivity of right minus wrong by item beside a histogram of raw scores, in one vector.

    Bound: l1 = a K + S and l2^2 = a^2 K + S^2 for a sheet that is added; l1 = 2 (a K + S) and
    l2^2 = 4 a^2 K + 2 S^2 for one that is replaced. K is the most items of a sheet, a
    `answer_weight`, S `sheet_weight`. Exact but for l2 with bands of raw scores, which is less.

    A sheet of k <= K items adds a or -a to the k totals of its items, in the cells of its group and
    of the band of its raw score if there are any, and integers t >= 0 of sum S to the histogram of
    its booklet: S on one score, or shares of it on the two knots around a score.

    Adding a sheet moves k <= K totals by a each, and |t|_1 = S, |t|^2 <= S^2; attained by a sheet
    of K items at a knot.

    Replacing a sheet: on a cell that only one of both sheets has, the totals move by a; on a common
    cell by 0 or 2 a. With k common cells, k <= K, at most 2 (K - k) are others. So l1 is at most
    2 a k + 2 a (K - k) = 2 a K, and l2^2 at most 4 a^2 k + 2 a^2 (K - k) <= 4 a^2 K. The histogram
    moves by t - t', both non-negative: l1 <= 2 S, and l2^2 <= |t|^2 + |t'|^2 <= 2 S^2. Both are
    attained together, by a sheet that is all wrong and another of the same booklet that is all
    right: the totals of all K items move by 2 a, and the scores 0 and K are two cells.

    That is why a wrong answer counts -1 and not 0. Right answers alone, with the weight 2 a that
    moves a total as far, would need the same for one group, but twice that l2^2, 8 a^2 K, where two
    perfect sheets may be in different groups or booklets; and under `add-remove` 4 a^2 K for a^2 K.

    A sheet that breaks a rule is set aside and adds nothing, so it may be the one that is replaced:
    that is the case of a sheet that is added. So noise hides how many sheets count.

    Args:
        params: unit `user`; `max_contributions` is K.
        n_items: size of the public catalogue, at least 2; a sheet has no more items.
        answer_weight: a, what a right answer adds to its total and a wrong one takes off, >= 1.
        sheet_weight: S, what a sheet adds to the histogram, >= 1.

    Returns:
        l1 and squared l2 sensitivity. Groups, bands and booklets change nothing.

    Raises:
        ValueError: the unit is not `user`, or a number is too small.
    """
    if params.unit is not Unit.USER:
        raise ValueError(f"test answers are protected by person: unit: user, got {params.unit}")
    _check_sizes(n_items, min(answer_weight, sheet_weight))
    items = min(params.max_contributions, n_items)
    answers = Sensitivity(items, items).scaled(answer_weight)
    if params.adjacency is Adjacency.ADD_REMOVE:
        return Sensitivity(answers.l1 + sheet_weight, answers.l2_squared + sheet_weight**2)
    return Sensitivity(
        2 * (answers.l1 + sheet_weight), 4 * answers.l2_squared + 2 * sheet_weight**2
    )


def _between_bundles(params: PrivacyParams, bundle: Sensitivity) -> Sensitivity:
    """Bound a bundle added, or one replaced by another: cells are non-negative, so norms add up."""
    norms = 1 if params.adjacency is Adjacency.ADD_REMOVE else 2
    return Sensitivity(norms * bundle.l1, norms * bundle.l2_squared)


def _squared_degrees(params: PrivacyParams, n_items: int) -> int:
    """Largest squared l2 norm of the exposures that one unit's rows can have."""
    rows = _most_rows(params, n_items)
    most = 2 * rows**2
    if params.per_item_cap is not None:
        most = min(most, 2 * rows * params.per_item_cap)
    if params.distinct_pairs:
        # The second bound grows with the rows, so all of them are the worst case.
        de_caen = rows * (2 * rows + (n_items - 2) * (n_items - 1)) // (n_items - 1)
        most = min(most, rows * (rows + 1), de_caen)
    return most


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
        row_weight: amount that one win adds to its entry, >= 1.

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
    """Rows that a bundle can hold under all of its bounds, on pairs of that many items.

    Raises:
        ValueError: rows have weights, which `privacy.row_weights` allows for.
    """
    if params.weighted:
        raise ValueError("this is the sensitivity of rows without weights: see row_weights")
    rows = params.max_contributions if n_items > 1 else 0
    if params.distinct_pairs:
        rows = min(rows, n_items * (n_items - 1) // 2)
    if params.per_item_cap is not None:
        rows = min(rows, n_items * params.per_item_cap // 2)
    return rows


def _check_sizes(n_items: int, row_weight: int, n_groups: int = 1) -> None:
    if n_items < 2:
        raise ValueError(f"n_items must be >= 2, got {n_items!r}")
    if row_weight < 1:
        raise ValueError(f"row_weight must be >= 1, got {row_weight!r}")
    if n_groups < 1:
        raise ValueError(f"n_groups must be >= 1, got {n_groups!r}")
