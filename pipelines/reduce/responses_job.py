"""Job of a reduction of test answers. Without Beam, like `reduction_job`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hushrank.estimation.responses.sheet_totals import SheetShape
from hushrank.pipelines.reduce.reduction_job import Reduction
from hushrank.privacy.randomness import BitSource, BitsUsed, Purpose
from hushrank.transforms.common.epsilons import EpsilonSource
from hushrank.transforms.common.randomisation import LocalAnswers
from hushrank.transforms.responses.answer_sheets import Duplicates, SheetRules
from hushrank.transforms.responses.responses import ResponseColumns, WideColumns

if TYPE_CHECKING:  # loaded by tests with points alone
    from hushrank.estimation.responses.point_totals import PointShape


@dataclass(frozen=True, slots=True, kw_only=True)
class ReduceResponses(Reduction):
    """Reduction of test answers to pairwise differential measurements, or to totals.

    Attributes:
        max_answers: K, the most answers of one person that count.
        duplicates: rule for which of several answers of one person to one item counts.
        local: randomise answers before they are counted; None: count them exactly.
        sheets: rule for which sheets count as a whole; None: all, and a blank was not asked.
        epsilons: source of people's epsilons, with their levels; None: all have one.
        totals: count right less wrong answers, or points, and raw scores instead, of whole sheets;
            None: pairs.
    """

    columns: ResponseColumns | WideColumns
    max_answers: int
    duplicates: Duplicates
    local: LocalAnswers | None = None
    sheets: SheetRules | None = None
    totals: SheetShape | PointShape | None = None
    epsilons: EpsilonSource | None = None

    @property
    def most_points(self) -> int:
        """Most points of an item; 1: answers are right or wrong."""
        return 1 if self.sheets is None else max(self.sheets.points, default=1)

    @property
    def bits(self) -> BitsUsed:
        used = BitsUsed.of(Purpose.ROW_CHOICE, [self.key.source])
        if self.local is not None:
            used |= BitsUsed.of(Purpose.RANDOMISATION, [BitSource.SYSTEM])
        return used
