"""What a child process does that must not load Beam: so nothing here is imported that does."""

from __future__ import annotations

import dataclasses
import multiprocessing
import sys
from typing import Any

from hushrank.transforms.common.schema import InputError
from hushrank.transforms.engine import in_process


def run_without_beam(jobs: list, results: multiprocessing.Queue) -> None:
    """In a process of its own: whether Beam stayed away, and the jobs that broke a rule."""
    in_process.choose()
    from hushrank.pipelines.reduce import reduce as reduce_small

    broke = []
    for number, job in enumerate(jobs):
        try:
            reduce_small.run(job)
        except InputError as error:
            broke.append((number, str(error)))
    results.put(("apache_beam" in sys.modules, broke))


def run_with_workers(jobs: list, numbers: tuple[int, ...], results: multiprocessing.Queue) -> None:
    """In a process of its own: each job with each number of workers, in a folder of each."""
    in_process.choose()
    from hushrank.pipelines.reduce import reduce as reduce_small

    for job in jobs:
        for number in numbers:
            place = f"{job.confidential}-{number}"
            engine = dataclasses.replace(job.engine, workers=number)
            reduce_small.run(dataclasses.replace(job, confidential=place, engine=engine))
    results.put(len(jobs))


def run_and_watch(job: Any, results: multiprocessing.Queue) -> None:
    """In a process of its own: words of rows that waited in the spill file, and what was carried.

    The second is the set of the types of all shuffle blocks' contents on their way.
    """
    in_process.choose()
    from hushrank.pipelines.reduce import reduce
    from hushrank.transforms.storage.spill_file import SpillFile

    append, group, waited, carried = SpillFile.append, in_process.GroupByKey._run, [], set()

    def appended(self: SpillFile, words: Any) -> int:
        waited.append(len(words))
        return append(self, words)

    def grouped(self: Any, collection: in_process.PCollection) -> in_process.PCollection:
        met = group(self, collection)
        carried.update(type(block.content) for _, blocks in met.elements for block in blocks)
        return met

    SpillFile.append, in_process.GroupByKey._run = appended, grouped
    reduce.run(job)
    results.put((sum(waited), carried))


def run_broken_off(jobs: list, after: tuple[int, ...], results: multiprocessing.Queue) -> None:
    """In a process of its own: each job whole, and broken off and taken up again; what was read."""
    in_process.choose()
    from tests.pipelines.broken_off import broken_off_and_whole

    results.put([broken_off_and_whole(job, number) for job in jobs for number in after])
