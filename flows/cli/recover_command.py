"""`hushrank ledger recover`: go on with a ledger that lost something."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from hushrank.flows.cli.arguments import ConfigPath
from hushrank.flows.terminal import Console

Confirmed = Annotated[
    bool, typer.Option("--yes", help="Go on, and record it in the ledger for good.")
]


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
