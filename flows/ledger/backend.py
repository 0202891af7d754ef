"""The interface between the ledger and the storage of its lines.

A backend stores bytes and knows nothing of budgets. It only appends, and only if the content is
still exactly what the caller has read. This is compare-and-swap; a file with a lock can do it, and
so can an object with a generation number.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Protocol

from hushrank.flows.errors import LedgerError, RunInProgress

WAIT_STEP = 0.1  # seconds between two tries to take a lock that another run holds
_LENGTH = re.compile(rb"(0|[1-9][0-9]{0,17})\n?")
MISSING = (
    "lines at the end of the ledger are missing, or may be missing",
    "Spending that only these lines recorded counts as not spent",
)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Content of a ledger at one moment.

    Attributes:
        content: whole lines; the rest of an interrupted append is left out.
        token: identifies exactly this content; empty content has a token too.
        loss: evidence of the backend that lines at the end are missing, or that somebody else wrote
            them, and what to do; None: neither is so.
        findings: evidence for `ledger recover`: what is wrong, and what going on means; neither
            ends with a full stop.
    """

    content: bytes
    token: str
    loss: str | None = None
    findings: tuple[tuple[str, str], ...] = (MISSING,)


def length_of(text: bytes) -> int:
    """Read the length of a ledger, as it is recorded beside the ledger.

    Raises:
        ValueError: no append wrote this.
    """
    if _LENGTH.fullmatch(text) is None:
        raise ValueError("no length of a ledger")
    return int(text)


def ends_a_line(length: int, content: bytes) -> bool:
    """Whether an append can have left a ledger of that length, which now has `content`."""
    return not 0 < length <= len(content) or content[length - 1 : length] == b"\n"


def damaged_length(length_place: str, place: str) -> LedgerError:
    """Build the error of a length that no append wrote."""
    return LedgerError(
        f"{length_place} is damaged: it does not hold a number that an append writes. If {place} is"
        " complete, delete it and run hushrank ledger recover."
    )


class LedgerBackend(Protocol):
    """Store of the lines of one ledger. Every method raises LedgerError if it fails."""

    @property
    def place(self) -> str:
        """Place of the ledger, for messages."""
        ...

    def read(self) -> Snapshot:
        """Return the present content; an absent ledger is empty."""
        ...

    def append(self, token: str, lines: bytes) -> Snapshot | None:
        """Add `lines` for good, if the content is still the one that `token` identifies.

        If the append fails, or the process dies during it, the content is either unchanged, or has
        all `lines`, or has the first few of them.

        Returns:
            What the ledger holds now: `lines` are on stable storage. None: somebody else wrote
            first; nothing changed.
        """
        ...

    def tidy(self) -> None:
        """Delete files that a dead append left beside the ledger."""
        ...

    def check_writable(self) -> None:
        """Raise the error that would refuse an append or a run, without writing a line."""
        ...

    def accept_loss(self) -> None:
        """Accept the present content as complete; `Snapshot.loss` is None afterwards."""
        ...

    def hold(self, release_id: str) -> AbstractContextManager[None]:
        """Keep every other run of that release out until the block ends or the process dies.

        Raises:
            LedgerError: another run holds it.
        """
        ...


@contextmanager
def held(backend: LedgerBackend, release_id: str, wait: float) -> Iterator[None]:
    """Hold the lock of a release; wait at most `wait` seconds while another run holds it.

    Raises:
        RunInProgress: the other run goes on.
    """
    until = time.monotonic() + wait
    with ExitStack() as lock:
        while True:
            try:
                lock.enter_context(backend.hold(release_id))
                break
            except RunInProgress:
                if (left := until - time.monotonic()) <= 0:
                    raise
                time.sleep(min(left, WAIT_STEP))
        yield
