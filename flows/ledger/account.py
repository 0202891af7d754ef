"""Sum of a ledger's entries for one population. Pure: entries in, account out.

State of a release: none -> reserved -> drawn -> committed; reserved -> found -> drawn, where names
of items are drawn before the ranking of them; reserved -> cancelled; reserved -> stopped, where a
noisy look at the rows was drawn and nothing else: of the reservation the look's cost is spent, and
the rest is given back. A release whose noise was drawn and then lost can be reserved again, as a
further attempt that costs again: nobody can prove that the first noise was not seen.

A stream of nights: none -> reserved -> running, with the draw of its first night -> ended, with
that of its last. Each night is a release besides, in the states above; it costs nothing. Nights are
reserved and drawn in order, each once: a draw that was lost is not paid for again. A draw of the
stream's own id ends it early; a recovery does this where nobody knows which nights were drawn.

What counts: an attempt counts until it is cancelled, in each period from the one in which it was
reserved to the one in which its noise was drawn. So an attempt that is reserved in November and
drawn in December counts in both: November had set the budget aside, and in December people were
exposed. A stream counts until the period in which its last night is drawn, and its nights do not
count beside it. An attempt whose noise was never drawn counts in every period until it is
cancelled. In whatever order steps come, the draws of a period never exceed its total. If an
operator corrected a wrong date (`Accept`), attempts with a later date count in the period of that
correction.

Alerts warn people that a budget runs out. A fraction below 1 is reached when the composed epsilon
of the period's attempts is that share of the total. 1 is reached when one more release like the
last one does not fit, in the period or in all periods together, but not while the last one is a
stream, whose nights to come are paid for. An alert is an entry of the ledger, so people get each
alert once a period, whichever run or machine notices it first. A raised total starts the alerts
again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from enum import StrEnum
from typing import NamedTuple

from hushrank.flows.errors import LedgerError
from hushrank.flows.ledger.entries import (
    ALWAYS,
    RESTORE,
    Accept,
    Access,
    Alert,
    BudgetTerms,
    Cancel,
    ChangeTerms,
    Commit,
    Draw,
    Entry,
    Open,
    Period,
    Reserve,
    Stop,
    StreamSpan,
    Unsafe,
)
from hushrank.privacy.accounting import Spend
from hushrank.privacy.filters import adaptive_total, fits


class ReleaseState(StrEnum):
    """State of a release."""

    NONE = "none"  # the ledger does not know it
    RESERVED = "reserved"  # budget is set aside; no noise was drawn
    FOUND = "found"  # names of items were drawn: spent, and the ranking of them may follow
    DRAWN = "drawn"  # noise was, or may have been, drawn: spent, whatever happens next
    COMMITTED = "committed"  # published
    STOPPED = "stopped"  # the pilot query was drawn and stopped the run: only its cost is spent
    CANCELLED = "cancelled"  # the reservation was given back
    RUNNING = "running"  # a stream with at least one night drawn: spent, and more nights may follow
    ENDED = "ended"  # a stream of which no further night may be drawn


UNKNOWN = frozenset({ReleaseState.NONE, ReleaseState.CANCELLED})
OF_STREAM = frozenset({ReleaseState.RUNNING, ReleaseState.ENDED})
OVER = {ReleaseState.DRAWN, ReleaseState.COMMITTED, ReleaseState.STOPPED}
PAID = frozenset(OVER) | {ReleaseState.FOUND} | OF_STREAM

MAY_FOLLOW = {
    Reserve: frozenset(ReleaseState) - {ReleaseState.RESERVED} - OF_STREAM,
    Draw: frozenset({ReleaseState.RESERVED, ReleaseState.FOUND, ReleaseState.RUNNING}),
    Stop: frozenset({ReleaseState.RESERVED}),
    Commit: frozenset({ReleaseState.DRAWN}),
    Cancel: frozenset({ReleaseState.RESERVED}),
}


@dataclass(frozen=True, slots=True)
class Attempt:
    """One reservation of a release, and its outcome.

    Attributes:
        seq: number of the line that reserved it.
        number: 1 for the first attempt at this release.
        spend: cost of the release; if a pilot query stopped it, the cost of that query.
        reserved: amount that was set aside for it, whatever it cost in the end.
        config_hash: hash of the configuration that asked for it.
        night: the day whose answers are ranked; None: the release is not for one night.
        drawn_at: time of the draw, of a look too; None: nothing was drawn.
        result: SHA-256 of the file with the noisy result, or with the names where these alone were
            drawn; None: no draw, or not recorded.
        inputs: keyed names of the files that it reads.
        others: populations that the operator states to consist of other people.
        stream: the nights that it pays for; None: it is no reservation of a stream.
        of: id of the stream that pays for it; empty: it pays for itself.
        people: for a drawn night of a stream, the digest of the file of people who counted.
        seen_until: time when it was given back, if noise had been drawn meanwhile; None: it was
            not, or nothing was drawn while it held budget, and it leaves no trace.
    """

    seq: int
    release_id: str
    number: int
    spend: Spend
    reserved: Spend
    operator: str
    reserved_at: datetime
    drawn_at: datetime | None = None
    state: ReleaseState = ReleaseState.RESERVED
    config_hash: str = ""
    night: date | None = None
    result: str | None = None
    inputs: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    stream: StreamSpan | None = None
    of: str = ""
    people: str = ""
    seen_until: datetime | None = None

    def counts_in(self, period: Period) -> bool:
        """Whether this attempt uses budget of `period`."""
        if self.state is ReleaseState.CANCELLED or self.of:
            return False
        if period.end is not None and self.reserved_at >= period.end:
            return False
        if self.state is ReleaseState.RUNNING:
            return True
        return period.start is None or self.drawn_at is None or self.drawn_at >= period.start

    def selects_in(self, period: Period) -> bool:
        """Whether this attempt, if it is the first, selects the rules of totals in `period`.

        An attempt that was given back does too, if noise had been drawn meanwhile: otherwise people
        could give it back in view of a result, and so choose the rules.
        """
        if self.seen_until is None:
            return self.counts_in(period) and self.reserved != Spend()
        begun = period.end is None or self.reserved_at < period.end
        return begun and (period.start is None or self.seen_until >= period.start)


@dataclass(frozen=True, slots=True)
class Reservation:
    """Budget set aside for one attempt at a release.

    Attributes:
        attempt: 1 for the first.
        reserved_at: UTC.
        repeated: the reservation existed before, so this call spent nothing.
    """

    release_id: str
    attempt: int
    spend: Spend
    reserved_at: datetime
    repeated: bool


class Costs(NamedTuple):
    """Costs that count in a period, for the functions of `privacy.filters`.

    Attributes:
        spends: oldest first.
        first: amount that was set aside first; None: nothing was.
    """

    spends: tuple[Spend, ...]
    first: Spend | None


@dataclass(frozen=True, slots=True)
class Note:
    """An entry that changes no release: terms, an alert, a recovery, an access, an unsafe one."""

    seq: int
    time: datetime
    operator: str
    what: Open | ChangeTerms | Unsafe | Alert | Accept | Access


@dataclass(slots=True)
class Account:
    """State of one population, as its ledger records it.

    Attributes:
        opened: the first entry of the population; None while it has no entry.
        terms: the entry that last set total and renewal.
        attempts: every reservation, in order.
        notes: the other entries, in order.
        latest: release id -> index in `attempts` of the last attempt at that release.
        accepted: releases that the ledger may lack, because an operator accepted this.
        nights_drawn: stream -> how many of its nights were drawn.
        last_draw: number of the last line that drew noise, of any population of the ledger.
    """

    opened: Open | None = None
    terms: Open | ChangeTerms | None = None
    attempts: list[Attempt] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    latest: dict[str, int] = field(default_factory=dict)
    accepted: set[str] = field(default_factory=set)
    nights_drawn: dict[str, int] = field(default_factory=dict)
    last_draw: int = 0

    def attempt(self, release_id: str) -> Attempt | None:
        """Return the last attempt at a release; None if there is none."""
        index = self.latest.get(release_id)
        return None if index is None else self.attempts[index]

    def state(self, release_id: str) -> ReleaseState:
        """State of a release."""
        attempt = self.attempt(release_id)
        return ReleaseState.NONE if attempt is None else attempt.state

    def nights(self, config_hashes: Collection[str]) -> dict[date, Attempt]:
        """Last published attempt of this configuration, for each night.

        If none was published, it is the last attempt whose noise was drawn; if none was drawn, the
        last reservation. So a paid release stands even if a later run that ranks the night again
        fails.
        """
        by_night = [
            (each.night, each) for each in self._of(config_hashes) if each.night is not None
        ]
        standing: dict[date, Attempt] = {}
        for state in (ReleaseState.RESERVED, ReleaseState.DRAWN, ReleaseState.COMMITTED):
            standing |= {night: each for night, each in by_night if each.state is state}
        return standing

    def undrawn(self, config_hashes: Collection[str], night: date) -> tuple[str, ...]:
        """Releases of a night that hold budget but have not drawn noise."""
        return tuple(
            attempt.release_id
            for attempt in self._of(config_hashes)
            if attempt.night == night and attempt.state is ReleaseState.RESERVED
        )

    def nights_of(self, stream_id: str) -> dict[date, Attempt]:
        """Last attempt at each night of a stream that is reserved or drawn."""
        mine = (each for each in self.attempts if each.of == stream_id and each.night is not None)
        last = {each.night: each for each in mine if each.night is not None}
        return {
            night: each for night, each in last.items() if each.state is not ReleaseState.CANCELLED
        }

    def unpublished(self) -> tuple[str, ...]:
        """Releases whose noise was drawn but whose publication is not recorded."""
        drawn = (attempt for attempt in self.attempts if attempt.state is ReleaseState.DRAWN)
        return tuple(
            attempt.release_id for attempt in drawn if self.attempt(attempt.release_id) is attempt
        )

    def draws(self, release_id: str) -> int:
        """Number of draws of a release's noise; each draw cost its full budget."""
        return sum(each.release_id == release_id and bool(each.drawn_at) for each in self.attempts)

    def unsafe(self) -> set[str]:
        """Ids of releases that no budget covers."""
        return {note.what.release_id for note in self.notes if isinstance(note.what, Unsafe)}

    def counted(self, period: Period) -> list[Attempt]:
        """Attempts that use budget of `period`."""
        return [attempt for attempt in self.attempts if attempt.counts_in(period)]

    def first(self, period: Period) -> Attempt | None:
        """Attempt that selects the rules of totals in `period`; None: nothing costs there."""
        return next((each for each in self.attempts if each.selects_in(period)), None)

    def costs(self, period: Period) -> Costs:
        """Costs that count in `period`."""
        first = self.first(period)
        spends = tuple(attempt.spend for attempt in self.counted(period))
        return Costs(spends, None if first is None else first.reserved)

    def _of(self, config_hashes: Collection[str]) -> Iterator[Attempt]:
        for attempt in self.attempts:
            if attempt.config_hash in config_hashes and attempt.state is not ReleaseState.CANCELLED:
                yield attempt


