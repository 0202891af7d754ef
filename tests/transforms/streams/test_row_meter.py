"""Which rows count: the vectorised meter against one person at a time."""

from __future__ import annotations

import io

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushrank.privacy.stream_encoder import RowTerms
from hushrank.transforms.common.encode import Comparisons
from hushrank.transforms.common.schema import Ties
from hushrank.transforms.comparisons.shuffle import OwnedRows, own
from hushrank.transforms.streams.people_files import (
    BYTES_A_PERSON,
    People,
    carry_people,
    finish_people,
    write_shard,
)
from hushrank.transforms.streams.row_meter import RowMeter

NIGHTS = 9
Row = tuple[tuple[int, int], int, int]  # person, lower item, higher item
PEOPLE = st.tuples(st.integers(0, 3), st.integers(0, 3))  # so that first words collide
ITEMS = st.sampled_from([(0, 1), (0, 2), (1, 2), (2, 3)])
ROWS = st.lists(st.sets(st.tuples(PEOPLE, ITEMS), max_size=12), min_size=1, max_size=NIGHTS)


@st.composite
def terms(draw) -> RowTerms:
    rows = draw(st.integers(1, 8))
    return RowTerms(
        nights=NIGHTS, rows=rows, gap=draw(st.integers(1, 5)), burst=draw(st.integers(1, rows))
    )


def owned(rows: list) -> OwnedRows:
    people = np.array([person for person, _ in rows], np.uint64).reshape(-1, 2)
    items = np.array([pair for _, pair in rows], np.int32).reshape(-1, 2)
    outcome = np.ones(len(rows), np.int8)
    return own(Comparisons(items[:, 0], items[:, 1], outcome, user=people), Ties.DROP, None)


def metered(people: People, night: int, terms: RowTerms, rows: list) -> tuple[list, People]:
    """The rows that count, of rows that are in the order in which they were chosen."""
    meter = RowMeter(people, night, terms)
    meter.begin()
    kept = owned(rows)
    kept = kept.filter(meter.apart(kept.owner_words, kept.short_pair))
    kept = kept.filter(meter.admit(kept.owner_words, kept.short_pair))
    owners = zip(*(words.tolist() for words in kept.owner_words), strict=True)
    compared = kept.comparisons()
    pairs = zip(compared.left.tolist(), compared.right.tolist(), strict=True)
    return list(zip(owners, pairs, strict=True)), meter.after


def naive(nights: list[list], terms: RowTerms) -> list[list]:
    """The rows that count on each night, one person and one row at a time."""
    found: list[list] = []
    used: dict = {}
    last: dict = {}
    for night, rows in enumerate(nights):
        found.append([])
        for person, pair in rows:
            if night - last.get((person, pair), -terms.gap) < terms.gap:
                continue
            allowed = terms.burst + (terms.rows - terms.burst) * night // (NIGHTS - 1)
            if used.get(person, 0) < allowed:
                found[-1].append((person, pair))
                used[person] = used.get(person, 0) + 1
                last[person, pair] = night
    return found


@given(ROWS, terms())
def test_the_rule_is_that_of_one_row_at_a_time(nights, terms):
    ordered = [sorted(rows) for rows in nights]
    people = People.nobody()
    for night, expected in enumerate(naive(ordered, terms)):
        found, people = metered(people, night, terms, ordered[night])
        assert found == expected
        words = list(zip(people.first.tolist(), people.second.tolist(), strict=True))
        assert words == sorted(set(words))


@given(ROWS, terms())
def test_the_state_holds_what_was_used_and_no_older_pair(nights, terms):
    ordered, people = [sorted(rows) for rows in nights], People.nobody()
    counted: list = []
    for night, rows in enumerate(ordered):
        found, people = metered(people, night, terms, rows)
        counted += [(*each, night) for each in found]
        used = dict(zip(zip(people.first.tolist(), people.second.tolist(), strict=True),
                        people.times.tolist(), strict=True))  # fmt: skip
        everybody = {person for person, _, _ in counted}
        assert used == {who: sum(who == each[0] for each in counted) for who in everybody}
        recent = [each for each in counted if night + 1 - each[2] < terms.gap]
        assert people.recent is not None
        assert len(people.recent.pairs) == len(recent)
        assert all(used[who] <= terms.rows for who in used)


