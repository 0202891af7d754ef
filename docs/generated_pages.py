"""Hook of MkDocs: the parts of pages that come from the code, put in where their marks stand."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.pages import Page

from hushrank.flows.config.reference import config_reference
from hushrank.flows.methods.registry import facts_of_methods


@cache
def command_reference() -> str:
    """Every command with its arguments and options, as typer documents them."""
    words = ["-m", "typer", "hushrank.flows.cli.main", "utils", "docs", "--name", "hushrank"]
    printed = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=True)
    _, heading, commands = printed.stdout.partition("\n## ")  # before it: an index, cut short
    return (heading + commands).replace("\n### ", "\n## ")


PARTS = {
    "reference.md": (
        "<!-- keys of the configuration -->",
        lambda: config_reference(facts_of_methods()),
    ),
    "cli.md": ("<!-- commands -->", command_reference),
}


def on_page_markdown(markdown: str, *, page: Page, **_: Any) -> str:
    """The page's Markdown with its generated part.

    Raises:
        PluginError: the page does not say where that part goes.
    """
    if page.file.src_uri not in PARTS:
        return markdown
    mark, made = PARTS[page.file.src_uri]
    if mark not in markdown:
        raise PluginError(f"{page.file.src_uri}: needs a line {mark}")
    return markdown.replace(mark, made())
