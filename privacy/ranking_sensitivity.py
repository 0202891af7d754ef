"""Sensitivity of counts of rankings, if one person's rankings change.

A person has at most L rankings, each a list of at most l of the catalogue's items, best first. Of a
list of k items

    above       item a above item b: k (k - 1) / 2 cells, one each
    places      item a at place p, from the top: k cells, one each
    nets        items below a less items above it: k - 1, k - 3, ..., 1 - k
    squares     squares of these nets
    rankings    one

are added to counts, and

    margins     1 if item a is above item b, -1 if below, 0 if neither: a cell a < b, k (k - 1) / 2
    rounds      for each round of an instant runoff, 1 for the best item that is left: n - 1 cells

Of lists in public groups, such as ballots by precinct,

    precincts   the first item of the list, in the group that it came from: one cell, one
    districts   the same in the public set of groups that holds this group, if one does
    totals      the same in all groups together

A *part* is one of these with an integer weight; several parts can be released
as one vector, under one noise law, and a part with a larger weight is then known better.

Let c1 and c2 be the l1 norm and the squared l2 norm of what one list of l items adds to a part; a
shorter list adds less. A bundle u of i lists adds the vector x(u) of norms at most i c1 and i^2 c2,
by the triangle inequality. Both are attained by i copies of one list, which contests of a person
may well be, so nothing can be gained without a bound on how alike the lists of a person are.
Between bundles u of i lists and v of j lists

    |x(u) - x(v)|_1 <= (i + j) c1 for all parts but `rankings`, where it is |i - j|;
    |x(u) - x(v)|^2 <= (i^2 + j^2) c2 for above, places, squares and the parts of groups, whose
        entries are >= 0, so that the mixed term only lowers it;
    |x(u) - x(v)|^2 <= (i + j)^2 c2 for nets and margins; and (i - j)^2 for `rankings`.

All of these are convex in (i, j), and so is their sum over the parts of a vector. It is therefore
largest, over 0 <= j <= i <= L, at a corner: (L, 0), a person who comes or goes, or (L, L). Under
`add-remove` v is empty, which leaves (L, 0). Under `replace-one` either may be larger: v may be
empty too, because a ballot that breaks a rule is set aside. So how many rankings count is no public
number, though how many people there are is. That is also why both cells of a pair are counted: the
cells a < b alone would have half the sensitivity, but mean nothing without the number of ballots.
Margins with that number as a part of the same vector mean as much if a list tells of all pairs, and
the noise in a margin is then smaller than in the difference of two cells, by sqrt(2) with Laplace
noise and under add-remove; with Gaussian noise under replace-one it is the same.

Exact, for one part alone: above (v reverses every list of u), places (v moves every item by one
place), nets (v reverses), rankings. The parts of groups are exact together: all lists of u have one
first item and one group, and v has another item in another district. Squares are exact where the
catalogue has 2 l items; otherwise two lists share items, and their squares, and the bound is loose.
So is that of vectors with squares beside other parts: by the share of the squares at most,
`SPREAD`.

The same bounds hold for complete lists, l the size of the catalogue: the lists that attain them are
complete.

A list may also say that the items it leaves out are below those it lists (`below`). Of the
catalogue's n items, n - l at least are then tied after a list of l:

    above       also each listed item above each other one: n (n - 1) / 2 less the pairs that are
                left out; so do margins
    places      each item once: a listed one at its place, another one at the places after k items
    nets        n - 1 - 2 p at place p, from 0; -k of an item that a list of k leaves out

A list of k is the mean of the lists of k + 1 that go on from it, so norms of nets, which are
convex, and of their squares are largest at k = l. Its nets are the numbers s_1 >= ... >= s_n in
some order. Between two lists their difference is largest in both norms where the orders are
opposite, by the rearrangement inequality:

    |x(u) - x(v)|_1 <= j d1 + (i - j) c1,             d1 the sum of |s_p - s_(n+1-p)|;
    |x(u) - x(v)|^2 <= (i^2 + j^2) c2 + 2 i j m,      2 (c2 + m) the sum of (s_p - s_(n+1-p))^2.

For margins c2 is the number of pairs that a list tells of, |x(u) - x(v)|_1 <= (i + j) c2, and m the
sum over p = 1 ... l of min(l, n - p). For with the p-th item that v lists, -<x(u), x(v)> grows by
the number of items, among the n - p that v lists later or not at all, that u puts above that item,
less those that u puts below. Those above are at most l, which u lists, and at most n - p. The list
of the other end attains that at each p.

Copies of a list and of the one that lists the other end of the catalogue, from the last on, attain
both, and the bound of pairs: those two lists say nothing alike of any pair. All of it is convex in
(i, j) again. For l >= n - 1 these are the bounds of complete lists.

Rounds. An instant runoff has n - 1 rounds, after each of which one item leaves. A list adds 1 to
one cell of each round: to its best item that is left, or to the cell of lists without one
(exhausted). So i lists have the norms i and at most i^2 in a round, and two bundles are apart by i
+ j and i^2 + j^2 at most, as for places; all of it n - 1 times over the rounds. Which items are
left depends on the noisy counts of earlier rounds, not on the lists: given these counts, both
inputs have the same items left. The losses of rounds that are chosen so add up as those of one
vector do: epsilons of Laplace noise ([DR14] Theorem 3.16), rho of zCDP, and the shifts of Gaussian
noise (`privacy.gaussian_profile`: composed, also adaptively). Two lists with different items in
front, which leave last, attain it.

Groups. Where each list comes from one public group and each group has counts of its own, let i_g
and j_g be the lists of u and of v in group g. A group changes by at most the bound above, b(i_g,
j_g), so all of them change by at most the sum of these over the groups. Every b is convex: squared
it is A (i^2 + j^2) + M i j with |M| <= 2 A, and in l1 it is d1 (i + j) / 2 + (2 c1 - d1) |i - j| /
2 with d1 <= 2 c1. So is the sum, and it is largest at a corner of sum i_g <= L, sum j_g <= L: all
of u in one group and all of v in one. In the same group that is b(L, L), in another one 2 b(L, 0).
Adding lists costs b(L, 0), as without groups. Replacing them costs the larger of b(L, L) and 2 b(L,
0): a person may move, and then two groups change. In l1 it is always 2 b(L, 0), because also the
numbers of rankings change; without groups these cancel.

Groups that overlap. Where a list counts in up to g of G groups and once in the whole, which has
counts of its own, sum i_k <= g i and i_k <= i hold over the groups, i the lists of u, and likewise
for v. The sum of the bounds b(i_k, j_k) and of b(i, j) is convex again, so it is largest at a
corner: no lists, or L lists in the same groups, at most g of them. If v is empty, that is (g + 1)
b(L, 0). If c groups are common to u and v, the whole and these change by b(L, L) each, and others,
at most min(2 (g - c), G - c) of them, by b(L, 0). Replacing lists costs the largest of these over c
= 0 ... g.

Checked by enumeration of all bundles in `tests/privacy/test_ranking_sensitivity.py`.

References:
    [DR14] Dwork, Roth. The Algorithmic Foundations of Differential Privacy. 2014.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from hushrank.privacy.sensitivity import Sensitivity
from hushrank.privacy.units import Adjacency, NoiseKind, PrivacyParams

SPREAD = 10  # one part in so many of the squared sensitivity (of Laplace noise: of l1) is squares
COMERS = 4  # under add-remove, rankings take one part in so many of what nets or pairs take


class Part(StrEnum):
    """Statistic that is counted."""

    ABOVE = "above"
    PLACES = "places"
    NETS = "nets"
    SQUARES = "squares"
    RANKINGS = "rankings"
    MARGINS = "margins"
    ROUNDS = "rounds"
    PRECINCTS = "precincts"
    DISTRICTS = "districts"
    TOTALS = "totals"


Weights = Mapping[Part, int]  # amount that one in a part adds to the released vector
LEVELS = (Part.PRECINCTS, Part.DISTRICTS, Part.TOTALS)  # levels of a table of first places


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lists:
    """The lists of which a person has at most L; all of it is public.

    Attributes:
        longest: l, the most items of a list.
        below: n, the size of the catalogue, if the items that a list leaves out count as below
            those it lists; None: such a list says nothing of them.
        groups: public groups of which each has counts of its own, the whole among them where they
            overlap; 1: there are none.
        overlap: g, the most groups in which a list counts beside the whole; None: groups do not
            overlap.
    """

    longest: int
    below: int | None = None
    groups: int = 1
    overlap: int | None = None

    @property
    def items(self) -> int:
        """Most items that one list says something about."""
        return self.longest if self.below is None else self.below

    def corners(self, adjacency: Adjacency) -> list[tuple[int, int]]:
        """How many groups change by b(L, L) and how many by b(L, 0), at each corner."""
        g, goes = self.overlap, 2 if self.groups > 1 else 1
        if adjacency is Adjacency.ADD_REMOVE:
            return [(0, 1 if g is None else g + 1)]
        if g is None:
            return [(0, goes), (1, 0)]
        common = [(c + 1, min(2 * (g - c), self.groups - 1 - c)) for c in range(g + 1)]
        return [(0, g + 1), *common]

    def nets(self) -> list[int]:
        """Items below minus items above, of each item that the longest list tells something of."""
        after = self.items - self.longest
        listed = [self.items - 1 - 2 * place for place in range(self.longest)]
        return [*listed, *[-self.longest] * after]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Norms:
    """Change of a part by one list.

    Attributes:
        l1, squared: norms of what a list adds.
        l1_apart, squared_apart: norms of the change where one list takes the place of another.
    """

    l1: int
    squared: int
    l1_apart: int
    squared_apart: int

    def between(self, i: int, j: int) -> tuple[int, int]:
        """l1 and squared l2 norm of the change between bundles of i and of j <= i lists."""
        mixed = self.squared_apart - 2 * self.squared
        l1 = j * self.l1_apart + (i - j) * self.l1
        return l1, (i * i + j * j) * self.squared + i * j * mixed


def _norms_of_list(part: Part, lists: _Lists) -> _Norms:
    """Norms of what a list of the most items adds to a part, and of its change to another one."""
    if part is Part.RANKINGS:
        return _Norms(l1=1, squared=1, l1_apart=0, squared_apart=0)
    if part is Part.ROUNDS:
        rounds = lists.items - 1
        return _Norms(l1=rounds, squared=rounds, l1_apart=2 * rounds, squared_apart=2 * rounds)
    n, after, nets = lists.items, lists.items - lists.longest, lists.nets()
    told = n * (n - 1) // 2 - after * (after - 1) // 2
    apart = [net - other for net, other in zip(nets, reversed(nets), strict=True)]
    l1, squared, fourth = (sum(abs(net) ** power for net in nets) for power in (1, 2, 4))
    if part is Part.NETS:
        return _Norms(
            l1=l1,
            squared=squared,
            l1_apart=sum(map(abs, apart)),
            squared_apart=sum(each**2 for each in apart),
        )
    if part is Part.MARGINS:
        mixed = sum(min(lists.longest, n - place) for place in range(1, lists.longest + 1))
        return _Norms(l1=told, squared=told, l1_apart=2 * told, squared_apart=2 * (told + mixed))
    norms = {Part.ABOVE: (told, told), Part.PLACES: (n, n), Part.SQUARES: (squared, fourth)}
    one, two = norms.get(part, (1, 1))  # one cell of each level of groups
    return _Norms(l1=one, squared=two, l1_apart=2 * one, squared_apart=2 * two)


def ranking_sensitivity(
    params: PrivacyParams,
    longest: int,
    weights: Weights,
    n_groups: int = 1,
    overlap: int | None = None,
) -> Sensitivity:
    """Sensitivity of the vector of all parts with a weight, each times its weight.

    Args:
        params: adjacency, and L as `max_contributions`.
        longest: l, the most items of a list, >= 2.
        weights: weight of each part that is released, >= 1.
        n_groups: public groups with counts of their own; 1: there are none. Parts of `LEVELS` are
            of groups already.
        overlap: g, the most groups of a list where groups overlap; one of `n_groups` is then the
            whole. None: they do not.

    Returns:
        l1 and squared l2 sensitivity.

    Raises:
        ValueError: `longest`, a weight or `overlap` is too small, or `overlap` is no number of
            groups; or `rounds` has a weight, of which there are as many as the catalogue says.
    """
    if Part.ROUNDS in weights:
        raise ValueError("rounds need the size of the catalogue: ranking_below_sensitivity")
    lists = _Lists(longest=longest, groups=n_groups, overlap=overlap)
    return _largest(params, lists, weights)


def ranking_below_sensitivity(
    params: PrivacyParams,
    longest: int,
    weights: Weights,
    n_items: int,
    n_groups: int = 1,
    overlap: int | None = None,
) -> Sensitivity:
    """Sensitivity where the items that a list leaves out count as below those it lists.

    Args:
        params, longest, weights, n_groups, overlap: as for `ranking_sensitivity`.
        n_items: n, the size of the catalogue.

    Returns:
        l1 and squared l2 sensitivity.

    Raises:
        ValueError: `longest` or a weight is too small, or `longest` is above `n_items`.
    """
    lists = _Lists(longest=longest, below=n_items, groups=n_groups, overlap=overlap)
    return _largest(params, lists, weights)


def _largest(params: PrivacyParams, lists: _Lists, weights: Weights) -> Sensitivity:
    if lists.longest < 2:
        raise ValueError(f"longest must be >= 2, got {lists.longest!r}")
    if lists.items < lists.longest:
        raise ValueError(f"longest must be at most {lists.items}, got {lists.longest!r}")
    if lists.groups < 1:
        raise ValueError(f"n_groups must be >= 1, got {lists.groups!r}")
    if not weights or min(weights.values()) < 1:
        raise ValueError("a part is released with a weight >= 1")
    if lists.overlap is not None and not 1 <= lists.overlap < lists.groups:
        raise ValueError(f"overlap must be 1 to {lists.groups - 1}, got {lists.overlap!r}")
    most = params.max_contributions
    comes = _between(most, 0, lists, weights)
    changes = _between(most, most, lists, weights)
    corners = lists.corners(params.adjacency)
    return Sensitivity(
        max(same * changes.l1 + alone * comes.l1 for same, alone in corners),
        max(same * changes.l2_squared + alone * comes.l2_squared for same, alone in corners),
    )


def _between(i: int, j: int, lists: _Lists, weights: Weights) -> Sensitivity:
    """Bound the change between bundles of i and of j lists."""
    l1 = l2_squared = 0
    for part, weight in weights.items():
        change = _norms_of_list(part, lists).between(i, j)
        l1 += weight * change[0]
        l2_squared += weight**2 * change[1]
    return Sensitivity(l1, l2_squared)


def level_weights(params: PrivacyParams, *, districts: bool) -> dict[Part, int]:
    """Weights of the levels of a table of first places, most for its many small cells.

    The share of a level in the squared sensitivity (of Laplace noise: of l1) is what it takes of
    the budget. Gaussian noise: 9/10 and 1/10; or 289/361 and 36/361 twice. Laplace noise: 5/6 and
    1/6; or 5/7 and 1/7 twice.

    Args:
        params: kind of noise.
        districts: whether there are three levels.
    """
    levels = LEVELS if districts else (Part.PRECINCTS, Part.TOTALS)
    cell, other = (17, 6) if districts else (3, 1)
    if params.noise is NoiseKind.LAPLACE:
        cell, other = 5, 1
    return {part: cell if part is Part.PRECINCTS else other for part in levels}


def margin_weights(
    params: PrivacyParams, longest: int, *, below: int, n_groups: int = 1
) -> dict[Part, int]:
    """Weights of margins and of the number of rankings beside them.

    Under `replace-one` that number has the largest weight at which it costs nothing: the corner
    (L, 0), with groups twice, is then no larger than (L, L). Where that is none, as under
    `add-remove`, and with groups of Laplace noise, it has the weight of one pair.

    Args:
        params: adjacency and kind of noise.
        longest, below, n_groups: as for `spread_weights`.
    """
    lists = _Lists(longest=longest, below=below, groups=n_groups)
    free = _free_rankings(params, lists, {Part.MARGINS: 1})
    return {Part.MARGINS: 1, Part.RANKINGS: max(free, 1)}


def spread_weights(
    params: PrivacyParams, part: Part, longest: int, *, below: int | None = None, n_groups: int = 1
) -> dict[Part, int]:
    """Weights of `part` (above or nets) beside squares and rankings.

    Squares take one part in `SPREAD` of the sensitivity: variances need not be known as well as
    sums. Under `replace-one` the number of rankings has the largest weight at which it costs
    nothing. Under `add-remove` nothing is free, and with groups less: there it takes one part in
    `COMERS` of what `part` takes, at least. From public numbers alone; L changes nothing.

    Args:
        params: adjacency and kind of noise.
        part: above or nets.
        longest, n_groups: as for `ranking_sensitivity`.
        below: the size of the catalogue as for `ranking_below_sensitivity`; None: as for the other.
    """
    lists = _Lists(longest=longest, below=below, groups=n_groups)
    replaced = params.adjacency is Adjacency.REPLACE_ONE
    single, double = _between(1, 0, lists, {part: 1}), _between(1, 1, lists, {part: 1})
    squares = _norms_of_list(Part.SQUARES, lists)
    if params.noise is NoiseKind.LAPLACE:
        weight = -(-(SPREAD - 1) * squares.l1 // single.l1)
        share = weight * single.l1 // COMERS
    else:
        own, beside = single.l2_squared, squares.squared
        if replaced:
            own, beside = double.l2_squared, 2 * squares.squared
        weight = math.isqrt((SPREAD - 1) * beside // own) + 1
        share = math.isqrt(weight**2 * single.l2_squared // COMERS)
    free = _free_rankings(params, lists, {part: weight, Part.SQUARES: 1})
    if replaced and n_groups == 1:
        share = 1
    return {part: weight, Part.SQUARES: 1, Part.RANKINGS: max(free, share, 1)}


def _free_rankings(params: PrivacyParams, lists: _Lists, weights: Weights) -> int:
    """Largest weight of the number of rankings that adds nothing to the sensitivity of `weights`.

    0: none. Of two lists in one group these numbers cancel; a list that goes, or moves to another
    group, has room for them as far as it changes the other parts by less.
    """
    if params.adjacency is Adjacency.ADD_REMOVE:
        return 0
    goes = 2 if lists.groups > 1 else 1
    single, double = _between(1, 0, lists, weights), _between(1, 1, lists, weights)
    if params.noise is NoiseKind.LAPLACE:
        return max(double.l1 - goes * single.l1, 0) // goes
    return math.isqrt(max(double.l2_squared - goes * single.l2_squared, 0) // goes)
