"""Words of a column stand for what the settings say: in any type, and never for anything else."""

from __future__ import annotations

import pyarrow as pa
import pytest

from hushrank.privacy.keyed_hash import KeyedHash
from hushrank.transforms.common.catalogue import Catalogue
from hushrank.transforms.common.encode import BAD_OUTCOME, encode_comparisons, values_of_words
from hushrank.transforms.common.schema import ComparisonColumns, Words
from hushrank.transforms.responses.responses import ResponseColumns, WideColumns, encode_responses

ARENA = Words((("model_a", 1), ("model_b", -1), ("tie", 0), ("Tie (bothbad)", 0)))
NUMBERS = Words((("1", 1), ("2", -1)))
MARKS = Words((("richtig", 1), ("Falsch", 0)))
ITEMS = Catalogue(("ants", "bees"))
HASH = KeyedHash(bytes(32))


def columns(**changes):
    names = {"left": "a", "right": "b", "outcome": "won", "winner": None, "user": None}
    return ComparisonColumns(**({"event": None, "words": ARENA} | names | changes))


def encoded(won, **changes):
    rows = {"a": ["ants"] * len(won), "b": ["bees"] * len(won), "won": won}
    return encode_comparisons(pa.record_batch(rows), columns(**changes), ITEMS, None)


@pytest.mark.parametrize("kind", [pa.string(), pa.binary(), pa.dictionary(pa.int8(), pa.string())])
def test_case_and_blanks_do_not_count(kind):
    words = ["model_a", " Model_B ", "TIE", "tie (BothBad)"]
    found = encoded(pa.array(words).cast(kind))
    assert found.rejects is None
    assert found.rows.outcome.tolist() == [1, -1, 0, 0]


def test_what_is_no_word_is_set_aside_alone():
    found = encoded(["model_a", "both_bad", "1", "", None, "model_b"])
    assert found.rows.outcome.tolist() == [1, -1]
    assert found.rejects["reason"].to_pylist() == [
        *["outcome is not +1, -1 or 0"] * 3,
        "null outcome",
    ]


@pytest.mark.parametrize("kind", [pa.int8(), pa.int64(), pa.float64(), pa.string()])
def test_a_number_is_the_word_that_it_is_written_as(kind):
    found = values_of_words(pa.array([1, 2, 3]).cast(kind), NUMBERS, BAD_OUTCOME)
    assert found.tolist() == [1, -1, BAD_OUTCOME]


def test_words_of_a_winner_say_what_a_tie_is():
    ties = Words((("draw", 0), ("bees", 0)))
    found = encoded(["ants", "bees", "Draw", "tie"], outcome=None, winner="won", words=ties)
    assert found.rows.outcome.tolist() == [1, -1, 0]  # an item stays an item
    assert found.rejects["reason"].to_pylist() == ["winner is neither of the two items"]


def test_a_third_item_whose_name_is_a_word_is_the_winner_of_nothing():
    items, rows = Catalogue(("ants", "bees", "tie")), {"a": ["ants"], "b": ["bees"], "won": ["tie"]}
    named = columns(outcome=None, winner="won", words=None)
    found = encode_comparisons(pa.record_batch(rows), named, items, None)
    assert found.rejects is not None
    assert found.rejects["reason"].to_pylist() == ["winner is neither of the two items"]


def test_words_of_answers_say_right_and_wrong():
    long = ResponseColumns(user="who", item="item", correct="mark", words=MARKS)
    marks = ["RICHTIG", "falsch", "1", "NA", "", None]
    rows = {"who": list("abcdef"), "item": ["ants"] * 6, "mark": marks}
    found = encode_responses(pa.record_batch(rows), long, ITEMS, HASH)
    assert found.rows.correct.tolist() == [1, 0]
    reasons = ["answer is neither 0 nor 1", *["null answer"] * 3]
    assert found.rejects["reason"].to_pylist() == reasons
    wide = WideColumns(user="who", items=ITEMS.names, words=MARKS)
    rows = {"who": ["a", "b"], "ants": ["richtig", "x"], "bees": ["NA", "falsch"]}
    found = encode_responses(pa.record_batch(rows), wide, ITEMS, HASH)
    assert (found.rows.item.tolist(), found.rows.correct.tolist()) == ([0], [1])
    assert len(found.rejects) == 1


def test_a_column_of_winners_and_one_of_losers_are_the_two_items():
    rows = {"won": ["ants", "bees", "bees"], "lost": ["bees", "ants", "bees"]}
    named = columns(left="won", right="lost", outcome=None, winner="won", words=None)
    assert named.names() == ["won", "lost"]
    found = encode_comparisons(pa.record_batch(rows), named, ITEMS, None)
    assert found.rows.outcome.tolist() == [1, 1]
    assert found.rows.left.tolist() == [0, 1]
    assert found.rejects["reason"].to_pylist() == ["item against itself"]


@pytest.mark.parametrize("dictionary", [False, True])
def test_an_empty_cell_is_a_tie_if_the_words_say_so(dictionary):
    won = pa.array(["ants", None, "", "bees"])
    won = won.dictionary_encode() if dictionary else won
    rows = pa.record_batch({"a": ["ants"] * 4, "b": ["bees"] * 4, "won": won})
    columns = {"left": "a", "right": "b", "outcome": None, "winner": "won", "user": None}
    for words, outcomes in ((Words((("tie", 0), ("", 0))), [1, 0, 0, -1]), (None, [1, -1])):
        found = encode_comparisons(
            rows, ComparisonColumns(**columns, event=None, words=words), ITEMS, None
        )
        assert found.rows.outcome.tolist() == outcomes


def test_numbers_in_place_of_names_count_from_the_first_code():
    items = Catalogue(("ants", "bees", "cats"), first=1)
    for column in (
        pa.array([0, 1, 3, 4, None]),
        pa.array([0, 1, 3, 4, None], pa.uint8()),
        pa.array(["0", "1", "3", "4", None]),
    ):
        assert items.codes(column).tolist() == [-1, 0, 2, -1, -1]
    assert items.codes(pa.array([1, 2, 3])).tolist() == [0, 1, 2]
