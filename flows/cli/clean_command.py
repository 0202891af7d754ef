"""`hushrank clean`: what the confidential area keeps for longer than the configuration says."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.text import Text

from hushrank.flows.cli.arguments import ConfigPath
from hushrank.flows.terminal import Console

Delete = Annotated[bool, typer.Option("--delete", help="Delete it; else it is only listed.")]


def clean(config: ConfigPath, really: Delete = False) -> None:
    """List, or delete, what the confidential area has kept for longer than section retention says.

    Never what a release needs that is not published yet. Spends nothing.
    """
    from hushrank.flows.methods.registry import load_config
    from hushrank.flows.run.budget import ledger_of
    from hushrank.flows.run.retention import delete, overdue

    checked, now = load_config(config), datetime.now(UTC)
    ledger, console = ledger_of(checked), Console()
    found = (delete if really else overdue)(checked, ledger, now)
    for each in found:
        verb = "Deleted" if really else "Would delete"
        console.print(Text(f"{verb} {each.path}, of {each.since.date()}"), soft_wrap=True)
    if not found:
        console.print("Nothing is kept for longer than section retention says.")
    elif not really:
        console.print("Nothing was deleted: hushrank clean --delete does it.")
