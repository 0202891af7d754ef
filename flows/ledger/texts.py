"""What people read when the ledger refuses a step. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from hushrank.flows.errors import NOTHING_SPENT
from hushrank.flows.ledger.account import ReleaseState
from hushrank.flows.ledger.budget import Protects
from hushrank.flows.ledger.budget_text import spend_text
from hushrank.flows.ledger.entries import Cancel, Commit, Draw, Stop
from hushrank.privacy.accounting import Spend


def wrong_state_text(
    release_id: str, step: type[Draw | Stop | Commit | Cancel], state: ReleaseState
) -> str:
    """Why `step` cannot follow `state`."""
    drawn = state in (ReleaseState.DRAWN, ReleaseState.COMMITTED)
    if state is ReleaseState.STOPPED:
        return (
            f"Release {release_id}: a look at its rows told it to stop, which is recorded and paid"
            " for. Nothing was drawn now."
        )
    if step in (Draw, Stop) and drawn:
        return (
            f"Release {release_id}: its noise was drawn already, and a second draw would cost the"
            " budget again. Nothing was drawn now."
        )
    if step in (Draw, Stop):
        return (
            f"Release {release_id} holds no reservation ({state}),"
            " so no noise may be drawn for it. Run again from the start."
        )
    if step is Cancel and drawn:
        return (
            f"Release {release_id} cannot be cancelled:"
            " its noise was drawn, so its budget is spent."
        )
    if step is Cancel:
        return f"Release {release_id} cannot be cancelled: it holds no reservation."
    return f"Release {release_id} cannot be committed: no noise was drawn for it ({state})."


def drawn_before_text(release_id: str, drawn_at: datetime) -> str:
    """Refusal to reserve a release again although its noise exists."""
    return (
        f"Release {release_id}: its noise was drawn on {drawn_at:%Y-%m-%d} and is paid for;"
        " publish the stored result. Nothing was spent now."
    )


def other_cost_text(release_id: str, reserved: Spend, needed: Spend) -> str:
    """Refusal to reserve a release again at another cost."""
    return (
        f"Release {release_id} is reserved at another cost ({spend_text(reserved)});"
        f" this run needs {spend_text(needed)}. Cancel that reservation first. {NOTHING_SPENT}"
    )


NOT_ANOTHER_NAME = "Another name is for other people: it begins a new budget."


def other_guarantee_text(where: str, name: str, known: str, asked: str) -> str:
    """Refusal of a release whose unit or adjacency is not the one of its population's budget.

    Args:
        where: ledger and population.
        name: `unit` or `adjacency`.
        known: its value in the ledger.
        asked: its value in the configuration.
    """
    return (
        f"{where} counts its budget by {name} {known}, but the configuration has"
        f" privacy.{name}: {asked}. Costs under the two cannot be added up. Set {name}: {known}."
        f" {NOT_ANOTHER_NAME} {NOTHING_SPENT}"
    )


HIDES = {
    Protects.ROWS: "everything, who compared what included",
    Protects.OUTCOMES: "who won (public_graph: true)",
    Protects.ANSWER: "one answer of a person, however many there are",
    Protects.PERSON: "all answers of a person (budget: per-user, or max_contributions)",
}


def other_protection_text(where: str, known: Protects, asked: Protects) -> str:
    """Refusal of a release that hides another part of a unit than its population's budget."""
    return (
        f"{where} counts its budget for releases that hide {HIDES[known]}; this one hides"
        f" {HIDES[asked]}. Costs of the two cannot be added up. Set section privacy as it was."
        f" {NOT_ANOTHER_NAME} {NOTHING_SPENT}"
    )


def clock_text(place: str, last: datetime, clock: datetime) -> str:
    """Refusal for a clock far behind the last entry."""
    return (
        f"{place}: the last entry is dated {minute_text(last)}, but this machine's clock says"
        f" {minute_text(clock)}. Set the clock right. If it is the entry's date that is wrong,"
        f" hushrank ledger recover sets it right. {NOTHING_SPENT}"
    )


def beyond_text(place: str, clock: datetime) -> str:
    """Refusal for a clock beyond the dates that can be stored."""
    return (
        f"{place}: this machine's clock says {minute_text(clock)}, which is beyond the dates that"
        f" hushrank can store. Set the clock right. {NOTHING_SPENT}"
    )


def ahead_text(place: str, last: datetime, clock: datetime) -> str:
    """Refusal for a clock that is so far ahead of the last entry that it is probably wrong."""
    return (
        f"{place}: this machine's clock says {minute_text(clock)}, more than a year after the last"
        f" entry ({minute_text(last)}). Entries dated by a wrong clock would keep budget from other"
        " machines for years. Set the clock right; if it is right, run hushrank ledger recover once"
        f" and then this again. {NOTHING_SPENT}"
    )


def other_key_text(place: str) -> str:
    """Refusal for a key that did not make the names in the entries."""
    return (
        f"{place}.key is not the key that this ledger was written with, so it cannot be told which"
        " inputs were read before. Put back the one that stood beside the ledger. If it is lost,"
        f" hushrank ledger recover goes on with this one, and says what that costs. {NOTHING_SPENT}"
    )


def unsealed_text(place: str, signature: str) -> str:
    """Refusal to add lines without a signature to a signed ledger."""
    return (
        f"{place} is signed (key {signature.split(':')[1]}), and this job names no key, so it"
        f" cannot add to it. Set ledger.signing_key to the file of that key. {NOTHING_SPENT}"
    )


def minute_text(time: datetime) -> str:
    """A moment in UTC, to the minute."""
    return f"{time:%Y-%m-%d %H:%M} UTC"


def undrawn_text(release_ids: Sequence[str]) -> str:
    """A hint to add to a refusal if reservations hold part of the budget; empty if none do."""
    if not release_ids:
        return ""
    return (
        f" Reserved, but never drawn: {', '.join(release_ids)};"
        " what no run uses any more can be cancelled."
    )
