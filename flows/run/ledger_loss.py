"""Entries for releases that a ledger has lost. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from hushrank.flows.ledger.account import Account, ReleaseState
from hushrank.flows.ledger.entries import Commit, Draw, Event, Reserve
from hushrank.flows.ledger.period import Period
from hushrank.privacy.accounting import Spend


@dataclass(frozen=True, slots=True)
class LostRelease:
    """A release that a ledger should know and does not.

    Attributes:
        reserved_at: when it was paid for, or was made.
        published: an archive keeps it.
    """

    release_id: str
    spend: Spend
    reserved_at: datetime
    published: bool


def split_lost(
    lost: Sequence[LostRelease], account: Account, period: Period
) -> tuple[list[Event], tuple[str, ...]]:
    """Entries for what counts in `period`, and the names of what counts no more."""
    current = [each for each in lost if _is_of(each, period)]
    past = tuple(each.release_id for each in lost if not _is_of(each, period))
    return [event for each in current for event in _entered(each, account)], past


def _is_of(each: LostRelease, period: Period) -> bool:
    return period.start is None or each.reserved_at >= period.start


def _entered(each: LostRelease, account: Account) -> Iterator[Event]:
    """A release as if it were drawn now: nobody can prove that it was not."""
    latest = account.attempt(each.release_id)
    number = 1 if latest is None else latest.number
    if latest is None or latest.state is not ReleaseState.RESERVED:
        number += latest is not None
        yield Reserve(release_id=each.release_id, attempt=number, spend=each.spend, config_hash="")
    yield Draw(release_id=each.release_id, attempt=number)
    if each.published:
        yield Commit(release_id=each.release_id, attempt=number)
