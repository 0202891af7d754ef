"""Which rows count where squares are counted: the vectorised meter against one person at a time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushrank.privacy.stream_encoder import SquareTerms
from hushrank.transforms.streams.people_files import (
    BYTES_A_PERSON,
    People,
    carry_people,
    finish_people,
    write_shard,
)
from hushrank.transforms.streams.square_meter import SquareMeter
from tests.transforms.streams.test_row_meter import NIGHTS, PEOPLE, ROWS, owned


@st.composite
def terms(draw) -> SquareTerms:
    squares = draw(st.integers(2, 40))
    return SquareTerms(
        nights=NIGHTS, squares=squares, gap=draw(st.integers(1, 5)),
        burst=draw(st.integers(1, squares)),
    )  # fmt: skip


def metered(people: People, night: int, terms: SquareTerms, rows: list) -> tuple[list, People]:
    """The rows that count, of rows that are in the order in which they were chosen."""
    meter = SquareMeter(people, night, terms)
    meter.begin()
    kept = owned(rows)
    kept = kept.filter(meter.apart(kept.owner_words, kept.short_pair))
    kept = kept.filter(meter.admit(kept.owner_words, kept.short_pair))
    owners = zip(*(words.tolist() for words in kept.owner_words), strict=True)
    compared = kept.comparisons()
    pairs = zip(compared.left.tolist(), compared.right.tolist(), strict=True)
    return list(zip(owners, pairs, strict=True)), meter.after


def naive(nights: list[list], terms: SquareTerms) -> tuple[list[list], list[dict]]:
    """The rows that count on each night, and squares used after it, one person at a time."""
    found: list[list] = []
    states: list[dict] = []
    used: dict = {}
    last: dict = {}
    for night, rows in enumerate(nights):
        found.append([])
        allowed = terms.burst + (terms.squares - terms.burst) * night // (NIGHTS - 1)
        for person in sorted({person for person, _ in rows}):
            if night - last.get(person, -terms.gap) < terms.gap:
                continue
            mine = [each for each in rows if each[0] == person]
            counted = 0
            while counted < len(mine):
                more = counted + 1
                if used.get(person, 0) + more * more + more > allowed:
                    break
                counted = more
            if counted:
                found[-1] += mine[:counted]
                used[person] = used.get(person, 0) + counted * counted + counted
                last[person] = night
        states.append({person: (used[person], last[person]) for person in used})
    return found, states


@given(ROWS, terms())
def test_the_rule_and_the_state_are_those_of_one_person_at_a_time(nights, terms):
    ordered = [sorted(rows) for rows in nights]
    people = People.nobody()
    rows, states = naive(ordered, terms)
    for night, expected in enumerate(rows):
        found, people = metered(people, night, terms, ordered[night])
        assert found == expected
        words = list(zip(people.first.tolist(), people.second.tolist(), strict=True))
        state = zip(people.times.tolist(), people.last.tolist(), strict=True)
        assert dict(zip(words, state, strict=True)) == states[night]
        assert words == sorted(set(words))
        assert people.recent is None


@given(ROWS, terms(), PEOPLE)
def test_one_persons_rows_do_not_depend_on_anybody_else(nights, terms, person):
    ordered = [sorted(rows) for rows in nights]
    together, _ = naive(ordered, terms)
    people = People.nobody()
    for night, rows in enumerate(ordered):
        alone, people = metered(people, night, terms, [each for each in rows if each[0] == person])
        assert alone == [each for each in together[night] if each[0] == person]


def test_a_refill_is_that_of_the_terms():
    terms = SquareTerms(nights=9, squares=12, gap=1, burst=2, refill=0.5)
    people, counted = People.nobody(), []
    for night in range(9):
        found, people = metered(people, night, terms, [((2, 9), (0, 1))])
        counted.append(len(found))
    assert counted == [1, 0, 0, 0, 1, 0, 0, 0, 1]  # 2 squares a row, half a square a night


def test_files_and_a_night_without_rows_keep_who_used_what(tmp_path):
    terms = SquareTerms(nights=9, squares=8, gap=3, burst=8)
    rows = [((2, 9), (1, 2)), ((2, 9), (0, 1))]
    _, people = metered(People.nobody(), 0, terms, rows)
    assert people.times.tolist() == [6]
    shard = write_shard(str(tmp_path), 0, "a", 0, 0, people)
    first = finish_people(str(tmp_path), "s", 0, "a", [shard], "")
    carried = carry_people(str(tmp_path), "s", 1, "b", first.digest).partition(0, 0)
    for mine, other in zip(carried.columns, people.columns, strict=True):
        assert mine.dtype == other.dtype
        np.testing.assert_array_equal(mine, other)
    assert carried.recent is None
    assert metered(carried, 2, terms, rows)[0] == []  # too near
    found, after = metered(carried, 3, terms, rows)
    assert found == rows[:1]  # 2 squares are left
    assert metered(after, 6, terms, rows)[0] == []
    assert sum(column.nbytes for column in after.columns) == BYTES_A_PERSON


def test_a_night_on_which_nothing_is_left_leaves_no_trace():
    terms = SquareTerms(nights=9, squares=4, gap=2, burst=2)
    row = [((2, 9), (1, 2))]
    _, people = metered(People.nobody(), 0, terms, row)
    found, after = metered(people, 4, terms, row)  # the allowance is 3 by now
    assert found == []
    assert (after.last.tolist(), after.times.tolist()) == ([0], [2])


def test_a_meter_is_used_once_and_in_order():
    terms = SquareTerms(nights=9, squares=6, gap=3, burst=6)
    rows = owned([((2, 9), (1, 2))])
    meter = SquareMeter(People.nobody(), 4, terms)
    meter.begin()
    with pytest.raises(ValueError, match="were not metered"):
        _ = meter.after
    meter.admit(rows.owner_words, rows.short_pair)
    with pytest.raises(ValueError, match="metered before"):
        meter.admit(rows.owner_words, rows.short_pair)
    with pytest.raises(ValueError, match="not from before night 4"):
        SquareMeter(meter.after, 4, terms)
