"""Parts that one kind of answer plugs into the graph of `pipelines.reduce.reduce`.

Workers report in tallies, next to the tallies of rows, which random bits they drew. Whether a
worker draws can depend on rows (there may be no tie), so a report alone is confidential. The
release gets the report together with all sources that the job may draw from. For code that draws as
it should, the result is the same whatever the rows are.

The last steps of every reduction write its arrays and its tally into the confidential folder.

Run the graph of a reduction on an engine.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import hashlib
import os
import signal
import tempfile
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hushrank.pipelines.engine.runner import Engine, MemoryPlan, Runner
from hushrank.pipelines.reduce.reduction_job import (
    EXACT_FILE,
    REJECTS_FOLDER,
    Reduction,
    is_reduced,
    read_tally,
    write_bits,
    write_tally,
)
from hushrank.privacy.keyed_hash import KeyedHash
from hushrank.privacy.randomness import BitSource, BitsUsed, Purpose
from hushrank.transforms import system
from hushrank.transforms.common.encode import Sifted
from hushrank.transforms.common.local_files import open_local
from hushrank.transforms.common.schema import InputError
from hushrank.transforms.common.sorting import InSlices, Rows, Words
from hushrank.transforms.comparisons.votes import PeopleRows, people_of_blob, people_of_rows
from hushrank.transforms.engine import in_process
from hushrank.transforms.engine.beam import beam
from hushrank.transforms.storage.files import is_remote
from hushrank.transforms.storage.places import (
    OWNER_ONLY_FILE,
    make_folder,
    npz_bytes,
    write_whole,
)
from hushrank.transforms.storage.read import plan_files
from hushrank.transforms.storage.spill_file import (
    SPILL_PREFIX,
    WAITING_FILE,
    ShuffleBlock,
    Spill,
    SpillFile,
    SpillFolder,
    fetch,
    park,
)
from hushrank.transforms.storage.split import Head, Split

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions


ROWS, TALLY = "rows", "tally"  # what a step gives: what goes on, and what is told of it
PREFIX, SEPARATOR = "bits", "|"
Arrays = dict[str, NDArray[Any]]
ENCODE_ROWS = 1 << 18  # rows at a time: near a processor's cache, and long between threads' turns
Job = TypeVar("Job", bound=Reduction)
Encoded = TypeVar("Encoded", bound=Sized)
ShuffleBlocks = Iterator[tuple[int, Any]]  # partitions, and what one reader has for each


def bits_tally(purpose: Purpose, sources: Iterable[BitSource]) -> dict[str, int]:
    """A tally of what was drawn for `purpose`; the sources are `RandomBits.used`."""
    return {SEPARATOR.join((PREFIX, purpose, source)): 1 for source in sources}


def split_bits(tally: Mapping[str, int]) -> tuple[BitsUsed, dict[str, int]]:
    """Split a sum of tallies into the bits that it reports and the rest."""
    uses, rest = set(), {}
    for name, count in tally.items():
        prefix, *use = name.split(SEPARATOR)
        if prefix == PREFIX and len(use) == 2:
            uses.add((Purpose(use[0]), BitSource(use[1])))
        else:
            rest[name] = count
    return BitsUsed(frozenset(uses)), rest


class WriteArrays(beam.DoFn):
    """The one result -> `EXACT_FILE`, whole; a retry overwrites."""

    def __init__(self, folder: str, arrays_of: Callable[[Any], Arrays]) -> None:
        self._folder = folder
        self._arrays_of = arrays_of

    def process(self, result: Any) -> None:
        """Write the arrays of `result`."""
        write_whole(f"{self._folder}/{EXACT_FILE}", npz_bytes(**self._arrays_of(result)))


class WriteTally(beam.DoFn):
    """Sink of what bits drew -> `BITS_FILE`; and of what happened to the rows -> `TALLY_FILE`."""

    def __init__(self, folder: str, bits: BitsUsed) -> None:
        """Args: the confidential folder; what may be drawn, whatever the rows are."""
        self._folder = folder
        self._bits = bits

    def process(self, tally: dict[str, int]) -> None:
        """Write both."""
        drawn, rows = split_bits(tally)
        write_bits(self._folder, self._bits | drawn)
        write_tally(self._folder, rows)


@dataclass(frozen=True, slots=True)
class Part:
    """Rows that were read together, and what beside them is no row.

    Attributes:
        source: place where it was read: the same if it is read again.
        number: number of the part there.
        place: number of its first row there, above `ROW_BITS` bits the number of the source.
        found: the rows, which may be none.
        split: the split from which it was read; None: no file.
    """

    source: str
    number: int
    place: int
    found: Sifted[Any]
    split: Split | None = None


class Kind(ABC, Generic[Job]):
    """Rules by which rows of one kind are encoded, bounded and counted, for one job.

    "Rows" are of the kind's own type. A worker has its own copy and calls `setup` first.
    """

    def __init__(self, job: Job) -> None:
        self.job = job

    @property
    def meets_owners(self) -> bool:
        """Whether one owner's rows must meet. If not, `encode` returns what is counted."""
        return self.job.meets_owners

    @property
    def reads_again(self) -> bool:
        """Whether rows that `bound` refuses are read again, to be set aside with all columns."""
        return False

    @property
    def joins_parts(self) -> bool:
        """Whether `encode` may take rows of several files at once, whose places say nothing.

        Not if it draws random bits for each row: what it draws must be used.
        """
        return not self.reads_again

    @property
    def encode_rows(self) -> int:
        """Rows that are encoded at a time."""
        return ENCODE_ROWS

    @property
    def memory(self) -> MemoryPlan:
        """Plan of how this machine's memory, or that of a worker of another engine, is shared."""
        limit = self.job.memory_limit
        if self.job.engine.runner is Runner.LOCAL:
            return MemoryPlan.of(limit, self.job.engine.workers_within(limit))
        return MemoryPlan.of_worker(limit)

    @property
    def keyed_hash(self) -> KeyedHash:
        """The run's secret hash."""
        return KeyedHash(self.job.key.value)

    def splits(self, heads: Sequence[Head] | None = None) -> list[Split]:
        """The slices of the input that are read apart, from footers and headers only.

        Args:
            heads: heads of the files; None: they are read here.

        Raises:
            InputError: an input file cannot be read.
        """
        return plan_files(self.job.files, self.job.columns, heads)

    def setup(self) -> None:
        """Make this copy ready to encode and to bound."""

    def answers_of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows of which each is one answer, of rows as they were read."""
        return batch

    @abstractmethod
    def encode(self, batch: pa.RecordBatch, place: int, split: Split | None) -> Sifted[Any]:
        """Rows of a batch; those that break a rule are beside them.

        Args:
            batch: rows of `answers_of`.
            place: number of its first row; the rows after it have the next ones.
            split: the split from which it was read; None: no file.
        """

    def votes_against(self, batch: pa.RecordBatch, split: Split | None) -> Sifted[Any]:
        """Return votes that rows whose time cannot be read do not fit; no rows if nobody votes.

        Whoever they name has them every night, and a person has one vote a night all the same.

        Args:
            batch: such rows, as they were read.
            split: the split from which they were read.
        """
        return Sifted(())

    @abstractmethod
    def partitions(self, n_rows: int) -> Any:
        """Return how owners are divided, if about so many rows are read: for all readers alike."""

    def number_of(self, partitions: Any) -> int:
        """Number of partitions."""
        number: int = partitions
        return number

    def joins(self, partitions: Any) -> list[tuple[int, Any]]:
        """Shuffle blocks that meet those of the readers, whatever is read; their partitions."""
        return []

    @abstractmethod
    def pack(self, rows: list[Any], partitions: Any, spill: SpillFile | None) -> ShuffleBlocks:
        """Cut what `encode` returned into shuffle blocks, one for each partition that has rows."""

    @abstractmethod
    def bound(
        self, shuffle_blocks: Iterable[Any], spill: Spill | None
    ) -> Iterator[Sifted[Any] | Any]:
        """Yield what is counted of one partition, and which rows turned out to break a rule.

        Of a kind with `joins` also what became of them, which is no `Sifted`.
        """

    @abstractmethod
    def combine(self) -> beam.CombineFn:
        """Return the function that sums what is counted."""

    @abstractmethod
    def arrays(self, total: Any) -> Arrays:
        """The sum by name, as it is stored; of a kind with `joins`, (a key, the sum and what became
        of all of them, in any order)."""

    def check(self, n_rows: int) -> None:
        """Look at the results, once they are there.

        Args:
            n_rows: number of rows that `partitions` was told.

        Raises:
            RuntimeError: the results cannot be right.
        """


@dataclass(frozen=True, slots=True)
class Voted(Generic[Encoded]):
    """Valid rows, and beside them how many rows of each person fit (`privacy.look`).

    Attributes:
        rows: result of `encode` without votes.
        people: the votes.
    """

    rows: Encoded
    people: PeopleRows

    def __len__(self) -> int:
        return len(self.rows) + len(self.people)


def with_votes(
    found: Sifted[Any], batch: pa.RecordBatch, user: str | None, keyed_hash: KeyedHash
) -> Sifted[Any]:
    """Return the result of encoding a batch, with the votes of the people whom its rows name.

    Where no column names people, each row is another person's, and its vote is in the tally.
    """
    if user is not None:
        people = people_of_rows(batch, user, found, keyed_hash)
        return replace(found, rows=Voted(found.rows, people))
    unfit = 0 if found.valid is None else int(np.count_nonzero(~found.valid))
    votes = {"people_fit": len(batch) - unfit, "people_unfit": unfit}
    return replace(found, tally=found.tally | votes)


def votes_against(
    none: Sifted[Any], batch: pa.RecordBatch, user: str | None, keyed_hash: KeyedHash
) -> Sifted[Any]:
    """Return votes like `with_votes`, for rows of which none is valid.

    Args:
        none: result of encoding no rows, with votes beside them.
        batch, user, keyed_hash: as for `with_votes`.
    """
    rows = none.rows.rows if isinstance(none.rows, Voted) else none.rows
    return with_votes(Sifted(rows, valid=np.zeros(len(batch), np.bool_)), batch, user, keyed_hash)


def pack_votes(
    rows: Sequence[Voted[Any]], partitions: int, first: int, spill: SpillFile | None
) -> ShuffleBlocks:
    """Shuffle blocks of the votes beside `rows`, in partitions of their own, from `first` on."""
    people = PeopleRows.merged([each.people for each in rows])
    for place, number, blob in people.blobs(partitions):
        yield first + place, (number, park(blob, spill))


def votes_met(
    shuffle_blocks: Sequence[tuple[int, ShuffleBlock]], spill: Spill | None, *, whole: bool = False
) -> Sifted[None] | None:
    """The votes of the people of a partition, in the tally; None if it is one of rows.

    Args:
        shuffle blocks, spill: shuffle blocks and spill file of the partition.
        whole: see `PeopleRows.n_fit`.
    """
    people = PeopleRows.none()
    for _, shuffle_block in shuffle_blocks:
        more = people_of_blob(fetch(shuffle_block, spill))
        if more is None:
            return None
        people = PeopleRows.merged([people, more])
    fit = people.n_fit(whole=whole)
    return Sifted(None, tally={"people_fit": fit, "people_unfit": len(people) - fit})


def slices(
    shuffle_blocks: Iterable[tuple[int, ShuffleBlock]],
    spill: Spill | None,
    of_blob: Callable[[bytes], Rows],
    most: int,
    decides: Callable[[Rows], Words] | None = None,
) -> InSlices[Rows]:
    """Rows of a partition, slice by slice.

    Args:
        shuffle blocks: shuffle blocks, each with its size.
        spill: file where they wait, if anywhere.
        of_blob: reads the rows of a shuffle block.
        most, decides: as in `InSlices`.
    """
    sizes, parts = zip(*shuffle_blocks, strict=True)
    return InSlices(sizes, lambda k: of_blob(fetch(parts[k], spill)), most, decides)


def partitions_of(n_rows: int, wanted: int, most: int) -> int:
    """Into how many partitions rows are cut, of about `wanted` rows each."""
    return min(max(n_rows // wanted, 1), most)


_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -2, -3, -8  # GNU libc's mallopt
_LARGEST_KEPT = 32 << 20  # bytes of one array; the most that GNU libc takes from its own heap
_FREE_KEPT = 512 << 20
_STEP = 16 << 20
Build = Callable[[beam.Pipeline, Spill | None], None]


@functools.cache
def keep_freed_memory() -> None:
    """Let new arrays of some MB reuse the memory of freed ones; without GNU libc, do nothing.

    By default GNU libc returns such memory to the system and takes new memory, page by page, for
    the next array: this costs a third of the time in which a million rows are reduced. All threads
    share one heap, because a heap for each would keep as much again. Memory in use does not change.
    The process may keep up to 512 MiB that it does not use, for the next arrays only.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # another libc, or another system
        return
    for parameter, value in (
        (_ARENA_MAX, 1),
        (_MMAP_THRESHOLD, _LARGEST_KEPT),
        (_TRIM_THRESHOLD, _FREE_KEPT),
        (_TOP_PAD, _STEP),
    ):
        mallopt(parameter, value)


