"""The privacy-budget ledger: what was spent on a population, and whether one more release fits.

A run of one release makes these calls:
    with ledger.run_lock(release_id):
        ledger.reserve(release_id, spend)   # before any row is read
        ...                                 # read, aggregate, draw; store in the confidential area
        ledger.mark_drawn(release_id, result)  # from here on the budget is spent
        ...                                 # publish
        ledger.commit(release_id)
`cancel` gives the budget back as long as no noise was drawn. If a look at the rows says that they
do not fit, `mark_stopped` takes the place of `mark_drawn` and ends it. Each step is on stable
storage when it returns, so a run may die between any two steps: every draw is counted, and nothing
is drawn twice.

Time. No entry gets a date before the entry above it, so a clock that is set back cannot re-open a
past period. With a clock that is set forward, a run can spend a period before it begins, but only
once: nothing is left when that period comes. The ledger also notices a wrong clock. If the budget
renews, `reserve` refuses while this machine's clock is far behind the ledger. If the clock is more
than a year ahead of the last entry, the ledger writes nothing until an operator says that the clock
is right. `rules` has these rules and others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from typing import TypeVar

from hushrank.flows.errors import HushrankError, LedgerError
from hushrank.flows.ledger.account import (
    Account,
    Attempt,
    Costs,
    ReleaseState,
    Reservation,
    account_of,
    new_alerts,
    reached,
)
from hushrank.flows.ledger.approval import (
    changes_of,
    read_approved,
    require_officer,
    require_same_owner,
)
from hushrank.flows.ledger.entries import (
    ALWAYS,
    Alert,
    Balance,
    BudgetTerms,
    Cancel,
    Chain,
    ChangeTerms,
    Commit,
    Draw,
    Event,
    Lifetime,
    Open,
    Period,
    Reserve,
    Seal,
    Stop,
    StreamSpan,
    Unsafe,
    period_at,
    write_lines,
)
from hushrank.flows.ledger.keys import APPROVAL, InputNames, KeySigner, PublicKey, sealed
from hushrank.flows.ledger.local_file import LedgerBackend, LedgerFile, Snapshot, held
from hushrank.flows.ledger.operator import operator_name
from hushrank.flows.ledger.rules import (
    Sharing,
    attempt_for,
    entry_of_terms,
    given_back_with,
    own_terms,
    repeated,
    require_clock,
    require_fit,
    require_key,
    require_near_year,
    require_no_lead,
    require_own_people,
    require_own_terms,
    require_part,
    require_release_id,
    require_same_guarantee,
    require_seal,
    sharing_of,
    together_with,
)
from hushrank.flows.ledger.texts import (
    HistoryRow,
    change_texts,
    changed_meanwhile_text,
    drawn_before_text,
    history_of,
)
from hushrank.privacy.accounting import Spend
from hushrank.privacy.filters import adaptive_total, remaining_epsilon


@dataclass(frozen=True, slots=True)
class Book:
    """Entries of the ledger at one moment. `now` is never before its last entry."""

    snapshot: Snapshot
    chain: Chain
    account: Account
    now: datetime
    period: Period

    @property
    def last(self) -> datetime | None:
        """Time of the last entry; None if there is none."""
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
    """Build the entry of one more attempt at a release, a stream, or a night of one."""
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
    """Read the machine's clock."""
    return datetime.now(UTC)


MAX_TRIES = 200  # tries of one append; each fails only because another one succeeded

_Result = TypeVar("_Result")


