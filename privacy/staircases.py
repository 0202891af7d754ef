"""Wins and losses on distinct pairs: their largest squared l2 norms, by a search of few shapes.

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
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

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
