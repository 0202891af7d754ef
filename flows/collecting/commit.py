"""Group commit: batches that come while the disk is busy are written together, by one fsync.

An answer counts as kept when its group is on disk; only then is its sender told. While one group
is being written the next one gathers, so nothing waits for a timer, and a slow disk makes groups
larger. What waits is bounded: beyond `MOST_WAITING` a batch is refused, to be sent again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass, field

from hushrank.flows.collecting.journal import Group
from hushrank.flows.collecting.limits import Recent

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
        answers: how many.
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
            thread: where that is done, one at a time.
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
            Busy, TokenUsed, NotKept: it is not kept.
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
            waiting.exception()  # its sender may be gone, and asyncio would report that


def _group(batches: list[Batch]) -> Group:
    return Group(
        b"".join(batch.rows for batch in batches),
        sorted(batch.submission for batch in batches),
        sorted(batch.token for batch in batches if batch.token is not None),
    )
