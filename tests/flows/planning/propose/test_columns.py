"""Guessing columns: right where names tell, silent where they do not."""

from __future__ import annotations

import pytest

from hushrank.flows.planning.propose.columns import (
    ColumnGuess,
    ResultWords,
    guess_columns,
)
from hushrank.flows.planning.propose.names import TIES
from hushrank.flows.planning.propose.people import Confidence

ROW = {"a": "London", "b": "Paris"}


def guess(columns: str, **values: object) -> ColumnGuess:
    """Guess for space-separated `columns` from one row with `values`."""
    return guess_columns(columns.split(), [values])


def test_the_names_of_the_real_data():
    found = guess_columns(
        ["user", "item_i", "item_j", "outcome", "win1_adj", "win2_adj"],
        [{"user": 1, "item_i": 0, "item_j": 1, "outcome": 1, "win1_adj": 1.0, "win2_adj": 0.0}],
    )
    roles = {"user": "user", "left": "item_i", "right": "item_j", "outcome": "outcome"}
    assert found.known() == roles
    assert found.unknown() == []
    assert (found.user.confidence, found.user.doubt) == (Confidence.NAMED, None)


def test_the_analysts_file():
    found = guess("student a b choice", student="s1", a="London", b="Paris", choice="Paris")
    assert found.known() == {"user": "student", "left": "a", "right": "b", "winner": "choice"}
    assert found.unknown() == []


@pytest.mark.parametrize(
    "column",
    [
        *("user", "User_ID", "userId", "annotator", "person id", "participant", "voter-id"),
        *("turker", "idstud", "Matrikelnummer", "worker", "judge", "rater", "respondent"),
        *("student", "voter", "uid", "person", "subject", "public_username", "workerid"),
        *("anon_user_hash", "crowd_worker", "PROLIFIC_PID", "Subject Nr", "evaluators"),
    ],
)
def test_a_person_has_many_names(column):
    found = guess_columns([column, "a", "b"], []).user
    assert (found.column, found.confidence) == (column, Confidence.NAMED)


@pytest.mark.parametrize(
    "column", ["Session ID", "session", "ip_hash", "tourney_id", "device-id", "cookie", "IP"]
)
def test_a_session_is_no_person_and_its_doubt_is_said(column):
    found = guess_columns([column, "a", "b"], []).user
    assert (found.column, found.confidence) == (column, Confidence.GROUP)
    assert "a person with several of them is protected in each alone" in found.doubt


def test_an_id_is_a_person_s_only_if_one_has_several_rows():
    rows = [ROW | {"id": number, "choice": "Paris"} for number in (1, 1, 2)]
    found = guess_columns(list(rows[0]), rows).user
    assert (found.column, found.confidence) == ("id", Confidence.NUMBERED)
    assert "if every row has its own, people are not protected" in found.doubt
    assert guess_columns(list(rows[0]), rows[1:]).user is None


def test_the_last_column_is_the_person_s_where_all_others_have_a_role():
    rows = [ROW | {"who": 1, "choice": "Paris"}]
    found = guess_columns(list(rows[0]), rows).user
    assert (found.column, found.confidence) == ("who", Confidence.LEFT_OVER)
    assert found.doubt.startswith("a guess, because no other column is left")
    for more in ({"when": 3}, {"choice": "?"}):  # another is left; the result is not known
        assert guess_columns(list(rows[0] | more), [rows[0] | more]).user is None


@pytest.mark.parametrize("column", ["time", "Date", "comment", "score", "question_id", "row"])
def test_the_last_column_is_nobody_s_if_it_is_about_the_row(column):
    assert guess(f"a b choice {column}", **ROW, choice="Paris", **{column: "x"}).user is None


def test_a_name_and_an_id_of_one_thing_are_one():
    assert guess_columns(["a", "b", "tourney_name", "tourney_id"], []).user.column == "tourney_id"
    assert guess_columns(["a", "b", "user_name", "user_id"], []).user.column == "user_id"
    assert guess("a b student judge_id").user is None


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
        ("model_a model_b chat_a chat_b", ("model_a", "model_b")),
        ("conversation_a conversation_b model_a model_b", ("model_a", "model_b")),
        ("school1 school2 win1 win2 tied", ("school1", "school2")),
        ("player_1_id player_2_id player_1_name player_2_name", ("player_1_name", "player_2_name")),
        ("item1 item2 item3", (None, None)),
        ("variety_a variety_b variety_c", (None, None)),
        ("dog_a dog_b cat_a cat_b", (None, None)),
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


@pytest.mark.parametrize(
    ("columns", "pair"),
    [("dog_a dog_b cat_a cat_b", "cat"), ("cat_a cat_b dog_a dog_b", "cat")],
)
def test_of_pairs_that_are_as_likely_the_one_with_a_result_is_taken(columns, pair):
    row = {f"{name}_{side}": f"{name}{side}" for name in ("cat", "dog") for side in "ab"}
    found = guess_columns([*columns.split(), "winner"], [row | {"winner": "catb"}])
    assert found.sides == (f"{pair}_a", f"{pair}_b")


def words_of(column: str, *values: object) -> ColumnGuess:
    rows = [{"model_a": "x", "model_b": "y", column: value} for value in values]
    return guess_columns(["model_a", "model_b", column], rows)


ARENA = ["model_a", "model_b", "tie", "both_bad", "tie (bothbad)"]


@pytest.mark.parametrize("values", [ARENA, ARENA[:1], ["Model_B ", "tie"], [None, "model_a", ""]])
def test_the_words_of_an_arena_are_a_result(values):
    found = words_of("winner", *values)
    assert (found.outcome, found.winner) == ("winner", None)
    assert found.words == ResultWords(("model_a",), ("model_b",), TIES)
    assert {"tie", "both_bad", "tie (bothbad)"} <= set(TIES)


