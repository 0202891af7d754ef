"""Lines of a ranking, the rankings of groups, and what is sure about all items at once.

All of it is computed from the released statistics. What is sure, and how probable ranks are,
follows from one relation: which items are surely better than which
(`estimation.common.uncertainty.AllAtOnce`). A release holds the relation as text, one line for each
item: `3..7 9` are lines of the ranking, counted from 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from operator import attrgetter
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field

from hushrank.estimation.common.estimate import Estimate
from hushrank.estimation.common.pair_separation import (
    RankChances,
    ScoreErrors,
    rank_probabilities,
)
from hushrank.flows.release.election import ElectionRecord
from hushrank.flows.release.released import Effect, Released
from hushrank.flows.release.scale import Scale, published
from hushrank.flows.statement.record import Extended, Record, finite_or_text

MANY = 30  # number of items from which on the best few are more than FEW_TOP
FEW_TOP, MANY_TOP = 3, 10
CHANCE_DECIMALS = 4
TO = ".."
MOST_LISTED = 300  # items whose covariance is published: a file of 1 MB
DIGITS = 6  # digits of a variance or covariance


class ReleasedErrors(Record):
    """Joint errors of the scores, in the unit of the ranking; computed from what was drawn.

    Attributes:
        centre: score of each item without shrinkage towards the others, and not cut where noise
            takes it out of its range; in the order of the ranking.
        covariance: covariance of the errors of `centre`, line by line up to the diagonal, since it
            is symmetric. Errors that are taken as independent have zeros beside the diagonal.
    """

    centre: tuple[float, ...] = Field(min_length=2)
    covariance: tuple[tuple[float, ...], ...] = Field(min_length=2)

    @classmethod
    def of(cls, estimate: Estimate, scale: Scale) -> Self | None:
        """The errors of an estimate on a scale; None if not known or of too many items."""
        errors, order = estimate.errors, estimate.order
        if errors is None or not estimate.informative or len(order) > MOST_LISTED:
            return None
        whole = errors.covariance if errors.covariance.ndim == 2 else np.diag(errors.covariance)
        if not (np.isfinite(whole).all() and np.isfinite(errors.centre).all()):
            return None
        rows = whole[order][:, order]
        lower = (row[: position + 1] for position, row in enumerate(rows))
        zero = published(scale, 0.0)
        found = cls(
            centre=tuple(errors.centre[order].tolist()),
            covariance=tuple(tuple(float(f"{each:.{DIGITS}g}") for each in row) for row in lower),
        )
        return found.moved(zero, published(scale, 1.0) - zero)

    def matrix(self) -> NDArray[np.float64]:
        """The covariance as a symmetric matrix, shape (n, n)."""
        n = len(self.covariance)
        whole = np.zeros((n, n))
        for row, values in enumerate(self.covariance):
            whole[row, : row + 1] = whole[: row + 1, row] = values
        return whole

    def on_link(self, scale: Scale) -> ScoreErrors:
        """The errors in the unit of the link's scores, back from that of published scores."""
        zero = published(scale, 0.0)
        unit = published(scale, 1.0) - zero
        return ScoreErrors((np.array(self.centre) - zero) / unit, self.matrix() / unit**2)

    def moved(self, origin: float, unit: float) -> Self:
        """The errors of scores that are `origin` more than `unit` times these."""
        rows = (tuple(float(f"{unit**2 * x:.{DIGITS}g}") for x in row) for row in self.covariance)
        centre = (origin + unit * each for each in self.centre)
        return self.model_copy(update={"centre": tuple(centre), "covariance": tuple(rows)})


def probabilities_of(estimate: Estimate, n_top: int | None) -> RankChances | None:
    """Probabilities of ranks; None if the estimate does not say how far it may be off.

    Args:
        estimate: an estimate for at least 2 items.
        n_top: number of the best few; None: 3, or 10 of 30 items or more, but never all.
    """
    if estimate.errors is None or not estimate.informative:
        return None
    return rank_probabilities(estimate.errors, number_of_best(estimate.n_items, n_top))


