"""Any table becomes the same Arrow rows; what is none is refused without a value in the message."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from hushrank.flows.errors import ConfigError
from hushrank.flows.python.tables import batches_of
from hushrank.transforms.common.schema import ComparisonColumns

COLUMNS = ComparisonColumns(
    left="a", right="b", outcome=None, winner="choice", user="student", event=None
)
SECRET = "Zaphod"
ROWS: list[dict[str, Any]] = [
    {"student": 7, "a": "London", "b": "Paris", "choice": "London", "note": {"x": 1}},
    {"student": 9, "a": "Paris", "b": "Milano", "choice": None, "note": {"x": 2}},
]
TABLE = pa.Table.from_pylist(ROWS)


def rows_of(answers: Any) -> list[dict[str, Any]]:
    batches = list(batches_of(answers, COLUMNS, ()))
    return pa.Table.from_batches(batches).to_pylist()


def generated() -> Iterator[dict[str, Any]]:
    yield from ROWS


class OldFrame:
    """A table of the data-frame protocol alone."""

    def __dataframe__(self, **_: Any) -> Any:
        return TABLE.drop_columns(["note"]).__dataframe__()


def of_pandas() -> Any:
    return pytest.importorskip("pandas").DataFrame(ROWS)


def of_polars() -> Any:
    return pytest.importorskip("polars").DataFrame(ROWS)


def of_polars_objects() -> Any:
    pl = pytest.importorskip("polars")
    return of_polars().with_columns(pl.Series("other", [object(), object()], dtype=pl.Object))


def of_duckdb() -> Any:
    duckdb = pytest.importorskip("duckdb")
    return duckdb.connect().from_arrow(TABLE)


@pytest.mark.parametrize(
    "make",
    [
        lambda: TABLE,
        lambda: TABLE.to_reader(),
        lambda: TABLE.to_batches()[0],
        lambda: TABLE.to_batches(),
        lambda: ROWS,
        generated,
        OldFrame,
        of_pandas,
        of_polars,
        lambda: of_polars().lazy(),
        of_polars_objects,
        of_duckdb,
    ],
)
def test_every_kind_of_table_gives_the_same_rows(make: Any):
    wanted = [{name: row[name] for name in COLUMNS.names()} for row in ROWS]
    assert rows_of(make()) == wanted


def test_coded_texts_are_plain():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(ROWS).astype({"a": "category", "b": "category"})
    assert [row["a"] for row in rows_of(frame)] == ["London", "Paris"]


def refusal(answers: Any) -> str:
    with pytest.raises(ConfigError) as refused:
        rows_of(answers)
    assert SECRET not in str(refused.value)
    return str(refused.value)


def test_a_column_of_mixed_types_is_named():
    pd = pytest.importorskip("pandas")
    rows = [{**ROWS[0], "choice": SECRET}, {**ROWS[1], "choice": 3}]
    for table in (pd.DataFrame(rows), rows):
        text = refusal(table)
        assert "column choice holds values of several types" in text
        assert "astype(str)" in text


def test_two_columns_of_one_name_are_refused():
    pd = pytest.importorskip("pandas")
    frame = pd.concat([pd.DataFrame(ROWS), pd.DataFrame({"a": [SECRET, SECRET]})], axis=1)
    twice = pa.Table.from_arrays([TABLE["a"], *TABLE.columns], ["a", *TABLE.schema.names])
    for table in (frame, twice):
        assert "column a occurs twice" in refusal(table)


def test_two_columns_that_no_role_needs_may_have_one_name():
    twice = pa.Table.from_arrays([TABLE["note"], *TABLE.columns], ["note", *TABLE.schema.names])
    assert len(rows_of(twice)) == len(ROWS)


def test_a_missing_column_is_named_with_what_there_is():
    pd = pytest.importorskip("pandas")
    lacking = TABLE.rename_columns(["student", "a", "b", "choise", "note"])
    for table in (lacking, pd.DataFrame(lacking.to_pylist()), lacking.to_pylist()):
        text = refusal(table)
        assert "column choice not found" in text
        assert "choise" in text


def test_a_generator_gives_its_rows_once():
    rows, reader = generated(), TABLE.to_reader()
    for stream in (rows, reader):
        assert len(rows_of(stream)) == len(ROWS)
        assert "gives its rows once" in refusal(stream)


def test_a_stream_that_somebody_else_used_up_is_refused():
    rows, reader = generated(), TABLE.to_reader()
    list(rows)
    reader.read_all()
    for stream in (rows, reader):
        assert "gives its rows once" in refusal(stream)


def test_a_table_without_rows_is_a_table():
    assert rows_of(TABLE.slice(0, 0)) == []


@pytest.mark.parametrize("answers", [3, None, {"a": [1]}, [1, 2], object()])
def test_what_is_no_table_is_refused(answers: Any):
    assert "Pass a pandas, polars or Arrow table" in refusal(answers)
