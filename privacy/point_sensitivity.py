"""Sensitivity of how often each item got each number of points, beside a histogram of raw scores.

An item that gives 0 to m points has m + 1 cells. A sheet adds to the cell of its points, so it
moves K cells for K items. Where people are added or removed and the noise is Gaussian, each sheet
also takes an equal share off every cell of the item: the vector of a sheet is then shorter by the
factor m / (m + 1), and no information is lost, because the shares are the same for every sheet.
"""

from __future__ import annotations

from collections.abc import Sequence

from hushrank.privacy.sensitivity import Sensitivity
from hushrank.privacy.units import Adjacency, PrivacyParams, Unit


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
