"""A ledger at one moment, what may be entered in it, and by whose clock and account."""

from __future__ import annotations

import getpass
import os
from dataclasses import dataclass
from datetime import UTC, date, datetime

from hushrank.flows.ledger.account import Account
from hushrank.flows.ledger.backend import Snapshot
from hushrank.flows.ledger.budget import BudgetTerms
from hushrank.flows.ledger.entries import Chain, Reserve, StreamSpan
from hushrank.flows.ledger.key import InputNames
from hushrank.flows.ledger.budget import Period
from hushrank.privacy.accounting import Spend


@dataclass(frozen=True, slots=True)
class Book:
    """The ledger at one moment. `now` is never before its last entry."""

    snapshot: Snapshot
    chain: Chain
    account: Account
    now: datetime
    period: Period

    @property
    def last(self) -> datetime | None:
        """When the last entry was made; None if there is none."""
        return self.chain.entries[-1].time if self.chain.entries else None


def reserving(
    book: Book,
    terms: BudgetTerms,
    release_id: str,
    spend: Spend,
    *,
    config_hash: str = "",
    night: date | None = None,
    inputs: InputNames | None = None,
    stream: StreamSpan | None = None,
    of: str = "",
) -> Reserve:
    """The entry of one more attempt at a release, at a stream or at a night of one."""
    latest = book.account.attempt(release_id)
    return Reserve(
        release_id=release_id,
        attempt=1 if latest is None else latest.number + 1,
        spend=spend,
        config_hash=config_hash,
        night=night,
        key="" if inputs is None else inputs.key,
        inputs=() if inputs is None else inputs.names,
        others=terms.other_people,
        stream=stream,
        of=of,
    )


def utc_now() -> datetime:
    """The machine's clock."""
    return datetime.now(UTC)


def operator_name() -> str:
    """The account that runs this process, for the audit trail."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run under a number without a name
        return f"uid {os.getuid()}"
