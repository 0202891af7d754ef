"""Writer of whole files: first under a temporary name, then renamed, readable by their owner
only."""

from __future__ import annotations

import errno
import glob
import io
import os
import re
import struct
import time
import uuid
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO
from zipfile import BadZipFile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from hushrank.transforms import system
from hushrank.transforms.common.local_files import (
    MostBytes,
    open_local,
    read_local,
    require_regular,
)
from hushrank.transforms.storage.cloud_storage import CloudPath, ObjectChanged, Place, is_cloud

STALE_SECONDS = 60.0  # no small file takes longer than this to write
OWNER_ONLY_FILE = 0o600
NOT_FOR_WANT_OF_LINKS = (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS)
_DAMAGE = (  # errors that zipfile and numpy raise for bytes that are no `.npz` file
    *(ValueError, LookupError, TypeError, AttributeError, ArithmeticError, EOFError, OSError),
    *(RuntimeError, MemoryError, SyntaxError, BadZipFile, struct.error, zlib.error),
)
TEMPORARY_NAME = re.compile(r"\.(?P<name>.+)\.[0-9a-f]{32}")  # names of unfinished files


def write_whole(path: str, content: bytes) -> None:
    """Write `content` to a local or gs:// path; a reader finds the old file or the whole new one.

    Raises:
        OSError: the file cannot be written; then no temporary file is left behind.
    """
    if is_cloud(path):  # an object appears whole or not at all
        CloudPath.parse(path).write(content)
        return
    target = Path(path)
    require_regular(target)
    make_folder(target.parent)
    temporary = target.with_name(temporary_name(target.name))
    try:
        _write_new(temporary, content)
        system.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def write_once(path: str, content: bytes, most: int = MostBytes.ARRAYS) -> bytes:
    """Write `content` to a local or gs:// path, unless the file exists already.

    If several processes write at the same time, one is first, and all get what it wrote. A file
    system without hard links cannot promise that: there the caller must hold a lock.

    Args:
        path: path to write to.
        content: bytes to write.
        most: the most bytes that a local file may hold that is there already.

    Returns:
        The content of the file.

    Raises:
        OSError: the file cannot be written, or what is there cannot be read.
    """
    if is_cloud(path):
        target = CloudPath.parse(path)
        with suppress(ObjectChanged):
            target.create(content)
        return target.read_bytes()
    place = Path(path)
    make_folder(place.parent)
    temporary = place.with_name(temporary_name(place.name))
    try:
        _write_new(temporary, content)
        _link_once(temporary, place)
    finally:
        temporary.unlink(missing_ok=True)
    return read_local(place, most)


def temporary_name(name: str) -> str:
    """Make a unique name, of the form that `TEMPORARY_NAME` matches."""
    return f".{name}.{uuid.uuid4().hex}"


@contextmanager
def nothing_half_written(target: Path) -> Iterator[None]:
    """Delete the temporary files of `target` that the block leaves, if an error ends it.

    Use it for a block that has another process write: one that is killed deletes nothing.
    """
    before = set(_temporary_files(target))
    try:
        yield
    except BaseException:
        for left in set(_temporary_files(target)) - before:
            with suppress(OSError):
                left.unlink()
        raise


def _temporary_files(target: Path) -> Iterator[Path]:
    for path in target.parent.glob(f".{glob.escape(target.name)}.*"):
        if TEMPORARY_NAME.fullmatch(path.name):
            yield path


def make_folder(folder: Path) -> None:
    """Create a folder and those above it that are missing, all for their owner only."""
    for each in (*reversed(folder.parents), folder):
        if not each.exists():  # `mkdir(parents=True)` would open those above to others
            system.make_private_folder(each)


def _link_once(temporary: Path, place: Path) -> None:
    """Give a file its name, unless another file has it."""
    try:
        os.link(temporary, place)
    except FileExistsError:
        return
    except OSError as error:
        if not is_for_want_of_links(error):
            raise
        if not place.exists():
            system.replace(temporary, place)


def is_for_want_of_links(error: OSError) -> bool:
    """Whether a hard link may have failed because the file system has none.

    File systems say so with many numbers: EPERM, ENOTSUP, ENOSYS, EINVAL, EXDEV, EMLINK. Without a
    number nothing is known.
    """
    return error.errno is not None and error.errno not in NOT_FOR_WANT_OF_LINKS


def is_stale(path: Path) -> bool:
    """Whether a small temporary file is so old that its writer must be dead."""
    try:
        return time.time() - path.stat().st_mtime > STALE_SECONDS
    except FileNotFoundError:
        return False


def write_flushed(path: Path, content: bytes) -> None:
    """Write a new local file; its content and its name survive a power failure.

    Raises:
        OSError: the file cannot be written, or exists already; a part of it may be left behind.
    """
    _write_new(path, content)
    flush_folder(path.parent)


def flush_folder(folder: Path) -> None:
    """Make the names of files in a local folder survive a power failure."""
    system.flush_folder(folder, where_it_can=True)


def create_file(path: Path) -> BinaryIO:
    """Open a new local file, which its owner alone may read, for writing.

    Raises:
        OSError: the file exists already, or cannot be created.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    return os.fdopen(open_local(path, flags, mode=OWNER_ONLY_FILE), "wb")


def _write_new(path: Path, content: bytes) -> None:
    with create_file(path) as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())


def read_whole(place: str | Place, most: int = MostBytes.ARRAYS) -> bytes:
    """Read the content of a local or gs:// file.

    Args:
        place: path or URL of the file.
        most: the most bytes that a local file may hold.

    Raises:
        OSError: the file does not exist, is no regular file or too large, or cannot be read.
    """
    if isinstance(place, str) and is_cloud(place):
        place = CloudPath.parse(place)
    return place.read_bytes() if isinstance(place, CloudPath) else read_local(place, most)


def npz_bytes(**arrays: NDArray[Any]) -> bytes:
    """Return arrays in numpy's `.npz` form."""
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()


def npz_arrays(content: bytes) -> dict[str, NDArray[Any]]:
    """Return the arrays in the content of an `.npz` file, by name.

    Raises:
        ValueError: the content is damaged, or no such file.
    """
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as stored:
            return dict(stored)
    except _DAMAGE as error:
        raise ValueError("no arrays, or damaged ones") from error


def parquet_bytes(table: pa.Table, stated: Mapping[str, str] | None = None) -> bytes:
    """Return a table in Parquet form, in plain types that hide how Arrow stored a column.

    Times in whole seconds, which Parquet does not have, become integers: as milliseconds, a time in
    the far future would overflow.

    Args:
        table: table to store.
        stated: texts by name, for the file's metadata.
    """
    for place, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type) and field.type.unit == "s":
            table = table.set_column(place, field.name, table[place].cast(pa.int64()))
    buffer = io.BytesIO()
    with pq.ParquetWriter(buffer, table.schema, store_schema=False) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata(dict(stated or {}))
    return buffer.getvalue()
