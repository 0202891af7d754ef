"""Which files cannot be read whole: every page of every file is decoded, and no row is kept."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from hushrank.transforms.common.schema import Columns, InputError
from hushrank.transforms.storage.files import InputFile
from hushrank.transforms.storage.files_read import counted, note_read
from hushrank.transforms.storage.read import plan_files, read_batches
from hushrank.transforms.storage.split import Split

T = TypeVar("T")


def find_damage(
    files: Sequence[InputFile], columns: Columns, workers: int
) -> list[tuple[InputFile, str]]:
    """Decode the columns that a job reads, and return each file in which that fails, with why.

    A row that breaks a rule is no damage. Memory: one batch for each worker.

    Args:
        files: files to read, which no service sends.
        columns: columns to decode.
        workers: number of files, or parts of them, to read at once.
    """
    damage: dict[InputFile, str] = {}
    lock = threading.Lock()

    def tried(file: InputFile, work: Callable[[], T], otherwise: T) -> T:
        try:
            return work()
        except InputError as error:
            with lock:
                damage.setdefault(file, f"{error}")
            return otherwise

    def cut(file: InputFile) -> list[Split]:
        return tried(file, lambda: plan_files([file], columns), [])

    def decode(split: Split) -> None:
        tried(split.file, lambda: _decoded(split), None)
        note_read(split)

    with ThreadPoolExecutor(workers) as threads:
        splits = [split for found in threads.map(cut, files) for split in found]
        with counted(splits):
            list(threads.map(decode, splits))
    return [(file, damage[file]) for file in files if file in damage]


def _decoded(split: Split) -> None:
    for _ in read_batches(split):
        pass
