"""`hushrank ledger show`, `verify` and `cancel`: what a population spent, and what it has left."""

from __future__ import annotations

from rich.text import Text

from hushrank.flows.cli.arguments import AsJson, ConfigPath, ReleaseId
from hushrank.flows.terminal import Console, print_records


def show(config: ConfigPath, as_json: AsJson = False) -> None:
    """Show what a population has spent, on what, and what is left."""
    from hushrank.flows.display import show_balance
    from hushrank.flows.ledger.history import HISTORY_COLUMNS
    from hushrank.flows.methods.registry import load_config
    from hushrank.flows.run.budget import ledger_of
    from hushrank.flows.run.job import inputs_of

    checked = load_config(config)
    ledger = ledger_of(checked)
    rows, balance = ledger.history(), ledger.balance(inputs_of(checked, make_key=False))
    if not as_json:
        print_records(Console(), HISTORY_COLUMNS, (row.cells() for row in rows))
        show_balance(Console(), balance)
        return
    from hushrank.flows.cli.documents import (
        Budget,
        LedgerDocument,
        LedgerEntry,
        print_document,
    )

    entries = tuple(map(LedgerEntry.of, rows))
    print_document(LedgerDocument(entries=entries, budget=Budget.of(balance)))


def verify(config: ConfigPath) -> None:
    """Check every line of the ledger; damaged, edited or missing lines are reported."""
    from hushrank.flows.methods.registry import load_config
    from hushrank.flows.run.budget import ledger_of

    checked = load_config(config)
    ledger_of(checked).balance()
    Console().print(
        Text(f"{checked.ledger.path}: every line is as it was written."), soft_wrap=True
    )


def cancel(config: ConfigPath, release_id: ReleaseId) -> None:
    """Give back the budget that a dead run reserved before it drew any noise."""
    from hushrank.flows.display import show_balance
    from hushrank.flows.methods.registry import load_config
    from hushrank.flows.run.budget import ledger_of
    from hushrank.flows.run.undo import abandon

    checked = load_config(config)
    ledger = ledger_of(checked)
    abandon(checked, ledger, release_id)
    show_balance(Console(), ledger.balance())
