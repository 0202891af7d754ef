"""What a row of a table means follows from itself alone, whichever library holds the table.

The counts of honest people are taken without and with rows of others anywhere among theirs. They
stay exactly as they were, and no row ends the call. People are compared by what is kept of each,
because an integer and its text may have pseudonyms of their own in a test of one table.
"""

from __future__ import annotations

import uuid
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hushrank as hr
from hushrank.flows.interfaces.python.tables import batches_of, table_file
from hushrank.flows.ledger.keys import KEY_BYTES, LedgerKey
from tests.transforms.row_kinds import ITEMS, KINDS, Row, RowKind, kept

KEY = LedgerKey(bytes(KEY_BYTES), "")
N_HONEST = 24
WALL = datetime(2026, 11, 20, 23, 30)
INSTANT = datetime(2026, 11, 20, 22, 30, tzinfo=UTC)  # the same in Berlin

People = Counter[tuple[Any, ...]]


class Unspeakable:
    def __str__(self) -> str:
        raise RuntimeError("Zaphod")

    __eq__ = __hash__ = __str__  # type: ignore[assignment]

    def __repr__(self) -> str:
        return "Unspeakable()"

    @property
    def __class__(self) -> Any:  # type: ignore[override]
        raise RuntimeError("Zaphod")


class Broken(Mapping[str, Any]):
    def __getitem__(self, name: str) -> Any:
        raise RuntimeError("Zaphod")

    def __iter__(self) -> Iterator[str]:
        raise RuntimeError("Zaphod")

    def __len__(self) -> int:
        return 1


ODD: list[Any] = [
    *(None, float("nan"), float("inf"), -0.0, 2.5, 1e300, 2.0**53, True, False, np.bool_(True)),
    *(7, 7.0, "7", "007", " 7", Decimal(7), Decimal("7.5"), Decimal("sNaN"), Decimal("1E+999999")),
    *(np.int64(7), np.uint8(7), np.float32(7), np.float16(2.5), np.longdouble(7), np.str_("7")),
    *(1 << 63, -(1 << 63) - 1, (1 << 64) - 1, 1 << 64, 10**4200, -1, 1j, b"7", b"\xff", "\ud800"),
    *("", "tie", "London", "x" * 5000, "\x00", "\x1a", "NA", "true", "2026-11-20", bytearray(b"7")),
    *(WALL, INSTANT, WALL.replace(tzinfo=timezone(timedelta(hours=9))), datetime.min, datetime.max),
    *(datetime.min.replace(tzinfo=timezone(timedelta(hours=9))), date(2026, 11, 20), date.min),
    *(time(1), timedelta(1), np.datetime64("2026-11-20T23:30"), np.datetime64("NaT")),
    *(np.datetime64("20000-01-01T00:00"), np.datetime64("2026-11-20T23:30:00.000000001")),
    *([], ["London"], ["London", 7], ("London", "Paris"), [[1]], {"a": 1}, {1}, np.array([1, 2])),
    *(np.array(["London", "Rome"]), np.array(5), np.void(b"ab"), uuid.UUID(int=7), object()),
    *(pa.scalar(7), pa.scalar(INSTANT), pa.scalar(None), memoryview(b"7"), Unspeakable(), range(3)),
]
NO_ROWS: list[Any] = [None, 7, "London", [], {}, Broken(), Unspeakable(), {7: 7, "\ud800": 1}]


def with_row(kind: str, changes: Callable[[int], Row], **others: Any) -> RowKind:
    """A kind of rows with some other values in the honest ones."""
    row = KINDS[kind].row
    return replace(KINDS[kind], row=lambda n: row(n) | changes(n), **others)


