"""Results of a test beside difficulties.

Reliability, abilities by raw score, and items that are harder in one group than in another (DIF).
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, Self

from pydantic import Field

from hushrank.flows.statement.record import Extended, Record
from hushrank.transforms.common.plain_text import number_cell, write_cell

if TYPE_CHECKING:
    from hushrank.estimation.responses.partial_credit_estimate import PointReport, StepEstimate
    from hushrank.estimation.responses.reliability import BookletEstimate, Reliability

KR20, SEPARATION = "Reliability (KR-20)", "Person separation"
ALPHA = "Reliability (Cronbach's alpha)"
NOT_TOLD = {
    **dict.fromkeys((KR20, ALPHA), "noise and chance hide how far raw scores differ"),
    SEPARATION: "abilities do not differ by more than noise, chance and their own errors",
}
Size = Literal["A", "B", "C"]
MOST_NAMED = 5  # items of a sentence
DIFFERENCES = (
    *("group", "against", "item", "difference", "standard_error", "low", "high", "z"),
    *("size", "differs"),
)

DISCRIMINATION = ("discrimination", "discrimination_low", "discrimination_high")
LABELS = {"kr20": KR20, "alpha": ALPHA, "separation": SEPARATION}


class ReliabilityRecord(Record):
    """An estimate of a reliability, with its 95 % interval, which noise and chance make wide."""

    estimate: float = Field(le=1)
    low: float = Field(le=1)
    high: float = Field(le=1)

    @classmethod
    def of(cls, found: Reliability | None) -> Self | None:
        """The record of an estimate; None: there is none."""
        return None if found is None else cls(estimate=found.value, low=found.low, high=found.high)


class BookletRecord(Record):
    """Figures of one booklet, or of the whole test if it has no booklets.

    Attributes:
        name: name of the booklet; null: everybody had all items.
        kr20: reliability of raw scores by KR-20; null: it is not told. With booklets it never is,
            as right answers are counted over all booklets together.
        separation: reliability of abilities; null: it is not told.
        ability: abilities by raw score, from 0 points to all, in units of difficulties.
        error: standard errors of these abilities.
    """

    name: str | None
    kr20: ReliabilityRecord | None
    separation: ReliabilityRecord | None
    ability: tuple[float, ...]
    error: tuple[float, ...]

    @classmethod
    def of(cls, name: str | None, found: BookletEstimate) -> Self:
        """The record of what was computed from noisy totals."""
        return cls(
            name=name,
            kr20=ReliabilityRecord.of(found.kr20),
            separation=ReliabilityRecord.of(found.separation),
            ability=tuple(found.table.ability.tolist()),
            error=tuple(found.table.error.tolist()),
        )

    @property
    def measures(self) -> dict[str, ReliabilityRecord | None]:
        """Reliabilities by short name; those that are not told are None."""
        return {"kr20": self.kr20, "separation": self.separation}


class StepRecord(Record):
    """The step of an item from one point less to `points`, with the 95 % interval of this step.

    Attributes:
        item: the item.
        points: points above the step, from 1 to the most that the item gives.
        difficulty: the ability at which both numbers of points are as likely as each other.
        low, high: an end that the released numbers leave open is infinite.
    """

    item: str
    points: int = Field(ge=1)
    difficulty: float
    low: Extended
    high: Extended

    @classmethod
    def of(cls, step: StepEstimate, items: Sequence[str]) -> Self:
        """The record of an estimate."""
        return cls(
            item=items[step.item],
            points=step.points,
            difficulty=step.value,
            low=step.low,
            high=step.high,
        )


class PointTestRecord(BookletRecord):
    """Figures of a test with points.

    Attributes:
        alpha: reliability of raw scores by Cronbach's alpha; null: it is not told.
        steps: steps of all items, in catalogue order.
    """

    alpha: ReliabilityRecord | None
    steps: tuple[StepRecord, ...]

    @classmethod
    def of_points(
        cls, found: PointReport, steps: Sequence[StepEstimate], items: Sequence[str]
    ) -> Self:
        """The record of what was computed from noisy totals."""
        return cls(
            name=None,
            kr20=None,
            separation=ReliabilityRecord.of(found.separation),
            ability=tuple(found.table.ability.tolist()),
            error=tuple(found.table.error.tolist()),
            alpha=ReliabilityRecord.of(found.alpha),
            steps=tuple(StepRecord.of(step, items) for step in steps),
        )

    @property
    def measures(self) -> dict[str, ReliabilityRecord | None]:
        """Reliabilities by short name; those that are not told are None."""
        return {"alpha": self.alpha, "separation": self.separation}


TestRecord = PointTestRecord | BookletRecord


def step_rows(tests: Sequence[BookletRecord]) -> list[StepRecord]:
    """Steps of items; empty where the test has no points, or nothing is told of it."""
    with_points = (test for test in tests if isinstance(test, PointTestRecord))
    return [step for test in with_points for step in test.steps]


def steps_csv(steps: Sequence[StepRecord]) -> str:
    """Step difficulties as a table, to six decimals."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["item", "points", "difficulty", "low", "high"])
    for row in steps:
        numbers = map(number_cell, (row.difficulty, row.low, row.high))
        table.writerow([write_cell(row.item), row.points, *numbers])
    return text.getvalue()


