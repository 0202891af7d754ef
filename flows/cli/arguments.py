"""Arguments that more than one command takes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

ConfigPath = Annotated[Path, typer.Argument(metavar="SURVEY.YAML", help="The job's YAML file.")]
ReleaseId = Annotated[str, typer.Argument(help="As `hushrank ledger show` prints it.")]
UserColumn = Annotated[str, typer.Option(help="The column of the person.")]
