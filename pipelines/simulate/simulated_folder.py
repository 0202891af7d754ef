"""The folder of a simulation: a log dealt to files, a catalogue, the truth and a job file."""

from __future__ import annotations

import contextlib
import csv
import math
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import yaml

from hushrank.pipelines.simulate.row_files import open_row_file
from hushrank.transforms.storage.files import FileFormat

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
