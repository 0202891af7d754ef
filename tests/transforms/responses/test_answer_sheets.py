"""Answer sheets: one answer an item, at most K a person, chosen uniformly and in secret."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from hushrank.privacy.keyed_hash import KeyedHash
from hushrank.transforms.common.catalogue import Catalogue
from hushrank.transforms.common.sorting import InSlices
from hushrank.transforms.responses.answer_sheets import (
    MAX_ITEMS,
    Duplicates,
    Responses,
    answers_in,
    blobs_by_person,
    bound_sheets,
    item_numbers,
    responses_of_blob,
)

N_ITEMS = 6
ITEMS = Catalogue.of_count(N_ITEMS)
FALSE_POSITIVE_RATE = 1e-6
HASH = KeyedHash(bytes(range(32)))
PEOPLE = {tuple(owner): number for number, owner in enumerate(HASH.of_integers(np.arange(400)))}

Row = tuple[int, int, int, int]  # person, item, correct, order
ROWS = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, N_ITEMS - 1), st.integers(0, 1), st.integers(0, 2)),
    min_size=1,
    max_size=40,
)


def answers_of(rows: list[Row], *, ordered: bool = True) -> Responses:
    """One run a row: a person stands in `owner` as often as they answered."""
    person, item, correct, order = np.array(rows, np.int64).T
    owner = HASH.of_integers(person.copy())
    places = np.arange(len(rows))
    return Responses(
        owner, places, item, correct.astype(np.uint8), order.copy() if ordered else None
    )


def sheets_of(rows, max_answers=N_ITEMS, duplicates=Duplicates.FIRST, *, key=HASH, ordered=True):
    """Kept rows as a set of (person, item, correct); refused items and answers; the tally."""
    (blob,) = (blob for _, blob in blobs_by_person(answers_of(rows, ordered=ordered), N_ITEMS, 1))
    kept, refused, tally = bounded([blob], max_answers, duplicates, key)
    return _as_set(kept), refused, tally


def bounded(blobs, max_answers, duplicates, key=HASH, *, n_slices=1, blind=False):
    """What is kept; items and answers that were refused; the tally."""
    sizes = [answers_in(blob) for blob in blobs]
    most = -(-max(sum(sizes), 1) // n_slices)
    shares = InSlices(sizes, lambda k: responses_of_blob(blobs[k]), most, item_numbers)
    refused, tally = Counter(), Counter()
    steps = bound_sheets(shares, ITEMS, max_answers, duplicates, key, blind=blind)
    while True:
        try:
            found = next(steps)
        except StopIteration as end:
            return end.value, refused, dict(tally)
        tally.update(found.tally)
        if found.rejects is not None:
            refused.update((row["item"], row["correct"]) for row in found.rejects.to_pylist())


def _as_set(answers: Responses) -> set[tuple[int, int, int]]:
    person = [PEOPLE[tuple(owner)] for owner in answers.owner[answers.person]]
    found = list(zip(person, answers.item.tolist(), answers.correct.tolist(), strict=True))
    return set(found)


def expected(rows: list[Row], duplicates: Duplicates) -> set[tuple[int, int, int]]:
    """The rule, row by row."""
    kept = set()
    for key in {row[:2] for row in rows}:
        mine = [row for row in rows if row[:2] == key]
        if duplicates is Duplicates.REFUSE:
            candidates = mine
            clear = len(mine) == 1
        else:
            pick = min if duplicates is Duplicates.FIRST else max
            place = pick(row[3] for row in mine)
            candidates = [row for row in mine if row[3] == place]
            clear = len({row[2] for row in candidates}) == 1
        if clear:
            kept.add((*key, candidates[0][2]))
    return kept


@given(ROWS, st.sampled_from(Duplicates))
def test_which_of_several_answers_counts_follows_the_rule(rows, duplicates):
    kept, refused, tally = sheets_of(rows, duplicates=duplicates)
    assert kept == expected(rows, duplicates)
    counts = {row[:2] for row in kept}
    rest = [(ITEMS.names[row[1]], row[2]) for row in rows if row[:2] not in counts]
    assert refused == Counter(rest)
    counted = tally["answers_kept"] + tally["refused_answers"] + tally["repeated_answers"]
    assert counted == tally["answers_with_person"] == len(rows)


@given(ROWS, st.integers(1, 4), st.integers(1, 5), st.randoms(use_true_random=False))
def test_sheets_do_not_depend_on_order_batches_or_partitions(rows, max_answers, parts, shuffler):
    whole, _, _ = sheets_of(rows, max_answers, Duplicates.LAST)
    shuffled = list(rows)
    shuffler.shuffle(shuffled)
    blobs: dict[int, list[bytes]] = {}
    for part in range(parts):
        share = shuffled[part::parts]
        if share:
            for partition, blob in blobs_by_person(answers_of(share), N_ITEMS, 4):
                blobs.setdefault(partition, []).append(blob)
    found = [_as_set(bounded(mine, max_answers, Duplicates.LAST)[0]) for mine in blobs.values()]
    assert set.union(*found) == whole
    assert sum(map(len, found)) == len(whole)


def test_every_set_of_k_items_is_as_likely_as_any_other():
    """15 sets of 4 of 6 items, 400 people and 20 keys."""
    rows = [(person, item, 1, 0) for person in range(400) for item in range(N_ITEMS)]
    sets: dict[frozenset[int], int] = {}
    for number in range(20):
        kept, _, _ = sheets_of(rows, 4, key=KeyedHash(bytes([number] * 32)))
        items: dict[int, set[int]] = {}
        for person, item, _ in kept:
            items.setdefault(person, set()).add(item)
        for chosen in items.values():
            sets[frozenset(chosen)] = sets.get(frozenset(chosen), 0) + 1
    assert len(sets) == 15
    assert sum(sets.values()) == 8000
    assert chisquare(list(sets.values())).pvalue > FALSE_POSITIVE_RATE
    planted = np.array(list(sets.values())) * 9 // 10
    planted[0] += 800  # a tenth of the people keep the same four
    assert chisquare(planted, [planted.sum() / 15] * 15).pvalue < FALSE_POSITIVE_RATE


def test_nobody_keeps_more_than_k_and_nobody_with_less_loses_any():
    rows = [(person, item, 0, 0) for person in range(5) for item in range(person + 1)]
    kept, _, tally = sheets_of(rows, 3)
    counts = [sum(1 for row in kept if row[0] == person) for person in range(5)]
    assert counts == [1, 2, 3, 3, 3]
    assert (tally["people"], tally["answers_kept"]) == (5, 12)


def test_people_who_share_64_bits_of_their_pseudonym_stay_apart():
    owner = np.array([[1, 5], [1, 3], [1, 5]], np.uint64)
    item, correct = np.array([0, 1, 2]), np.array([1, 0, 0], np.uint8)
    answers = Responses(owner, np.arange(3), item, correct)
    (blob,) = (blob for _, blob in blobs_by_person(answers, N_ITEMS, 1))
    kept = bounded([blob], 6, Duplicates.REFUSE)[0]
    assert kept.owner.tolist() == [[1, 3], [1, 5]]
    assert kept.person.tolist() == [0, 1, 1]
    assert kept.item.tolist() == [1, 0, 2]


def test_first_needs_an_order():
    with pytest.raises(ValueError, match="duplicates: first needs answers with an order"):
        sheets_of([(0, 0, 1, 0), (0, 0, 0, 0)], ordered=False)


def test_more_items_than_fit_into_the_shuffle_are_refused():
    with pytest.raises(ValueError, match=r"^n_items must be at most 32768, got 32769$"):
        next(blobs_by_person(answers_of([(0, 0, 1, 0)]), MAX_ITEMS + 1, 1))


@pytest.mark.parametrize("duplicates", [Duplicates.FIRST, Duplicates.LAST])
def test_blind_to_who_was_right_the_same_items_count(duplicates):
    """Items kept are no secret under local privacy, so answers must not decide which they are."""

    def items_kept(second: int, *, blind: bool) -> list[int]:
        person, item = np.zeros(3, np.int64), np.array([0, 0, 1])
        correct, order = np.array([1, second, 1], np.uint8), np.array([5, 5, 6])
        answers = Responses(np.ones((1, 2), np.uint64), person, item, correct, order)
        blobs = [blob for _, blob in blobs_by_person(answers, N_ITEMS, 1)]
        return bounded(blobs, 2, duplicates, blind=blind)[0].item.tolist()

    assert items_kept(1, blind=True) == items_kept(0, blind=True) == [1]
    assert items_kept(1, blind=False) == [0, 1] != items_kept(0, blind=False)


@given(
    st.lists(ROWS, min_size=1, max_size=4),
    st.integers(1, 4),
    st.integers(1, 6),
    st.sampled_from(Duplicates),
    st.booleans(),
)
def test_a_crowd_that_is_bounded_in_shares_keeps_and_refuses_the_same(
    parts, n_slices, max_answers, duplicates, blind
):
    blobs = [blob for rows in parts for _, blob in blobs_by_person(answers_of(rows), N_ITEMS, 1)]
    assert sum(map(answers_in, blobs)) == sum(map(len, parts))
    kept, *whole = bounded(blobs, max_answers, duplicates, blind=blind)
    kept_in_shares, *found = bounded(blobs, max_answers, duplicates, n_slices=n_slices, blind=blind)
    assert found == whole
    assert _as_set(kept_in_shares) == _as_set(kept)


def test_the_smallest_epsilon_of_a_person_counts():
    owner = np.array([[5, 5], [1, 1], [5, 5]], np.uint64)
    answers = Responses(
        owner,
        np.array([0, 1, 2]),
        np.array([0, 0, 1]),
        np.ones(3, np.uint8),
        level=np.array([3, 2, 1]),
    )
    whole = {
        int(word): level
        for _, blob in blobs_by_person(answers, 2, 1)
        for word, level in zip(
            responses_of_blob(blob).owner[:, 0], responses_of_blob(blob).level, strict=True
        )
    }
    assert whole == {1: 2, 5: 1}
    assert Responses.concatenated([answers, answers]).level.tolist() == [3, 2, 1] * 2
