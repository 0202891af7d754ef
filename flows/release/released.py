"""Record of the numbers that a method publishes beside the ranking, with texts for its page.

A method that releases another statistic has a record of its own in its family's folder. Every
record is made by its `of`, which takes only what carries noise: exact counts are marked
`confidential` from the moment they are read and are refused, and released scores have a type of
their own.

Ties as outcomes in a release: the noisy counts, and how often equals tie. Effects of covariates
in a release, and scores that depend on public features of people.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from itertools import pairwise
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Literal,
    NamedTuple,
    Protocol,
    Self,
    Union,
)

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, GetCoreSchemaHandler, GetJsonSchemaHandler, TypeAdapter
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from hushrank.estimation.common.links import LOGISTIC
from hushrank.estimation.common.score_change import LeadBy
from hushrank.estimation.ties.tie_models import TieModel, TieStrength
from hushrank.flows.statement.record import Extended, Record
from hushrank.transforms.common.plain_text import number_cell, write_cell

if TYPE_CHECKING:
    from hushrank.estimation.comparisons.covariate_effects import EffectEstimates


KINDS: dict[str, type[ReleasedRecord]] = {}  # every record that is defined, by its `kind`


class Figure(StrEnum):
    """A figure that a report can draw of a statistic."""

    WIN_COUNTS = "win-counts"
    SCORES = "scores"
    WINS = "wins"  # who beat whom
    ABOVE = "above"  # who is above whom in rankings
    ITEM_MAP = "item-map"
    CHOSEN = "chosen"  # epsilons that people chose


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
        items: items in the order of the numbers.
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


class Count(NamedTuple):
    """A noisy count of an item, or of an ordered pair of items.

    Attributes:
        what: what was counted: `wins`, `losses`, `above`, `margins`, `nets`.
        item, other: the item, and the one it is set against; None: all others.
        number: as published, noise included.
        weight: what one answer adds to the number.
        asked: whether it is public that people were asked about the pair; None: nobody says.
    """

    what: str
    item: str
    other: str | None
    number: float
    weight: int
    asked: bool | None = None


def counts_of_pairs(
    what: str, items: Sequence[str], matrix: Sequence[Sequence[float]], weight: int
) -> Iterator[Count]:
    """Yield the entries of a matrix but for its diagonal."""
    for item, row in zip(items, matrix, strict=True):
        for other, number in zip(items, row, strict=True):
            if item != other:
                yield Count(what, item, other, number, weight)


class Robustness(Record):
    """Number of units that would have to change for `first` to lose its lead in one number.

    Attributes:
        by: kind of number: wins, wins less losses, majorities over each other item, Borda sums,
            first places, or scores of the model.
        first: the item.
        replaced: least number of units that would have to be exchanged for others.
        changed: least number of units that would have to be taken away or added; `replaced` or
            more.
        bound: largest change of the lead by one unit that is taken away or added; null of scores,
            where it depends on the fit.
        noise_allowance: amount by which noise may have made a lead larger; null of scores.
        kind: `certificate`: true with 95 % confidence; `estimate`: to first order.
    """

    by: LeadBy
    first: str
    replaced: int = Field(ge=1)
    changed: int = Field(ge=1)
    bound: int | None
    noise_allowance: float | None
    kind: Literal["certificate", "estimate"]


class Passed(Record):
    """An alarm: the order of two items is certain, and was certain the other way round before.

    Attributes:
        item: item that is ahead now.
        passed: item that was ahead.
    """

    item: str
    passed: str


class AlarmRecord(Record):
    """Orders of watched pairs that are certain for all nights of a stream together.

    Attributes:
        pairs: pairs that were named before the first night; null: all pairs.
        number: number of watched pairs.
        quantile: standard errors by which two scores must differ.
        orders: a sign for each watched pair, of all pairs in the order of sorted names: `>`, the
            first item was ahead when the order was last certain; `<`, the second; `=`, the order
            was never certain.
        passed: items that passed each other on this night.
    """

    pairs: tuple[tuple[str, str], ...] | None
    number: int = Field(ge=1)
    quantile: float
    orders: str
    passed: tuple[Passed, ...]


class ReleasedRecord(Record):
    """A released statistic, from which the rest of a release can be computed again.

    Attributes:
        shows: figures of a report, in the order of the page.
        made: way in which the numbers came about.
        ballots: rankings or answers about rankings that were counted; empty: none were.
        tells_rates: whether the counts of a pair estimate how often one item beats the other.
        orders: an order may be fitted to it, in which a score is no more than a place.
        public_totals: how often each pair was compared is public, so a pair may have no count.
        predicts_intervals: `interval_change` says how long intervals are with other people or no
            noise; a test compares it with simulated surveys.
    """

    shows: ClassVar[tuple[Figure, ...]] = ()
    made: ClassVar[Made] = Made.COUNTED
    ballots: ClassVar[str] = ""
    tells_rates: ClassVar[bool] = False
    orders: ClassVar[bool] = False
    public_totals: ClassVar[bool] = False
    predicts_intervals: ClassVar[bool] = False

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

    def counts(self) -> Iterator[Count]:
        """Yield the noisy counts of items and of pairs; nothing of a record that holds others."""
        yield from ()

    def among(self, items: Sequence[str]) -> NDArray[np.float64] | None:
        """Share of times that the row's item beat the column's, or was above it, for some items.

        Not a number for a pair that was not compared. None: no such counts are published.
        """
        return None

    def leads(self) -> Leads | None:
        """Counts by which an item is ahead of others; None: there are no such counts."""
        return None

    def order_sentence(self) -> str:
        """The effect of the order of presentation in words; empty: none is released."""
        return ""

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


class TieRecord(Record):
    """Share of ties, by the model of ties that scores were fitted with.

    Attributes:
        model: name of the model of ties.
        parameter: nu of Davidson, theta of Rao and Kupper.
        low, high: 95 % interval of the share.
        equals: percent of comparisons between two items of equal scores that tie.
        equals_low, equals_high: 95 % interval of `equals`.
    """

    model: TieModel
    parameter: Extended
    low: Extended
    high: Extended
    equals: float
    equals_low: float
    equals_high: float

    @classmethod
    def of(cls, model: TieModel, strength: TieStrength) -> Self:
        """The record of an estimate."""
        probabilities = strength.chance, strength.low, strength.high
        parameter, low, high = (model.parameter(chance) for chance in probabilities)
        equals, equals_low, equals_high = (100 * chance for chance in probabilities)
        return cls(
            model=model,
            parameter=parameter,
            low=low,
            high=high,
            equals=equals,
            equals_low=equals_low,
            equals_high=equals_high,
        )


def tie_sentence(ties: TieRecord) -> str:
    """Say in words what the estimate means."""
    return (
        f"Two equal items tie in {ties.equals:.1f} % of their comparisons (95 % interval:"
        f" {ties.equals_low:.1f} to {ties.equals_high:.1f} %)."
    )


MOST_SHOWN = 20  # effects of features of people that a terminal lists


class Effect(Record):
    """Effect of a covariate on the chance of winning, beside the items.

    Attributes:
        name: name of the covariate.
        scale: the difference that counts as 1; null for who was shown first.
        estimate: log odds that this difference, or being shown first, is worth.
        low, high: 95 % interval of this effect alone.
    """

    name: str
    scale: float | None
    estimate: float
    low: Extended
    high: Extended


def effects_of(
    estimates: EffectEstimates, names: Sequence[str], scales: Sequence[float | None]
) -> tuple[Effect, ...]:
    """The records of `estimates`."""
    columns = (estimates.values, estimates.low, estimates.high)
    return tuple(
        Effect(name=name, scale=scale, estimate=value, low=low, high=high)
        for name, scale, value, low, high in zip(
            names, scales, *(column.tolist() for column in columns), strict=True
        )
    )


def effects_csv(boards: Sequence[tuple[str, Sequence[Effect]]]) -> str:
    """Effects as a table, in log odds to six decimals; `scale` is empty for who was shown first.

    Where there are groups, the last column names the group; it is empty for all rows together.

    `share` and its ends say the same as the share of comparisons that an item wins against an equal
    one by that effect alone.
    """
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    shares = ("share", "share_low", "share_high")
    grouped = len(boards) > 1
    table.writerow(["effect", "scale", "estimate", "low", "high", *shares, *["board"] * grouped])
    for board, effect in ((board, each) for board, effects in boards for each in effects):
        values = np.array([effect.estimate, effect.low, effect.high])
        scale = "" if effect.scale is None else f"{effect.scale:g}"
        numbers = map(number_cell, (*values, *LOGISTIC.cdf(values)))
        of_board = [write_cell(board)] * grouped
        table.writerow([write_cell(effect.name), scale, *numbers, *of_board])
    return text.getvalue()


def sentence_of(effect: Effect) -> str:
    """Say in words what the effect means."""
    if effect.scale is None:
        of_what = "The item that is shown first wins"
    elif effect.scale == 1:
        of_what = f"One extra unit of {effect.name} wins"
    else:
        of_what = f"{effect.scale:g} extra units of {effect.name} win"
    known = math.isfinite(effect.low) and math.isfinite(effect.high)
    if not known:
        return f"The noise hides what {effect.name} does."
    share, low, high = (_percent(value) for value in (effect.estimate, effect.low, effect.high))
    return (
        f"{of_what} {share} % of comparisons between otherwise equal items (95 % interval: {low} to"
        f" {high} %)."
    )


def _percent(log_odds: float) -> str:
    return f"{100 / (1 + math.exp(-log_odds)):.1f}"


class PersonFeatureRecord(Record):
    """A public feature of people: numbers from the first to the last, or words."""

    name: str
    numbers: tuple[float, ...]
    words: tuple[str, ...]


class PersonalEffect(Record):
    """Effect of a feature of a person on scores.

    Attributes:
        of: the item whose score changes, or the feature of items by which scores change.
        by: the feature of the person: its name for a number, which counts as -1 and 1 at the ends
            of its range; `name=word` for a word, compared with the first one.
        estimate: log odds; of a feature of items for one standard deviation of it.
        low, high: 95 % interval of this effect alone.
    """

    of: str
    by: str
    estimate: float
    low: Extended
    high: Extended


class PersonalRecord(Record):
    """Scores of items for each person, from which anybody can rank for a new person.

    Attributes:
        features: features of people.
        of_items: features of items; empty: each item has effects of its own.
        item_features: their values less the mean, in standard deviations; a row for each item in
            catalogue order.
        effects: effects by feature of a person, and then by feature of items, or item.
        coefficients: base score of each item in catalogue order, then the effects.
        centre: effects without the ridge.
        covariance: covariance of the errors of `centre`.
        known: intervals hold; false: nothing is known of how far off scores are.
        ridge: weight c of c |coefficients|^2 / 2 in the fit.
        rankings: number of rankings that the model was fitted to.
        mean_features: mean of the features over these rankings, as scores use them; `ranking` is
            that of a person with these.
    """

    features: tuple[PersonFeatureRecord, ...]
    of_items: tuple[str, ...]
    item_features: tuple[tuple[float, ...], ...]
    effects: tuple[PersonalEffect, ...]
    coefficients: tuple[float, ...]
    centre: tuple[float, ...]
    covariance: tuple[tuple[float, ...], ...]
    known: bool
    ridge: float = Field(gt=0)
    rankings: int
    mean_features: tuple[float, ...]


def effect_sentences(personal: PersonalRecord) -> Iterator[str]:
    """Yield what the features of people surely change, in words, the largest effects first."""
    sure = [each for each in personal.effects if each.low > 0 or each.high < 0]
    if not personal.known:
        yield "What the features of people change is not known: no interval is stated."
        return
    if not sure:
        yield "No effect of the features of people is beyond chance."
        return
    yield (
        f"{len(sure)} of {len(personal.effects)} effects of features of people are beyond chance,"
        " each by itself:"
    )
    for each in sorted(sure, key=lambda effect: -abs(effect.estimate))[:MOST_SHOWN]:
        interval = f"95 % interval: {each.low:+.2f} to {each.high:+.2f}"
        yield f"{each.by} changes the score of {each.of} by {each.estimate:+.2f} ({interval})."