def number_of_best(n_items: int, n_top: int | None) -> int:
    """Return the number of the best few; for the arguments see `probabilities_of`."""
    few = min(FEW_TOP if n_items < MANY else MANY_TOP, n_items - 1)
    return few if n_top is None else n_top


def surely_above(better: NDArray[np.bool_], order: NDArray[np.intp]) -> list[str]:
    """Return, for each item in catalogue order, the ranking's lines that it is surely better than.

    Args:
        better: shape (n, n), in catalogue order.
        order: shape (n,), items from best to worst.
    """
    return [_ranges(np.flatnonzero(row[order]) + 1) for row in better]


def _ranges(lines: NDArray[np.intp]) -> str:
    """`3..7 9` of ascending numbers."""
    runs = np.split(lines, np.flatnonzero(np.diff(lines) > 1) + 1)
    texts = (f"{run[0]}" if len(run) == 1 else f"{run[0]}{TO}{run[-1]}" for run in runs if len(run))
    return " ".join(texts)


def better_lines(texts: Sequence[str]) -> NDArray[np.bool_]:
    """Read the relation back, shape (n, n), in the order of the ranking.

    Raises:
        ValueError: a text does not consist of ranges of lines.
    """
    better = np.zeros((len(texts), len(texts)), np.bool_)
    for row, text in zip(better, texts, strict=True):
        for run in text.split():
            first, _, last = run.partition(TO)
            row[int(first) - 1 : int(last or first)] = True
    return better


OWN_DECIMALS = 4
SHARE_DECIMALS = 6  # decimals of `noise_share`


class Interval(NamedTuple):
    """A score with one of its intervals."""

    score: float
    low: float
    high: float


STANDARD_ERRORS = ("se", "se_noise", "se_chance")


