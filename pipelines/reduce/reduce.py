"""The graph of every reduction: read, encode, meet by owner, bound, count, write.

Everything here is left of the trust boundary. What it writes (exact arrays, rows that broke a rule,
tallies) goes to the confidential folder and nowhere else; it keeps no Beam metrics and logs
nothing, because a row count is private data too. Noise on exact counts is drawn afterwards, in one
place, once: an engine that retries a bundle can then never draw a second noisy copy, and a failure
while reading costs no budget. Where answers are privatised one by one, only sums of private ones
leave the graph, and they wait in the confidential folder until the run marks them as released.

What differs between comparisons, private answers, responses and rankings is a `Kind`.

An engine brings all shuffle blocks of a partition together: in the memory of its own workers, and
then in that of ours, before anything of them can be bounded. Without heavy people that is a fair
part of the rows. A shuffle block that is much larger than a fair part of what its reader has goes
to a file that all workers reach, and only its place travels; whoever bounds the partition reads it
piece by piece, as on one machine. A reader decides by its own rows alone, so nobody has to know who
is heavy.

What travels of a partition is then at most `TIMES` fair parts of all rows, and `SMALL_BYTES` of
each shuffle block.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hushrank.pipelines.engine.runner import Runner
from hushrank.pipelines.reduce.kind import (
    ROWS,
    TALLY,
    Kind,
    Part,
    WriteArrays,
    WriteTally,
    execute,
)
from hushrank.pipelines.reduce.reduction_job import set_aside
from hushrank.pipelines.reduce.together import Together
from hushrank.transforms.common.encode import UNLISTED_ITEM, Sifted, text_of_rejects
from hushrank.transforms.common.schema import InputError
from hushrank.transforms.common.sorting import Words
from hushrank.transforms.comparisons.aggregate import TallyFn
from hushrank.transforms.comparisons.bound import CONFLICT
from hushrank.transforms.comparisons.shuffle import OwnedShuffleBlock
from hushrank.transforms.engine import in_process
from hushrank.transforms.engine.beam import GlobalWindows, TaggedOutput, beam
from hushrank.transforms.engine.in_process import ahead
from hushrank.transforms.storage.files import source_of
from hushrank.transforms.storage.files_read import counted, note_read
from hushrank.transforms.storage.read import read_batches
from hushrank.transforms.storage.spill_file import Spill, SpillFile, SpillFolder
from hushrank.transforms.storage.split import Split, is_small

if TYPE_CHECKING:
    from hushrank.pipelines.reduce.names_job import ReduceNames
    from hushrank.pipelines.reduce.private_job import ReduceAnswers
    from hushrank.pipelines.reduce.rankings_job import CountRankings, ReduceRankings
    from hushrank.pipelines.reduce.reduction_job import ReduceComparisons
    from hushrank.pipelines.reduce.responses_job import ReduceResponses

TIMES = 2
SMALL_BYTES = 1 << 15  # no file for so few, of which a partition's share differs by chance
MANY_ROWS = 1 << 26  # about as many rows are expected of a Beam transform
CHUNK_ROWS = 1 << 18  # least number of rows that make the shuffle blocks of one reader
CHUNK_BITS = (
    8  # 2^this times as many rows: more make larger shuffle blocks, as each has a cost of its own
)
ROW_BITS = 40  # bits of the place where a row was read; the others are the number of its split
AGAIN, MET = "again", "met"
Job: TypeAlias = (
    "ReduceComparisons | ReduceAnswers | ReduceResponses | ReduceRankings | CountRankings"
    " | ReduceNames"
)
KINDS = {  # module and class of the kind of each job; a process loads those that it needs
    "ReduceComparisons": ("hushrank.pipelines.reduce.reduce_comparisons", "ComparisonsKind"),
    "ReduceAnswers": ("hushrank.pipelines.reduce.reduce_private", "AnswersKind"),
    "ReduceResponses": ("hushrank.pipelines.reduce.reduce_responses", "ResponsesKind"),
    "ReduceRankings": ("hushrank.pipelines.reduce.reduce_rankings", "RankingsKind"),
    "CountRankings": ("hushrank.pipelines.reduce.reduce_rankings", "CountRankingsKind"),
    "ReduceNames": ("hushrank.pipelines.reduce.reduce_names", "NamesKind"),
}


def lightened(
    shuffle_blocks: Sequence[tuple[int, Any]], n_partitions: int, folder: SpillFolder
) -> Iterator[tuple[int, Any]]:
    """Yield the shuffle blocks; the heavy ones wait in a file.

    Args:
        shuffle blocks: all that one reader made of its rows at one time: partitions, and what a
            `Kind` packs for each; they hold their rows.
        n_partitions: among which rows are divided.
        folder: folder where the file is written, before the first shuffle block is returned.

    Raises:
        OSError: the file cannot be written.
    """
    rows = [_rows_of(shuffle_block) for _, shuffle_block in shuffle_blocks]
    fair = TIMES * sum(part.nbytes for part in rows) // n_partitions + SMALL_BYTES
    heavy = [number for number, part in enumerate(rows) if part.nbytes > fair]
    places = folder.write([rows[number] for number in heavy]) if heavy else []
    place_of = dict(zip(heavy, places, strict=True))
    for number, (partition, shuffle_block) in enumerate(shuffle_blocks):
        if number not in place_of:
            yield partition, shuffle_block
        elif isinstance(shuffle_block, OwnedShuffleBlock):
            yield partition, replace(shuffle_block, content=place_of[number])
        else:
            yield partition, (shuffle_block[0], (place_of[number], rows[number].size))


def _rows_of(shuffle_block: Any) -> Words:
    if not isinstance(shuffle_block, OwnedShuffleBlock):
        return np.frombuffer(shuffle_block[1], np.uint64)
    if not isinstance(shuffle_block.content, np.ndarray):
        raise ValueError("the parcel's rows are in a file already")
    return shuffle_block.content


def run(job: Job) -> None:
    """Execute `job`; afterwards `job.confidential` holds its arrays, tallies and rejects.

    Raises:
        InputError: a file cannot be read, or a row broke a rule under `fail_on_bad_rows`.
        RuntimeError: the engine gave up, or lost rows.
    """
    kind, splits = _planned(job)
    if job.resumes:
        from hushrank.pipelines.reduce.parcels import may_wait

        sums = None if kind.meets_owners else kind.combine()
        job = replace(job, resumes=may_wait(job, splits, sums))
        kind = kind_of(replace(job, heads=None))
    with counted(splits):
        execute(job, lambda pipeline, spill: _add(pipeline, kind, splits, spill))
    kind.check(_rows_in(splits))


def build(pipeline: beam.Pipeline, job: Job) -> None:
    """Add the graph of `job` to `pipeline`, for an engine whose workers share nothing.

    Raises:
        InputError: an input file cannot be read.
    """
    kind, splits = _planned(job)
    _add(pipeline, kind, splits, SpillFolder(job.confidential))


def _planned(job: Job) -> tuple[Kind[Any], list[Split]]:
    """The kind of the rows, and the splits; what the splits were made of, no worker is sent."""
    kind = kind_of(replace(job, heads=None))
    return kind, kind.splits(job.heads)


def kind_of(job: Job) -> Kind[Any]:
    """Return the special parts of reducing the rows of `job`."""
    module, name = KINDS[type(job).__name__]
    kind: Kind[Any] = getattr(import_module(module), name)(job)
    return kind


def _add(
    pipeline: beam.Pipeline, kind: Kind[Any], splits: list[Split], spill: Spill | None
) -> None:
    """Add the whole graph to `pipeline`.

    Args:
        pipeline: a pipeline of any engine.
        kind: kind of the rows.
        splits: splits of the input.
        spill: where rows wait for the others of their owner: all, if all workers are in this
            process, or those of heavy people. None: the engine carries all of them.
    """
    n_rows, source = _rows_in(splits), source_of(kind.job.files)
    read: beam.PTransform = Read(splits)
    if source is not None:
        from hushrank.pipelines.reduce.source import ReadSource, guard_source  # only Beam has them

        n_rows, read = MANY_ROWS, ReadSource(source, kind.job.columns)
    if kind.job.resumes:
        from hushrank.pipelines.reduce.parcels import ReadParcels, kept_parcels

        store = kept_parcels(kind.job, splits)
        steps = partial(_steps_of_parcel, kind, len(splits), n_rows)
        sums = None if kind.meets_owners else kind.combine()
        waiting = spill if isinstance(spill, SpillFile) else None
        encoded = pipeline | "Parcels" >> ReadParcels(steps, store, splits, waiting, sums)
    else:
        encoded = pipeline | "Read" >> read | "Encode" >> Encode(kind, n_rows, spill)
    counted, tallies = encoded[ROWS], [encoded[TALLY]]
    if kind.meets_owners:
        joins = kind.joins(kind.partitions(n_rows))
        bounded = counted | "Bound" >> Bound(kind, spill, joins)
        counted = (bounded[ROWS], bounded[MET]) if joins else bounded[ROWS]
        tallies.append(bounded[TALLY])
    total = counted | "Count" >> Count(kind)  # first: the stand-in keeps no row that is summed
    if kind.meets_owners and kind.reads_again and source is None:  # a transform is read once
        _ = bounded[AGAIN] | "SetAside" >> SetAside(kind.job.confidential, splits)
    _ = (total, *tallies) | "Write" >> Write(kind)
    if source is not None:
        guard_source(pipeline, source)


class Read(beam.PTransform):
    """A pipeline -> the `Part`s of the splits."""

    def __init__(self, splits: list[Split]) -> None:
        super().__init__()
        self._splits = splits

    def expand(self, pipeline: Any) -> beam.PCollection:
        """Share out the splits and read each of them."""
        splits = pipeline | "Splits" >> beam.Create(list(enumerate(self._splits)))
        read = beam.ParDo(_ReadSplit(len(self._splits))).with_outputs(main=ROWS)
        return (splits | "ReadSplit" >> read)[ROWS]


class Encode(beam.PTransform):
    """`Part`s -> (partition, shuffle block), or counts if owners need not meet; tallies."""

    def __init__(self, kind: Kind[Any], n_rows: int, spill: Spill | None = None) -> None:
        """Args: the kind of the rows; about how many rows there are; as in `_add`."""
        super().__init__()
        self._step = _Encode(kind, n_rows, spill)

    def expand(self, parts: beam.PCollection) -> Any:
        """Run one step; its result for a part waits in the worker for more of the bundle."""
        return parts | "EncodeRows" >> beam.ParDo(self._step).with_outputs(TALLY, main=ROWS)


class Bound(beam.PTransform):
    """(partition, shuffle block) -> counts; tallies, and what `_Bound` gives beside them."""

    def __init__(
        self, kind: Kind[Any], spill: Spill | None = None, joins: Sequence[tuple[int, Any]] = ()
    ) -> None:
        """Args: the kind of the rows; as in `_add`; what meets the blocks, as of `Kind.joins`."""
        super().__init__()
        self._step = _Bound(kind, spill)
        self._joins = joins

    def expand(self, shuffle_blocks: beam.PCollection) -> Any:
        """Bring all rows of an owner together, and keep those within the bounds."""
        if self._joins:
            known = shuffle_blocks.pipeline | "KnownPeople" >> beam.Create(self._joins)
            shuffle_blocks = (shuffle_blocks, known) | "WithPeople" >> beam.Flatten()
        met = shuffle_blocks | "MeetOwners" >> beam.GroupByKey()
        outputs = beam.ParDo(self._step).with_outputs(TALLY, AGAIN, MET, main=ROWS)
        return met | "BoundRows" >> outputs


class SetAside(beam.PTransform):
    """(number of split, rows in conflict) -> files of these rows with all their columns."""

    def __init__(self, confidential: str, splits: list[Split]) -> None:
        super().__init__()
        self._step = _ReadAgain(confidential, splits)

    def expand(self, places: beam.PCollection) -> beam.PCollection:
        """Read each split again that has such rows."""
        return places | "MeetInSplit" >> beam.GroupByKey() | "ReadAgain" >> beam.ParDo(self._step)


class Count(beam.PTransform):
    """Sum of what is counted, exact; of pairs with those who met the rows, both sums together.

    One file holds both, so they are of the same rows, whatever an engine repeats.
    """

    def __init__(self, kind: Kind[Any]) -> None:
        super().__init__()
        summed = kind.combine()
        if kind.job.resumes and not kind.meets_owners:
            from hushrank.pipelines.reduce.parcels import FoldedFn

            summed = FoldedFn(summed)
        self._sum: beam.PTransform = beam.CombineGlobally(summed)
        if kind.job.engine.runner is not Runner.LOCAL:
            from hushrank.pipelines.reduce.dense_total import DenseTotal, is_large

            self._sum = DenseTotal(summed) if is_large(summed) else self._sum

    def expand(self, counted: Any) -> beam.PCollection:
        """Sum; in blocks if that is worth it."""
        if not isinstance(counted, tuple):
            return counted | "Sum" >> self._sum
        rows, met = counted
        parts = (rows | "Sum" >> self._sum, met) | "WithMet" >> beam.Flatten()
        return parts | "OneKey" >> beam.Map(_one_key) | "Together" >> beam.GroupByKey()


class Write(beam.PTransform):
    """(The exact sum, tallies, ...) -> files of the confidential folder, and nothing else."""

    def __init__(self, kind: Kind[Any]) -> None:
        super().__init__()
        self._kind = kind

    def expand(self, results: tuple[beam.PCollection, ...]) -> beam.PCollection:
        """Write the arrays, and the sum of all tallies."""
        kind, (total, *tallies) = self._kind, results
        folder = kind.job.results
        tally = (
            tuple(tallies)
            | "Tallies" >> beam.Flatten()
            | "Tally" >> beam.CombineGlobally(TallyFn()).without_defaults()
        )
        _ = total | "WriteCounts" >> beam.ParDo(WriteArrays(folder, kind.arrays))
        return tally | "WriteTally" >> beam.ParDo(WriteTally(folder, kind.job.bits))


def _steps_of_parcel(
    kind: Kind[Any], n_splits: int, n_rows: int, spill: Spill | None
) -> tuple[beam.DoFn, beam.DoFn]:
    """The two steps that a parcel's splits go through, one after the other."""
    return _ReadSplit(n_splits), _Encode(kind, n_rows, spill)