def execute(job: Reduction, build: Build) -> None:
    """Build the graph of `job` with `build` and run it to its end.

    Args:
        job: the reduction.
        build: adds the graph to a pipeline, given where rows may wait.

    Raises:
        InputError: a file cannot be read, or a row broke a rule under `fail_on_bad_rows`.
        EngineEndedError: the engine ended the job before it had counted everything.
        RuntimeError: the engine gave up.
    """
    if job.engine.runner is Runner.LOCAL:
        _run_here(job, build)
    else:
        _run_elsewhere(job, build)
    if job.fail_on_bad_rows and read_tally(job.results).get("rows_rejected"):
        raise InputError(
            "input: some rows break a rule (on_bad_rows: fail). They are in"
            f" {job.confidential}/{REJECTS_FOLDER} with the reason; nothing was released or spent."
        )


def _run_here(job: Reduction, build: Build) -> None:
    keep_freed_memory()
    workers = in_process.with_workers(job.engine.workers_within(job.memory_limit))
    try:
        with workers, _spill_file(job) as spill, _pipeline(job.engine) as pipeline:
            build(pipeline, spill)
    except InputError as error:  # Beam appends the name of the stage
        raise InputError(str(error).partition(" [while running")[0]) from None


class EngineEndedError(RuntimeError):
    """How an engine ended a job before it was done. The text holds nothing that rows decide."""


