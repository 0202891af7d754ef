"""Engines that run a pipeline. Without Beam, so that a caller that names one need not load it.

Division of the memory that a reduction may use. Without Beam, like `reduction_job`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import IO, Protocol, Self

import pyarrow as pa

from hushrank.transforms import system
from hushrank.transforms.common.local_files import being_read
from hushrank.transforms.common.schema import RANK, WIDE_ITEM, WIDE_RANK, Columns, InputError
from hushrank.transforms.engine.in_process import FEW_WORKERS
from hushrank.transforms.storage import preflib
from hushrank.transforms.storage.arrow_rows import count_arrow_rows, count_orc_rows
from hushrank.transforms.storage.files import (
    FileFormat,
    InputFile,
    Service,
    column_names_of,
    is_remote,
    open_file,
    parquet_footer,
)
from hushrank.transforms.storage.text_lines import HEADER_BYTES

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
SMALL_BYTES = 112 << 20  # four million rows or so; with more, loading Beam is a small part
SMALL_CELLS = 28 << 20  # 7 million rows of four columns: what the usual memory_limit has room for
CELL_BYTES = 24  # bytes of a read value and its waiting row, because there is no spill file
TEXT_TYPES = ("BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")
TEXT_CELLS = 4  # cells that a text counts as: 100 bytes; longer texts are rare
LINE_BYTES = 4  # of CSV or JSON Lines for a cell: a row has some 8 bytes at least, and waits in 48


class HasInput(Protocol):
    """The properties of a reduction that decide its size."""

    @property
    def files(self) -> tuple[InputFile, ...]:
        """Files that it reads."""
        ...

    @property
    def columns(self) -> Columns:
        """Roles of the columns."""
        ...

    @property
    def confidential(self) -> str:
        """Folder where it writes."""
        ...

    @property
    def memory_limit(self) -> int:
        """Bytes that it may take."""
        ...

    @property
    def engine(self) -> Engine:
        """Engine where it runs."""
        ...

    @property
    def meets_owners(self) -> bool:
        """Whether one owner's rows must meet; if not, rows are counted as they are read."""
        ...


def does_without_beam(job: HasInput) -> bool:
    """Whether Beam's stand-in should run the job: it is small, or none of its rows must wait.

    A local job whose rows are counted as they are read holds a batch for each worker and one sum.
    """
    if is_small(job):
        return True
    paths = [job.confidential, *(file.path for file in job.files)]
    here = job.engine.takes_stand_in and not any(map(is_remote, paths))
    return here and not job.meets_owners


def may_resume(job: HasInput) -> bool:
    """Whether finished parts of the job wait for the run that goes on: it is large and local.

    Sizes and numbers of files are public. Rows that a service sends are cut anew by each run.
    """
    large = sum(file.most_bytes for file in job.files) >= LARGE_BYTES
    here = job.engine.runner is Runner.LOCAL and not is_remote(job.confidential)
    of_files = not any(isinstance(file.format, Service) for file in job.files)
    return here and of_files and (large or len(job.files) >= LARGE_FILES)


def is_small(job: HasInput) -> bool:
    """Whether Beam's stand-in should run the job: few local rows, and no engine asked for."""
    paths = [job.confidential, *(file.path for file in job.files)]
    few = sum(file.most_bytes for file in job.files) <= SMALL_BYTES
    if not (few and job.engine.takes_stand_in) or any(map(is_remote, paths)):
        return False
    try:
        workers = job.engine.workers_within(job.memory_limit)
        room = MemoryPlan.of(job.memory_limit, workers).waiting_bytes // CELL_BYTES
        most = min(SMALL_CELLS, room)
        # Rows of rankings, or as a row for each cell, wait in more memory.
        heavy = any(role in (WIDE_ITEM, WIDE_RANK, RANK) for role, _ in job.columns.roles())
        cells = 0
        for file in job.files:
            with being_read(file.name):
                cells += _cells(file, heavy=heavy)
        return cells <= most
    except InputError:  # the reduction will report it
        return False


def _cells(file: InputFile, *, heavy: bool) -> int:
    """The most values that a file holds, from its footer or header; a text counts as several."""
    if file.format is FileFormat.PARQUET:
        footer = parquet_footer(file)
        groups = map(footer.row_group, range(footer.num_row_groups))
        columns = (g.column(place) for g in groups for place in range(g.num_columns))
        return sum(
            each.num_values * (TEXT_CELLS if each.physical_type in TEXT_TYPES else 1)
            for each in columns
        )
    if file.format is FileFormat.PREFLIB:  # a line may stand for any number of people
        with open_file(file) as stream:
            header = preflib.read_header(file.path, stream.read(HEADER_BYTES))
        voters = SMALL_CELLS if header.voters is None else header.voters
        return voters * len(header.names) * len(preflib.SCHEMA)
    if file.format in _COUNTED:
        with open_file(file) as stream:
            try:
                rows = _COUNTED[file.format](stream)
            except (pa.ArrowException, OSError):
                raise InputError(f"{file.path}: damaged") from None
        return rows * len(column_names_of(file)) * TEXT_CELLS
    lines = file.format in (FileFormat.CSV, FileFormat.JSONL) and not heavy
    return file.most_bytes // LINE_BYTES if lines else file.most_bytes


def _avro_rows(stream: IO[bytes]) -> int:
    from hushrank.transforms.storage.avro_rows import count_avro_rows  # loads fastavro

    return count_avro_rows(stream)


def _excel_rows(stream: IO[bytes]) -> int:
    from hushrank.transforms.storage.sheet_rows import count_excel_rows

    return count_excel_rows(stream)


def _spss_rows(stream: IO[bytes]) -> int:
    from hushrank.transforms.storage.sheet_rows import count_spss_rows

    return count_spss_rows(stream)


_COUNTED: dict[FileFormat | Service, Callable[[IO[bytes]], int]] = {
    FileFormat.AVRO: _avro_rows,
    FileFormat.ORC: count_orc_rows,
    FileFormat.ARROW: count_arrow_rows,
    FileFormat.EXCEL: _excel_rows,
    FileFormat.SPSS: _spss_rows,
}
