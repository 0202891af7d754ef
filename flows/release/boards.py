"""Lines of a ranking, and the rankings of groups: what they are made of, how they are published."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from operator import attrgetter
from typing import Any, ClassVar, NamedTuple

from pydantic import ConfigDict, Field

from hushrank.estimation.common.chances import RankChances
from hushrank.estimation.common.estimate import Estimate
from hushrank.flows.release.scale import Scale, published
from hushrank.flows.release.statistics import Released
from hushrank.flows.release.sure import CHANCE_DECIMALS, chances_of, surely_above
from hushrank.flows.statement.record import Extended, Record, finite_or_text

OWN_DECIMALS = 4
SHARE_DECIMALS = 6  # of `noise_share`


class Interval(NamedTuple):
    """A score with one of its intervals."""

    score: float
    low: float
    high: float


# No pydantic model: each would take four times the memory, and a ranking may have a million lines.
@dataclass(frozen=True, slots=True, kw_only=True)
class RankedItem:
    """One line of the ranking; `Estimate` defines the numbers.

    Releases of earlier versions lack the fields from `low_all` to `p_top`, because those versions
    said nothing about all items at once.

    Attributes:
        item: the item as in the rows.
        label: what people read instead, if the catalogue has a label.
        low, high, rank_low, rank_high: 95 % intervals of this item alone.
        group: no two items of one group are reliably ordered (`wording.RELIABLY`).
        low_all, high_all, rank_low_all, rank_high_all: intervals that hold for all items at once
            with 95 %.
        surely_above: lines of the ranking, counted from 1, whose items this item is surely better
            than; all such statements hold together with 95 %: `3..7 9`; empty: none.
        p_best: chance to be the best.
        p_top: chance to be among the best k; k is `top` of the release.
        noise_share: share of privacy noise in the variance of the score, the rest being sampling;
            only where nights of a stream are compared by it.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    item: str
    label: str | None = None
    rank: int | float
    score: float
    low: Extended
    high: Extended
    rank_low: int
    rank_high: int
    group: int
    low_all: Extended | None = None
    high_all: Extended | None = None
    rank_low_all: int | None = None
    rank_high_all: int | None = None
    surely_above: str | None = None
    p_best: float | None = None
    p_top: float | None = None
    noise_share: float | None = None

    @property
    def at_once(self) -> Interval:
        """The score with the interval that holds for all items at once, or else its own."""
        if self.low_all is None or self.high_all is None:
            return Interval(self.score, self.low, self.high)
        return Interval(self.score, self.low_all, self.high_all)

    @property
    def sure_ranks(self) -> tuple[int, int]:
        """The ranks that hold for all items at once; in an older release, for this item alone."""
        if self.rank_low_all is None or self.rank_high_all is None:
            return self.rank_low, self.rank_high
        return self.rank_low_all, self.rank_high_all

    @property
    def shown(self) -> str:
        """What people read: the label, or else the item."""
        return self.item if self.label is None else self.label

    def content(self) -> dict[str, Any]:
        """The value of each field, by its name."""
        return dict(zip(FIELDS, VALUES(self), strict=True))

    def moved(self, onto: Callable[[float], float]) -> RankedItem:
        """The line with its numbers on another scale."""
        names = ("score", "low", "high", "low_all", "high_all")
        ends: dict[str, Any] = {
            name: onto(old) for name in names if (old := getattr(self, name)) is not None
        }
        return replace(self, **ends)


FIELDS = tuple(field.name for field in fields(RankedItem))
OPTIONAL_FIELDS = tuple(f.name for f in fields(RankedItem) if f.default is not MISSING)
VALUES = attrgetter(*FIELDS)


def open_intervals(lines: Sequence[RankedItem]) -> int:
    """How many intervals have an open end, if those are more than half of all; else 0."""
    found = sum(math.isinf(line.low) or math.isinf(line.high) for line in lines)
    return found if 2 * found > len(lines) else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """What follows from the released counts for one group.

    Attributes:
        name: of the group.
        estimate: scores, ranks and intervals, drawn towards the other groups.
        own: how much of a score's distance from the others the group's own answers decide: 0 to 1.
        released: its noisy counts.
    """

    name: str
    estimate: Estimate
    own: float
    released: Released


class GroupRanking(Record):
    """The ranking of one group of answers.

    Attributes:
        name: of the group, as in the rows.
        own: how much of a score's distance from the other groups this group's own answers decide,
            0 to 1; the rest is drawn from all groups.
        informative: False if nothing can be learned of it through the noise.
        ranking: lines, best first; a score is the group's own, and so is its interval.
        released: the group's noisy counts.
    """

    name: str
    own: float = Field(ge=0, le=1)
    informative: bool
    ranking: tuple[RankedItem, ...] = Field(min_length=2)
    released: Released


def ranked_items(
    items: Sequence[str],
    estimate: Estimate,
    scale: Scale,
    labels: Mapping[str, str],
    chances: RankChances | None,
) -> tuple[RankedItem, ...]:
    """Lines of the ranking, best first, in the unit in which scores are published."""
    columns: dict[str, list[Any]] = {
        "rank": [int(rank) if rank % 1 == 0 else rank for rank in estimate.rank.tolist()],
        "score": published(scale, estimate.scores).tolist(),
        "low": published(scale, estimate.low).tolist(),
        "high": published(scale, estimate.high).tolist(),
        "rank_low": estimate.rank_low.tolist(),
        "rank_high": estimate.rank_high.tolist(),
        "group": estimate.groups.tolist(),
    }
    if (sure := estimate.at_once) is not None:
        columns["low_all"] = published(scale, sure.low).tolist()
        columns["high_all"] = published(scale, sure.high).tolist()
        columns["rank_low_all"] = sure.rank_low.tolist()
        columns["rank_high_all"] = sure.rank_high.tolist()
        if sure.better is not None:
            columns["surely_above"] = surely_above(sure.better, estimate.order)
    if chances is not None:
        columns["p_best"] = chances.best.round(CHANCE_DECIMALS).tolist()
        columns["p_top"] = chances.top.round(CHANCE_DECIMALS).tolist()
    if estimate.noise_share is not None:
        columns["noise_share"] = estimate.noise_share.round(SHARE_DECIMALS).tolist()
    names = ("item", "label", *columns)
    places = estimate.order.tolist()
    lines = zip(*([values[i] for i in places] for values in columns.values()), strict=True)
    return tuple(
        RankedItem(**dict(zip(names, (items[i], labels.get(items[i]), *line), strict=True)))
        for i, line in zip(places, lines, strict=True)
    )


def published_lines(
    ranking: Sequence[RankedItem], says: Callable[[str], bool]
) -> Iterator[dict[str, Any]]:
    """Each line as it stands in `release.json`, without the optional fields that nothing `says`."""
    unsaid = {name for name in OPTIONAL_FIELDS if not says(name)}
    names = [name for name in FIELDS if name not in unsaid]
    ends = [name for name in ("low", "high", "low_all", "high_all") if name in names]
    values = attrgetter(*names)
    for line in ranking:
        content = dict(zip(names, values(line), strict=True))
        for name in ends:
            content[name] = finite_or_text(content[name])
        yield content


def group_ranking(
    items: Sequence[str], board: Board, scale: Scale, labels: Mapping[str, str], n_top: int | None
) -> GroupRanking:
    """The published ranking of one group."""
    chances = chances_of(board.estimate, n_top)
    return GroupRanking(
        name=board.name,
        own=round(board.own, OWN_DECIMALS),
        informative=board.estimate.informative,
        ranking=ranked_items(items, board.estimate, scale, labels, chances),
        released=board.released,
    )
