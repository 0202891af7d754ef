"""A Flink cluster of this machine for one run of a benchmark, and what its processes have taken."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).parents[1] / "infra" / "flink" / "cluster.py"
TICKS = os.sysconf("SC_CLK_TCK")
PARENT, OWN, OF_CHILDREN = (
    1,
    slice(11, 13),
    slice(13, 15),
)  # fields of /proc/PID/stat after the name


class Processes:
    """The processes of a running cluster.

    Attributes:
        runner: section `runner` of a job on it.
    """

    def __init__(self, root: int, found: dict[str, Any]) -> None:
        self._root = root
        self.runner = {
            "kind": "flink", "job_server": found["job_server"], "environment": "external",
            "workers": found["workers"], "parallelism": 2,
        }  # fmt: skip

    def seconds(self) -> float:
        """Processor time of all of them so far, and of those that they have ended."""
        stats = _stats()
        ticks = 0
        for each in self._all(stats):
            ticks += sum(map(int, stats[each][OWN] + stats[each][OF_CHILDREN]))
        return ticks / TICKS

    def peak(self) -> int:
        """The most memory that each has held, added up: bytes."""
        total = 0
        for each in self._all(_stats()):
            for line in Path(f"/proc/{each}/status").read_text(encoding="utf-8").splitlines():
                if line.startswith("VmHWM"):
                    total += 1024 * int(line.split()[1])
        return total

    def _all(self, stats: dict[int, list[str]]) -> list[int]:
        found = [self._root]
        for each in found:
            found += [child for child, stat in stats.items() if int(stat[PARENT]) == each]
        return found


@contextmanager
def a_cluster() -> Iterator[Processes]:
    """A new one, which ends with the context; it says what it lacks if it cannot start."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(SCRIPT), "--folder", folder]
        cluster = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            line = cluster.stdout.readline() if cluster.stdout else ""
            if not line:
                raise SystemExit("no Flink cluster could be started on this machine")
            yield Processes(cluster.pid, json.loads(line))
        finally:
            cluster.terminate()
            cluster.wait(60)


def _stats() -> dict[int, list[str]]:
    """Fields of every process from its state on."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            found[int(path.parent.name)] = path.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
    return found
