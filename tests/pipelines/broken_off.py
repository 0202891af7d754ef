"""A reduction that is broken off after some of its splits, and the one that goes on."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterator
from typing import Any
from unittest import mock

from hushrank.pipelines.reduce import reduce
from hushrank.transforms.storage.split import Split


class BrokenOffError(Exception):
    """Whatever ends a run."""


class Reads:
    """Notes the splits that are read; breaks off when it is asked for more than `most`."""

    def __init__(self, most: int = 1 << 30) -> None:
        self.names: list[str] = []
        self.broken = False
        self._most, self._lock, self._read = most, threading.Lock(), reduce.read_split

    def __call__(self, split: Split) -> Iterator[Any]:
        with self._lock:
            if len(self.names) == self._most:
                self.broken = True
                raise BrokenOffError
            self.names.append(split.name)
        return self._read(split)


def run_noting(job: Any, most: int = 1 << 30) -> list[str]:
    """Run the job; return the splits that it read, at most `most` before it breaks off."""
    reads = Reads(most)
    with mock.patch.object(reduce, "read_split", reads):
        try:
            reduce.run(job)
        except Exception:  # another worker may fail after the one that broke off, and be told of
            if not reads.broken:
                raise
    return reads.names


def broken_off_and_whole(job: Any, after: int) -> tuple[str, str, list[str], list[str]]:
    """Folders of the whole job and of the resumed one; splits that either of its runs read."""
    whole, again = (f"{job.confidential}-{name}{after}" for name in ("whole", "again"))
    run_noting(dataclasses.replace(job, confidential=whole))
    resumed = dataclasses.replace(job, confidential=again, resumes=True)
    return whole, again, run_noting(resumed, after), run_noting(resumed)
