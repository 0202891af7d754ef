"""Objects in Cloud Storage, read and written through Google's own client.

Every write can name the generation that it replaces; 0 means that the object must not exist. So one
of several writers wins, and no writer overwrites what it has not seen. Failures are `OSError`s, as
for files. They are raised after the retries that Google recommends, for a bounded time.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

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
