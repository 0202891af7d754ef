"""Reduction of rows to names of items: found in cells, met by person, bounded, weighed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from hushrank.pipelines.reduce.kind import Arrays, Kind, ShuffleBlocks, partitions_of
from hushrank.pipelines.reduce.names_job import ReduceNames
from hushrank.transforms.common.encode import Sifted
from hushrank.transforms.common.schema import ComparisonColumns
from hushrank.transforms.comparisons.mentions import (
    Mentions,
    NameWeightsFn,
    mentions_of_blob,
    mentions_of_rows,
    rows_of_lists,
    text_of,
)
from hushrank.transforms.engine.beam import beam
from hushrank.transforms.rankings.ranking_columns import (
    ListColumns,
    RankColumns,
    of_contest,
    ranked_rows,
)
from hushrank.transforms.storage.spill_file import ShuffleBlock, Spill, SpillFile, fetch, park
from hushrank.transforms.storage.split import Split

PARTITION_ROWS = 1_000_000  # sorted in memory at once
MAX_PARTITIONS = 1 << 12
BYTES_OF_NAME = 400  # of a distinct name in memory while weights are added up, at most
_NOTHING = pa.array([], pa.large_string())
NAMES, ENDS, WEIGHT = "names", "ends", "weights"  # arrays of the result


class NamesKind(Kind[ReduceNames]):
    """Rows are `Mentions`; what is counted are tables of names and weights."""

    def encode(self, batch: pa.RecordBatch, place: int, split: Split | None) -> Sifted[Mentions]:
        job, columns = self.job, self.job.columns
        if columns.user is None:
            raise ValueError("names are found for people: a column of users is needed")
        if isinstance(columns, ComparisonColumns):
            items = [columns.left, columns.right]
        else:
            items = columns.item_names()
            if job.contest is not None and columns.contest is not None:
                batch = of_contest(batch, columns.contest, job.contest)
        if isinstance(columns, RankColumns):
            batch = ranked_rows(batch, columns.rank, job.reading)
        if isinstance(columns, ListColumns):
            batch, items = rows_of_lists(batch, columns.user, columns.ranking), [columns.ranking]
        named = dict.fromkeys(items)
        found = mentions_of_rows(batch, columns.user, named, job.rules, self.keyed_hash)
        return Sifted(found.bounded(job.most_names))

    def partitions(self, n_rows: int) -> int:
        wanted = min(PARTITION_ROWS, self.memory.rows_at_once)
        return partitions_of(n_rows, wanted, MAX_PARTITIONS)

    def pack(self, rows: list[Mentions], partitions: int, spill: SpillFile | None) -> ShuffleBlocks:
        mine = Mentions.concatenated(rows).bounded(self.job.most_names)
        for partition, size, blob in mine.blobs(partitions):
            yield partition, (size, park(blob, spill))

    def bound(
        self, shuffle_blocks: Iterable[tuple[int, ShuffleBlock]], spill: Spill | None
    ) -> Iterator[Sifted[pa.Table]]:
        """Yield the weights of a partition; no person ever has more than c names in memory."""
        waiting: list[Mentions] = []
        for _, block in shuffle_blocks:
            waiting.append(mentions_of_blob(fetch(block, spill)))
            if sum(map(len, waiting)) > self.memory.rows_at_once:
                waiting = [Mentions.concatenated(waiting).bounded(self.job.most_names)]
        found = Mentions.concatenated(waiting).bounded(self.job.most_names)
        yield Sifted(found.weighted())

    def combine(self) -> beam.CombineFn:
        return NameWeightsFn(self.job.memory_limit // BYTES_OF_NAME)

    def arrays(self, total: pa.Table) -> Arrays:
        """Names as UTF-8, one after the other, with their ends; and the weights of all names."""
        ends, content = text_of(pa.concat_arrays(total["name"].chunks or [_NOTHING]))
        weights = total["weight"].to_numpy().astype(np.int64)
        return {NAMES: content[ends[0] : ends[-1]], ENDS: ends[1:] - ends[0], WEIGHT: weights}
