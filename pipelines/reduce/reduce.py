"""Run whatever reduction a job asks for."""

from __future__ import annotations

from types import ModuleType

from hushrank.pipelines.reduce import (
    reduce_comparisons,
    reduce_private,
    reduce_rankings,
    reduce_responses,
)
from hushrank.pipelines.reduce.private_job import ReduceAnswers
from hushrank.pipelines.reduce.rankings_job import ReduceRankings
from hushrank.pipelines.reduce.reduction_job import ReduceComparisons
from hushrank.pipelines.reduce.responses_job import ReduceResponses
from hushrank.transforms.engine.beam import beam

Job = ReduceComparisons | ReduceAnswers | ReduceResponses | ReduceRankings


def run(job: Job) -> None:
    """Execute `job`: see the module that is named after it."""
    _module(job).run(job)


def build(pipeline: beam.Pipeline, job: Job) -> None:
    """Add the graph of `job` to `pipeline`, for an engine whose workers share nothing.

    Raises:
        InputError: an input file cannot be read.
    """
    module = _module(job)
    module.build(pipeline, job, module.plan(job))


def _module(job: Job) -> ModuleType:
    if isinstance(job, ReduceRankings):
        return reduce_rankings
    if isinstance(job, ReduceResponses):
        return reduce_responses
    if isinstance(job, ReduceAnswers):
        return reduce_private
    return reduce_comparisons
