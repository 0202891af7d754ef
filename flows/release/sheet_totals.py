"""The record of noisy totals of answer sheets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Self

from pydantic import Field

from hushrank.estimation.responses.sheet_totals import SheetTotals
from hushrank.flows.release.released import Figure, ReleasedRecord, require_noisy


class ReleasedSheetTotals(ReleasedRecord):
    """Noisy right less wrong answers of each item, and noisy numbers of sheets by raw score.

    Attributes:
        answer_weight: what a right answer adds to its item, and a wrong one takes off.
        sheet_weight: what a sheet adds to the scores of its booklet, to one or to two neighbours.
        right_minus_wrong: by item, in catalogue order, noise included.
        booklets: the items of each booklet; null: every sheet has all items.
        knots: of each booklet, the raw scores that have a number of sheets.
        sheets: of each booklet, these numbers, noise included.
    """

    shows = (Figure.ITEM_MAP,)
    kind: Literal["sheet-totals"] = "sheet-totals"
    answer_weight: int = Field(ge=1)
    sheet_weight: int = Field(ge=1)
    right_minus_wrong: dict[str, int]
    booklets: tuple[tuple[str, ...], ...] | None
    knots: tuple[tuple[int, ...], ...]
    sheets: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, totals: SheetTotals, items: Sequence[str]) -> Self:
        """The record of noisy `totals`.

        Raises:
            ValueError: the totals are confidential, or have another number of items.
        """
        require_noisy(totals, items)
        shape = totals.shape
        booklets = range(len(shape.booklets))
        everything = shape.booklets == (tuple(range(len(items))),)
        named = tuple(tuple(items[code] for code in codes) for codes in shape.booklets)
        return cls(
            answer_weight=shape.answer_weight,
            sheet_weight=shape.sheet_weight,
            right_minus_wrong=dict(zip(items, totals.right_minus_wrong.tolist(), strict=True)),
            booklets=None if everything else named,
            knots=tuple(tuple(shape.knots(booklet).tolist()) for booklet in booklets),
            sheets=tuple(tuple(part.tolist()) for part in totals.histograms),
        )
