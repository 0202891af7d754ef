"""Which epsilon a row gets, and which rows are set aside."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hushrank.transforms.common.epsilons import (
    REASONS,
    AnswerColumns,
    EpsilonSource,
    epsilons_of,
    read_epsilon_table,
)
from hushrank.transforms.common.schema import InputError

RANGE = {"low": 0.5, "high": 2.0}


def columns(**roles) -> AnswerColumns:
    base = {"left": "l", "right": "r", "outcome": "o", "winner": None, "user": None, "event": None}
    return AnswerColumns(**base | roles)


def reasons_of(column: pa.Array) -> list[str | None]:
    batch = pa.record_batch({"eps": column})
    source = EpsilonSource(**RANGE)
    _, broken = epsilons_of(batch, columns(epsilon="eps"), source, None)
    return [REASONS[code] for code in broken]


def test_a_number_is_for_everybody():
    batch = pa.record_batch({"l": [1, 2]})
    source = EpsilonSource(low=1.0, high=1.0, value=1.0)
    epsilon, broken = epsilons_of(batch, columns(), source, None)
    assert epsilon.tolist() == [1.0, 1.0]
    assert not broken.any()


def test_a_column_is_checked_row_by_row_and_its_bounds_belong_to_it():
    values = [0.5, 2.0, 0.499, 2.001, None, float("nan"), -1.0, float("inf")]
    outside = "epsilon is outside epsilon_range"
    expected = [None, None, outside, outside, "null epsilon", "epsilon is not a number"]
    assert reasons_of(pa.array(values)) == [*expected, outside, outside]


def test_a_row_with_another_epsilon_than_a_level_is_set_aside_by_its_own_bytes():
    source = EpsilonSource(low=0.5, high=2.0, levels=(0.5, 1.0, 2.0), levels_alone=True)
    values = [0.5, 1.0, 2.0, 1.5, 0.4, None]
    batch = pa.record_batch({"eps": pa.array(values)})
    epsilon, broken = epsilons_of(batch, columns(epsilon="eps"), source, None)
    outside = "epsilon is outside epsilon_range"
    none_of_them = "epsilon is none of the public levels"
    expected = [None, None, None, none_of_them, outside, "null epsilon"]
    assert [REASONS[code] for code in broken] == expected
    assert epsilon[:3].tolist() == values[:3]
    for row, code in enumerate(broken):  # whatever the other rows are
        alone, own = epsilons_of(batch.slice(row, 1), columns(epsilon="eps"), source, None)
        assert own.tolist() == [code]
        np.testing.assert_array_equal(alone, epsilon[row : row + 1])


def test_text_that_is_no_number_is_set_aside_and_the_rest_is_read():
    column = pa.array(["1", "x", "1.5", None, "", "nan"])
    no_number = "epsilon is not a number"
    assert reasons_of(column) == [None, no_number, None, "null epsilon", no_number, no_number]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("as_text", [False, True])
def test_a_table_gives_each_person_theirs(tmp_path, ending, as_text):
    path = tmp_path / f"epsilons.{ending}"
    if ending == "csv":
        path.write_text("user,epsilon\n7,0.5\n8,2\n9,\n10,3\n")
    else:
        table = pa.table({"user": [7, 8, 9, 10], "epsilon": [0.5, 2.0, None, 3.0]})
        pq.write_table(table, path)
    users = pa.array([8, 7, 11, 9, 10, 8])
    batch = pa.record_batch({"who": users.cast(pa.string()) if as_text else users})
    source = EpsilonSource(**RANGE, table=str(path))
    table = read_epsilon_table(str(path))
    epsilon, broken = epsilons_of(batch, columns(user="who"), source, table)
    absent, nothing = "user is not in the table of epsilons", "epsilon is not a number"
    outside = "epsilon is outside epsilon_range"
    assert [REASONS[code] for code in broken] == [None, None, absent, nothing, outside, None]
    assert epsilon[[0, 1, 5]].tolist() == [2.0, 0.5, 2.0]


def test_a_person_twice_in_the_table_is_refused_without_a_name(tmp_path):
    path = tmp_path / "epsilons.csv"
    path.write_text("user,epsilon\ncanary,0.5\ncanary,1\n")
    with pytest.raises(InputError, match="a person occurs twice") as caught:
        read_epsilon_table(str(path))
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize("content", ["user,eps\n1,2\n", "", "user,epsilon\n1\n"])
def test_a_table_that_cannot_be_read_says_what_is_needed(tmp_path, content):
    path = tmp_path / "epsilons.csv"
    path.write_text(content)
    with pytest.raises(InputError, match="not a table with the columns user and epsilon"):
        read_epsilon_table(str(path))


@pytest.mark.parametrize("table", [pa.int64(), pa.uint64(), pa.float64(), pa.string(), pa.binary()])
@pytest.mark.parametrize(
    "log", [pa.int8(), pa.int64(), pa.uint64(), pa.string(), pa.large_binary()]
)
def test_one_name_is_one_person_in_the_log_and_in_the_table(tmp_path, table, log):
    def column(kind: pa.DataType, values: list[int]) -> pa.Array:
        texts = not (pa.types.is_integer(kind) or pa.types.is_floating(kind))
        return pa.array(list(map(str, values)) if texts else values).cast(kind)

    path = tmp_path / "epsilons.parquet"
    pq.write_table(pa.table({"user": column(table, [7, 8, 100]), "epsilon": [0.5, 2.0, 1.0]}), path)
    found, known = read_epsilon_table(str(path)).of(column(log, [100, 7, 9]))
    assert known.tolist() == [True, True, False]
    assert found[:2].tolist() == [1.0, 0.5]


def test_a_table_that_names_nobody_in_the_log_is_no_error(tmp_path):
    path = tmp_path / "epsilons.csv"
    path.write_text('user,epsilon\nann,1\n007,2\n"7.0",3\n')
    table = read_epsilon_table(str(path))
    for column in (pa.array([1, 7]), pa.array(["1", "7"])):
        assert table.of(column)[1].tolist() == [False, False]


@pytest.mark.parametrize(
    ("users", "told"),
    [
        (pa.array([7.5, 8.0]), "a row names nobody"),
        (pa.array([True, False]), "column user has type bool; it must hold integers or text"),
    ],
)
def test_a_table_whose_users_are_no_names_is_refused(tmp_path, users, told):
    path = tmp_path / "epsilons.parquet"
    pq.write_table(pa.table({"user": users, "epsilon": [1.0, 2.0]}), path)
    with pytest.raises(InputError, match=told):
        read_epsilon_table(str(path))


def test_one_name_in_a_table_does_not_decide_how_the_others_are_read(tmp_path):
    path = tmp_path / "epsilons.csv"
    path.write_text("user,epsilon\nann,1\n7,2\n99999999999999999999,3\n")
    table = read_epsilon_table(str(path))
    users = pa.array([7, 2**64 - 1, None], pa.uint64())
    found, known = table.of(users)
    assert known.tolist() == [True, False, False]
    assert found[0] == 2
    assert table.of(pa.array([7, 0]))[1].tolist() == [True, False]


@pytest.mark.parametrize("users", [[b"ann", b"J\xe9"], [b"ann", None]])
def test_a_table_is_looked_up_by_bytes_and_once_for_each_name(tmp_path, users):
    path = tmp_path / "epsilons.csv"
    path.write_text("user,epsilon\nann,1\n")
    table = read_epsilon_table(str(path))
    for column in (pa.array(users), pa.array(users).dictionary_encode()):
        assert table.of(column)[1].tolist() == [True, False]


@pytest.mark.parametrize("bounds", [(0, 1), (2, 1), (1, np.inf)])
def test_bounds_must_be_an_interval_of_positive_numbers(bounds):
    with pytest.raises(ValueError, match="0 < low <= high < inf"):
        EpsilonSource(low=bounds[0], high=bounds[1])
