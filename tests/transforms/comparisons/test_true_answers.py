"""True answers before they are privatised: encoding, ties, people who meet."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushrank.estimation.fit.weighted_pairs import information_units
from hushrank.privacy.keyed_hash import KeyedHash
from hushrank.privacy.randomness import seeded_bits, system_bits
from hushrank.transforms.common.catalogue import Catalogue
from hushrank.transforms.common.encode import Sifted
from hushrank.transforms.common.epsilons import AnswerColumns, EpsilonSource
from hushrank.transforms.common.schema import Ties
from hushrank.transforms.comparisons.privatize import (
    Answers,
    bound_answers,
    divide_epsilons,
    divide_epsilons_of_kept,
    encode_answers,
    first_answers,
    split_by_owner,
)
from tests.statistics import FALSE_POSITIVE_RATE, binomial_p_value

N_ITEMS = 4
KEYED_HASH = KeyedHash(bytes(32))
COLUMNS = AnswerColumns(
    left="l", right="r", outcome="o", winner=None, user=None, event=None, epsilon="e"
)
SOURCE = EpsilonSource(low=0.5, high=4.0)


def encode(left, right, outcome, epsilon, ties=Ties.RANDOM):
    batch = pa.record_batch({"l": left, "r": right, "o": outcome, "e": epsilon})
    catalogue = Catalogue.of_count(N_ITEMS)
    return encode_answers(
        batch, COLUMNS, catalogue, SOURCE, None, None, ties, system_bits()
    )  # fmt: skip


def people(owner, cell=None, outcome=None, epsilon=2.0) -> Answers:
    owner = np.asarray(owner)
    m = len(owner)
    return Answers(
        np.ones(m, np.int64) if cell is None else np.asarray(cell),
        np.zeros(m, np.uint8) if outcome is None else np.asarray(outcome, np.uint8),
        np.broadcast_to(np.float64(epsilon), m).copy(),
        KEYED_HASH.of_integers(owner.astype(np.int64)),
    )


def test_a_winner_is_the_same_whichever_side_it_stood_on():
    encoded = encode([0, 1, 3, 2], [1, 0, 2, 3], [1, -1, -1, 1], [1.0, 2.0, 3.0, 4.0])
    assert encoded.rows.cell.tolist() == [1, 1, 11, 11]
    assert encoded.rows.outcome.tolist() == [1, 1, 1, 1]
    assert encoded.rows.epsilon.tolist() == [1, 2, 3, 4]
    assert encoded.rejects is None


def test_every_epsilon_stays_with_its_answer_when_rows_are_set_aside():
    encoded = encode(
        [0, 0, 9, 1, 2, 0], [1, 2, 1, 1, 3, 3], [1, 1, 1, 1, 7, -1], [1.0, 9.0, 2.0, 3.0, 3.5, 4.0]
    )
    assert encoded.rows.cell.tolist() == [1, 3]
    assert encoded.rows.epsilon.tolist() == [1.0, 4.0]
    assert encoded.rejects["reason"].to_pylist() == [
        "epsilon is outside epsilon_range",
        "item not in the catalogue",
        "item against itself",
        "outcome is not +1, -1 or 0",
    ]
    assert encoded.rejects.column_names == ["l", "r", "o", "e", "reason"]


def test_ties_are_dropped_or_decided_by_a_fair_coin():
    m = 100_000
    ties = [np.zeros(m, np.int64), np.ones(m, np.int64), np.zeros(m, np.int64), np.ones(m)]
    assert len(encode(*ties, ties=Ties.DROP).rows) == 0
    decided = encode(*ties).rows.outcome
    assert binomial_p_value(int(decided.sum()), m, 0.5) > FALSE_POSITIVE_RATE


def test_a_blob_gives_the_rows_back():
    rows = people([1, 2, 1], [1, 2, 3], [0, 1, 1])
    again = Answers.concatenated([Answers.of_blob(rows.to_blob())] * 2)
    assert again.cell.tolist() == [1, 2, 3, 1, 2, 3]
    np.testing.assert_array_equal(again.owner[:3], rows.owner)
    assert again.outcome.dtype == np.uint8
    assert again.epsilon.dtype == np.float64


def test_all_rows_of_a_person_meet_in_one_partition():
    rows = people(np.arange(1000) % 50)
    seen = {}
    total = 0
    for partition, part in split_by_owner(rows, 8):
        total += len(part)
        for owner in map(tuple, part.owner):
            assert seen.setdefault(owner, partition) == partition
    assert total == 1000
    assert len(set(seen.values())) > 1


def test_per_user_divides_the_epsilon_so_that_the_sum_is_never_above():
    owner = np.repeat(np.arange(60), np.arange(1, 61))
    ((shared, information),) = divide_epsilons([people(owner)])
    _, person = np.unique(shared.owner, axis=0, return_inverse=True)
    sums = [math.fsum(shared.epsilon[person.ravel() == one]) for one in range(60)]
    assert max(sums) <= 2.0
    assert min(sums) > 2.0 - 1e-9
    assert information == information_units(np.nextafter(2.0 / np.arange(1, 61), 0))


def test_a_bound_keeps_that_many_and_divides_among_them():
    owner = np.repeat([1, 2, 3], [1, 5, 20])
    kept = first_answers(people(owner, np.arange(26)), 4, KEYED_HASH)
    shared, _ = divide_epsilons_of_kept(kept, per_user=True)
    assert len(shared) == 1 + 4 + 4
    assert sorted(np.unique(shared.epsilon.round(9))) == [0.5, 2.0]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 3), st.integers(0, 1)), max_size=30))
def test_which_answers_stay_depends_neither_on_order_nor_on_what_was_answered(log):
    owner, cell, outcome = (np.array([row[k] for row in log], np.int64) for k in range(3))

    def kept(order, flip):
        rows = people(owner[order], cell[order], outcome[order] ^ flip)
        stay = first_answers(rows, 2, KEYED_HASH)
        return sorted(zip(stay.owner[:, 0].tolist(), stay.cell.tolist(), strict=True)), stay

    order = np.arange(len(log))
    straight, stay = kept(order, 0)
    back, stay_back = kept(order[::-1], 0)
    flipped, _ = kept(order, 1)
    assert straight == back == flipped
    assert stay.outcome.sum() == stay_back.outcome.sum()


def test_rows_without_owners_cannot_meet():
    rows = Answers(np.ones(1, np.int64), np.zeros(1, np.uint8), np.ones(1))
    for action in (
        rows.to_blob,
        lambda: first_answers(rows, 1, KEYED_HASH),
        lambda: list(split_by_owner(rows, 2)),
    ):
        with pytest.raises(ValueError, match="only answers with owners"):
            action()


def test_coins_come_from_the_bits_that_were_given():
    rows = pa.record_batch({"l": [0] * 64, "r": [1] * 64, "o": [0] * 64, "e": [1.0] * 64})
    catalogue = Catalogue.of_count(N_ITEMS)

    def decided():
        args = (rows, COLUMNS, catalogue, SOURCE, None, None, Ties.RANDOM, seeded_bits(5))
        return encode_answers(*args).rows.outcome

    np.testing.assert_array_equal(decided(), decided())


@st.composite
def people_who_answered(draw) -> Answers:
    """Answers of few people to few pairs with few epsilons, so that copies abound."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    m = draw(st.integers(1, 80))
    return Answers(
        rng.integers(0, 4, m),
        rng.integers(0, 2, m).astype(np.uint8),
        rng.choice([0.5, 1.0], m),
        KeyedHash(bytes(32)).of_integers(rng.integers(0, 5, m)),
    )


