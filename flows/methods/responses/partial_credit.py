"""Method `totals` of a test with points: difficulties of items and of their steps.

The record of noisy totals of answer sheets with points.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from hushrank.estimation.responses.partial_credit_estimate import (
    PartialCreditEstimate,
    estimate_partial_credit,
    point_report,
)
from hushrank.estimation.responses.point_totals import (
    PointShape,
    PointTotals,
    release_point_totals,
)
from hushrank.flows.config.method import MethodFacts, Problems, Sections
from hushrank.flows.config.responses import ResponsesConfig
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import ConfigError
from hushrank.flows.methods.base import (
    Arrays,
    Attacked,
    Conclusion,
    PlannedMethod,
    Terms,
    attacked_counts,
    without_noise,
)
from hushrank.flows.methods.draws import CountNoise
from hushrank.flows.methods.formulas import Restated, bounds_of, count_noise
from hushrank.flows.methods.reductions import reduce_test
from hushrank.flows.methods.responses.group_differences import differences_between
from hushrank.flows.methods.responses.spectral import (
    MOSTLY_KEPT,
    SHRUNK,
    UNCONFIRMED,
    named_items,
    problems_of_sheets,
)
from hushrank.flows.release.boards import Board
from hushrank.flows.release.release import NOT_INFORMATIVE
from hushrank.flows.release.released import Figure, ReleasedRecord, require_noisy
from hushrank.flows.release.scale import Scale
from hushrank.flows.release.sheet_report import PointTestRecord
from hushrank.flows.statement.mechanism import CountMechanism, MechanismOnCounts
from hushrank.flows.statement.record import count_record
from hushrank.flows.statement.responses import point_words
from hushrank.pipelines.reduce.responses_job import ReduceResponses
from hushrank.pipelines.simulate.planned_survey import PlannedSurvey
from hushrank.privacy.keyed_hash import SecretKey
from hushrank.privacy.randomness import RandomBits
from hushrank.privacy.units import Unit
from hushrank.transforms.responses.answer_sheets import Missing
from hushrank.transforms.storage.files import InputFile

MOST_ENTRIES = 2_000_000  # of all groups
FEWEST_ITEMS, MOST_STEPS = 3, 1000  # a matrix of steps is solved in each pass of the fit
SHEETS = "sheets"  # all entries, as they were drawn
NO_POINTS = (
    "Nothing can be learned from this release: all sheets have no points, or all sheets have all."
)
RESTATED = Restated(
    proof="privacy.response_sensitivity.point_totals_sensitivity",
    what="sheets by the points of each item, and sheets by raw score",
    lines=(
        "items = len(points)",
        "cells = sum(2 * share * m // (m + 1) for m in points) if share > 1 else items",
        "squares = sum(share ** 2 * m // (m + 1) for m in points) if share > 1 else items",
        "l1 = sides * (answer_weight * cells + sheet_weight)",
        "l2_squared = sides * (answer_weight ** 2 * squares + sheet_weight ** 2)",
    ),
)


class ReleasedPointTotals(ReleasedRecord):
    """Noisy numbers of sheets by the points of each item, and by raw score.

    Attributes:
        answer_weight: what a sheet adds to the number of its points, in units of 1 / `share`.
        sheet_weight: what a sheet adds to its raw score, or shares of it to two neighbours.
        share: of which each number of an item loses an equal part for every sheet; 1: none does.
        points: by item, in catalogue order, the sheets with 0, 1, 2 .. points, noise included.
        knots: the raw scores that have a number of sheets.
        sheets: these numbers, noise included.
    """

    shows = (Figure.ITEM_MAP,)
    kind: Literal["point-totals"] = "point-totals"
    answer_weight: int = Field(ge=1)
    sheet_weight: int = Field(ge=1)
    share: int = Field(ge=1)
    points: dict[str, tuple[int, ...]]
    knots: tuple[int, ...]
    sheets: tuple[int, ...]

    @classmethod
    def of(cls, totals: PointTotals, items: Sequence[str]) -> Self:
        """The record of noisy `totals`.

        Raises:
            ValueError: the totals are confidential, or have another number of items.
        """
        require_noisy(totals, items)
        shape = totals.shape
        own = (tuple(cells.tolist()) for cells in totals.cells)
        return cls(
            answer_weight=shape.answer_weight,
            sheet_weight=shape.sheet_weight,
            share=shape.share,
            points=dict(zip(items, own, strict=True)),
            knots=tuple(shape.knots.tolist()),
            sheets=tuple(totals.histogram.tolist()),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PointMechanism(MechanismOnCounts):
    """Noise on sheets by the points of items and by raw score.

    Attributes:
        points: which numbers get it, with their public weights.
    """

    points: PointShape


def problems_of_points(config: Sections) -> Problems:
    """Rules that a test with points must keep."""
    rows = config.input
    if not isinstance(rows, ResponsesConfig) or rows.points is None:
        return
    catalogue, most = config.items.catalogue, config.privacy.max_contributions or 0
    if config.privacy.unit is Unit.LOCAL:
        yield "input.points", "are not randomised one by one; write unit: user, or remove it"
    if config.model.bands is not None:
        yield "model.bands", "is for items that are right or wrong; remove it, or input.points"
    if config.model.anchors is not None:
        yield (
            "model.anchors",
            "are for items that are right or wrong: of an item with points each step has a"
            " difficulty; remove it, or input.points",
        )
    for key, rule in rows.problems_of_points(catalogue):
        yield f"input.{key}", rule
    if 0 < most < len(catalogue):
        yield (
            "privacy.max_contributions",
            f"must be {len(catalogue)} for input.points, as whole sheets are counted, got {most};"
            f" write {len(catalogue)}",
        )
    steps = sum(rows.points_of(catalogue))
    if steps > MOST_STEPS:
        yield (
            "input.points",
            f"all items together must give at most {MOST_STEPS:,} points, got {steps:,}; rank parts"
            " of the test by jobs of their own",
        )


class PartialCredit(PlannedMethod[PointMechanism]):
    """The partial credit model from noisy totals: see `estimation.responses`."""

    facts = MethodFacts(
        name="totals",
        summary="difficulties from noisy numbers of sheets by points of items, and raw scores",
        kind="responses",
        units=(Unit.USER,),
        rules=problems_of_points,
        reads=("groups",),
    )
    mechanism = PointMechanism
    plan_order = 2

    def calibrate(self, config: SurveyConfig) -> PointMechanism:
        """Noise on every number of sheets."""
        catalogue = config.items.catalogue
        problems = list(problems_of_sheets(config, "totals", MOST_STEPS))
        if len(catalogue) < FEWEST_ITEMS:
            problems.append(
                f"items: must be at least {FEWEST_ITEMS} for method: totals, got {len(catalogue)}"
            )
        problems += [f"{key}: {rule}" for key, rule in problems_of_points(config)]
        if problems:
            raise ConfigError("\n".join(problems))
        params = config.privacy.params()
        shape = PointShape.of(config.responses.points_of(catalogue), params)
        groups = None if config.groups is None else config.groups.groups()
        if groups is not None and len(groups) * shape.n_entries > MOST_ENTRIES:
            raise ConfigError(
                f"groups.values: {len(groups)} groups of {shape.n_entries:,} counts each are more"
                f" than {MOST_ENTRIES:,}, the most of method: totals; name fewer groups or items"
            )
        calibration = shape.calibrate(params)  # groups change nothing: see the sensitivity's proof
        counts = CountMechanism.of(params, calibration, len(catalogue), None, groups=groups)
        return PointMechanism(counts=counts, points=shape)

    def terms(self, mechanism: PointMechanism) -> Terms:
        """Cost and noise."""
        sheets = 1 / (mechanism.points.answer_weight * mechanism.points.share)
        where = "on sheets by the points of every item, and on sheets by raw score"
        return Terms.of(mechanism.counts.calibration, where, sheets)

    def reduction(
        self,
        config: SurveyConfig,
        mechanism: PointMechanism,
        files: tuple[InputFile, ...],
        key: SecretKey,
        folder: str,
    ) -> ReduceResponses:
        """Count sheets by the points of each item, and by raw score."""
        most = mechanism.counts.params.max_contributions
        return reduce_test(config, files, key, folder, max_answers=most, totals=mechanism.points)

    def draw(self, exact: Arrays, mechanism: PointMechanism, bits: RandomBits) -> Arrays:
        """Add noise to every entry; with groups, to every entry of every group."""
        shape, calibration = mechanism.points, mechanism.counts.calibration
        noisy = [
            release_point_totals(PointTotals(each, shape), calibration, bits).entries
            for each in exact[SHEETS].reshape(-1, shape.n_entries)  # a row for each group
        ]
        return {SHEETS: np.stack(noisy).reshape(exact[SHEETS].shape)}

    def conclude(
        self, drawn: Arrays, mechanism: PointMechanism, config: SurveyConfig
    ) -> Conclusion:
        """Difficulties of items and steps, reliability, and abilities by raw score.

        With groups, all of it of all groups together, and the difficulties of each.
        """
        counts, names, law = mechanism.counts, config.items.catalogue.names, mechanism.counts.law
        by_group = drawn[SHEETS].reshape(-1, mechanism.points.n_entries)
        totals = PointTotals(by_group.sum(axis=0), mechanism.points, confidential=False)
        found = estimate_partial_credit(totals, counts.whole_law)
        test = None
        if found.fit is not None:
            told = point_report(totals, found.fit, counts.whole_law)
            test = (PointTestRecord.of_points(told, found.steps, names),)
        words = point_words(config.responses.missing or Missing.UNSEEN)
        whole = Conclusion(
            estimate=found.estimate,
            privacy=count_record(words, counts, {"step_of_scores": mechanism.points.step}),
            released=ReleasedPointTotals.of(totals, names),
            scale=Scale.POINT_DIFFICULTY,
            warnings=tuple(_warnings(found, names, private=law.variance > 0)),
            test=test,
        )
        return whole if counts.groups is None else _by_group(whole, by_group, mechanism, names)

    def simulated(self, config: SurveyConfig, survey: PlannedSurvey, replicate: int) -> Arrays:
        """Totals of a simulated test, whose items have their steps at one difficulty each."""
        shape = PointShape.of(
            config.responses.points_of(config.items.catalogue), config.privacy.params()
        )
        entries = np.zeros((max(1, len(survey.shares)), shape.n_entries), np.int64)
        for group in range(len(entries)):
            for points in survey.points(replicate, shape.points, group):
                person, item = np.indices(points.shape)
                entries[group] += shape.count(person.ravel(), item.ravel(), points.ravel())
        return {SHEETS: entries if survey.shares else entries[0]}

    def attacked(self, mechanism: PointMechanism) -> Attacked:
        """Noise on every number of sheets."""
        still = replace(mechanism, counts=without_noise(mechanism.counts))
        return replace(attacked_counts(mechanism.counts), still=still)

    def certified(self, mechanism: PointMechanism, drawn: Arrays) -> tuple[CountNoise]:
        """Noise on sheets by the points of each item, and by raw score."""
        counts, shape = mechanism.counts, mechanism.points
        bounds = bounds_of(counts.params, counts.n_items)
        own = {name: bounds[name] for name in ("n", "L", "sides")}
        own |= {name: getattr(shape, name) for name in ("answer_weight", "sheet_weight", "share")}
        formula = RESTATED.formula({**own, "points": shape.points})
        entries = shape.n_entries * (1 if counts.groups is None else len(counts.groups))
        return (count_noise(RESTATED.what, entries, formula, counts.calibration),)


def _by_group(
    whole: Conclusion,
    by_group: NDArray[np.int64],
    mechanism: PointMechanism,
    items: Sequence[str],
) -> Conclusion:
    """Difficulties in each group that has a name, from its own sheets, and how they differ."""
    groups, law = mechanism.counts.groups, mechanism.counts.law
    names = () if groups is None else groups.names
    parts = [
        PointTotals(entries, mechanism.points, confidential=False)
        for entries, _ in zip(by_group, names, strict=False)
    ]
    found = [estimate_partial_credit(part, law) for part in parts]
    boards = tuple(
        Board(
            name=name,
            estimate=each.estimate,
            own=1.0,
            released=ReleasedPointTotals.of(part, items),
        )
        for name, part, each in zip(names, parts, found, strict=True)
    )
    of_items = [each.of_items for each in found]
    return replace(whole, boards=boards, dif=differences_between(names, of_items, law.kind, items))


def _warnings(
    found: PartialCreditEstimate, names: Sequence[str], *, private: bool
) -> Iterator[str]:
    if found.fit is None:
        yield NOT_INFORMATIVE if private else NO_POINTS
        return
    what = "noisy counts" if private else "counts"
    for where, answer, bound in (
        (found.no_upper_limit, "fully correct", "upper"),
        (found.no_lower_limit, "wrong", "lower"),
    ):
        if where.any():
            whose = "its" if where.sum() == 1 else "their"
            yield UNCONFIRMED.format(what, answer, named_items(names, where), whose, bound)
    if private and found.fit.of_items.kept < MOSTLY_KEPT:
        yield SHRUNK.format(found.fit.of_items.kept)


PARTIAL_CREDIT = PartialCredit()
