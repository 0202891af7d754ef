"""Engines that run a pipeline. Without Beam, so that a caller that names one need not load it.

Division of the memory that a reduction may use. Without Beam, like `reduction_job`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, Self

from hushrank.transforms import system
from hushrank.transforms.engine.in_process import FEW_WORKERS
from hushrank.transforms.storage.files import InputFile, Service, is_remote

DEFAULT_MEMORY = 2 << 30
LEAST_MEMORY = 768 << 20
MOST_MEMORY = 1 << 50  # more than any machine has: a typing error

_LIBRARIES = 40 << 20
_READER = 150 << 20  # bytes of one worker's batches: benchmarks/many_files.py measures them
_WORK_BYTES = 200  # bytes of a row that is being bounded: itself, hashes, orders, copies
_BESIDE = 512 << 20  # bytes of allocators and copies; 20 million rows took 150 MiB at most
_THREAD = 16 << 20  # bytes of the stacks of a processor's threads
_CELL_BYTES = 64  # bytes of a matrix cell, with its copies while matrices are summed
_AT_ONCE_ELSEWHERE = 2  # partitions that one worker process of an engine may bound at once


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Half of what the engine leaves is for waiting rows, half for rows being worked on.

    Attributes:
        waiting_bytes: bytes of rows that wait in memory for other rows of their person; more rows
            wait in a file.
        rows_at_once: number of rows that one worker bounds together.
    """

    waiting_bytes: int
    rows_at_once: int

    @classmethod
    def of(cls, memory_limit: int, workers: int = FEW_WORKERS) -> Self:
        """Make a plan for this machine, whose workers are threads of one process.

        Args:
            memory_limit: bytes, at least `LEAST_MEMORY`.
            workers: number of the workers, at most `most_workers`.

        Raises:
            ValueError: `memory_limit` is less.
        """
        return cls._shared_by(workers, memory_limit)

    @classmethod
    def of_worker(cls, memory_limit: int) -> Self:
        """Make a plan for one worker process of an engine: the same wherever it is made.

        Whoever launches the job and each of its workers make this plan, on machines of any number
        of processors; so those cannot enter it.

        Args, raises: as `of`.
        """
        return cls._shared_by(_AT_ONCE_ELSEWHERE, memory_limit)

    @classmethod
    def _shared_by(cls, at_once: int, memory_limit: int) -> Self:
        if memory_limit < LEAST_MEMORY:
            raise ValueError(
                f"memory_limit must be at least {LEAST_MEMORY >> 20} MiB, got {memory_limit} bytes"
            )
        half = (memory_limit - _engine_bytes(at_once)) // 2
        return cls(half, half // at_once // _WORK_BYTES)

    @property
    def partition_rows(self) -> int:
        """Number of rows of a worker that only wait for their turn, at 24 to 48 bytes each."""
        return 4 * self.rows_at_once


def _engine_bytes(workers: int) -> int:
    """Bytes of libraries and of readers, of which `FEW_WORKERS` are always planned for."""
    return _LIBRARIES + _READER * max(workers, FEW_WORKERS)


def most_workers(memory_limit: int) -> int:
    """Number of workers whose readers take at most half of `memory_limit`, but `FEW_WORKERS`."""
    return max(FEW_WORKERS, (memory_limit // 2 - _LIBRARIES) // _READER)


def memory_for(workers: int) -> int:
    """Least `memory_limit` in bytes for so many workers."""
    few = workers <= FEW_WORKERS
    return LEAST_MEMORY if few else 2 * (_LIBRARIES + _READER * workers)


def hard_limit(memory_limit: int, cells: int) -> int:
    """Bytes above which the system gives a reading process no more memory, beside its libraries.

    A plan is kept about; this is more than any good input was seen to need.

    Args:
        memory_limit: bytes, as in the configuration.
        cells: numbers of the matrices that the process sums, which a plan does not count.
    """
    return memory_limit + _BESIDE + _THREAD * (os.cpu_count() or 1) + _CELL_BYTES * cells


class Runner(StrEnum):
    """The engine that executes the pipeline graph."""

    LOCAL = "local"  # in this process
    FLINK = "flink"
    SPARK = "spark"
    PRISM = "prism"
    DATAFLOW = "dataflow"


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine, and how to reach it.

    Attributes:
        runner: the kind of engine.
        arguments: Beam's own options for it, as on a command line.
        most_seconds: a job that takes longer is stopped; for remote engines.
        spill: folder of this machine, for the local engine, where rows may wait if the confidential
            area is elsewhere; None: they wait in memory.
        beam: whether Beam runs jobs that its stand-in could run, on the local engine.
        workers: number of workers on this machine, for the local engine; None: one a processor,
            within the memory.
    """

    runner: Runner = Runner.LOCAL
    arguments: tuple[str, ...] = ()
    most_seconds: int = 86_400
    spill: str | None = None
    beam: bool = False
    workers: int | None = None

    def workers_within(self, memory_limit: int) -> int:
        """Number of workers of this machine: those stated, or one a processor that there is
        memory for."""
        return self.workers or min(system.processors(), most_workers(memory_limit))

    @property
    def takes_stand_in(self) -> bool:
        """Whether Beam's stand-in may run a job that suits it."""
        return self.runner is Runner.LOCAL and not self.beam


HERE = Engine()

LARGE_BYTES, LARGE_FILES = 1 << 30, 1000  # what is worth a file for each part of the count


class HasInput(Protocol):
    """The properties of a reduction that decide where it can run."""

    @property
    def files(self) -> tuple[InputFile, ...]:
        """Files that it reads."""
        ...

    @property
    def confidential(self) -> str:
        """Folder where it writes."""
        ...

    @property
    def engine(self) -> Engine:
        """Engine where it runs."""
        ...


def does_without_beam(job: HasInput) -> bool:
    """Whether Beam's stand-in should run the job: all of it is on this machine.

    It holds a batch for each worker and one sum, and rows that meet wait as they do on Beam's local
    engine.
    """
    paths = [job.confidential, *(file.path for file in job.files)]
    return job.engine.takes_stand_in and not any(map(is_remote, paths))


def may_resume(job: HasInput) -> bool:
    """Whether finished parts of the job wait for the run that goes on: it is large and local.

    Sizes and numbers of files are public. Rows that a service sends are cut anew by each run.
    """
    large = sum(file.most_bytes for file in job.files) >= LARGE_BYTES
    here = job.engine.runner is Runner.LOCAL and not is_remote(job.confidential)
    of_files = not any(isinstance(file.format, Service) for file in job.files)
    return here and of_files and (large or len(job.files) >= LARGE_FILES)
