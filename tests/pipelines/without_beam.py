"""What a child process does that must not load Beam: so nothing here is imported that does."""

from __future__ import annotations

import multiprocessing
import sys

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
