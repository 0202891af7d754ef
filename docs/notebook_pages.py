"""A notebook as a page of the documentation: its text, its code, and what it showed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).with_name("notebooks")
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
TITLES = re.compile(r"^# .*\n*")


def notebook_page(name: str) -> str:
    """The notebook `NAME.ipynb` as Markdown; its title is that of the page."""
    notebook = json.loads((FOLDER / f"{name}.ipynb").read_text())
    parts = [part for cell in notebook["cells"] for part in _cell(cell)]
    return "\n\n".join(parts)


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
