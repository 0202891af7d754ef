"""Run whatever reduction a job asks for."""

from __future__ import annotations

from hushrank.pipelines import reduce_comparisons, reduce_private, reduce_rankings, reduce_responses
from hushrank.pipelines.private_job import ReduceAnswers
from hushrank.pipelines.rankings_job import ReduceRankings
from hushrank.pipelines.reduction_job import ReduceComparisons
from hushrank.pipelines.responses_job import ReduceResponses


def run(job: ReduceComparisons | ReduceAnswers | ReduceResponses | ReduceRankings) -> None:
    """Execute `job`: see the module that is named after it."""
    if isinstance(job, ReduceRankings):
        reduce_rankings.run(job)
    elif isinstance(job, ReduceResponses):
        reduce_responses.run(job)
    elif isinstance(job, ReduceAnswers):
        reduce_private.run(job)
    else:
        reduce_comparisons.run(job)
