"""Facts about the model on the page of a report: effects of features, ties, tests.

Shares of wins of one item over another: a table of the best items, if a release tells.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from hushrank.estimation.common.links import link_named
from hushrank.estimation.common.score_change import (
    Intervals,
    WinRates,
    rates_of_counts,
    rates_of_scores,
)
from hushrank.estimation.ties.tie_models import TieModel
from hushrank.flows.release.release import Release, on_scale
from hushrank.flows.release.released import Effect, sentence_of, tie_sentence
from hushrank.flows.release.scale import SCALE_OF_LINK, UNBOUNDED, Scale
from hushrank.flows.release.sheet_report import (
    BookletRecord,
    GroupDifferences,
    ItemDifference,
    differences_sentence,
    fit_sentence,
    reliability_sentences,
    slope_word,
    slopes_sentence,
    step_rows,
)
from hushrank.privacy.units import NoiseKind

TIE_MODELS = {TieModel.DAVIDSON: "Davidson (1970)", TieModel.RAO_KUPPER: "Rao and Kupper (1967)"}
TIES_ASSUMED = (
    " Scores rest on this model of ties too: where ties come about in another way, fewer intervals"
    " than stated hold the score."
)
TIE_MEANINGS = {
    TieModel.DAVIDSON: (
        f"Scores are log odds of the comparisons that do not end in a tie.{TIES_ASSUMED}"
    ),
    TieModel.RAO_KUPPER: (
        "An item wins against another one where chance adds up to more than log theta on top of"
        f" what its score lacks.{TIES_ASSUMED}"
    ),
}
MOST_ROWS = 62  # rows of a table of abilities
MOST_STEPS = 150  # lines of the table of steps
MOST_SECTIONS = 10  # booklets that the page has tables of
SMALLEST_CHANCE = 0.001  # smallest chance that is told as a number
NORMAL = 1.96  # standard errors from an ability to the ends of its 95 % interval


@dataclass(frozen=True, slots=True)
class EffectRow:
    """Line of the table; texts as they are shown.

    Attributes:
        name: name of the covariate.
        scale: the difference that the effect is of.
        estimate, interval: values in log odds.
        words: meaning of the effect.
    """

    name: str
    scale: str
    estimate: str
    interval: str
    words: str


def effect_rows(release: Release) -> list[EffectRow]:
    """A line for each effect; none where the job names no covariates."""
    return [_row(effect) for effect in release.effects or ()]


def _row(effect: Effect) -> EffectRow:
    return EffectRow(
        name=effect.name,
        scale="being first" if effect.scale is None else f"{effect.scale:g} more",
        estimate=f"{effect.estimate:.2f}",
        interval=f"{_end(effect.low)} to {_end(effect.high)}",
        words=sentence_of(effect),
    )


def _end(value: float) -> str:
    return f"{value:.2f}" if math.isfinite(value) else ("−∞" if value < 0 else "∞")


@dataclass(frozen=True, slots=True)
class PersonalRow:
    """Effect of one feature of people; texts as they are shown."""

    by: str
    of: str
    estimate: str
    interval: str


def personal_rows(release: Release) -> list[PersonalRow]:
    """A line for each effect of features of people; none if the release has no such effects."""
    if release.personal is None:
        return []
    return [
        PersonalRow(
            by=each.by,
            of=each.of,
            estimate=f"{each.estimate:.2f}",
            interval=f"{_end(each.low)} to {_end(each.high)}",
        )
        for each in release.personal.effects
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class TieFacts:
    """Texts as they are shown.

    Attributes:
        sentence: sentence on how often equals tie.
        model: model of ties, and its source.
        symbol: symbol of its parameter.
        parameter, interval: estimate of the parameter.
        meaning: meaning of scores in this model.
    """

    sentence: str
    model: str
    symbol: str
    parameter: str
    interval: str
    meaning: str


def presentation_of(release: Release) -> str:
    """The sentence on the effect of the order of presentation; empty if a release has none."""
    return release.released.order_sentence() if release.informative else ""


def tie_facts(release: Release) -> TieFacts | None:
    """The facts of ties; None where the release does not model them."""
    ties = release.ties
    if ties is None:
        return None
    return TieFacts(
        sentence=tie_sentence(ties),
        model=TIE_MODELS[ties.model],
        symbol=ties.model.symbol,
        parameter=_number(ties.parameter),
        interval=f"{_number(ties.low)} to {_number(ties.high)}",
        meaning=TIE_MEANINGS[ties.model],
    )


def _number(value: float) -> str:
    return f"{value:.3g}" if math.isfinite(value) else "∞"


@dataclass(frozen=True, slots=True)
class AbilityRow:
    """Line for one raw score; texts as they are shown."""

    score: str
    ability: str
    error: str
    interval: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BookletFacts:
    """Facts about one booklet on the page.

    Attributes:
        name: name of the booklet; None: the test has none.
        sentences: sentences on how reliable scores and abilities are.
        rows: abilities of raw scores.
        step: step from one score of `rows` to the next.
    """

    name: str | None
    sentences: tuple[str, ...]
    rows: tuple[AbilityRow, ...]
    step: int


@dataclass(frozen=True, slots=True)
class StepRow:
    """Line for one step of an item that gives points; texts as they are shown."""

    item: str
    step: str
    difficulty: str
    interval: str


@dataclass(frozen=True, slots=True)
class StepFacts:
    """Steps that the page shows.

    Attributes:
        rows: rows of the first items if there are many.
        left_out: number of steps that are in the file alone.
    """

    rows: tuple[StepRow, ...]
    left_out: int


def step_facts(release: Release) -> StepFacts | None:
    """Steps of the items of a test with points; None: of other releases."""
    steps = [] if release.test is None else step_rows(release.test)
    if not steps:
        return None
    shown = release.shown()
    rows = (
        StepRow(
            shown[step.item],
            f"{step.points - 1} to {step.points}",
            _signed(step.difficulty),
            _interval(step.low, step.high),
        )
        for step in steps[:MOST_STEPS]
    )
    return StepFacts(tuple(rows), max(0, len(steps) - MOST_STEPS))


def _interval(low: float, high: float) -> str:
    if math.isinf(low):
        return UNBOUNDED if math.isinf(high) else f"{_signed(high)} and below"
    return f"{_signed(low)} and above" if math.isinf(high) else f"{_signed(low)} to {_signed(high)}"


def booklet_facts(release: Release) -> list[BookletFacts]:
    """The facts of each booklet, of the first ones if there are many; none of other releases."""
    return [_facts(booklet) for booklet in (release.test or ())[:MOST_SECTIONS]]


def _facts(booklet: BookletRecord) -> BookletFacts:
    step = -(-len(booklet.ability) // MOST_ROWS)
    return BookletFacts(
        name=booklet.name,
        sentences=tuple(reliability_sentences(booklet)),
        rows=tuple(_rows(booklet, step)),
        step=step,
    )


def _rows(booklet: BookletRecord, step: int) -> Iterator[AbilityRow]:
    last = len(booklet.ability) - 1
    for score in sorted({*range(0, last, step), last}):
        ability, error = booklet.ability[score], booklet.error[score]
        low, high = ability - NORMAL * error, ability + NORMAL * error
        interval = f"{_signed(low)} to {_signed(high)}"
        yield AbilityRow(f"{score}", _signed(ability), f"{error:.2f}", interval)


@dataclass(frozen=True, slots=True)
class DifferenceRow:
    """Line for one item; texts as they are shown."""

    item: str
    difference: str
    interval: str
    error: str
    size: str
    differs: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferenceFacts:
    """Facts about the items of one group against another's, on the page.

    Attributes:
        groups: the names of both.
        sentence: sentence on which items differ.
        rows: items, the largest difference first, as many as the page has room for.
        left_out: number of further items.
    """

    groups: str
    sentence: str
    rows: tuple[DifferenceRow, ...]
    left_out: int


def difference_facts(release: Release) -> list[DifferenceFacts]:
    """The facts of each pair of groups, of the first ones if there are many."""
    if release.dif is None:
        return []
    shown = release.shown()
    return [
        DifferenceFacts(
            groups=f"{pair.group} against {pair.against}",
            sentence=differences_sentence(pair, shown),
            rows=tuple(_difference(each, shown[each.item]) for each in _largest(pair)),
            left_out=max(len(pair.items) - MOST_ROWS, 0),
        )
        for pair in release.dif[:MOST_SECTIONS]
    ]


def _largest(pair: GroupDifferences) -> list[ItemDifference]:
    return sorted(pair.items, key=lambda each: -abs(each.difference))[:MOST_ROWS]


def _difference(each: ItemDifference, item: str) -> DifferenceRow:
    return DifferenceRow(
        item=item,
        difference=_signed(each.difference),
        interval=f"{_signed(each.low)} to {_signed(each.high)}",
        error=f"{each.error:.2f}",
        size=each.size,
        differs="yes" if each.differs else "",
    )


@dataclass(frozen=True, slots=True)
class FitRow:
    """Line for one item; texts as they are shown."""

    item: str
    statistic: str
    degrees: str
    chance: str
    said: str
    slope: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FitFacts:
    """Facts about how well items fit the model, on the page.

    Attributes:
        sentence: sentence on which items do not fit.
        slopes: which items tell people apart least and most sharply; None: that is not told.
        rows: items, those that fit worst first, as many as the page has room for.
        left_out: number of further items.
    """

    sentence: str
    slopes: str | None
    rows: tuple[FitRow, ...]
    left_out: int


def fit_facts(release: Release) -> FitFacts | None:
    """The facts; None: the release does not tell them."""
    if release.fit is None:
        return None
    shown = release.shown()
    worst = sorted(release.fit, key=lambda each: -each.statistic)[:MOST_ROWS]
    return FitFacts(
        sentence=fit_sentence(release.fit, shown),
        slopes=slopes_sentence(release.fit, shown),
        rows=tuple(
            FitRow(
                item=shown[each.item],
                statistic=f"{each.statistic:.1f}",
                degrees=f"{each.degrees}",
                chance=f"{each.chance:.3f}" if each.chance >= SMALLEST_CHANCE else "<0.001",
                said=slope_word(each) if each.misfits else "",
                slope="" if each.slope is None else "{:.2f} ({:.2f} to {:.2f})".format(*each.slope),
            )
            for each in worst
        ),
        left_out=len(release.fit) - len(worst),
    )


def _signed(value: float) -> str:
    text = f"{value:+.2f}"
    return text if text.strip("+-0.") else "0.00"


MOST = 12  # items shown; a longer ranking shows its best
SHADES = 10  # shades of a cell; the style sheet has as many
OF_SCORES = (
    "From the scores, by the model that they were fitted with. The smaller numbers are 95 %"
    " intervals, of one pair at a time. These intervals are conservative: the ranking can separate"
    " two items whose interval here includes 50 %."
)
OF_DECIDED = " They are shares of the comparisons that do not end in a tie."
OF_COUNTS = (
    "From the noisy counts of each pair alone. The smaller numbers are 95 % intervals, of one pair"
    " at a time, for noise and chance."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """Cell for one pair of items.

    Attributes:
        rate: rate in percent, as text; empty on the diagonal, a dash if it is unknown.
        interval: interval of the rate; empty if there is none.
        shade: 0 to `SHADES`; 0 if the row's item always loses.
        title: rate and interval with more digits, in words.
    """

    rate: str
    interval: str = ""
    shade: int | None = None
    title: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RateTable:
    """The table as the page shows it.

    Attributes:
        names: names of the items, best first.
        rows: one row of cells for each item.
        how: source of the numbers.
        left_out: number of items of the ranking that are not in the table.
    """

    names: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    how: str
    left_out: int


def win_rates_of(release: Release) -> RateTable | None:
    """The chance that the row's item beats the column's; None if the release does not tell.

    This is post-processing of `release.json`.
    """
    if not release.informative:
        return None
    lines = release.ranking[:MOST]
    names = tuple(line.shown for line in lines)
    found = _of_scores(release)
    how = OF_SCORES + OF_DECIDED * (release.ties is not None)
    if found is None:
        found, how = _of_counts(release), OF_COUNTS
    if found is None or not np.isfinite(found.rate).any():
        return None
    rows = tuple(
        tuple(_cell(found, names, row, column) for column in range(len(names)))
        for row in range(len(names))
    )
    left_out = len(release.ranking) - len(names)
    return RateTable(names=names, rows=rows, how=how, left_out=left_out)


def _of_scores(release: Release) -> WinRates | None:
    fitted = on_scale(release, Scale.LOG_ODDS)
    link = {scale: name for name, scale in SCALE_OF_LINK.items()}.get(fitted.scale)
    # Rao and Kupper's scores are no log odds of the comparisons that somebody won.
    other = release.ties is not None and release.ties.model is not TieModel.DAVIDSON
    if link is None or other:
        return None
    lines = fitted.ranking[:MOST]
    scores, low, high = (
        np.array([getattr(line, name) for line in lines], np.float64)
        for name in ("score", "low", "high")
    )
    ends = {"low": np.minimum(low, scores), "high": np.maximum(high, scores)}
    return rates_of_scores(Intervals(scores=scores, **ends), link_named(link))


def _of_counts(release: Release) -> WinRates | None:
    pairs, privacy = release.released, release.privacy
    won = pairs.among([line.item for line in release.ranking[:MOST]])
    if won is None or not pairs.tells_rates:
        return None
    variance = 0.0 if privacy.mechanism == "none" else release.noise_variance
    if variance is None:
        return None
    kind = NoiseKind.GAUSSIAN if "gaussian" in privacy.mechanism else NoiseKind.LAPLACE
    # With weighted rows, so many comparisons are as random as one.
    effect = float(privacy.parameters.get("design_effect", 1.0))
    return rates_of_counts(
        won / effect,
        variance / (getattr(pairs, "row_weight", 1) * effect) ** 2,
        kind,
        public_totals=pairs.public_totals,
    )


def _cell(found: WinRates, names: tuple[str, ...], row: int, column: int) -> Cell:
    if row == column:
        return Cell(rate="")
    rate, low, high = (float(each[row, column]) for each in (found.rate, found.low, found.high))
    if math.isnan(rate):
        return Cell(rate="–")
    return Cell(
        rate=f"{100 * rate:.0f} %",
        interval=f"{100 * low:.0f}–{100 * high:.0f}",
        shade=round(SHADES * rate),
        title=(
            f"{names[row]} beats {names[column]}: {100 * rate:.2f} %, 95 % interval"
            f" {100 * low:.2f} to {100 * high:.2f} %"
        ),
    )
