"""A notebook as a page of the documentation: its text, its code, and what it showed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).with_name("notebooks")
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
    for output in cell["outputs"]:
        shown = output.get("data", {"text/plain": output.get("text", "")})
        if "text/html" in shown:
            yield "".join(shown["text/html"])
        elif "text/plain" in shown:
            yield f"```\n{''.join(shown['text/plain']).rstrip()}\n```"
