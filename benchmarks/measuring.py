"""What the scripts of this folder measure with: clocks, peak memory, a process for each run."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass


def seconds(
    work: Callable[[], object], repeats: int, clock: Callable[[], float] = time.perf_counter
) -> list[float]:
    """What each of some runs of `work` takes."""
    taken = []
    for _ in range(repeats):
        started = clock()
        work()
        taken.append(clock() - started)
    return taken


def peak_bytes() -> int:
    """The most memory that this process has held."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


@dataclass(frozen=True)
class Taken:
    """What a run took: seconds by the clock and on processors, and bytes at the peak."""

    wall: float
    cpu: float
    peak: int


def taken_by(work: Callable[[], object]) -> Taken:
    """Run `work` once. The peak is that of the process, so it should do nothing else."""
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return Taken(wall, cpu, peak_bytes())


def show(taken: Taken) -> None:
    """In a child: print what `taken_apart` reads."""
    print(json.dumps(asdict(taken)))


def taken_apart(*arguments: str) -> Taken:
    """Run this script again, in a process of its own, with more arguments; it must `show`."""
    command = [sys.executable, *sys.argv, *arguments]
    child = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return Taken(**json.loads(child.stdout.splitlines()[-1]))
