"""Outputs of a mechanism for an audit: drawn in this process, or in several, for a given time."""

from __future__ import annotations

import math
import multiprocessing
import time
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar

import numpy as np

from hushrank.flows.trust.audit.result import Source
from hushrank.privacy.audit import Rows
from hushrank.transforms.engine import in_process

MOST_RUNS = 2_000_000  # on each input; so many show half the noise of a fit, at delta 10^-6 too
MOST_NUMBERS = 8_000_000  # numbers in the outputs on each input: 64 MB
LEAST_SECONDS = 0.05  # least time of one call of a source

P = ParamSpec("P")
R = TypeVar("R")


class Workers:
    """Processes that do the slow work of an audit.

    Args:
        processes: number of processes that draw at once; 0: this one alone, and no other is
            started.
    """

    def __init__(self, processes: int) -> None:
        self._processes = processes
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Self:
        if self._processes:
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(
                self._processes, mp_context=context, initializer=_without_beam
            )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def call(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Return the result of `function`, which another process can import."""
        if self._pool is None:
            return function(*args, **kwargs)
        return self._pool.submit(function, *args, **kwargs).result()

    def outputs(
        self, source: Source, sides: tuple[int, ...], seconds: float, least: int
    ) -> list[Rows]:
        """Equally many outputs on each of these sides, for about this long.

        Args:
            source: the source that draws.
            sides: inputs of the source on which it draws.
            seconds: time after which to stop.
            least: runs on each side that are drawn in any case.

        Returns:
            For each side, shape (runs, d).
        """
        count = max(self._processes, 1)
        own = math.ceil(least / count)
        if self._pool is None:
            return outputs_until(source, sides, seconds, own)
        waiting: list[Future[Any]] = [
            self._pool.submit(outputs_until, source, sides, seconds, own, count)
            for _ in range(count)
        ]
        found = [each.result() for each in waiting]
        return [np.concatenate(parts) for parts in zip(*found, strict=True)]


def _without_beam() -> None:
    """Set up a child process: synthetic logs are small."""
    in_process.choose()


def outputs_until(
    source: Source, sides: tuple[int, ...], seconds: float, least: int, processes: int = 1
) -> list[Rows]:
    """See `Workers.outputs`; for one process of so many, which share what memory there is.

    The clock says how many runs there are. A run takes a little longer with some results than with
    others, so their number depends on results a little; a bound takes it as given.
    """
    end, runs, size = time.monotonic() + seconds, 0, source.block
    most, numbers = MOST_RUNS // processes, MOST_NUMBERS // processes
    found: list[list[Rows]] = [[] for _ in sides]
    while runs < least or (time.monotonic() < end and runs < most):
        started = time.monotonic()
        for place, side in enumerate(sides):
            found[place].append(source.outputs(side, size))
        runs += len(found[0][-1])
        most = min(most, numbers // max(found[0][-1].shape[1], 1))
        if time.monotonic() - started < LEAST_SECONDS:
            size = min(2 * size, 10_000)
    return [np.concatenate(parts) for parts in found]
