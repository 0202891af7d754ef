"""Write the parts of pages that come from the code: `make pages`.

They are committed, so that they can be read in the checkout; a test compares them with the code.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import get_origin

from notebook_pages import notebooks_page
from public_names import recorded_names
from pydantic import BaseModel
from python_reference import python_reference

from hushrank.flows.config.reference import config_reference, sections_of
from hushrank.flows.interfaces.documents import histories, plans, runs
from hushrank.flows.methods.registry import facts_of_methods
from hushrank.flows.release.release import schema as release_schema
from hushrank.flows.trust.certificate.model import schema as certificate_schema
from hushrank.flows.watching.destinations import facet_schema

MARK = "<!-- What follows is written by `make pages`. -->\n"
DOCUMENTS: dict[str, type[BaseModel]] = {
    "COMMAND": runs.ErrorDocument,
    "run": runs.RunDocument,
    "run --plan": runs.StagesDocument,
    "validate": runs.ValidateDocument,
    "plan SURVEY.YAML": plans.PlanDocument,
    "plan` without a file: `hushrank plan": plans.PeopleDocument,
    "plan --stream": plans.StreamDocument,
    "plan --engine": plans.CostDocument,
    "history": histories.HistoryDocument,
    "history --verify": histories.VerifyDocument,
    "verify": histories.FindingsDocument,
    "ledger show": runs.LedgerDocument,
}


def command_reference() -> str:
    """Every command with its arguments and options, as typer documents them."""
    words = [
        "-m",
        "typer",
        "hushrank.flows.interfaces.cli.main",
        "utils",
        "docs",
        "--name",
        "hushrank",
    ]
    printed = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=True)
    _, heading, commands = printed.stdout.partition("\n## ")  # before it: an index, cut short
    text = (heading + commands).replace("\n### ", "\n## ").strip()
    return text.replace("&#x27;", "'").replace("&quot;", '"') + "\n"  # to be read as text too


def document_reference() -> str:
    """Every field of what `--json` prints."""
    lines = ["", "## Documents of `--json`", ""]
    for command, model in DOCUMENTS.items():
        lines += [f"### `hushrank {command} --json`", "", *_fields(model), ""]
    return "\n".join(lines)


def _fields(model: type[BaseModel]) -> Iterator[str]:
    top, *inner = sections_of(model)
    lists = {
        name for name, field in model.model_fields.items() if get_origin(field.annotation) is tuple
    }
    yield from (top.summary, "", "| field | value | meaning |", "|---|---|---|")
    for section in (top, *inner):
        place = f"{section.name}[]" if section.name in lists else section.name
        for key in section.keys:
            name = f"{place}.{key.name}".removeprefix(".")
            holds = "list of objects" if key.name in lists else "object"
            yield f"| `{name}` | {holds if key.type == 'section' else key.type} | {key.meaning} |"


PAGES: dict[str, Callable[[], str]] = {
    "reference.md": lambda: config_reference(facts_of_methods()),
    "python.md": python_reference,
    "notebooks.md": notebooks_page,
    "cli.md": lambda: f"{command_reference()}{document_reference()}",
}

FILES: dict[str, Callable[[], str]] = {  # written whole
    "certificate.schema.json": certificate_schema,
    "release.schema.json": release_schema,
    "privacy_facet.schema.json": facet_schema,
    "public_names.txt": recorded_names,
}


def made(page: Path) -> str:
    """The text of a page as it should be: what people wrote, and what the code says below it.

    Raises:
        ValueError: the page does not say where that begins.
    """
    if page.name in FILES:
        return FILES[page.name]()
    written, mark, _ = page.read_text(encoding="utf-8").partition(MARK)
    if not mark:
        raise ValueError(f"{page}: needs a line {MARK}")
    return f"{written}{mark}\n{PAGES[page.name]().strip()}\n"


if __name__ == "__main__":
    for name in (*PAGES, *FILES):
        page = Path(__file__).with_name(name)
        page.write_text(made(page))
