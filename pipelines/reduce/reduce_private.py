"""Reduction of comparisons to sums of privatised answers: encoded, bounded, randomised, summed.

Only sums of privatised answers leave the graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import pyarrow as pa

from hushrank.estimation.common.matrices import MOST_DENSE_ITEMS
from hushrank.estimation.fit.weighted_pairs import WeightedPairs
from hushrank.pipelines.reduce.kind import (
    Arrays,
    Kind,
    ShuffleBlocks,
    bits_tally,
    partitions_of,
    slices,
)
from hushrank.pipelines.reduce.private_job import ReduceAnswers
from hushrank.privacy.randomness import Purpose, system_bits
from hushrank.transforms.common.encode import Sifted
from hushrank.transforms.common.epsilons import EpsilonTable, read_epsilon_table
from hushrank.transforms.common.randomisation import law_of_answers
from hushrank.transforms.comparisons.pair_cells import answers_of_cells
from hushrank.transforms.comparisons.privatize import (
    Answers,
    PrivateAnswers,
    PrivatePairsFn,
    SparsePrivatePairsFn,
    bound_answers,
    divide_epsilons,
    divide_epsilons_of_kept,
    encode_answers,
    order_of,
    privatize,
    split_by_owner,
)
from hushrank.transforms.engine.beam import beam
from hushrank.transforms.storage.spill_file import ShuffleBlock, Spill, SpillFile, park
from hushrank.transforms.storage.split import Split

PARTITION_ROWS = 1_250_000  # sorted in memory at once: tens of megabytes
MAX_PARTITIONS = 1 << 15


class AnswersKind(Kind[ReduceAnswers]):
    """Rows are `Answers`; `PrivateAnswers` are counted."""

    _table: EpsilonTable | None = None

    def setup(self) -> None:
        job, epsilons = self.job, self.job.epsilons
        if job.law is not None:
            job.law.require(law_of_answers(job.randomisation, epsilons.low, epsilons.high))
        if epsilons.table is not None and self._table is None:
            self._table = read_epsilon_table(epsilons.table)

    @property
    def joins_parts(self) -> bool:
        return False

    def answers_of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = self.job.columns
        return answers_of_cells(batch, columns) if columns.pairs else batch

    def encode(
        self, batch: pa.RecordBatch, place: int, split: Split | None
    ) -> Sifted[Answers | PrivateAnswers]:
        job, coins, keyed_hash = self.job, system_bits(), None
        if self.meets_owners:
            keyed_hash = self.keyed_hash
        found = encode_answers(
            batch,
            job.columns,
            job.catalogue,
            job.epsilons,
            self._table,
            keyed_hash,
            job.ties,
            coins,
        )
        tally = bits_tally(Purpose.COINS, coins.used)
        if keyed_hash is None:
            private = self._private(found.rows)
            return Sifted(private.rows, found.rejects, found.valid, tally=tally | private.tally)
        tally["rows_with_owner"] = len(found.rows)
        return Sifted(found.rows, found.rejects, found.valid, tally=tally)

    def _private(self, rows: Answers, information: int = 0) -> Sifted[PrivateAnswers]:
        job, bits = self.job, system_bits()
        private = privatize(
            rows,
            job.randomisation,
            bits,
            already_private=job.already_private,
            information=information,
        )
        return Sifted(private, tally=bits_tally(Purpose.RANDOMISATION, bits.used))

    def partitions(self, n_rows: int) -> int:
        wanted = min(PARTITION_ROWS, self.memory.rows_at_once)
        return partitions_of(n_rows, wanted, MAX_PARTITIONS)

    def pack(self, rows: list[Answers], partitions: int, spill: SpillFile | None) -> ShuffleBlocks:
        for partition, part in split_by_owner(Answers.concatenated(rows), partitions):
            yield partition, (len(part), park(part.to_blob(), spill))

    def bound(
        self, shuffle_blocks: Iterable[tuple[int, ShuffleBlock]], spill: Spill | None
    ) -> Iterator[Sifted[PrivateAnswers] | Sifted[None]]:
        budget, most = self.job.budget, self.job.budget.max_contributions
        answers = slices(shuffle_blocks, spill, Answers.of_blob, self.memory.rows_at_once)
        if most is None:
            divided: Iterable[tuple[Answers, int]] = divide_epsilons(answers)
        else:
            kept = yield from bound_answers(map(Sifted, answers), most, self.keyed_hash)
            divided = [divide_epsilons_of_kept(kept, per_user=budget.per_user)]
        for rows, information in divided:
            private = self._private(rows, information)
            found = private.rows
            if rows.low_first is not None:
                order = order_of(rows, found, len(self.job.catalogue), self.job.epsilon_cap)
                found = replace(found, order=order)
            yield Sifted(found, tally={"rows_kept": len(rows)} | private.tally)

    def combine(self) -> beam.CombineFn:
        n_items, weighing = len(self.job.catalogue), self.job.weighing
        if n_items > MOST_DENSE_ITEMS:
            return SparsePrivatePairsFn(self.job.randomisation, n_items, weighing)
        ordered = self.job.columns.first is not None
        return PrivatePairsFn(self.job.randomisation, n_items, weighing, ordered=ordered)

    def arrays(self, total: WeightedPairs) -> Arrays:
        return total.arrays()