def score_rows(
    sheets: Sequence[BookletRecord],
) -> Iterator[tuple[str | None, int, float, float]]:
    """Booklet, raw score, ability and its standard error, line by line."""
    for booklet in sheets:
        lines = zip(booklet.ability, booklet.error, strict=True)
        for score, (ability, error) in enumerate(lines):
            yield booklet.name, score, ability, error


def scores_csv(sheets: Sequence[BookletRecord]) -> str:
    """Abilities by raw score as a table, to six decimals."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    several = len(sheets) > 1
    table.writerow([*["booklet"] * several, "score", "ability", "standard_error"])
    for name, score, ability, error in score_rows(sheets):
        booklet = [write_cell(name or "")] * several
        table.writerow([*booklet, score, f"{ability:.6f}", f"{error:.6f}"])
    return text.getvalue()


def reliability_sentences(booklet: BookletRecord) -> Iterator[str]:
    """Yield sentences that say how reliable scores and abilities are."""
    for name, found in booklet.measures.items():
        what = LABELS[name]
        if found is not None:
            yield (
                f"{what}: {found.estimate:.2f} (95 % interval: {found.low:.2f} to"
                f" {found.high:.2f})."
            )
        elif what != KR20 or booklet.name is None:
            yield f"{what} is not told: {NOT_TOLD[what]}."


class ItemDifference(Record):
    """Difference between the difficulty of one item in a group and in another.

    Attributes:
        item: name.
        difference: difference in log odds, relative to the mean of the items that are compared.
        error: standard error of the difference, noise included.
        low, high: 95 % interval of this difference alone.
        size: size by the rule of ETS: A negligible, B moderate, C large.
        differs: whether it is not zero, with 95 % confidence for all items and groups together.
    """

    item: str
    difference: float
    error: float = Field(ge=0)
    low: float
    high: float
    size: Size
    differs: bool


class GroupDifferences(Record):
    """The items of one group against those of another, in the order of the catalogue.

    An item that nobody can bound on both sides in both groups is left out.
    """

    group: str
    against: str
    items: tuple[ItemDifference, ...] = Field(min_length=3)


class ItemFitRecord(Record):
    """Fit of one item to the Rasch model.

    Attributes:
        item: name.
        statistic: squared difference of bands of raw scores from the model, in units of variance.
        degrees: degrees of freedom of its chi-squared law where the model holds.
        chance: probability of so large a statistic, or larger, where the model holds.
        misfits: whether the model does not hold, with 95 % confidence for all items together.
        steeper: whether people with more points are right more often than the model says, and
            those with fewer points less often; else the other way round.
        discrimination: slope of its curve in the two-parameter logistic model, relative to the
            geometric mean of all items; null: slopes are not told.
        discrimination_low, discrimination_high: 95 % interval of this slope alone.
    """

    item: str
    statistic: float = Field(ge=0)
    degrees: int = Field(ge=0)
    chance: float = Field(ge=0, le=1)
    misfits: bool
    steeper: bool
    discrimination: float | None = Field(default=None, gt=0)
    discrimination_low: float | None = Field(default=None, gt=0)
    discrimination_high: float | None = Field(default=None, gt=0)

    @property
    def slope(self) -> tuple[float, float, float] | None:
        """Slope with its interval; None: it is not told."""
        slope, low, high = (getattr(self, name) for name in DISCRIMINATION)
        return None if slope is None or low is None or high is None else (slope, low, high)


def difference_rows(
    compared: Sequence[GroupDifferences],
) -> Iterator[tuple[str, str, str, float, float, float, float, float, str, bool]]:
    """The lines of `DIFFERENCES`."""
    for pair in compared:
        for each in pair.items:
            z = each.difference / each.error if each.error else 0.0
            numbers = (each.difference, each.error, each.low, each.high, z)
            yield (pair.group, pair.against, each.item, *numbers, each.size, each.differs)


def dif_csv(compared: Sequence[GroupDifferences]) -> str:
    """The differences as a table, to six decimals."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(DIFFERENCES)
    for *names, difference, error, low, high, z, size, differs in difference_rows(compared):
        numbers = map(number_cell, (difference, error, low, high, z))
        cells = (write_cell(str(name)) for name in names)
        table.writerow([*cells, *numbers, size, "yes" if differs else "no"])
    return text.getvalue()