def numbered(n: int) -> Row:
    return {"user": 1000 + n // 2}


TABLES = {
    "comparisons on the wall": with_row(
        "in a window", lambda n: numbered(n) | {"at": WALL - timedelta(days=n % 2)}
    ),
    "comparisons at instants": with_row(
        "in a window", lambda n: {"at": INSTANT + timedelta(hours=n % 4 - 1)}
    ),
    "comparisons on dates": with_row(
        "in a window", lambda n: {"at": WALL.date() - timedelta(days=n % 2)}
    ),
    "comparisons at epochs": with_row("at epochs", numbered),
    "weighted comparisons": with_row("weighted comparisons", numbered),
    "winners": with_row("winners and events", lambda n: {"event": f"event {n}"}),
    "private answers": with_row("private answers", numbered),
    "ranks": with_row("ranks", lambda n: {"user": 1000 + n // 3}),
    "lists": with_row("lists", numbered),
    "answers": with_row("answers", lambda n: numbered(n) | {"time": WALL - timedelta(n % 7)}),
    "answers that are true": with_row("answers", lambda n: {"correct": n % 2 == 0, "time": n}),
    "wide answers": with_row("wide answers", numbered),
}


def rows_of(kind: RowKind) -> list[Row]:
    return [kind.row(n) for n in range(N_HONEST)]


def people(answers: Any, kind: RowKind, folder: Path) -> People:
    """What is kept of each person."""
    further = [] if kind.window is None else [kind.window.column]
    roles = [*kind.columns.roles(), *(("window", name) for name in further)]
    with table_file(batches_of(answers, kind.columns, further), roles, folder, KEY) as file:
        found = kept(Path(file.path), kind)
    by_owner: dict[Any, list[Any]] = {}
    for owner, *rest in found.elements():
        by_owner.setdefault(owner, []).append(tuple(rest))
    return Counter(tuple(sorted(each)) for each in by_owner.values())


def frame(rows: Sequence[Row], **dtypes: Any) -> Any:
    pd = pytest.importorskip("pandas")
    # Not from the list of dicts: pandas takes values of dicts apart to find their types.
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = {}
    for name in names:
        values = np.empty(len(rows), object)
        for place, row in enumerate(rows):
            values[place] = row.get(name)
        columns[name] = pd.Series(values, dtype=object)
    return pd.DataFrame(columns).astype(dtypes)


def inferred(rows: Sequence[Row]) -> Any:
    """Types as pandas finds them: integers with a gap are floats, mixed values objects."""
    return frame(rows).infer_objects()


def categories(rows: Sequence[Row]) -> Any:
    found = frame(rows)
    for name in found.columns:
        try:
            found[name] = found[name].astype("category")
        except (TypeError, RuntimeError):  # values without a hash
            continue
    return found


def polars_objects(rows: Sequence[Row]) -> Any:
    pl = pytest.importorskip("polars")
    found = frame(rows)
    series = {name: found[name].tolist() for name in found.columns}
    return pl.DataFrame(
        {name: pl.Series(name, values, dtype=pl.Object) for name, values in series.items()}
    )


OF_OBJECTS: dict[str, Callable[[Sequence[Row]], Any]] = {
    "list of dicts": list,
    "generator": lambda rows: (row for row in rows),
    "pandas objects": frame,
    "pandas as inferred": inferred,
    "pandas categories": categories,
    "polars objects": polars_objects,
}


def odd_rows(kind: RowKind, value: Any) -> list[Row]:
    """Rows of others, in each of which one column holds the value."""
    good = kind.row(1) | {"user": "eve"}
    return [good | {name: value} for name in good]


def is_truth(value: Any) -> bool:
    return type(value) in (bool, np.bool_)


@pytest.mark.parametrize("table", OF_OBJECTS)
@pytest.mark.parametrize("kind", TABLES)
def test_no_odd_row_moves_the_rows_of_others(kind: str, table: str, tmp_path: Path):
    rows, make = TABLES[kind], OF_OBJECTS[table]
    honest = rows_of(rows)
    expected = people(make(honest), rows, tmp_path)
    assert expected.total() >= N_HONEST / 8
    # pandas keeps one category for True and 1, so there a truth changes the table itself.
    odd = [value for value in ODD if table != "pandas categories" or not is_truth(value)]
    alone = len(kind + table) % 23
    for values in (odd[:30], odd[30:60], odd[60:], [odd[alone]], [odd[alone + 23]]):
        others = [row for value in values for row in odd_rows(rows, value)]
        mixed = [*others[::2], *honest[:5], *others[1::2], *honest[5:], *others[:3]]
        found = people(make(mixed), rows, tmp_path)
        assert found & expected == expected, values


@pytest.mark.parametrize("kind", TABLES)
def test_what_is_no_row_moves_nothing(kind: str, tmp_path: Path):
    rows = TABLES[kind]
    honest: list[Any] = rows_of(rows)
    expected = people(honest, rows, tmp_path)
    for odd in NO_ROWS:
        mixed = [odd, *honest[:5], odd, *honest[5:], odd]
        assert people(mixed, rows, tmp_path) == expected
        assert people(iter(mixed), rows, tmp_path) == expected
    kept_row = OrderedDict(honest[0]), *honest[1:]
    assert people(list(kept_row), rows, tmp_path) == expected


@pytest.mark.parametrize("kind", TABLES)
def test_a_list_of_dicts_is_read_as_each_of_its_rows_alone(kind: str, tmp_path: Path):
    rows = TABLES[kind]
    known = [value for value in ODD if type(value) is not Unspeakable]  # hypothesis asks it things
    values = (
        st.sampled_from(known) | st.integers() | st.floats() | st.text(max_size=3) | st.binary()
    )
    values |= st.datetimes(timezones=st.none() | st.just(UTC))
    names = sorted(rows.row(0))
    odd_row = st.dictionaries(st.sampled_from(names), values, max_size=2)
    honest = rows_of(rows)
    expected = people(honest, rows, tmp_path)

    @settings(
        max_examples=8,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )
    @given(st.lists(st.tuples(st.integers(0, N_HONEST), odd_row), min_size=1, max_size=3))
    def check(others: list[tuple[int, Row]]) -> None:
        mixed = list(honest)
        for number, (place, changes) in enumerate(others):
            mixed.insert(place, rows.row(1) | {"user": f"eve {number}"} | changes)
        found = people(mixed, rows, tmp_path)
        assert found & expected == expected

    check()


TYPES = {
    **{"user": pa.int64(), "outcome": pa.int8(), "at": pa.timestamp("us"), "weight": pa.float64()},
    **{"left": pa.string(), "right": pa.string(), "winner": pa.string(), "event": pa.string()},
    **{"item": pa.int64(), "correct": pa.int8(), "time": pa.timestamp("us"), "rank": pa.float64()},
    **{"epsilon": pa.float64(), "contest": pa.int32(), "ranking": pa.list_(pa.string())},
    **dict.fromkeys(ITEMS, pa.int8()),
}
TYPED_KINDS = ["comparisons on the wall", "winners", "weighted comparisons", "ranks", "lists"]
TYPED_KINDS += ["private answers", "answers", "wide answers"]
EXTREMES = {
    pa.int64(): [None, -(1 << 63), (1 << 63) - 1],
    pa.int32(): [None, -(1 << 31), (1 << 31) - 1],
    pa.int8(): [None, -128, 127],
    pa.float64(): [None, float("nan"), float("inf"), -1e308, 2.5],
    pa.timestamp("us"): [None, datetime.min, datetime.max],
    pa.string(): [None, "", "x" * 5000, "\x00", "tie"],
    pa.list_(pa.string()): [None, [], [None], ["London", "London"], ["x"] * 99],
}


def arrow(rows: Sequence[Row], kind: RowKind) -> pa.Table:
    types = {name: TYPES[name] for name in rows[0]}
    if kind is TABLES["wide answers"]:
        types["time"] = pa.int64()
    if kind is TABLES["winners"]:
        types["user"] = pa.string()
    if kind is TABLES["ranks"]:
        types["item"] = pa.string()
    return pa.Table.from_pylist(list(rows), pa.schema(list(types.items())))


def far(table: pa.Table) -> pa.Table:
    """The same with a time outside of every calendar in the first row."""
    for place, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):
            counts = [1 << 61, *table[field.name].cast(pa.int64()).to_pylist()[1:]]
            times = pa.array(counts, pa.int64()).cast(field.type)
            table = table.set_column(place, field.name, times)
    return table


def as_polars(table: pa.Table) -> Any:
    return pytest.importorskip("polars").from_arrow(table)


def as_duckdb(table: pa.Table) -> Any:
    return pytest.importorskip("duckdb").connect().from_arrow(table)


def as_pandas(table: pa.Table, **options: Any) -> Any:
    pytest.importorskip("pandas")
    return table.to_pandas(**options)


def as_nullable(table: pa.Table) -> Any:
    return as_pandas(table, types_mapper=as_pandas_type)


def as_pandas_type(type_: pa.DataType) -> Any:
    pd = pytest.importorskip("pandas")
    known = {pa.int64(): pd.Int64Dtype(), pa.int8(): pd.Int8Dtype(), pa.string(): pd.StringDtype()}
    return known.get(type_)


def as_arrow_backed(table: pa.Table) -> Any:
    pd = pytest.importorskip("pandas")
    return as_pandas(table, types_mapper=pd.ArrowDtype)


OF_TYPES: dict[str, Callable[[pa.Table], Any]] = {
    "arrow": far,
    "reader": lambda table: far(table).to_reader(max_chunksize=7),
    "list of batches": lambda table: far(table).to_batches(max_chunksize=7),
    "pandas with numpy types": as_pandas,
    "pandas with nullable types": as_nullable,
    "pandas with Arrow types": as_arrow_backed,
    "polars": as_polars,
    "lazy polars": lambda table: as_polars(table).lazy(),
    "duckdb": as_duckdb,
}


@pytest.mark.parametrize("table", OF_TYPES)
@pytest.mark.parametrize("kind", TYPED_KINDS)
def test_no_extreme_value_moves_the_rows_of_others(kind: str, table: str, tmp_path: Path):
    """A column of integers with a gap is one of floats in pandas; then that is what is read."""
    rows, make = TABLES[kind], OF_TYPES[table]
    good = arrow(rows_of(rows), rows)
    expected = people(good, rows, tmp_path)
    others = [
        good.slice(1, 1).to_pylist()[0] | {"user": good["user"][0].as_py()} | {field.name: value}
        for field in good.schema
        for value in EXTREMES[field.type]
        if field.name != "user" or value is None
    ]
    eve = pa.array([-1 if good["user"].type == pa.int64() else "eve"] * len(others))
    odd = arrow(others, rows)
    whose = pa.chunked_array([pc.if_else(pc.is_null(odd["user"]), None, eve)])
    odd = odd.set_column(odd.schema.get_field_index("user"), "user", whose)
    mixed = pa.concat_tables([odd.slice(0, 4), good.slice(0, 5), odd.slice(4), good.slice(5)])
    found = people(make(mixed.combine_chunks()), rows, tmp_path)
    assert found & expected == expected


@pytest.mark.parametrize("dtype", ["float64", "float32", "Int64", "category", "string", "object"])
def test_a_person_has_one_name_in_every_dtype(dtype: str, tmp_path: Path):
    """Beyond what a float tells apart it names nobody."""
    pytest.importorskip("pandas")
    rows = TABLES["weighted comparisons"]
    honest = rows_of(rows)
    expected = people(honest, rows, tmp_path)
    found = frame([*honest, honest[0] | {"user": None}], user="float64")
    found = found.astype({"user": "Int64"}) if dtype == "string" else found
    assert people(found.astype({"user": dtype}), rows, tmp_path) == expected
    large = frame([honest[0] | {"user": 2.0**53}, honest[0] | {"user": 2.5}, *honest])
    if dtype in ("float64", "float32", "object", "category"):
        assert people(large.astype({"user": dtype}), rows, tmp_path) == expected


def test_numbers_and_their_texts_are_one_person_in_a_column_of_objects(tmp_path: Path):
    rows = KINDS["comparisons"]
    names = [7, 7.0, "7", b"7", np.int64(7), np.uint8(7), Decimal(7), np.float32(7), pa.scalar(7)]
    answers = [rows.row(1) | {"user": name} for name in [*names, " 7", "007", "+7", 7.5, True]]
    found = people(answers, rows, tmp_path)
    assert sorted(len(each) for each in found.elements()) == [1, 1, len(names) + 1]


def test_columns_of_two_batches_are_floats_and_integers(tmp_path: Path):
    rows = TABLES["weighted comparisons"]
    honest = rows_of(rows)
    batches = [pa.RecordBatch.from_pylist(honest[:6]), pa.RecordBatch.from_pylist(honest[6:])]
    floats = batches[1].set_column(0, "user", batches[1]["user"].cast(pa.float64()))
    assert people([batches[0], floats], rows, tmp_path) == people(honest, rows, tmp_path)


COLUMNS = {
    "comparisons": {"left": "left", "right": "right", "outcome": "outcome", "user": "user"},
    "rankings": {"ranking": "ranking", "user": "user"},
    "responses": {"item": "item", "correct": "correct", "user": "user"},
}


def counted(answers: Any, kind: str) -> tuple[int, int]:
    """Rows read, and those of them that count on the night, as `inspect` says."""
    found = hr.inspect(
        answers, **COLUMNS[kind], items=list(ITEMS), max_contributions=2, night="2026-11-20",
        schedule={"window": "at", "timezone": "Europe/Berlin"},
    )  # fmt: skip
    return found.rows, found.valid


def answers_at(kind: str, moment: Any, n: int) -> list[Row]:
    values = {"left": "London", "right": "Paris", "outcome": 1, "item": "Rome", "correct": 1}
    values["ranking"] = ["London", "Paris"]
    chosen = {name: values[name] for name in COLUMNS[kind].values() if name != "user"}
    return [{"user": f"person {place}", **chosen, "at": moment} for place in range(n)]


FIRST = [datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 11, 1), date(2026, 11, 1), "x", 5, None]
FORMS = {"list": list, "generator": iter, "pandas": frame, "pandas as inferred": inferred}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", COLUMNS)
def test_one_time_does_not_decide_the_night_of_all(kind: str, form: str):
    """200 people at 23:30 on the wall count; 200 at 23:30 UTC, the 21st in Berlin, do not."""
    make = FORMS[form]
    on_the_wall = answers_at(kind, WALL, 200)
    in_utc = answers_at(kind, WALL.replace(tzinfo=UTC), 200)
    assert counted(make(on_the_wall), kind) == (200, 200)
    assert counted(make(in_utc), kind) == (0, 0)
    for moment in FIRST if form == "list" else FIRST[:3]:
        first = answers_at(kind, moment, 1)
        assert counted(make([*first, *on_the_wall]), kind)[1] == 200
        assert counted(make([*first, *in_utc, *on_the_wall]), kind)[1] == 200


def test_structs_are_rows_and_a_null_one_is_none(tmp_path: Path):
    kind = KINDS["comparisons"]
    rows = rows_of(kind)
    whole, structs = people(rows, kind, tmp_path), pa.array([None, *rows])
    assert people(structs, kind, tmp_path) == whole
    assert people(pa.array([rows[0], *rows])[1:], kind, tmp_path) == whole
    few = [pa.record_batch(pa.array(rows)[:3])]  # its columns stay as long as they were
    assert people(few, kind, tmp_path) == people(rows[:3], kind, tmp_path)


def test_a_list_of_floats_is_refused_by_its_type_also_as_a_dictionary():
    items = pa.DictionaryArray.from_arrays([0, 1], pa.array([1.0, 7.5]))
    ranking = pa.ListArray.from_arrays(pa.array([0, 2], pa.int32()), items)
    table = pa.table({"user": ["a"], "ranking": ranking, "epsilon": [1.0]})
    with pytest.raises(hr.ConfigError, match="column ranking"):
        batches_of(table, KINDS["lists"].columns, [])
