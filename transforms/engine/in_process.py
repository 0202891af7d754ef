"""The few parts of Beam that our graphs use, for inputs and folders of this machine.

Importing Apache Beam takes seconds, which is most of a run on a thousand rows, and its local engine
takes a second of ten million rows. Each class here has
the name and the meaning of Beam's class, but works at once, in this process, on lists:
`collection | transform` is the result. Each worker has one bundle, in the order of the input, and
nothing is retried. So every graph that is right on Beam is right here. The results are the same,
bit for bit, because no result may depend on order or bundles
(`tests/pipelines/scenarios/test_small_inputs.py`).

A step with several outputs waits until one of them is used. If that use sums its main output, the
workers add to one sum as elements come, and none is kept. Rows that have to meet wait in a spill
file, of which collections hold places. So an input of any size fits.
"""

from __future__ import annotations

import copy
import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from hushrank.transforms import system

T = TypeVar("T")

_END: Final = object()
FEW_WORKERS = 4  # of a process that plans no memory for them; each needs some 150 MB
_choice: list[bool] = []  # choice of this process, because graphs subclass one Beam or the other
_workers: list[int] = []  # number of workers of the graph that runs; empty: nobody stated it


def ahead(elements: Iterator[T]) -> Iterator[T]:
    """Yield the elements in order, each made in a thread one step before it is asked for.

    For a processor that would be idle: one more element is in memory. It raises what `elements`
    raises, at the same place.
    """
    with ThreadPoolExecutor(1) as thread:
        coming = thread.submit(next, elements, _END)
        while (element := coming.result()) is not _END:
            coming = thread.submit(next, elements, _END)
            yield element  # type: ignore[misc]


def local_workers() -> int:
    """Number of workers: as stated by `with_workers`, or one a processor but few."""
    return _workers[-1] if _workers else min(system.processors(), FEW_WORKERS)


@contextmanager
def with_workers(number: int) -> Iterator[None]:
    """Graphs that are built and run in this block have so many workers."""
    _workers.append(number)
    try:
        yield
    finally:
        _workers.pop()


def choose() -> None:
    """Make `transforms.engine.beam` provide these classes here; call before importing it."""
    _choice.append(True)


def is_chosen() -> bool:
    """Whether it was called."""
    return bool(_choice)


@dataclass(frozen=True, slots=True)
class TaggedOutput:
    """An element for one of a step's side outputs."""

    tag: str
    value: Any


@dataclass(frozen=True, slots=True)
class WindowedValue:
    """An element in the form that `finish_bundle` yields."""

    value: Any


class GlobalWindows:
    """The only window there is."""

    @staticmethod
    def windowed_value(value: Any) -> WindowedValue:
        """`value`, in it."""
        return WindowedValue(value)


class Pipeline:
    """The start of a graph; nothing is left to do at its end."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        pass

    def __or__(self, transform: PTransform) -> Any:
        return transform._run(self)


class PCollection:
    """Elements, all of them."""

    def __init__(self, elements: list[Any]) -> None:
        self._elements = elements

    @property
    def elements(self) -> list[Any]:
        """Elements, in order."""
        return self._elements

    @property
    def pipeline(self) -> Pipeline:
        """Pipeline in which other collections start."""
        return Pipeline()

    def __or__(self, transform: PTransform) -> Any:
        return transform._run(self)

    def _followed_by(self, fn: DoFn, tags: tuple[str, ...], main: str) -> _Step:
        """The step that does `fn` with each element."""
        return _Step(fn, self.elements, tags, main)

    def _summed(self, fn: CombineFn) -> Any:
        """The accumulator of all elements."""
        accumulator = fn.create_accumulator()
        for element in self.elements:
            accumulator = fn.add_input(accumulator, element)
        return accumulator


class PTransform:
    """A step; `"Label" >> step` is the step itself, because nobody looks at the graph."""

    def expand(self, collection: Any) -> Any:
        """The steps of a composite one."""
        raise NotImplementedError

    def _run(self, collection: Any) -> Any:
        return self.expand(collection)

    def __rrshift__(self, label: str) -> Self:
        return self

    def __ror__(self, collections: Iterable[PCollection]) -> Any:
        return self._run(collections)


class DoFn:
    """Like Beam's `DoFn`: the life of one bundle."""

    def setup(self) -> None:
        """Called first."""

    def start_bundle(self) -> None:
        """Called before the elements."""

    def process(self, element: Any, *args: Any, **kwargs: Any) -> Iterable[Any] | None:
        """Called with each element."""
        raise NotImplementedError

    def finish_bundle(self) -> Iterable[Any] | None:
        """Called after the elements."""
        return None

    def teardown(self) -> None:
        """Called last."""


