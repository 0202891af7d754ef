"""`hushrank board`: a static site of all published releases."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from hushrank.flows.config.language import Language
from hushrank.flows.interfaces.cli.arguments import AsJson
from hushrank.flows.terminal import Console


def board(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="SURVEY.YAML...", help="YAML files of jobs, or their output folders."
        ),
    ],
    out: Annotated[
        Path, typer.Option("--out", help="Folder of the site; an older one is replaced.")
    ],
    url: Annotated[
        str | None, typer.Option(help="https:// address of the site, for its feeds and widget.")
    ] = None,
    language: Annotated[
        Language, typer.Option("--language", help="Language of its pages; feeds are in English.")
    ] = Language.ENGLISH,
    as_json: AsJson = False,
) -> None:
    """Write a static site of all published releases: ranking, history, items, feeds, widget.

    Reads releases alone, no row, and spends nothing. A release that does not verify is left out and
    named.
    """
    from hushrank.flows.board.write import write_board
    from hushrank.flows.errors import require
    from hushrank.flows.methods.registry import load_config
    from hushrank.flows.release.history import outputs_of

    if language is not Language.ENGLISH:
        require("languages", f"--language {language}")
    site = write_board(outputs_of(sources, load_config), out, url, language)
    if as_json:
        typer.echo(site.model_dump_json(indent=1))
        return
    console = Console()
    for text in site.left_out:
        console.print(Text(text), soft_wrap=True)
    console.print(
        Text(
            f"Wrote {site.out}: {site.files:,} files, {site.size / 1e6:.1f} MB, of"
            f" {site.releases:,} release{'s' * (site.releases != 1)}."
            " Next: put the folder on any web server."
        ),
        soft_wrap=True,
    )
