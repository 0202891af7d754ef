"""The list of mutants: one privacy bug each, and the tests that must fail where it is planted.

A file of YAML for each area holds them, as mappings with the fields of `Mutant` but its area.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).resolve().parent
CODE = ("privacy", "estimation", "transforms", "pipelines", "flows", "entry")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One bug, as a change of one text in one file.

    Attributes:
        id: short name.
        area: name of the file of the list that it is in.
        file: which file of the tree it changes.
        old, new: the text that occurs once in that file, and what the bug has in its place.
        harm: what would go wrong, in a sentence.
        tests: node ids of pytest. Each must fail: of a parametrised test at least one case.
        sample: whether `make test` plants it too.
    """

    id: str
    area: str
    file: str
    old: str
    new: str
    harm: str
    tests: tuple[str, ...]
    sample: bool = False

    @property
    def name(self) -> str:
        """Area and id."""
        return f"{self.area}/{self.id}"

    def planted(self, source: str) -> str:
        """`source`, the text of the file, with the bug.

        Raises:
            ValueError: the old text does not occur exactly once.
        """
        if (times := source.count(self.old)) != 1:
            raise ValueError(
                f"{self.name}: its old text occurs {times} times in {self.file}. Mend the mutant in"
                f" tests/mutants/{self.area}.yaml, so that it plants the same bug in today's code."
            )
        return source.replace(self.old, self.new)


def mutants(folder: Path = FOLDER) -> list[Mutant]:
    """All mutants, area by area.

    Raises:
        ValueError: an entry has other fields than a mutant.
    """
    return [
        _mutant(path.stem, entry)
        for path in sorted(folder.glob("*.yaml"))
        for entry in yaml.safe_load(path.read_text())
    ]


def _mutant(area: str, entry: dict[str, Any]) -> Mutant:
    unknown = entry.keys() - {field.name for field in fields(Mutant)}
    if unknown or "area" in entry:
        raise ValueError(f"{area}.yaml: {entry.get('id')} has fields that it must not have")
    return Mutant(**{**entry, "area": area, "tests": tuple(entry["tests"])})


def problems(mutant: Mutant, root: Path) -> list[str]:
    """What keeps `mutant` from being planted in the tree at `root` and being caught there."""
    if mutant.file.split("/")[0] not in CODE or not (root / mutant.file).is_file():
        return [f"{mutant.name}: there is no module {mutant.file}"]
    found = []
    try:
        ast.parse(mutant.planted((root / mutant.file).read_text()))
    except ValueError as error:
        found.append(str(error))
    except SyntaxError as error:
        found.append(f"{mutant.name}: the new text is no Python: {error}")
    if mutant.old == mutant.new or not mutant.tests:
        found.append(f"{mutant.name}: it changes nothing, or names no test")
    missing = [test for test in mutant.tests if not _is_defined(test, root)]
    return found + [f"{mutant.name}: there is no test {test}" for test in missing]


def _is_defined(test: str, root: Path) -> bool:
    path, _, name = re.sub(r"\[.*", "", test).partition("::")
    return name in _functions(root / path)


@cache
def _functions(path: Path) -> set[str]:
    if not path.is_file():
        return set()
    nodes = ast.walk(ast.parse(path.read_text()))
    return {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
