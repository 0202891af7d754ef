"""Every name that a person can write: `docs/public_names.txt` keeps those of all versions.

Each line has the kind of name, the name, and the version that had it first. A name that is to go
gets a fourth word: the first version that warned of it. A test refuses that a name goes without
one, or before two minor versions have warned.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from python_reference import public_members
from typer import Context
from typer.core import TyperGroup
from typer.main import get_command

import hushrank
from hushrank.flows.config.reference import sections_of
from hushrank.flows.interfaces.cli.main import app

FILE = Path(__file__).with_name("public_names.txt")
VERSIONS_OF_WARNING = 2


def names_today() -> set[tuple[str, str]]:
    """Kind and name of all that this version has."""
    return {*_python(), *_keys(), *_commands(get_command(app), "hushrank")}


def _python() -> Iterator[tuple[str, str]]:
    for module in (hushrank, hushrank.privacy, hushrank.estimation):
        for name, value in public_members(module):
            yield "python", f"{module.__name__}.{name}"
            if isinstance(value, type):
                ours = [base for base in value.__mro__ if base.__module__.startswith("hushrank.")]
                for each in {each for base in ours for each in vars(base)}:
                    if not each.startswith("_"):
                        yield "python", f"{module.__name__}.{name}.{each}"


def _keys() -> Iterator[tuple[str, str]]:
    for section in sections_of():
        for key in section.keys:
            yield "key", f"{section.name}.{key.name}".removeprefix(".")


def _commands(command: Any, path: str) -> Iterator[tuple[str, str]]:
    yield "command", path.replace(" ", "_")
    for parameter in command.params:
        for option in (*parameter.opts, *parameter.secondary_opts):
            if option.startswith("-"):
                yield "option", f"{path.replace(' ', '_')}_{option}"
    if isinstance(command, TyperGroup):
        context = Context(command)
        for name in command.list_commands(context):
            if (inner := command.get_command(context, name)) is not None:
                yield from _commands(inner, f"{path} {name}")


def recorded_names() -> str:
    """The file as it should be: all lines that it has, and one for each name that is new."""
    lines = FILE.read_text(encoding="utf-8").splitlines() if FILE.exists() else []
    known = {tuple(line.split()[:2]) for line in lines}
    minor = ".".join(version("hushrank").split(".")[:2])
    new = [f"{kind} {name} {minor}" for kind, name in names_today() - known]
    return "\n".join(sorted([*lines, *new])) + "\n"


def gone_too_early(lines: Iterable[str], today: set[tuple[str, str]], now: str) -> list[str]:
    """Lines of names that are gone although fewer than two minor versions warned of them.

    Args:
        lines: of the file.
        today: see `names_today`.
        now: version of hushrank.
    """

    def minor(text: str) -> tuple[int, int]:
        first, second = re.findall(r"\d+", text)[:2]
        return int(first), int(second)

    def warned_enough(words: list[str]) -> bool:
        if len(words) < 4:
            return False
        (major, at), (major_now, at_now) = minor(words[3]), minor(now)
        return major_now > major or at_now - at >= VERSIONS_OF_WARNING

    return [
        line
        for line in lines
        if tuple((words := line.split())[:2]) not in today and not warned_enough(words)
    ]
