"""Journal: a file to which groups of answers are appended; they survive a killed process.

A journal is a head, which says the form of its rows, and one record for each group:

    length of the content (4 bytes), its CRC-32 (4), content

The content of a group is how many submissions and tokens it has (4 bytes each), their marks (8
bytes each) and the rows. All numbers are little-endian. `append` returns after the record is on
disk (fdatasync), so a group counts as kept from then on. A process or a machine that dies leaves a
whole journal, or one whose last record is torn; nobody was told that a torn group is kept.

Group commit: batches that come while the disk is busy are written together, by one fsync.

An answer counts as kept when its group is on disk; only then is its sender told. While one group
is being written the next one gathers, so nothing waits for a timer, and a slow disk makes groups
larger. What waits is bounded: beyond `MOST_WAITING` a batch is refused, to be sent again.
"""

from __future__ import annotations

import asyncio
import json
import os
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from hushrank.flows.collecting.protocol import Recent, RowForm
from hushrank.transforms import system
from hushrank.transforms.common.local_files import UnfitFile, open_local, read_local
from hushrank.transforms.storage.places import flush_folder, write_flushed

_MAGIC = b"hushrank journal 1\n"
_LEAD = struct.Struct("<II")  # length of a content, and its CRC-32
_COUNTS = struct.Struct("<II")  # numbers of submissions and of tokens
MARK_BYTES = 8
MOST_JOURNAL = 1 << 30  # bytes; a collector begins another journal long before
_MOST_RECORD = 1 << 28  # bytes: above the head of the largest catalogue, and above every group


@dataclass(frozen=True)
class Group:
    """Answers that are stored together.

    Attributes:
        rows: records, one after the other.
        submissions, tokens: marks of the batches and of their tokens, sorted: no order links them.
    """

    rows: bytes
    submissions: Sequence[bytes] = ()
    tokens: Sequence[bytes] = ()

    def to_bytes(self) -> bytes:
        """Return the content of a record."""
        counts = _COUNTS.pack(len(self.submissions), len(self.tokens))
        return b"".join((counts, *self.submissions, *self.tokens, self.rows))

    @classmethod
    def of(cls, content: memoryview) -> Group:
        """Read the content that `to_bytes` made.

        Raises:
            ValueError, struct.error: it made something else.
        """
        submissions, tokens = _COUNTS.unpack_from(content)
        start = _COUNTS.size
        middle = start + MARK_BYTES * submissions
        end = middle + MARK_BYTES * tokens
        if end > len(content):
            raise ValueError("fewer marks than are stated")
        return cls(
            bytes(content[end:]), marks_in(content[start:middle]), marks_in(content[middle:end])
        )


class Journal:
    """Journal that is open for appending, by one thread at a time."""

    def __init__(self, path: Path, form: RowForm, size: int) -> None:
        """Continue the file at `path` after its first `size` bytes; cut off the rest."""
        self.path, self.form, self.size = path, form, size
        self._descriptor = open_local(path, os.O_WRONLY)
        try:
            os.ftruncate(self._descriptor, size)
            os.lseek(self._descriptor, size, os.SEEK_SET)
            _sync(self._descriptor)
        except OSError:
            self.close()
            raise

    @classmethod
    def create(cls, path: Path, form: RowForm) -> Journal:
        """Create a journal without a group; its name survives a power failure.

        Raises:
            OSError: the journal cannot be written.
        """
        text = json.dumps(form.content(), ensure_ascii=False).encode()
        content = _MAGIC + _LEAD.pack(len(text), zlib.crc32(text)) + text
        try:
            write_flushed(path, content)
        except OSError:
            with suppress(OSError):  # a journal without answers does no harm
                path.unlink(missing_ok=True)
            raise
        return cls(path, form, len(content))

    def append(self, group: Group) -> None:
        """Add a group, which is on disk when this returns.

        Raises:
            OSError: the group may be there or not. Close this journal and `cut` its file to
                `size` bytes; what else the disk holds of it is unknown.
        """
        content = group.to_bytes()
        record = memoryview(_LEAD.pack(len(content), zlib.crc32(content)) + content)
        while record:
            record = record[os.write(self._descriptor, record) :]
        _sync(self._descriptor)
        self.size += _LEAD.size + len(content)

    def close(self) -> None:
        """Close the file. An error is ignored, because all groups that count are on disk.

        The descriptor is forgotten first: the system frees it even if it reports an error, and may
        give the same number to the connection of the next sender.
        """
        descriptor, self._descriptor = self._descriptor, -1
        with suppress(OSError):
            os.close(descriptor)


