"""How far counts of rankings can move where one person's rankings change.

A person has at most L rankings, each a list of at most l of the catalogue's items, best first. Of a
list of k items

    above       item a above item b: k (k - 1) / 2 cells, one each
    places      item a at place p, from the top: k cells, one each
    nets        items below a less items above it: k - 1, k - 3, ..., 1 - k
    squares     squares of these nets
    rankings    one

are added to counts. A *part* is one of these with an integer weight; several parts can be released
as one vector, under one noise law, and a part with a larger weight is then known better.

Let c1 and c2 be the l1 norm and the squared l2 norm of what one list of l items adds to a part; a
shorter list adds less. A bundle u of i lists adds the vector x(u) of norms at most i c1 and i^2 c2,
by the triangle inequality. Both are attained by i copies of one list, which contests of a person
may well be, so nothing can be gained without a bound on how alike the lists of a person are.
Between bundles u of i lists and v of j lists

    |x(u) - x(v)|_1 <= (i + j) c1 for all parts but `rankings`, where it is |i - j|;
    |x(u) - x(v)|^2 <= (i^2 + j^2) c2 for above, places and squares, whose entries are >= 0, so that
        the mixed term only lowers it;
    |x(u) - x(v)|^2 <= (i + j)^2 c2 for nets; and (i - j)^2 for `rankings`.

All of these are convex in (i, j), and so is their sum over the parts of a vector. It is therefore
largest, over 0 <= j <= i <= L, at a corner: (L, 0), a person who comes or goes, or (L, L). Under
`add-remove` v is empty, which leaves (L, 0). Under `replace-one` either may be larger: v may be
empty too, because a ballot that breaks a rule is set aside. So how many rankings count is no public
number, though how many people there are is. That is also why both cells of a pair are counted: the
cells a < b alone would have half the sensitivity, but mean nothing without the number of ballots.

Exact, for one part alone: above (v reverses every list of u), places (v moves every item by one
place), nets (v reverses), rankings. Squares are exact where the catalogue has 2 l items; otherwise
two lists share items, and their squares, and the bound is loose. So is that of vectors with squares
beside other parts: by the share of the squares at most, `SPREAD`.

The same bounds hold for complete lists, l the size of the catalogue: the lists that attain them are
complete.

Checked by enumeration of all bundles in `tests/privacy/test_ranking_sensitivity.py`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import StrEnum

from hushrank.privacy.sensitivity import Sensitivity
from hushrank.privacy.units import Adjacency, NoiseKind, PrivacyParams

SPREAD = 10  # one part in so many of the squared sensitivity (of Laplace noise: of l1) is squares
COMERS = 4  # under add-remove: rankings get one part in so many of that of nets or pairs


class Part(StrEnum):
    """What is counted."""

    ABOVE = "above"
    PLACES = "places"
    NETS = "nets"
    SQUARES = "squares"
    RANKINGS = "rankings"


Weights = Mapping[Part, int]  # what one in a part adds to the released vector


def norms_of_list(part: Part, length: int) -> tuple[int, int]:
    """l1 norm and squared l2 norm of what a list of so many items adds to a part."""
    k = length
    squared = k * (k * k - 1) // 3  # sum of the squares of the nets
    fourth = k * (k * k - 1) * (3 * k * k - 7) // 15  # and of their fourth powers
    return {
        Part.ABOVE: (k * (k - 1) // 2, k * (k - 1) // 2),
        Part.PLACES: (k, k),
        Part.NETS: (k * k // 2, squared),
        Part.SQUARES: (squared, fourth),
        Part.RANKINGS: (1, 1),
    }[part]


def ranking_sensitivity(params: PrivacyParams, longest: int, weights: Weights) -> Sensitivity:
    """Sensitivity of the vector of all parts with a weight, each times its weight.

    Args:
        params: adjacency, and L as `max_contributions`.
        longest: l, the most items of a list, >= 2.
        weights: of each part that is released, >= 1.

    Returns:
        l1 and squared l2 sensitivity.

    Raises:
        ValueError: `longest` or a weight is too small.
    """
    if longest < 2:
        raise ValueError(f"longest must be >= 2, got {longest!r}")
    if not weights or min(weights.values()) < 1:
        raise ValueError("a part is released with a weight >= 1")
    most = params.max_contributions
    comes = _between(most, 0, longest, weights)
    if params.adjacency is Adjacency.ADD_REMOVE:
        return comes
    changes = _between(most, most, longest, weights)
    return Sensitivity(max(comes.l1, changes.l1), max(comes.l2_squared, changes.l2_squared))


def _between(i: int, j: int, longest: int, weights: Weights) -> Sensitivity:
    """Between bundles of i and of j lists."""
    l1 = l2_squared = 0
    for part, weight in weights.items():
        one, squared = norms_of_list(part, longest)
        if part is Part.RANKINGS:
            change = abs(i - j), (i - j) ** 2
        elif part is Part.NETS:
            change = (i + j) * one, (i + j) ** 2 * squared
        else:
            change = (i + j) * one, (i * i + j * j) * squared
        l1 += weight * change[0]
        l2_squared += weight**2 * change[1]
    return Sensitivity(l1, l2_squared)


def spread_weights(params: PrivacyParams, part: Part, longest: int) -> dict[Part, int]:
    """Weights of `part` (above or nets) beside squares and rankings.

    Squares take one part in `SPREAD` of the sensitivity: variances need not be known as well as
    sums. Under `replace-one` the number of rankings costs nothing: with the largest weight at which
    the corner (L, 0) is no larger than (L, L). Under `add-remove` it takes one part in `COMERS` of
    what `part` takes. From public numbers alone; L changes nothing.
    """
    replaced = params.adjacency is Adjacency.REPLACE_ONE
    single, double = _between(1, 0, longest, {part: 1}), _between(1, 1, longest, {part: 1})
    squares = norms_of_list(Part.SQUARES, longest)
    if params.noise is NoiseKind.LAPLACE:
        weight = -(-(SPREAD - 1) * squares[0] // single.l1)
        free = weight * (double.l1 - single.l1) + squares[0]
        rankings = free if replaced else weight * single.l1 // COMERS
        return {part: weight, Part.SQUARES: 1, Part.RANKINGS: max(rankings, 1)}
    own, beside = single.l2_squared, squares[1]
    if replaced:
        own, beside = double.l2_squared, 2 * squares[1]
    weight = math.isqrt((SPREAD - 1) * beside // own) + 1
    free = weight**2 * (double.l2_squared - single.l2_squared) + squares[1]
    rankings = math.isqrt(free if replaced else weight**2 * single.l2_squared // COMERS)
    return {part: weight, Part.SQUARES: 1, Part.RANKINGS: max(rankings, 1)}
