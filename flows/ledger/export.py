"""A ledger as one table for auditors: who set which terms, and what each release cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from hushrank.flows.ledger.account import Attempt, account_of
from hushrank.flows.ledger.approval import changes_of
from hushrank.flows.ledger.entries import ALWAYS, Chain, Limits
from hushrank.flows.ledger.texts import history_of

_COST = [("epsilon", pa.float64()), ("delta", pa.float64()), ("rho", pa.float64())]
_TOTAL = [
    ("total_epsilon", pa.float64()),
    ("total_delta", pa.float64()),
    ("refresh", pa.string()),
    ("lifetime_epsilon", pa.float64()),
]
TABLE = pa.schema(
    [
        ("population", pa.string()),
        ("time", pa.timestamp("s", tz="UTC")),
        ("state", pa.string()),
        ("release_id", pa.string()),
        ("method", pa.string()),
        ("night", pa.date32()),
        ("paid_by", pa.string()),
        *_COST,
        ("drawn_at", pa.timestamp("s", tz="UTC")),
        *_TOTAL,
        ("operator", pa.string()),
        ("approved_by", pa.string()),
        ("note", pa.string()),
    ]
)


def ledger_table(chain: Chain, place: str, methods: Mapping[str, str]) -> pa.Table:
    """Return every release, change of terms, alert and repair of all populations of a ledger.

    Args:
        chain: entries whose hashes and approvals are verified.
        place: place of the ledger, for messages.
        methods: method of each release that is published where the auditor looks.

    Returns:
        A row for each, by population and then in the order of the ledger. `epsilon`, `delta` and
        `rho` are the cost of the row alone (none for a night that a stream pays for), and the
        columns from `total_epsilon` on are the budget that a row with state `terms` sets.

    Raises:
        LedgerError: an entry cannot follow the ones before it.
    """
    names = dict.fromkeys(entry.population for entry in chain.entries)
    rows = [row for name in names for row in _rows(chain, name, place, methods)]
    return pa.Table.from_pylist(rows, schema=TABLE)


def _rows(
    chain: Chain, name: str, place: str, methods: Mapping[str, str]
) -> Iterator[dict[str, Any]]:
    account = account_of(chain.entries, name, place)
    changes = {each.line: each for each in changes_of(chain, name)}
    lines = sorted([*(each.seq for each in account.attempts), *(n.seq for n in account.notes)])
    attempts = {each.seq: each for each in account.attempts}
    for line, row in zip(lines, history_of(account, ALWAYS), strict=True):
        told: dict[str, Any] = {
            "population": name,
            "time": row.time,
            "state": row.state,
            "release_id": row.release_id or None,
            "method": methods.get(row.release_id),
            "operator": row.operator,
            "note": row.note or None,
        }
        if row.spend is not None:
            told |= {key: getattr(row.spend, key) for key, _ in _COST}
        if line in attempts:
            told |= _of_attempt(attempts[line])
        if line in changes:
            limits = Limits.of(changes[line].what)
            told |= dict(zip((key for key, _ in _TOTAL), limits, strict=True))
            told["approved_by"] = changes[line].approved_by or None
        yield told


def _of_attempt(attempt: Attempt) -> dict[str, Any]:
    return {
        "night": attempt.night,
        "paid_by": attempt.of or None,
        "drawn_at": attempt.drawn_at,
    }
