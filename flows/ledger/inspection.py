"""Texts on a ledger's signatures and anchor, for `ledger show` and `ledger verify`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hushrank.flows.errors import LedgerError
from hushrank.flows.ledger.anchor import Anchor, forged_text
from hushrank.flows.ledger.approval import key_of
from hushrank.flows.ledger.entries import without_hash
from hushrank.flows.ledger.guards import Guards
from hushrank.flows.ledger.keys import Signed, Verifier
from hushrank.flows.ledger.ledger import Ledger


@dataclass(frozen=True, slots=True)
class Signatures:
    """Lines of a ledger that are signed with one key.

    Attributes:
        key_id: id of the key.
        signed: number of lines that are signed with it.
        vouched: number of lines that are not; a line that is signed stands somewhere below each of
            them, unless they are at the end, which a run refuses.
    """

    key_id: str
    signed: int
    vouched: int

    @property
    def text(self) -> str:
        """Text of the result, for people."""
        if not self.vouched:
            return f"Signed with key {self.key_id}: all {self.signed} lines."
        return (
            f"Signed with key {self.key_id}: {self.signed} lines. {self.vouched} others are not"
            " signed; an"
            " operator accepted them, and a signed line below vouches for them."
        )


def signatures_of(content: bytes, key: Verifier, place: str) -> Signatures:
    """Check every signature of `key` in a ledger.

    Raises:
        LedgerError: a signature is false; the text names the line.
    """
    lines = content.splitlines()
    signed = 0
    for number, line in enumerate(lines, start=1):
        found = Signed.of(without_hash(line))
        if found is None or found.key_id != key.key_id:
            continue
        if not found.holds(key):
            raise LedgerError(forged_text(place, number))
        signed += 1
    return Signatures(key.key_id, signed, len(lines) - signed)


def anchor_text(anchor: Anchor) -> str:
    """Text of how far an anchor has followed its ledger, for people.

    Raises:
        LedgerError: the anchor cannot be read.
    """
    found = anchor.latest()
    if found is None or found.head.time is None:
        return f"Anchor {anchor.place}: no line yet."
    head = found.head
    accepted = f", {head.epoch} times accepted by an operator" if head.epoch else ""
    return (
        f"Anchor {anchor.place}: line {head.position} of {head.time:%Y-%m-%d %H:%M} UTC{accepted}."
    )


def guard_texts(ledger: Ledger, guards: Guards) -> Iterator[str]:
    """Yield a sentence each on the signatures, the owner of the terms and the anchor, if there
    are any.

    Raises:
        LedgerError: a signature is false, or the ledger or its anchor cannot be read.
    """
    if guards.key is not None:
        content = ledger.backend.read().content
        yield signatures_of(content, guards.key, ledger.backend.place).text
    chain = ledger.book().chain
    if chain.terms_key:
        owner = key_of(chain.terms_key, ledger.backend.place).key_id
        yield f"Terms belong to key {owner}. Every change since the first key was named is signed."
    if guards.anchor is not None:
        yield anchor_text(guards.anchor)
