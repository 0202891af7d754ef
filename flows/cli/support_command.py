"""`hushrank support`: a bundle without data for whoever helps."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from hushrank.flows.cli.arguments import ConfigPath
from hushrank.flows.terminal import Console


def support(
    config: ConfigPath,
    to: Annotated[Path | None, typer.Option(help="The zip file to write.")] = None,
) -> None:
    """Write a support bundle: versions, configuration, ledger, log; no data. Spends nothing."""
    from hushrank.flows.run.support import bundle_name, write_bundle

    path = to or Path(bundle_name(datetime.now(UTC)))
    write_bundle(config, path)
    Console().print(
        f"Wrote {path}. It holds no rows, counts or items' names; it does name files, columns and"
        " the population. Look through it before you send it outside.",
        soft_wrap=True,
        markup=False,
    )
