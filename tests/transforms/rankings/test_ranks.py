"""Ranks compare as the numbers that were written, also where a float64 would round them."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushrank.privacy.keyed_hash import KEY_BYTES, KeyedHash
from hushrank.transforms.common.catalogue import Catalogue
from hushrank.transforms.common.epsilons import EpsilonSource
from hushrank.transforms.rankings.ranking_columns import RankColumns, ranks_of, words_of_ranks
from hushrank.transforms.rankings.rankings import assemble, encode_ranks

TYPES = {pa.int64(): (-(2**63), 2**63 - 1), pa.uint64(): (0, 2**64 - 1)}


def ranks_as_fractions(column: pa.Array) -> list[Fraction | None]:
    high, low, null = ranks_of(column)
    assert null.tolist() == column.is_null().to_pylist()
    return [
        Fraction(one) + int(other) if math.isfinite(one) else None
        for one, other in zip(high.tolist(), low.tolist(), strict=True)
    ]


@pytest.mark.parametrize("type_", TYPES, ids=str)
@given(values=st.data())
def test_integers_of_64_bits_are_exact(type_, values):
    low, high = TYPES[type_]
    near = st.sampled_from([low, high, 2**53 - 1, 2**53, 2**53 + 1, 1_763_600_000_123_456_789])
    ranks = values.draw(st.lists(st.none() | near | st.integers(low, high), min_size=1))
    column = pa.array(ranks, type_)
    assert ranks_as_fractions(column) == ranks
    text = pa.array([None if rank is None else f" {rank} " for rank in ranks], pa.string())
    exact = [rank if rank is None or abs(rank) < 9 * 10**18 else ... for rank in ranks]
    for found, rank in zip(ranks_as_fractions(text), exact, strict=True):
        assert rank is ... or found == rank


FINITE = st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(st.sampled_from([-0.0, 0.0, 5e-324, 1.0, 2.0, 1.7e18]) | FINITE))
def test_words_compare_as_the_numbers_do(numbers):
    words = words_of_ranks(np.array(numbers, np.float64)).tolist()
    for one, number in zip(words, numbers, strict=True):
        assert [one < other for other in words] == [number < other for other in numbers]


@given(st.lists(st.floats() | st.integers(-(2**63), 2**63 - 1), min_size=2, max_size=2))
def test_integers_compare_with_floats_as_numbers_do(pair):
    keys, true = [], []
    for value in pair:
        type_ = pa.int64() if isinstance(value, int) else pa.float64()
        high, low, _ = ranks_of(pa.array([value], type_))
        if not math.isfinite(value):
            assert not math.isfinite(high[0])
            return
        keys.append((high[0], low[0]))
        true.append(Fraction(value))
    assert (keys[0] < keys[1]) == (true[0] < true[1])
    assert (keys[0] == keys[1]) == (true[0] == true[1])


def test_texts_that_are_no_number_have_no_rank():
    column = pa.array(["1", "x", None, "2.5", "nan", "9007199254740993"]).dictionary_encode()
    assert ranks_as_fractions(column) == [1, None, None, Fraction(5, 2), None, 9007199254740993]


def test_a_ranking_by_times_in_nanoseconds_is_in_their_order():
    times = 1_763_600_000_000_000_000 + np.array([300, 2, 1, 0])  # one float64 holds the last three
    columns = RankColumns(user="user", item="item", rank="rank")
    batch = pa.record_batch({"user": [7] * 4, "item": range(4), "rank": times})
    epsilons = EpsilonSource(low=0.1, high=9.0, value=1.0)
    keyed_hash = KeyedHash(bytes(KEY_BYTES))
    catalogue = Catalogue.of_count(4)
    pieces = encode_ranks(batch, columns, catalogue, epsilons, None, keyed_hash).rows
    found = assemble(pieces, catalogue, 4, keep_ties=False)
    assert found.rejects is None
    assert found.rows.items.tolist() == [3, 2, 1, 0]