@dataclass(frozen=True)
class JournalContent:
    """Content of a journal.

    Attributes:
        form: form of its rows.
        groups: whole groups, in their order.
        size: bytes of the file that its head and whole groups take.
        torn: whether bytes that are no group follow them, as a killed process may leave them.
        damaged: whether these bytes are such that no killed process leaves them.
    """

    form: RowForm
    groups: tuple[Group, ...]
    size: int
    torn: bool
    damaged: bool

    @property
    def rows(self) -> bytes:
        """Rows of all groups."""
        return b"".join(group.rows for group in self.groups)

    @property
    def tokens(self) -> list[bytes]:
        """Marks of the tokens of all groups."""
        return [token for group in self.groups for token in group.tokens]


def read_journal(path: Path) -> JournalContent | None:
    """Read the journal at `path`; None: the process died before its head was complete.

    Raises:
        ValueError: the file is no journal, or its head is damaged.
        OSError: the file cannot be read.
    """
    try:
        content, start = memoryview(read_local(path, MOST_JOURNAL)), len(_MAGIC)
    except (UnfitFile, IsADirectoryError) as error:
        raise ValueError(f"{path}: this is not a journal: {error.strerror}") from None
    if bytes(content[:start]) != _MAGIC[: len(content)]:
        raise ValueError(f"{path}: this is not a journal")
    text = next(_records(content, start), None)
    if text is None:
        if _damaged(content, start):
            raise ValueError(f"{path}: the head of this journal is damaged")
        return None
    size, groups = start + _LEAD.size + len(text), []
    try:
        form = RowForm.of(json.loads(bytes(text)))
        width = form.dtype.itemsize
        for record in _records(content, size):
            group = Group.of(record)
            if len(group.rows) % width:
                raise ValueError("a part of a row")
            size += _LEAD.size + len(record)
            groups.append(group)
    except (KeyError, TypeError, ValueError, ArithmeticError, RecursionError, struct.error):
        raise ValueError(f"{path}: the content of this journal is damaged") from None
    tail = any(content[size:])
    return JournalContent(form, tuple(groups), size, tail, _damaged(content, size))


def cut(path: Path, size: int) -> None:
    """Cut a journal off after its first `size` bytes; this survives a power failure.

    Raises:
        OSError: the file may be cut off or not.
    """
    with suppress(FileNotFoundError):  # then nothing of it can be counted
        descriptor = open_local(path, os.O_WRONLY)
        try:
            os.ftruncate(descriptor, size)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def remove(path: Path) -> None:
    """Delete a journal; this survives a power failure."""
    path.unlink(missing_ok=True)
    flush_folder(path.parent)


def marks_in(content: bytes | memoryview) -> tuple[bytes, ...]:
    """Split `content` into its marks."""
    return tuple(bytes(content[at : at + MARK_BYTES]) for at in range(0, len(content), MARK_BYTES))


def _records(content: memoryview, start: int) -> Iterator[memoryview]:
    """Yield the contents of complete records, up to the first that is incomplete."""
    while start + _LEAD.size < len(content):
        length, check = _LEAD.unpack_from(content, start)
        record = content[start + _LEAD.size :][:length]
        if not length or len(record) < length or zlib.crc32(record) != check:
            return
        yield record
        start += _LEAD.size + length


def _damaged(content: memoryview, size: int) -> bool:
    """Whether more than an interrupted record follows: that would be the last one.

    A file that grew before its content came to the disk ends in zeros.
    """
    tail = content[size:]
    if len(tail) <= _LEAD.size:
        return False
    length, _ = _LEAD.unpack_from(tail)
    return length > _MOST_RECORD or any(tail[_LEAD.size + length :])


