"""Paths at which no fit file is: each case is a folder, a path in it, and a command that meets it.

As a program it carries out its cases one after the other and prints a line of JSON for each, so
that whoever waits for it sees in which case it hangs.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import resource
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.flows.bad_inputs.case import COMPARISONS, RUN, VALIDATE, changed, write, yaml_text

MOST_SECONDS = 60  # of a case that takes a tenth of a second: it hangs
MOST_ADDRESSES = 8 << 30  # bytes: far from what reads an endless file, and no machine suffers
SPARSE_BYTES = 1 << 40


def _folder(path: Path) -> None:
    path.mkdir(mode=0o700)


def _socket(path: Path) -> None:
    with contextlib.chdir(path.parent), socket.socket(socket.AF_UNIX) as made:
        made.bind(path.name)


def _sparse(path: Path) -> None:
    path.touch(0o600)
    os.truncate(path, SPARSE_BYTES)


KINDS: dict[str, Callable[[Path], None]] = {
    "fifo": lambda path: os.mkfifo(path, 0o600),
    "zero": lambda path: path.symlink_to("/dev/zero"),
    "full": lambda path: path.symlink_to("/dev/full"),
    "socket": _socket,
    "folder": _folder,
    "circle": lambda path: path.symlink_to(path.name),
    "sparse": _sparse,
}
LOCAL = {
    "privacy": {"unit": "local", "epsilon_range": [0.5, 4]},
    "input.ties": "random",
    "method": "debiased-rr",
}
COLLECTED = {
    "privacy": {"unit": "local", "epsilon_range": [0.5, 4], "already_private": True},
    "input.paths": ["answers/{date}/*.parquet"],
    "input.columns": {"left": "l", "right": "r", "outcome": "o", "epsilon": "e"},
    "input.design": None,
    "method": "debiased-rr",
    "collect": {"folder": "answers", "tokens": True},
}
NIGHT = "2026-11-20-0123456789abcdef"


@dataclass(frozen=True, slots=True)
class Place:
    """A place that hushrank opens.

    Attributes:
        path: where it is, in the folder of the survey.
        changes: settings of the survey that name it, by dotted key.
        command: what meets it.
        says: what the message must hold; by default the name of the file.
        fit: kinds that are allowed there.
    """

    path: str
    changes: dict[str, Any]
    command: tuple[str, ...] = VALIDATE
    says: str = ""
    fit: tuple[str, ...] = ()

    def settings(self) -> dict[str, Any]:
        """The settings of the survey."""
        return changed(COMPARISONS, self.changes)


ANCHORED = {"ledger.path": "budget/ledger.jsonl", "ledger.anchor": "far/anchor.jsonl"}
GROWING = ("sparse",)  # a file that is only appended to, replaced or read in part has any size
A_FOLDER = ("folder",)
PLACES = (
    Place("survey.yaml", {}),
    Place("answers.csv", {}, fit=GROWING),
    Place("answers.jsonl", {"input.paths": ["answers.jsonl"]}, fit=(*GROWING, "folder")),
    *(Place(f"items{end}", {"items": {"file": f"items{end}"}}) for end in (".txt", ".csv", ".soc")),
    Place("items.parquet", {"items": {"file": "items.parquet"}}),
    Place("shown.csv", {"model": {"exposures": "shown.csv"}, "method": "perturbed-mle"}),
    Place(
        "epsilons.csv",
        {**LOCAL, "privacy": {**LOCAL["privacy"], "epsilon_table": "epsilons.csv"}},  # type: ignore[dict-item]
        fit=("sparse", "folder"),
    ),
    Place("key.pem", {"ledger.signing_key": "key.pem"}),
    Place("far/anchor.jsonl", ANCHORED, RUN, fit=GROWING),
    Place("far/anchor.jsonl.lock", ANCHORED, RUN, fit=GROWING),
    Place("ledger.jsonl", {}),
    Place("ledger.jsonl.length", {}),
    Place("ledger.jsonl.key", {}),
    Place("ledger.jsonl.lock", {}, RUN, fit=GROWING),
    Place("audit.json", {"report": {"audit": "audit.json"}}),
    Place("texts.yaml", {**COLLECTED, "collect": {"folder": "answers", "texts": "texts.yaml"}},
          ("survey", "build", "survey.yaml")),
    Place("work/tokens.key", COLLECTED, ("survey", "tokens", "survey.yaml", "3")),
    Place("work/ledgers.json", {}),
    Place("log.jsonl", {"observability": {"log": "log.jsonl"}}, fit=GROWING),
    Place("hushrank.prom", {"observability": {"metrics": "hushrank.prom"}}, fit=GROWING),
    Place("lineage.jsonl", {"observability": {"lineage": {"file": "lineage.jsonl"}}}, fit=GROWING),
    Place("support", {"observability": {"support": "support"}}, fit=A_FOLDER),
    Place("out", {}, fit=A_FOLDER),
    Place("work", {}, fit=A_FOLDER),
    Place("ledger.jsonl", {}, ("verify", "out", "--ledger", "ledger.jsonl"), says="out"),
    Place(f"out/releases/{NIGHT}/release.json", {}, ("verify", f"out/releases/{NIGHT}")),
    Place("signer.pem", {}, ("ledger", "verify", "survey.yaml", "--public-key", "signer.pem")),
    Place("reproduced", {}, ("reproduce", "beyond", "--out", "reproduced"), fit=A_FOLDER),
    Place("reproduced/beyond/results.csv", {}, ("reproduce", "beyond", "--out", "reproduced"),
          fit=GROWING),
)  # fmt: skip


def cases(*, every: bool) -> Iterator[tuple[Place, str]]:
    """Every place with every kind that is not allowed there, or with three of the seven kinds.

    Each kind then meets three places of seven, one after the other.
    """
    for number, place in enumerate(PLACES):
        for turn, kind in enumerate(KINDS):
            if kind not in place.fit and (every or (number + turn) % 7 in (0, 1, 3)):
                yield place, kind


def carry_out(place: Place, kind: str, folder: Path) -> dict[str, Any]:
    """What the command does in a new folder."""
    from hushrank.flows.interfaces.cli.main import main

    rows = "".join(f"{n},{pair},1\n" for n, pair in enumerate(("ants,bees", "bees,cats")))
    write(folder / "answers.csv", f"user,left,right,outcome\n{rows}".encode())
    write(folder / "answers.jsonl", b"")
    write(folder / "survey.yaml", yaml_text(place.settings()).encode())
    path = folder / place.path
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.parent != folder:
        path.parent.chmod(0o700)
    path.unlink(missing_ok=True)
    KINDS[kind](path)
    printed, started = io.StringIO(), time.monotonic()
    code: object = 0
    shown = contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed)
    with contextlib.chdir(folder), shown[0], shown[1]:
        try:
            main(list(place.command))
        except SystemExit as stop:
            code = stop.code
        except BaseException as error:  # the test shows it
            code = repr(error)
    ledgers = [folder / "ledger.jsonl", folder / "budget" / "ledger.jsonl"]
    return {
        "code": code,
        "printed": printed.getvalue(),
        "seconds": time.monotonic() - started,
        "spent": any(each.is_file() and 0 < each.stat().st_size < SPARSE_BYTES for each in ledgers),
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
    }


def carry_out_all(area: Path, *, every: bool) -> None:
    """Carry out the cases in folders of `area`; a case that hangs ends the process."""
    resource.setrlimit(resource.RLIMIT_AS, (MOST_ADDRESSES, MOST_ADDRESSES))
    for number, (place, kind) in enumerate(cases(every=every)):
        folder = area / str(number)
        folder.mkdir()
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(MOST_SECONDS)
        told = carry_out(place, kind, folder)
        signal.alarm(0)
        sys.__stdout__.write(f"{json.dumps(told)}\n")  # type: ignore[union-attr]
        sys.__stdout__.flush()  # type: ignore[union-attr]
        shutil.rmtree(folder)


if __name__ == "__main__":
    carry_out_all(Path(sys.argv[1]), every=sys.argv[2] == "every")