def _one_key(element: Any) -> tuple[int, Any]:
    return 0, element


def _rows_in(splits: list[Split]) -> int:
    return sum(split.rows for split in splits)


class _Sifting(beam.DoFn):
    """A step that some rows do not get past."""

    def __init__(self, kind: Kind[Any], spill: Spill | None) -> None:
        self._kind = kind
        self._spill = spill

    def setup(self) -> None:
        self._kind.setup()

    def _valid(self, found: Sifted[Any], source: str, tally: Counter[str]) -> Any:
        """The valid rows of `found`; those beside them that broke a rule are set aside.

        The one place where that happens, to rows that break a rule as they are read and to rows
        that break one once those of their owner have met.
        """
        tally.update(found.tally)
        if found.rejects is not None:
            job = self._kind.job
            if job.confidential:
                set_aside(job.confidential, source, found.rejects)
            elif job.fail_on_bad_rows:
                raise InputError(f"input: a row breaks a rule: {found.rejects['reason'][0]}")
            tally["rows_rejected"] += len(found.rejects)
            tally["rows_unlisted"] += int(
                pc.sum(pc.equal(found.rejects["reason"], UNLISTED_ITEM), min_count=0).as_py()
            )
        return found.rows


class _ReadSplit(beam.DoFn):
    """(number, Split) -> its `Part`s, first an empty one: an empty split counts no row, too."""

    def __init__(self, n_splits: int) -> None:
        # Where each split has two processors of this machine, one reads what the other encodes.
        self._ahead = in_process.is_chosen() and 2 * n_splits <= in_process.local_workers()

    def process(self, element: tuple[int, Split]) -> Iterator[Part]:
        number, split = element
        place, nothing = number << ROW_BITS, {"rows_read": 0, "rows_rejected": 0}
        yield Part(split.name, 0, place, Sifted((), tally=nothing), split)
        found = read_split(split)
        for part, rows in enumerate(ahead(found) if self._ahead else found):
            yield Part(split.name, part, place, rows, split)
            place += len(rows.rows)
        note_read(split)


