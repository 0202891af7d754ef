"""Record of the numbers that a method publishes beside the ranking, with texts for its page.

A method that releases another statistic has a record of its own in its family's folder. Every
record is made by its `of`, which takes only what carries noise: exact counts are marked
`confidential` from the moment they are read and are refused, and released scores have a type of
their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Protocol, Union

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, GetCoreSchemaHandler, GetJsonSchemaHandler, TypeAdapter
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from hushrank.estimation.common.robustness import LeadBy
from hushrank.flows.statement.record import Record

KINDS: dict[str, type[ReleasedRecord]] = {}  # every record that is defined, by its `kind`


class Figure(StrEnum):
    """A figure that a report can draw of a statistic."""

    WIN_COUNTS = "win-counts"
    SCORES = "scores"
    WINS = "wins"  # who beat whom
    ABOVE = "above"  # who is above whom in rankings
    ITEM_MAP = "item-map"
    CHOSEN = "chosen"  # which epsilons people chose


class Made(StrEnum):
    """Ways in which the numbers came about, in a sentence for people who took part."""

    COUNTED = (
        "Answers were counted, and random noise was added to the counts. Everything here is"
        " computed from the noisy counts alone."
    )
    FITTED = (
        "Scores were fitted to all answers with random noise in the fit. Everything here is"
        " computed from those noisy scores alone."
    )
    LISTED = (
        "Answers were counted, random noise was added to the counts, and only the names of the best"
        " were kept."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Leads:
    """Noisy numbers by which one item is ahead of others.

    Attributes:
        by: kind of the numbers.
        items: in the order of the numbers.
        numbers: number of each item, shape (n,), or of each item against each other, shape (n, n).
        draws: noise values that are added up in one number.
        step: worth of 1 released count, in answers.
    """

    by: LeadBy
    items: Sequence[str]
    numbers: NDArray[np.float64]
    draws: int
    step: float

    def gaps(self, first: str) -> NDArray[np.float64]:
        """Lead of `first` over each other item, shape (n - 1,), in answers."""
        place = self.items.index(first)
        own = self.numbers[place] - (self.numbers if self.numbers.ndim == 1 else 0.0)
        return np.delete(own, place) * self.step


class Robustness(Record):
    """How many units would have to change for `first` to lose its lead in one number.

    Attributes:
        by: which number: wins, wins less losses, majorities over each other item, Borda sums, first
            places, or scores of the model.
        first: the item.
        replaced: at least so many units would have to be exchanged for others.
        changed: at least so many would have to be taken away or added; `replaced` or more.
        bound: by how much one unit moves the lead if it is taken away or added; null of scores,
            where it depends on the fit.
        noise_allowance: by how much the noise may have made a lead larger; null of scores.
        kind: `certificate`: true with 95 % confidence; `estimate`: to first order.
    """

    by: LeadBy
    first: str
    replaced: int = Field(ge=1)
    changed: int = Field(ge=1)
    bound: int | None
    noise_allowance: float | None
    kind: Literal["certificate", "estimate"]


class ReleasedRecord(Record):
    """A released statistic, from which the rest of a release can be computed again.

    Attributes:
        shows: figures of a report, in the order of the page.
        made: how the numbers came about.
        ballots: which rankings or answers about rankings were counted; empty: none were.
        tells_rates: how often an item beats another is estimated from the counts of the pair.
        orders: an order may be fitted to it, in which a score is no more than a place.
        public_totals: how often each pair was compared is public, so a pair may have no count.
    """

    shows: ClassVar[tuple[Figure, ...]] = ()
    made: ClassVar[Made] = Made.COUNTED
    ballots: ClassVar[str] = ""
    tells_rates: ClassVar[bool] = False
    orders: ClassVar[bool] = False
    public_totals: ClassVar[bool] = False

    if TYPE_CHECKING:
        kind: str  # each record has its own, a constant

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        """Note the record under its kind."""
        if "kind" in cls.model_fields:
            KINDS[cls.model_fields["kind"].default] = cls

    def wins_by_item(self) -> dict[str, int | float] | None:
        """Comparisons won by each item, noise included; None: no such count is released."""
        return None

    def among(self, items: Sequence[str]) -> NDArray[np.float64] | None:
        """Share of times that the row's item beat the column's, or was above it, for some items.

        Not a number for a pair that was not compared. None: no such counts are published.
        """
        return None

    def leads(self) -> Leads | None:
        """Counts by which an item is ahead of others; None: there are no such counts."""
        return None

    @property
    def assumes_exposures(self) -> bool:
        """Whether how often an item was compared is taken to be what the configuration expects."""
        return False

    @property
    def best(self) -> tuple[str, ...] | None:
        """The best items, where nothing but their names is released; else None."""
        return None


class _ByKind:
    """The record that the field `kind` names, in a schema of all records that there are."""

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(record_from)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        records = tuple(record for _, record in sorted(all_records().items()))
        union = Annotated[Union[records], Field(discriminator="kind")]  # type: ignore[valid-type]  # noqa: UP007
        return handler(TypeAdapter(union).core_schema)


Released = Annotated[ReleasedRecord, _ByKind()]  # found by its kind


def all_records() -> dict[str, type[ReleasedRecord]]:
    """The records of all families, by kind."""
    # By name: families are above this room, and a release that is read may be of any of them.
    import_module("hushrank.flows.methods.registry").METHODS.of(None)  # imports every family
    return KINDS


def record_from(value: Any) -> ReleasedRecord:
    """The record that `value` is, or describes.

    Raises:
        ValueError: no record is of its kind, or its fields are not those of the record.
    """
    if isinstance(value, ReleasedRecord):
        return value
    kind = value.get("kind") if isinstance(value, dict) else None
    record = KINDS.get(kind) or all_records().get(kind) if isinstance(kind, str) else None
    if record is None:
        raise ValueError("no released statistic is of this kind")
    return record.model_validate(value)


MOST_MEASURED = 2000  # items whose matrix of measurements is published: 20 to 30 MB


Rows = tuple[tuple[int, ...], ...]


class Noisy(Protocol):
    """Counts that know whether they have noise."""

    @property
    def confidential(self) -> bool:
        """True until noise was added."""
        ...

    @property
    def n_items(self) -> int:
        """Size of the public catalogue."""
        ...


def require_noisy(counts: Noisy, items: Sequence[str]) -> None:
    """Raise ValueError unless `counts` may be released with these names of items."""
    if counts.confidential:
        raise ValueError("counts are confidential: only noisy counts can be released")
    if len(items) != counts.n_items:
        raise ValueError(f"got {len(items)} items, but counts of {counts.n_items}")


def rows_of(values: NDArray[np.integer], ends: NDArray[np.integer]) -> Rows:
    """The values of each row of a CSR matrix; `ends` are the ends of its rows (`indptr`)."""
    listed, cuts = values.tolist(), ends.tolist()
    return tuple(tuple(listed[start:end]) for start, end in pairwise(cuts))


def among_items(
    matrix: Sequence[Sequence[int | float]], catalogue: Sequence[str], items: Sequence[str]
) -> NDArray[np.float64]:
    """Rows and columns of these items, in their order."""
    position = {name: i for i, name in enumerate(catalogue)}
    places = [position[name] for name in items]
    return np.array([[matrix[row][column] for column in places] for row in places], np.float64)


def in_comparisons(wins: Mapping[str, int | float], row_weight: int) -> dict[str, int | float]:
    """Wins as numbers of comparisons."""
    if row_weight == 1:
        return {**wins}
    return {item: won / row_weight for item, won in wins.items()}
