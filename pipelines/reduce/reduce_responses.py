"""Reduction of test answers to measurements: encoded, packed by person, bounded, multiplied."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hushrank.pipelines.reduce.kind import (
    Arrays,
    Kind,
    ShuffleBlocks,
    bits_tally,
    pack_votes,
    partitions_of,
    slices,
    votes_against,
    votes_met,
    with_votes,
)
from hushrank.pipelines.reduce.responses_job import ReduceResponses
from hushrank.privacy.randomness import Purpose, system_bits
from hushrank.transforms.common.encode import Sifted
from hushrank.transforms.common.epsilons import EpsilonTable, read_epsilon_table
from hushrank.transforms.common.schema import is_text
from hushrank.transforms.engine.beam import beam
from hushrank.transforms.responses.answer_counts import (
    MeasurementsFn,
    RandomizedSums,
    RandomizedSumsFn,
    SheetTotalsFn,
    randomized_sums,
)
from hushrank.transforms.responses.answer_sheets import (
    Responses,
    answers_in,
    blobs_by_person,
    bound_sheets,
    item_numbers,
    responses_of_blob,
)
from hushrank.transforms.responses.responses import ResponseColumns, WideColumns, encode_responses
from hushrank.transforms.storage.files import FileFormat, InputFile
from hushrank.transforms.storage.read import plan_files, read_heads
from hushrank.transforms.storage.spill_file import ShuffleBlock, Spill, SpillFile, park
from hushrank.transforms.storage.split import Head, Split

PARTITION_ANSWERS = 2_500_000  # sorted in memory at once: about 200 MB
MAX_PARTITIONS = 1 << 12
CROWD = 2  # times as many answers as a partition should have are not bounded at once


class ResponsesKind(Kind[ReduceResponses]):
    """Rows are `Responses`, which are counted, or `RandomizedSums` of them."""

    _table: EpsilonTable | None = None

    def setup(self) -> None:
        """Read the table of epsilons, if there is one."""
        epsilons = self.job.epsilons
        if epsilons is not None and epsilons.table is not None and self._table is None:
            self._table = read_epsilon_table(epsilons.table)

    def splits(self, heads: Sequence[Head] | None = None) -> list[Split]:
        job, columns = self.job, self.job.columns
        heads = read_heads(job.files, columns) if heads is None else heads
        known = zip(job.files, heads, strict=True)
        typed = [_with_cell_types(head, file, columns) for file, head in known]
        return plan_files(job.files, columns, typed)

    def encode(self, batch: pa.RecordBatch, place: int, split: Split | None) -> Sifted[Any]:
        """`Responses`, with votes beside them if people vote."""
        job = self.job
        how = (job.sheets, job.epsilons, self._table)
        found = encode_responses(batch, job.columns, job.catalogue, self.keyed_hash, *how)
        if not job.people_vote:
            return found
        return with_votes(found, batch, job.columns.user, self.keyed_hash)

    def votes_against(self, batch: pa.RecordBatch, split: Split | None) -> Sifted[Any]:
        if not self.job.people_vote:
            return Sifted(())
        none = self.encode(batch[:0], 0, split)
        return votes_against(none, batch, self.job.columns.user, self.keyed_hash)

    def partitions(self, n_rows: int) -> int:
        cells = len(self.job.catalogue) if isinstance(self.job.columns, WideColumns) else 1
        return partitions_of(cells * n_rows, self._partition_answers, MAX_PARTITIONS)

    @property
    def _partition_answers(self) -> int:
        """Responses that are bounded at once, about."""
        return min(PARTITION_ANSWERS, self.memory.rows_at_once)

    def pack(self, rows: list[Any], partitions: int, spill: SpillFile | None) -> ShuffleBlocks:
        if self.job.people_vote:
            yield from pack_votes(rows, partitions, partitions, spill)
            rows = [each.rows for each in rows]
        answers = Responses.concatenated(rows)
        sheets = self.job.sheets
        n_codes = len(self.job.catalogue) if sheets is None else sheets.n_codes
        for partition, blob in blobs_by_person(answers, n_codes, partitions, self.job.most_points):
            yield partition, (answers_in(blob), park(blob, spill))

    def bound(
        self, shuffle_blocks: Iterable[tuple[int, ShuffleBlock]], spill: Spill | None
    ) -> Iterator[Sifted[Any]]:
        job, bits, shuffle_blocks = self.job, system_bits(), list(shuffle_blocks)
        if job.people_vote and (votes := votes_met(shuffle_blocks, spill)) is not None:
            yield votes
            return
        answers = slices(
            shuffle_blocks,
            spill,
            partial(responses_of_blob, most_points=job.most_points),
            CROWD * self._partition_answers,
            item_numbers,
        )
        kept = yield from bound_sheets(
            answers,
            job.catalogue,
            job.max_answers,
            job.duplicates,
            self.keyed_hash,
            blind=job.local is not None,
            rules=job.sheets,
        )
        if job.local is None:
            yield Sifted(kept)
        elif len(kept):
            sums = randomized_sums(kept, job.local, len(job.catalogue), bits)
            yield Sifted(sums, tally=bits_tally(Purpose.RANDOMISATION, bits.used))

    def combine(self) -> beam.CombineFn:
        n_items = len(self.job.catalogue)
        if self.job.totals is not None:
            groups = None if self.job.sheets is None else self.job.sheets.groups
            return SheetTotalsFn(self.job.totals, None if groups is None else len(groups))
        if self.job.local is None:
            return MeasurementsFn(n_items)
        return RandomizedSumsFn(self.job.local, n_items)

    def arrays(self, total: RandomizedSums | NDArray[np.int64]) -> Arrays:
        if isinstance(total, RandomizedSums):
            return total.arrays()
        return {"y" if self.job.totals is None else "sheets": total}


def _with_cell_types(head: Head, file: InputFile, columns: ResponseColumns | WideColumns) -> Head:
    """The head, but in JSON Lines an empty cell of the first row has the type of the others."""
    if file.format is not FileFormat.JSONL or not isinstance(columns, WideColumns):
        return head
    schema = head.schema
    types = [schema.field(name).type for name in columns.items]
    told = next((type_ for type_ in types if not is_text(type_)), pa.string())
    for name in columns.items:
        schema = schema.set(schema.get_field_index(name), pa.field(name, told))
    return replace(head, schema=schema)
