"""Entries for releases that a ledger has lost. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain

from hushrank.flows.ledger.account import Account, Attempt, ReleaseState
from hushrank.flows.ledger.entries import Commit, Draw, Event, Reserve
from hushrank.flows.ledger.period import Period
from hushrank.privacy.accounting import Spend


@dataclass(frozen=True, slots=True)
class LostRelease:
    """An attempt at a release that a ledger should hold but does not.

    Attributes:
        reserved_at: when its budget was reserved, or when the release was made.
        published: whether an archive keeps the release.
        stream: whether it is a stream of nights, of which this is one night or more.
    """

    release_id: str
    spend: Spend
    reserved_at: datetime
    published: bool
    stream: bool = False


def lost_once(found: Iterable[Sequence[LostRelease]]) -> tuple[LostRelease, ...]:
    """Lost attempts of several findings, each attempt once, the earliest first.

    If the attempts at a release are known, the one that an archive keeps is the last of them.
    """
    each_once: Counter[LostRelease] = Counter()
    for lost in found:
        each_once |= Counter(lost)
    ordered = sorted(each_once.elements(), key=lambda each: each.reserved_at)
    attempts = [each for each in ordered if not each.published]
    last = {each.release_id: place for place, each in enumerate(attempts)}
    for kept in (each for each in ordered if each.published):
        if kept.release_id not in last:
            attempts.append(kept)
            continue
        place = last[kept.release_id]
        made = max(kept.reserved_at, attempts[place].reserved_at)  # this may be in a later period
        attempts[place] = replace(attempts[place], reserved_at=made, published=True)
    return tuple(attempts)


def split_lost(
    lost: Sequence[LostRelease], account: Account, period: Period
) -> tuple[list[Event], tuple[str, ...]]:
    """Entries for attempts that count in `period`, and the ids of those that no longer count."""
    current = [each for each in lost if _is_of(each, period)]
    entered: dict[str, list[LostRelease]] = {each.release_id: [] for each in current}
    for each in current:
        entered[each.release_id].append(each)
    past = (each.release_id for each in lost if each.release_id not in entered)
    events = (_entered(attempts, account) for attempts in entered.values())
    return list(chain.from_iterable(events)), tuple(dict.fromkeys(past))


def _is_of(each: LostRelease, period: Period) -> bool:
    return period.start is None or each.reserved_at >= period.start


def _entered(attempts: Sequence[LostRelease], account: Account) -> Iterator[Event]:
    """Enter attempts at one release as drawn now, because nobody can prove that they were not."""
    latest = account.attempt(attempts[0].release_id)
    if attempts[0].stream:
        yield from _ended(attempts[0], latest)
        return
    number = 0 if latest is None else latest.number
    reserved = latest is not None and latest.state is ReleaseState.RESERVED
    for each in attempts:
        if not reserved:
            number += 1
            yield Reserve(
                release_id=each.release_id, attempt=number, spend=each.spend, config_hash=""
            )
        yield Draw(release_id=each.release_id, attempt=number)
        reserved = False
    if attempts[-1].published:
        yield Commit(release_id=attempts[-1].release_id, attempt=number)


def _ended(lost: LostRelease, latest: Attempt | None) -> Iterator[Event]:
    """Enter a stream as spent, and end it: nobody can prove which of its nights were drawn."""
    if latest is None or latest.state is ReleaseState.CANCELLED:
        number = 1 if latest is None else latest.number + 1
        yield Reserve(release_id=lost.release_id, attempt=number, spend=lost.spend, config_hash="")
        yield Draw(release_id=lost.release_id, attempt=number)
        yield Commit(release_id=lost.release_id, attempt=number)
    elif latest.state in (ReleaseState.RESERVED, ReleaseState.RUNNING):
        yield Draw(release_id=lost.release_id, attempt=latest.number)
