"""Reduce a comparison log to sums of privatised answers: read, encode, privatise, aggregate.

Only sums of privatised answers leave this pipeline. They wait in the confidential folder, beside
the rows that broke a rule and the tallies, until the run marks them as released; if it never does,
nobody has seen them. Nothing is logged and no Beam metrics are kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from hushrank.estimation.common.matrices import MOST_DENSE_ITEMS
from hushrank.estimation.fit.weighted_pairs import WeightedPairs
from hushrank.pipelines.engine.memory_plan import MemoryPlan
from hushrank.pipelines.reduce.confidential_area import set_batch_aside
from hushrank.pipelines.reduce.execution import execute
from hushrank.pipelines.reduce.private_job import ReduceAnswers
from hushrank.pipelines.reduce.results import WriteArrays, WriteTally
from hushrank.privacy.bits_used import Purpose
from hushrank.privacy.keyed_hash import KeyedHash
from hushrank.privacy.randomness import system_bits
from hushrank.transforms.common.bits_tally import bits_tally
from hushrank.transforms.common.epsilons import read_epsilon_table
from hushrank.transforms.common.randomisation import law_of_answers
from hushrank.transforms.comparisons.aggregate import TallyFn
from hushrank.transforms.comparisons.privatize import (
    PrivatePairsFn,
    SparsePrivatePairsFn,
    privatize,
)
from hushrank.transforms.comparisons.true_answers import (
    Answers,
    People,
    encode_answers,
    share_epsilons,
    split_by_owner,
    thin_crowds,
)
from hushrank.transforms.engine.beam import TaggedOutput, beam
from hushrank.transforms.storage.read import Split, plan_files, read_batches
from hushrank.transforms.storage.spill_file import Parcel, SpillFile, fetch, park

PARTITION_ROWS = 1_250_000  # sorted in memory at once: tens of megabytes
MAX_PARTITIONS = 1 << 15

TALLY, ANSWERS = "tally", "answers"


def run(job: ReduceAnswers) -> None:
    """Execute `job`; afterwards `job.confidential` holds its sums, tallies and rejects.

    Raises:
        InputError: a file cannot be read, or a row broke a rule under `fail_on_bad_rows`.
    """
    splits = plan(job)
    execute(job, lambda pipeline, spill: build(pipeline, job, splits, spill))


def plan(job: ReduceAnswers) -> list[Split]:
    """The shares of the input that are read apart, from footers and headers only."""
    return plan_files(job.files, job.columns)


def build(
    pipeline: beam.Pipeline,
    job: ReduceAnswers,
    splits: list[Split],
    spill: SpillFile | None = None,
) -> None:
    """Add the whole graph of `job` to `pipeline`.

    Args:
        pipeline: of any engine.
        job: what to reduce.
        splits: of `plan`.
        spill: where answers wait for the others of their person, if all workers are in this
            process; None: the engine carries them.
    """
    n_rows = sum(split.rows for split in splits)
    wanted = min(PARTITION_ROWS, MemoryPlan.of(job.memory_limit).rows_at_once)
    n_partitions = min(max(n_rows // wanted, 1), MAX_PARTITIONS)
    read = (
        pipeline
        | "Splits" >> beam.Create(splits)
        | beam.Reshuffle()
        | "ReadEncode"
        >> beam.ParDo(_ReadEncode(job, n_partitions, spill)).with_outputs(TALLY, main=ANSWERS)
    )
    answers, tallies = read[ANSWERS], [read[TALLY]]
    if job.shares.meet:
        shared = (
            answers
            | "MeetOwners" >> beam.GroupByKey()
            | "Share" >> beam.ParDo(_Share(job, spill)).with_outputs(TALLY, main=ANSWERS)
        )
        answers = shared[ANSWERS]
        tallies.append(shared[TALLY])
    n_items = len(job.catalogue)
    summed = SparsePrivatePairsFn if n_items > MOST_DENSE_ITEMS else PrivatePairsFn
    sums = answers | "Sum" >> beam.CombineGlobally(summed(job.randomisation, n_items))
    tally = tuple(tallies) | beam.Flatten() | "Tally" >> beam.CombineGlobally(TallyFn())
    _ = sums | "WriteSums" >> beam.ParDo(WriteArrays(job.confidential, WeightedPairs.arrays))
    _ = tally | "WriteTally" >> beam.ParDo(WriteTally(job.confidential, job.bits))


class _ReadEncode(beam.DoFn):
    """Split -> PrivateAnswers, or (partition, (answers, parcel of them)) where owners must meet."""

    def __init__(self, job: ReduceAnswers, n_partitions: int, spill: SpillFile | None) -> None:
        self._job = job
        self._n_partitions = n_partitions
        self._spill = spill

    def setup(self) -> None:
        _require_law(self._job)
        path = self._job.epsilons.table
        self._table = None if path is None else read_epsilon_table(path)
        self._hash = KeyedHash(self._job.key.value) if self._job.shares.meet else None

    def process(self, split: Split) -> Iterator[Any]:
        job, coins, bits = self._job, system_bits(), system_bits()
        n_partitions = self._n_partitions
        tally = Counter({"rows_read": 0, "rows_rejected": 0})
        for number, batch in enumerate(read_batches(split)):
            encoded = encode_answers(
                batch.rows, job.columns, job.catalogue, job.epsilons, self._table, self._hash,
                job.ties, coins,
            )  # fmt: skip
            rejects = [] if encoded.rejects is None else [encoded.rejects]
            tally.update(set_batch_aside(job.confidential, split, number, batch, rejects))
            if self._hash is None:
                yield privatize(
                    encoded.rows, job.randomisation, bits, already_private=job.already_private
                )
                continue
            tally["rows_with_owner"] += len(encoded.rows)
            for partition, rows in split_by_owner(self._thinned(encoded.rows), n_partitions):
                yield partition, (len(rows), park(rows.to_blob(), self._spill))
        drawn = bits_tally(Purpose.COINS, coins.used)
        drawn |= bits_tally(Purpose.RANDOMISATION, bits.used)
        yield TaggedOutput(TALLY, dict(tally) | drawn)

    def _thinned(self, rows: Answers) -> Answers:
        most = self._job.shares.max_contributions
        if most is None or self._hash is None:
            return rows
        return thin_crowds(rows, most, self._hash)


class _Share(beam.DoFn):
    """(partition, parcels of true answers) -> PrivateAnswers, each with its share of epsilon."""

    def __init__(self, job: ReduceAnswers, spill: SpillFile | None) -> None:
        self._job = job
        self._spill = spill

    def setup(self) -> None:
        _require_law(self._job)

    def process(self, element: tuple[int, Iterable[tuple[int, Parcel]]]) -> Iterator[Any]:
        job, bits = self._job, system_bits()
        sizes, parcels = zip(*element[1], strict=True)
        crowded = sum(sizes) > MemoryPlan.of(job.memory_limit).rows_at_once
        in_parts = crowded and job.shares.max_contributions is None
        kept = 0
        for rows, information in (self._streamed if in_parts else self._at_once)(parcels):
            kept += len(rows)
            yield privatize(
                rows,
                job.randomisation,
                bits,
                already_private=job.already_private,
                information=information,
            )
        drawn = bits_tally(Purpose.RANDOMISATION, bits.used)
        yield TaggedOutput(TALLY, {"rows_kept": kept} | drawn)

    def _at_once(self, parcels: Sequence[Parcel]) -> Iterator[tuple[Answers, int]]:
        rows = Answers.of_blobs(fetch(parcel, self._spill) for parcel in parcels)
        yield share_epsilons(rows, self._job.shares, KeyedHash(self._job.key.value))

    def _streamed(self, parcels: Sequence[Parcel]) -> Iterator[tuple[Answers, int]]:
        """Twice through the parcels: nobody's answers need to be in memory together."""
        people = People.of(self._parts(parcels))
        information = people.information
        for rows in self._parts(parcels):
            yield people.share(rows), information
            information = 0  # it was passed on

    def _parts(self, parcels: Sequence[Parcel]) -> Iterator[Answers]:
        return (Answers.of_blobs([fetch(parcel, self._spill)]) for parcel in parcels)


def _require_law(job: ReduceAnswers) -> None:
    if job.law is not None:
        epsilons = job.epsilons
        job.law.require(law_of_answers(job.randomisation, epsilons.low, epsilons.high))
