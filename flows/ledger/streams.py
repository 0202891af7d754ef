"""Nights of a stream in the ledger: which night may be reserved, and how.

One reservation pays for all nights of a stream. It is made together with that of the first night,
and from that night's draw on it is spent. Nights are drawn in order, each once: the draw of a night
gives no room for another one.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta

from hushrank.flows.errors import NOTHING_SPENT, LedgerError, NightOutOfTurn
from hushrank.flows.ledger.account import Account, Attempt, ReleaseState, Reservation
from hushrank.flows.ledger.entries import Event, StreamSpan
from hushrank.flows.ledger.keys import InputNames
from hushrank.flows.ledger.ledger import Book, Ledger, reserving
from hushrank.flows.ledger.rules import repeated, require_no_lead, require_release_id
from hushrank.privacy.accounting import Spend

FREE = Spend()  # cost of a night, because the stream has paid for it
NEW_STREAM = "start a new stream (another schedule.stream.first), which costs its own budget"


@dataclass(frozen=True, slots=True, kw_only=True)
class NightToPay:
    """Night that a stream pays for.

    Attributes:
        stream_id: id of the stream's own reservation.
        span: nights of the stream.
        night: the date.
        spend: cost of the whole stream.
    """

    stream_id: str
    span: StreamSpan
    night: date
    spend: Spend


def begun(account: Account, wanted: NightToPay) -> Attempt | None:
    """Return the reservation of the stream; None if it is still to be made.

    Raises:
        LedgerError: the stream was begun at another cost, or `require_open` fails.
    """
    found = require_open(account, wanted)
    if found is not None:
        repeated(found, wanted.spend)
    return found


def require_open(account: Account, wanted: NightToPay) -> Attempt | None:
    """Return the reservation of the stream, whatever its cost, unless the stream was ended.

    Raises:
        LedgerError: the stream was ended, or the ledger was recovered and does not know which
            nights were drawn.
    """
    found = account.attempt(wanted.stream_id)
    if found is None or found.state is ReleaseState.CANCELLED:
        return None
    drawn = account.nights_drawn.get(wanted.stream_id, 0)
    closed = found.state is ReleaseState.ENDED and drawn < wanted.span.nights
    if found.stream != wanted.span or closed:
        raise LedgerError(
            f"Stream {wanted.stream_id} has ended before its last night: hushrank clean ended it,"
            " or the ledger was recovered and does not know which of its nights were drawn, so"
            " another could be drawn twice. Its cost stays recorded. To continue,"
            f" {NEW_STREAM}. {NOTHING_SPENT}"
        )
    return found


def next_night(account: Account, stream_id: str, span: StreamSpan) -> date | None:
    """Return the first night of a stream that was not drawn; None if the stream has ended."""
    drawn = account.nights_drawn.get(stream_id, 0)
    return None if drawn >= span.nights else span.first + timedelta(days=drawn)


def require_turn(account: Account, wanted: NightToPay) -> None:
    """Raise unless it is the night's turn.

    Raises:
        NightOutOfTurn: the night is none of the stream, was drawn, or others come first.
    """
    night, span = wanted.night, wanted.span
    upcoming = next_night(account, wanted.stream_id, span)
    if night < span.first:
        raise NightOutOfTurn(
            f"Night {night} is before the first of its stream, {span.first}"
            f" (schedule.stream.first). Rank a later night. {NOTHING_SPENT}"
        )
    if night > span.last:
        raise NightOutOfTurn(
            f"Night {night} is not of this stream, which ended on {span.last}, its night"
            f" {span.nights}. To continue, {NEW_STREAM}. {NOTHING_SPENT}"
        )
    if upcoming is None or night < upcoming:
        raise NightOutOfTurn(
            f"Night {night} of its stream was drawn before, and a night of a stream is drawn only"
            f" once. {NOTHING_SPENT}"
        )
    if night > upcoming:
        raise NightOutOfTurn(
            f"Night {night} cannot be drawn yet: the nights of a stream are drawn in order, and"
            f" {upcoming} comes first. hushrank catch-up draws all that are due; or hushrank"
            f" backfill --from {upcoming} --to {night}.{_changed(account, wanted)} {NOTHING_SPENT}"
        )


def _changed(account: Account, wanted: NightToPay) -> str:
    """Sentence for an operator who changed a running stream, for instance its items; else empty."""
    if account.state(wanted.stream_id) not in (ReleaseState.NONE, ReleaseState.CANCELLED):
        return ""
    running = [
        each.release_id
        for each in account.attempts
        if each.state is ReleaseState.RUNNING
        and each.stream is not None
        and each.stream.first == wanted.span.first
    ]
    if not running:
        return ""
    return (
        " This would be a new stream with its own cost: its items, groups, terms or method differ"
        f" from those of stream {running[-1]}, which began on the same day. To continue that one,"
        " set them back. An item that appears later must be in items from the first night."
    )


def reserve_night(
    ledger: Ledger,
    release_id: str,
    wanted: NightToPay,
    *,
    config_hash: str = "",
    inputs: InputNames | None = None,
) -> Reservation:
    """Reserve a night of a stream, and the stream itself with its first night.

    Args:
        ledger: the ledger in which to reserve.
        release_id: key of the night's release.
        wanted: the night and its stream.
        config_hash, inputs: as for `Ledger.reserve`.

    Returns:
        Of the first night the reservation of the stream's cost, of later ones of nothing.

    Raises:
        NightOutOfTurn: another night is next, or this one was drawn before.
        BudgetRefused, LedgerError: `Ledger.reserve` refuses.
    """
    require_release_id(release_id)

    def decide(book: Book) -> tuple[list[Event], Reservation]:
        account, terms = book.account, ledger.terms
        latest, stream = account.attempt(release_id), begun(account, wanted)
        cost = FREE if account.nights_drawn.get(wanted.stream_id) else wanted.spend
        if latest is not None and latest.state is ReleaseState.RESERVED and stream is not None:
            when = latest.reserved_at
            return [], Reservation(release_id, latest.number, cost, when, repeated=True)
        require_turn(account, wanted)
        ledger.require_room(book, wanted.spend if stream is None else None, inputs)
        events, span = ledger.terms_events(book), wanted.span
        if stream is None:
            name = wanted.stream_id
            paying = reserving(
                book, terms, name, wanted.spend, config_hash=config_hash, stream=span
            )
            events.append(paying)
        night = reserving(
            book,
            terms,
            release_id,
            FREE,
            config_hash=config_hash,
            night=wanted.night,
            inputs=inputs,
            of=wanted.stream_id,
        )
        made = Reservation(release_id, night.attempt, cost, book.now, repeated=False)
        return [*events, night], made

    return ledger.record(decide)


def check_night(ledger: Ledger, wanted: NightToPay, inputs: InputNames | None = None) -> None:
    """Raise the error that `reserve_night` of that night would raise, but record nothing."""
    book = ledger.book()
    require_no_lead(ledger.clock(), book.last, ledger.backend.place)
    stream = begun(book.account, wanted)
    require_turn(book.account, wanted)
    ledger.require_room(book, wanted.spend if stream is None else None, inputs)
