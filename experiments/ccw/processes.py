"""Processes that share the processors fairly."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context

THREAD_LIMITS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


@contextmanager
def one_process_per_processor() -> Iterator[ProcessPoolExecutor]:
    """A pool whose processes compute on one thread each.

    Otherwise each starts as many threads for linear algebra as there are processors, and they wait
    for each other: eight times as slow, measured on two. A library reads the limit when it is
    loaded, so the processes are started afresh, under the limit, and not forked.
    """
    before = {name: os.environ.get(name) for name in THREAD_LIMITS}
    os.environ.update(dict.fromkeys(THREAD_LIMITS, "1"))
    try:
        with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
            yield pool
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
