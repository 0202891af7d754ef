"""`hushrank clean`: files that the confidential area has kept longer than configured."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.text import Text

from hushrank.flows.cli.arguments import ConfigPath
from hushrank.flows.terminal import Console

Delete = Annotated[
    bool, typer.Option("--delete", help="Delete the files; otherwise they are only listed.")
]


def clean(config: ConfigPath, really: Delete = False) -> None:
    """List, or delete, what the confidential area has kept for longer than section retention says.

    Files of a release that is not published yet always stay. The command spends nothing.
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
        console.print("Nothing was deleted. hushrank clean --delete deletes these files.")