def differences_sentence(pair: GroupDifferences, shown: Mapping[str, str]) -> str:
    """Say which items are harder or easier in one group than in another.

    Args:
        pair: the groups with their items.
        shown: text that people read for each item.
    """
    found = sorted(
        (each for each in pair.items if each.differs), key=lambda each: -abs(each.difference)
    )
    start = f"{pair.group} against {pair.against}: with 95 % confidence for all items at once,"
    if not found:
        return f"{start} no item is shown to be harder or easier."
    names = [
        f"{shown[each.item]} ({each.difference:+.2f}, size {each.size})"
        for each in found[:MOST_NAMED]
    ]
    if len(found) > MOST_NAMED:
        names.append(f"{len(found) - MOST_NAMED} more")
    verb = "is" if len(found) == 1 else "are"
    return f"{start} {', '.join(names)} {verb} harder (+) or easier (-), relative to the others."


def fit_csv(fits: Sequence[ItemFitRecord]) -> str:
    """Return a table of items' fit, to six decimals; `slope` is that of the item's curve.

    If slopes are told, these numbers with their intervals stand in three further columns.
    """
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    columns = ["item", "statistic", "degrees", "chance", "misfits", "slope"]
    table.writerow(columns + [*DISCRIMINATION] * (fits[0].slope is not None))
    for each in fits:
        numbers = [f"{each.statistic:.6f}", each.degrees, f"{each.chance:.6f}"]
        said = ["yes" if each.misfits else "no", slope_word(each)]
        slope = map(number_cell, each.slope or ())
        table.writerow([write_cell(each.item), *numbers, *said, *slope])
    return text.getvalue()


def slope_word(fit: ItemFitRecord) -> str:
    """Return a word that compares the curve of an item with that of the model."""
    return "steeper" if fit.steeper else "flatter"


def fit_sentence(fits: Sequence[ItemFitRecord], shown: Mapping[str, str]) -> str:
    """Name the items that do not fit the model.

    Args:
        fits: fit of each item.
        shown: text that people read for each item.
    """
    found = sorted((each for each in fits if each.misfits), key=lambda each: -each.statistic)
    start = "Item fit: with 95 % confidence for all items at once,"
    if not found:
        return f"{start} no item is shown to depart from the Rasch model."
    names = [f"{shown[each.item]} ({slope_word(each)})" for each in found[:MOST_NAMED]]
    if len(found) > MOST_NAMED:
        names.append(f"{len(found) - MOST_NAMED} more")
    verb = "departs" if len(found) == 1 else "depart"
    return (
        f"{start} {len(found)} of {len(fits)} {verb} from the Rasch model: {', '.join(names)}."
        " Difficulties and abilities rest on that model."
    )


def slopes_sentence(fits: Sequence[ItemFitRecord], shown: Mapping[str, str]) -> str | None:
    """Which items tell people apart least and most sharply; None: slopes are not told.

    Args:
        fits: of all items.
        shown: what people read for each item.
    """
    told = sorted((each.slope, shown[each.item]) for each in fits if each.slope is not None)
    if not told:
        return None
    (flat, flattest), (steep, steepest) = told[0], told[-1]
    return (
        "Slopes (2PL, relative to the geometric mean of the items), each with its 95 % interval:"
        f" from {flat[0]:.2f} ({flat[1]:.2f} to {flat[2]:.2f}) of {flattest} to {steep[0]:.2f}"
        f" ({steep[1]:.2f} to {steep[2]:.2f}) of {steepest}."
    )
