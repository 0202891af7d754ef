"""Sure orders of items: a table of the best items, and the tiers that follow."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

from hushrank.flows.release.boards import better_lines
from hushrank.flows.release.release import Release
from hushrank.flows.release.wording import name_list

MOST = 60  # items shown; a longer ranking shows its best
MOST_TIERS = 12
BETTER, WORSE, UNKNOWN = "+", "−", "·"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tier:
    """Items that share a place.

    Attributes:
        place: place of the tier, such as `2=`.
        names: names of the first few items, and how many more there are.
    """

    place: str
    names: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SureTable:
    """The table as the page shows it.

    Attributes:
        names: names of the items, best first.
        rows: one row of signs for each item: whether the row's item is surely better than the
            column's, surely worse, or neither; empty on the diagonal. No rows if only items further
            down have a sure order.
        left_out: number of items of the ranking that are not in the table.
        tiers: the listed tiers, from the top.
        more_tiers: number of tiers that are not listed.
    """

    names: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left_out: int
    tiers: tuple[Tier, ...]
    more_tiers: int


def sure_table_of(release: Release) -> SureTable | None:
    """The table; None if the release does not say who is surely better, or no order is sure."""
    if not (release.informative and release.says("surely_above")):
        return None
    better = better_lines([line.surely_above or "" for line in release.ranking])
    if not better.any():
        return None
    shown, places = release.ranking[:MOST], release.places()
    signs = tuple(
        tuple(
            "" if row == column else _sign(bool(better[row, column]), bool(better[column, row]))
            for column in range(len(shown))
        )
        for row in range(len(shown))
    )
    tiers = _tiers(release, places)
    return SureTable(
        names=tuple(line.shown for line in shown),
        rows=signs if better[: len(shown), : len(shown)].any() else (),
        left_out=len(release.ranking) - len(shown),
        tiers=tuple(tiers[:MOST_TIERS]),
        more_tiers=max(len(tiers) - MOST_TIERS, 0),
    )


def _sign(better: bool, worse: bool) -> str:
    return BETTER if better else WORSE if worse else UNKNOWN


def _tiers(release: Release, places: list[str]) -> list[Tier]:
    lines = zip(places, release.ranking, strict=True)
    return [
        Tier(place=place, names=name_list([line.shown for _, line in group]))
        for place, group in groupby(lines, key=lambda pair: pair[0])
    ]
