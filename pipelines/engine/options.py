"""Beam's options for each engine."""

from __future__ import annotations

import logging
from typing import TypeVar

import hushrank.transforms.engine.beam  # noqa: F401 - first: it loads Beam without a warning

# isort: split
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import fn_runner

from hushrank.pipelines.engine.runner import HERE, Engine, Runner
from hushrank.transforms.engine.in_process import local_workers

View = TypeVar("View", bound=PipelineOptions)

UNTYPED = "--no_pipeline_type_check"  # no transform declares types, and the check takes 30 ms
RUNNERS = {  # Beam's names for runners
    Runner.LOCAL: "FnApiRunner",
    Runner.FLINK: "FlinkRunner",
    Runner.SPARK: "SparkRunner",
    Runner.DATAFLOW: "DataflowRunner",
}


def pipeline_options(engine: Engine = HERE) -> PipelineOptions:
    """Beam's options for `engine`.

    The local engine is named explicitly, because plain `DirectRunner` first tries to download
    another one. It is imported at the top, because otherwise its first job would wait for that. It
    works with threads, although it warns that it might not. Its other modes are worse:
    `multi_threading` lost a part of the rows in 8 of 150 runs (a timer empties buffers while they
    are written), and `multi_processing` starts slowly and gains nothing.
    """
    logging.getLogger(fn_runner.__name__).setLevel(logging.ERROR)
    options = [f"--runner={RUNNERS[engine.runner]}", UNTYPED, *engine.arguments]
    if engine.runner is Runner.LOCAL:
        options.append(f"--direct_num_workers={local_workers()}")
    else:  # workers have our package, so the session is not sent along
        options.append("--no_save_main_session")
    return _Options(options)


class _Options(PipelineOptions):
    """Options with one view for each class that asks for its own.

    Beam asks for 120 views a graph, and makes a parser of arguments for each. That takes a third
    of the time of a small graph. All views share their values, so one of a class is enough.
    """

    def view_as(self, cls: type[View]) -> View:
        """The view of `cls`; see `PipelineOptions`."""
        views: dict[type, PipelineOptions] = self.__dict__.setdefault("_views", {})
        if cls not in views:
            views[cls] = super().view_as(cls)
        view: View = views[cls]
        return view

    def __getstate__(self) -> dict[str, object]:
        """A copy makes its own views: theirs are not its values."""
        return {name: value for name, value in super().__getstate__().items() if name != "_views"}
