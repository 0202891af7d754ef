"""The few parts of Beam that our graphs use, for inputs so small that loading Beam dominates.

Importing Apache Beam takes seconds, which is most of a run on a thousand rows. Each class here has
the name and the meaning of Beam's class, but works at once, in this process, on lists:
`collection | transform` is the result. Each worker has one bundle, in the order of the input, and
nothing is retried. So every graph that is right on Beam is right here. The results are the same,
bit for bit, because no result may depend on order or bundles
(`tests/pipelines/scenarios/test_small_inputs.py`).
"""

from __future__ import annotations

import copy
import itertools
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

MAX_LOCAL_WORKERS = 4  # each needs some 150 MB; only numpy and Arrow run in parallel


def local_workers() -> int:
    """One worker a processor, but no more than the planned memory allows."""
    return min(os.cpu_count() or 1, MAX_LOCAL_WORKERS)


_choice: list[bool] = []  # per process, because graphs subclass one Beam or the other


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


@dataclass(frozen=True, slots=True)
class PCollection:
    """Elements, all of them."""

    elements: list[Any]

    def __or__(self, transform: PTransform) -> Any:
        return transform._run(self)


class PTransform:
    """A step; `"Label" >> step` is the step itself, because nobody looks at the graph."""

    def _run(self, collection: Any) -> Any:
        raise NotImplementedError

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
        outputs: dict[str, list[Any]] = {tag: [] for tag in (*(self._tags or ()), self._main)}
        for output in itertools.chain.from_iterable(_bundles(self._outputs, collection.elements)):
            if isinstance(output, TaggedOutput):
                outputs[output.tag].append(output.value)
            else:
                outputs[self._main].append(output)
        collections = {tag: PCollection(elements) for tag, elements in outputs.items()}
        return collections[self._main] if self._tags is None else collections

    def _outputs(self, elements: Sequence[Any]) -> list[Any]:
        fn = copy.copy(self._fn)  # each bundle has its own copy, as on Beam's workers
        fn.setup()
        fn.start_bundle()
        outputs = [output for element in elements for output in fn.process(element) or ()]
        outputs += [last.value for last in fn.finish_bundle() or ()]
        fn.teardown()
        return outputs


def _bundles(
    work: Callable[[Sequence[Any]], list[Any]], elements: Sequence[Any]
) -> list[list[Any]]:
    """The results of `work` for the bundles of `elements`, in order, computed in parallel."""
    n_bundles = max(1, min(len(elements), local_workers()))
    edges = [len(elements) * bundle // n_bundles for bundle in range(n_bundles + 1)]
    bundles = [elements[first:end] for first, end in itertools.pairwise(edges)]
    if n_bundles == 1:
        return [work(elements)]
    with ThreadPoolExecutor(n_bundles) as threads:
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
    """All elements through one `CombineFn`, into one result."""

    def __init__(self, fn: CombineFn) -> None:
        self._fn = fn
        self._without_defaults = False

    def without_defaults(self) -> CombineGlobally:
        """Of no elements make none."""
        self._without_defaults = True
        return self

    def _run(self, collection: PCollection) -> PCollection:
        if self._without_defaults and not collection.elements:
            return PCollection([])
        accumulator = self._fn.create_accumulator()
        for element in collection.elements:
            accumulator = self._fn.add_input(accumulator, element)
        return PCollection([self._fn.extract_output(accumulator)])


class Flatten(PTransform):
    """The elements of several collections in one collection."""

    def _run(self, collections: Iterable[PCollection]) -> PCollection:
        return PCollection([element for part in collections for element in part.elements])


class Reshuffle(PTransform):
    """Does nothing: without retries there is nothing to protect from repetition."""

    def _run(self, collection: PCollection) -> PCollection:
        return collection