class CombineFn:
    """Like Beam's `CombineFn`; one accumulator takes everything, so nothing is merged."""

    def create_accumulator(self, *args: Any, **kwargs: Any) -> Any:
        """An empty one."""
        raise NotImplementedError

    def add_input(self, accumulator: Any, element: Any, *args: Any, **kwargs: Any) -> Any:
        """The accumulator with `element`."""
        raise NotImplementedError

    def extract_output(self, accumulator: Any, *args: Any, **kwargs: Any) -> Any:
        """The result."""
        raise NotImplementedError


class Create(PTransform):
    """A collection of given elements."""

    def __init__(self, elements: Iterable[Any]) -> None:
        self._elements = list(elements)

    def _run(self, collection: Pipeline) -> PCollection:
        return PCollection(self._elements)


class ParDo(PTransform):
    """Every element through a DoFn."""

    def __init__(self, fn: DoFn) -> None:
        self._fn = fn
        self._tags: tuple[str, ...] | None = None
        self._main = ""

    def with_outputs(self, *tags: str, main: str) -> ParDo:
        """Name side outputs by `tags`, and the untagged output `main`."""
        self._tags, self._main = tags, main
        return self

    def _run(self, collection: PCollection) -> Any:
        if self._tags is None:
            return PCollection(list(itertools.chain(*_bundles(self._all, collection.elements))))
        step = collection._followed_by(self._fn, (*self._tags, self._main), self._main)
        return {tag: _Output(step, tag) for tag in (*self._tags, self._main)}

    def _all(self, elements: Sequence[Any]) -> list[Any]:
        return list(outputs_of_bundle(self._fn, elements))


def outputs_of_bundle(fn: DoFn, elements: Iterable[Any]) -> Iterator[Any]:
    """Yield what one bundle makes of its elements, and of its end."""
    fn = copy.copy(fn)  # each bundle has its own copy, as on Beam's workers
    fn.setup()
    fn.start_bundle()
    for element in elements:
        yield from fn.process(element) or ()
    for last in fn.finish_bundle() or ():
        yield last.value
    fn.teardown()


class Both(DoFn):
    """Two steps as one: each output of the first is an element of the second, and is not kept."""

    def __init__(self, first: DoFn, second: DoFn) -> None:
        self._steps = (first, second)

    def setup(self) -> None:
        """Each bundle has its own copies of both."""
        self._first, self._second = map(copy.copy, self._steps)
        self._first.setup()
        self._second.setup()

    def start_bundle(self) -> None:
        """Start the bundle of both."""
        self._first.start_bundle()
        self._second.start_bundle()

    def process(self, element: Any, *args: Any, **kwargs: Any) -> Iterable[Any]:
        """What the second makes of what the first makes of an element."""
        for each in self._first.process(element) or ():
            yield from self._second.process(each) or ()

    def finish_bundle(self) -> Iterable[Any]:
        """What the second makes of the end of the first, and its own end."""
        for last in self._first.finish_bundle() or ():
            yield from map(WindowedValue, self._second.process(last.value) or ())
        yield from self._second.finish_bundle() or ()

    def teardown(self) -> None:
        """End both."""
        self._first.teardown()
        self._second.teardown()


