"""What groups, weights and nights of a stream change in every method of counts.

Groups: what the three methods that release counts have in common where rows are in groups.

Each group's counts get noise of their own, and the whole is the sum of all groups, so with G groups
the variance of its noise is G times what it is without groups. Another way would draw the whole
apart, from a share q of the budget, and lean the sum and that on each other. The whole then has the
variance 1 / (q^2 + (1 - q)^2 / G), in that of a release without groups, with Laplace noise, and
1 / (q + (1 - q) / G) with Gaussian noise; the groups have (1 - q)^-2 and (1 - q)^-1. Half the
budget for the whole makes it better from 4 groups on (Laplace: 4 / (1 + 1 / G) against G) or from
2 (Gaussian: 2 / (1 + 1 / G)), and the noise of every group 4 or 2 times as large in variance.
Groups are what such a release is for, and they are smaller: all of the budget is theirs.

Groups that overlap: the sum of all groups counts an answer as often as it has groups, so the whole
has counts of its own, which get the same noise. With at most g groups of an answer, the noise of
every cell is that of g + 1 rankings paid from one budget: (g + 1)^2 times the variance with Laplace
noise, g + 1 times with Gaussian noise, in that of a release without groups. The whole is one of the
g + 1. Counts of each set of groups that may occur would cost no more than one group, but they are
2^G where all may meet, and each group would be the noisy sum of half of them.

Calibration, draw and ranking of methods on counts where rows have weights.

`privacy.row_weights` has the bound, and `estimation.common.alike_answers` says what the sum of
squared weights is for.

Methods on counts, night by night under one budget: `privacy.stream` for a configuration.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.common.central_noise import (
    Calibration,
    calibrate_weighted,
    release_squares,
)
from hushrank.estimation.common.links import Floats
from hushrank.estimation.common.matrices import integers_of
from hushrank.estimation.common.pooling import EvidenceAt, pool
from hushrank.estimation.common.score_change import window_totals
from hushrank.flows.config.comparisons import Design
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import ConfigError
from hushrank.flows.methods.base import Arrays, Attacked, Conclusion, Terms, attacked_counts
from hushrank.flows.methods.draws import Draw
from hushrank.flows.methods.formulas import Restated, noise_of_counts
from hushrank.flows.methods.reductions import CountedMethod
from hushrank.flows.release.boards import Board
from hushrank.flows.release.released import Released
from hushrank.flows.statement.mechanism import CountMechanism, CountWords
from hushrank.flows.statement.record import Parameter, count_record
from hushrank.privacy.accounting import spend_of
from hushrank.privacy.noise import NoiseLaw, add_noise
from hushrank.privacy.randomness import RandomBits
from hushrank.privacy.row_weights import Counted
from hushrank.privacy.sensitivity import Sensitivity
from hushrank.privacy.stream import Stream, stream_of
from hushrank.privacy.stream_encoder import ONE, RowTerms, SquareTerms
from hushrank.privacy.units import UNITS, Adjacency, NoiseKind, PrivacyParams
from hushrank.transforms.common.catalogue import Groups

if TYPE_CHECKING:  # loaded by nights of a stream alone
    from hushrank.transforms.streams.released_files import Drawn, Shown
from hushrank.transforms.common.schema import Ties
from hushrank.transforms.comparisons.bound import SQUARES

EVENT_IN_ONE_GROUP = (
    "Rows of one person, pair and event (input.columns.event) that name different groups contradict"
    " each other, and none of them counts."
)
EVENT_IN_GROUPS = (
    f"{EVENT_IN_ONE_GROUP} Where an answer may be in several groups, groups.most counts it in each."
)
WEIGHT_KEYS = ("privacy.bounding", "input.columns.weight")  # keys of methods that take weights


def weighted_mechanism(
    params: PrivacyParams, counted: Counted, n_items: int, ties: Ties, design: Design | None = None
) -> CountMechanism:
    """Noise for counts of weighted rows, and for the sum of their squares."""
    calibration, divisor = calibrate_weighted(params, counted, n_items, ties.row_weight)
    return CountMechanism.of(
        params, calibration, n_items, ties, design=design, squares_divisor=divisor
    )


def drawn_squares(exact: Arrays, mechanism: CountMechanism, bits: RandomBits) -> Arrays:
    """The noisy sum of squared weights; nothing where rows have none."""
    if mechanism.squares_divisor is None:
        return {}
    squares = exact[SQUARES]
    divisor, calibration = mechanism.squares_divisor, mechanism.calibration
    return {SQUARES: release_squares(squares, divisor, calibration, bits)}


def ranking_weight(
    drawn: Arrays,
    mechanism: CountMechanism,
    wins: NDArray[np.int64] | NDArray[np.float64],
    entries: int,
) -> int:
    """The row weight to rank by: integer units of what is as random as one comparison.

    Args:
        drawn: arrays that were released.
        mechanism: mechanism that drew them.
        wins: noisy counts that add up to those of all rows.
        entries: number of entries that have noise of their own.
    """
    divisor = mechanism.squares_divisor
    if divisor is None:
        return mechanism.row_weight
    variance = mechanism.law.variance
    from hushrank.estimation.common.alike_answers import effective_units

    return effective_units(
        total=float(wins.sum()),
        total_variance=entries * variance,
        squares=float(drawn[SQUARES][0]) * divisor,
        squares_variance=variance * divisor**2,
        row_weight=mechanism.row_weight // UNITS,
        most=mechanism.params.most_units,
    )


def weight_parameters(
    drawn: Arrays, mechanism: CountMechanism, ranked_by: int
) -> dict[str, Parameter]:
    """Return a release's parameters of weights; empty where rows have none.

    Args:
        drawn: arrays that were released.
        mechanism: mechanism that drew them.
        ranked_by: value from `ranking_weight`.
    """
    divisor, params = mechanism.squares_divisor, mechanism.params
    if divisor is None:
        return {}
    found: dict[str, Parameter] = {
        "bounding": params.bounding.value,
        "units_of_a_comparison": mechanism.row_weight,
        "sum_of_squared_weights": int(drawn[SQUARES][0]) * divisor / UNITS**2,
        "design_effect": ranked_by / mechanism.row_weight,
    }
    if params.max_weight is not None:
        found["max_weight"] = params.max_weight
    return found


NIGHT, RELEASED, SHOWN, ANSWERS = "night", "released", "shown", "answers"  # arrays of a night
DECIMALS = 6  # decimals of a shown cell: what is published is what is ranked

Cells = NDArray[np.int64] | NDArray[np.float64]
# Sensitivity of one night's counts, from the bounds, the items, a row's weight and the groups.
SensitivityOf = Callable[[PrivacyParams, int, int, int], Sensitivity]


def calibrate_stream(
    config: SurveyConfig, of: SensitivityOf, groups: Groups | None
) -> tuple[Calibration, Stream] | None:
    """Noise of the nights of a stream; None: the job is none.

    Args:
        config: the job, under unit `user`.
        of: the sensitivity of one night's counts; with one row of a person, of a row.
        groups: groups that are counted apart; None: there are none.

    Raises:
        ConfigError: the budget is too small for any noise that can be computed with.
    """
    section = config.schedule.stream
    if section is None:
        return None
    params = config.privacy.params()
    added = replace(params, adjacency=Adjacency.ADD_REMOVE)
    if isinstance(section.terms, RowTerms):  # what one row moves
        added = replace(added, max_contributions=1, per_item_cap=None)
    n_items, (n_groups, most) = len(config.items.catalogue.names), cells_of(groups)
    weight = config.comparisons.ties.row_weight
    if isinstance(section.terms, SquareTerms):
        one = Sensitivity(weight, weight**2)
    else:
        one = of(added, n_items, weight, n_groups)
    one = one.in_groups(most)
    try:
        stream = stream_of(params, one, section.terms, section.workload, section.bands)
    except ValueError as error:
        raise ConfigError(f"schedule.stream: {error}; raise the budget of the stream") from None
    spend = spend_of(params, stream.sensitivity.l2_squared)
    names = params.names_per_person
    return Calibration(stream.sensitivity, "stream_sensitivity", stream.law, spend, names), stream


def terms_of(mechanism: CountMechanism, where: str) -> Terms:
    """Cost and noise of counts, of a night of a stream too; `where` says of which counts."""
    stream = mechanism.stream
    if stream is None:
        return Terms.of(mechanism.calibration, where)
    bands = stream.encoder.bands
    nights = f"{where}, spread over {bands} nights" if bands > 1 else where
    return Terms.of(mechanism.calibration, nights, 1 / ONE)


def arrays_of(
    drawn: Drawn, shown: Shown, night: int, stream: Stream, cells_of_a_row: int
) -> Arrays:
    """Return the stored arrays of a night: what was drawn, and what all nights so far show.

    Args:
        drawn: draw of the night.
        shown: what all nights so far show.
        night: number of the night, from 0.
        stream: the terms and the law.
        cells_of_a_row: number of cells that one row adds to.
    """
    totals = window_totals(stream, shown.sums).answers / cells_of_a_row
    return {
        NIGHT: np.array(night),
        RELEASED: drawn.released,
        SHOWN: np.round(shown.cells, DECIMALS),
        ANSWERS: np.round(totals, DECIMALS),
    }


@dataclass(frozen=True, slots=True)
class ShownCells:
    """Cells that a release is made of.

    Attributes:
        counts: noisy, in the unit of counts; integers where the release is no night of a stream.
        law: law of the noise in each of them.
    """

    counts: Cells
    law: NoiseLaw


def shown_cells(drawn: Arrays, mechanism: CountMechanism, name: str) -> ShownCells:
    """The cells that a method ranks by.

    Args:
        drawn: arrays that were drawn.
        mechanism: mechanism that drew them.
        name: name of the array, where the release is no night of a stream.
    """
    if mechanism.stream is None:
        return ShownCells(drawn[name], mechanism.law)
    return ShownCells(drawn[SHOWN], mechanism.stream.shown_law(int(drawn[NIGHT])))


def drawn_of_group(drawn: Arrays, mechanism: CountMechanism, group: int) -> Arrays:
    """Return the arrays that were drawn for one of several groups."""
    if mechanism.stream is None:
        return {name: values[group] for name, values in drawn.items()}
    return {NIGHT: drawn[NIGHT], SHOWN: drawn[SHOWN][group]}


def drawn_of_all(drawn: Arrays, mechanism: CountMechanism) -> Arrays:
    """The counts of the whole: sums over all groups, or a cell of its own if these overlap."""
    if mechanism.groups is not None and mechanism.groups.most is not None:
        return drawn_of_group(drawn, mechanism, len(mechanism.groups) - 1)
    if mechanism.stream is None:
        return {name: values.sum(axis=0) for name, values in drawn.items()}
    return {NIGHT: drawn[NIGHT], SHOWN: np.round(drawn[SHOWN].sum(axis=0), DECIMALS)}


def without_diagonal(cells: Cells) -> Cells:
    """A noisy matrix of pairs; on its diagonal, where nothing is counted, without its noise."""
    if not cells.diagonal().any():
        return cells
    found = cells.copy()
    np.fill_diagonal(found, 0)
    return found


def simulated_night(
    counts: NDArray[np.int64], mechanism: CountMechanism, bits: RandomBits
) -> Arrays | None:
    """Show these counts as a stream's last night would, for a plan; None: it is no stream.

    Raises:
        ValueError: the bits are those of a release, whose nights are drawn and stored one by one
            (`transforms.streams.released_files`).
    """
    stream = mechanism.stream
    if stream is None:
        return None
    if bits.safe:
        raise ValueError("a night of a stream is drawn by draw_night, which stores it")
    last = stream.terms.nights - 1
    fine = NoiseLaw(NoiseKind.GAUSSIAN, ONE * math.sqrt(float(stream.variances[last])))
    noise = add_noise(np.zeros(counts.shape, np.int64), fine, bits) / ONE
    return {NIGHT: np.array(last), SHOWN: np.round(counts + noise, DECIMALS)}


def groups_of(config: SurveyConfig, cells: int, most: int) -> Groups | None:
    """The groups that a job counts apart; None: it has none.

    Args:
        config: the job.
        cells: counts of one group.
        most: counts that can be released.

    Raises:
        ConfigError: there would be more counts.
    """
    if config.groups is None:
        return None
    groups = config.groups.groups()
    if len(groups) * cells > most:
        raise ConfigError(
            f"groups.values: {len(groups)} groups of {cells:,} counts each are"
            f" {len(groups) * cells:,}, and method: {config.method} releases at most {most:,};"
            " rank fewer items or groups, or set method: noisy-counts"
        )
    return groups


def _boards_alone(groups: Groups, concluded: Sequence[Conclusion]) -> tuple[Board, ...]:
    """Return boards that each follow from the counts of one group alone.

    Groups that overlap share answers, so what chance did to one group it did to others too; partial
    pooling takes groups as independent, and its intervals would be too short.
    """
    return tuple(
        Board(name=name, estimate=each.estimate, own=1.0, released=each.released)
        for name, each in zip(groups.names, concluded, strict=True)
    )


def cells_of(groups: Groups | None) -> tuple[int, int | None]:
    """Number of groups that have counts, and the most of them in which a row counts.

    The last is None where groups do not overlap, or there are none.
    """
    return (1, None) if groups is None else (len(groups), groups.most)


class GroupedMethod(CountedMethod[CountMechanism]):
    """A method that releases counts, of all rows or of each group of them.

    Attributes:
        words: words for the counts, for the statement.
        restated: sensitivities of the counts, for certificates: see `noise_of_counts`.
        unit, reach: unit and reach of scores, as in `estimation.common.pooling`.
    """

    words: CountWords
    restated: tuple[Restated, ...] = ()
    unit: float = 1.0
    reach: float = np.inf

    def cells_of_night(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Cells of a night of a stream, by the counts of all rows or of each group."""
        return counts

    def words_of(self, mechanism: CountMechanism) -> CountWords:
        """Return words for what the mechanism draws, where a method has several statistics."""
        return self.words

    @abstractmethod
    def draw_counts(self, exact: Arrays, mechanism: CountMechanism, bits: RandomBits) -> Arrays:
        """`draw` of one set of counts: of all rows, or of one group."""

    @abstractmethod
    def conclude_counts(
        self, drawn: Arrays, mechanism: CountMechanism, config: SurveyConfig
    ) -> Conclusion:
        """`conclude` of one set of counts."""

    @abstractmethod
    def board(
        self, drawn: Arrays, mechanism: CountMechanism, config: SurveyConfig, whole: Conclusion
    ) -> tuple[EvidenceAt, Released]:
        """Return one group's evidence about its scores, and its counts as they are published."""

    def draw(self, exact: Arrays, mechanism: CountMechanism, bits: RandomBits) -> Arrays:
        """Add noise to every count; with groups, to every count of every group."""
        if mechanism.groups is None:
            return self.draw_counts(exact, mechanism, bits)
        cells = self.cells_of_night(integers_of(exact["counts"]))
        if (night := simulated_night(cells, mechanism, bits)) is not None:
            return night
        of_group = replace(mechanism, groups=None)  # each touches its own rows: the same law
        drawn = [self.draw_counts({"counts": each}, of_group, bits) for each in exact["counts"]]
        return {name: np.stack([each[name] for each in drawn]) for name in drawn[0]}

    def conclude(
        self, drawn: Arrays, mechanism: CountMechanism, config: SurveyConfig
    ) -> Conclusion:
        """Rank all rows, and each group."""
        groups, whole = mechanism.groups, self.conclude_whole(drawn, mechanism, config)
        if groups is None:
            return whole
        of_group = replace(mechanism, groups=None)
        if groups.most is None and config.comparisons.columns.event is not None:
            whole = replace(whole, warnings=(*whole.warnings, EVENT_IN_GROUPS))
        if groups.most is not None:
            alone = [
                self.conclude_counts(drawn_of_group(drawn, mechanism, k), of_group, config)
                for k in range(len(groups.names))
            ]
            return replace(whole, boards=_boards_alone(groups, alone))
        parts = [
            self.board(drawn_of_group(drawn, mechanism, k), of_group, config, whole)
            for k in range(len(groups))
        ]
        return replace(whole, boards=self._boards(groups, parts, whole.estimate.scores))

    def certified(self, mechanism: CountMechanism, drawn: Arrays) -> tuple[Draw, ...]:
        """Noise on every count, of which groups have their own."""
        found = noise_of_counts(mechanism, self.restated, self.counted)
        return super().certified(mechanism, drawn) if found is None else (found,)

    def attacked(self, mechanism: CountMechanism) -> Attacked:
        """Noise on counts."""
        return attacked_counts(mechanism)

    def conclude_whole(
        self, drawn: Arrays, mechanism: CountMechanism, config: SurveyConfig
    ) -> Conclusion:
        """Rank all rows."""
        if mechanism.groups is None:
            return self.conclude_counts(drawn, mechanism, config)
        whole = self.conclude_counts(drawn_of_all(drawn, mechanism), mechanism.whole, config)
        words = self.words_of(mechanism)
        privacy = count_record(words, mechanism, whole.privacy.parameters)
        return replace(whole, privacy=privacy)

    def _boards(
        self, groups: Groups, parts: list[tuple[EvidenceAt, Released]], scores: Floats
    ) -> tuple[Board, ...]:
        """Return the boards of all groups that have a name."""
        pooled = pool([at for at, _ in parts], scores, unit=self.unit, reach=self.reach)
        return tuple(
            Board(name=name, estimate=estimate, own=own, released=released)
            for name, estimate, own, (_, released) in zip(
                groups.names, pooled.estimates, pooled.own, parts, strict=False
            )
        )
