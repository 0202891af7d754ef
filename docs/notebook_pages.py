"""The page of the notebooks: the text of each, its code, and what it showed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).with_name("notebooks")
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
TITLES = re.compile(r"^# .*\n*")
SECTIONS = {
    "survey": "A survey",
    "leaderboard": "A leaderboard",
    "arena": "An arena's file",
    "test": "A test",
    "election": "An election",
    "beam": "A Beam pipeline",
}


def notebooks_page() -> str:
    """Every notebook as a section in Markdown."""
    return "\n\n".join(part for name in SECTIONS for part in _section(name))


def _section(name: str) -> Iterator[str]:
    yield f"## {SECTIONS[name]}"
    yield f"[Download this notebook](notebooks/{name}.ipynb)."
    for cell in json.loads((FOLDER / f"{name}.ipynb").read_text())["cells"]:
        yield from _cell(cell)


def _cell(cell: dict[str, Any]) -> Iterator[str]:
    text = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        yield TITLES.sub("", text)
        return
    yield f"```python\n{text}\n```"
    printed = ""
    for output in cell["outputs"]:
        shown = output.get("data", {"text/plain": output.get("text", "")})
        if output["output_type"] == "execute_result" and "text/html" in shown:
            yield from _block(printed)
            printed = ""
            yield "".join(shown["text/html"])
        else:  # progress is plain text on a page
            printed += COLOURS.sub("", "".join(shown["text/plain"]))
    yield from _block(printed)


def _block(printed: str) -> Iterator[str]:
    if printed:
        yield f"```\n{printed.rstrip()}\n```"
