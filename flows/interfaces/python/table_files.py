"""A table in memory as a file of the confidential area, for as long as a run needs it.

Rows are read by a child process (`flows.run.reader_process`), from files alone. So a table is
written once more, as Parquet, into a folder that only its owner can open, and deleted when the run
ends, however it ends. If the process is killed, the next run deletes the file: its writer holds a
lock on it as long as it lives.

The release key names the table by a keyed digest of its rows (`transforms.common.row_digest`) under
the ledger's key. So the same table again is the same release, and spends nothing.
"""

from __future__ import annotations

import fcntl
import os
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from hushrank.flows.errors import ConfigError
from hushrank.flows.ledger.key import LedgerKey, Purpose
from hushrank.transforms.common.local_files import open_local, open_to_read
from hushrank.transforms.common.row_digest import RowDigest
from hushrank.transforms.storage.files import FileFormat, InputFile
from hushrank.transforms.storage.write import OWNER_ONLY_FOLDER, is_stale

FOLDER = "tables"
ENDING = ".parquet"
ROWS_AT_ONCE = 1 << 20  # of a row group, at most
FEW_ROWS = 1 << 16  # batches with fewer are joined


@contextmanager
def table_file(
    batches: Iterable[pa.RecordBatch],
    roles: Sequence[tuple[str, str]],
    area: Path,
    key: LedgerKey,
) -> Iterator[InputFile]:
    """Write the table into the confidential area; delete it when the block ends.

    Args:
        batches: its rows.
        roles: role and name of each column that decides what a row means.
        area: the confidential area.
        key: of the ledger.

    Raises:
        ConfigError: the table is none, or there is no room for it.
    """
    folder = area / FOLDER
    path = folder / f"{uuid.uuid4().hex}{ENDING}"
    try:
        for private in (area, folder):
            private.mkdir(mode=OWNER_ONLY_FOLDER, parents=True, exist_ok=True)
        _delete_dead(folder)
        descriptor = open_local(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
    except OSError as error:
        raise _no_room(folder, error) from None
    with os.fdopen(descriptor, "wb") as stream:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            digest = RowDigest(key.derived(Purpose.ROWS), roles)
            _write(stream, batches, digest)
            status = path.stat()
            yield InputFile(
                str(path),
                status.st_size,
                str(status.st_mtime_ns),
                FileFormat.PARQUET,
                digest=key.tag(Purpose.ROWS, digest.text()),
            )
        finally:
            path.unlink(missing_ok=True)


def _write(stream: object, batches: Iterable[pa.RecordBatch], digest: RowDigest) -> None:
    writer = None
    try:
        for batch in _joined(batches):
            if writer is None:
                writer = pq.ParquetWriter(stream, batch.schema)
            digest.add(batch)
            writer.write_batch(batch)
        if writer is not None:
            writer.close()
        stream.flush()  # type: ignore[attr-defined]
    except OSError as error:  # Arrow's error of a full disk is one
        raise _no_room(Path(FOLDER), error) from None


def _joined(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in batches that are neither tiny nor huge."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(each.num_rows for each in waiting) >= FEW_ROWS:
            yield from _cut(waiting)
            waiting = []
    if waiting:
        yield from _cut(waiting)


def _cut(waiting: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    table = pa.Table.from_batches(waiting).combine_chunks()
    yield from table.to_batches(ROWS_AT_ONCE) or [waiting[0]]


def _delete_dead(folder: Path) -> None:
    """Delete tables that killed processes left: no living process holds their lock."""
    for path in folder.glob(f"*{ENDING}"):
        if not is_stale(path):  # its writer may be about to lock it
            continue
        with suppress(OSError), open_to_read(path) as left:
            fcntl.flock(left, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink(missing_ok=True)


def _no_room(folder: Path, error: OSError) -> ConfigError:
    reason = error.strerror or type(error).__name__
    return ConfigError(
        f"confidential: {folder}: the table cannot be written there ({reason}), from where it is"
        " read. Free some room, or name another folder: confidential='...'. Nothing was spent."
    )
