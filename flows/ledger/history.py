"""The ledger as a table for people: a row for each attempt, unsafe release and change of terms."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from hushrank.flows.ledger.account import Account, Attempt, Note, ReleaseState
from hushrank.flows.ledger.budget import Period
from hushrank.flows.ledger.entries import Accept, Alert, Unsafe
from hushrank.flows.ledger.texts import spend_text
from hushrank.privacy.accounting import Spend

HISTORY_COLUMNS = ("time (UTC)", "release", "state", "cost", "counts now", "by", "note")


@dataclass(frozen=True, slots=True)
class HistoryRow:
    """Row for an attempt at a release, a change of terms, an alert, or an unsafe release.

    Attributes:
        time: time of the record; for an attempt, time of the reservation.
        release_id: empty for terms.
        spend: cost; None if nothing is charged.
        counts_now: whether it uses budget of the current period.
        operator: person or account that ran it.
        note: the terms, why a release is unsafe, or the night, the attempt and what to do.
    """

    time: datetime
    release_id: str
    state: str
    spend: Spend | None
    counts_now: bool
    operator: str
    note: str

    def cells(self) -> tuple[str, ...]:
        """Cells of the row as text, in the order of `HISTORY_COLUMNS`."""
        return (
            f"{self.time:%Y-%m-%d %H:%M:%S}",
            self.release_id,
            self.state,
            "" if self.spend is None else spend_text(self.spend),
            "yes" if self.counts_now else "no",
            self.operator,
            self.note,
        )


def history_of(account: Account, period: Period) -> tuple[HistoryRow, ...]:
    """List all rows of `account` in the order of the ledger, as of `period`."""
    rows = {attempt.seq: _attempt_row(attempt, period) for attempt in account.attempts}
    rows |= {note.seq: _note_row(note) for note in account.notes}
    return tuple(rows[seq] for seq in sorted(rows))


def _attempt_row(attempt: Attempt, period: Period) -> HistoryRow:
    return HistoryRow(
        time=attempt.reserved_at,
        release_id=attempt.release_id,
        state=attempt.state.value,
        spend=None if attempt.of else attempt.spend,
        counts_now=attempt.counts_in(period),
        operator=attempt.operator,
        note="; ".join(_remarks(attempt)),
    )


def _remarks(attempt: Attempt) -> Iterator[str]:
    if attempt.stream is not None:
        span = attempt.stream
        nights = "night" if span.nights == 1 else "nights"
        yield f"stream of {span.nights} {nights}, {span.first} to {span.last}"
    if attempt.night is not None:
        yield f"night {attempt.night}"
    if attempt.of:
        yield f"paid by {attempt.of}"
    if attempt.number > 1:
        yield f"attempt {attempt.number}"
    if attempt.state is ReleaseState.STOPPED:
        yield "stopped by the pilot query; the rest was given back"
    if attempt.state is ReleaseState.DRAWN:
        yield f"not published: hushrank resume {attempt.release_id}"


def _note_row(note: Note) -> HistoryRow:
    what = note.what
    if isinstance(what, Unsafe):
        release_id, state, text = what.release_id, "UNSAFE", what.why
    elif isinstance(what, Alert):
        release_id, state = "", "alert"
        text = f"{what.fraction:.0%} of epsilon {what.epsilon:g} used"
    elif isinstance(what, Accept):
        release_id, state, text = "", "recovery", what.why
    else:
        renewal = f", {what.refresh}" if what.refresh else ""
        release_id, state = "", "terms"
        limit = what.lifetime_epsilon
        for_good = "" if limit is None else f", epsilon {limit:g} over all periods"
        text = f"epsilon {what.epsilon:g}, delta {what.delta:g}{renewal}{for_good}"
    return HistoryRow(
        time=note.time,
        release_id=release_id,
        state=state,
        spend=None,
        counts_now=False,
        operator=note.operator,
        note=text,
    )