def chunk_rows(kind: Kind[Any], n_rows: int) -> int:
    """Rows that make the shuffle blocks of one reader, if it reads so many."""
    return max(CHUNK_ROWS, min(n_rows >> CHUNK_BITS, kind.memory.rows_at_once))


class _Encode(_Sifting):
    """Function that `Encode` applies to each `Part`."""

    def __init__(self, kind: Kind[Any], n_rows: int, spill: Spill | None) -> None:
        super().__init__(kind, spill)
        self._partitions = kind.partitions(n_rows)
        self._chunk_rows = chunk_rows(kind, n_rows)
        # Elsewhere an engine may repeat a bundle of other parts, and would set rows aside twice.
        self._joins = in_process.is_chosen() and kind.joins_parts

    def start_bundle(self) -> None:
        # parts of several splits: many small files, large shuffle blocks
        self._waiting: list[Any] = []
        self._n_waiting = 0
        self._small = Together()

    def process(self, part: Part) -> Iterator[Any]:
        tally = Counter[str]()
        rows = self._valid(part.found, f"{part.source}#{part.number}", tally)
        if len(rows):
            read, rows = len(rows), self._kind.answers_of(rows)
            tally["rows_read"] += len(rows) - read
        if part.found.timeless is not None:
            votes = self._kind.votes_against(part.found.timeless, part.split)
            tally.update(votes.tally)
            if len(votes.rows):
                yield from self._sent(votes.rows)
        if len(rows) and not (self._joins and is_small(rows)):
            yield from self._encoded(part, rows, tally)
        elif len(rows):
            if not self._small.takes(part, rows):
                yield from self._encoded_together(tally)
            self._small.add(part, rows)
        yield TaggedOutput(TALLY, tally)

    def finish_bundle(self) -> Iterator[Any]:
        tally = Counter[str]()
        last = [*self._encoded_together(tally), *self._shuffle_blocks()]
        if tally:
            last.append(TaggedOutput(TALLY, tally))
        yield from map(GlobalWindows.windowed_value, last)

    def _encoded_together(self, tally: Counter[str]) -> Iterator[Any]:
        """Encode small parts as one batch; where a row breaks a rule, each by itself to name it."""
        small, self._small = self._small, Together()
        batch = small.batch()
        if batch is not None:
            encoded = self._kind.encode(batch, 0, small.parts[0][0].split)
            if encoded.rejects is None:
                yield from self._sent(self._valid(encoded, "", tally))
                return
        for part, rows in small.parts:
            yield from self._encoded(part, rows, tally)

    def _encoded(self, part: Part, rows: Any, tally: Counter[str]) -> Iterator[Any]:
        first = part.place & (1 << ROW_BITS) - 1
        for start in range(0, len(rows), self._kind.encode_rows):
            batch = rows.slice(start, self._kind.encode_rows)
            encoded = self._kind.encode(batch, part.place + start, part.split)
            valid = self._valid(encoded, f"{part.source}#row {first}+{start}", tally)
            yield from self._sent(valid)

    def _sent(self, rows: Any) -> Iterator[Any]:
        if not self._kind.meets_owners:
            yield rows
            return
        self._waiting.append(rows)
        self._n_waiting += len(rows)
        if self._n_waiting >= self._chunk_rows:
            yield from self._shuffle_blocks()

    def _shuffle_blocks(self) -> Iterator[tuple[int, Any]]:
        waiting, self._waiting, self._n_waiting = self._waiting, [], 0
        if not waiting:
            return
        if not isinstance(self._spill, SpillFolder):
            yield from self._kind.pack(waiting, self._partitions, self._spill)
            return
        shuffle_blocks = list(self._kind.pack(waiting, self._partitions, None))
        yield from lightened(shuffle_blocks, self._kind.number_of(self._partitions), self._spill)


