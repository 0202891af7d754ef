"""List the stages of a reduction's graph, or submit the graph to an engine and leave it there.

Only footers of the input are read here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hushrank.pipelines.engine.options import pipeline_options
from hushrank.pipelines.engine.runner import Runner
from hushrank.pipelines.reduce import reduce
from hushrank.pipelines.reduce.reduction_job import (
    BITS_FILE,
    EXACT_FILE,
    REJECTS_FOLDER,
    TALLY_FILE,
)
from hushrank.transforms.engine.beam import beam
from hushrank.transforms.storage.spill_file import WAITING_FILE

if TYPE_CHECKING:
    from hushrank.pipelines.reduce.reduce import Job

INPUT, REJECTS = "the input", f"{REJECTS_FOLDER}/"
WAITING = f".{WAITING_FILE}.*"  # rows of heavy people, on engines
# Files that stages touch: `pipelines.reduce.reduce` names the stages of every reduction.
READ_FROM_FILES = dict.fromkeys(("Read", "SetAside"), (INPUT,))
WRITTEN_TO_FILES = {
    **dict.fromkeys(("Encode", "Bound", "SetAside"), (REJECTS,)),
    "Write": (EXACT_FILE, BITS_FILE, TALLY_FILE),
}


def graph_of(job: reduce.Job) -> beam.Pipeline:
    """The whole graph of `job`, for its engine.

    Raises:
        InputError: a file cannot be read.
    """
    pipeline = beam.Pipeline(options=pipeline_options(job.engine))
    reduce.build(pipeline, job)
    return pipeline


def submit(job: reduce.Job) -> None:
    """Start `job` on its engine and return: it writes its results when it is done.

    A run of the same release then finds them (`pipelines.reduce.kind`) and reads no row.

    Raises:
        InputError: a file cannot be read.
    """
    graph_of(job).run()


@dataclass(frozen=True, slots=True)
class Stage:
    """Named part of a graph.

    Attributes:
        name: name in the graph and on the engine's own pages.
        reads: files, and stages before.
        writes: files of the confidential folder, and stages after.
    """

    name: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]


def stages(job: Job) -> list[Stage]:
    """The stages of `job`, sources first.

    Raises:
        InputError: an input file cannot be read.
    """
    pipeline = beam.Pipeline(options=pipeline_options())
    reduce.build(pipeline, job)
    visitor = _Stages()
    pipeline.visit(visitor)
    waits = job.engine.runner is not Runner.LOCAL and "Bound" in visitor.names
    reads = READ_FROM_FILES | ({"Bound": (WAITING,)} if waits else {})
    writes = WRITTEN_TO_FILES | ({"Encode": (REJECTS, WAITING)} if waits else {})
    before: dict[str, list[str]] = {name: [] for name in visitor.names}
    after: dict[str, list[str]] = {name: [] for name in visitor.names}
    for source, target in dict.fromkeys(visitor.edges):
        before[target].append(source)
        after[source].append(target)
    return [
        Stage(
            name,
            (*reads.get(name, ()), *before[name]),
            (*after[name], *writes.get(name, ())),
        )
        for name in visitor.names
    ]


def randomising_stage(names: list[str]) -> str:
    """Stage of a graph that randomises answers: after it they are private."""
    return "Bound" if "Bound" in names else "Encode"


class _Stages(beam.pipeline.PipelineVisitor):
    """Names of the outermost transforms in the order of the graph, and what flows between them."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.edges: list[tuple[str, str]] = []

    def enter_composite_transform(self, node: beam.pipeline.AppliedPTransform) -> None:
        self._see(node)

    def visit_transform(self, node: beam.pipeline.AppliedPTransform) -> None:
        self._see(node)

    def _see(self, node: beam.pipeline.AppliedPTransform) -> None:
        if node.parent is None:  # the pipeline itself
            return
        name = _outermost(node)
        if name not in self.names:
            self.names.append(name)
        for source in _sources(node):
            if source != name:
                self.edges.append((source, name))


def _sources(node: beam.pipeline.AppliedPTransform) -> Iterator[str]:
    for collection in node.inputs:
        producer: Any = getattr(collection, "producer", None)
        if producer is not None and producer.parent is not None:
            yield _outermost(producer)


def _outermost(node: beam.pipeline.AppliedPTransform) -> str:
    name: str = node.full_label.partition("/")[0]
    return name