@pytest.mark.parametrize(
    ("values", "left", "right"),
    [
        (["left", "right"], "left", "right"),
        (["A", "B", "tie"], "a", "b"),
        (["first"], "first", "second"),
        (["model 2"], "model 1", "model 2"),
        (["Option A"], "option a", "option b"),
    ],
)
def test_a_result_may_name_the_side(values, left, right):
    words = words_of("label", *values).words
    assert (words.left, words.right) == ((left,), (right,))


def test_codes_are_a_question_unless_the_columns_have_them_in_their_names():
    for values, left, right, tie in (
        (["2", "1", "0"], "1", "2", ("tie", "0")),
        ([2], "1", "2", ("tie",)),
        ([True, False], "true", "false", None),
    ):
        found = words_of("label", *values)
        assert (found.outcome, found.words) == ("label", None)
        first, second = ({k: v for k, v in each.items() if k != "tie"} for each in found.readings)
        assert first == {"left": (left,), "right": (right,)}
        assert second == {"left": (right,), "right": (left,)}
        assert found.readings[0].get("tie") == tie
    rows = [{"item1": "x", "item2": "y", "label": each} for each in ("1", "2", "0")]
    plain = guess_columns(list(rows[0]), rows)
    assert (plain.readings, plain.words.left, plain.words.right) == (None, ("1",), ("2",))


def test_two_unknown_codes_are_a_question_without_choices_because_they_are_values():
    found = words_of("result", "p", "q", "p", "tie")
    assert (found.outcome, found.words, found.readings) == ("result", None, ())
    assert words_of("result", "p", "q").outcome is None  # names of other things, perhaps


def test_ties_of_a_winner_may_be_called_otherwise():
    found = words_of("winner", "x", "draw")
    assert (found.winner, found.words) == ("winner", ResultWords(tie=TIES))
    assert not found.empty_winner
    assert words_of("winner", "x", "").empty_winner


@pytest.mark.parametrize("values", [(0, 1), (1, 1), (0, 0), ("1.0", "0.0")])
def test_ones_and_noughts_do_not_say_who_won(values):
    """Of a file in which 0 stands for the left item, a guess would turn the ranking round."""
    found = words_of("outcome", *values)
    assert (found.outcome, found.words) == ("outcome", None)
    left = [each["left"][0] for each in found.readings]
    assert left == ["1", "0", "1"]
    assert found.readings[2]["right"] == ("-1",)
    if "1.0" in values:
        assert found.readings[0] == {"left": ("1", "1.0"), "right": ("0", "0.0")}


def test_signs_are_plain_in_a_column_of_hushrank_s_own_name_only():
    assert words_of("outcome", 0, 1, -1).readings is None
    found = words_of("label", 1, -1)
    assert [each["left"] for each in found.readings] == [("1",), ("-1",)]


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ("a_won", ResultWords(("1", "true"), ("0", "false"))),
        ("model_b_wins", ResultWords(("0", "false"), ("1", "true"))),
        ("won", None),
    ],
)
def test_a_column_may_say_of_one_side_whether_it_won(column, words):
    assert words_of(column, True, False).words == words


def test_a_result_in_several_columns_is_left_to_the_person():
    row = {"school1": "x", "school2": "y", "win1": 1, "win2": 0, "tied": 0, "student": 1}
    found = guess_columns(list(row), [row])
    assert found.unknown() == ["outcome"]


def test_a_result_without_a_name_is_known_by_its_values():
    assert guess("who a b pippo", who=1, **ROW, pippo="Paris").winner == "pippo"
    assert guess("who a b pippo", who=1, **ROW, pippo=1).outcome is None


TENNIS = "tourney_id tourney_name winner_id winner_seed winner_name winner_rank loser_id loser_seed"


def test_winners_and_losers_are_the_items():
    found = guess(f"{TENNIS} loser_name loser_rank score w_ace l_ace", winner_name="x")
    assert found.known() == {"winner": "winner_name", "loser": "loser_name"}
    assert found.unknown() == ["user"]  # a tournament is no person


@pytest.mark.parametrize("columns", ["winner loser", "winner_id loser_id", "chosen rejected"])
def test_winners_and_losers_have_several_names(columns):
    found = guess(f"user {columns}")
    assert (found.winner, found.loser) == tuple(columns.split())


def test_a_column_about_winners_is_no_item():
    assert guess("user winner_rank loser_rank").sides is None


def test_names_of_winners_come_before_the_ids_of_sides():
    """As wiki surveys are exported: ids have no names, and words for a tie do not go with them."""
    columns = ["Session ID", "Winner ID", "Winner Text", "Loser ID", "Loser Text"]
    columns += ["Left Choice ID", "Right Choice ID"]
    values = ["1", "11", "Trees", "12", "Bikes", "12", "11"]
    found = guess_columns(columns, [dict(zip(columns, values, strict=True))] * 2)
    assert (found.winner, found.loser) == ("Winner Text", "Loser Text")
    assert found.words is None
    assert found.numbered is None


def test_sides_with_a_result_come_before_winners_and_losers():
    found = guess("user a b winner loser", **ROW, winner="Paris", loser="London")
    assert (found.sides, found.winner, found.loser) == (("a", "b"), "winner", None)


@pytest.mark.parametrize("value", ["Rome", None, ""])
def test_a_result_that_is_neither_is_left_to_the_person(value):
    found = guess("user a b winner", user="u", **ROW, winner=value)
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