class _Step:
    """A step with several outputs: it works once, when the first of them is used."""

    def __init__(self, fn: DoFn, elements: list[Any], tags: tuple[str, ...], main: str) -> None:
        self._fn = fn
        self._elements = elements
        self._found: dict[str, list[Any]] = {tag: [] for tag in tags}
        self._main = main
        self._done = False

    def output(self, tag: str) -> list[Any]:
        """Return all that the step yields under `tag`."""
        if not self._done:
            with self._at_work():
                work = _bundles(
                    lambda mine: list(outputs_of_bundle(self._fn, mine)), self._elements
                )
                list(map(self._put, itertools.chain(*work)))
        if tag not in self._found:
            raise RuntimeError(f"{tag}: what was summed as it came, or failed, is not there")
        return self._found[tag]

    def summed(self, fn: CombineFn) -> Any | None:
        """The accumulator of the main output, none of which is kept; None: it is there already."""
        if self._done:
            return None
        elements, adding, total = _Shared(self._elements), threading.Lock(), None

        def work(_: int) -> None:
            nonlocal total
            with elements.or_none():
                for output in outputs_of_bundle(self._fn, elements):
                    if isinstance(output, TaggedOutput):
                        self._put(output)
                        continue
                    with adding:  # one sum: it may be large, and there is memory for one
                        total = fn.add_input(total, output)

        with self._at_work(), elements.or_none():  # an interrupt ends the workers, too
            del self._found[self._main]
            total = fn.create_accumulator()
            _in_threads(work, range(_n_bundles(self._elements)))
        return total

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        """Run the step once; if it fails, it has no outputs."""
        self._done = True
        try:
            yield
        except BaseException:
            self._found.clear()
            raise

    def _put(self, output: Any) -> None:
        if isinstance(output, TaggedOutput):
            self._found[output.tag].append(output.value)
        else:
            self._found[self._main].append(output)


class _Output(PCollection):
    """Output of a step."""

    def __init__(self, step: _Step, tag: str) -> None:
        self._step = step
        self._tag = tag

    @property
    def elements(self) -> list[Any]:
        return self._step.output(self._tag)

    def _followed_by(self, fn: DoFn, tags: tuple[str, ...], main: str) -> _Step:
        """Join both steps into one if this is the only output of a step that nobody asked yet."""
        step = self._step
        if step._done or list(step._found) != [self._tag]:
            return super()._followed_by(fn, tags, main)
        return _Step(Both(step._fn, fn), step._elements, tags, main)

    def _summed(self, fn: CombineFn) -> Any:
        found = self._step.summed(fn) if self._tag == self._step._main else None
        return super()._summed(fn) if found is None else found


class _Shared:
    """Elements that workers take one by one, so that none waits while there are more."""

    def __init__(self, elements: Sequence[Any]) -> None:
        self._elements = iter(elements)
        self._lock = threading.Lock()

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        with self._lock:
            return next(self._elements)

    @contextmanager
    def or_none(self) -> Iterator[None]:
        """An error in this context leaves no elements for the others."""
        try:
            yield
        except BaseException:
            with self._lock:
                self._elements = iter(())
            raise


def _bundles(
    work: Callable[[Sequence[Any]], list[Any]], elements: Sequence[Any]
) -> list[list[Any]]:
    """The results of `work` for the bundles of `elements`, in order, computed in parallel."""
    n_bundles = _n_bundles(elements)
    edges = [len(elements) * bundle // n_bundles for bundle in range(n_bundles + 1)]
    return _in_threads(work, [elements[first:end] for first, end in itertools.pairwise(edges)])


def _n_bundles(elements: Sequence[Any]) -> int:
    return max(1, min(len(elements), local_workers()))


def _in_threads(work: Callable[[Any], Any], bundles: Sequence[Any]) -> list[Any]:
    if len(bundles) == 1:
        return [work(bundles[0])]
    with ThreadPoolExecutor(len(bundles)) as threads:
        return list(threads.map(work, bundles))


class Map(PTransform):
    """Every element through a function."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function

    def _run(self, collection: PCollection) -> PCollection:
        return PCollection([self._function(element) for element in collection.elements])


class GroupByKey(PTransform):
    """(key, value) -> (key, its values)."""

    def _run(self, collection: PCollection) -> PCollection:
        groups: dict[Any, list[Any]] = {}
        for key, value in collection.elements:
            groups.setdefault(key, []).append(value)
        return PCollection(list(groups.items()))


class CombineGlobally(PTransform):
    """Combination of all elements through one `CombineFn`, into one result."""

    def __init__(self, fn: CombineFn) -> None:
        self._fn = fn
        self._without_defaults = False

    def without_defaults(self) -> CombineGlobally:
        """Make no result of no elements."""
        self._without_defaults = True
        return self

    def _run(self, collection: PCollection) -> PCollection:
        if self._without_defaults and not collection.elements:
            return PCollection([])
        return PCollection([self._fn.extract_output(collection._summed(self._fn))])


class Flatten(PTransform):
    """The elements of several collections in one collection."""

    def _run(self, collections: Iterable[PCollection]) -> PCollection:
        return PCollection([element for part in collections for element in part.elements])
