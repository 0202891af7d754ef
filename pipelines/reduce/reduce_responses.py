"""Reduce test answers to measurements: read, encode, meet by person, bound, multiply.

As `pipelines.reduce.reduce_comparisons`, everything here is left of the trust boundary: what it
writes goes to the confidential folder and nowhere else, and noise is drawn afterwards, once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hushrank.pipelines.engine.memory_plan import MemoryPlan
from hushrank.pipelines.reduce.confidential_area import set_aside, set_batch_aside
from hushrank.pipelines.reduce.execution import execute
from hushrank.pipelines.reduce.responses_job import ReduceResponses
from hushrank.pipelines.reduce.results import WriteArrays, WriteTally
from hushrank.privacy.keyed_hash import KeyedHash
from hushrank.transforms.common.catalogue import Catalogue
from hushrank.transforms.common.schema import is_text
from hushrank.transforms.comparisons.aggregate import TallyFn
from hushrank.transforms.engine.beam import TaggedOutput, beam
from hushrank.transforms.responses.answer_sheets import (
    Responses,
    Sheets,
    answers_in,
    blobs_by_person,
    sheets_of_crowd,
    sheets_of_partition,
)
from hushrank.transforms.responses.measurements import MeasurementsFn
from hushrank.transforms.responses.randomized_answers import (
    TALLY,
    RandomizeAnswers,
    RandomizedSums,
    RandomizedSumsFn,
)
from hushrank.transforms.responses.response_columns import ResponseColumns, WideColumns
from hushrank.transforms.responses.responses import encode_responses
from hushrank.transforms.storage.files import FileFormat, InputFile, check_files
from hushrank.transforms.storage.read import Split, plan_splits, read_batches
from hushrank.transforms.storage.spill_file import Parcel, SpillFile, fetch, park

PARTITION_ANSWERS = 2_500_000  # sorted in memory at once: about 200 MB
MAX_PARTITIONS = 1 << 12
CROWD = 2  # times as many answers as a partition should have are not bounded at once
SHEETS = "sheets"
REPEATED = "the same person answered this item again, and it is not clear which answer counts"


def run(job: ReduceResponses) -> None:
    """Execute `job`; afterwards `job.confidential` holds its measurements, tallies and rejects.

    Raises:
        InputError: a file cannot be read, or a row broke a rule under `fail_on_bad_rows`.
    """
    splits = plan(job)
    execute(job, lambda pipeline, spill: build(pipeline, job, splits, spill))


def plan(job: ReduceResponses) -> list[Split]:
    """The shares of the input that are read apart, from footers and headers only."""
    schemas = check_files(job.files, job.columns)
    return [
        split
        for file in job.files
        for split in plan_splits(
            file, _with_cell_types(schemas[file.path], file, job.columns), job.columns
        )
    ]


def _with_cell_types(
    schema: pa.Schema, file: InputFile, columns: ResponseColumns | WideColumns
) -> pa.Schema:
    """The schema, but in JSON Lines an empty cell of the first row has the type of the others."""
    if file.format is not FileFormat.JSONL or not isinstance(columns, WideColumns):
        return schema
    types = [schema.field(name).type for name in columns.items]
    told = next((type_ for type_ in types if not is_text(type_)), pa.string())
    for name in columns.items:
        schema = schema.set(schema.get_field_index(name), pa.field(name, told))
    return schema


def build(
    pipeline: beam.Pipeline,
    job: ReduceResponses,
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
    arrays, tally = reduce(pipeline, job, splits, spill)
    _ = arrays | "WriteMeasurements" >> beam.ParDo(WriteArrays(job.confidential, dict))
    _ = tally | "WriteTally" >> beam.ParDo(WriteTally(job.confidential, job.bits))


def reduce(
    pipeline: beam.Pipeline, job: ReduceResponses, splits: list[Split], spill: SpillFile | None
) -> tuple[Any, Any]:
    """Arrays by name and tallies, one dict each, both confidential."""
    cells = len(job.catalogue) if isinstance(job.columns, WideColumns) else 1
    n_answers = cells * sum(split.rows for split in splits)
    n_partitions = min(max(n_answers // _partition_answers(job), 1), MAX_PARTITIONS)
    read = (
        pipeline
        | "Splits" >> beam.Create(splits)
        | beam.Reshuffle()
        | "ReadEncode"
        >> beam.ParDo(_ReadEncode(job, n_partitions, spill)).with_outputs(TALLY, main="blobs")
    )
    bounded = (
        read["blobs"]
        | "MeetPeople" >> beam.GroupByKey()
        | "Bound" >> beam.ParDo(_Bound(job, spill)).with_outputs(TALLY, main=SHEETS)
    )
    arrays, tallies = _arrays(bounded[SHEETS], job)
    tallies = (read[TALLY], bounded[TALLY], *tallies)
    return arrays, tallies | beam.Flatten() | "Tally" >> beam.CombineGlobally(TallyFn())


def _arrays(sheets: Any, job: ReduceResponses) -> tuple[Any, tuple[Any, ...]]:
    """PCollection[Responses] -> the one dict of arrays that is kept, and tallies."""
    n_items = len(job.catalogue)
    if job.local is None:
        y = sheets | "Measure" >> beam.CombineGlobally(MeasurementsFn(n_items))
        return y | "Name" >> beam.Map(_named), ()
    randomise = beam.ParDo(RandomizeAnswers(job.local, n_items))
    random = sheets | "Randomise" >> randomise.with_outputs(TALLY, main=SHEETS)
    sums = (
        random[SHEETS]
        | "RandomiseOnce" >> beam.Reshuffle()  # a retry of what follows must not flip again
        | "Sum" >> beam.CombineGlobally(RandomizedSumsFn(job.local, n_items))
        | "Name" >> beam.Map(RandomizedSums.arrays)
    )
    return sums, (random[TALLY],)


def _named(y: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
    return {"y": y}


class _ReadEncode(beam.DoFn):
    """Split -> (partition, parcel of answers by person)."""

    def __init__(self, job: ReduceResponses, n_partitions: int, spill: SpillFile | None) -> None:
        self._job = job
        self._n_partitions = n_partitions
        self._spill = spill

    def process(self, split: Split) -> Iterator[Any]:
        job = self._job
        keyed_hash = KeyedHash(job.key.value)
        tally = Counter({"rows_read": 0, "rows_rejected": 0})
        for number, batch in enumerate(read_batches(split)):
            encoded = encode_responses(batch.rows, job.columns, job.catalogue, keyed_hash)
            rejects = [] if encoded.rejects is None else [encoded.rejects]
            tally.update(set_batch_aside(job.confidential, split, number, batch, rejects))
            blobs = blobs_by_person(encoded.rows, len(job.catalogue), self._n_partitions)
            for partition, blob in blobs:
                yield partition, (answers_in(blob), park(blob, self._spill))
        yield TaggedOutput(TALLY, tally)


class _Bound(beam.DoFn):
    """(partition, parcels of answers) -> Responses within the bound, each person's together."""

    def __init__(self, job: ReduceResponses, spill: SpillFile | None) -> None:
        self._job = job
        self._spill = spill

    def process(self, element: tuple[int, Iterable[tuple[int, Parcel]]]) -> Iterator[Any]:
        partition, parcels = element[0], list(element[1])
        for part, sheets in enumerate(self._sheets(parcels)):
            tally = dict(sheets.tally)
            if len(sheets.refused):
                table = _refused_table(sheets.refused, self._job.catalogue)
                set_aside(self._job.confidential, f"partition {partition}.{part}", table)
                tally["rows_rejected"] = len(table)
            if len(sheets.kept):
                yield sheets.kept
            yield TaggedOutput(TALLY, tally)

    def _sheets(self, parcels: list[tuple[int, Parcel]]) -> Iterator[Sheets]:
        job = self._job
        rules = (len(job.catalogue), job.max_answers, job.duplicates, KeyedHash(job.key.value))
        blind = job.local is not None

        def blobs() -> Iterator[bytes]:
            return (fetch(parcel, self._spill) for _, parcel in parcels)

        n_shares = -(-sum(n for n, _ in parcels) // (CROWD * _partition_answers(job)))
        if n_shares > 1:
            yield from sheets_of_crowd(blobs, n_shares, *rules, blind=blind)
        else:
            yield sheets_of_partition(list(blobs()), *rules, blind=blind)


def _partition_answers(job: ReduceResponses) -> int:
    """Responses that are bounded at once, about."""
    return min(PARTITION_ANSWERS, MemoryPlan.of(job.memory_limit).rows_at_once)


def _refused_table(rows: Responses, catalogue: Catalogue) -> pa.Table:
    names = np.array(catalogue.names, object)
    return pa.table(
        {
            "item": pa.array(names[rows.item], pa.string()),
            "correct": pa.array(rows.correct),
            "reason": pa.array([REPEATED] * len(rows), pa.string()),
        }
    )
