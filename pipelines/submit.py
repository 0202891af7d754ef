"""Hand the graph of a reduction to an engine, and leave it to the engine."""

from __future__ import annotations

import apache_beam as beam

from hushrank.pipelines import reduce_comparisons, reduce_private, reduce_rankings, reduce_responses
from hushrank.pipelines.options import pipeline_options
from hushrank.pipelines.private_job import ReduceAnswers
from hushrank.pipelines.rankings_job import ReduceRankings
from hushrank.pipelines.reduction_job import ReduceComparisons
from hushrank.pipelines.responses_job import ReduceResponses

AnyReduction = ReduceComparisons | ReduceAnswers | ReduceResponses | ReduceRankings


def graph_of(job: AnyReduction) -> beam.Pipeline:
    """The whole graph of `job`, for its engine.

    Raises:
        InputError: a file cannot be read.
    """
    pipeline = beam.Pipeline(options=pipeline_options(job.engine))
    if isinstance(job, ReduceRankings):
        reduce_rankings.build(pipeline, job, reduce_rankings.plan(job))
    elif isinstance(job, ReduceResponses):
        reduce_responses.build(pipeline, job, reduce_responses.plan(job))
    elif isinstance(job, ReduceAnswers):
        reduce_private.build(pipeline, job, reduce_private.plan(job))
    else:
        reduce_comparisons.build(pipeline, job, reduce_comparisons.plan(job))
    return pipeline


def submit(job: AnyReduction) -> None:
    """Start `job` on its engine and return: it writes its results when it is done.

    A run of the same release then finds them (`pipelines.execution`) and reads no row.

    Raises:
        InputError: a file cannot be read.
    """
    graph_of(job).run()
