"""Division of the memory that a reduction may use. Without Beam, like `reduction_job`."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Self

from hushrank.transforms.engine.in_process import local_workers

DEFAULT_MEMORY = 2 << 30
LEAST_MEMORY = 768 << 20
MOST_MEMORY = 1 << 50  # more than any machine has: a typing error

_ENGINE = 640 << 20  # libraries, and the batches of readers
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
    def of(cls, memory_limit: int) -> Self:
        """Make a plan for this machine, whose workers are threads of one process.

        Args:
            memory_limit: bytes, at least `LEAST_MEMORY`.

        Raises:
            ValueError: `memory_limit` is less.
        """
        return cls._shared_by(local_workers(), memory_limit)

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
        half = (memory_limit - _ENGINE) // 2
        return cls(half, half // at_once // _WORK_BYTES)

    @property
    def partition_rows(self) -> int:
        """Number of rows of a worker that only wait for their turn, at 24 to 48 bytes each."""
        return 4 * self.rows_at_once


def hard_limit(memory_limit: int, cells: int) -> int:
    """Bytes above which the system gives a reading process no more memory, beside its libraries.

    A plan is kept about; this is more than any good input was seen to need.

    Args:
        memory_limit: bytes, as in the configuration.
        cells: numbers of the matrices that the process sums, which a plan does not count.
    """
    return memory_limit + _BESIDE + _THREAD * (os.cpu_count() or 1) + _CELL_BYTES * cells