def account_of(entries: Iterable[Entry], population: str, place: str) -> Account:
    """Add up the entries of `population`.

    Raises:
        LedgerError: an entry cannot follow the ones before it; the text names `place` and the line.
    """
    account = Account()
    for entry in entries:
        if isinstance(entry.what, Accept) and entry.what.clock:
            account.attempts = [_dated_by(each, entry.time) for each in account.attempts]
        if entry.population == population and not _add(account, entry):
            raise LedgerError(
                f"{place}: line {entry.seq} cannot follow the lines above it"
                f" ({entry.what.event}). {RESTORE}"
            )
        if isinstance(entry.what, Draw | Stop):
            account.last_draw = entry.seq
    return account


def _add(account: Account, entry: Entry) -> bool:
    """Add `entry` to the account; False if it cannot follow the entries before it."""
    what = entry.what
    if isinstance(what, Open | ChangeTerms | Unsafe | Alert | Accept | Access):
        begun = account.opened is not None
        if isinstance(what, Open) == begun and not isinstance(what, Access):
            return False
        if isinstance(what, Open):
            account.opened = what
        if isinstance(what, Open | ChangeTerms):
            account.terms = what
        if isinstance(what, Accept):
            account.accepted.update(what.releases)
        account.notes.append(Note(entry.seq, entry.time, entry.operator, what))
        return True
    before = account.attempt(what.release_id)
    if account.opened is None or account.state(what.release_id) not in MAY_FOLLOW[type(what)]:
        return False
    if not _is_next_night(account, what):
        return False
    if isinstance(what, Reserve):
        account.latest[what.release_id] = len(account.attempts)
        account.attempts.append(_reserved(entry, what))
        return what.attempt == (1 if before is None else before.number + 1)
    if before is None or what.attempt != before.number:
        return False
    if isinstance(what, Draw) and what.names and not may_find_names(before):
        return False
    moved = _moved(before, what, entry.time)
    if isinstance(what, Cancel) and account.last_draw > before.seq:
        moved = replace(moved, seen_until=entry.time)
    account.attempts[account.latest[what.release_id]] = moved
    if isinstance(what, Draw) and before.of:
        _draw_of_stream(account, before.of, entry.time)
    return True


