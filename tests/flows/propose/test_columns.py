"""Guessing columns: right where names tell, silent where they do not."""

from __future__ import annotations

import pytest

from hushrank.flows.propose.columns import ColumnGuess, guess_columns, items_seen

ROW = {"a": "London", "b": "Paris"}


def guess(columns: str, **values: object) -> ColumnGuess:
    """Guess for space-separated `columns` from one row with `values`."""
    return guess_columns(columns.split(), [values])


def test_the_names_of_the_real_data():
    found = guess_columns(
        ["user", "item_i", "item_j", "outcome", "win1_adj", "win2_adj"],
        [{"user": 1, "item_i": 0, "item_j": 1, "outcome": 1, "win1_adj": 1.0, "win2_adj": 0.0}],
    )
    assert found == ColumnGuess("user", "item_i", "item_j", "outcome", None, None)
    assert found.unknown() == []


def test_the_analysts_file():
    found = guess("student a b choice", student="s1", a="London", b="Paris", choice="Paris")
    assert found.known() == {"user": "student", "left": "a", "right": "b", "winner": "choice"}
    assert found.unknown() == []


@pytest.mark.parametrize(
    "column", ["user", "User_ID", "userId", "annotator", "person id", "participant", "voter-id"]
)
def test_a_person_has_many_names(column):
    assert guess_columns([column, "a", "b"], []).user == column


@pytest.mark.parametrize("columns", ["x a b", "user_agent a b", "user student a b"])
def test_a_person_is_not_guessed_without_one_clear_name(columns):
    assert guess(columns).user is None


@pytest.mark.parametrize(
    ("columns", "sides"),
    [
        ("left right", ("left", "right")),
        ("right left", ("left", "right")),
        ("item_b item_a", ("item_a", "item_b")),
        ("itemA itemB", ("itemA", "itemB")),
        ("item1 item2", ("item1", "item2")),
        ("first_option second_option", ("first_option", "second_option")),
        ("left right left_time right_time", ("left", "right")),
        ("model_a model_b chat_a chat_b", (None, None)),
        ("a c", (None, None)),
        ("item_a thing_b", (None, None)),
        ("i", (None, None)),
    ],
)
def test_the_sides_are_the_shortest_pair_of_names(columns, sides):
    found = guess(columns)
    assert (found.left, found.right) == sides


@pytest.mark.parametrize("value", [1, -1, 0, "1", "+1", "-1", 1.0, " 0 "])
def test_signs_are_an_outcome(value):
    found = guess("a b result", **ROW, result=value)
    assert (found.outcome, found.winner) == ("result", None)


@pytest.mark.parametrize("value", ["London", " Paris", "tie", "Tie"])
@pytest.mark.parametrize("column", ["winner", "result"])
def test_items_are_a_winner(value, column):
    found = guess(f"a b {column}", **ROW, **{column: value})
    assert (found.outcome, found.winner) == (None, column)


@pytest.mark.parametrize("value", ["Rome", "left", 2, None, ""])
def test_a_result_that_is_neither_is_left_to_the_person(value):
    found = guess("user a b winner", **ROW, winner=value)
    assert (found.outcome, found.winner) == (None, None)
    assert found.unknown() == ["outcome"]


def test_one_row_that_does_not_fit_is_enough_to_refuse():
    rows = [{**ROW, "winner": "London"}, {**ROW, "winner": None}, {**ROW, "winner": "Rome"}]
    assert guess_columns(["a", "b", "winner"], rows[:2]).winner == "winner"
    assert guess_columns(["a", "b", "winner"], rows).winner is None


@pytest.mark.parametrize(("column", "role"), [("winner", "winner"), ("outcome", "outcome")])
def test_the_name_decides_where_items_are_called_0_and_1(column, role):
    found = guess(f"a b {column}", a=0, b=1, **{column: 1})
    assert found.known()[role] == column


def test_the_result_that_fits_is_taken_of_several():
    found = guess("a b answer winner", **ROW, answer="because", winner="Paris")
    assert found.winner == "winner"


def test_an_event_needs_its_name():
    assert guess("event_id a b").event == "event_id"
    assert guess("id a b").event is None


def test_items_are_counted_once_and_blanks_not():
    rows = [ROW, {"a": "Paris ", "b": "Rome"}, {"a": None, "b": ""}]
    assert items_seen(rows, guess_columns(["a", "b"], rows)) == 3
    assert items_seen(rows, guess_columns(["x", "b"], rows)) is None
