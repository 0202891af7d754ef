"""Rows of private answers to random pairs: written, read back, and refused by rule."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from hushrank.privacy.random_pairs import Hide, RandomPairs, law_of_epsilon
from hushrank.privacy.randomness import seeded_bits
from hushrank.transforms.common.catalogue import Catalogue
from hushrank.transforms.common.epsilons import EpsilonSource
from hushrank.transforms.rankings.pair_answers import (
    HALF_AN_ANSWER,
    ITSELF,
    NO_LENGTH,
    NO_OUTCOME,
    NOT_SO_MANY,
    TWICE,
    answer_rankings,
    encode_pair_answers,
    table_of_answers,
)
from hushrank.transforms.rankings.ranking_columns import PairColumns
from hushrank.transforms.rankings.rankings import TOO_LONG, Rankings

NAMES = Catalogue(("ants", "bees", "cats", "dogs"))


def columns_of(law: RandomPairs) -> PairColumns:
    length = None if law.hide is Hide.ITEMS else "length"
    return PairColumns(
        left="left", right="right", outcome="outcome", length=length, pairs=law.pairs
    )


def same(law: RandomPairs) -> EpsilonSource:
    """One epsilon for all rows."""
    return EpsilonSource(low=law.epsilon, high=law.epsilon, value=law.epsilon)


def answered(law: RandomPairs) -> tuple[Rankings, Any]:
    items = np.array([2, 0, 1, 3, 1, 3, 0, 3, 2])
    rankings = Rankings(items, np.array([4, 2, 1, 2, 0]), np.full(5, law.epsilon))
    return rankings, answer_rankings(rankings, 4, law, seeded_bits(1))


@pytest.mark.parametrize("as_text", [True, False])
@pytest.mark.parametrize("hide", Hide)
@pytest.mark.parametrize("pairs", [1, 3])
def test_rows_are_read_as_they_were_written(pairs: int, hide: Hide, as_text: bool) -> None:
    law = law_of_epsilon(2.0, pairs, hide)
    catalogue = NAMES if as_text else Catalogue(("0", "1", "2", "3"))
    _, answers = answered(law)
    table = table_of_answers(answers, columns_of(law), catalogue, as_text=as_text)
    assert table.column_names == [*columns_of(law).names()] or set(table.column_names) == set(
        columns_of(law).names()
    )
    (batch,) = table.to_batches()
    found = encode_pair_answers(batch, columns_of(law), catalogue, [law], 4, same(law))
    assert found.rejects is None
    answering = np.bincount(answers.ranking, minlength=5) > 0  # the others have no row
    assert answering.tolist() == (
        [True] * 5 if hide is Hide.ITEMS else [True, True, False, True, False]
    )
    np.testing.assert_array_equal(found.rows[0].lengths, answers.lengths[answering])
    numbers = np.cumsum(answering) - 1
    np.testing.assert_array_equal(found.rows[0].ranking, numbers[answers.ranking])
    for name in ("first", "second", "outcome"):
        np.testing.assert_array_equal(getattr(found.rows[0], name), getattr(answers, name))


def test_left_and_right_may_be_in_either_order() -> None:
    law = law_of_epsilon(1.0, 1)
    rows = {
        "left": ["dogs", "ants"],
        "right": ["ants", "dogs"],
        "outcome": [1, -1],
        "length": [4, 4],
    }
    found = encode_pair_answers(pa.record_batch(rows), columns_of(law), NAMES, [law], 4, same(law))
    assert found.rows[0].first.tolist() == [0, 0]
    assert found.rows[0].outcome.tolist() == [-1, -1]


GOOD = {"left_1": "ants", "right_1": "bees", "outcome_1": 1, "left_2": "cats", "right_2": "ants",
        "outcome_2": -1, "length": 3}  # fmt: skip
BROKEN = [
    ({"left_1": None}, HALF_AN_ANSWER),
    ({"outcome_2": None}, HALF_AN_ANSWER),
    ({"right_2": "emus"}, "an item of an answer is not in the catalogue"),
    ({"right_1": "ants"}, ITSELF),
    ({"outcome_1": 0}, NO_OUTCOME),
    ({"outcome_1": 7}, NO_OUTCOME),
    ({"left_2": "bees", "right_2": "ants"}, TWICE),
    ({"length": None}, NO_LENGTH),
    ({"length": -1}, NO_LENGTH),
    ({"length": 5}, TOO_LONG),
    ({"length": 2}, NOT_SO_MANY),
    ({"left_2": None, "right_2": None, "outcome_2": None}, NOT_SO_MANY),
    ({"left_1": None, "right_1": None, "outcome_1": None}, NOT_SO_MANY),
]


@pytest.mark.parametrize(("change", "reason"), BROKEN)
def test_a_row_that_breaks_a_rule_is_set_aside_whole(change: dict[str, Any], reason: str) -> None:
    law = law_of_epsilon(1.0, 2)
    rows = [GOOD, GOOD | change, GOOD | {"length": 4}]
    batch = pa.RecordBatch.from_pylist(rows)
    found = encode_pair_answers(batch, columns_of(law), NAMES, [law], 4, same(law))
    assert found.rejects is not None
    assert found.rejects["reason"].to_pylist() == [reason]
    assert found.rows[0].ranking.tolist() == [0, 0, 1, 1]
    assert found.rows[0].lengths.tolist() == [3, 4]


def test_hidden_items_may_answer_zero_and_have_no_length() -> None:
    law = law_of_epsilon(1.0, 1, Hide.ITEMS)
    rows = {"left": ["ants"] * 3, "right": ["bees"] * 3, "outcome": ["0", "+1", "2"]}
    found = encode_pair_answers(pa.record_batch(rows), columns_of(law), NAMES, [law], 4, same(law))
    assert found.rows[0].outcome.tolist() == [0, 1]
    assert found.rejects is not None


def test_one_epsilon_holds_for_all() -> None:
    law = law_of_epsilon(1.0, 1)
    rankings, _ = answered(law_of_epsilon(2.0, 1))
    with pytest.raises(ValueError, match="one epsilon for all"):
        answer_rankings(rankings, 4, law, seeded_bits(1))
