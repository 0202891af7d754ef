"""Which columns and types are accepted, and the exact text where they are not."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hushrank.transforms.common.schema import (
    MANY_ROWS,
    ComparisonColumns,
    InputError,
    Ties,
    by_distinct,
    check_schema,
    is_text,
    to_numpy,
    to_text,
)

COLUMNS = ComparisonColumns(
    user="student", left="a", right="b", outcome=None, winner="choice", event=None
)
OUTCOME = ComparisonColumns(
    user="student", left="a", right="b", outcome="y", winner=None, event="id"
)


def refusal(schema: pa.Schema, columns=COLUMNS, **how) -> str:
    with pytest.raises(InputError) as error:
        check_schema("answers.csv", schema, columns, **how)
    return str(error.value)


def schema(*names: str, **types: pa.DataType) -> pa.Schema:
    return pa.schema([(name, pa.string()) for name in names] + list(types.items()))


def test_columns_are_named_once_each():
    same = ComparisonColumns(user="u", left="a", right="b", outcome=None, winner="a", event=None)
    assert same.names() == ["a", "b", "u"]
    assert same.item_names() == ["a", "b"]
    assert OUTCOME.names() == ["a", "b", "y", "student", "id"]
    assert OUTCOME.item_names() == ["a", "b", "y"]


def test_every_type_of_text_and_integer_is_accepted():
    texts = [pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.binary(4)]
    integers = [pa.int8(), pa.uint64(), pa.dictionary(pa.int8(), pa.int32())]
    for type_ in [*texts, *integers, *(pa.dictionary(pa.int32(), text) for text in texts)]:
        check_schema("x", pa.schema([(name, type_) for name in COLUMNS.names()]), COLUMNS)
    for type_ in (pa.float32(), pa.float64()):
        check_schema("x", schema("student", "a", "b", "id", y=type_), OUTCOME)


def test_a_missing_column_with_the_name_that_is_meant():
    assert refusal(schema("student", "a", "b", "choise")) == (
        "answers.csv: column choice not found. Columns: student, a, b, choise."
        " Set input.columns.winner: choise."
    )


def test_a_missing_column_with_no_similar_name():
    assert refusal(schema("student", "a", "b", "pick")) == (
        "answers.csv: column choice not found. Columns: student, a, b, pick."
        " Set input.columns.winner."
    )


def test_a_column_of_nothing_but_nulls():
    assert refusal(schema("a", "b", "choice", student=pa.null())) == (
        "answers.csv: column student (input.columns.user) holds nothing but nulls;"
        " write real values, or name another column"
    )
    assert "holds nothing but nulls" in refusal(
        schema("a", "b", "choice", student=pa.dictionary(pa.int8(), pa.null()))
    )


@pytest.mark.parametrize(
    "type_", [pa.date32(), pa.bool_(), pa.timestamp("us"), pa.decimal128(9), pa.list_(pa.int8())]
)
def test_a_type_that_names_nobody(type_):
    assert refusal(schema("a", "b", "choice", student=type_)) == (
        f"answers.csv: column student (input.columns.user) has type {type_}; it must hold integers"
        " or text, so cast it when you write the file"
    )


@pytest.mark.parametrize("type_", [pa.date32(), pa.decimal128(9)])
def test_a_type_that_is_no_outcome(type_):
    assert refusal(schema("student", "a", "b", "id", y=type_), OUTCOME) == (
        f"answers.csv: column y (input.columns.outcome) has type {type_}; outcomes are integers:"
        " +1 left won, -1 right won, 0 tie"
    )


def test_two_columns_of_one_name():
    assert refusal(schema("student", "a", "b", "choice", "a")) == (
        "answers.csv: column a occurs twice. Rename one of them."
    )
    check_schema("x", schema("student", "a", "b", "choice", "other", "other"), COLUMNS)


def test_a_first_line_without_any_column_may_be_a_row_and_is_not_shown():
    message = refusal(schema("alice", "London", "Paris", "London"), named_by_a_line=True)
    assert message == (
        "answers.csv: the first line names none of the columns a, b, choice, student. It must name"
        " the columns: add such a line, or correct input.columns."
    )


@pytest.mark.parametrize(
    ("mark", "name", "value"), [(";", "semicolons", '";"'), ("\t", "tabs", "tab")]
)
def test_another_separator_is_recognised(mark, name, value):
    line = mark.join(["student", "a", "b", "choice"])
    assert refusal(schema(line), named_by_a_line=True) == (
        f"answers.csv: columns are separated by {name}. Set input.delimiter: {value}, or save the"
        " file with commas."
    )


def test_ties_that_are_split_count_double():
    assert [ties.row_weight for ties in (Ties.DROP, Ties.SPLIT, Ties.RANDOM)] == [1, 2, 1]


def test_text_is_stripped_and_what_is_not_utf8_is_null():
    values = [b" a\t", b"\xff", None, "\u00a0é".encode()]
    for type_ in (pa.binary(), pa.large_binary()):
        assert to_text(pa.array(values, type_)).to_pylist() == ["a", None, None, "é"]
    unchecked = pa.Array.from_buffers(pa.string(), 4, pa.array(values, pa.binary()).buffers())
    assert to_text(unchecked).to_pylist() == ["a", None, None, "é"]
    assert to_text(pa.array([" a ", None])).type == pa.large_string()


def test_numbers_are_no_text():
    assert is_text(pa.dictionary(pa.int8(), pa.string()))
    assert not is_text(pa.dictionary(pa.int8(), pa.int8()))
    assert not is_text(pa.int64())


@pytest.mark.parametrize("many", [1, MANY_ROWS])
@pytest.mark.parametrize("index", [pa.int8(), pa.int32(), pa.uint64()])
@pytest.mark.parametrize("null", [False, True])
def test_a_dictionary_means_what_its_values_mean(many, index, null):
    texts = pa.array(["a", "unused", "", "bb"])
    rows = pa.array([3, 0, 2, 3, None if null else 2] * many, index)
    column = pa.DictionaryArray.from_arrays(rows, texts)[1:]

    def lengths(values):
        return to_numpy(pc.fill_null(pc.binary_length(values), -1))

    of_each = lengths(column.dictionary_decode())
    assert by_distinct(column, lengths, -1).tolist() == of_each.tolist()
    assert by_distinct(column[:0], lengths, -1).tolist() == []


def test_a_first_line_that_swallowed_a_row_is_not_shown():
    """One flipped bit of its end joins it with the first person's answers."""
    names = schema("student", "a", "b", "choice\x0banna.schmidt@uni.ch", "x")
    assert refusal(names, named_by_a_line=True) == (
        "answers.csv: column choice not found in the first line. No message shows that line, for a"
        " damaged one may hold answers; hushrank init shows it to you. Correct"
        " input.columns.winner, or the line."
    )


def test_a_name_in_other_letters_is_named_as_such_without_showing_the_first_line():
    columns = ComparisonColumns(
        user="student", left="a", right="b", outcome=None, winner="Q1", event=None
    )
    for written in ("q1", " Q1"):
        said = refusal(schema("student", "a", "b", written), columns, named_by_a_line=True)
        assert "The file has this name in other letters" in said
        assert repr(written) not in said
    assert "other letters" not in refusal(schema("student", "a", "b"), columns)
