"""Finished parcels of a count wait in the confidential folder, so that the next run goes on.

A parcel is what one worker makes of some splits. Where rows of a person must meet, it is their
encoded rows: they wait in one file with a name, as they wait in a file without one otherwise, and
the parcel says where. Where rows are counted as they are read, it is their sum. Its tally is with
it. A parcel is written whole, after its rows; so a run that is killed loses the parcels that were
being made, and no other. Whoever goes on counts each split once, because a parcel holds all rows of
its splits, and none of any other.

All of it depends on the key of the reduction: pseudonyms, and which rows are kept. So the next run
takes the same key, and the name of each parcel is a keyed digest of the splits, with sizes and
versions of their files, of the settings and of the code's version. A parcel of anything else is
never found, and is deleted; one that is damaged, or whose rows are, is made again. Parcel and rows
are sealed under that key. The run that takes them up checks the seals once, so they show what was
changed while no run was going on; rows that are changed after the check are counted as they are.
The choice of rows is the same function of key and rows as in one go, so the counts are the same, to
the bit.

The files have the form of rows that wait on an engine (`WAITING_FILE`), and go with them: once the
noise is drawn, or the job is given up.
"""

from __future__ import annotations

import hmac
import pickle
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import numpy as np
from blake3 import blake3

from hushrank.pipelines.reduce.dense_total import Block, blocks_of, place_of
from hushrank.pipelines.reduce.kind import ROWS, TALLY, rows_file
from hushrank.pipelines.reduce.reduction_job import Reduction
from hushrank.transforms.common.dense_sums import DenseFn
from hushrank.transforms.common.sorting import Words
from hushrank.transforms.engine.beam import TaggedOutput, beam
from hushrank.transforms.engine.in_process import Both, outputs_of_bundle
from hushrank.transforms.storage.files_read import note_read
from hushrank.transforms.storage.places import make_folder, read_whole, write_whole
from hushrank.transforms.storage.spill_file import WAITING_FILE, Spill, SpillFile
from hushrank.transforms.storage.split import Split

PARCELS: Final = 128  # a worker that is killed loses one of these
ROW_BYTES: Final = 48  # of a waiting row, or of what it adds to a sum without zeros
_DIGEST, _SEAL_BYTES = "sha256", 32
_DIGITS = 32  # of a digest in a file's name
Steps = Callable[[Spill | None], tuple[beam.DoFn, beam.DoFn]]


def may_wait(job: Reduction, splits: Sequence[Split], sums: beam.CombineFn | None) -> bool:
    """Whether disk and memory have room for the parcels of all splits.

    What waits and cannot be taken up is deleted first: parcels of other settings, or all of them.

    Args:
        job: the reduction.
        splits: all splits of its input.
        sums: the function that sums the rows of a parcel; None: they wait.
    """
    folder, rows, store = Path(job.confidential), rows_file(job), kept_parcels(job, splits)
    make_folder(folder)
    mine = store.names()
    keep = mine | {rows.name} if any((folder / name).exists() for name in mine) else set()
    _delete_others(folder, keep)
    if _has_room(job, sum(split.rows for split in splits), sums):
        return True
    _delete_others(folder, set())
    return False


def _has_room(job: Reduction, n_rows: int, sums: beam.CombineFn | None) -> bool:
    """Whether the disk has room for rows or sums, and memory for a dense sum in each worker."""
    needed, rows = ROW_BYTES * n_rows, rows_file(job)
    if isinstance(sums, DenseFn):
        sum_bytes = sums.cells(sums.create_accumulator()).nbytes
        if job.engine.workers_within(job.memory_limit) * sum_bytes > job.memory_limit // 2:
            return False
        needed = min(needed, PARCELS * sum_bytes)
    there = rows.stat().st_size if rows.exists() else 0
    return there + shutil.disk_usage(job.confidential).free >= needed


