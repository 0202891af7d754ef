"""Write a simulated survey log of any size, with its true scores and a job file that ranks it.

This needs no Beam: nothing has to be combined, and one process writes millions of rows a second.

The folder of a simulation: a log dealt to files, a catalogue, the truth and a job file. Write
Arrow tables, piece by piece, into a Parquet, CSV or JSON Lines file.
"""

from __future__ import annotations

import contextlib
import csv
import json
import math
import os
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import yaml

from hushrank.pipelines.simulate.simulated_rows import (
    Columns,
    SimulationSpec,
    comparison_blocks,
    n_blocks,
)
from hushrank.transforms.storage.files import ENDINGS, FileFormat
from hushrank.transforms.storage.text_lines import is_packed

WriteTable = Callable[[pa.Table], None]
WRITTEN = (FileFormat.PARQUET, FileFormat.CSV, FileFormat.JSONL)
WRITTEN_ENDINGS = {
    ending: format_
    for ending, format_ in ENDINGS.items()
    if format_ in WRITTEN and not is_packed(ending)
}


@contextlib.contextmanager
def new_row_file(path: Path, schema: pa.Schema, format_: FileFormat) -> Iterator[WriteTable]:
    """Like `open_row_file`, but the file appears only when it is whole; nothing is overwritten.

    Raises:
        FileExistsError: `path` exists already.
    """
    if path.exists():
        raise FileExistsError(path)
    part = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with open_row_file(part, schema, format_) as write:
            yield write
        with part.open("rb+") as stream:
            os.fsync(stream.fileno())
        with path.open("xb"):  # claims the name, unless somebody else has
            pass
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


@contextlib.contextmanager
def open_row_file(path: Path, schema: pa.Schema, format_: FileFormat) -> Iterator[WriteTable]:
    """Open a new file at `path`; the yielded function appends a table (one Parquet row group)."""
    if format_ is FileFormat.PARQUET:
        with pq.ParquetWriter(path, schema, compression="zstd") as writer:
            yield writer.write_table
    elif format_ is FileFormat.CSV:
        with pacsv.CSVWriter(path, schema) as writer:
            yield writer.write_table
    else:
        with path.open("wb") as stream:
            yield lambda table: _append_json_lines(table, stream.write)


def _append_json_lines(table: pa.Table, write: Callable[[memoryview], object]) -> None:
    parts: list[pa.Array | str] = []
    for name in table.column_names:
        parts += [", " if parts else "{", f"{json.dumps(name)}: ", _json_values(table[name])]
    lines = pc.binary_join_element_wise(*parts, "}\n", "")  # the last argument is the separator
    whole = pa.ListArray.from_arrays([0, len(lines)], lines.combine_chunks())
    write(memoryview(pc.binary_join(whole, "")[0].as_buffer()))


