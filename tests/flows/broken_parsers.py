"""Parsers of files that end their process, lack memory or fail, for the child that loads this.

`BREAK` in the environment says how. The command's own process must not use them at all.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any, NoReturn

import fastavro
import pyarrow as pa
import pyarrow.csv
import pyarrow.ipc
import pyarrow.json
import pyarrow.orc
import pyarrow.parquet

PARSERS: list[tuple[Any, tuple[str, ...]]] = [
    (pyarrow.parquet, ("ParquetFile", "read_metadata", "read_schema", "read_table")),
    (pyarrow.orc, ("ORCFile",)),
    (pyarrow.ipc, ("open_file", "open_stream")),
    (pyarrow.csv, ("read_csv",)),
    (pyarrow.json, ("read_json",)),
    (fastavro, ("reader", "block_reader", "schemaless_reader")),
]
PRIVATE = "ann, who answered ants"


def _abort(*_: object, **__: object) -> NoReturn:
    os.abort()


def _kill(*_: object, **__: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _lack(*_: object, **__: object) -> NoReturn:
    raise pa.ArrowMemoryError(PRIVATE)


def _lack_in_python(*_: object, **__: object) -> NoReturn:
    raise MemoryError(PRIVATE)


def _fail(*_: object, **__: object) -> NoReturn:
    raise KeyError(PRIVATE)


WAYS: dict[str, Callable[..., object]] = {
    "abort": _abort,
    "kill": _kill,
    "lack": _lack,
    "lack in python": _lack_in_python,
    "fail": _fail,
}


def forbidden(*_: object, **__: object) -> NoReturn:
    """What parsers become in the command's own process."""
    raise AssertionError("a file is parsed in the process that holds the reservation")


def replace_all(by: Callable[..., object], put: Callable[[Any, str, object], object]) -> None:
    """Have `put` set every parser to `by`."""
    for module, names in PARSERS:
        for name in names:
            put(module, name, by)


if "BREAK" in os.environ:
    replace_all(WAYS[os.environ["BREAK"]], setattr)
