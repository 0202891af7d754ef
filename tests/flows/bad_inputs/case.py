"""What a bad input is: a folder, made bad in one way, and the command that meets it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

CANARY = "canary-7f3a91"  # the name of a person in the rows: no message may hold it
ITEMS = ["ants", "bees", "cats", "dogs"]
RUN = ("run", "survey.yaml", "--direct")
VALIDATE = ("validate", "survey.yaml")

Prepare = Callable[[Path], None]


class Literal(str):
    """Text that goes into the YAML file as it is."""


@dataclass(frozen=True, slots=True)
class Case:
    """One bad input.

    Attributes:
        family: cases of one kind; the sample takes some of each.
        name: unique in its family.
        prepare: makes the folder bad; there is a good survey in it, and a good job.
        command: of the command line, in that folder.
        says: what the message must hold: it is about this mistake and not about another.
    """

    family: str
    name: str
    prepare: Prepare
    command: tuple[str, ...] = RUN
    says: str = ""

    @property
    def key(self) -> str:
        """Its name among all."""
        return f"{self.family}/{self.name}"


COMPARISONS: dict[str, Any] = {
    "name": "zoo",
    "input": {
        "kind": "comparisons",
        "design": "balanced",
        "paths": ["answers.csv"],
        "columns": {"user": "user", "left": "left", "right": "right", "outcome": "outcome"},
    },
    "items": {"names": ITEMS},
    "privacy": {"unit": "user", "epsilon": 2.0, "max_contributions": 6},
    "method": "noisy-counts",
    "output": "out",
    "confidential": "work",
    "ledger": {"path": "ledger.jsonl", "epsilon": 5, "delta": 1e-6},
}


def changed(settings: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """`settings` with values by dotted key; None removes one."""
    result = copy.deepcopy(settings)
    for key, value in changes.items():
        *parents, last = key.split(".")
        section = result
        for parent in parents:
            section = section.setdefault(parent, {})
        if value is None:
            section.pop(last, None)
        else:
            section[last] = value
    return result


def yaml_text(settings: dict[str, Any]) -> str:
    """YAML in which a `Literal` stands as it is."""
    literals: list[str] = []

    def hidden(value: Any) -> Any:
        if isinstance(value, Literal):
            literals.append(value)
            return f"LITERAL{len(literals) - 1:04}"
        if isinstance(value, dict):
            return {key: hidden(part) for key, part in value.items()}
        return [hidden(part) for part in value] if isinstance(value, list) else value

    text = yaml.safe_dump(hidden(settings), sort_keys=False, width=10**6)
    for place, literal in enumerate(literals):
        text = text.replace(f"LITERAL{place:04}", literal)
    return text


def job(settings: dict[str, Any]) -> Prepare:
    """Write this job."""
    return lambda folder: write(folder / "survey.yaml", yaml_text(settings).encode())


def write(path: Path, content: bytes) -> None:
    """Write a file, whose folder is made where it is not."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def file(name: str, content: bytes) -> Prepare:
    """Put a file into the folder, in place of any that has the name."""
    return lambda folder: write(folder / name, content)


def both(*steps: Prepare) -> Prepare:
    """One after the other."""

    def prepare(folder: Path) -> None:
        for step in steps:
            step(folder)

    return prepare


def unique(cases: Sequence[Case]) -> list[Case]:
    """The cases, each under a key of its own.

    Raises:
        ValueError: two have the same key.
    """
    keys = [case.key for case in cases]
    if twice := {key for key in keys if keys.count(key) > 1}:
        raise ValueError(f"two cases are called {sorted(twice)[0]}")
    return list(cases)
