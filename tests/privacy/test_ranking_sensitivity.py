"""Sensitivities of rankings against the largest change found by enumerating every bundle.

A bundle is what one person contributes: at most L lists of at most l of n items.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import combinations, combinations_with_replacement, permutations, product

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from hushrank.estimation.rankings import ranking_counts
from hushrank.estimation.rankings.ranking_counts import RankingCounts, release_rankings
from hushrank.privacy.noise import NoiseLaw
from hushrank.privacy.randomness import seeded_bits
from hushrank.privacy.ranking_sensitivity import (
    LEVELS,
    SPREAD,
    Part,
    level_weights,
    margin_weights,
    ranking_below_sensitivity,
    ranking_sensitivity,
    spread_weights,
)
from hushrank.privacy.sensitivity import Sensitivity
from hushrank.privacy.units import Adjacency, NoiseKind, PrivacyParams, Unit
from hushrank.transforms.common.catalogue import Catalogue, Groups
from hushrank.transforms.common.epsilons import EpsilonSource
from hushrank.transforms.common.schema import GroupSets
from hushrank.transforms.rankings.count_rankings import ByLevelFn, RankingCountsFn
from hushrank.transforms.rankings.person_features import SetOfRankings
from hushrank.transforms.rankings.ranking_columns import ListColumns
from hushrank.transforms.rankings.rankings import encode_lists

ADJACENCIES, NOISES = list(Adjacency), list(NoiseKind)
PARTS = [part for part in Part if part not in LEVELS]  # which need no group


def params_of(
    adjacency: Adjacency, most: int = 1, noise: NoiseKind = NoiseKind.LAPLACE
) -> PrivacyParams:
    return PrivacyParams(
        unit=Unit.USER,
        adjacency=adjacency,
        epsilon=1.0,
        delta=0.0 if noise is NoiseKind.LAPLACE else 1e-6,
        noise=noise,
        max_contributions=most,
    )


def counts_of(
    ranking: tuple[int, ...], n_items: int, *, below: bool = False
) -> dict[Part, NDArray[np.int64]]:
    """What one list adds to each part, by the definitions; `below`: items left out are last."""
    above = np.zeros((n_items, n_items), np.int64)
    places = np.zeros((n_items, 2 * n_items + 1), np.int64)
    left_out = [item for item in range(n_items) if below and item not in ranking]
    for place, item in enumerate(ranking):
        places[item, place] = 1
        above[item, [*ranking[place + 1 :], *left_out]] = 1
    places[left_out, n_items + len(ranking)] = 1
    nets = above.sum(axis=1) - above.sum(axis=0)
    return {
        Part.ABOVE: above.ravel(),
        Part.PLACES: places.ravel(),
        Part.NETS: nets,
        Part.SQUARES: nets**2,
        Part.RANKINGS: np.ones(1, np.int64),
        Part.MARGINS: (above - above.T)[np.triu_indices(n_items, 1)],
        Part.ROUNDS: rounds_of(ranking, tuple(range(n_items - 1, 0, -1))),
    }


def rounds_of(ranking: tuple[int, ...], outs: tuple[int, ...]) -> NDArray[np.int64]:
    """What one list adds to the rounds of an instant runoff after each of which one of `outs`
    leaves, and to the exhausted lists of each."""
    n_items = len(outs) + 1
    rounds = np.zeros((len(outs), n_items + 1), np.int64)
    for number, counts in enumerate(rounds):
        left = [item for item in ranking if item not in outs[:number]]
        counts[left[0] if left else n_items] = 1
    return rounds.ravel()


@cache
def bundles(
    n_items: int, lengths: tuple[int, ...], most: int, *, below: bool
) -> dict[Part, NDArray[np.int64]]:
    """Every bundle of at most `most` lists of these lengths, as sums, shape (m, cells)."""
    lists = [each for k in lengths for each in permutations(range(n_items), k)]
    single = [counts_of(each, n_items, below=below) for each in lists]
    found = {}
    for part in PARTS:
        table = np.array([each[part] for each in single])
        sums = [np.zeros((1, table.shape[1]), np.int64)]
        for size in range(1, most + 1):
            chosen = np.array([*combinations_with_replacement(range(len(table)), size)])
            sums.append(table[chosen].sum(axis=1))
        found[part] = np.concatenate(sums)
    return found


def largest_change(values: NDArray[np.int64], adjacency: Adjacency) -> Sensitivity:
    """Over every bundle against nothing, or every bundle against every other."""
    if adjacency is Adjacency.ADD_REMOVE:
        return Sensitivity(
            int(np.abs(values).sum(axis=1).max()), int((values**2).sum(axis=1).max())
        )
    l1 = l2_squared = 0
    for value in values:
        change = values - value
        l1 = max(l1, int(np.abs(change).sum(axis=1).max()))
        l2_squared = max(l2_squared, int((change**2).sum(axis=1).max()))
    return Sensitivity(l1, l2_squared)


def enumerated(
    weights: dict[Part, int],
    lengths: tuple[int, ...],
    n_items: int,
    adjacency: Adjacency,
    most: int,
    below: bool = False,
) -> Sensitivity:
    found = bundles(n_items, lengths, most, below=below)
    vectors = np.concatenate([weight * found[part] for part, weight in weights.items()], axis=1)
    return largest_change(np.unique(vectors, axis=0), adjacency)


COMPLETE = [((n,), n, most) for n, most in ((2, 1), (2, 2), (3, 1), (3, 2), (4, 1), (4, 2))]
PARTIAL = [
    (tuple(range(1, longest + 1)), n, most)
    for n, longest, most in (
        (3, 2, 1),
        (3, 2, 2),
        (3, 3, 2),
        (4, 2, 1),
        (4, 2, 2),
        (4, 3, 1),
        (4, 4, 1),
    )
]


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize(("lengths", "n_items", "most"), [*COMPLETE, *PARTIAL])
@pytest.mark.parametrize("part", [part for part in PARTS if part is not Part.ROUNDS])
def test_the_bound_of_one_part_holds_and_is_attained(
    part: Part, lengths: tuple[int, ...], n_items: int, most: int, adjacency: Adjacency
) -> None:
    longest = max(lengths)
    bound = ranking_sensitivity(params_of(adjacency, most), longest, {part: 1})
    found = enumerated({part: 1}, lengths, n_items, adjacency, most)
    loose = part is Part.SQUARES and adjacency is Adjacency.REPLACE_ONE and n_items < 2 * longest
    if loose:
        assert found.l1 <= bound.l1
        assert found.l2_squared <= bound.l2_squared
    else:
        assert found == bound


BELOW = [(3, 2, 1), (3, 2, 2), (3, 3, 1), (4, 2, 1), (4, 2, 2), (4, 3, 1), (4, 4, 1), (5, 3, 1)]


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize(("n_items", "longest", "most"), BELOW)
@pytest.mark.parametrize("part", PARTS)
def test_the_bound_holds_and_is_attained_where_items_left_out_are_below(
    part: Part, n_items: int, longest: int, most: int, adjacency: Adjacency
) -> None:
    bound = ranking_below_sensitivity(params_of(adjacency, most), longest, {part: 1}, n_items)
    lengths = tuple(range(1, longest + 1))
    found = enumerated({part: 1}, lengths, n_items, adjacency, most, below=True)
    if part is Part.SQUARES and adjacency is Adjacency.REPLACE_ONE:  # no square is ever 0
        assert found.l1 <= bound.l1
        assert found.l2_squared <= bound.l2_squared
    else:
        assert found == bound


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize(("n_items", "longest", "most"), [(3, 2, 2), (4, 2, 1), (4, 4, 1)])
def test_rounds_move_no_further_whoever_leaves_when(
    n_items: int, longest: int, most: int, adjacency: Adjacency
) -> None:
    """Given the counts of earlier rounds, both inputs have the same items left: every order."""
    bound = ranking_below_sensitivity(
        params_of(adjacency, most), longest, {Part.ROUNDS: 1}, n_items
    )
    lists = [each for k in range(1, longest + 1) for each in permutations(range(n_items), k)]
    for outs in permutations(range(n_items), n_items - 1):
        single = np.array([rounds_of(each, outs) for each in lists])
        sums = [np.zeros((1, single.shape[1]), np.int64)]
        for size in range(1, most + 1):
            chosen = np.array([*combinations_with_replacement(range(len(lists)), size)])
            sums.append(single[chosen].sum(axis=1))
        assert largest_change(np.concatenate(sums), adjacency) == bound


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("part", [Part.ABOVE, Part.NETS])
def test_the_bound_of_a_vector_holds_where_items_left_out_are_below(
    part: Part, adjacency: Adjacency, noise: NoiseKind
) -> None:
    for n_items, longest, most in BELOW[:5]:
        params = params_of(adjacency, most, noise)
        weights = spread_weights(params, part, longest, below=n_items)
        bound = ranking_below_sensitivity(params, longest, weights, n_items)
        lengths = tuple(range(1, longest + 1))
        found = enumerated(weights, lengths, n_items, adjacency, most, below=True)
        assert found.l1 <= bound.l1
        assert found.l2_squared <= bound.l2_squared
        if adjacency is Adjacency.ADD_REMOVE:
            assert found == bound


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("districts", [(), (0, 0, 1), (0, 1, -1)])
def test_levels_of_precincts_are_bounded_and_that_is_attained(
    districts: tuple[int, ...], adjacency: Adjacency, noise: NoiseKind
) -> None:
    """All bundles of ballots, by first item and precinct, with those that are set aside."""
    n_items, precincts = 2, 3
    for most in (1, 2, 3):
        params = params_of(adjacency, most, noise)
        weights = level_weights(params, districts=bool(districts))
        single = []
        for item, precinct in product(range(n_items), range(precincts)):
            cells = np.zeros((precincts, n_items), np.int64)
            cells[precinct, item] = 1
            of_district = [cells[np.array(districts) == k].sum(axis=0) for k in range(2)]
            levels = {
                Part.PRECINCTS: cells,
                Part.DISTRICTS: np.array(of_district if districts else []),
                Part.TOTALS: cells.sum(axis=0),
            }
            single.append(
                np.concatenate([weight * levels[part].ravel() for part, weight in weights.items()])
            )
        table = np.array(single)
        bundles_of = [np.zeros((1, table.shape[1]), np.int64)]
        for size in range(1, most + 1):
            chosen = np.array([*combinations_with_replacement(range(len(table)), size)])
            bundles_of.append(table[chosen].sum(axis=1))
        found = largest_change(np.unique(np.concatenate(bundles_of), axis=0), adjacency)
        assert ranking_sensitivity(params, n_items, weights) == found


def in_groups(
    weights: dict[Part, int], lengths: tuple[int, ...], n_items: int, most: int, *, below: bool
) -> NDArray[np.int64]:
    """Every bundle of at most `most` lists, each of one of two groups, shape (m, cells)."""
    one = bundles(n_items, lengths, 1, below=below)
    own = np.concatenate([weight * one[part] for part, weight in weights.items()], axis=1)[1:]
    single = np.concatenate([np.kron(np.eye(2, dtype=np.int64)[k], own) for k in range(2)])
    sums = [np.zeros((1, single.shape[1]), np.int64)]
    for size in range(1, most + 1):
        chosen = np.array([*combinations_with_replacement(range(len(single)), size)])
        sums.append(single[chosen].sum(axis=1))
    return np.unique(np.concatenate(sums), axis=0)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize(
    ("n_items", "longest", "most", "below"),
    [(2, 2, 2, True), (3, 3, 1, True), (3, 2, 2, True), (3, 3, 1, False), (3, 2, 1, False)],
)
def test_in_public_groups_a_person_who_moves_changes_two_of_them(
    n_items: int, longest: int, most: int, below: bool, adjacency: Adjacency, noise: NoiseKind
) -> None:
    """All bundles in two groups: the bounds hold, and each part alone and margins attain them."""
    params, lengths = params_of(adjacency, most, noise), tuple(range(1, longest + 1))
    vectors = [{part: 1} for part in PARTS if part is not Part.ROUNDS or below]
    size = n_items if below else None
    for part in (Part.NETS, Part.ABOVE):
        vectors.append(spread_weights(params, part, longest, below=size, n_groups=2))
    if below:
        vectors.append(margin_weights(params, longest, below=n_items, n_groups=2))
    for weights in vectors:
        if below:
            bound = ranking_below_sensitivity(params, longest, weights, n_items, n_groups=2)
        else:
            bound = ranking_sensitivity(params, longest, weights, n_groups=2)
        table = in_groups(weights, lengths, n_items, most, below=below)
        found = largest_change(table, adjacency)
        assert found.l1 <= bound.l1
        assert found.l2_squared <= bound.l2_squared
        if Part.SQUARES not in weights or adjacency is Adjacency.ADD_REMOVE:
            assert found == bound, weights


def in_sets(
    weights: dict[Part, int], lengths: tuple[int, ...], n_items: int, most: int, groups: Groups
) -> NDArray[np.int64]:
    """Every bundle of at most `most` lists, each in a set of the groups, as it is read and counted.

    The counts of each group and of the whole are one vector.
    """
    lists = [each for k in lengths for each in permutations(range(n_items), k)]
    sets = [
        [*chosen]
        for size in range(len(groups.names) + 1)
        for chosen in combinations(groups.names, size)
    ]
    columns = ListColumns(ranking="r", user=None, contest=None, epsilon=None)
    features = SetOfRankings(columns=GroupSets(column="g"), groups=groups)
    rows = [*product(lists, sets)]
    batch = pa.record_batch(
        {"r": [[*each] for each, _ in rows], "g": pa.array([own for _, own in rows])}
    )
    how = (Catalogue.of_count(n_items), EpsilonSource(low=1.0, high=1.0, value=1.0), None, None)
    read = encode_lists(batch, replace(columns, features=features), *how, n_items).rows
    sums = ByLevelFn(
        [RankingCountsFn(n_items, max(lengths), by_place=False)] * len(groups), overlap=True
    )
    single = []
    for row in range(len(rows)):
        total = sums.add_input(sums.create_accumulator(), read.take(np.array([row])))
        parts = [vector_of(each, weights) for each in total]
        single.append(np.concatenate(parts))
    table = np.unique(np.array(single), axis=0)
    found = [np.zeros((1, table.shape[1]), np.int64)]
    for size in range(1, most + 1):
        chosen = np.array([*combinations_with_replacement(range(len(table)), size)])
        found.append(table[chosen].sum(axis=1))
    return np.concatenate(found)


def vector_of(counts: RankingCounts, weights: dict[Part, int]) -> NDArray[np.int64]:
    """The counts, each times its weight, as a draw adds noise to them."""
    law = NoiseLaw(NoiseKind.LAPLACE, 1.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranking_counts, "add_noise", lambda exact, *_: np.array(exact))
        found = release_rankings(counts, weights, law, seeded_bits(0))
    return np.concatenate([each.ravel() for each in found.values()])


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize(
    ("most", "g", "n_groups"), [(1, 1, 2), (1, 2, 2), (2, 1, 2), (1, 1, 3), (1, 2, 3), (1, 2, 4)]
)
def test_a_ranking_in_several_groups_costs_one_more_than_it_has(
    most: int, g: int, n_groups: int, adjacency: Adjacency, noise: NoiseKind
) -> None:
    """All bundles: enough, and not too much, but for squares of lists that share items."""
    params, n = params_of(adjacency, most, noise), n_groups + 1
    groups = Groups(("p", "q", "s", "t")[:n_groups], True, g)
    vectors = [{part: 1} for part in (Part.ABOVE, Part.PLACES, Part.NETS, Part.RANKINGS)]
    vectors += [{Part.NETS: 1, Part.RANKINGS: 3}, spread_weights(params, Part.NETS, 3, n_groups=n)]
    for weights in vectors:
        bound = ranking_sensitivity(params, 3, weights, n, g)
        found = largest_change(in_sets(weights, (3,), 3, most, groups), adjacency)
        assert found.l1 <= bound.l1, weights
        assert found.l2_squared <= bound.l2_squared, weights
        if Part.SQUARES not in weights or adjacency is Adjacency.ADD_REMOVE:
            assert found == bound, weights


def test_groups_at_the_cost_of_one_would_be_too_cheap_where_people_are_replaced() -> None:
    """The numbers of rankings cancel in one group, and do not if a person moves to another."""
    for noise in NOISES:
        params = params_of(Adjacency.REPLACE_ONE, 1, noise)
        weights = margin_weights(params, 3, below=3)
        alone = ranking_below_sensitivity(params, 3, weights, 3)
        grouped = ranking_below_sensitivity(params, 3, weights, 3, n_groups=2)
        found = largest_change(in_groups(weights, (3,), 3, 1, below=True), Adjacency.REPLACE_ONE)
        assert found == grouped
        norm = "l1" if noise is NoiseKind.LAPLACE else "l2_squared"
        assert getattr(found, norm) > getattr(alone, norm)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_margins_beside_the_number_of_rankings_are_bounded_and_that_is_attained(
    adjacency: Adjacency, noise: NoiseKind
) -> None:
    """All bundles; under replace-one the number costs nothing, and a weight more would cost."""
    for n_items, longest, most in BELOW:
        params = params_of(adjacency, most, noise)
        weights = margin_weights(params, longest, below=n_items)
        lengths = tuple(range(1, longest + 1))
        found = enumerated(weights, lengths, n_items, adjacency, most, below=True)
        assert ranking_below_sensitivity(params, longest, weights, n_items) == found
        norm = "l1" if noise is NoiseKind.LAPLACE else "l2_squared"
        alone, more = (
            getattr(ranking_below_sensitivity(params, longest, each, n_items), norm)
            for each in ({Part.MARGINS: 1}, {**weights, Part.RANKINGS: weights[Part.RANKINGS] + 1})
        )
        if adjacency is Adjacency.REPLACE_ONE:
            assert alone == getattr(found, norm) < more
        else:
            assert weights == {Part.MARGINS: 1, Part.RANKINGS: 1}
    # The table of the design: squared l2 norms of complete and of truncated ballots.
    for n_items, complete in ((3, 12), (4, 24)):
        each = params_of(Adjacency.REPLACE_ONE)
        bound = ranking_below_sensitivity(each, n_items, {Part.MARGINS: 1}, n_items)
        assert bound == Sensitivity(complete // 2, complete)


def test_the_figures_of_nets_and_pairs_where_items_left_out_are_below() -> None:
    added = params_of(Adjacency.ADD_REMOVE)
    for n in (3, 4, 5):  # sums stay within those of complete lists
        bound = ranking_below_sensitivity(added, n, {Part.NETS: 1}, n)
        assert bound == Sensitivity(n * n // 2, (n**3 - n) // 3)
        assert bound == ranking_sensitivity(added, n, {Part.NETS: 1})
    for n, longest, margins in ((4, 2, 18), (5, 3, 34)):
        pairs = ranking_below_sensitivity(added, longest, {Part.ABOVE: 1}, n)
        told = n * (n - 1) // 2 - (n - longest) * (n - longest - 1) // 2
        assert pairs == Sensitivity(told, told)
        lists = [each for k in range(1, longest + 1) for each in permutations(range(n), k)]
        above = np.array([counts_of(each, n, below=True)[Part.ABOVE] for each in lists])
        margin = above.reshape(-1, n, n) - above.reshape(-1, n, n).transpose(0, 2, 1)
        margin = margin[:, *np.triu_indices(n, 1)]  # +1, -1 or 0 of each pair
        assert largest_change(margin, Adjacency.REPLACE_ONE).l2_squared == margins <= 4 * told


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize(("lengths", "n_items", "most"), [*COMPLETE[:4], *PARTIAL[:5]])
@pytest.mark.parametrize("part", [Part.ABOVE, Part.NETS])
def test_the_bound_of_a_vector_holds_and_is_loose_by_the_squares_at_most(
    part: Part,
    lengths: tuple[int, ...],
    n_items: int,
    most: int,
    adjacency: Adjacency,
    noise: NoiseKind,
) -> None:
    params, longest = params_of(adjacency, most, noise), max(lengths)
    weights = spread_weights(params, part, longest)
    bound = ranking_sensitivity(params, longest, weights)
    found = enumerated(weights, lengths, n_items, adjacency, most)
    if noise is NoiseKind.LAPLACE:
        ours, theirs = bound.l1, found.l1
    else:
        ours, theirs = bound.l2_squared, found.l2_squared
    assert (1 - 1 / SPREAD) * ours <= theirs <= ours
    assert found.l1 <= bound.l1
    assert found.l2_squared <= bound.l2_squared


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("part", [Part.ABOVE, Part.NETS])
@pytest.mark.parametrize("longest", [2, 5, 20, 1000])
def test_the_number_of_rankings_is_free_where_people_are_replaced(
    longest: int, part: Part, noise: NoiseKind
) -> None:
    params = params_of(Adjacency.REPLACE_ONE, 3, noise)
    weights = spread_weights(params, part, longest)
    without = {name: weight for name, weight in weights.items() if name is not Part.RANKINGS}
    norm = "l1" if noise is NoiseKind.LAPLACE else "l2_squared"
    free, more = (
        getattr(ranking_sensitivity(params, longest, each), norm)
        for each in (weights, {**weights, Part.RANKINGS: weights[Part.RANKINGS] + 1})
    )
    assert free == getattr(ranking_sensitivity(params, longest, without), norm) < more


def test_half_of_the_cells_is_not_enough_where_a_ballot_may_be_set_aside() -> None:
    """Cells a < b alone move by half as much, but then the number of ballots has to be released."""
    found = bundles(3, (3,), 1, below=False)
    upper = found[Part.ABOVE][:, [1, 2, 5]]
    assert largest_change(upper, Adjacency.REPLACE_ONE) == Sensitivity(3, 3)
    with_ballots = np.concatenate([upper, found[Part.RANKINGS]], axis=1)
    assert largest_change(with_ballots, Adjacency.REPLACE_ONE) == Sensitivity(4, 4)


def test_what_makes_no_sense_is_refused() -> None:
    params = params_of(Adjacency.REPLACE_ONE)
    with pytest.raises(ValueError, match="rounds need the size of the catalogue"):
        ranking_sensitivity(params, 3, {Part.ROUNDS: 1})
    with pytest.raises(ValueError, match="longest must be >= 2"):
        ranking_sensitivity(params, 1, {Part.ABOVE: 1})
    with pytest.raises(ValueError, match="weight >= 1"):
        ranking_sensitivity(params, 3, {Part.ABOVE: 0})