def may_find_names(attempt: Attempt) -> bool:
    """Whether names of items may be drawn: before the noise of a release by itself, once."""
    alone = attempt.stream is None and not attempt.of
    return alone and attempt.state is ReleaseState.RESERVED


def _is_next_night(account: Account, what: Reserve | Draw | Stop | Commit | Cancel) -> bool:
    """Whether a night is reserved or drawn in its turn; True for other events."""
    before = account.attempt(what.release_id)
    if isinstance(what, Reserve):
        stream_id, night = what.of, what.night
        if what.of and what.spend != Spend():
            return False
    elif isinstance(what, Draw) and before is not None:
        stream_id, night = before.of, before.night
    else:
        return True
    return not stream_id or night_is_next(account, stream_id, night)


def night_is_next(account: Account, stream_id: str, night: date | None) -> bool:
    """Whether `night` is the first night of a stream that was not drawn."""
    stream = account.attempt(stream_id)
    if stream is None or stream.stream is None or night is None:
        return False
    drawn = account.nights_drawn.get(stream_id, 0)
    going_on = stream.state in (ReleaseState.RESERVED, ReleaseState.RUNNING)
    return going_on and (night - stream.stream.first).days == drawn


def _draw_of_stream(account: Account, stream_id: str, time: datetime) -> None:
    """Count one more drawn night of the stream."""
    place = account.latest[stream_id]
    stream = account.attempts[place]
    drawn = account.nights_drawn[stream_id] = account.nights_drawn.get(stream_id, 0) + 1
    whole = stream.stream is not None and drawn == stream.stream.nights
    state = ReleaseState.ENDED if whole else ReleaseState.RUNNING
    account.attempts[place] = replace(stream, state=state, drawn_at=time)


