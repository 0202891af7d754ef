"""Places: files and folders, here or in an object store; reading and writing them whole.

Objects in Cloud Storage, read and written through Google's own client.

Every write can name the generation that it replaces; 0 means that the object must not exist. So one
of several writers wins, and no writer overwrites what it has not seen. Failures are `OSError`s, as
for files. They are raised after the retries that Google recommends, for a bounded time.

Writer of whole files: first under a temporary name, then renamed, readable by their owner
only.
"""

from __future__ import annotations

import contextlib
import errno
import functools
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
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO
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

if TYPE_CHECKING:
    from google.cloud import storage


CLOUD_PREFIX = "gs://"
ABSENT = 0  # the generation of an object that does not exist
PATIENCE = 60.0  # seconds for which a request that fails for a temporary reason is repeated
CHUNK_BYTES = 1 << 24  # bytes of each piece of an object that is read piece by piece
MAX_REPEATS = 20  # repeats of a read if the object is replaced between two requests

_URL = re.compile(r"gs://(?P<bucket>[a-z0-9][a-z0-9._-]{1,220}[a-z0-9])(/(?P<name>.*))?", re.DOTALL)


class ObjectChanged(OSError):  # noqa: N818 - the expected answer to a late writer
    """Error if the object does not have the requested generation; nothing was written."""


@dataclass(frozen=True, slots=True)
class StoredObject:
    """Object at one moment.

    Attributes:
        content: bytes of the object.
        generation: identifies exactly this content and its write.
        metadata: texts stored with it.
        updated: time when it was written, by the clock of the store.
    """

    content: bytes
    generation: int
    metadata: Mapping[str, str]
    updated: datetime


@dataclass(frozen=True, slots=True)
class Listed:
    """Entry of a listing about one object.

    Attributes:
        md5: digest of its bytes, as the store states it; empty: an object of joined parts has none.
    """

    path: CloudPath
    size: int
    generation: int
    md5: str = ""


@dataclass(frozen=True, slots=True, order=True)
class CloudPath:
    """Object in a bucket, or the folder of the objects whose names begin with `name/`.

    `/` joins it as it joins a `pathlib.Path`. Methods that ask the store raise PermissionError,
    FileNotFoundError, or another OSError if the store does not answer.
    """

    bucket: str
    key: str = field(default="")  # without a slash at either end; empty: the bucket itself

    @classmethod
    def parse(cls, url: str) -> CloudPath:
        """Parse `gs://bucket/name`; one slash at the end does not matter.

        Raises:
            ValueError: the URL has no bucket, or a part of its name is empty, `.` or `..`.
        """
        match = _URL.fullmatch(url)
        if match is None:
            raise ValueError(f"must be {CLOUD_PREFIX}bucket/name, got {url!r}")
        name = (match["name"] or "").removesuffix("/")
        if name and any(part in ("", ".", "..") for part in name.split("/")):
            raise ValueError(f"must not have an empty part, '.' or '..' between slashes: {url!r}")
        return cls(match["bucket"], name)

    def __str__(self) -> str:
        return f"{CLOUD_PREFIX}{self.bucket}/{self.key}".removesuffix("/")

    def __truediv__(self, part: str) -> CloudPath:
        return CloudPath(self.bucket, f"{self.key}/{part}" if self.key else part)

    @property
    def name(self) -> str:
        """Part after the last slash."""
        return self.key.rpartition("/")[2]

    @property
    def parent(self) -> CloudPath:
        """Folder that contains the object."""
        return CloudPath(self.bucket, self.key.rpartition("/")[0])

    def contains(self, other: CloudPath) -> bool:
        """Whether `other` is this path or inside it."""
        inside = not self.key or f"{other.key}/".startswith(f"{self.key}/")
        return self.bucket == other.bucket and inside

    def read(self, patience: float = PATIENCE) -> StoredObject | None:
        """Return the present content with its generation; None: the object does not exist."""
        for _ in range(MAX_REPEATS):
            with contextlib.suppress(FileNotFoundError, ObjectChanged), _explained(self):
                how = _how(patience)
                blob = _bucket(self).get_blob(self.key, **how)
                if blob is None:
                    return None
                generation, updated = int(blob.generation), blob.updated  # a download resets them
                content = blob.download_as_bytes(if_generation_match=generation, **how)
                return StoredObject(content, generation, dict(blob.metadata or {}), updated)
        raise OSError(errno.EBUSY, "it is replaced all the time", str(self))

    def read_bytes(self) -> bytes:
        """Return the content of the object.

        Raises:
            FileNotFoundError: the object does not exist.
        """
        found = self.read()
        if found is None:
            raise FileNotFoundError(errno.ENOENT, "no such object", str(self))
        return found.content

    def read_part(self, start: int, size: int) -> bytes:
        """Return bytes of the object from `start` on, in one request; fewer at its end.

        Raises:
            FileNotFoundError: the object does not exist.
        """
        with _explained(self):
            blob = _bucket(self).blob(self.key)
            content: bytes = blob.download_as_bytes(
                start=start, end=start + size - 1, **_how(PATIENCE)
            )
            return content

    def read_text(self, encoding: str = "utf-8") -> str:
        """Return the content of the object as text.

        Raises:
            FileNotFoundError: the object does not exist.
        """
        return self.read_bytes().decode(encoding)

    def generation(self) -> int:
        """Return the generation of the object, or `ABSENT`."""
        with _explained(self):
            blob = _bucket(self).get_blob(self.key, **_how(PATIENCE))
        return ABSENT if blob is None else int(blob.generation)

    def exists(self) -> bool:
        """Whether the object exists."""
        return self.generation() != ABSENT

    def write(
        self,
        content: bytes,
        *,
        replaces: int | None = None,
        metadata: Mapping[str, str] | None = None,
        patience: float = PATIENCE,
    ) -> StoredObject:
        """Write `content` to the object, whole or not at all.

        Args:
            content: the whole content.
            replaces: the generation that must still exist; None: any.
            metadata: texts to store with it.
            patience: seconds for which to try again.

        Raises:
            ObjectChanged: another generation exists. This write itself may have made it, if its
                answer was lost and the write was repeated.
        """
        with _explained(self):
            blob = _bucket(self).blob(self.key)
            blob.metadata = dict(metadata or {})
            blob.upload_from_string(
                content,
                content_type="application/octet-stream",
                if_generation_match=replaces,
                **_how(patience),
            )
        return StoredObject(content, int(blob.generation), dict(metadata or {}), blob.updated)

    def create(self, content: bytes) -> None:
        """Write an object that does not exist yet; accept an object with the same content.

        Raises:
            ObjectChanged: the object has other content, which stays.
        """
        try:
            self.write(content, replaces=ABSENT)
        except ObjectChanged:
            if self.read_bytes() != content:
                raise

    def delete(self, generation: int | None = None) -> None:
        """Delete the object, or only that generation; an absent object is no error.

        Raises:
            ObjectChanged: the object has another generation.
        """
        with contextlib.suppress(FileNotFoundError), _explained(self):
            blob = _bucket(self).blob(self.key)
            blob.delete(if_generation_match=generation, **_how(PATIENCE))

    def objects(self, prefix: str = "") -> Iterator[Listed]:
        """Yield all objects in this folder whose name below it begins with `prefix`, by name."""
        start = f"{self.key}/{prefix}" if self.key else prefix
        with _explained(self):
            for blob in _client().list_blobs(self.bucket, prefix=start, **_how(PATIENCE)):
                if not blob.name.endswith("/"):  # consoles make such objects to show empty folders
                    path = CloudPath(self.bucket, blob.name)
                    yield Listed(path, int(blob.size), int(blob.generation), blob.md5_hash or "")

    @contextlib.contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """Open a readable, seekable stream of the object."""
        with _explained(self):
            blob = _bucket(self).get_blob(self.key, **_how(PATIENCE))
        if blob is None:
            raise FileNotFoundError(errno.ENOENT, "no such object", str(self))
        how = _how(PATIENCE)
        with blob.open("rb", chunk_size=CHUNK_BYTES, **how) as stream, _explained(self):
            yield stream


