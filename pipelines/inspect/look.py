"""An exact look at a log: what a run would read, set aside, bound and count. Confidential.

Everything here stays in the memory of this process: nothing is written, logged, released or sent.
Rows are read, encoded, set aside, put together by person and bounded by what the reduction has for
that (`pipelines.reduce.kind`), so the numbers are those of a run. Where rows that wait for others
of their person need more memory than the job may take, people are divided among several passes over
the input, each of which keeps the rows of its people alone.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from hushrank.pipelines.inspect.found import Counts, Look
from hushrank.pipelines.inspect.views import View, view_of
from hushrank.pipelines.reduce.reduce import CHUNK_ROWS, ROW_BITS, Job, read_split
from hushrank.transforms.comparisons.shuffle import OwnedParcel
from hushrank.transforms.storage.files import column_names_of
from hushrank.transforms.storage.split import Split

PARCEL_BYTES = 200  # that Python needs for a parcel besides its content, about


def look(job: Job) -> Look:
    """Read the input of `job` as its reduction would, and count what it meets.

    Memory: about `job.memory_limit`. Only a partition with more rows than that, of one person, say,
    is held whole all the same.

    Raises:
        InputError: a file cannot be read.
    """
    view = view_of(replace(job, people_vote=False))  # votes would be counted as rows
    reading = _Reading(view)
    found = reading.found
    shares = [range(1 << 62)]  # of partitions, each read in a pass of its own
    while shares:
        parcels, rest = reading.pass_over(shares.pop())
        shares += rest
        for partition in sorted(parcels):
            _meet(view, parcels.pop(partition), found)
    return found


class _Reading:
    """Passes over the input; the first one counts what is seen as rows are read."""

    def __init__(self, view: View[Any]) -> None:
        self._view, self._kind = view, view.kind
        self._splits = self._kind.splits(self._kind.job.heads)
        self._kind.setup()
        self._partitions = self._kind.partitions(sum(split.rows for split in self._splits))
        nothing = np.zeros(len(self._kind.job.catalogue), np.int64)
        columns = tuple(column_names_of(self._kind.job.files[0]))
        self.found = Look(
            view.noun, view.most, nothing, refuses_rows=view.refuses_rows, columns=columns
        )
        if view.knows_people:
            self.found.people = Counter()

    def pass_over(self, share: range) -> tuple[dict[int, list[Any]], list[range]]:
        """Parcels of as many partitions of `share` as memory holds, and the others, for later."""
        self.found.passes += 1
        waiting: dict[int, list[Any]] = defaultdict(list)
        size, later = 0, list[range]()
        room = self._kind.memory.waiting_bytes
        for rows in self._chunks():
            for partition, parcel in self._kind.pack(rows, self._partitions, None):
                if partition in share:
                    waiting[partition].append(parcel)
                    size += _bytes_of(parcel)
            while size > room and len(waiting) > 1:
                middle = sorted(waiting)[len(waiting) // 2]
                later.append(range(middle, share.stop))
                share = range(share.start, middle)
                dropped = [waiting.pop(place) for place in sorted(waiting) if place >= middle]
                size -= sum(_bytes_of(parcel) for parcels in dropped for parcel in parcels)
        return waiting, later

    def _chunks(self) -> Iterator[list[Any]]:
        """Encoded rows whose owners must meet, some at a time; of the others only their number."""
        held: list[Any] = []
        for number, split in enumerate(self._splits):
            for rows in self._encoded(number, split):
                held.append(rows)
                if sum(map(len, held)) >= CHUNK_ROWS:
                    yield held
                    held = []
        if held:
            yield held

    def _encoded(self, number: int, split: Split) -> Iterator[Any]:
        first, counts = 0, self.found.passes == 1
        for read in read_split(split):
            if counts:
                self.found.rows += read.tally["rows_read"]
                self.found.rejected += _reasons(read.rejects)
            for start in range(0, len(read.rows), self._kind.encode_rows):
                batch = read.rows.slice(start, self._kind.encode_rows)
                place = (number << ROW_BITS) + first + start
                encoded = self._kind.encode(batch, place, split)
                if counts:
                    self._count(batch, encoded)
                if self._kind.meets_owners:
                    yield encoded.rows
            first += len(read.rows)

    def _count(self, batch: pa.RecordBatch, encoded: Any) -> None:
        found = self.found
        found.rejected += _reasons(encoded.rejects)
        shown = self._view.shown(batch, encoded)
        found.appearances += shown.appearances
        if shown.ties is not None:
            found.ties = (found.ties or 0) + shown.ties
        _count_lengths(found, shown.lengths)
        if not self._kind.meets_owners:
            number = self._view.unowned(encoded)
            found.contributions += number
            found.kept += number


def _meet(view: View[Any], parcels: list[Any], found: Look) -> None:
    """Count what becomes of the contributions of one partition."""
    met, tally, refused = 0, Counter[str](), Counter[str]()
    _count_lengths(found, view.lengths_met(parcels))
    for words in view.owner_words(parcels):
        met += len(words)
        if found.people is not None:
            _, sizes = np.unique(words, return_counts=True)
            numbers, people = np.unique(sizes, return_counts=True)
            found.people.update(dict(zip(numbers.tolist(), people.tolist(), strict=True)))
    for bounded in view.kind.bound(parcels, None):
        tally.update(bounded.tally)
        refused += _reasons(bounded.rejects)
    refused += Counter({reason: tally[name] for name, reason in view.refused.items()})
    merged, kept = tally[view.merged], tally[view.kept]
    whole = tally[view.whole] if view.whole else met - merged - refused.total()
    found.contributions += met
    found.refused += refused
    found.merged += merged
    found.dropped += whole - kept
    found.kept += kept


def _count_lengths(found: Look, lengths: Counts | None) -> None:
    if lengths is not None:
        sizes, numbers = np.unique(lengths, return_counts=True)
        found.lengths = (found.lengths or Counter()) + Counter(
            dict(zip(sizes.tolist(), numbers.tolist(), strict=True))
        )


def _reasons(rejects: pa.Table | None) -> Counter[str]:
    if rejects is None:
        return Counter()
    counted = rejects["reason"].value_counts()
    return Counter({pair["values"].as_py(): pair["counts"].as_py() for pair in counted})


def _bytes_of(parcel: Any) -> int:
    if isinstance(parcel, OwnedParcel):
        return PARCEL_BYTES + getattr(parcel.content, "nbytes", 0)
    _, blob = parcel
    return PARCEL_BYTES + len(blob)
