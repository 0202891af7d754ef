"""Test answers are recognised, as sheets and one a row; what is none of them is not."""

from __future__ import annotations

import pytest

from hushrank.flows.planning.propose.responses import guess_long, guess_sheet

SHEET = {"Item 1": 1, "Item 2": 0, "Item 3": "", "Item 4": 1}


def sheet(*rows):
    return guess_sheet(list(rows[0]), rows)


def long(*rows):
    return guess_long(list(rows[0]), rows)


def test_a_sheet_without_a_person_leaves_that_open():
    found = sheet(SHEET)
    assert found.items == ("Item 1", "Item 2", "Item 3", "Item 4")  # one is empty in these rows
    assert (found.user, found.words, found.unknown()) == (None, None, ["user"])


@pytest.mark.parametrize("column", ["id", "Matrikelnummer", "idstud", "ResponseId", "session_id"])
def test_the_column_of_the_person_is_no_item(column):
    found = sheet({column: 1} | SHEET, {column: 0} | SHEET)
    assert found.user.column == column
    assert column not in found.items


def test_a_lone_other_column_is_the_person_s():
    found = sheet({"who": "ann"} | SHEET)
    assert (found.user.column, found.user.doubt is None) == ("who", False)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ((1, 0), None),
        ((1.0, 0.0), None),
        ((True, False), None),
        (("TRUE", "NA"), None),
        (("right", "wrong"), ("right", "wrong")),
        (("Correct", "incorrect"), ("correct", "incorrect")),
        (("Y", "N"), ("y", "n")),
        (("richtig", None), ("richtig", "falsch")),
    ],
)
def test_right_and_wrong_have_many_words(values, words):
    found = sheet({f"q{number}": values[number % 2] for number in range(4)})
    assert (len(found.items), found.words) == (4, words)


def test_columns_that_are_numbered_alike_are_the_items_and_others_are_named():
    found = sheet({"id": 7, "female": 1, "passed": 0} | SHEET)
    assert found.items == tuple(SHEET)
    assert (found.left_out, found.doubtful, found.numbered) == (("female",), ("passed",), True)


def test_a_letter_after_a_number_makes_no_other_series():
    exam = {"M100a": 1, "M101b": 0, "M102c": 1, "S1": 0, "S2": 1}
    found = sheet({"id": 7} | exam)
    assert (found.items, found.doubtful) == (("M100a", "M101b", "M102c"), ("S1", "S2"))


def test_points_and_codes_of_a_blank_are_seen_in_columns_named_like_items():
    found = sheet({"id": 7, "q1": 1, "q2": ".", "q3": 0, "q4": 2, "age": 3})
    assert (found.items, found.points) == (("q1", "q2", "q3"), ("q4",))
    assert (found.blanks, found.gaps) == ((".",), True)


def test_items_may_have_names_and_people_s_marks_are_none():
    found = sheet({"student": 7, "gender": 1, "algebra": 1, "logic": 0, "maps": 1})
    assert (found.items, found.left_out) == (("algebra", "logic", "maps"), ("gender",))
    assert not found.numbered


@pytest.mark.parametrize(
    "rows",
    [
        [{"id": 1, "q1": 1, "q2": 0}],
        [{"id": 1, "q1": 1, "q2": 2, "q3": 5}],
        [{"id": 1, "q1": "", "q2": "", "q3": ""}],
        [{"student": 1, "a": 1, "b": 0, "c": 1}, {"student": 1, "a": 0, "b": 0, "c": 1}],
    ],
)
def test_other_tables_are_no_sheets(rows):
    assert sheet(*rows) is None


@pytest.mark.parametrize(
    ("item", "correct"), [("item", "correct"), ("question_id", "is_correct"), ("Task", "score")]
)
def test_long_answers_are_recognised(item, correct):
    found = long({"person": 1, item: "x", correct: 1, "rt": 3.5})
    assert found.known() == {"user": "person", "item": item, "correct": correct}
    assert (found.unknown(), found.words) == ([], None)


def test_a_lone_column_of_two_words_is_the_mark():
    rows = [
        {"Anger": 20, "Gender": "M", "item": "S1", "resp": "no", "id": 1, "mode": "Do", "r2": "N"},
        {"Anger": 11, "Gender": "F", "item": "S1", "resp": "yes", "id": 2, "mode": "Do", "r2": "Y"},
        {"Anger": 9, "Gender": "F", "item": "S1", "resp": "perhaps", "id": 3, "mode": "", "r2": ""},
    ]
    found = long(*rows)
    assert found.known() == {"item": "item", "correct": "r2"}
    assert (found.user.column, found.unknown(), found.words) == ("id", ["user"], ("y", "n"))
    assert found.user.doubt is not None


@pytest.mark.parametrize(
    "row",
    [
        {"person": 1, "item": "x", "rating": 4},
        {"person": 1, "item": "x", "correct": 3},
        {"person": 1, "correct": 1},
        {"person": 1, "item_a": "x", "item_b": "y", "correct": 1},
    ],
)
def test_other_logs_are_no_test_answers(row):
    assert long(row) is None


def test_what_is_left_open_is_asked_for_where_the_person_says_the_kind():
    found = guess_long(["who", "what", "how"], [], partial=True)
    assert found.unknown() == ["user", "item", "correct"]
