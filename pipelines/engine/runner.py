"""Where a pipeline runs. Without Beam, so that a caller that names an engine need not load it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import IO, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from hushrank.pipelines.engine.memory_plan import MemoryPlan
from hushrank.transforms.common.local_files import being_read
from hushrank.transforms.common.schema import RANK, WIDE_ITEM, WIDE_RANK, Columns, InputError
from hushrank.transforms.storage import preflib
from hushrank.transforms.storage.arrow_rows import count_arrow_rows, count_orc_rows
from hushrank.transforms.storage.avro_rows import count_avro_rows
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
        spill: for the local engine: folder of this machine where rows may wait if the confidential
            area is elsewhere; None: they wait in memory.
    """

    runner: Runner = Runner.LOCAL
    arguments: tuple[str, ...] = ()
    most_seconds: int = 86_400
    spill: str | None = None


HERE = Engine()

SMALL_BYTES = 64 << 20  # some million rows; reading more takes longer than loading Beam
SMALL_CELLS = 1 << 24  # 4 million rows of four columns, however well they compress
CELL_BYTES = 24  # for a read value and its waiting row, because there is no spill file
TEXT_CELLS = 4  # cells that a text counts as: 100 bytes; longer texts are rare
LINE_BYTES = 4  # of CSV or JSON Lines for a cell: a row has some 8 bytes at least, and waits in 48


class HasInput(Protocol):
    """The properties of a reduction that decide its size."""

    @property
    def files(self) -> tuple[InputFile, ...]:
        """What it reads."""
        ...

    @property
    def columns(self) -> Columns:
        """Which column plays which role."""
        ...

    @property
    def confidential(self) -> str:
        """Where it writes."""
        ...

    @property
    def memory_limit(self) -> int:
        """Bytes that it may take."""
        ...

    @property
    def engine(self) -> Engine:
        """Where it runs."""
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
    here = job.engine.runner is Runner.LOCAL and not any(map(is_remote, paths))
    return here and not job.meets_owners


def is_small(job: HasInput) -> bool:
    """Whether Beam's stand-in should run the job: few local rows, and no other engine named."""
    paths = [job.confidential, *(file.path for file in job.files)]
    few = sum(file.most_bytes for file in job.files) <= SMALL_BYTES
    here = job.engine.runner is Runner.LOCAL
    if not (here and few) or any(map(is_remote, paths)):
        return False
    try:
        room = MemoryPlan.of(job.memory_limit).waiting_bytes // CELL_BYTES
        most = min(SMALL_CELLS, room)
        cells = 0
        for file in job.files:
            with being_read(file.name):
                cells += _cells(file, heavy=_is_heavy(job.columns))
        return cells <= most
    except InputError:  # the reduction will report it
        return False


def _is_heavy(columns: Columns) -> bool:
    """Whether rows wait in more memory: of rankings, or as a row for each cell."""
    return any(role in (WIDE_ITEM, WIDE_RANK, RANK) for role, _ in columns.roles())


def _cells(file: InputFile, *, heavy: bool) -> int:
    """The most values that a file holds, from its footer or header; a text counts as several."""
    if file.format is FileFormat.PARQUET:
        footer = parquet_footer(file)
        groups = map(footer.row_group, range(footer.num_row_groups))
        columns = (g.column(place) for g in groups for place in range(g.num_columns))
        return sum(c.num_values * (TEXT_CELLS if _is_text(c) else 1) for c in columns)
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


_COUNTED: dict[FileFormat | Service, Callable[[IO[bytes]], int]] = {
    FileFormat.AVRO: count_avro_rows,
    FileFormat.ORC: count_orc_rows,
    FileFormat.ARROW: count_arrow_rows,
}


def _is_text(column: pq.ColumnChunkMetaData) -> bool:
    return column.physical_type in ("BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")
