"""The interface between a ledger and the second places that know how far it was."""

from __future__ import annotations

from typing import Protocol

from hushrank.flows.errors import LedgerError
from hushrank.flows.ledger.signing import Anchored, Head


class Anchor(Protocol):
    """Keeps heads of one ledger, and forgets none. Every method raises LedgerError if it fails."""

    @property
    def place(self) -> str:
        """Where it is, for messages."""
        ...

    def latest(self) -> Anchored | None:
        """The head with the greatest `order`; None: it holds none."""
        ...

    def records(self) -> bytes:
        """What it holds, a head in each line, the latest last; earlier ones may be left out."""
        ...

    def put(self, head: Head, record: bytes) -> None:
        """Keep `record`, the record of `head`, for good; an older head than the latest is dropped.

        Raises:
            LedgerError: it holds another head of that order, or it cannot be written.
        """
        ...


BRING_BACK = "Bring it back, or correct ledger.anchor or its permissions"


def unreachable(place: str, what: str, why: str, remedy: str = BRING_BACK) -> LedgerError:
    """The error of an anchor that cannot be `what`: read or written."""
    return LedgerError(
        f"ledger.anchor: {place} cannot be {what} ({why}), and without it nobody can tell whether"
        f" the ledger is the newest. {remedy}; then run again."
    )


def damaged(place: str) -> LedgerError:
    """The error of an anchor that holds something else."""
    return LedgerError(
        f"ledger.anchor: {place} is damaged, or is no anchor of a ledger: its last record is not"
        " the head of a ledger. Put its newest copy back; if there is none, name another, empty"
        " place and run hushrank ledger recover."
    )


def conflict(place: str, head: Head) -> LedgerError:
    """The error of an anchor that knows another line under the same number."""
    return LedgerError(
        f"ledger.anchor: {place} knows another line {head.position} than this ledger has. Two"
        " ledgers share the anchor, or two copies of one ledger are in use. Give each ledger its"
        " own anchor, and use one copy."
    )