Place = Path | CloudPath  # a file or an object


def is_cloud(path: str) -> bool:
    """Whether `path` names an object in Cloud Storage."""
    return path.startswith(CLOUD_PREFIX)


def _bucket(path: CloudPath) -> storage.Bucket:
    return _client().bucket(path.bucket)


def _client() -> storage.Client:
    # A forked process must not share its parent's connections.
    return _client_of(os.getpid(), os.environ.get("STORAGE_EMULATOR_HOST"))


@functools.lru_cache(maxsize=4)
def _client_of(_process: int, _emulator: str | None) -> storage.Client:
    from google.cloud import storage  # takes a second, so only if it is needed

    return storage.Client(project=None)  # objects need no project


def _how(patience: float) -> dict[str, Any]:
    from google.cloud.storage.retry import DEFAULT_RETRY

    return {"timeout": min(patience, PATIENCE), "retry": DEFAULT_RETRY.with_timeout(patience)}


@contextlib.contextmanager
def _explained(path: CloudPath) -> Iterator[None]:
    """Raise errors of the store as `OSError`s, like those of files."""
    import requests
    from google.api_core import exceptions as api
    from google.auth import exceptions as auth
    from google.cloud.storage import exceptions as media

    where = str(path)
    try:
        yield
    except api.NotFound:
        raise FileNotFoundError(errno.ENOENT, "no such object or bucket", where) from None
    except (api.Forbidden, api.Unauthorized):
        raise PermissionError(errno.EACCES, "no permission", where) from None
    except api.PreconditionFailed:
        raise ObjectChanged(errno.EEXIST, "somebody else wrote it", where) from None
    except auth.DefaultCredentialsError:
        text = "no credentials for Google Cloud: run gcloud auth application-default login"
        raise PermissionError(errno.EACCES, text, where) from None
    except (
        api.GoogleAPICallError,
        api.RetryError,
        auth.GoogleAuthError,
        media.DataCorruption,
        requests.RequestException,
    ) as error:
        text = f"Cloud Storage does not answer as it should: {type(error).__name__}"
        raise OSError(errno.EIO, text, where) from None


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
    for place, column in enumerate(table.schema):
        if pa.types.is_timestamp(column.type) and column.type.unit == "s":
            table = table.set_column(place, column.name, table[place].cast(pa.int64()))
    buffer = io.BytesIO()
    with pq.ParquetWriter(buffer, table.schema, store_schema=False) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata(dict(stated or {}))
    return buffer.getvalue()
