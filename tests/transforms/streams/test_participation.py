"""Which nights count: the vectorised rule against one person at a time."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushrank.privacy.stream_encoder import Terms
from hushrank.transforms.streams.people_files import (
    BYTES_A_PERSON,
    People,
    distinct,
    take_part,
)

Person = tuple[int, int]
PEOPLE = st.tuples(st.integers(0, 3), st.integers(0, 3))  # so that first words collide
NIGHTS = st.lists(st.sets(PEOPLE), min_size=1, max_size=9)
TERMS = st.builds(Terms, nights=st.just(9), participations=st.integers(1, 4), gap=st.integers(1, 5))


def words(people: list[Person]) -> tuple[np.ndarray, np.ndarray]:
    columns = np.array(people, np.uint64).reshape(-1, 2).T.copy()
    return columns[0], columns[1]


def naive(nights: list[set[Person]], terms: Terms) -> tuple[list[set[Person]], dict]:
    """Who counts on each night; the last night and the number of nights of everybody."""
    counted, state = [], {}
    for night, there in enumerate(nights):
        counted.append(set())
        for person in there:
            last, times = state.get(person, (None, 0))
            if (last is None or night - last >= terms.gap) and times < terms.participations:
                counted[-1].add(person)
                state[person] = (night, times + 1)
    return counted, state


def as_state(people: People) -> dict:
    columns = [column.tolist() for column in people.columns]
    return {(a, b): (last, times) for a, b, last, times in zip(*columns, strict=True)}


@given(NIGHTS, TERMS)
def test_the_rule_is_that_of_one_person_at_a_time(nights, terms):
    expected, state = naive(nights, terms)
    people = People.nobody()
    for night, there in enumerate(nights):
        owners = sorted(there)
        counts, people = take_part(people, words(owners), night, terms)
        assert {owners[i] for i in np.flatnonzero(counts)} == expected[night]
        pairs = list(zip(people.first.tolist(), people.second.tolist(), strict=True))
        assert pairs == sorted(set(pairs))
    assert as_state(people) == state


@given(NIGHTS, TERMS)
def test_nobody_counts_more_often_or_more_closely_than_the_terms_say(nights, terms):
    people, found = People.nobody(), []
    for night, there in enumerate(nights):
        owners = sorted(there)
        counts, people = take_part(people, words(owners), night, terms)
        found += [(owners[i], night) for i in np.flatnonzero(counts)]
    for person in set().union(*nights):
        mine = [night for who, night in found if who == person]
        assert len(mine) <= terms.participations
        assert all(b - a >= terms.gap for a, b in itertools.pairwise(mine))
        assert all(person in nights[night] for night in mine)


@given(NIGHTS, TERMS, PEOPLE)
def test_one_persons_nights_do_not_depend_on_anybody_else(nights, terms, person):
    alone = [there & {person} for there in nights]
    together, _ = naive(nights, terms)
    people = People.nobody()
    for night, there in enumerate(alone):
        counts, people = take_part(people, words(sorted(there)), night, terms)
        assert bool(counts.any()) == (person in together[night])


def test_the_gap_is_counted_from_the_last_night_that_counted():
    """Whoever answers every night counts on every third: not on one, not on blocks of three."""
    people, me = People.nobody(), words([(1, 2)])
    terms = Terms(nights=10, participations=9, gap=3)
    found = []
    for night in range(1, 10):  # from a night on that is no multiple of the gap
        counts, people = take_part(people, me, night, terms)
        found += [night] if counts[0] else []
    assert found == [1, 4, 7]


@given(st.lists(PEOPLE, max_size=30))
def test_distinct_owners_are_sorted_and_numbered(rows):
    found = distinct(words(rows))
    owners = list(zip(found.owners[0].tolist(), found.owners[1].tolist(), strict=True))
    assert owners == sorted(set(rows))
    assert [owners[number] for number in found.number] == rows


def test_parts_are_put_together_again():
    people = People(*words([(0, 1), (2, 0), (2, 3)]), *np.ones((2, 3), np.uint16))
    parts = [people.between(0, 1), people.between(1, 3)]
    assert as_state(People.concatenate(parts)) == as_state(people)
    assert len(People.concatenate([])) == 0


def test_a_state_of_the_same_or_a_later_night_is_refused():
    terms = Terms(nights=9, participations=2, gap=1)
    _, people = take_part(People.nobody(), words([(1, 2)]), 4, terms)
    for night in (3, 4):
        with pytest.raises(ValueError, match=f"not from before night {night}"):
            take_part(people, words([]), night, terms)
    with pytest.raises(ValueError, match="between 0 and 8"):
        take_part(people, words([]), 9, terms)


def test_a_person_takes_twenty_bytes():
    _, people = take_part(
        People.nobody(), words([(n, 0) for n in range(1000)]), 0,
        Terms(nights=1, participations=1, gap=1),
    )  # fmt: skip
    assert sum(column.nbytes for column in people.columns) == 1000 * BYTES_A_PERSON
