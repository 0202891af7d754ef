"""Method `noisy-counts`: rank by noisy win counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal, Self

import numpy as np
from pydantic import Field

from hushrank.estimation.common.central_noise import calibrate_win_counts, release_win_counts
from hushrank.estimation.common.links import Floats
from hushrank.estimation.common.matrices import WinCounts, integers_of
from hushrank.estimation.common.pooling import EvidenceAt
from hushrank.estimation.common.score_change import LeadBy
from hushrank.estimation.comparisons.noisy_counts import (
    evidence_of_win_counts,
    rank_by_win_counts,
)
from hushrank.estimation.comparisons.planning import predicted_share_error
from hushrank.flows.config.comparisons import Design
from hushrank.flows.config.method import MethodFacts
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.methods.base import GROUPS, Arrays, Conclusion, Terms
from hushrank.flows.methods.counts.common import (
    WEIGHT_KEYS,
    GroupedMethod,
    calibrate_stream,
    cells_of,
    drawn_squares,
    groups_of,
    ranking_weight,
    shown_cells,
    simulated_night,
    terms_of,
    weight_parameters,
    weighted_mechanism,
)
from hushrank.flows.methods.formulas import ROWS, WON, Restated
from hushrank.flows.methods.reductions import problems_of_unbalanced
from hushrank.flows.release.release import NO_COMPARISONS, NOT_INFORMATIVE
from hushrank.flows.release.released import (
    Count,
    Figure,
    Leads,
    Released,
    ReleasedRecord,
    in_comparisons,
    require_noisy,
)
from hushrank.flows.release.scale import Scale
from hushrank.flows.statement.mechanism import WIN_COUNTS, CountMechanism
from hushrank.flows.statement.record import count_record
from hushrank.pipelines.reduce.reduction_job import Statistic
from hushrank.pipelines.simulate.planned_survey import PlannedSurvey
from hushrank.privacy.randomness import RandomBits
from hushrank.privacy.row_weights import Counted
from hushrank.privacy.sensitivity import win_counts_sensitivity
from hushrank.privacy.units import Unit

MOST_COUNTS = 2_000_000  # counts of items and groups: 20 to 30 MB of JSON


RESTATED = Restated(
    proof="privacy.sensitivity.win_counts_sensitivity",
    what="wins of each item",
    entries=lambda n_items: n_items,
    lines=(
        ROWS,
        *WON,
        "l1 = row_weight * sum(won[w] for w in winners)",
        "l2_squared = row_weight ** 2 * squares",
    ),
)


class ReleasedCounts(ReleasedRecord):
    """The noisy win counts, from which all the rest is computed.

    Attributes:
        row_weight: amount that one win adds: 1, or 2 where ties were split into two halves; where
            rows have weights, a thousand times that for a win of weight 1.
        wins: wins by item, in catalogue order; whole numbers, but for what a night of a stream
            shows.
    """

    shows = (Figure.WIN_COUNTS,)
    predicts_intervals = True
    kind: Literal["win-counts"] = "win-counts"
    row_weight: int = Field(ge=1)
    wins: dict[str, int | float]

    @classmethod
    def of(cls, counts: WinCounts, items: Sequence[str]) -> Self:
        """The record of noisy `counts`.

        Raises:
            ValueError: the counts are confidential, or of another number of items.
        """
        require_noisy(counts, items)
        wins = dict(zip(items, counts.wins.tolist(), strict=True))
        return cls(row_weight=counts.row_weight, wins=wins)

    def counts(self) -> Iterator[Count]:
        """Yield the comparisons that each item won."""
        for item, number in self.wins.items():
            yield Count("wins", item, None, number, self.row_weight)

    def wins_by_item(self) -> dict[str, int | float] | None:
        """Comparisons won by each item, noise included; None where the release has no such."""
        return in_comparisons(self.wins, self.row_weight)

    def leads(self) -> Leads:
        """Leads by wins."""
        return Leads(
            by=LeadBy.WINS,
            items=[*self.wins],
            numbers=np.array([*self.wins.values()], np.float64),
            draws=1,
            step=1 / self.row_weight,
        )


class NoisyCounts(GroupedMethod):
    """[CCW] Algorithms 2 and 3: see `estimation.comparisons.noisy_counts`."""

    facts = MethodFacts(
        name="noisy-counts",
        summary="rank by noisy win counts",
        kind="comparisons",
        units=(Unit.USER, Unit.COMPARISON),
        reads=(GROUPS, *WEIGHT_KEYS),
        design=Design.BALANCED,
        rules=problems_of_unbalanced,
        finds_names=True,
        streams=True,
        metered="gap",
    )
    mechanism = CountMechanism
    statistic = Statistic.WIN_COUNTS
    words, unit, reach = WIN_COUNTS, 0.25, 0.5  # shares won differ by 1 at most
    counted = Counted.WINS
    restated = (RESTATED,)
    plan_order = 0

    def calibrate(self, config: SurveyConfig) -> CountMechanism:
        """Noise for every win count."""
        params, ties = config.privacy.params(), config.comparisons.ties
        n_items = len(config.items.catalogue.names)
        design = config.comparisons.design
        groups = groups_of(config, n_items, MOST_COUNTS)
        if (nights := calibrate_stream(config, win_counts_sensitivity, groups)) is not None:
            calibration, stream = nights
            return CountMechanism.of(
                params, calibration, n_items, ties, design=design, stream=stream, groups=groups
            )
        if params.weighted:
            return weighted_mechanism(params, self.counted, n_items, ties, design)
        cells = cells_of(groups)
        calibration = calibrate_win_counts(params, n_items, ties.row_weight, *cells)
        return CountMechanism.of(params, calibration, n_items, ties, design=design, groups=groups)

    def terms(self, mechanism: CountMechanism) -> Terms:
        """Cost and noise."""
        return terms_of(mechanism, "on every count")

    def draw_counts(self, exact: Arrays, mechanism: CountMechanism, bits: RandomBits) -> Arrays:
        """Add noise to every count."""
        counts = WinCounts(exact["counts"], mechanism.row_weight)
        if (night := simulated_night(integers_of(counts.wins), mechanism, bits)) is not None:
            return night
        noisy = release_win_counts(counts, mechanism.calibration, bits).wins
        return {"counts": noisy, **drawn_squares(exact, mechanism, bits)}

    def conclude_counts(
        self, drawn: Arrays, mechanism: CountMechanism, config: SurveyConfig
    ) -> Conclusion:
        """Rank by the noisy counts."""
        cells = shown_cells(drawn, mechanism, "counts")
        counts = WinCounts(cells.counts, mechanism.row_weight, confidential=False)
        ranked_by = ranking_weight(drawn, mechanism, counts.wins, counts.n_items)
        estimate = rank_by_win_counts(replace(counts, row_weight=ranked_by), cells.law)
        nothing = NOT_INFORMATIVE if mechanism.params.private else NO_COMPARISONS
        return Conclusion(
            estimate=estimate,
            privacy=count_record(
                WIN_COUNTS, mechanism, weight_parameters(drawn, mechanism, ranked_by)
            ),
            released=ReleasedCounts.of(counts, config.items.catalogue.names),
            scale=Scale.WIN_SHARE,
            warnings=() if estimate.informative else (nothing,),
        )

    def board(
        self, drawn: Arrays, mechanism: CountMechanism, config: SurveyConfig, whole: Conclusion
    ) -> tuple[EvidenceAt, Released]:
        """Shares won in one group."""
        cells = shown_cells(drawn, mechanism, "counts")
        counts = WinCounts(cells.counts, mechanism.row_weight, confidential=False)
        released = ReleasedCounts.of(counts, config.items.catalogue.names)
        return evidence_of_win_counts(counts, cells.law), released

    def noise_in_net_wins(self, mechanism: CountMechanism) -> float:
        """Variance of a count: a balanced design tells how many comparisons there were."""
        return mechanism.shown_variance / mechanism.row_weight**2

    def estimand(self, config: SurveyConfig, survey: PlannedSurvey, truth: Floats) -> Floats:
        """Shares won where every pair is asked about equally often."""
        return survey.true_shares(truth)

    def predicted_error(
        self, config: SurveyConfig, survey: PlannedSurvey, mechanism: CountMechanism
    ) -> float | None:
        """Predicted error of shares won."""
        variance, rows = mechanism.shown_variance, mechanism.row_weight
        share = min(survey.answers / survey.n_pairs, 1.0) if survey.distinct else 0.0
        return predicted_share_error(
            survey.n_items, survey.pair_comparisons, share, variance / rows**2
        ).typical


METHODS = (NoisyCounts(),)
