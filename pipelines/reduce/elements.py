"""Elements of a Beam collection as `Part`s: dicts, `beam.Row`s, named tuples, Arrow batches.

A value means what its text means in a CSV file. One element decides nothing but its own rows: an
element that is no row becomes a row without values, which breaks a rule and is set aside alone.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa

from hushrank.pipelines.reduce.kind import Part
from hushrank.transforms.common.encode import Sifted
from hushrank.transforms.common.schema import RANKING, Columns, InputError, check_schema
from hushrank.transforms.engine.beam import GlobalWindows, beam
from hushrank.transforms.storage.read import is_string, set_unreadable_apart

BATCH_ROWS = 1 << 14  # rows that are encoded together


class BatchElements(beam.DoFn):
    """Elements of any form -> `Part`s, each of rows of one bundle."""

    def __init__(self, columns: Columns, *, strict: bool = False) -> None:
        """Args: the columns to read; whether a table without one of them ends the pipeline."""
        self._columns = columns
        self._strict = strict
        lists = {name for role, name in columns.roles() if role == RANKING}
        types = {True: pa.list_(pa.large_string()), False: pa.large_string()}
        self._schema = pa.schema([(name, types[name in lists]) for name in columns.names()])
        self._named = tuple(
            name for name in (columns.user, getattr(columns, "event", None)) if name is not None
        )

    def start_bundle(self) -> None:
        """Begin a bundle, which has rows of its own."""
        self._waiting: list[Any] = []

    def process(self, element: Any) -> Iterator[Part]:
        """Pass tables on, and gather rows."""
        if isinstance(element, pa.RecordBatch | pa.Table):
            for batch in self._batches_of(element):
                yield from self._parts_of(batch)
            return
        self._waiting.append(element)
        if len(self._waiting) >= BATCH_ROWS:
            yield from self._gathered()

    def finish_bundle(self) -> Iterator[Any]:
        """Send the rest."""
        if self._waiting:
            yield from map(GlobalWindows.windowed_value, self._gathered())

    def _gathered(self) -> Iterator[Part]:
        rows, self._waiting = list(map(_fields_of, self._waiting)), []
        columns = [
            _array_of([_field(row, column.name) for row in rows], column.type)
            for column in self._schema
        ]
        yield from self._parts_of(pa.RecordBatch.from_arrays(columns, schema=self._schema))

    def _batches_of(self, table: pa.RecordBatch | pa.Table) -> list[pa.RecordBatch]:
        """The needed columns of a table; without values if one of them cannot be read."""
        try:
            check_schema("input", table.schema, self._columns)
            wanted = table.select(self._schema.names)
        except (InputError, UnicodeDecodeError):
            if self._strict:
                raise
            nulls = [pa.nulls(table.num_rows, column.type) for column in self._schema]
            return [pa.RecordBatch.from_arrays(nulls, schema=self._schema)]
        return wanted.to_batches() if isinstance(wanted, pa.Table) else [wanted]

    def _parts_of(self, batch: pa.RecordBatch) -> Iterator[Part]:
        """The readable rows, and those that are not."""
        source = f"elements {_digest_of(batch)}"  # the same if the bundle is repeated as it was
        bytes_or_numbers = [name for name in self._named if not is_string(batch[name].type)]
        rows, unreadable = set_unreadable_apart(batch, bytes_or_numbers)
        if unreadable is not None:
            tally = {"rows_read": len(unreadable)}
            yield Part(source, 0, 0, Sifted(rows[:0], unreadable, tally=tally))
        yield Part(source, 1, 0, Sifted(rows, tally={"rows_read": len(rows)}))


def _digest_of(batch: pa.RecordBatch) -> str:
    content = hashlib.sha256()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    content.update(sink.getvalue())
    return content.hexdigest()


def _fields_of(element: Any) -> Any:
    """The mapping of a row's fields; an empty one if the element is no row."""
    try:
        if isinstance(element, Mapping):
            return element
        # methods of `beam.Row`, of named tuples and schema rows
        for method in ("as_dict", "_asdict"):
            if callable(named := getattr(element, method, None)):
                return named()
    except Exception:  # an object of somebody's own class may raise anything
        return {}
    return {}


def _field(row: Any, name: str) -> Any:
    try:
        return row.get(name)
    except Exception:  # the same
        return None


def _array_of(values: Sequence[Any], type_: pa.DataType) -> pa.Array:
    as_list = pa.types.is_list(type_)
    found = [_list_of(value) if as_list else _text_of(value) for value in values]
    try:
        return pa.array(found, type_)
    except UnicodeEncodeError:  # a lone surrogate, which no file holds
        return pa.array([each if _is_text(each) else None for each in found], type_)


def _is_text(found: str | list[str | None] | None) -> bool:
    texts = [found] if isinstance(found, str) else found or ()
    try:
        "".join(text or "" for text in texts).encode()
    except UnicodeEncodeError:
        return False
    return True


def _list_of(value: Any) -> list[str | None] | None:
    """The texts of a list; None if the value is none."""
    try:
        listed = isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)
        return [_text_of(each) for each in value] if listed else None
    except Exception:  # the same
        return None


def _text_of(value: Any) -> str | None:
    """The value as a CSV file has it; None if it has no text there."""
    try:
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, bytes):
            return value.decode()
        if isinstance(value, float | Decimal):
            if not math.isfinite(value):
                return None
            value = int(value) if value == int(value) else value
        return str(value) if isinstance(value, str | int | float | Decimal | UUID) else None
    except (ValueError, ArithmeticError):  # bytes that are no text, or a number of too many digits
        return None
