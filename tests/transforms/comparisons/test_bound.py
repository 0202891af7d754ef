"""Bounding keeps at most what it says, uniformly, and whatever way the rows arrive."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushrank.privacy.keyed_hash import KeyedHash
from hushrank.privacy.randomness import system_bits
from hushrank.transforms.common.encode import Comparisons
from hushrank.transforms.common.schema import Ties
from hushrank.transforms.comparisons.bound import Bounds, bound_bucket
from hushrank.transforms.comparisons.shuffle import (
    OwnedShuffleBlock,
    Partitioning,
    own,
    pack,
    unpack,
)
from tests.statistics import FALSE_POSITIVE_RATE, binomial_p_value, uniform_p_value
from tests.strategies import comparison_logs

N_ITEMS = 5
KEY = bytes(range(32))

Row = tuple[int, int, int]  # left, right, outcome


def comparisons(log, key=KEY, event=None):
    """A log of (user, left, right, outcome) as encoded comparisons."""
    columns = np.array([tuple(row) for row in log], np.int64).reshape(-1, 4)
    keyed_hash = KeyedHash(key)
    return Comparisons(
        columns[:, 1],
        columns[:, 2],
        columns[:, 3].astype(np.int8),
        keyed_hash.of_integers(columns[:, 0].copy()),
        None if event is None else keyed_hash.of_integers(np.array(event, np.int64)),
    )


def owned(log, bounds, key=KEY, event=None):
    place = None if event is None else np.arange(len(log))
    return own(comparisons(log, key, event), bounds.ties, KeyedHash(key), place)


def bounded(log, bounds, key=KEY, event=None):
    return bound_bucket(owned(log, bounds, key, event), bounds, KeyedHash(key))


def as_rows(kept: Comparisons) -> Counter[Row]:
    columns = (kept.left.tolist(), kept.right.tolist(), kept.outcome.tolist())
    return Counter(zip(*columns, strict=True))


def canonical(left, right, outcome) -> Row:
    return (left, right, outcome) if left < right else (right, left, -outcome)


def limits(most, cap=None, distinct=False, ties=Ties.SPLIT):
    return Bounds(
        n_items=N_ITEMS,
        ties=ties,
        max_contributions=most,
        per_item_cap=cap,
        distinct_pairs=distinct,
    )


def tuples(log):
    return [(row.user, row.left, row.right, row.outcome) for row in log]


@given(
    comparison_logs(n_items=N_ITEMS),
    st.integers(1, 4),
    st.none() | st.integers(1, 3),
    st.booleans(),
)
def test_every_bound_holds_for_every_user_and_only_given_rows_are_kept(log, most, cap, distinct):
    for user, rows in itertools.groupby(sorted(tuples(log)), key=lambda row: row[0]):
        mine = list(rows)
        kept = as_rows(bounded(mine, limits(most, cap, distinct)).kept)
        assert kept <= Counter(canonical(*row[1:]) for row in mine)
        assert kept.total() <= most
        if distinct:
            assert max(Counter(row[:2] for row in kept.elements()).values(), default=0) <= 1
        if cap is not None:
            items = Counter(item for row in kept.elements() for item in row[:2])
            assert max(items.values(), default=0) <= cap
        if cap is None and not distinct:
            assert kept.total() == min(most, len(mine)), user


@pytest.mark.parametrize("cap", [1, 2, 3])
@pytest.mark.parametrize("distinct", [False, True])
def test_exactly_what_the_bounds_allow_is_kept_of_who_has_more(cap, distinct):
    """Item 0 against each of the others, three times each, and won as well as lost."""
    rows = [(1, 0, item, outcome) for item in range(1, N_ITEMS) for outcome in (1, -1, 1)]
    for key in (KEY, KEY[::-1]):
        for most in (1, 2, 3):
            kept = as_rows(bounded(rows, limits(most, None, distinct), key).kept)
            assert kept.total() == most
            assert not distinct or len({row[:2] for row in kept}) == most
        kept = as_rows(bounded(rows, limits(len(rows), cap, distinct), key).kept)
        assert kept.total() == cap  # all rows hold item 0
        kept = as_rows(bounded(rows, limits(len(rows), None, True), key).kept)
        assert sorted(row[:2] for row in kept.elements()) == [(0, k) for k in range(1, N_ITEMS)]


@given(comparison_logs(n_items=N_ITEMS), st.integers(1, 4), st.booleans(), st.randoms())
def test_what_is_kept_does_not_depend_on_order_shards_or_other_users(log, most, distinct, random):
    log = tuples(log)
    bounds = limits(most, None, distinct, Ties.RANDOM)
    whole = as_rows(bounded(log, bounds).kept)
    shuffled = random.sample(log, len(log))
    assert as_rows(bounded(shuffled, bounds).kept) == whole

    cut = random.randint(0, len(log))
    shuffle_blocks: dict[int, list[OwnedShuffleBlock]] = {}
    for part in (shuffled[:cut], shuffled[cut:]):
        for partition, shuffle_block in pack(owned(part, bounds), Partitioning(1, 1), None):
            shuffle_blocks.setdefault(partition, []).append(shuffle_block)
    parts = [
        as_rows(bound_bucket(bucket.rows(), bounds, KeyedHash(KEY)).kept)
        for mine in shuffle_blocks.values()
        for bucket in unpack(mine, None)
    ]
    assert sum(parts, Counter()) == whole


def uniform_over(cells, draw, trials):
    """p-value that `draw(key)` is uniform over `cells` for random keys."""
    counts = Counter(draw(system_bits().take(32)) for _ in range(trials))
    assert set(counts) <= set(cells)
    return uniform_p_value(np.array([counts[cell] for cell in cells]))


def test_kept_rows_are_a_uniform_sample_with_copies_counted_apart():
    # Three copies of one row and one other row, two kept: the other is among them in 3 of 6 pairs.
    log = [(1, 0, 1, 1)] * 3 + [(1, 2, 3, 1)]
    trials = 3000
    with_other = sum(
        as_rows(bounded(log, limits(2), system_bits().take(32)).kept)[(2, 3, 1)]
        for _ in range(trials)
    )
    counts = np.array([with_other, trials - with_other])
    assert uniform_p_value(counts) > FALSE_POSITIVE_RATE
    # Power: were copies taken for one row, the other row would always be kept.
    assert uniform_p_value(np.array([trials, 1])) < FALSE_POSITIVE_RATE


def test_every_subset_of_a_users_rows_is_equally_likely():
    pairs = list(itertools.combinations(range(4), 2))
    log = [(1, left, right, 1) for left, right in pairs]
    subsets = list(itertools.combinations(sorted(pairs), 2))

    def draw(key):
        kept = as_rows(bounded(log, limits(2), key).kept)
        return tuple(sorted(row[:2] for row in kept))

    assert uniform_over(subsets, draw, 4000) > FALSE_POSITIVE_RATE


def test_with_distinct_pairs_a_pair_is_kept_as_often_however_many_rows_it_has():
    log = [(1, 0, 1, 1)] * 5 + [(1, 2, 3, 1)]
    kept = [(0, 1, 1), (2, 3, 1)]

    def draw(key):
        (row,) = as_rows(bounded(log, limits(1, distinct=True), key).kept)
        return row

    assert uniform_over(kept, draw, 3000) > FALSE_POSITIVE_RATE


def test_with_distinct_pairs_the_outcome_is_a_uniform_choice_among_the_pairs_rows():
    log = [(1, 0, 1, 1)] * 2 + [(1, 1, 0, 1)]
    kept = [(0, 1, 1), (0, 1, 1.5), (0, 1, -1)]  # two thirds of the first: two cells of it

    def draw(key):
        (row,) = as_rows(bounded(log, limits(1, distinct=True), key).kept)
        return kept[key[0] % 2] if row == (0, 1, 1) else row

    assert uniform_over(kept, draw, 3000) > FALSE_POSITIVE_RATE


def test_random_ties_fall_to_either_side_equally_and_apart_for_each_copy():
    log = [(1, 0, 1, 0)] * 2
    cells = [2, 0, 0.5, -2]  # sum of the two coins; 0 has twice the chance: two cells of it

    def draw(key):
        kept = bounded(log, limits(5, ties=Ties.RANDOM), key).kept
        total = int(kept.outcome.sum())
        return cells[1 + key[0] % 2] if total == 0 else total

    assert uniform_over(cells, draw, 4000) > FALSE_POSITIVE_RATE


@pytest.mark.parametrize("ties", [Ties.SPLIT, Ties.DROP])
def test_copies_of_an_event_count_once(ties):
    log = [(1, 0, 1, 1), (1, 1, 0, -1), (1, 0, 1, 1), (2, 0, 1, 1)]
    result = bounded(log, limits(9, ties=ties), event=[7, 7, 8, 7])
    assert as_rows(result.kept) == {(0, 1, 1): 3}  # user 1: events 7 and 8; user 2: its own 7
    assert result.tally["duplicate_rows"] == 1


def test_contradicting_copies_are_set_aside_so_that_a_row_never_turns_a_win_into_a_loss():
    log = [(1, 0, 1, 1), (1, 0, 1, -1), (1, 2, 3, 1)]
    result = bounded(log, limits(9), event=[7, 7, 7])
    assert as_rows(result.kept) == {(2, 3, 1): 1}
    assert as_rows(result.conflicts.comparisons()) == {(0, 1, 1): 1, (0, 1, -1): 1}
    assert sorted(result.conflicts.place.tolist()) == [0, 1]
    assert result.tally["rows_kept"] == 1


def test_without_users_nothing_is_bounded_but_events_are_merged():
    rows = Comparisons(
        np.array([0, 1, 2]),
        np.array([1, 0, 3]),
        np.array([1, -1, 1], np.int8),
        None,
        KeyedHash(KEY).of_integers(np.array([7, 7, 7])),
    )
    owned_rows = own(rows, Ties.DROP, KeyedHash(KEY), np.arange(3))
    kept = bound_bucket(owned_rows, limits(None, ties=Ties.DROP), KeyedHash(KEY)).kept
    assert as_rows(kept) == {(0, 1, 1): 1, (2, 3, 1): 1}


PEOPLE, COPIES = 8_000, 8


def top_bit(outcome, priority):
    """The planted coin: made of the bits by which rows are selected."""
    coin = np.where(priority[:, 0] >> np.uint64(63), np.int8(1), np.int8(-1))
    return np.where(outcome == 0, coin, outcome)


@pytest.mark.parametrize(
    ("most", "cap", "distinct"),
    [(1, None, False), (2, None, False), (2, 2, False), (1, None, True)],
)
def test_which_rows_are_kept_tells_nothing_about_their_coins(most, cap, distinct, monkeypatch):
    """Everybody has eight ties on each of two pairs, and one row or two count."""
    person = np.repeat(np.arange(PEOPLE), 2 * COPIES)
    left = np.tile(np.repeat([0, 2], COPIES), PEOPLE)
    ties = np.column_stack([person, left, left + 1, np.zeros(len(person), np.int64)])
    bounds = limits(most, cap, distinct, Ties.RANDOM)
    rows, keyed_hash = owned(ties, bounds), KeyedHash(system_bits().take(32))

    def p_value() -> float:
        won = bound_bucket(rows, bounds, keyed_hash).kept.outcome.reshape(PEOPLE, most) > 0
        first = uniform_p_value(np.bincount(won[:, 0], minlength=2))
        alike = won[:, 0] == won[:, -1]  # two coins of one person
        return min(first, uniform_p_value(np.bincount(alike, minlength=2)) if most == 2 else 1.0)

    assert p_value() > FALSE_POSITIVE_RATE / 2  # of two p-values
    monkeypatch.setattr("hushrank.transforms.comparisons.bound.toss", top_bit)
    assert p_value() < FALSE_POSITIVE_RATE  # power


MANY = 5_000  # people with the same rows: each is kept, or not, independently of the others
ALIKE = {
    "a bound": (limits(2), 2 / 6),
    "distinct pairs": (limits(2, distinct=True), 2 / 6),
    "a cap": (limits(6, cap=1), 1 / 5),  # the first of the five rows on its items
}
ENDINGS = {
    "won": (1, 1, 1, 1, 1, 1),
    "a tie": (0, 1, 1, -1, 1, -1),
    "ties": (0, 0, 1, 0, 0, -1),
    "ties alone": (0, 0, 0, 0, 0, 0),
}


@pytest.mark.parametrize("ties", [Ties.SPLIT, Ties.RANDOM])
@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("name", ALIKE)
def test_which_rows_are_kept_does_not_depend_on_how_they_ended(name, ending, ties):
    """Each of six pairs is kept as often, whatever was a tie; and a tie falls to either side.

    False positives: 1e-6 for each of seven numbers. If ties came first or last, some pair would be
    kept 20 % more or less often, which is noticed.
    """
    bounds, chance = ALIKE[name]
    bounds = replace(bounds, ties=ties)
    pairs = list(itertools.combinations(range(4), 2))
    one = [(*pair, outcome) for pair, outcome in zip(pairs, ENDINGS[ending], strict=True)]
    log = [(user, *row) for user in range(MANY) for row in one]
    kept = bounded(log, bounds).kept
    found = Counter(zip(kept.left.tolist(), kept.right.tolist(), strict=True))
    for pair in pairs:
        assert binomial_p_value(found[pair], MANY, chance) > FALSE_POSITIVE_RATE
        assert binomial_p_value(round(0.8 * found[pair]), MANY, chance) < FALSE_POSITIVE_RATE
    if ties is Ties.RANDOM and ending == "ties alone":
        won = int((kept.outcome > 0).sum())
        assert binomial_p_value(won, len(kept), 0.5) > FALSE_POSITIVE_RATE
