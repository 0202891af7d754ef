"""Covariates as they are read: within their bounds whatever a row holds, and turned with it."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushrank.estimation.common.covariates import LEVELS, MOST, STEPS, pack, turned, unpack
from hushrank.transforms.common.catalogue import Catalogue
from hushrank.transforms.common.schema import ComparisonColumns, Feature, InputError, check_schema
from hushrank.transforms.comparisons.covariate_counts import (
    NOT_A_NUMBER,
    NOT_SHOWN,
    clipped,
    covariates_of,
)

CATALOGUE = Catalogue(("ants", "bees", "cats"))


def columns(*features: Feature, first: str | None = None) -> ComparisonColumns:
    return ComparisonColumns(
        left="left", right="right", outcome="outcome", winner=None, user=None, event=None,
        first=first, features=features,
    )  # fmt: skip


def steps_of(batch: pa.RecordBatch, wanted: ComparisonColumns) -> list[list[int]]:
    words = covariates_of(batch, wanted, CATALOGUE).words
    return unpack(words, wanted.n_covariates).tolist()


@given(st.lists(st.lists(st.integers(-STEPS, STEPS), min_size=MOST, max_size=MOST), max_size=20))
def test_a_word_holds_every_covariate_and_turns(rows: list[list[int]]) -> None:
    steps = np.array(rows, np.int8).reshape(-1, MOST)
    for q in (1, 4, MOST):
        words = pack(steps[:, :q])
        np.testing.assert_array_equal(unpack(words, q), steps[:, :q])
        np.testing.assert_array_equal(unpack(turned(words, q), q), -steps[:, :q])
    assert LEVELS**MOST < 2**64


@given(st.floats(), st.floats(1e-9, 1e12))
def test_no_value_leaves_the_bounds(value: float, scale: float) -> None:
    one, other = clipped(np.array([value, -value]), scale).tolist()
    assert abs(one) <= STEPS
    assert other == -one  # a row and the same row written the other way round are one
    if not math.isnan(value) and abs(value) <= scale:
        assert abs(one - STEPS * value / scale) <= 0.5 + 1e-9


def test_differences_are_clipped_after_their_scale() -> None:
    batch = pa.record_batch(
        {"d": [100.0, -400.0, math.inf, 25.0], "a": [3, 0, 10**18, 1], "b": [1, 1, 0, 1]}
    )
    wanted = columns(Feature(column="d", scale=200), Feature(column="a", right="b", scale=4))
    assert steps_of(batch, wanted) == [[32, 32], [-64, -16], [64, 64], [8, 0]]
    texts = pa.record_batch({"d": ["100", " -4e2", "inf", "25.0"], "a": [3, 0, 9, 1], "b": [1] * 4})
    assert [row[0] for row in steps_of(texts, wanted)] == [32, -64, 64, 8]


def test_rows_without_a_number_are_set_aside() -> None:
    batch = pa.record_batch({"d": ["1", "", "long", "nan", None, "-inf"]})
    (rule,) = covariates_of(batch, columns(Feature(column="d", scale=2)), CATALOGUE).rules
    assert rule[0] == NOT_A_NUMBER
    assert rule[1].tolist() == [False, True, True, True, True, False]
    both = pa.record_batch({"a": [math.inf, 1.0], "b": [math.inf, 0.0]})
    wanted = columns(Feature(column="a", right="b", scale=1))
    (rule,) = covariates_of(both, wanted, CATALOGUE).rules
    assert rule[1].tolist() == [True, False]


def test_who_was_shown_first() -> None:
    rows = {"left": ["ants", "bees", "ants"], "right": ["bees", "cats", "cats"]}
    batch = pa.record_batch({**rows, "top": ["ants", "cats", "bees"]})
    found = covariates_of(batch, columns(first="top"), CATALOGUE)
    assert unpack(found.words, 1)[:2, 0].tolist() == [STEPS, -STEPS]
    ((reason, broken),) = found.rules
    assert reason == NOT_SHOWN
    assert broken.tolist() == [False, False, True]
    always = covariates_of(batch, columns(first="left"), CATALOGUE)
    assert unpack(always.words, 1)[:, 0].tolist() == [STEPS] * 3
    assert not always.rules


def test_a_column_of_no_numbers_is_refused() -> None:
    schema = pa.schema(
        {"left": pa.string(), "right": pa.string(), "outcome": pa.int8(), "d": pa.bool_()}
    )
    with pytest.raises(InputError, match=r"column d \(input.features\) has type bool; features"):
        check_schema("a.parquet", schema, columns(Feature(column="d", scale=1)))
    with pytest.raises(InputError, match=r"column e not found.*Set input.features"):
        check_schema("a.parquet", schema, columns(Feature(column="e", scale=1)))
