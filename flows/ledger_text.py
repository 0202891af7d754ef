"""What people read when the ledger refuses a step. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from hushrank.flows.budget import Protects
from hushrank.flows.budget_text import NOTHING_SPENT, spend_text
from hushrank.flows.ledger_account import ReleaseState
from hushrank.flows.ledger_entries import Cancel, Commit, Draw
from hushrank.privacy.accounting import Spend


def wrong_state_text(
    release_id: str, step: type[Draw | Commit | Cancel], state: ReleaseState
) -> str:
    """Why `step` cannot follow `state`."""
    drawn = state in (ReleaseState.DRAWN, ReleaseState.COMMITTED)
    if step is Draw and drawn:
        return (
            f"Release {release_id}: its noise was drawn already, and a second draw would cost the"
            " budget again. Nothing was drawn now."
        )
    if step is Draw:
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
    """A release that would be reserved again although its noise exists."""
    return (
        f"Release {release_id}: its noise was drawn on {drawn_at:%Y-%m-%d} and is paid for;"
        " publish the stored result. Nothing was spent now."
    )


def other_cost_text(release_id: str, reserved: Spend, needed: Spend) -> str:
    """A release that would be reserved again at another cost."""
    return (
        f"Release {release_id} is reserved at another cost ({spend_text(reserved)});"
        f" this run needs {spend_text(needed)}. Cancel that reservation first. {NOTHING_SPENT}"
    )


def other_guarantee_text(where: str, name: str, known: str, asked: str) -> str:
    """A release whose unit or adjacency is not the one that the population counts by.

    Args:
        where: ledger and population.
        name: `unit` or `adjacency`.
        known: its value in the ledger.
        asked: its value in the configuration.
    """
    return (
        f"{where} counts its budget by {name} {known}, but the configuration has"
        f" privacy.{name}: {asked}. Costs under the two cannot be added up. Set {name}: {known},"
        f" or give these releases another name. {NOTHING_SPENT}"
    )


HIDES = {
    Protects.ROWS: "everything, who compared what included",
    Protects.OUTCOMES: "who won (public_graph: true)",
    Protects.ANSWER: "one answer of a person, however many there are",
    Protects.PERSON: "all answers of a person (budget: per-user, or max_contributions)",
}


def other_protection_text(where: str, known: Protects, asked: Protects) -> str:
    """A release that hides another part of a unit than the population counts by."""
    return (
        f"{where} counts its budget for releases that hide {HIDES[known]}; this one hides"
        f" {HIDES[asked]}. Costs of the two cannot be added up. Set section privacy as it was, or"
        f" give these releases another name. {NOTHING_SPENT}"
    )


def clock_text(place: str, last: datetime, clock: datetime) -> str:
    """A clock that is far behind the last entry."""
    return (
        f"{place}: the last entry is dated {last:%Y-%m-%d %H:%M} UTC, but this machine's clock"
        f" says {clock:%Y-%m-%d %H:%M} UTC. Set the clock right. If it is the entry's date that is"
        f" wrong, no budget is given before that date. {NOTHING_SPENT}"
    )


def undrawn_text(release_ids: Sequence[str]) -> str:
    """What to add to a refusal while reservations hold part of the budget; empty if none do."""
    if not release_ids:
        return ""
    return (
        f" Reserved, but never drawn: {', '.join(release_ids)};"
        " what no run uses any more can be cancelled."
    )
