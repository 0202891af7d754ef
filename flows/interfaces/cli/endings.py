"""Ending of a command that failed: its error text and its exit code."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import typer
from rich.text import Text

from hushrank.flows.errors import HushrankError
from hushrank.flows.terminal import Console
from hushrank.transforms.common.plain_text import short, short_message

MOST_USAGE = 300  # longest text, in characters, that is shown in a box with the usage
RESERVING = (["run"], ["backfill"], ["catch-up"], ["resume"], ["serve"], ["survey", "demo"])
AFTER_FAILURE = (
    "What was reserved but not drawn is given back; if noise was drawn already, the same command"
    " publishes that release without spending again."
)


def reserves(words: Sequence[str]) -> bool:
    """Whether a command reserves budget, so that an error must say what happened to it."""
    return any(words[: len(each)] == each for each in RESERVING)


def after_failure(words: Sequence[str]) -> str:
    """Sentence on budget and data that remain after an error of the machine."""
    if words[:1] == ["collect"]:
        return "Answers that were acknowledged are kept. Run the same command again."
    return AFTER_FAILURE if reserves(words) else "Nothing was spent. Run the same command again."


def stop(error: Exception, text: str, exit_code: int, as_json: bool) -> NoReturn:
    """Print why the command failed, and exit."""
    if as_json:
        print_error(error, text, exit_code)
    # Escape characters as for printing: the escape of a letter that the locale lacks is longer.
    locale = sys.stderr.encoding or "utf-8"
    printed = short_message(text.encode(locale, "backslashreplace").decode(locale))
    Console(stderr=True).print(Text(printed, style="red"), soft_wrap=True)
    sys.exit(exit_code)


def stop_usage(error: Any, as_json: bool) -> NoReturn:
    """Show an error in the arguments as typer does, in a box with the usage."""
    text = short(error.format_message(), MOST_USAGE)
    if as_json:
        stop(error, text, 2, as_json)
    from typer.rich_utils import rich_format_error

    error.format_message = lambda: text
    rich_format_error(error)
    sys.exit(error.exit_code)


def print_error(error: Exception, text: str, exit_code: int) -> None:
    """Print the JSON document of an error."""
    told = error if isinstance(error, HushrankError) and f"{error}" else None
    told = told or HushrankError(text, spent=getattr(error, "spent", None))
    what = {"kind": type(error).__name__, "message": short_message(text), "exit_code": exit_code}
    typer.echo(json.dumps({"error": {**what, **told.fields}}, indent=2))