def as_counter(rows: Answers) -> Counter:
    columns = (rows.cell, rows.outcome, rows.epsilon, rows.owner[:, 0])
    return Counter(zip(*(column.tolist() for column in columns), strict=True))


def parts_of(rows: Answers, size: int) -> list[Answers]:
    places = np.arange(len(rows))
    return [rows.take(places[start : start + size]) for start in range(0, len(rows), size)]


@given(people_who_answered(), st.integers(1, 20), st.integers(1, 80))
def test_bounding_parts_first_changes_nothing(rows, most, size):
    keyed_hash = KeyedHash(bytes(range(32)))
    whole = first_answers(rows, most, keyed_hash)
    parts = [first_answers(part, most, keyed_hash) for part in parts_of(rows, size)]
    again = first_answers(Answers.concatenated(parts), most, keyed_hash)
    assert as_counter(again) == as_counter(whole)


@given(people_who_answered(), st.integers(1, 20), st.integers(1, 80))
def test_answers_bounded_share_by_share_are_those_bounded_at_once(rows, most, size):
    steps = bound_answers(map(Sifted, parts_of(rows, size)), most, KEYED_HASH)
    for _ in parts_of(rows, size):
        assert next(steps) == Sifted(None)
    with pytest.raises(StopIteration) as end:
        next(steps)
    assert as_counter(end.value.value) == as_counter(first_answers(rows, most, KEYED_HASH))


@given(people_who_answered(), st.integers(1, 80))
def test_shares_of_epsilon_do_not_depend_on_the_parts(rows, size):
    every = first_answers(rows, len(rows), KEYED_HASH)
    together, information = divide_epsilons_of_kept(every, per_user=True)
    parts = list(divide_epsilons(parts_of(rows, size)))
    assert [people for _, people in parts] == [information] + [0] * (len(parts) - 1)
    assert as_counter(Answers.concatenated([part for part, _ in parts])) == as_counter(together)