def _json_values(column: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    if not pa.types.is_string(column.type):
        return column.cast(pa.string())
    coded = column.combine_chunks().dictionary_encode()
    texts = [json.dumps(text) for text in coded.dictionary.to_pylist()]
    return pa.array(texts, pa.string()).take(coded.indices)


MAX_FILES = 500  # all files are open at once
FILES_PER_BLOCK = 8  # one person's rows go to so many files, as they are scattered in a real log

Progress = Callable[[float], None]


@dataclass(frozen=True, slots=True)
class Simulated:
    """The files that were written.

    Attributes:
        survey: the job file; `hushrank run` ranks the log with it.
        log: the files with the rows.
        items: the public catalogue, one `item` a line.
        truth: the true scores, `item` and `score`; they sum to zero.
    """

    survey: Path
    log: tuple[Path, ...]
    items: Path
    truth: Path


@contextlib.contextmanager
def simulated_folder(
    out: Path, people: int, files: int | None, format_: FileFormat
) -> Iterator[Simulated]:
    """Make the folder `out` and yield the files to write; an error leaves the folder empty.

    Args:
        out: a new or empty folder.
        people: number of people who answer.
        files: number of files the rows are dealt to; None: 8, or one a person if there are fewer.
        format_: format of those files.

    Raises:
        ValueError: `files` is not between 1 and both 500 and the number of people.
        FileExistsError: `out` is not empty, or is a file.
    """
    most = min(MAX_FILES, people)
    n_files = min(FILES_PER_BLOCK, most) if files is None else files
    if not 1 <= n_files <= most:
        raise ValueError(
            f"files must be between 1 and {most} (at most {MAX_FILES}, and at least one person a"
            f" file), got {n_files}"
        )
    names = [f"part-{number:05}.{format_.value}" for number in range(n_files)]
    with survey_folder(out, names) as written:
        yield written


@contextlib.contextmanager
def survey_folder(out: Path, names: Sequence[str]) -> Iterator[Simulated]:
    """Make a folder of a simulated survey, with files of these `names`.

    Raises:
        FileExistsError: `out` is not empty, or is a file.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise FileExistsError(f"{out} exists and is not an empty folder; name a new one")
    out.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as undo:
        undo.callback(_empty_folder, out)
        (out / "survey").mkdir()
        yield Simulated(
            survey=out / "survey.yaml",
            log=tuple(out / "survey" / name for name in names),
            items=out / "items.csv",
            truth=out / "truth.csv",
        )
        undo.pop_all()


def deal_log(
    blocks: Iterable[pa.Table],
    n_blocks: int,
    schema: pa.Schema,
    paths: Sequence[Path],
    format_: FileFormat,
    progress: Progress | None = None,
) -> None:
    """Write the rows of each block to several of the files.

    Args:
        blocks: tables of `schema`.
        n_blocks: number of blocks.
        schema: schema of the files.
        paths: paths of the files.
        format_: format of the files.
        progress: called from time to time with the share that is done.
    """
    dealt = min(len(paths), max(FILES_PER_BLOCK, math.ceil(len(paths) / n_blocks)))
    with contextlib.ExitStack() as open_files:
        writers = [open_files.enter_context(open_row_file(path, schema, format_)) for path in paths]
        for block, table in enumerate(blocks):
            for part in range(dealt):
                first, end = (len(table) * edge // dealt for edge in (part, part + 1))
                writers[(block * dealt + part) % len(paths)](table.slice(first, end - first))
            if progress is not None:
                progress((block + 1) / n_blocks)


def write_side_files(
    written: Simulated, ids: Sequence[str], scores: Sequence[float], job: dict[str, Any]
) -> None:
    """Write the catalogue, the true scores and the job file."""
    _write_csv(written.items, ["item"], ([name] for name in ids))
    _write_csv(written.truth, ["item", "score"], zip(ids, map(repr, scores), strict=True))
    text = yaml.safe_dump(job, sort_keys=False, default_flow_style=None, width=100)
    written.survey.write_text(text, encoding="utf-8")


def _write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def _empty_folder(out: Path) -> None:
    for path in out.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def simulate_comparisons(
    spec: SimulationSpec,
    out: Path,
    *,
    files: int | None = None,
    format_: FileFormat = FileFormat.PARQUET,
    progress: Progress | None = None,
) -> Simulated:
    """Write the survey that `spec` describes into the folder `out`, made if it does not exist.

    Memory does not grow with the number of rows. An error half-way leaves the folder empty.

    Args:
        spec: items, people and how they answer; the rows depend on nothing else.
        out: a new or empty folder.
        files: number of files the rows are dealt to; None: 8, or one a person if there are fewer.
        format_: format of those files.
        progress: called from time to time with the share that is done.

    Raises:
        ValueError: `files` is not between 1 and both 500 and the number of people.
        FileExistsError: `out` is not empty, or is a file.
    """
    with simulated_folder(out, spec.people, files, format_) as written:
        deal_log(_tables(spec), n_blocks(spec), schema_of(spec), written.log, format_, progress)
        scores = spec.true_scores().tolist()
        write_side_files(written, spec.item_ids(), scores, job_of(spec, format_))
    return written


def _tables(spec: SimulationSpec) -> Iterator[pa.Table]:
    ids = pa.array(spec.item_ids()) if spec.named else None
    return (table_of(columns, ids) for columns in comparison_blocks(spec))


def schema_of(spec: SimulationSpec) -> pa.Schema:
    """Schema of the files of a log."""
    item = pa.string() if spec.named else pa.int32()
    types = {"user": pa.int64(), "item_i": item, "item_j": item, "outcome": pa.int8()}
    if spec.events:
        types["event"] = pa.int64()
    if spec.epsilons:
        types["epsilon"] = pa.float64()
    return pa.schema(types)


def table_of(columns: Columns, ids: pa.Array | None) -> pa.Table:
    """The columns as Arrow arrays; if `ids` is given, items by name."""
    arrays = {name: pa.array(column) for name, column in columns.items()}
    if ids is not None:
        for name in ("item_i", "item_j"):
            arrays[name] = ids.take(arrays[name])
    return pa.table(arrays)


def job_of(spec: SimulationSpec, format_: FileFormat) -> dict[str, Any]:
    """A job that ranks the log; relative paths start at the folder of the job file."""
    columns = {"user": "user", "left": "item_i", "right": "item_j", "outcome": "outcome"}
    if spec.events:
        columns["event"] = "event"
    return {
        "name": "simulated-survey",
        "input": {
            "kind": "comparisons",
            "paths": [f"survey/*.{format_.value}"],
            "columns": columns,
            "design": "balanced",
            "ties": "drop",
        },
        "items": {"file": "items.csv"},
        "privacy": {
            "unit": "user",
            "adjacency": "replace-one",
            "epsilon": 2.0,
            "max_contributions": spec.comparisons,
            "distinct_pairs": spec.distinct_pairs,
        },
        "method": "noisy-counts",
        "output": "out",
        "confidential": ".hushrank/work",
        "ledger": {
            "path": ".hushrank/ledger.jsonl",
            "epsilon": 10.0,
            "delta": 1e-6,
            "refresh": "monthly",
        },
        "runner": "local",
    }
