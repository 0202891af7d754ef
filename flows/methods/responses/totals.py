"""Method `totals`: difficulties of test items from right less wrong answers and raw scores.

The record of noisy totals of answer sheets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from pydantic import Field

from hushrank.estimation.responses.conditional_fit import ItemFit, item_fit
from hushrank.estimation.responses.reliability import booklet_estimates
from hushrank.estimation.responses.sheet_totals import (
    MOST_SCORES,
    SheetShape,
    SheetTotals,
    release_sheet_totals,
    step_of_scores,
)
from hushrank.estimation.responses.totals_estimate import (
    TotalsEstimate,
    estimate_from_totals,
    predicted_error,
    predicted_noise,
)
from hushrank.flows.config.method import MethodFacts, Problems, Sections
from hushrank.flows.config.responses import ResponsesConfig
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import ConfigError
from hushrank.flows.methods.base import (
    Arrays,
    Attacked,
    Choice,
    Conclusion,
    PlannedMethod,
    RankingMethod,
    Terms,
    attacked_counts,
    without_noise,
)
from hushrank.flows.methods.draws import CountNoise
from hushrank.flows.methods.formulas import Restated, bounds_of, count_noise
from hushrank.flows.methods.reductions import reduce_test
from hushrank.flows.methods.responses.group_differences import differences_between
from hushrank.flows.methods.responses.partial_credit import PARTIAL_CREDIT, problems_of_points
from hushrank.flows.methods.responses.spectral import (
    MOSTLY_KEPT,
    NO_ANSWERS,
    SHRUNK,
    UNCONFIRMED,
    named_items,
    problems_of_sheets,
)
from hushrank.flows.release.boards import Board
from hushrank.flows.release.release import NOT_INFORMATIVE
from hushrank.flows.release.released import Figure, ReleasedRecord, require_noisy
from hushrank.flows.release.scale import Scale
from hushrank.flows.release.sheet_report import BookletRecord, ItemFitRecord
from hushrank.flows.release.wording import name_list
from hushrank.flows.statement.mechanism import CountMechanism, MechanismOnCounts
from hushrank.flows.statement.record import Parameter, count_record
from hushrank.flows.statement.responses import totals_words
from hushrank.pipelines.reduce.responses_job import ReduceResponses
from hushrank.pipelines.simulate.planned_survey import PlannedSurvey
from hushrank.privacy.keyed_hash import SecretKey
from hushrank.privacy.randomness import RandomBits
from hushrank.privacy.units import NoiseKind, Unit
from hushrank.transforms.responses.answer_sheets import Missing
from hushrank.transforms.storage.files import InputFile

if TYPE_CHECKING:
    from hushrank.estimation.responses.item_slopes import ItemSlopes


class ReleasedSheetTotals(ReleasedRecord):
    """Noisy right less wrong answers of each item, and noisy numbers of sheets by raw score.

    Attributes:
        answer_weight: what a right answer adds to its item, and a wrong one takes off.
        sheet_weight: what a sheet adds to the scores of its booklet, to one or to two neighbours.
        right_minus_wrong: by item, in catalogue order, noise included.
        booklets: the items of each booklet; null: every sheet has all items.
        knots: of each booklet, the raw scores that have a number of sheets.
        sheets: of each booklet, these numbers, noise included.
        bands: of each booklet, the lowest raw score of each band; null: there are none.
        by_band: right less wrong answers of the sheets of each band, of which `right_minus_wrong`
            is the sum; null: there are no bands.
        anchors: fixed difficulties of items, which set the zero; null: there are none.
    """

    shows = (Figure.ITEM_MAP,)
    kind: Literal["sheet-totals"] = "sheet-totals"
    answer_weight: int = Field(ge=1)
    sheet_weight: int = Field(ge=1)
    right_minus_wrong: dict[str, int]
    booklets: tuple[tuple[str, ...], ...] | None
    knots: tuple[tuple[int, ...], ...]
    sheets: tuple[tuple[int, ...], ...]
    bands: tuple[tuple[int, ...], ...] | None = None
    by_band: tuple[dict[str, int], ...] | None = None
    anchors: dict[str, float] | None = None

    @classmethod
    def of(
        cls, totals: SheetTotals, items: Sequence[str], anchors: dict[str, float] | None = None
    ) -> Self:
        """The record of noisy `totals`, with the fixed difficulties that set the zero.

        Raises:
            ValueError: the totals are confidential, or have another number of items.
        """
        require_noisy(totals, items)
        shape = totals.shape
        booklets = range(len(shape.booklets))
        everything = shape.booklets == (tuple(range(len(items))),)
        named = tuple(tuple(items[code] for code in codes) for codes in shape.booklets)
        bands = by_band = None
        if shape.bands > 1:
            bands = tuple(tuple(shape.band_starts(booklet).tolist()) for booklet in booklets)
            by_band = tuple(dict(zip(items, each, strict=True)) for each in totals.by_band.tolist())
        return cls(
            bands=bands,
            by_band=by_band,
            anchors=anchors,
            answer_weight=shape.answer_weight,
            sheet_weight=shape.sheet_weight,
            right_minus_wrong=dict(zip(items, totals.right_minus_wrong.tolist(), strict=True)),
            booklets=None if everything else named,
            knots=tuple(tuple(shape.knots(booklet).tolist()) for booklet in booklets),
            sheets=tuple(tuple(part.tolist()) for part in totals.histograms),
        )


MOST_ENTRIES = 2_000_000  # of all groups
ITEMS_OF_A_BAND = 2  # at least, of the shortest sheet
FEWEST_STEPS = 6  # of a booklet beside a longer one: with 4, intervals of easy ones hold .87
FEWEST_ANCHORS = 2
MOVED_ANCHORS = (
    "Anchors that have other difficulties here than their fixed ones, by more than noise and chance"
    " explain (95 % for all anchors at once): {}. The zero of a scale that rests on such items is"
    " off by a part of that; consider taking them out of model.anchors."
)
FEWEST_ITEMS, MOST_ITEMS = 3, 2000  # a matrix of items is solved in each pass of the fit
RESTATED = Restated(
    proof="privacy.sensitivity.sheet_totals_sensitivity",
    what="right less wrong answers of each item, and sheets by raw score",
    lines=(
        "items = min(L, n)",
        "l1 = sides * (answer_weight * items + sheet_weight)",
        "l2_squared = sides ** 2 * answer_weight ** 2 * items + sides * sheet_weight ** 2",
    ),
)
SHEETS = "sheets"  # all entries, as they were drawn


@dataclass(frozen=True, slots=True, kw_only=True)
class TotalsMechanism(MechanismOnCounts):
    """Noise on right less wrong answers by item and on sheets by raw score.

    Attributes:
        shape: which numbers get it, with their public weights.
    """

    shape: SheetShape


def problems_of_totals(config: Sections) -> Problems:
    """Rules that a test must keep so that raw scores say all that sheets say of abilities."""
    rows = config.input
    if not isinstance(rows, ResponsesConfig):
        return
    for key, rule in rows.problems_of_key(config.items.catalogue):
        yield f"input.{key}", rule
    if rows.points is not None:
        yield from problems_of_points(config)
        return
    catalogue, most = config.items.catalogue, config.privacy.max_contributions or 0
    if rows.booklets:
        for key, rule in rows.problems_of_booklets(catalogue, most):
            yield f"input.{key}", rule
        yield from _short_booklets(rows.booklets)
    if (rows.missing or Missing.UNSEEN) is Missing.UNSEEN:
        yield (
            "input.missing",
            "unseen is not for method: totals, which counts whole sheets; write wrong (a blank is"
            " a wrong answer) or set-aside (a sheet with a blank does not count), or set method:"
            " spectral",
        )
    largest = max(map(len, rows.booklets.values())) if rows.booklets else len(catalogue)
    if 0 < most < largest:
        yield (
            "privacy.max_contributions",
            f"must be {largest} for method: totals, which counts whole sheets, got {most}; write"
            f" {largest}, or set method: spectral",
        )
    yield from _problems_of_anchors(config.model.anchors, catalogue.names)
    if config.model.bands is not None:
        smallest = min(map(len, rows.booklets.values())) if rows.booklets else len(catalogue)
        yield from _problems_of_bands(config.model.bands, smallest, config.privacy.noise)


def _problems_of_anchors(anchors: Mapping[str, float] | None, items: Sequence[str]) -> Problems:
    """Rules of items with fixed difficulties."""
    if anchors is None:
        return
    if other := [name for name in anchors if name not in items]:
        yield "model.anchors", f"{other[0]} is not one of items; correct it"
    if len(anchors) < FEWEST_ANCHORS:
        yield (
            "model.anchors",
            f"must name {FEWEST_ANCHORS} items or more, got {len(anchors)}, so that one that has"
            " moved is seen; add others, or remove it",
        )


def _problems_of_bands(bands: int, smallest: int, noise: NoiseKind) -> Problems:
    """Rules of bands of raw scores, of which the shortest sheet has `smallest` items."""
    if noise is NoiseKind.LAPLACE:
        yield (
            "model.bands",
            "needs noise: gaussian; with Laplace noise items would seem to misfit by chance more"
            " often than a release may say. Set that, or remove it",
        )
    if smallest < ITEMS_OF_A_BAND * bands:
        yield (
            "model.bands",
            f"must be at most {smallest // ITEMS_OF_A_BAND} for sheets of {smallest} items, got"
            f" {bands}; write fewer, or remove it",
        )


def _short_booklets(booklets: Mapping[str, Sequence[str]]) -> Problems:
    """The first booklet that has too few knots, as their distance follows the longest one."""
    longest = max(map(len, booklets.values()), default=0)
    step = step_of_scores(longest)
    for name, items in booklets.items():
        if step > 1 < len(items) < FEWEST_STEPS * step:
            yield (
                "input.booklets",
                f"{name} has {len(items)} items beside a booklet of {longest}, so its sheets would"
                f" be counted only at raw scores {step} apart, and no interval would hold; give it"
                f" {FEWEST_STEPS * step} items or more, divide booklets of over {MOST_SCORES}"
                " items, or set method: spectral",
            )
            return


class Totals(PlannedMethod[TotalsMechanism]):
    """Conditional maximum likelihood from noisy totals: see `estimation.responses`."""

    facts = MethodFacts(
        name="totals",
        summary="difficulties from noisy right less wrong answers of items, and raw scores",
        kind="responses",
        units=(Unit.USER,),
        rules=problems_of_totals,
        reads=("groups", "model.anchors", "model.bands"),
    )
    mechanism = TotalsMechanism
    plan_order = 2

    @property
    def ways(self) -> tuple[RankingMethod[Any], ...]:
        """Itself, and the way for items with points."""
        return self, PARTIAL_CREDIT

    def resolve(self, config: SurveyConfig) -> Choice:
        """Itself, or the way for items with points."""
        return Choice(self if config.responses.points is None else PARTIAL_CREDIT)

    def calibrate(self, config: SurveyConfig) -> TotalsMechanism:
        """Noise on every total of an item and every number of sheets."""
        n_items = len(config.items.catalogue.names)
        problems = list(problems_of_sheets(config, "totals", MOST_ITEMS))
        if n_items < FEWEST_ITEMS:
            problems.append(
                f"items: must be at least {FEWEST_ITEMS} for method: totals, got {n_items}"
            )
        problems += [f"{key}: {rule}" for key, rule in problems_of_totals(config)]
        if problems:
            raise ConfigError("\n".join(problems))
        params = config.privacy.params()
        shape = _shape_of(config)
        groups = None if config.groups is None else config.groups.groups()
        if groups is not None and len(groups) * shape.n_entries > MOST_ENTRIES:
            raise ConfigError(
                f"groups.values: {len(groups)} groups of {shape.n_entries:,} counts each are more"
                f" than {MOST_ENTRIES:,}, the most of method: totals; name fewer groups or items"
            )
        calibration = shape.calibrate(params)  # groups change nothing: see the sensitivity's proof
        counts = CountMechanism.of(params, calibration, n_items, None, groups=groups)
        return TotalsMechanism(counts=counts, shape=shape)

    def terms(self, mechanism: TotalsMechanism) -> Terms:
        """Cost and noise."""
        answers = 1 / mechanism.shape.answer_weight
        where = "on right less wrong answers of every item, and on sheets by raw score"
        return Terms.of(mechanism.counts.calibration, where, answers)

    def reduction(
        self,
        config: SurveyConfig,
        mechanism: TotalsMechanism,
        files: tuple[InputFile, ...],
        key: SecretKey,
        folder: str,
    ) -> ReduceResponses:
        """Count right less wrong answers of each item, and sheets by raw score."""
        most = mechanism.counts.params.max_contributions
        return reduce_test(config, files, key, folder, max_answers=most, totals=mechanism.shape)

    def draw(self, exact: Arrays, mechanism: TotalsMechanism, bits: RandomBits) -> Arrays:
        """Add noise to every entry; with groups, to every entry of every group."""
        shape, calibration = mechanism.shape, mechanism.counts.calibration
        entries = exact[SHEETS].reshape(-1, shape.n_entries)  # a row for each group
        noisy = [
            release_sheet_totals(SheetTotals(each, shape), calibration, bits).entries
            for each in entries
        ]
        return {SHEETS: np.stack(noisy).reshape(exact[SHEETS].shape)}

    def conclude(
        self, drawn: Arrays, mechanism: TotalsMechanism, config: SurveyConfig
    ) -> Conclusion:
        """Difficulties from the noisy totals, reliability, and abilities by raw score.

        With groups, all of it of all groups together, and the difficulties of each.
        """
        whole = self.conclude_whole(drawn, mechanism, config)
        shape, law = mechanism.shape, mechanism.counts.whole_law
        totals = _released(drawn, shape)
        if mechanism.counts.groups is not None:
            whole = _by_group(whole, drawn, mechanism, config)
        fit = estimate_from_totals(totals, law, _anchors_of(config)).fit
        if fit is None:
            return whole
        booklets = booklet_estimates(totals, fit, law)
        test = tuple(map(BookletRecord.of, _names_of_booklets(config), booklets))
        told = None
        if shape.bands > 1:
            from hushrank.estimation.responses.item_slopes import item_slopes

            slopes = item_slopes(totals, law.variance)
            told = _fit_of(item_fit(totals, fit, law.variance), slopes, config)
        return replace(whole, test=test, fit=told)

    def conclude_whole(
        self, drawn: Arrays, mechanism: TotalsMechanism, config: SurveyConfig
    ) -> Conclusion:
        """Difficulties alone, for plans, which conclude many times."""
        counts, shape = mechanism.counts, mechanism.shape
        totals = _released(drawn, shape)
        found = estimate_from_totals(totals, counts.whole_law, _anchors_of(config))
        names = config.items.catalogue.names
        words = totals_words(
            config.responses.missing or Missing.UNSEEN,
            of_booklets=config.responses.booklets is not None,
            bands=shape.bands,
        )
        return Conclusion(
            estimate=found.estimate,
            privacy=count_record(words, counts, _parameters(shape, config)),
            released=ReleasedSheetTotals.of(totals, names, config.model.anchors),
            scale=Scale.DIFFICULTY if config.model.anchors is None else Scale.ANCHORED_DIFFICULTY,
            warnings=tuple(_warnings(found, names, private=counts.law.variance > 0)),
        )

    def simulated(self, config: SurveyConfig, survey: PlannedSurvey, replicate: int) -> Arrays:
        """Totals of whole sheets, of a simulated test."""
        booklets = config.responses.booklet_codes(config.items.catalogue)
        shape = _shape_of(config)
        entries = np.zeros((max(1, len(survey.shares)), shape.n_entries), np.int64)
        for group in range(len(entries)):
            for answered, right in survey.sheets(replicate, booklets, group):
                person, item = np.nonzero(answered)
                correct = right[person, item].astype(np.uint8)
                entries[group] += shape.count(person, item, correct)
        return {SHEETS: entries if survey.shares else entries[0]}

    def predicted_error(
        self, config: SurveyConfig, survey: PlannedSurvey, mechanism: TotalsMechanism
    ) -> float | None:
        """Error of difficulties, for abilities and difficulties as far apart as supposed."""
        answers = survey.people * survey.answers / survey.n_items
        noise = predicted_noise(mechanism.shape, mechanism.counts.whole_law)
        return predicted_error(answers, survey.answers, survey.ability_spread, survey.spread, noise)

    def attacked(self, mechanism: TotalsMechanism) -> Attacked:
        """Noise on every total of an item and every number of sheets."""
        still = replace(mechanism, counts=without_noise(mechanism.counts))
        return replace(attacked_counts(mechanism.counts), still=still)

    def certified(self, mechanism: TotalsMechanism, drawn: Arrays) -> tuple[CountNoise]:
        """Noise on right less wrong answers of each item, and on sheets by raw score."""
        counts, shape = mechanism.counts, mechanism.shape
        bounds = bounds_of(counts.params, counts.n_items)
        own = {name: bounds[name] for name in ("n", "L", "sides")}
        own |= {"answer_weight": shape.answer_weight, "sheet_weight": shape.sheet_weight}
        formula = RESTATED.formula(own)
        groups = 1 if counts.groups is None else len(counts.groups)
        entries = groups * shape.n_entries
        return (count_noise(RESTATED.what, entries, formula, counts.calibration),)


def _shape_of(config: SurveyConfig) -> SheetShape:
    catalogue = config.items.catalogue
    return SheetShape.of(
        len(catalogue),
        config.responses.booklet_codes(catalogue),
        config.privacy.params().noise,
        config.model.bands or 1,
    )


def _anchors_of(config: SurveyConfig) -> dict[int, float]:
    """Fixed difficulties by code of the item."""
    anchors, names = config.model.anchors or {}, config.items.catalogue.names
    return {code: anchors[name] for code, name in enumerate(names) if name in anchors}


def _fit_of(
    found: ItemFit, slopes: ItemSlopes | None, config: SurveyConfig
) -> tuple[ItemFitRecord, ...]:
    columns = [found.statistic, found.degrees, found.chance, found.misfits, found.steeper]
    told: list[Sequence[Any]] = [[None] * len(found.chance)] * 3
    if slopes is not None:
        told = [column.tolist() for column in (slopes.slope, slopes.low, slopes.high)]
    lines = zip(
        config.items.catalogue.names, *(column.tolist() for column in columns), *told, strict=True
    )
    return tuple(
        ItemFitRecord(
            item=item,
            statistic=statistic,
            degrees=degrees,
            chance=chance,
            misfits=misfits,
            steeper=steeper,
            discrimination=slope,
            discrimination_low=low,
            discrimination_high=high,
        )
        for item, statistic, degrees, chance, misfits, steeper, slope, low, high in lines
    )


def _released(drawn: Arrays, shape: SheetShape) -> SheetTotals:
    """The noisy totals of all sheets; with groups, the sums over all groups."""
    entries = drawn[SHEETS].reshape(-1, shape.n_entries).sum(axis=0)
    return SheetTotals(entries, shape, confidential=False)


def _by_group(
    whole: Conclusion, drawn: Arrays, mechanism: TotalsMechanism, config: SurveyConfig
) -> Conclusion:
    """Difficulties in each group that has a name, from its own sheets, and how they differ."""
    counts, items = mechanism.counts, config.items.catalogue.names
    names = () if counts.groups is None else counts.groups.names
    parts = [
        SheetTotals(entries, mechanism.shape, confidential=False)
        for entries, _ in zip(drawn[SHEETS], names, strict=False)
    ]
    anchors = _anchors_of(config)
    found = [estimate_from_totals(part, counts.law, anchors) for part in parts]
    boards = tuple(
        Board(
            name=name,
            estimate=each.estimate,
            own=1.0,
            released=ReleasedSheetTotals.of(part, items, config.model.anchors),
        )
        for name, part, each in zip(names, parts, found, strict=True)
    )
    dif = differences_between(names, found, counts.law.kind, items)
    return replace(whole, boards=boards, dif=dif)


def _names_of_booklets(config: SurveyConfig) -> list[str | None]:
    """Names of the booklets in the order of `SheetShape.booklets`; None: there are none."""
    booklets = config.responses.booklets
    if booklets is None:
        return [None]
    named: dict[frozenset[str], list[str]] = {}
    for name, items in booklets.items():
        named.setdefault(frozenset(items), []).append(name)
    return [", ".join(names) for names in named.values()]


def _parameters(shape: SheetShape, config: SurveyConfig) -> dict[str, Parameter]:
    parameters: dict[str, Parameter] = {"step_of_scores": shape.step}
    if shape.bands > 1:
        parameters["bands"] = shape.bands
    if config.responses.booklets is not None:
        parameters["booklets"] = len(config.responses.booklets)
    return parameters


def _warnings(found: TotalsEstimate, names: Sequence[str], *, private: bool) -> Iterator[str]:
    if found.fit is None:
        yield NOT_INFORMATIVE if private else NO_ANSWERS
        return
    what = "noisy counts" if private else "counts"
    for where, answer, bound in (
        (found.no_upper_limit, "correct", "upper"),
        (found.no_lower_limit, "wrong", "lower"),
    ):
        if where.any():
            whose = "its" if where.sum() == 1 else "their"
            yield UNCONFIRMED.format(what, answer, named_items(names, where), whose, bound)
    if found.moved_anchors:
        shown = [f"{names[code]} ({by:+.2f})" for code, by in found.moved_anchors.items()]
        yield MOVED_ANCHORS.format(name_list(shown))
    if private and found.fit.kept < MOSTLY_KEPT:
        yield SHRUNK.format(found.fit.kept)


METHODS = (Totals(),)
