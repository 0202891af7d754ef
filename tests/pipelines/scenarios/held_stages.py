"""A reduction each of whose stages waits, on the workers, until a test lets it go on.

A stage of few rows is over before anybody can aim at it. Here each writes that it has begun, and
waits for a file. Workers import this module: they start in the folder of the source tree.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hushrank.pipelines.reduce.kind import ShuffleBlocks
from hushrank.pipelines.reduce.reduce_comparisons import ComparisonsKind
from hushrank.pipelines.reduce.reduction_job import ReduceComparisons
from hushrank.transforms.comparisons.aggregate import WinCountsFn

READ, BOUND, COUNT = STAGES = ("read", "bound", "count")
PATIENCE = 900  # seconds until a worker that nobody lets go on gives up


@dataclass(frozen=True)
class Gates:
    """One gate for each stage, shut until a test opens it.

    Attributes:
        folder: that the test and all workers reach.
    """

    folder: Path

    def come(self, stage: str) -> None:
        """On a worker: tell that the stage has begun, and wait until its gate is open."""
        if self._open(stage).exists():
            return
        place = self.folder / stage
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{os.getpid()}-{threading.get_ident()}").touch()
        deadline = time.monotonic() + PATIENCE
        while not self._open(stage).exists():
            if time.monotonic() > deadline:
                raise TimeoutError(f"nobody opened the gate of {stage}")
            time.sleep(0.05)

    def waiting(self, stage: str) -> int:
        """How many parts of a stage have come to its gate."""
        return len(list((self.folder / stage).glob("*")))

    def processes(self, stage: str) -> list[int]:
        """Of the workers that have come to its gate, the first one first."""
        came = sorted((self.folder / stage).glob("*"), key=lambda path: path.stat().st_mtime_ns)
        return [int(path.name.partition("-")[0]) for path in came]

    def open(self, stage: str) -> None:
        """Let all of a stage through from now on."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._open(stage).touch()

    def _open(self, stage: str) -> Path:
        return self.folder / f"{stage}-open"


class HeldKind(ComparisonsKind):
    """Comparisons whose wins are counted, with a gate in the middle of each stage."""

    def __init__(self, job: ReduceComparisons, gates: Gates) -> None:
        super().__init__(job)
        self._gates = gates

    def pack(self, rows: list[Any], partitions: Any, spill: Any) -> ShuffleBlocks:
        """Bad rows are set aside by now; good ones are not sent yet."""
        self._gates.come(READ)
        return super().pack(rows, partitions, spill)

    def bound(self, shuffle_blocks: Iterable[Any], spill: Any) -> Iterator[Any]:
        """Some of what is counted has left."""
        yield from super().bound(shuffle_blocks, spill)
        self._gates.come(BOUND)

    def combine(self) -> WinCountsFn:
        return HeldCounts(len(self.job.catalogue), self.job.bounds.ties, self._gates)


class HeldCounts(WinCountsFn):
    """All partial counts have met; the sum has not left."""

    def __init__(self, n_items: int, ties: Any, gates: Gates) -> None:
        super().__init__(n_items, ties)
        self._gates = gates

    def extract_output(self, total: Any) -> Any:
        self._gates.come(COUNT)
        return super().extract_output(total)
