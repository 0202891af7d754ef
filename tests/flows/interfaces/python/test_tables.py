"""Any table becomes the same Arrow rows; what is none is refused without a value in the message."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from hushrank.flows.errors import ConfigError
from hushrank.flows.interfaces.python.tables import batches_of
from hushrank.transforms.common.schema import ComparisonColumns
from hushrank.transforms.rankings.ranking_columns import ListColumns

COLUMNS = ComparisonColumns(
    left="a", right="b", outcome=None, winner="choice", user="student", event=None
)
SECRET = "Zaphod"
ROWS: list[dict[str, Any]] = [
    {"student": 7, "a": "London", "b": "Paris", "choice": "London", "note": {"x": 1}},
    {"student": 9, "a": "Paris", "b": "Milano", "choice": None, "note": {"x": 2}},
]
TABLE = pa.Table.from_pylist(ROWS)


def rows_of(answers: Any, *further: str) -> list[dict[str, Any]]:
    batches = list(batches_of(answers, COLUMNS, further))
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
    as_objects = [{**row, "student": str(row["student"]).encode()} for row in wanted]
    assert rows_of(make()) in (wanted, as_objects)


def test_coded_texts_are_plain():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(ROWS).astype({"a": "category", "b": "category"})
    assert [row["a"] for row in rows_of(frame)] == ["London", "Paris"]


def refusal(answers: Any) -> str:
    with pytest.raises(ConfigError) as refused:
        rows_of(answers)
    assert SECRET not in str(refused.value)
    return str(refused.value)


def raising(error: BaseException) -> Iterator[dict[str, Any]]:
    yield ROWS[0]
    raise error


def failing_cast() -> Any:
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame({**TABLE.to_pydict(), "choice": [SECRET, None]})
    return frame.lazy().with_columns(pl.col("choice").cast(pl.Int64))


def failing_relation() -> Any:
    duckdb = pytest.importorskip("duckdb")
    rows = f"(values (7, 'London', 'Paris', '{SECRET}')) r(student, a, b, c)"
    return duckdb.connect().sql(f"select *, cast(c as int) as choice from {rows}")


def failing_batches() -> pa.RecordBatchReader:
    def batches() -> Iterator[pa.RecordBatch]:
        yield TABLE.to_batches()[0]
        raise LookupError(SECRET)

    return pa.RecordBatchReader.from_batches(TABLE.schema, batches())


class PanicException(BaseException):
    """An error that polars raises is named so."""


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (failing_cast, "InvalidOperationError"),
        (failing_relation, "ConversionException"),
        (failing_batches, r"\w+"),
        (lambda: raising(KeyError(SECRET)), "KeyError"),
        (lambda: raising(OSError(SECRET)), "OSError"),
        (lambda: raising(RecursionError(SECRET)), "RecursionError"),
        (lambda: raising(UnicodeDecodeError("ascii", SECRET.encode(), 0, 1, "")), "UnicodeDecode"),
        (lambda: raising(PanicException(SECRET)), "PanicException"),
    ],
)
def test_what_a_table_raises_is_told_by_its_type_alone(make: Any, kind: str):
    answers = make()
    with pytest.raises(ConfigError, match=f"taking its rows ended with {kind}") as refused:
        rows_of(answers)
    assert SECRET not in str(refused.value)
    assert refused.value.__suppress_context__


def test_an_interrupt_passes_while_rows_are_taken():
    for interrupt in (KeyboardInterrupt, SystemExit, asyncio.CancelledError):
        with pytest.raises(interrupt):
            rows_of(raising(interrupt()))


def test_batches_of_two_schemas_are_refused_by_their_types():
    (batch,) = TABLE.to_batches()
    texts = batch.set_column(0, "student", batch["student"].cast(pa.string()))
    floats = batch.set_column(0, "student", pa.array([1.5, 2.0]))
    lacking = batch.drop_columns(["choice"])
    for other, says in (
        (texts, "column student is int64 in one batch and large_string in another"),
        (lacking, "column choice is large_string in one batch and missing"),
        (ROWS[0], "a list of batches and other things is no table"),
        (TABLE, "a list of batches and other things is no table"),
    ):
        for answers in ([batch, other], iter([batch, other])):
            assert says in refusal(answers)
    assert "a list of dicts and of batches" in refusal([ROWS[0], batch])
    assert rows_of([batch, floats])[2:] == [
        {"student": None, "a": "London", "b": "Paris", "choice": "London"},
        {"student": 2, "a": "Paris", "b": "Milano", "choice": None},
    ]


def test_batches_may_differ_where_nothing_is_read_of_them_or_in_how_texts_are_kept():
    (batch,) = TABLE.to_batches()
    other = batch.drop_columns(["note"])
    other = other.set_column(1, "a", other["a"].dictionary_encode())
    assert rows_of([batch, other]) == rows_of(TABLE) * 2


def test_a_subclass_of_a_pandas_frame_is_one():
    pd = pytest.importorskip("pandas")

    class Frame(pd.DataFrame):  # type: ignore[misc, name-defined]
        pass

    odd = [{**ROWS[0], "student": "x"}, ROWS[1]]
    assert [row["student"] for row in rows_of(Frame(odd))] == [b"x", b"9"]


def test_a_pandas_column_of_objects_inside_another_table_is_not_guessed():
    pd = pytest.importorskip("pandas")

    class Wrapped:
        def __init__(self, frame: Any) -> None:
            self.frame = frame

        def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
            return self.frame.__arrow_c_stream__(requested_schema)

    frame = pd.DataFrame(ROWS)
    assert rows_of(Wrapped(frame)) == rows_of(TABLE)
    text = refusal(Wrapped(frame.astype({"student": object})))
    assert "column student of this Wrapped is a pandas column of Python objects" in text


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
def test_a_time_outside_the_calendar_is_null(unit: str):
    """Parquet has no seconds, and Python no year 20000: such a row ends no call."""
    far = pa.array([1 << 60, 0], pa.int64()).cast(pa.timestamp(unit))
    assert [row["at"] is None for row in rows_of(TABLE.append_column("at", far), "at")] == [1, 0]
    days = pa.array([1 << 30, 0], pa.int32()).cast(pa.date32())
    assert [row["at"] is None for row in rows_of(TABLE.append_column("at", days), "at")] == [1, 0]
    parts = pa.array([1 << 60, 5], pa.int64()).cast(pa.date64())
    assert [row["at"] is None for row in rows_of(TABLE.append_column("at", parts), "at")] == [1, 0]


def test_a_column_of_nulls_is_read_as_with_more_rows():
    for table in (TABLE.set_column(0, "student", pa.nulls(2)), [{**ROWS[0], "student": None}]):
        assert {row["student"] for row in rows_of(table)} == {None}


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


def test_lists_of_floats_are_refused_by_their_type_and_not_by_a_value():
    columns = ListColumns(ranking="ranking", user="student")
    for items in ([[1.0, 2.0]], [[1.5]], [[]], [None]):
        lists = pa.array(items, pa.list_(pa.float64()))
        table = pa.table({"student": [7], "ranking": lists})
        with pytest.raises(ConfigError, match="items in its lists must be integers or text"):
            batches_of(table, columns, ())