def _reserved(entry: Entry, what: Reserve) -> Attempt:
    return Attempt(
        seq=entry.seq,
        release_id=what.release_id,
        number=what.attempt,
        spend=what.spend,
        reserved=what.spend,
        operator=entry.operator,
        reserved_at=entry.time,
        config_hash=what.config_hash,
        night=what.night,
        inputs=what.inputs,
        others=what.others,
        stream=what.stream,
        of=what.of,
    )


def _dated_by(attempt: Attempt, time: datetime) -> Attempt:
    """Return the attempt with its dates corrected to `time`, if they are later.

    It then counts in the period of `time`, because its own date lies in the future.
    """
    drawn_at = None if attempt.drawn_at is None else min(attempt.drawn_at, time)
    seen_until = None if attempt.seen_until is None else min(attempt.seen_until, time)
    reserved_at = min(attempt.reserved_at, time)
    return replace(attempt, reserved_at=reserved_at, drawn_at=drawn_at, seen_until=seen_until)


def _moved(attempt: Attempt, what: Draw | Stop | Commit | Cancel, time: datetime) -> Attempt:
    if isinstance(what, Stop):
        stopped = replace(attempt, state=ReleaseState.STOPPED, spend=what.spend)
        return replace(stopped, drawn_at=time, result=what.result)
    if isinstance(what, Draw) and attempt.stream is not None:
        return replace(attempt, state=ReleaseState.ENDED, drawn_at=time)
    if isinstance(what, Draw):
        state = ReleaseState.FOUND if what.names else ReleaseState.DRAWN
        drawn = replace(attempt, state=state, drawn_at=time, result=what.result)
        return replace(drawn, people=what.people)
    if isinstance(what, Commit):
        return replace(attempt, state=ReleaseState.COMMITTED)
    return replace(attempt, state=ReleaseState.CANCELLED)


ROUNDING = 1e-9  # tolerance for float rounding, so that 0.3 of 3 reaches 0.9


def reached(terms: BudgetTerms, account: Account, period: Period) -> tuple[float, ...]:
    """Fractions of `terms.alerts` that the costs of `period` have reached, ascending."""
    counted = account.counted(period)
    if not (terms.alerts and counted):
        return ()
    spends, first = account.costs(period)
    spent = adaptive_total(spends, terms.delta, first).epsilon
    more, limit, ever = spends[-1], terms.lifetime_epsilon, account.costs(ALWAYS)
    fit = fits(spends, more, terms.epsilon, terms.delta, first) and (
        limit is None or fits(ever.spends, more, limit, terms.delta, ever.first)
    )
    used_up = counted[-1].state is not ReleaseState.RUNNING and not fit
    return tuple(
        fraction
        for fraction in sorted(set(terms.alerts))
        if spent >= fraction * terms.epsilon * (1 - ROUNDING) or (fraction == 1 and used_up)
    )


def new_alerts(terms: BudgetTerms, account: Account, period: Period) -> tuple[float, ...]:
    """Reached fractions that were not reported yet in this period at this total."""
    told = {
        note.what.fraction
        for note in account.notes
        if isinstance(note.what, Alert)
        and note.what.epsilon == terms.epsilon
        and (period.start is None or note.time >= period.start)
    }
    found = reached(terms, account, period)
    return tuple(fraction for fraction in found if fraction not in told)