# No pydantic model: each would take four times the memory, and a ranking may have a million lines.
@dataclass(frozen=True, slots=True, kw_only=True)
class RankedItem:
    """One line of the ranking; `Estimate` defines the numbers.

    Releases of earlier versions lack the fields from `low_all` to `p_top`, because those versions
    said nothing about all items at once.

    Attributes:
        item: the item as in the rows.
        label: text that people read instead of the item, if the catalogue has a label.
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
        se: standard error of the score, which `low` and `high` allow for; None of an item whose
            interval has an open end.
        se_noise, se_chance: its parts by privacy noise and by the chance of who answered how, for
            which se^2 = se_noise^2 + se_chance^2; None where the method does not tell them apart.
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
    se: float | None = None
    se_noise: float | None = None
    se_chance: float | None = None

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
        """Text that people read: the label, or else the item."""
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
        factor = onto(1.0) - onto(0.0)
        parts = {name: getattr(self, name) for name in STANDARD_ERRORS}
        ends |= {name: old * factor for name, old in parts.items() if old is not None}
        return replace(self, **ends)


FIELDS = tuple(field.name for field in fields(RankedItem))
OPTIONAL_FIELDS = tuple(f.name for f in fields(RankedItem) if f.default is not MISSING)
VALUES = attrgetter(*FIELDS)


def open_intervals(lines: Sequence[RankedItem]) -> int:
    """Count intervals with an open end, if they are more than half of all; else return 0."""
    found = sum(math.isinf(line.low) or math.isinf(line.high) for line in lines)
    return found if 2 * found > len(lines) else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """Results that follow from the released counts of one group.

    Attributes:
        name: name of the group.
        estimate: scores, ranks and intervals, drawn towards the other groups.
        own: share of a score's distance from the others that the group's own answers decide: 0 to
            1.
        released: noisy counts of the group, or its fit with noise inside.
        election: winners by rules of elections; None where the counts tell none.
        effects: effects of covariates in the group; None: the job names none.
    """

    name: str
    estimate: Estimate
    own: float
    released: Released
    election: ElectionRecord | None = None
    effects: tuple[Effect, ...] | None = None


class GroupRanking(Record):
    """The ranking of one group of answers.

    Attributes:
        name: name of the group, as in the rows.
        own: share of a score's distance from the other groups that this group's own answers decide,
            0 to 1; the rest is drawn from all groups.
        informative: False if nothing can be learned of it through the noise.
        ranking: lines, best first; a score is the group's own, and so is its interval.
        released: the group's noisy counts, or its fit with noise inside.
        election: winners by rules of elections in the group; left out where its counts tell none.
        effects: effects of covariates in the group, drawn towards those in the others; left out
            where the job names none.
    """

    name: str
    own: float = Field(ge=0, le=1)
    informative: bool
    ranking: tuple[RankedItem, ...] = Field(min_length=2)
    released: Released
    election: ElectionRecord | None = None
    effects: tuple[Effect, ...] | None = None


def effects_by_board(
    whole: tuple[Effect, ...] | None, groups: Sequence[GroupRanking] | None
) -> list[tuple[str, tuple[Effect, ...]]]:
    """Effects of covariates in all rows together, named "", and in each group."""
    boards = (("", whole), *((each.name, each.effects) for each in groups or ()))
    return [(name, effects) for name, effects in boards if effects is not None]


def ranked_items(
    items: Sequence[str],
    estimate: Estimate,
    scale: Scale,
    labels: Mapping[str, str],
    probabilities: RankChances | None,
    *,
    with_share: bool = False,
) -> tuple[RankedItem, ...]:
    """Lines of the ranking, best first, in the unit in which scores are published.

    `with_share` gives each line the share of noise, by which nights of a stream are compared.
    """
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
    if probabilities is not None:
        columns["p_best"] = probabilities.best.round(CHANCE_DECIMALS).tolist()
        columns["p_top"] = probabilities.top.round(CHANCE_DECIMALS).tolist()
    columns |= _standard_errors(estimate, scale)
    if with_share and estimate.noise_share is not None:
        columns["noise_share"] = estimate.noise_share.round(SHARE_DECIMALS).tolist()
    names = ("item", "label", *columns)
    places = estimate.order.tolist()
    lines = zip(*([values[i] for i in places] for values in columns.values()), strict=True)
    return tuple(
        RankedItem(**dict(zip(names, (items[i], labels.get(items[i]), *line), strict=True)))
        for i, line in zip(places, lines, strict=True)
    )


def _standard_errors(estimate: Estimate, scale: Scale) -> dict[str, list[float | None]]:
    """Columns of the standard errors, as published; none where the method knows none."""
    whole, share = estimate.standard_errors, estimate.noise_share
    if whole is None:
        return {}
    whole = whole * (published(scale, 1.0) - published(scale, 0.0))
    columns = {"se": whole}
    if share is not None and estimate.deviation is not None:
        share = np.clip(share, 0, 1)
        columns["se_noise"] = whole * np.sqrt(share)
        columns["se_chance"] = whole * np.sqrt(1 - share)
    return {name: _significant(values) for name, values in columns.items()}


def _significant(values: NDArray[np.float64]) -> list[float | None]:
    """Numbers with six digits that count; None for what is not a number."""
    return [None if math.isnan(each) else float(f"{each:.6g}") for each in values.tolist()]


def published_lines(
    ranking: Sequence[RankedItem], says: Callable[[str], bool]
) -> Iterator[dict[str, Any]]:
    """Yield each line as `release.json` has it, without optional fields that nothing `says`."""
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
    probabilities = probabilities_of(board.estimate, n_top)
    return GroupRanking(
        name=board.name,
        own=round(board.own, OWN_DECIMALS),
        informative=board.estimate.informative,
        ranking=ranked_items(items, board.estimate, scale, labels, probabilities, with_share=True),
        released=board.released,
        election=board.election,
        effects=board.effects,
    )