def read_split(split: Split) -> Iterator[Sifted[pa.RecordBatch]]:
    """Rows of `split`, and beside them what is no row or cannot be read."""
    for batch in read_batches(split):
        refused = [*batch.rejects]
        if batch.malformed:
            refused.append(text_of_rejects(batch.malformed, split.schema))
        for table in refused:
            yield Sifted(batch.rows[:0], table, tally={"rows_read": len(table)})
        tally = {"rows_read": len(batch.rows)}
        yield Sifted(batch.rows, tally=tally, timeless=batch.timeless)


class _Bound(_Sifting):
    """(partition, shuffle blocks) -> what is counted; tallies, (split, rows that are to be set
    aside), and
    what becomes of those who met the rows."""

    def process(self, element: tuple[int, Iterable[Any]]) -> Iterator[Any]:
        partition, shuffle_blocks = element
        for part, found in enumerate(self._kind.bound(shuffle_blocks, self._spill)):
            if not isinstance(found, Sifted):
                yield TaggedOutput(MET, found)
                continue
            tally: Counter[str] = Counter()
            rows = self._valid(found, f"partition {partition}.{part}", tally)
            if rows is not None:
                yield rows
            yield TaggedOutput(TALLY, tally)
            if found.places is not None:
                for number in np.unique(found.places >> ROW_BITS).tolist():
                    mine = found.places[found.places >> ROW_BITS == number]
                    yield TaggedOutput(AGAIN, (number, mine - (number << ROW_BITS)))


class _ReadAgain(beam.DoFn):
    """(number of split, rows in conflict): read these again, to set all their columns aside."""

    def __init__(self, confidential: str, splits: list[Split]) -> None:
        self._confidential = confidential
        self._splits = splits

    def process(self, element: tuple[int, Iterable[NDArray[np.int64]]]) -> None:
        split, rows = self._splits[element[0]], np.sort(np.concatenate(list(element[1])))
        tables, first = [], 0
        for batch in read_batches(split):
            mine = rows[np.searchsorted(rows, first) :] - first
            mine = mine[: np.searchsorted(mine, len(batch.rows))]
            tables.append(pa.Table.from_batches([batch.rows]).take(pa.array(mine)))
            first += len(batch.rows)
        table = pa.concat_tables(tables)
        reasons = pa.array([CONFLICT] * len(table), pa.string())
        set_aside(
            self._confidential, f"{split.name}#conflicts", table.append_column("reason", reasons)
        )
