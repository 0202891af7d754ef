"""Read the rows that a Beam transform yields, in place of files.

The transform is somebody else's code, and the text of its errors may quote a row. An engine writes
that text into its own logs, on machines that hushrank does not know. So every function of the
transform that runs in Python is wrapped: what it raises becomes one sentence with the type of the
error alone. A connector in another language runs in a process of its own, whose logs nothing here
reaches (docs/beam.md).

Elements of a Beam collection as `Part`s: dicts, `beam.Row`s, named tuples, Arrow batches.

A value means what its text means in a CSV file. One element decides nothing but its own rows: an
element that is no row becomes a row without values, which breaks a rule and is set aside alone.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import partial
from types import MethodType
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa

from hushrank.pipelines.reduce.kind import Part
from hushrank.transforms.common.encode import Sifted
from hushrank.transforms.common.schema import LISTS, Columns, InputError, check_schema
from hushrank.transforms.engine.beam import GlobalWindows, beam
from hushrank.transforms.storage.read import is_string, set_unreadable_apart
from hushrank.transforms.tables.names import BeamSource

BATCH_ROWS = 1 << 14  # rows that are encoded together


class BatchElements(beam.DoFn):
    """Elements of any form -> `Part`s, each of rows of one bundle."""

    def __init__(self, columns: Columns, *, strict: bool = False) -> None:
        """Args: the columns to read; whether a table without one of them ends the pipeline."""
        self._columns = columns
        self._strict = strict
        lists = {name for role, name in columns.roles() if role in LISTS}
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


LABEL = "Source"
RAISED = (
    "input.source: {} raised {}. The text of the error may quote a row, so it is not shown; run the"
    " transform alone to read it. Nothing was released or spent."
)
NOT_BUILT = (
    "input.source: {} could not be built ({}). Check its type and config, for example in a pipeline"
    " of its own. Nothing was read or spent."
)
NO_ROWS = (
    "input.source: {} yields {}, not one collection of rows. Name a transform that reads rows."
    " Nothing was read or spent."
)
ENDLESS = (
    "input.source: {} yields rows without end, and a release counts once. Read up to a time, or"
    " write a night's rows to files first. Nothing was read or spent."
)
_OF_DOFN = ("setup", "start_bundle", "teardown")
_YIELDING = ("process", "process_batch", "finish_bundle")
_OF_COMBINE_FN = (
    *("setup", "create_accumulator", "add_input", "merge_accumulators", "compact"),
    *("extract_output", "teardown"),
)
_OF_RESTRICTIONS = ("initial_restriction", "create_tracker", "restriction_size", "truncate")
_OF_SPLITTING = ("split", "split_and_size")


class SourceError(InputError):
    """Error of a source, without the text of what it raised."""


class ReadSource(beam.PTransform):
    """A pipeline -> the `Part`s of the rows that the source yields."""

    def __init__(self, source: BeamSource, columns: Columns) -> None:
        super().__init__()
        self._source = source
        self._columns = columns

    def expand(self, pipeline: Any) -> beam.PCollection:
        """Apply the transform; an empty part comes first, so that no rows are counted as none."""
        nothing = Sifted((), tally={"rows_read": 0, "rows_rejected": 0})
        first = pipeline | "Nothing" >> beam.Create([Part(self._source.type, 0, 0, nothing)])
        whole = beam.WindowInto(beam.window.GlobalWindows())
        batches = beam.ParDo(BatchElements(self._columns))
        rows = self._rows(pipeline) | "OneWindow" >> whole | "Batch" >> batches
        return (first, rows) | "WithNothing" >> beam.Flatten()

    def _rows(self, pipeline: Any) -> beam.PCollection:
        name = self._source.type
        try:
            rows = pipeline | LABEL >> transform_of(self._source)
        except Exception as error:  # the transform may have asked a database
            failed = type(error).__name__
        else:
            if not isinstance(rows, beam.PCollection):
                raise InputError(NO_ROWS.format(name, f"a {type(rows).__name__}"))
            if not rows.is_bounded:
                raise InputError(ENDLESS.format(name))
            return rows
        raise SourceError(NOT_BUILT.format(name, failed))


def transform_of(source: BeamSource) -> beam.PTransform:
    """The transform that was named or passed."""
    if source.pickled:
        from apache_beam.internal import pickler

        return pickler.loads(source.pickled)
    from apache_beam.yaml.yaml_transform import YamlTransform  # slow to load

    return YamlTransform(json.dumps({"type": source.type, "config": json.loads(source.config)}))


def guard_source(pipeline: beam.Pipeline, source: BeamSource) -> None:
    """Wrap the functions of the source in `pipeline`, which has read it by `ReadSource`."""
    pipeline.visit(_Guards(source.type))


class _Guards(beam.pipeline.PipelineVisitor):
    """Wraps the functions of every step below `LABEL`."""

    def __init__(self, name: str) -> None:
        self._name = name

    def enter_composite_transform(self, node: beam.pipeline.AppliedPTransform) -> None:
        self.visit_transform(node)  # a runner takes a sum as a whole

    def visit_transform(self, node: beam.pipeline.AppliedPTransform) -> None:
        fn = getattr(node.transform, "fn", None)
        if fn is None or f"/{LABEL}/" not in f"/{node.full_label}/":
            return
        if isinstance(fn, beam.CombineFn):
            self._wrap(fn, _OF_COMBINE_FN, lambda method: _bound(self._told(method), fn))
        if isinstance(fn, beam.DoFn):
            from apache_beam.runners.common import DoFnSignature

            provider = DoFnSignature(fn).get_restriction_provider()
            self._wrap(fn, filter(partial(_is_own, fn), _OF_DOFN), self._told)
            self._wrap(fn, filter(partial(_is_own, fn), _YIELDING), self._told_of_each)
            if provider is not None:
                self._wrap(provider, _OF_RESTRICTIONS, self._told)
                self._wrap(provider, _OF_SPLITTING, self._told_of_each)

    def _wrap(self, owner: Any, names: Iterable[str], wrapped: Callable[[Any], Any]) -> None:
        for name in names:
            if (method := getattr(owner, name, None)) is not None:
                setattr(owner, name, wrapped(method))

    def _told(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """A function that does what `method` does, and raises the sentence alone."""
        name = self._name

        @functools.wraps(method)
        def call(*arguments: Any, **keywords: Any) -> Any:
            try:
                return method(*arguments, **keywords)
            except SourceError:  # from a function that this one has called
                raise
            except Exception as error:
                failed = type(error).__name__
            raise SourceError(RAISED.format(name, failed))  # outside, so that nothing is chained

        return call

    def _told_of_each(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a function that returns what is iterated, or nothing, in the same way."""
        name, told = self._name, self._told(method)

        @functools.wraps(method)
        def call(*arguments: Any, **keywords: Any) -> Any:
            found = told(*arguments, **keywords)
            return None if found is None else _each(found, name)

        return call


def _bound(call: Callable[..., Any], owner: Any) -> MethodType:
    """A method of `owner` that calls `call`: Beam asks methods of sums for their function."""
    return MethodType(lambda _, *arguments, **keywords: call(*arguments, **keywords), owner)


def _is_own(fn: beam.DoFn, name: str) -> bool:
    """Whether a `DoFn` has a function of that name; Beam calls one that was set on the object."""
    method = getattr(fn, name)
    return getattr(method, "__func__", method) is not getattr(beam.DoFn, name)


def _each(found: Iterable[Any], name: str) -> Iterator[Any]:
    try:
        yield from found
        return
    except SourceError:
        raise
    except Exception as error:
        failed = type(error).__name__
    raise SourceError(RAISED.format(name, failed))