# By the state that Beam reports; a dry run of Dataflow's runner has none.
_ENDED = {
    None: "Beam checked the job and did not send it (dry run): no row was read",
    "RUNNING": "the job took longer than runner.max_hours, so it was stopped",
}


def _run_elsewhere(job: Reduction, build: Build) -> None:
    """Run the graph on another engine; if this process is ended, the engine's job ends too.

    The engine shuffles the rows; only rows of heavy people wait in files. If a process that died or
    did not wait has left a finished job of the same release, its results are used.
    """
    if is_reduced(job.results):
        return
    from hushrank.pipelines.engine.options import reachable  # loads Beam

    with _interrupted_by_termination(), reachable(job.engine) as engine:
        pipeline = _pipeline(engine)
        build(pipeline, SpillFolder(job.confidential))
        result = pipeline.run()
        try:
            state = result.wait_until_finish(1000 * engine.most_seconds)
        except KeyboardInterrupt:
            result.cancel()
            raise
        if state == "RUNNING":
            result.cancel()
    if state != "DONE":
        raise EngineEndedError(_ENDED.get(state, f"the engine ended the job as {state}"))


@contextlib.contextmanager
def _interrupted_by_termination() -> Iterator[None]:
    """Let SIGTERM end what is going on, as Ctrl-C does, so that it can be tidied up."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are for the main thread alone
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _pipeline(engine: Engine) -> beam.Pipeline:
    if in_process.is_chosen():
        return beam.Pipeline()
    return beam.Pipeline(options=_beam_options()(engine))


@functools.cache
def _beam_options() -> Callable[[Engine], PipelineOptions]:
    from hushrank.pipelines.engine.options import pipeline_options  # loads Beam

    gc.freeze()  # objects that stay: a full collection would look at all of them, for 0.1 s
    return pipeline_options


@contextlib.contextmanager
def _spill_file(job: Reduction) -> Iterator[SpillFile | None]:
    """Memory and a file for the shuffle, in reach of every worker; None: rows need neither.

    Where the job may be resumed, the file has a name, and all rows wait there. Otherwise it is in
    the confidential folder; if that is in Cloud Storage, in the engine's `spill`,
    and where none is named there is memory only.

    Raises:
        InputError: `spill` cannot be used.
    """
    if job.resumes and job.meets_owners:
        with open_rows(job) as rows:
            yield SpillFile(rows)
        return
    folder: str | None = job.confidential
    if is_remote(job.confidential):
        folder = job.engine.spill
    limit = job.memory_limit
    room = MemoryPlan.of(limit, job.engine.workers_within(limit)).waiting_bytes
    with contextlib.ExitStack() as open_files:
        descriptor = memory = None
        if folder is not None:
            descriptor = open_files.enter_context(_nameless(folder, job)).fileno()
        if (opened := system.memory_file(SPILL_PREFIX)) is not None:
            memory = open_files.enter_context(opened).fileno()
        if descriptor is None and memory is None:
            yield None
            return
        yield SpillFile(descriptor, memory, 0 if memory is None else room)


def rows_file(job: Reduction) -> Path:
    """The file with a name where rows of a job wait that may be resumed, under its key."""
    name = hashlib.blake2b(b"waiting rows", key=job.key.value, digest_size=16).hexdigest()
    return Path(job.confidential) / f".{WAITING_FILE}.{name}"


@contextlib.contextmanager
def open_rows(job: Reduction) -> Iterator[int]:
    """Open the file where the rows of all parcels wait; a later run finds them there.

    Raises:
        OSError: it cannot be opened or made.
    """
    path = rows_file(job)
    make_folder(path.parent)
    descriptor = open_local(str(path), os.O_RDWR | os.O_CREAT, mode=OWNER_ONLY_FILE)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _nameless(folder: str, job: Reduction) -> IO[bytes]:
    """A file without a name, for its owner only."""
    try:
        system.make_private_folder(Path(folder))
        return tempfile.TemporaryFile(dir=folder, prefix=SPILL_PREFIX)
    except OSError as error:
        if folder == job.confidential:
            raise
        raise InputError(
            f"runner.spill: {folder}: rows cannot wait there: {error.strerror}; name a folder of"
            " this machine that can be written"
        ) from None
