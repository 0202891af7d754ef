"""Job that reduces rows to names of items, with the weights that people give them."""

from __future__ import annotations

from dataclasses import dataclass

from hushrank.pipelines.reduce.reduction_job import Reduction
from hushrank.privacy.randomness import BitsUsed, Purpose
from hushrank.transforms.common.schema import ComparisonColumns
from hushrank.transforms.common.written_names import NameRules
from hushrank.transforms.rankings.ranking_columns import (
    AS_GIVEN,
    ListColumns,
    OneRowColumns,
    RankColumns,
    RankReading,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReduceNames(Reduction):
    """Reduction of comparisons or rankings to the names of items in them, without `catalogue`.

    Attributes:
        contest: contest whose rankings alone count; None: all do.
        reading: meaning of ranks of rankings.
        rules: public rules that say which texts are names.
        most_names: c, the most names of one person that count.
        folder: confidential folder of the weights; `confidential` is that of the release, where
            lines are set aside that are no rows.
    """

    columns: ComparisonColumns | RankColumns | ListColumns | OneRowColumns
    rules: NameRules
    most_names: int
    folder: str
    contest: str | None = None
    reading: RankReading = AS_GIVEN

    @property
    def results(self) -> str:
        return self.folder

    @property
    def bits(self) -> BitsUsed:
        return BitsUsed.of(Purpose.ROW_CHOICE, [self.key.source])
