"""Votes of people on whether their rows fit: who votes, once, and how far one person moves them."""

from __future__ import annotations

from itertools import combinations_with_replacement, product

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushrank.privacy.keyed_hash import KeyedHash
from hushrank.privacy.pilot_query import votes_sensitivity
from hushrank.privacy.units import Adjacency, PrivacyParams, Unit
from hushrank.transforms.common.catalogue import Catalogue
from hushrank.transforms.common.encode import encode_comparisons
from hushrank.transforms.common.schema import ComparisonColumns, Ties
from hushrank.transforms.comparisons.shuffle import OwnedRows, own
from hushrank.transforms.comparisons.votes import (
    Votes,
    refusals,
    votes_of,
    without_refusals,
)

KEYED_HASH = KeyedHash(bytes(range(32)))
COLUMNS = ComparisonColumns(
    left="a", right="b", outcome="y", winner=None, user="who", event=None, words=None
)
FIT, UNFIT, TIE = ("x", "y", 1), ("x", "nobody knows it", 1), ("x", "y", 0)
WORDLESS = ("x", "y", 7)  # does not fit either, and both of its items are listed
Row = tuple[str | None, str, str, int]  # whose, and the row


def sent(rows: list[Row], ties: Ties = Ties.DROP, key: KeyedHash = KEYED_HASH) -> OwnedRows:
    """What a reader sends of these rows: comparisons and refusals."""
    names = ("who", "a", "b", "y")
    types = (pa.string(), pa.string(), pa.string(), pa.int8())
    columns = list(zip(*rows, strict=True)) or [()] * 4
    batch = pa.record_batch(
        [pa.array(column, type_) for column, type_ in zip(columns, types, strict=True)], names
    )
    found = encode_comparisons(batch, COLUMNS, Catalogue(("x", "y")), key)
    return OwnedRows.concatenate(
        [own(found.rows, ties, key), refusals(found.rejects, COLUMNS, key)]
    )


def by_hand(rows: list[Row]) -> tuple[int, int, int]:
    """Person by person."""
    voted = {"fit": 0, "unfit": 0, "unlisted": 0}
    for person in {whose for whose, *_ in rows if whose}:
        mine = [tuple(row) for whose, *row in rows if whose == person and tuple(row) != TIE]
        if mine:
            refused = sum(row in (UNFIT, WORDLESS) for row in mine)
            voted["unlisted"] += UNFIT in mine
            voted["fit" if 2 * refused <= len(mine) else "unfit"] += 1
    return voted["fit"], voted["unfit"], voted["unlisted"]


logs = st.lists(
    st.builds(
        lambda whose, row: (whose, *row),
        st.sampled_from(["ann", "bob", "cy", "", None]),
        st.sampled_from([FIT, UNFIT, WORDLESS, TIE]),
    ),
    max_size=30,
)


@given(logs, st.integers(1, 5))
def test_each_person_votes_once_by_most_of_their_rows(rows, size):
    whole = sent(rows)
    pieces = [
        whole.take(np.arange(k, min(k + size, len(whole)))) for k in range(0, len(whole), size)
    ]
    votes = votes_of(pieces)
    assert (votes.fit, votes.unfit, votes.unlisted) == by_hand(rows)
    kept = without_refusals(whole)
    assert len(kept) + votes.refusals == len(whole)
    assert votes_of([kept]).refusals == 0


def test_owners_that_share_bits_vote_apart():
    words = np.zeros((3, 4), np.uint64)
    words[0] = [7, 7, 7, 8]  # the same first word
    words[1] = [1, 2, 1, 1]
    words[2] = [3, 3, 7, 3]  # refusals, one of them of an unlisted item
    assert votes_of([OwnedRows(words)]) == Votes(0, 3, 1, 4)


def test_nobody_votes_on_no_rows():
    assert votes_of([]) == votes_of([sent([])]) == Votes(0, 0, 0, 0)


def bundles(person: str, most: int) -> list[list[Row]]:
    """All that a person can contribute with at most so many rows; none included."""
    return [
        [(person, *row) for row in chosen]
        for size in range(most + 1)
        for chosen in combinations_with_replacement([FIT, UNFIT, WORDLESS, TIE], size)
    ]


@pytest.mark.parametrize("unlisted", [False, True])
@pytest.mark.parametrize("adjacency", Adjacency)
def test_the_sensitivity_is_the_largest_change_over_all_small_inputs(adjacency, unlisted):
    params = PrivacyParams(
        unit=Unit.USER, adjacency=adjacency, epsilon=1.0, max_contributions=1, look=0.1,
        look_unlisted=unlisted,
    )  # fmt: skip
    largest = {"l1": 0, "l2": 0}
    for others in product(bundles("ann", 1), bundles("bob", 1)):
        rest = [row for bundle in others for row in bundle]
        with_person = [
            by_votes([*rest, *bundle])[: 2 + unlisted] for bundle in bundles("zoe", 2) if bundle
        ]
        if adjacency is Adjacency.ADD_REMOVE:
            alone = by_votes(rest)[: 2 + unlisted]
            changes = [votes - alone for votes in with_person]
        else:
            changes = [one - other for one in with_person for other in with_person]
        for change in changes:
            largest["l1"] = max(largest["l1"], int(np.abs(change).sum()))
            largest["l2"] = max(largest["l2"], int((change**2).sum()))
    stated = votes_sensitivity(params)
    assert (stated.l1, stated.l2_squared) == (largest["l1"], largest["l2"])


def by_votes(rows: list[Row]) -> np.ndarray:
    votes = votes_of([sent(rows)])
    return np.array([votes.fit, votes.unfit, votes.unlisted])