def _delete_others(folder: Path, keep: Set[str]) -> None:
    """Delete all files that wait, but those of these names."""
    for path in folder.glob(f".{WAITING_FILE}.*"):
        if path.name not in keep:
            path.unlink(missing_ok=True)


def kept_parcels(job: Reduction, splits: Sequence[Split]) -> Store:
    """Return where parcels of these splits of the job wait."""
    cut = [(each.name, each.file.size, each.file.version, each.span, each.rows) for each in splits]
    settings = (type(job).__name__, job.columns.roles(), job.catalogue.names, job.memory_limit)
    workers = job.engine.workers_within(job.memory_limit)
    identity = repr((version("hushrank"), settings, workers, PARCELS, cut)).encode()
    return Store(job.confidential, hmac.digest(job.key.value, identity, _DIGEST))


@dataclass(frozen=True, slots=True)
class Waiting:
    """Rows of a parcel in the file: their place, number of words, and a keyed digest of them."""

    place: int
    words: int
    seal: bytes

    def is_whole(self, spill: SpillFile | None, key: bytes) -> bool:
        """Whether the file has these rows now.

        A power failure may have cut them off or zeroed them, or somebody who lacks the key of the
        reduction put others in their place.
        """
        if spill is None:
            return False
        words = np.empty(self.words, np.uint64)
        try:
            spill.read(words, self.place)
        except OSError:
            return False
        return hmac.compare_digest(_seal_of(words, key), self.seal)


def _seal_of(words: Words, key: bytes) -> bytes:
    return blake3(words.data.cast("B"), key=key).digest()


@dataclass(frozen=True, slots=True)
class Noted(SpillFile):
    """A spill file that notes what is appended to it, in `waiting`, sealed under `key`."""

    key: bytes = field(default=b"", repr=False)
    waiting: list[Waiting] = field(default_factory=list)

    def append(self, words: Words) -> int:
        """As `SpillFile.append`."""
        place = SpillFile.append(self, words)
        self.waiting.append(Waiting(place, words.size, _seal_of(words, self.key)))
        return place


@dataclass(frozen=True, slots=True)
class Parcel:
    """What a worker made of the splits of a parcel.

    Attributes:
        outputs: shuffle blocks with places in the file of rows, or one sum.
        tally: of all rows.
        waiting: rows in the file.
    """

    outputs: list[Any]
    tally: Counter[str]
    waiting: list[Waiting]


@dataclass(frozen=True, slots=True)
class Store:
    """Files of parcels, in the confidential folder.

    Attributes:
        folder: the folder.
        key: keyed digest of all that decides what a parcel is; it names files and seals them.
    """

    folder: str
    key: bytes = field(repr=False)

    def find(self, number: int, spill: SpillFile | None) -> Parcel | None:
        """Return a parcel that waits; None: there is none, or it is damaged."""
        try:
            content = read_whole(self._path(number))
        except OSError:
            return None
        seal, packed = content[:_SEAL_BYTES], content[_SEAL_BYTES:]
        if not hmac.compare_digest(seal, self._seal(number, packed)):
            return None
        parcel: Parcel = pickle.loads(packed)  # sealed under the key of this run
        return parcel if all(each.is_whole(spill, self.key) for each in parcel.waiting) else None

    def keep(self, number: int, parcel: Parcel) -> None:
        """Write a parcel; where that fails, say because the disk is full, the next run makes it."""
        packed = pickle.dumps(parcel, protocol=5)
        with suppress(OSError):
            write_whole(self._path(number), self._seal(number, packed) + packed)

    def _seal(self, number: int, packed: bytes) -> bytes:
        return hmac.digest(self.key, b"%d|" % number + packed, _DIGEST)

    def names(self) -> set[str]:
        """Names of the files of all parcels."""
        return set(map(self._name, range(PARCELS)))

    def _name(self, number: int) -> str:
        digits = hmac.digest(self.key, b"parcel %d" % number, _DIGEST).hex()[:_DIGITS]
        return f".{WAITING_FILE}.{digits}"

    def _path(self, number: int) -> str:
        return f"{self.folder}/{self._name(number)}"


