"""Hand the graph of a reduction to an engine, and leave it to the engine."""

from __future__ import annotations

import apache_beam as beam

from hushrank.pipelines.engine.options import pipeline_options
from hushrank.pipelines.reduce import reduce


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

    A run of the same release then finds them (`pipelines.reduce.execution`) and reads no row.

    Raises:
        InputError: a file cannot be read.
    """
    graph_of(job).run()