@given(ROWS, terms(), PEOPLE)
def test_one_persons_rows_do_not_depend_on_anybody_else(nights, terms, person):
    ordered = [sorted(rows) for rows in nights]
    together = naive(ordered, terms)
    people = People.nobody()
    for night, rows in enumerate(ordered):
        alone, people = metered(people, night, terms, [each for each in rows if each[0] == person])
        assert alone == [each for each in together[night] if each[0] == person]


def test_parts_and_files_give_the_same_people(tmp_path):
    terms = RowTerms(nights=9, rows=5, gap=4, burst=5)
    rows = [((5, 1), (0, 1)), ((5, 1), (0, 2)), ((2, 9), (1, 2)), (((1 << 64) - 1, 0), (0, 1))]
    _, people = metered(People.nobody(), 0, terms, sorted(rows))
    again = People.concatenate([people.between(0, 1), people.between(1, 3)])
    place = (str(tmp_path), "s", 0)
    shard = write_shard(str(tmp_path), 0, "a", 0, 0, people)
    stored = finish_people(*place, "a", [shard], "").partition(0, 0)
    for found in (again, stored):
        assert found.recent is not None
        assert people.recent is not None
        for mine, other in zip(
            (*found.columns, found.recent.sizes, found.recent.pairs, found.recent.nights),
            (*people.columns, people.recent.sizes, people.recent.pairs, people.recent.nights),
            strict=True,
        ):
            assert mine.dtype == other.dtype
            np.testing.assert_array_equal(mine, other)


def test_a_night_without_rows_keeps_who_used_what(tmp_path):
    terms = RowTerms(nights=9, rows=2, gap=3, burst=2)
    row = ((2, 9), (1, 2))
    _, people = metered(People.nobody(), 0, terms, [row])
    shard = write_shard(str(tmp_path), 0, "a", 0, 0, people)
    first = finish_people(str(tmp_path), "s", 0, "a", [shard], "")
    carried = carry_people(str(tmp_path), "s", 1, "b", first.digest).partition(0, 0)
    assert metered(carried, 2, terms, [row])[0] == []
    found, after = metered(carried, 3, terms, [row])
    assert found == [row]
    assert metered(after, 6, terms, [row])[0] == []  # both rows are used
    assert metered(after, 6, terms, [((2, 9), (0, 1))])[0] == []


def test_the_state_takes_15_bytes_a_person_and_6_a_pair(tmp_path):
    n, each = 50_000, 3
    rng = np.random.default_rng(1)
    terms = RowTerms(nights=9, rows=5, gap=4, burst=5)
    words = rng.integers(0, 1 << 63, (n, 2), np.int64).astype(np.uint64)
    words[:, 0] += words[:, 0]
    who = np.repeat(words[np.argsort(words[:, 0])], each, axis=0)
    pair = np.tile([[0, 1], [0, 2], [1, 2]], (n, 1)).astype(np.int32)
    compared = Comparisons(pair[:, 0], pair[:, 1], np.ones(n * each, np.int8), user=who)
    meter = RowMeter(People.nobody(), 0, terms)
    rows = own(compared, Ties.DROP, None)
    meter.admit(rows.owner_words, rows.short_pair)
    people = meter.after
    assert len(people) == n
    shard = write_shard(str(tmp_path), 0, "a", 0, 0, people)
    (path,) = tmp_path.rglob(f"*{shard.digest}.parquet")
    assert path.stat().st_size < n * (16 + 6 * each) + 2_000
    recent = people.recent
    assert recent is not None
    assert sum(column.nbytes for column in people.columns) == n * BYTES_A_PERSON
    assert recent.pairs.nbytes + recent.nights.nbytes == 6 * n * each
    assert pq.read_table(io.BytesIO(path.read_bytes())).num_rows == n


def test_a_meter_is_used_once_and_in_order():
    terms = RowTerms(nights=9, rows=2, gap=3, burst=2)
    rows = owned([((2, 9), (1, 2))])
    meter = RowMeter(People.nobody(), 4, terms)
    meter.begin()
    with pytest.raises(ValueError, match="were not metered"):
        _ = meter.after
    meter.admit(rows.owner_words, rows.short_pair)
    with pytest.raises(ValueError, match="metered before"):
        meter.admit(rows.owner_words, rows.short_pair)
    with pytest.raises(ValueError, match="not from before night 4"):
        RowMeter(meter.after, 4, terms)
    with pytest.raises(ValueError, match="between 0 and 8"):
        RowMeter(People.nobody(), 9, terms)
