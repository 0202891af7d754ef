"""Data file of a table, and the places of the table's columns in it.

A table may rename, add and drop columns without writing its files again. So a file is asked for
columns by the numbers that the table gave them, never by the names that they have today.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pyarrow as pa

from hushrank.transforms.common.schema import InputError, is_list, is_text

_FIELD_ID = b"PARQUET:field_id"
PYTHON = "PTransform"  # stands for the type of a transform that was passed in Python


@dataclass(frozen=True, slots=True)
class StoredAs:
    """Storage of a column in files.

    Attributes:
        number: field id of the column; None: this table finds columns by their names in the files.
        names: possible names of the column in a file whose columns have no ids.
    """

    number: int | None
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """Properties that all data files of a snapshot share.

    Attributes:
        table: the table as the user names it.
        version: identity of the snapshot.
        schema: the table's columns.
        stored: columns as files keep them.
    """

    table: str
    version: str
    schema: pa.Schema
    stored: Mapping[str, StoredAs]


@dataclass(frozen=True, slots=True)
class DataFile:
    """Parquet file of a table's snapshot.

    Attributes:
        layout: layout that it shares with the other files.
        location: path or URL of the file.
        size: size in bytes.
        constants: values of columns that the file need not hold, such as those of its partition;
            dates and times are integers, as Arrow stores them.
        span: lowest and highest time of the column of times, as integers of the column's type;
            None: unknown, or a row has none.
    """

    layout: Layout
    location: str
    size: int
    constants: Mapping[str, Any] = field(default_factory=dict)
    span: tuple[int, int] | None = None

    @property
    def name(self) -> str:
        """Name of the file in messages: its table and its last name, because folders may hold
        values."""
        return f"{self.layout.table}: data file {self.location.rpartition('/')[2]}"

    def columns_of(self, stored: pa.Schema, wanted: Sequence[str]) -> dict[str, str | None]:
        """Return the name in the file of each column of the table in `wanted`; None: not in the
        file.

        Args:
            stored: schema of the file.
            wanted: names of columns of the table.

        Raises:
            InputError: columns of the file have no ids and the table does not say their names, or a
                column has another type than in the table.
        """
        numbers = {
            int(each.metadata[_FIELD_ID]): each.name
            for each in stored
            if each.metadata and _FIELD_ID in each.metadata
        }
        found: dict[str, str | None] = {}
        for name in wanted:
            kept = self.layout.stored[name]
            if numbers and kept.number is not None:
                found[name] = numbers.get(kept.number)
            elif kept.names:
                found[name] = next((each for each in kept.names if each in stored.names), None)
            else:
                raise InputError(
                    f"{self.name}: its columns have no field ids, and the table has no name mapping"
                    " (schema.name-mapping.default), so columns cannot be matched. Write the file"
                    " again, or add the mapping."
                )
            here = found[name]
            if here is not None and not _alike(
                stored.field(here).type, self.layout.schema.field(name).type
            ):
                raise InputError(
                    f"{self.name}: column {name} has type {stored.field(here).type}, but"
                    f" {self.layout.schema.field(name).type} in the table. Write the file again."
                )
        return found

    def as_in_table(
        self, rows: pa.RecordBatch, wanted: pa.Schema, found: Mapping[str, str | None]
    ) -> pa.RecordBatch:
        """Return the rows of the file with the columns `wanted`, named as in the table."""
        columns = [
            self._constant(each, len(rows)) if found[each.name] is None else rows[found[each.name]]
            for each in wanted
        ]
        return pa.RecordBatch.from_arrays(columns, names=wanted.names)

    def _constant(self, column: pa.Field, length: int) -> pa.Array:
        value = self.constants.get(column.name)
        if value is None:
            return pa.nulls(length, column.type)
        if isinstance(value, int) and pa.types.is_temporal(column.type):
            width = pa.int32() if pa.types.is_date32(column.type) else pa.int64()
            return pa.repeat(pa.scalar(value, width), length).cast(column.type)
        return pa.repeat(pa.scalar(value, column.type), length)


def _alike(stored: pa.DataType, declared: pa.DataType) -> bool:
    """Whether both types mean the same to a reader of rows; numbers may have grown."""
    if is_list(stored) or is_list(declared):
        return (
            is_list(stored) and is_list(declared) and _alike(stored.value_type, declared.value_type)
        )
    return is_text(stored) == is_text(declared)


@dataclass(frozen=True, slots=True)
class ServedTable:
    """Table whose rows a service sends.

    Attributes:
        table: the table as the user names it.
        version: identity of its state.
        schema: columns of the table.
        size: size in bytes, about.
        rows: about how many.
        at: the state to read; None: the present one, which is as old as `version` says.
    """

    table: str
    version: str
    schema: pa.Schema
    size: int
    rows: int
    at: datetime | None


@dataclass(frozen=True, slots=True)
class BeamSource:
    """Rows that a Beam transform yields.

    Attributes:
        type: Beam YAML's name of the transform, or `PYTHON` if `pickled` holds it.
        config: settings of the source as JSON, which may hold a password.
        pickled: a transform that was passed in Python, as Beam's pickler writes it.
    """

    type: str
    config: str = field(default="{}", repr=False)
    pickled: bytes = field(default=b"", repr=False)
