"""The interface between the ledger and the storage of its lines.

A backend stores bytes and knows nothing of budgets. It only appends, and only if the content is
still exactly what the caller has read. This is compare-and-swap; a file with a lock can do it, and
so can an object with a generation number.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

MISSING = (
    "lines at the end of the ledger are missing, or may be missing",
    "Spends that only these lines recorded count as not spent",
)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a ledger held at one moment.

    Attributes:
        content: whole lines; the rest of an interrupted append is left out.
        token: identifies exactly this content; empty content has a token too.
        loss: how the backend knows that lines at the end are missing, or that somebody else wrote
            them, and what to do; None: neither is so.
        findings: the same for `ledger recover`: what is wrong, and what going on means; neither
            ends with a full stop.
    """

    content: bytes
    token: str
    loss: str | None = None
    findings: tuple[tuple[str, str], ...] = (MISSING,)


class LedgerBackend(Protocol):
    """Keeps the lines of one ledger. Every method raises LedgerError if it fails."""

    @property
    def place(self) -> str:
        """Where the ledger is, for messages."""
        ...

    def read(self) -> Snapshot:
        """The present content; an absent ledger is empty."""
        ...

    def append(self, token: str, lines: bytes) -> bool:
        """Add `lines` for good, if the content is still the one that `token` identifies.

        If the append fails, or the process dies during it, the content is either unchanged, or has
        all `lines`, or has the first few of them.

        Returns:
            True: `lines` are on stable storage. False: somebody else wrote first; nothing changed.
        """
        ...

    def tidy(self) -> None:
        """Delete files that a dead append left beside the ledger."""
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
