"""Recovery of a ledger that lost something: what is wrong, and what going on means.

Spends of the current period that the archive and the confidential area know are entered again,
and those of all periods if `ledger.lifetime_epsilon` limits them together.
Spends that they do not know are lost. Every action of a recovery is an entry of the ledger.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain

from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.ledger.account import Account, Attempt, ReleaseState
from hushrank.flows.ledger.budget import Period
from hushrank.flows.ledger.entries import Accept, Commit, Draw, Event, Reserve
from hushrank.flows.ledger.key import InputNames
from hushrank.flows.ledger.ledger import MAX_TRIES, Ledger
from hushrank.flows.ledger.rules import MAX_CLOCK_LAG, MAX_CLOCK_LEAD
from hushrank.flows.ledger.texts import minute_text
from hushrank.flows.trust.recovery.checkpoint import (
    Forgotten,
    forgotten,
    keep_checkpoint,
    remembered,
)
from hushrank.privacy.accounting import Spend


@dataclass(frozen=True, slots=True)
class LostRelease:
    """An attempt at a release that a ledger should hold but does not.

    Attributes:
        reserved_at: time when its budget was reserved, or when the release was made.
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


@dataclass(frozen=True, slots=True)
class Finding:
    """Fault of a ledger.

    Attributes:
        text: the fault; `effect`: what going on means. Neither ends with a full stop.
        lost: attempts that the ledger should have counted.
        checkpoint: hash of the checkpoint that shows it (`checkpoint`); empty: none does.
    """

    text: str
    effect: str
    lost: tuple[LostRelease, ...] = ()
    checkpoint: str = ""


def findings(config: SurveyConfig, ledger: Ledger, inputs: InputNames) -> list[Finding]:
    """Everything wrong with a ledger that an operator may accept.

    Args:
        config: configuration of a job that uses the ledger.
        ledger: the job's ledger.
        inputs: names of the job's input, under the present key.

    Raises:
        LedgerError: something is wrong that only another copy of the ledger can repair.
    """
    lost = forgotten(config, ledger, inputs.plain, whole=False)
    return [*_of_the_ledger(ledger, inputs.key), *map(_of, lost)]


def recover_ledger(
    config: SurveyConfig, ledger: Ledger, inputs: InputNames, found: Sequence[Finding]
) -> None:
    """Record `found` in the ledger, with all spends that are known, and go on with the ledger."""
    lost = lost_once(finding.lost for finding in found)
    why = "; ".join(finding.text for finding in found)
    _accept(ledger, why, inputs.key, lost)
    entered = tuple(finding.checkpoint for finding in found if finding.checkpoint)
    keep_checkpoint(config, ledger, inputs.plain, entered)


def _of_the_ledger(ledger: Ledger, key: str) -> Iterator[Finding]:
    """Findings in the ledger itself; `key` is the `LedgerKey.check` of the key beside it."""
    book, clock = ledger.book(whole=False), ledger.clock()
    if book.snapshot.loss is not None:
        yield from (Finding(text, effect) for text, effect in book.snapshot.findings)
    if book.chain.key not in ("", key):
        yield Finding(
            "the key beside the ledger is not the one that made the names in it",
            "The ledger recognises earlier inputs only after they are read again",
        )
    if book.last is None:
        return
    if book.last - clock > MAX_CLOCK_LAG:
        yield Finding(
            f"its last entry is dated {minute_text(book.last)}, and this machine's clock says"
            f" {minute_text(clock)}",
            "Entries with a later date than now will count in the current period",
        )
    if clock - book.last > MAX_CLOCK_LEAD:
        yield Finding(
            f"this machine's clock says {clock:%Y-%m-%d}, and the last entry is of"
            f" {book.last:%Y-%m-%d}",
            "The ledger will accept this clock as right",
        )


def _of(each: Forgotten) -> Finding:
    lost = tuple(
        LostRelease(one.release_id, one.spend, one.reserved_at, each.published, one.stream)
        for one in each.counted
    )
    known = (
        "Those that count in the current period, or all if ledger.lifetime_epsilon is set, will be"
        " entered as spent, at their stated cost"
        if lost
        else "Spends of that time that are not recorded here count as not spent"
    )
    return Finding(each.text, known, lost, each.checkpoint)


def _accept(ledger: Ledger, why: str, key: str, lost: Sequence[LostRelease]) -> None:
    if ledger.book(whole=False).snapshot.loss is not None:
        ledger.backend.accept_loss()
    for _ in range(MAX_TRIES):
        book, now = ledger.book(), ledger.clock().replace(microsecond=0)
        wrong = book.last is not None and book.last - now > MAX_CLOCK_LAG
        time = now if wrong else book.now
        counted, past = split_lost(lost, book.account, remembered(ledger.terms, time))
        accepted = Accept(why=why, key=key, clock=wrong, releases=past)
        if ledger.append(book, [*ledger.terms_events(book), accepted, *counted], time):
            return
    raise ledger.too_busy()
