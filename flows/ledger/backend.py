"""The seam between the ledger and where its lines are kept.

A backend knows bytes, not budgets. It can only append, and only to the exact content that the
caller has seen: compare-and-swap, which a file with a lock and an object with a generation number
can give.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a ledger held at one moment.

    Attributes:
        content: whole lines; an append that was interrupted had no effect and is not in it.
        token: stands for exactly this content; empty content has a token too.
        loss: None, or how the backend knows that lines at the end are missing, and what to do.
    """

    content: bytes
    token: str
    loss: str | None = None


class LedgerBackend(Protocol):
    """Keeps the lines of one ledger; every method raises LedgerError where it cannot."""

    @property
    def place(self) -> str:
        """Where the ledger is, for messages."""
        ...

    def read(self) -> Snapshot:
        """What is there now; an absent ledger is empty."""
        ...

    def append(self, token: str, lines: bytes) -> bool:
        """Add `lines` for good, if the content is still the one that `token` stands for.

        A failure, or a death in the middle, leaves the content as it was, or with all `lines`, or
        with the first few of them.

        Returns:
            True: `lines` are on stable storage. False: somebody else wrote since; nothing changed.
        """
        ...

    def tidy(self) -> None:
        """Delete what an append that died has left beside the ledger."""
        ...

    def accept_loss(self) -> None:
        """Take what is there now for all that was ever appended: `Snapshot.loss` is None then."""
        ...

    def hold(self, release_id: str) -> AbstractContextManager[None]:
        """Keep every other run of that release out, until the block ends or the process dies.

        Raises:
            LedgerError: another run holds it.
        """
        ...
