"""Approval of a ledger's terms: to whom they belong, and whether the owner signed each change.

Pure: lines of a ledger in, checked entries out.

An entry that opens a population or changes its terms may name a key (`terms_key`). From that line
on, the terms of the whole ledger belong to the holder of that key, the officer. Each later entry
that opens a population, changes terms or accepts a fault of the ledger has a field `approval`, a
signature of that key over the line without its `approval`, `signature` and `hash`. The line that
names the first key is signed by that key; one that names another key, by the holder before.

The signed text has the hash of the line above. So an approval is good for one place of one ledger:
an old raise cannot be entered again after it was taken back. A rewritten file that leaves out the
line that named the key is intact in itself; `ledger.terms_key` of a job, an anchor, and the
verifier with the officer's public key notice it.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from hushrank.flows.errors import NOTHING_SPENT, LedgerError
from hushrank.flows.ledger.entries import (
    RESTORE,
    Accept,
    Chain,
    ChangeTerms,
    Entry,
    Open,
    read_chain,
    without_hash,
)
from hushrank.flows.ledger.keys import APPROVAL, PublicKey, Signed, Signer

HOW_TO_CHANGE = "hushrank ledger terms"


@dataclass(frozen=True, slots=True)
class TermsChange:
    """One entry that set the terms of a population.

    Attributes:
        line: number of the line; time: its time, UTC; operator: who recorded it.
        what: the terms, with the reason of the change.
        approved_by: id of the key whose holder approved it; empty: the terms belonged to nobody.
    """

    line: int
    time: datetime
    operator: str
    what: Open | ChangeTerms
    approved_by: str


def read_approved(content: bytes, place: str) -> Chain:
    """Read the entries of a ledger, verify every line, and every approval of terms.

    Raises:
        LedgerError: `read_chain` refuses the content, or a line changes terms that belong to a key
            without a signature of that key; the text names the line.
    """
    chain = read_chain(content, place)
    if not any(_named_key(entry) for entry in chain.entries):
        return chain
    owner: PublicKey | None = None
    for entry, line in zip(chain.entries, content.splitlines(), strict=True):
        named, where = _named_key(entry), f"{place}: line {entry.seq}"
        judge = owner or (key_of(named, where) if named else None)
        if judge is not None and not _is_approved(line, entry, judge):
            raise LedgerError(
                f"{where} changes the terms of the budget, or repairs the ledger, without a"
                f" signature of key {judge.key_id}, to which the terms belong. {RESTORE}"
            )
        owner = key_of(named, where) if named else owner
    return chain


def key_of(text: str, where: str) -> PublicKey:
    """Read a public key as a line names it.

    Raises:
        LedgerError: the text is no key.
    """
    try:
        return PublicKey(Ed25519PublicKey.from_public_bytes(base64.b64decode(text, validate=True)))
    except (ValueError, binascii.Error):
        raise LedgerError(f"{where} names a key of the terms that is none. {RESTORE}") from None


def changes_of(chain: Chain, population: str, last: int | None = None) -> Iterator[TermsChange]:
    """Yield the entries that set the terms of a population, oldest first.

    Args:
        chain: entries whose approvals are verified.
        population: name of the population.
        last: number of the last line to look at; None: all lines.
    """
    owner = ""
    for entry in chain.entries[:last]:
        named = _named_key(entry)
        if isinstance(entry.what, Open | ChangeTerms) and entry.population == population:
            judge = owner or named
            by = key_of(judge, f"line {entry.seq}").key_id if judge else ""
            yield TermsChange(entry.seq, entry.time, entry.operator, entry.what, by)
        owner = named or owner


def require_officer(
    chain: Chain, configured: PublicKey | None, officer: Signer | None, place: str
) -> None:
    """Raise LedgerError unless this process may set terms or repair the ledger.

    Args:
        chain: the entries that are recorded now.
        configured: key that the job names (`ledger.terms_key`); None: it names none.
        officer: private key that is at hand; None: none is.
        place: place of the ledger, for messages.
    """
    require_same_owner(chain, configured, officer, place)
    owner = key_of(chain.terms_key, place) if chain.terms_key else configured
    if owner is None:
        return
    if officer is None:
        raise LedgerError(
            f"{place}: its terms belong to key {owner.key_id}. Only the holder of that key opens"
            f" the budget, changes it or repairs the ledger: {HOW_TO_CHANGE}, or hushrank ledger"
            f" recover, with --terms-key. {NOTHING_SPENT}"
        )
    if officer.key_id != owner.key_id:
        raise LedgerError(
            f"{place}: its terms belong to key {owner.key_id}, and --terms-key is key"
            f" {officer.key_id}. Name the file of that key. {NOTHING_SPENT}"
        )


def require_same_owner(
    chain: Chain, configured: PublicKey | None, officer: Signer | None, place: str
) -> None:
    """Raise LedgerError if a job names another key of the terms than the ledger has.

    With an officer at hand it is allowed: the holder of the present key hands the terms over.
    """
    if configured is None or officer is not None:
        return
    if not chain.terms_key:
        raise LedgerError(
            f"{place}: nobody has approved its terms, and ledger.terms_key is key"
            f" {configured.key_id}. The holder of that key opens the budget: {HOW_TO_CHANGE} with"
            f" --terms-key. If it was open before, lines are missing. {NOTHING_SPENT}"
        )
    owner = key_of(chain.terms_key, place)
    if owner.key_id != configured.key_id:
        raise LedgerError(
            f"{place}: its terms belong to key {owner.key_id}, but ledger.terms_key is key"
            f" {configured.key_id}. Put the right key or the right ledger back, or let the holder"
            f" of key {owner.key_id} hand the terms over: {HOW_TO_CHANGE}. {NOTHING_SPENT}"
        )


def _named_key(entry: Entry) -> str:
    return entry.what.terms_key if isinstance(entry.what, Open | ChangeTerms) else ""


def _is_approved(line: bytes, entry: Entry, judge: PublicKey) -> bool:
    """Whether a line needs no approval, or has one of that key."""
    if not isinstance(entry.what, Open | ChangeTerms | Accept):
        return True
    body = without_hash(line)
    sealed = Signed.of(body)
    approved = Signed.of(body if sealed is None else sealed.body, APPROVAL)
    return approved is not None and approved.holds(judge)
