"""`hushrank ledger show`, `verify`, `cancel`, `recover`: what a population spent and has left."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from hushrank.flows.cli.arguments import AsJson, ConfigPath, ReleaseId
from hushrank.flows.terminal import Console, print_records

Confirmed = Annotated[
    bool, typer.Option("--yes", help="Go on, and record it in the ledger for good.")
]


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
    from hushrank.flows.run.run import abandon

    checked = load_config(config)
    ledger = ledger_of(checked)
    abandon(checked, ledger, release_id)
    show_balance(Console(), ledger.balance())


def recover(config: ConfigPath, yes: Confirmed = False) -> None:
    """Go on with a ledger that was lost in part, whose key is lost, or whose dates are wrong.

    Without --yes this only says what is wrong and what it would do. First put the newest copy of
    the ledger back, if there is one: spends that nobody knows of any more count as not spent.
    """
    from hushrank.flows.display import show_balance
    from hushrank.flows.methods.registry import load_config
    from hushrank.flows.recovery.recovery import findings, recover_ledger
    from hushrank.flows.run.budget import ledger_of
    from hushrank.flows.run.job import inputs_of

    checked = load_config(config)
    ledger, inputs = ledger_of(checked), inputs_of(checked, make_key=yes)
    found, console = findings(checked, ledger, inputs), Console()
    for finding in found:
        console.print(Text(f"Wrong: {finding.text}."), soft_wrap=True)
        console.print(Text(f"  {finding.effect}."), soft_wrap=True)
    if not found:
        console.print(Text(f"{checked.ledger.path}: nothing is wrong."), soft_wrap=True)
    elif not yes:
        console.print("Nothing was changed. To go on like this, run it again with --yes.")
    else:
        recover_ledger(checked, ledger, inputs, found)
        console.print(Text(f"{checked.ledger.path}: this is recorded."), soft_wrap=True)
        show_balance(console, ledger.balance())
