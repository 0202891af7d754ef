"""Trace one plain `hushrank run`: which of our files it enters, in the parent and in the reader.

    python -m tests.flows.walk          # the figures
    python -m tests.flows.walk --list   # and every file entered, module loaded only, and arrow

A file counts as entered if a function of it is called while neither its module nor that of the
caller is being imported. Files of libraries do not count.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
OURS = "hushrank"
N_ROWS, N_ITEMS, N_USERS = 1_000, 20, 100
LOG, LEDGER = "HUSHRANK_WALK_LOG", "ledger.jsonl"
LOADED, ENTERED, ARROW, CALIBRATED, READ = "loaded", "entered", "arrow", "calibrated", "read"
CALIBRATE = "calibrate"  # the function by which a method calibrates
METHODS = "hushrank.flows.methods."


@dataclass(frozen=True)
class Walk:
    """What a run walked through, in both of its processes together.

    Attributes:
        entered: modules in which a function was entered.
        arrows: pairs of such modules, of which the first called the second.
        loaded: modules that were loaded.
        calibrations: how often the method that was calibrated most often was.
        ledger_reads: how often the ledger file was opened for reading.
    """

    entered: frozenset[str]
    arrows: frozenset[str]
    loaded: frozenset[str]
    calibrations: int
    ledger_reads: int

    def figures(self) -> dict[str, int]:
        """The number of each, by name."""
        return {
            "files entered": len(self.entered),
            "arrows between files": len(self.arrows),
            "modules loaded": len(self.loaded),
            "calibrations of one method": self.calibrations,
            "reads of the ledger": self.ledger_reads,
        }

    def text(self) -> str:
        """The figures, a line for each."""
        return "\n".join(f"{number:5} {name}" for name, number in self.figures().items())


def plain_job(folder: Path) -> Path:
    """Write a job of 1,000 comparisons of 20 items in a CSV file; return its YAML file."""
    chance = random.Random(0)
    names = [f"item{number:02}" for number in range(N_ITEMS)]
    lines = ["user,left,right,winner"]
    for row in range(N_ROWS):
        left, right = sorted(chance.sample(range(N_ITEMS), 2))
        winner = left if chance.random() < 0.8 else right
        lines.append(f"u{row % N_USERS},{names[left]},{names[right]},{names[winner]}")
    (folder / "answers.csv").write_text("\n".join(lines) + "\n")
    columns = {"user": "user", "left": "left", "right": "right", "winner": "winner"}
    job = {
        "name": "plain",
        "input": {
            "kind": "comparisons",
            "paths": ["answers.csv"],
            "columns": columns,
            "design": "random",
        },
        "items": {"names": names},
        "privacy": {"unit": "user", "epsilon": 20, "max_contributions": 10},
        "method": "auto",
        "output": "out",
        "confidential": "work",
        "ledger": {"path": LEDGER, "epsilon": 50, "refresh": "monthly"},
        "runner": "local",
    }
    config = folder / "job.yaml"
    config.write_text(json.dumps(job))  # which is YAML, too
    return config


def walked(folder: Path) -> Walk:
    """Run the plain job in `folder`, traced."""
    log, start = folder / "walk.log", folder / "start"
    start.mkdir()
    (start / "sitecustomize.py").write_text("from tests.flows.walk import follow\nfollow()\n")
    paths = os.pathsep.join((str(start), str(ROOT)))
    environment = os.environ | {"PYTHONPATH": paths, LOG: str(log)}
    words = [sys.executable, "-m", "hushrank", "run", str(plain_job(folder)), "--direct"]
    subprocess.run(words, cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL)
    return walk_of(log.read_text().splitlines())


def walk_of(lines: list[str]) -> Walk:
    """The walk that the lines of both processes tell; each is a kind and what it is about."""
    found: dict[str, Counter[str]] = {
        kind: Counter() for kind in (LOADED, ENTERED, ARROW, CALIBRATED, READ)
    }
    for line in lines:
        kind, _, what = line.partition(" ")
        found[kind][what] += 1
    return Walk(
        entered=frozenset(found[ENTERED]),
        arrows=frozenset(found[ARROW]),
        loaded=frozenset(found[LOADED]),
        calibrations=max(found[CALIBRATED].values(), default=0),
        ledger_reads=found[READ].total(),
    )


def follow() -> None:
    """Trace this process from now on; each line is written at once, for the reader is killed."""
    log = os.open(os.environ[LOG], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    known = set[str]()

    def tell(line: str, *, once: bool = True) -> None:
        if not once or line not in known:
            known.add(line)
            os.write(log, f"{line}\n".encode())

    def on_event(frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or not _is_ours(frame):
            return
        module, code = frame.f_globals["__name__"], frame.f_code
        if code.co_name == "<module>":
            tell(f"{LOADED} {module}")
        caller = _caller(frame)
        if _is_loading(frame) or (caller is not None and _is_loading(caller)):
            return
        tell(f"{ENTERED} {module}")
        if caller is not None and caller.f_globals is not frame.f_globals:
            tell(f"{ARROW} {caller.f_globals['__name__']} -> {module}")
        if code.co_name == CALIBRATE and module.startswith(METHODS) and "self" in code.co_varnames:
            tell(f"{CALIBRATED} {module}", once=False)

    def on_audit(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and str(arguments[0]).endswith(LEDGER):
            tell(f"{READ} {arguments[0]}", once=False)  # all can read: an append does, in its lock

    sys.addaudithook(on_audit)
    threading.setprofile(on_event)
    sys.setprofile(on_event)


def _is_ours(frame: FrameType) -> bool:
    """Whether the frame runs text of a file of ours, so not the methods that dataclasses make."""
    name = frame.f_globals.get("__name__") or ""
    return name.partition(".")[0] == OURS and not frame.f_code.co_filename.startswith("<")


def _is_loading(frame: FrameType) -> bool:
    return getattr(frame.f_globals.get("__spec__"), "_initializing", False)


def _caller(frame: FrameType) -> FrameType | None:
    """The nearest frame of ours that led to this one; None: a thread or process began here."""
    found = frame.f_back
    while found is not None and not _is_ours(found):
        found = found.f_back
    return found


def main() -> None:
    """Print what one run walks through."""
    parser = argparse.ArgumentParser(prog="python -m tests.flows.walk", description=__doc__)
    parser.add_argument("--list", action="store_true", help="list modules and arrows as well")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        walk = walked(Path(folder))
    lines = [walk.text()]
    if options.list:
        lines += ["", "entered", *sorted(walk.entered)]
        lines += ["", "loaded and not entered", *sorted(walk.loaded - walk.entered)]
        lines += ["", "arrows", *sorted(walk.arrows)]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