class ReadParcels(beam.PTransform):
    """A pipeline -> what reading and encoding the splits gives, parcel by parcel."""

    def __init__(
        self,
        steps: Steps,
        store: Store,
        splits: Sequence[Split],
        spill: SpillFile | None,
        sums: beam.CombineFn | None,
    ) -> None:
        """Make the transform.

        Args:
            steps: makes the two steps of a bundle, given where its rows wait.
            store: where parcels wait.
            splits: all splits of the input.
            spill: the file where rows of all parcels wait; None: rows need not wait.
            sums: the function that sums the rows of a parcel; None: they wait.
        """
        super().__init__()
        self._step = _OneParcel(steps, store, spill, sums)
        numbered = list(enumerate(splits))
        edges = np.linspace(0, len(numbered), min(PARCELS, len(numbered)) + 1).astype(int).tolist()
        self._parcels = [
            (number, numbered[edges[number] : edges[number + 1]])
            for number in range(len(edges) - 1)
        ]

    def expand(self, pipeline: Any) -> Any:
        """Share out the parcels, and take or make each of them."""
        parcels = pipeline | "Parcels" >> beam.Create(self._parcels)
        return parcels | "OneParcel" >> beam.ParDo(self._step).with_outputs(TALLY, main=ROWS)


class _OneParcel(beam.DoFn):
    """(number, its splits) -> rows or a sum; a tally."""

    def __init__(
        self, steps: Steps, store: Store, spill: SpillFile | None, sums: beam.CombineFn | None
    ) -> None:
        self._steps, self._store, self._spill, self._sums = steps, store, spill, sums

    def process(self, element: tuple[int, list[tuple[int, Split]]]) -> Iterator[Any]:
        number, splits = element
        parcel = self._store.find(number, self._spill)
        if parcel is None:
            parcel = self._made(splits)
            self._store.keep(number, parcel)
        else:
            for _, split in splits:
                note_read(split, before=True)
        yield from parcel.outputs
        yield TaggedOutput(TALLY, parcel.tally)

    def _made(self, splits: list[tuple[int, Split]]) -> Parcel:
        noted = None if self._spill is None else Noted(self._spill.descriptor, key=self._store.key)
        parcel = Parcel([], Counter(), [] if noted is None else noted.waiting)
        total = None if self._sums is None else self._sums.create_accumulator()
        for output in outputs_of_bundle(Both(*self._steps(noted)), splits):
            if isinstance(output, TaggedOutput):
                parcel.tally.update(output.value)
            elif self._sums is None:
                parcel.outputs.append(output)
            else:
                total = self._sums.add_input(total, output)
        if self._sums is not None:
            parcel.outputs.append(_folded(self._sums, total))
        return parcel


def _folded(fn: beam.CombineFn, total: Any) -> Any:
    """A sum as it waits: of dense counts without the blocks that are all zero."""
    return list(blocks_of(fn.cells(total))) if isinstance(fn, DenseFn) else total


class FoldedFn(beam.CombineFn):
    """Sum of what `_folded` made of the parcels, as `fn` sums all of their rows."""

    def __init__(self, fn: beam.CombineFn) -> None:
        self._fn = fn

    def create_accumulator(self) -> Any:
        """An empty sum."""
        return self._fn.create_accumulator()

    def add_input(self, total: Any, part: Any) -> Any:
        """The sum with that of a parcel."""
        if not isinstance(self._fn, DenseFn):
            return self._fn.merge_accumulators([total, part])
        cells, blocks = self._fn.cells(total), part
        for number, (_, block) in blocks:
            found: Block = block
            found.add_to(cells[place_of(number)])
        return self._fn.of_cells(cells)

    def merge_accumulators(self, totals: Iterable[Any]) -> Any:
        """The sum of sums."""
        return self._fn.merge_accumulators(totals)

    def extract_output(self, total: Any) -> Any:
        """The result of `fn`."""
        return self._fn.extract_output(total)
