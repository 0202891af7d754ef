"""Read the rows that a Beam transform yields, in place of files.

The transform is somebody else's code, and the text of its errors may quote a row. An engine writes
that text into its own logs, on machines that hushrank does not know. So every function of the
transform that runs in Python is wrapped: what it raises becomes one sentence with the type of the
error alone. A connector in another language runs in a process of its own, whose logs nothing here
reaches (docs/beam.md).
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from types import MethodType
from typing import Any

from hushrank.pipelines.reduce.elements import BatchElements
from hushrank.pipelines.reduce.kind import Part
from hushrank.transforms.common.encode import Sifted
from hushrank.transforms.common.schema import Columns, InputError
from hushrank.transforms.engine.beam import beam
from hushrank.transforms.tables.parts import BeamSource

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
