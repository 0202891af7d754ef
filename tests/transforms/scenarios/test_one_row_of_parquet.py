"""One row of a Parquet file, of any bytes that its type can hold, leaves every other row as it was.

So it moves an exact count by what one row can move it, and it never ends a run.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushrank.privacy.keyed_hash import KEY_BYTES, KeyedHash
from hushrank.privacy.randomness import system_bits
from hushrank.transforms.common.catalogue import Catalogue
from hushrank.transforms.common.encode import encode_comparisons
from hushrank.transforms.common.epsilons import AnswerColumns, EpsilonSource, EpsilonTable
from hushrank.transforms.common.schema import ComparisonColumns, Ties
from hushrank.transforms.common.sorting import number_runs
from hushrank.transforms.comparisons import privatize as answers
from hushrank.transforms.rankings.ranking_columns import ListColumns, RankColumns
from hushrank.transforms.rankings.rankings import encode_lists, encode_ranks
from hushrank.transforms.responses import responses
from hushrank.transforms.responses.responses import ResponseColumns, WideColumns
from hushrank.transforms.storage.files import check_files, list_files
from hushrank.transforms.storage.read import plan_files, read_batches

HASH = KeyedHash(bytes(KEY_BYTES))
EPSILONS = EpsilonSource(low=0.1, high=9.0)
TABLE = EpsilonTable(pa.array([str(n) for n in range(10, 20)]), np.linspace(1, 2, 10))
PLACE = 2  # of the row that may be anything

Row = tuple[Any, ...]
TEXTS = [pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.string_view()]
INTEGERS = [pa.int8(), pa.uint16(), pa.int32(), pa.int64(), pa.uint64()]
FLOATS = [pa.float16(), pa.float32(), pa.float64()]
TIMES = [
    *(pa.timestamp(unit, zone) for unit in ("ms", "us", "ns") for zone in (None, "Asia/Kolkata")),
    pa.date32(),
]
PEOPLE = [*TEXTS, *INTEGERS, pa.binary(2)]
ITEMS = [*TEXTS, *INTEGERS]


def comparisons(batch: pa.RecordBatch, columns: ComparisonColumns, items: Catalogue) -> list[Row]:
    rows = encode_comparisons(batch, columns, items, HASH).rows
    assert rows.user is not None
    event = rows.user if rows.event is None else rows.event
    return list(zip(rows.left, rows.right, rows.outcome, *rows.user.T, *event.T, strict=True))


def local(table: EpsilonTable | None) -> Callable[..., list[Row]]:
    def rows_of(batch: pa.RecordBatch, columns: AnswerColumns, items: Catalogue) -> list[Row]:
        how = (EPSILONS, table, HASH, Ties.DROP, system_bits())
        rows = answers.encode_answers(batch, columns, items, *how).rows
        assert rows.owner is not None
        return list(zip(rows.cell, rows.outcome, rows.epsilon, *rows.owner.T, strict=True))

    return rows_of


def sheets(batch: pa.RecordBatch, columns: Any, items: Catalogue) -> list[Row]:
    rows = responses.encode_responses(batch, columns, items, HASH).rows
    order = rows.item if rows.order is None else rows.order
    whose = rows.owner[rows.person].T
    return list(zip(rows.item, rows.correct, order, *whose, strict=True))


def ranks(batch: pa.RecordBatch, columns: RankColumns, items: Catalogue) -> list[Row]:
    pieces = encode_ranks(batch, columns, items, EPSILONS, None, HASH).rows
    rows = pieces.rankings
    assert rows.owner is not None
    first = np.zeros(len(rows.items), np.bool_)
    first[np.cumsum(rows.lengths) - rows.lengths] = True
    piece = number_runs(first)
    whose = (*rows.owner[piece].T, pieces.contest[piece], rows.epsilon[piece])
    return list(zip(rows.items, pieces.rank, pieces.rank_rest, *whose, strict=True))


def lists(batch: pa.RecordBatch, columns: ListColumns, items: Catalogue) -> list[Row]:
    rows = encode_lists(batch, columns, items, EPSILONS, None, HASH, 3).rows
    assert rows.owner is not None
    held = np.split(rows.items, np.cumsum(rows.lengths)[:-1]) if len(rows) else []
    return [
        (*items.tolist(), epsilon, *owner)
        for items, epsilon, owner in zip(held, rows.epsilon, rows.owner.tolist(), strict=True)
    ]


PAIRS = {"left": "left", "right": "right", "winner": None, "outcome": "outcome"}
WINNERS = PAIRS | {"winner": "winner", "outcome": None}
OUTCOMES = [*TEXTS, pa.int8(), pa.int64(), *FLOATS]
NUMBERS_OF_ALL_KINDS = [*TEXTS, pa.int64(), pa.uint64(), *FLOATS]
EPSILON_TYPES = [*NUMBERS_OF_ALL_KINDS, pa.decimal128(9, 3), pa.decimal256(50, 9)]
LISTS = [pa.list_(pa.string()), pa.list_(pa.binary()), pa.large_list(pa.string()),
         pa.list_(pa.int64()), pa.list_(pa.uint64()), pa.list_(pa.int8(), 2),
         pa.list_(pa.string(), 2)]  # fmt: skip
# Of each kind: how rows become what is counted, the columns, and what types each may have.
KINDS: dict[str, tuple[Callable[..., list[Row]], Any, dict[str, list[Any]]]] = {
    "outcomes": (
        comparisons,
        ComparisonColumns(**PAIRS, user="user", event="event"),
        {"user": PEOPLE, "event": PEOPLE, "left": ITEMS, "right": ITEMS, "outcome": OUTCOMES},
    ),
    "winners": (
        comparisons,
        ComparisonColumns(**WINNERS, user="user", event=None),
        {"user": PEOPLE, "left": ITEMS, "right": ITEMS, "winner": ITEMS},
    ),
    "local, a column": (
        local(None),
        AnswerColumns(**PAIRS, user="user", event=None, epsilon="epsilon"),
        {"user": PEOPLE, "outcome": OUTCOMES, "epsilon": EPSILON_TYPES},
    ),
    "local, a table": (
        local(TABLE),
        AnswerColumns(**PAIRS, user="user", event=None),
        {"user": [*TEXTS, *INTEGERS], "outcome": OUTCOMES},
    ),
    "responses": (
        sheets,
        ResponseColumns(user="user", item="left", correct="correct", order="order"),
        {
            "user": PEOPLE,
            "left": ITEMS,
            "correct": [*OUTCOMES, pa.bool_()],
            "order": [*TIMES, *TEXTS, pa.int64(), pa.uint64()],
        },
    ),
    "wide responses": (
        sheets,
        WideColumns(user="user", items=("correct",), order="order"),
        {"user": PEOPLE, "correct": [*OUTCOMES, pa.bool_()], "order": TIMES},
    ),
    "ranks": (
        ranks,
        RankColumns(user="user", item="left", rank="rank", contest="event", epsilon="epsilon"),
        {
            "user": PEOPLE,
            "left": ITEMS,
            "rank": NUMBERS_OF_ALL_KINDS,
            "event": ITEMS,
            "epsilon": EPSILON_TYPES,
        },
    ),
    "lists": (
        lists,
        ListColumns(ranking="list", user="user", contest="event", epsilon="epsilon"),
        {"user": PEOPLE, "list": LISTS, "event": ITEMS, "epsilon": EPSILON_TYPES},
    ),
}
HONEST: dict[str, list[Any]] = {
    "user": [10, 11, 12, 13, 14],
    "event": [20, 21, 22, 23, 24],
    "left": [0, 1, 2, 0, 1],
    "right": [1, 2, 0, 2, 0],
    "winner": [0, 2, 2, 0, 1],
    "outcome": [1, -1, 1, 1, -1],
    "correct": [1, 0, 1, 1, 0],
    "order": [5, 4, 3, 2, 1],
    "rank": [1, 2, 3, 4, 5],
    "epsilon": [1, 2, 3, 4, 5],
    "list": [[0, 1], [1, 2], [2, 0], [0, 2], [1, 0]],
}


def honest(name: str, type_: pa.DataType) -> pa.Array:
    """Values that every type can hold; where it is one of texts, their digits."""
    return pa.array([_as(value, type_) for value in HONEST[name]], type_)


def _as(value: Any, type_: pa.DataType) -> Any:
    if hasattr(type_, "value_type"):
        return [_as(each, type_.value_type) for each in value]
    if pa.types.is_decimal(type_):
        return Decimal(value)
    if pa.types.is_floating(type_):
        return np.float16(value) if type_ == pa.float16() else float(value)
    if pa.types.is_boolean(type_):
        return bool(value)
    if pa.types.is_temporal(type_) or pa.types.is_integer(type_):
        return value
    return str(value) if "string" in str(type_) else str(value).encode()


WILD_TEXTS = st.one_of(
    st.binary(max_size=12),
    st.text(max_size=6).map(lambda text: text.encode(errors="surrogatepass")),
    st.sampled_from([b"tie", b" 1 ", b"1e400", b"9" * 30, b"nan", b"\xe9", b"2026-02-30", b"0x1",
                     b"x" * 5000, b"\x00", b"9223372036854775807", b"a"]),
)  # fmt: skip


def of_any_bytes(type_: pa.DataType, draw: st.DrawFn) -> pa.Array:
    """One value of a type, which nobody checked."""
    if draw(st.integers(0, 9)) == 0:
        return pa.nulls(1, type_)
    if hasattr(type_, "value_type"):
        fixed = pa.types.is_fixed_size_list(type_)
        length = type_.list_size if fixed else draw(st.integers(0, 4))
        parts = [of_any_bytes(type_.value_type, draw) for _ in range(length)]
        values = pa.concat_arrays(parts) if parts else pa.nulls(0, type_.value_type)
        if fixed:
            return pa.FixedSizeListArray.from_arrays(values, type=type_)
        of_lists = pa.LargeListArray if pa.types.is_large_list(type_) else pa.ListArray
        return of_lists.from_arrays([0, length], values)
    try:
        width = max(type_.bit_width // 8, 1)
    except ValueError:
        text = pa.array([draw(WILD_TEXTS)], pa.binary())
        if "string" not in str(type_):
            return text.cast(type_)
        unchecked = pa.Array.from_buffers(pa.string(), 1, text.buffers())
        return unchecked.cast(type_, safe=False)
    zeros, ones = bytes(width - 1), b"\xff" * (width - 1)
    ends = [zeros + b"\x00", zeros + b"\x80", ones + b"\x7f", ones + b"\xff"]
    content = draw(st.sampled_from(ends) | st.binary(min_size=width, max_size=width))
    return pa.Array.from_buffers(type_, 1, [None, pa.py_buffer(content + bytes(8))])


def column_of(name: str, type_: pa.DataType, draw: st.DrawFn | None) -> pa.Array:
    """Honest values, with one that may be anything in between where there is `draw`."""
    values = honest(name, type_)
    if draw is None:
        return values
    return pa.concat_arrays([values[:PLACE], of_any_bytes(type_, draw), values[PLACE:]])


def rows_in(path: Path, kind: str, items: Catalogue) -> list[Row]:
    rows_of, columns, _ = KINDS[kind]
    files = list_files([str(path)])
    check_files(files, columns)
    batches = [batch for split in plan_files(files, columns) for batch in read_batches(split)]
    return [row for batch in batches for row in rows_of(batch.rows, columns, items)]


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_one_row_of_any_bytes_leaves_every_other_row(tmp_path_factory, kind, data) -> None:
    columns, types = KINDS[kind][1:]
    chosen = {
        name: data.draw(st.sampled_from(types.get(name, [pa.int64()]))) for name in columns.names()
    }
    coded = data.draw(st.booleans())
    folder = tmp_path_factory.mktemp("logs")
    found = {}
    for which, draw in (("wild", data.draw), ("plain", None)):
        table = pa.table({name: column_of(name, type_, draw) for name, type_ in chosen.items()})
        pq.write_table(table, folder / f"{which}.parquet", use_dictionary=coded)
        found[which] = rows_in(folder / f"{which}.parquet", kind, Catalogue.of_count(3))
    assert len(found["plain"]) == len(HONEST["user"])
    more = len(found["wild"]) - len(found["plain"])
    assert more in (0, 1)
    assert found["wild"][:PLACE] + found["wild"][PLACE + more :] == found["plain"]