class Ledger:
    """Budget of one population. Populations, processes and machines may share one place.

    Every method raises LedgerError if the ledger is damaged, unreachable, or counts by another
    unit or adjacency; nothing is recorded then.

    Args:
        place: a local path, or another backend.
        terms: the configured terms; totals and renewal may change later, and changes are recorded.
        clock: returns the present time, with a time zone.
        operator: the account to record; None: `operator_name`, when a line is written.
        places: paths and URLs of the job, whose accounts are recorded too.
        seal: signs each new line; None: they are not signed, which a signed ledger refuses.
        terms_key: key to which the ledger's terms must belong; None: any, or nobody's.
        officer: private key of the holder of the terms, who may set them; None: not at hand.

    Attributes:
        accepted: whether a step was accepted: the ledger may hold it, whatever error follows.
    """

    def __init__(
        self,
        place: Path | LedgerBackend,
        terms: BudgetTerms,
        *,
        clock: Callable[[], datetime] = utc_now,
        operator: str | None = None,
        places: Sequence[str] = (),
        seal: Seal | None = None,
        terms_key: PublicKey | None = None,
        officer: KeySigner | None = None,
    ) -> None:
        self.backend = LedgerFile(place) if isinstance(place, Path) else place
        self.terms = terms
        self.accepted = False
        self._seal = seal
        self._terms_key = terms_key
        self._officer = officer
        self._known: Snapshot | None = None  # the content read or written last, if it is intact
        self._parsed: tuple[str, Chain, Account] | None = None  # parsed content of one token
        self._clock = clock
        self._operator = operator
        self._places = places

    def run_lock(self, release_id: str, wait: float = 0.0) -> AbstractContextManager[None]:
        """Hold this lock for the whole run of a release; it ends with the block or the process.

        Args:
            release_id: id of the release.
            wait: most seconds to wait for another run of the release to end.

        Raises:
            RunInProgress: another run of the release is in progress, and goes on.
        """
        require_release_id(release_id)
        return held(self.backend, release_id, wait)

    def reserve(
        self,
        release_id: str,
        spend: Spend,
        *,
        config_hash: str = "",
        night: date | None = None,
        noise_lost: bool = False,
        inputs: InputNames | None = None,
    ) -> Reservation:
        """Set budget aside. A repeated call returns the existing reservation and costs nothing.

        Args:
            release_id: key of the release; letters, digits, '.', '_', '-'.
            spend: cost of the release.
            config_hash: recorded for the audit, and to find the nights of a configuration.
            night: the day whose answers are ranked; None: the release is not for one night.
            noise_lost: pay in full for a further attempt at a release whose noise was drawn before,
                because its result is lost. Without this argument such a release is refused.
            inputs: names of the files that it reads, under the ledger's key.

        Raises:
            BudgetRefused: the total would exceed the terms.
            LedgerError: noise was drawn already, a look stopped the release, the clock is behind
                the ledger or years ahead of it, the key is another one, or one of `inputs` was read
                by a population whose people may be the same.
        """
        require_release_id(release_id)

        def decide(book: Book) -> tuple[list[Event], Reservation]:
            latest = book.account.attempt(release_id)
            if latest is not None and latest.state is ReleaseState.RESERVED:
                return [], repeated(latest, spend)
            if latest is not None and latest.state is ReleaseState.STOPPED:
                refused = Draw(release_id=release_id, attempt=0)
                attempt_for(refused, book.account)  # this explains why there is no attempt
            if latest is not None and latest.drawn_at is not None and not noise_lost:
                raise LedgerError(drawn_before_text(release_id, latest.drawn_at))
            self.require_room(book, spend, inputs)
            event = reserving(
                book,
                self.terms,
                release_id,
                spend,
                config_hash=config_hash,
                night=night,
                inputs=inputs,
            )
            reservation = Reservation(release_id, event.attempt, spend, book.now, repeated=False)
            return [*self.terms_events(book), event], reservation

        return self.record(decide)

    def check(self, spend: Spend | None, inputs: InputNames | None = None) -> None:
        """Raise the error that `reserve` of a new release would raise, but record nothing.

        Without `spend` the release costs nothing.
        """
        book = self.book()
        require_no_lead(self.clock(), book.last, self.backend.place)
        self.require_room(book, spend, inputs)

    def mark_drawn(self, release_id: str, result: str | None = None, people: str = "") -> None:
        """Record that noise was drawn; call it before anybody can see the noise.

        However many callers try it for one reservation, only one call returns.

        Args:
            release_id: the release.
            result: SHA-256 of the noisy result; None: the mechanism failed.
            people: for a night of a stream, the digest of the file of people who counted.

        Raises:
            LedgerError: the release is not reserved.
        """
        self._move(Draw(release_id=release_id, attempt=0, result=result, people=people))

    def mark_found(self, release_id: str, result: str) -> None:
        """Record that names of items were drawn, in a file of this digest: all is spent from now.

        Raises:
            LedgerError: the release is not reserved.
        """
        self._move(Draw(release_id=release_id, attempt=0, result=result, names=True))

    def mark_stopped(self, release_id: str, spend: Spend, result: str) -> None:
        """Record that only the pilot query was drawn, and that it stopped the run.

        Only `spend` of the reservation, the cost of the pilot query, is spent; the rest is given
        back.
        """
        self._move(Stop(release_id=release_id, attempt=0, spend=spend, result=result))

    def commit(self, release_id: str) -> None:
        """Record that the release is published; a repeated call changes nothing.

        Raises:
            LedgerError: no noise was drawn for it.
        """
        self._move(Commit(release_id=release_id, attempt=0), ReleaseState.COMMITTED)

    def cancel(self, release_id: str) -> None:
        """Give a reservation back; a repeated call changes nothing.

        This is safe while a run still goes on, because its `mark_drawn` will be refused. The first
        night of a stream and the stream itself are given back together.

        Raises:
            LedgerError: the release is not reserved, or its noise was drawn.
        """
        self._move(Cancel(release_id=release_id, attempt=0), ReleaseState.CANCELLED)

    def record_unsafe(self, release_id: str, why: str) -> None:
        """Record a release that no budget covers; it stays in `history` and is not counted."""
        require_release_id(release_id)
        unsafe = Unsafe(release_id=release_id, why=why)
        self.record(lambda book: ([*self.terms_events(book), unsafe], None))

    def attempt(self, release_id: str) -> Attempt | None:
        """Return the last attempt at a release; None if the ledger does not know it."""
        return self.book().account.attempt(release_id)

    def state(self, release_id: str) -> ReleaseState:
        """State of a release."""
        return self.book().account.state(release_id)

    def balance(self, inputs: InputNames | None = None, book: Book | None = None) -> Balance:
        """Compute the cost of the current period and the budget left.

        Args:
            inputs: names of the files that are about to be read, besides those read before.
            book: the entries to add up; None: those that are recorded now.
        """
        book = book or self.book()
        terms = self.terms_in(book)
        counted, all_counted = (book.account.counted(each) for each in (book.period, ALWAYS))
        now, ever = (book.account.costs(each) for each in (book.period, ALWAYS))
        total = adaptive_total(now.spends, terms.delta, now.first)
        shared = self._sharing(book, inputs, ALWAYS)
        together = together_with(book.account, ALWAYS, shared)
        left, lifetime = remaining_epsilon(now.spends, terms.epsilon, terms.delta, now.first), None
        if terms.refresh is not None:
            limit = terms.lifetime_epsilon
            spent = adaptive_total(ever.spends, terms.delta, ever.first).epsilon
            lifetime = Lifetime(spent, releases=len(all_counted), limit=limit)
            if limit is not None:
                left = min(left, remaining_epsilon(ever.spends, limit, terms.delta, ever.first))
        return Balance(
            population=terms.population,
            total=terms.epsilon,
            delta=terms.delta,
            spent_epsilon=total.epsilon,
            rule=total.rule,
            remaining_epsilon=left,
            releases=len(counted),
            undrawn=tuple(attempt.release_id for attempt in counted if attempt.drawn_at is None),
            unsafe=sum(isinstance(note.what, Unsafe) for note in book.account.notes),
            renews_on=None if book.period.end is None else book.period.end.date(),
            unpublished=book.account.unpublished(),
            alert=max(reached(terms, book.account, book.period), default=None),
            shared=tuple(each.told for each in shared),
            shared_epsilon=adaptive_total(together.spends, terms.delta, together.first).epsilon,
            begun=book.account.opened is not None,
            lifetime=lifetime,
            changes=change_texts(tuple(changes_of(book.chain, terms.population))),
        )

    def costs(self, *, ever: bool = False) -> Costs:
        """Costs that count in the current period, or in all periods (`ever`)."""
        book = self.book()
        return book.account.costs(ALWAYS if ever else book.period)

    def nights(self, config_hashes: Collection[str]) -> dict[date, Attempt]:
        """Attempt of this configuration that counts, for each night; see `Account.nights`."""
        return self.book().account.nights(config_hashes)

    def undrawn(self, config_hashes: Collection[str], night: date) -> tuple[str, ...]:
        """Releases of a night that hold budget but have not drawn noise."""
        return self.book().account.undrawn(config_hashes, night)

    def alert(self) -> tuple[float, ...]:
        """Record and return the fractions of the budget that are used and not yet reported.

        The entries last read decide: the process that causes an alert reports it itself.
        """

        def decide(book: Book) -> tuple[list[Event], tuple[float, ...]]:
            terms = self.terms_in(book)
            new = new_alerts(terms, book.account, book.period)
            return [Alert(fraction=each, epsilon=terms.epsilon) for each in new], new

        known = self.known()
        new = new_alerts(self.terms_in(known), known.account, known.period)
        return self.record(decide) if new else ()

    def history(self) -> tuple[HistoryRow, ...]:
        """List all records of the population, oldest first."""
        book = self.book()
        return history_of(book.account, book.period)

    def clock(self) -> datetime:
        """Read this machine's time, in UTC.

        Raises:
            LedgerError: the clock shows a year after 2261, so it is wrong.
        """
        now = self._clock().astimezone(UTC)
        require_near_year(now, self.backend.place)
        return now

    def book(self, *, whole: bool = True) -> Book:
        """Read all entries that are recorded now; `whole`: refuse if lines are known to be
        missing."""
        snapshot = self.backend.read()
        self._known = snapshot if snapshot.loss is None else None
        return self._book_of(snapshot, whole=whole)

    def known(self) -> Book:
        """Return the entries that this object read or wrote last; read the present ones at first.

        Others may have written since. So no payment relies on these entries alone: an append
        compares them with the recorded ones, and before a refusal they are read again (`record`).
        """
        known = self._known
        return self.book() if known is None else self._book_of(known, whole=True)

    def settled(self, decide: Callable[[], _Result]) -> _Result:
        """Return the decision on the last known entries; decide a refusal again on the present
        ones.

        After a step was accepted, its error is not decided again: the step may be recorded.
        """
        known = self.known().snapshot.token
        try:
            return decide()
        except HushrankError:
            if self.accepted or self.book().snapshot.token == known:
                raise
        return decide()

    def _book_of(self, snapshot: Snapshot, *, whole: bool) -> Book:
        place, parsed = self.backend.place, self._parsed
        same = parsed is not None and parsed[0] == snapshot.token
        chain = parsed[1] if parsed and same else read_approved(snapshot.content, place)
        if whole and snapshot.loss is not None:
            raise LedgerError(snapshot.loss)
        if parsed and same:
            account = parsed[2]
        else:
            account = account_of(chain.entries, self.terms.population, place)
            require_same_guarantee(account, self.terms, place)
            self._parsed = (snapshot.token, chain, account)
        now = self.clock().replace(microsecond=0)
        if chain.entries:
            now = max(now, chain.entries[-1].time)
        terms = own_terms(chain, account, self.terms)
        return Book(snapshot, chain, account, now, period_at(now, terms.refresh))

    def record(self, decide: Callable[[Book], tuple[Sequence[Event], _Result]]) -> _Result:
        """Append the events that `decide` returns; call it again if another process wrote first.

        `decide` first gets the entries that this object knows. If it refuses, or has nothing to
        record, it decides again on the present entries.
        """
        fresh = self._known is None
        book = self.known()
        for _ in range(MAX_TRIES):
            events: Sequence[Event] = ()
            try:
                events, result = decide(book)
                if events:
                    require_no_lead(self.clock(), book.last, self.backend.place)
            except HushrankError:
                if fresh:
                    raise
                events = ()
            if fresh or events:
                self.accepted = True
                if not events or self.append(book, events, book.now):
                    return result
            book, fresh = self.book(), True
        raise self.too_busy()

    def append(self, book: Book, events: Sequence[Event], time: datetime) -> bool:
        """Add `events` to the ledger if it still equals `book`; return whether they were added."""
        require_seal(book.chain, self._seal, self.backend.place)
        officer = self._officer
        lines = write_lines(
            book.chain,
            events,
            population=self.terms.population,
            operator=self._operator or operator_name(self._places),
            time=time,
            seal=self._seal,
            approve=None if officer is None else partial(sealed, signer=officer, field=APPROVAL),
        )
        self._known = None  # only a read shows whether a failed append was recorded
        self._known = self.backend.append(book.snapshot.token, lines)
        return self._known is not None

    def too_busy(self) -> LedgerError:
        """Build the error of a ledger in which other processes write all the time."""
        return LedgerError(
            f"{self.backend.place}: too many processes write at once. Run again later."
        )

    def _move(self, step: Draw | Stop | Commit | Cancel, done: ReleaseState | None = None) -> None:
        """Record `step` of the attempt that takes it; do nothing if the release is `done`."""

        def decide(book: Book) -> tuple[list[Event], None]:
            if book.account.state(step.release_id) is done:
                return [], None
            latest = attempt_for(step, book.account)
            if isinstance(step, Stop):
                require_part(step.spend, latest.spend)
            event = step.model_copy(update={"attempt": latest.number})
            if isinstance(step, Cancel):
                return [event, *given_back_with(book.account, latest)], None
            return [event], None

        self.record(decide)

    def _sharing(
        self, book: Book, inputs: InputNames | None, period: Period
    ) -> tuple[Sharing, ...]:
        names = () if inputs is None else (*inputs.names, *inputs.older)
        return sharing_of(book.chain.entries, self.terms, names, period, self.backend.place)

    def require_room(self, book: Book, spend: Spend | None, inputs: InputNames | None) -> None:
        """Raise if `spend` does not fit, or anything else is wrong; None: it is already paid
        for."""
        place = self.backend.place
        require_seal(book.chain, self._seal, place)
        self.require_terms(book)
        require_clock(self.clock(), book.now, self.terms, place)
        if inputs is not None:
            require_key(book.chain.key, inputs.key, place)
            require_own_people(self._sharing(book, inputs, book.period), self.terms, place)
        if spend is not None:
            require_fit(spend, book.account, book.period, self.terms, book.now.date())

    def terms_in(self, book: Book) -> BudgetTerms:
        """Terms that count: the ledger's if they belong to a key, else the configured ones."""
        return own_terms(book.chain, book.account, self.terms)

    def require_terms(self, book: Book) -> None:
        """Raise LedgerError if the configured terms, or their key, are not those of the ledger."""
        place = self.backend.place
        require_same_owner(book.chain, self._terms_key, self._officer, place)
        require_own_terms(book.chain, book.account, self.terms, place)

    def require_officer(self, book: Book) -> None:
        """Raise LedgerError if the terms belong to a key that is not at hand."""
        require_officer(book.chain, self._terms_key, self._officer, self.backend.place)

    def set_terms(self, reason: str, seen: Open | ChangeTerms | None) -> bool:
        """Record the configured terms, and whom they belong to; return whether they are new.

        Args:
            reason: reason of the change, in the officer's words.
            seen: the recorded terms that the officer saw.

        Raises:
            LedgerError: the terms belong to another key, or were changed since the officer saw
                them.
        """

        def decide(book: Book) -> tuple[list[Event], bool]:
            self.require_officer(book)  # another population may have handed the ledger over
            if book.account.terms != seen:
                raise LedgerError(changed_meanwhile_text(self.backend.place, self.terms.population))
            events = self.terms_events(book, reason)
            return events, bool(events)

        return self.record(decide)

    def terms_events(self, book: Book, reason: str = "") -> list[Event]:
        """List the events to record before the first release under these terms."""
        wanted = "" if self._terms_key is None else self._terms_key.text
        if self._officer is None:
            self.require_terms(book)
        named = wanted if wanted != book.chain.terms_key else ""
        return entry_of_terms(self.terms, book.account.terms, named, reason)
