"""Arguments that more than one command takes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

JSON_OPTION = "--json"

ConfigPath = Annotated[Path, typer.Argument(metavar="SURVEY.YAML", help="The job's YAML file.")]
ReleaseId = Annotated[
    str, typer.Argument(help="The release's id, as `hushrank ledger show` prints it.")
]
UserColumn = Annotated[str, typer.Option(help="The column of the person.")]
AsJson = Annotated[
    bool, typer.Option(JSON_OPTION, help="Print one JSON document, for programs, and nothing else.")
]
ThroughPrefect = Annotated[
    bool | None,
    typer.Option(
        "--prefect/--direct",
        help="Run as a Prefect flow, or without Prefect, which starts faster.",
        show_default="direct, unless Prefect's settings name a server",
    ),
]
