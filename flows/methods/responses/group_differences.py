"""Records of how the difficulty of items differs between the groups of a test (DIF)."""

from __future__ import annotations

from collections.abc import Sequence

from hushrank.estimation.responses.totals_estimate import (
    ItemDifferences,
    TotalsEstimate,
    item_differences,
)
from hushrank.flows.release.sheet_report import GroupDifferences, ItemDifference, Size
from hushrank.privacy.units import NoiseKind


def differences_between(
    names: Sequence[str], found: Sequence[TotalsEstimate], kind: NoiseKind, items: Sequence[str]
) -> tuple[GroupDifferences, ...] | None:
    """Each group against the first one; None: nothing can be told.

    Args:
        names: of the groups.
        found: what each group's own sheets tell.
        kind: law of the noise.
        items: names of the items.
    """
    told = []
    for name, each in zip(names[1:], found[1:], strict=True):
        pair = item_differences(found[0], each, kind, len(names) - 1)
        if pair is not None:
            told.append(_differences_record(name, names[0], pair, items))
    return tuple(told) or None


def _differences_record(
    group: str, against: str, found: ItemDifferences, items: Sequence[str]
) -> GroupDifferences:
    sizes: tuple[Size, ...] = ("A", "B", "C")
    columns = (found.item, found.difference, found.error, found.low, found.high)
    lines = zip(*(c.tolist() for c in (*columns, found.size, found.differs)), strict=True)
    return GroupDifferences(
        group=group,
        against=against,
        items=tuple(
            ItemDifference(
                item=items[item],
                difference=difference,
                error=error,
                low=low,
                high=high,
                size=sizes[size],
                differs=differs,
            )
            for item, difference, error, low, high, size, differs in lines
        ),
    )