def _sync(descriptor: int) -> None:
    system.flush_data(descriptor)


MOST_WAITING = 4 << 20  # bytes of rows


class Busy(Exception):  # noqa: N818 - it passes
    """Error if too many batches wait for the disk."""


class TokenUsed(Exception):  # noqa: N818 - what it is
    """Error if answers with this token are stored, or about to be."""


class NotKept(Exception):  # noqa: N818 - what happened
    """Error if the disk refused the group. Its batches may be sent again."""


@dataclass(frozen=True)
class Batch:
    """Answers of one submission.

    Attributes:
        rows: records.
        answers: number of answers.
        submission: mark of the submission.
        token: mark of its token; None: the survey has none.
    """

    rows: bytes
    answers: int
    submission: bytes
    token: bytes | None = None


@dataclass
class _Gathering:
    batches: list[Batch] = field(default_factory=list)
    size: int = 0


class Committer:
    """Queue that writes batches to disk in groups. All methods belong to the event loop's
    thread."""

    def __init__(
        self,
        append: Callable[[Group], None],
        thread: Executor,
        recent: Recent,
        used: set[bytes],
    ) -> None:
        """
        Args:
            append: keeps a group, or raises OSError.
            thread: thread where batches are kept, one at a time.
            recent: submissions that are kept.
            used: tokens that are; this adds to both.
        """
        self._append, self._thread = append, thread
        self._recent, self._used = recent, used
        self._next = _Gathering()
        self._waiting: dict[bytes, asyncio.Future[None]] = {}
        self._writer: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> int:
        """Number of batches that are not on disk yet."""
        return len(self._waiting)

    def knows(self, batch: Batch) -> bool:
        """Whether the batch was kept before, or is about to be."""
        return batch.submission in self._recent or batch.submission in self._waiting

    async def keep(self, batch: Batch) -> bool:
        """Return once the batch is on disk; False: it was stored before, and is ignored.

        Raises:
            Busy, TokenUsed, NotKept: the batch is not kept.
        """
        mark = batch.submission
        if mark in self._recent:
            return False
        if (waiting := self._waiting.get(mark)) is not None:
            await asyncio.shield(waiting)
            return False
        if batch.token is not None and batch.token in self._used:
            raise TokenUsed
        if self._next.size + len(batch.rows) > MOST_WAITING:
            raise Busy
        if batch.token is not None:
            self._used.add(batch.token)
        self._next.batches.append(batch)
        self._next.size += len(batch.rows)
        kept = self._waiting[mark] = asyncio.get_running_loop().create_future()
        if self._writer is None:
            self._writer = asyncio.create_task(self._write())
        await asyncio.shield(kept)
        return True

    async def finish(self) -> None:
        """Return once no batch waits."""
        while self._writer is not None:
            await asyncio.wait([self._writer])

    async def _write(self) -> None:
        """Write the group that waits, and schedule the next one."""
        loop = asyncio.get_running_loop()
        batches, self._next = self._next.batches, _Gathering()
        kept = False
        try:
            with suppress(OSError):
                await loop.run_in_executor(self._thread, self._append, _group(batches))
                kept = True
        finally:  # even if the program is at fault: nobody waits for ever
            self._done(batches, kept=kept)
            more = bool(self._next.batches)
            self._writer = asyncio.create_task(self._write()) if more else None

    def _done(self, batches: list[Batch], *, kept: bool) -> None:
        for batch in batches:
            waiting = self._waiting.pop(batch.submission)
            if kept:
                self._recent.add(batch.submission)
                waiting.set_result(None)
                continue
            if batch.token is not None:
                self._used.discard(batch.token)
            waiting.set_exception(NotKept())
            waiting.exception()  # the sender may be gone, and asyncio would report that


def _group(batches: list[Batch]) -> Group:
    return Group(
        b"".join(batch.rows for batch in batches),
        sorted(batch.submission for batch in batches),
        sorted(batch.token for batch in batches if batch.token is not None),
    )
