"""Method `win-loss`: rank by noisy wins and losses, whatever was shown how often."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from hushrank.estimation.common.central_noise import calibrate_win_loss, release_win_loss
from hushrank.estimation.common.links import link_named
from hushrank.estimation.common.matrices import MOST_DENSE_ITEMS, WinLossCounts, pair_counts_of
from hushrank.estimation.common.pooling import EvidenceAt
from hushrank.estimation.common.score_change import LeadBy
from hushrank.estimation.comparisons.net_wins import (
    evidence_of_win_loss,
    exposures_of,
    rank_by_win_loss,
)
from hushrank.estimation.comparisons.planning import predicted_error, weight_under_perturbation
from hushrank.flows.config.method import MethodFacts
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import ConfigError
from hushrank.flows.methods.base import GROUPS, Arrays, Conclusion, Terms
from hushrank.flows.methods.counts.common import (
    SHOWN,
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
from hushrank.flows.methods.formulas import EXPOSED, ROWS, TURNED, WON, Restated
from hushrank.flows.methods.reductions import problems_of_unknown_partners, warnings_of
from hushrank.flows.release.released import (
    Count,
    Figure,
    Leads,
    Released,
    ReleasedRecord,
    in_comparisons,
    require_noisy,
)
from hushrank.flows.release.scale import SCALE_OF_LINK
from hushrank.flows.statement.mechanism import WIN_LOSS_COUNTS, CountMechanism
from hushrank.flows.statement.record import count_record
from hushrank.pipelines.reduce.reduction_job import Statistic
from hushrank.pipelines.simulate.planned_survey import PlannedSurvey
from hushrank.privacy.noise import NoiseLaw
from hushrank.privacy.randomness import RandomBits
from hushrank.privacy.row_weights import Counted
from hushrank.privacy.sensitivity import searched_win_loss, win_loss_sensitivity
from hushrank.privacy.units import Unit

RESTATED = Restated(
    proof="privacy.sensitivity.win_loss_sensitivity",
    what="wins and losses of each item",
    entries=lambda n_items: 2 * n_items,
    searched=searched_win_loss,
    lines=(
        ROWS,
        *WON,
        *EXPOSED,
        f"l1 = min(sides * 2 * rows, 4 * (n * n // 4) if {TURNED} else sides * 2 * rows)",
        "alone = min(degrees, searched[0]) if searched else degrees",
        "between = min(2 * n * rows, 2 * n * (n * n - 1) // 3)",
        "between = searched[1] if searched else between",
        "l2_squared = min(sides * alone, 2 * squares)",
        f"l2_squared = min(l2_squared, between if {TURNED} else l2_squared)",
        "l1 = row_weight * l1",
        "l2_squared = row_weight ** 2 * l2_squared",
    ),
)


class ReleasedWinLoss(ReleasedRecord):
    """The noisy numbers of comparisons that each item won and lost.

    Attributes:
        row_weight: amount that one comparison adds: 1, or 2 if ties were split into two halves;
            where rows have weights, a thousand times that for one of weight 1.
        wins, losses: counts by item, in catalogue order; whole numbers, but for what a night of a
            stream shows.
    """

    shows = (Figure.SCORES,)
    kind: Literal["win-loss-counts"] = "win-loss-counts"
    row_weight: int = Field(ge=1)
    wins: dict[str, int | float]
    losses: dict[str, int | float]

    @classmethod
    def of(cls, counts: WinLossCounts, items: Sequence[str]) -> Self:
        """The record of noisy `counts`.

        Raises:
            ValueError: the counts are confidential, or have another number of items.
        """
        require_noisy(counts, items)
        wins, losses = (
            dict(zip(items, part.tolist(), strict=True)) for part in (counts.wins, counts.losses)
        )
        return cls(row_weight=counts.row_weight, wins=wins, losses=losses)

    def counts(self) -> Iterator[Count]:
        """Yield the comparisons that each item won, and those that it lost."""
        for what, numbers in (("wins", self.wins), ("losses", self.losses)):
            for item, number in numbers.items():
                yield Count(what, item, None, number, self.row_weight)

    def wins_by_item(self) -> dict[str, int | float] | None:
        """Comparisons won by each item, noise included."""
        return in_comparisons(self.wins, self.row_weight)

    def leads(self) -> Leads:
        """Leads by wins less losses, each of which has noise."""
        return Leads(
            by=LeadBy.NET_WINS,
            items=[*self.wins],
            numbers=np.array([won - self.losses[item] for item, won in self.wins.items()], float),
            draws=2,
            step=1 / self.row_weight,
        )


class WinLoss(GroupedMethod):
    """See `estimation.comparisons.net_wins`."""

    facts = MethodFacts(
        name="win-loss",
        summary="fit scores to noisy wins and losses, where chance decided who met whom",
        kind="comparisons",
        units=(Unit.USER, Unit.COMPARISON),
        reads=("model.link", GROUPS, *WEIGHT_KEYS),
        rules=problems_of_unknown_partners,
        streams=True,
        metered="squares",
    )
    mechanism = CountMechanism
    statistic = Statistic.PAIR_COUNTS
    words = WIN_LOSS_COUNTS
    counted = Counted.WIN_LOSS
    restated = (RESTATED,)
    plan_order = 1

    def calibrate(self, config: SurveyConfig) -> CountMechanism:
        """Noise for every count of wins and of losses."""
        params, ties = config.privacy.params(), config.comparisons.ties
        n_items = len(config.items.catalogue.names)
        if n_items > MOST_DENSE_ITEMS:
            raise ConfigError(
                f"items: method: win-loss takes at most {MOST_DENSE_ITEMS} items, got {n_items};"
                " set method: perturbed-mle"
            )
        design = config.comparisons.design
        if params.weighted:
            return weighted_mechanism(params, self.counted, n_items, ties, design)
        groups = groups_of(config, n_items**2, MOST_DENSE_ITEMS**2)
        if (nights := calibrate_stream(config, win_loss_sensitivity, groups)) is not None:
            calibration, stream = nights
            return CountMechanism.of(
                params, calibration, n_items, ties, design=design, stream=stream, groups=groups
            )
        cells = cells_of(groups)
        calibration = calibrate_win_loss(params, n_items, ties.row_weight, *cells)
        return CountMechanism.of(params, calibration, n_items, ties, design=design, groups=groups)

    def terms(self, mechanism: CountMechanism) -> Terms:
        """Cost and noise."""
        return terms_of(mechanism, "on every item's wins and on its losses")

    @property
    def statistic_of_nights(self) -> Statistic:
        """Wins and losses: what a person moves is bounded by squares of numbers of rows."""
        return Statistic.WIN_LOSS_COUNTS

    def cells_of_night(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Wins and losses by counts of pairs."""
        return np.stack([counts.sum(axis=-1), counts.sum(axis=-2)], axis=-2)

    def draw_counts(self, exact: Arrays, mechanism: CountMechanism, bits: RandomBits) -> Arrays:
        """Add noise to every item's wins and losses."""
        pairs = pair_counts_of(exact, mechanism.row_weight)
        cells = np.stack([pairs.won(), pairs.lost()])
        if (night := simulated_night(cells, mechanism, bits)) is not None:
            return night
        counts = WinLossCounts(cells[0], cells[1], mechanism.row_weight)
        noisy = release_win_loss(counts, mechanism.calibration, bits)
        squares = drawn_squares(exact, mechanism, bits)
        return {"wins": noisy.wins, "losses": noisy.losses, **squares}

    def conclude_counts(
        self, drawn: Arrays, mechanism: CountMechanism, config: SurveyConfig
    ) -> Conclusion:
        """Fit scores to the noisy counts."""
        counts, law = _shown(drawn, mechanism)
        link = link_named(config.model.link)
        ranked_by = ranking_weight(drawn, mechanism, counts.wins, counts.n_items)
        effective = replace(counts, row_weight=ranked_by)
        estimate = rank_by_win_loss(effective, law, link)
        exposures = exposures_of(effective, law)
        weights = weight_parameters(drawn, mechanism, ranked_by)
        return Conclusion(
            estimate=estimate,
            privacy=count_record(WIN_LOSS_COUNTS, mechanism, {"link": link.name, **weights}),
            released=ReleasedWinLoss.of(counts, config.items.catalogue.names),
            scale=SCALE_OF_LINK[link.name],
            warnings=tuple(
                warnings_of(estimate, exposures, mechanism.design, private=mechanism.params.private)
            ),
        )

    def board(
        self, drawn: Arrays, mechanism: CountMechanism, config: SurveyConfig, whole: Conclusion
    ) -> tuple[EvidenceAt, Released]:
        """Scores in one group."""
        counts, law = _shown(drawn, mechanism)
        link = link_named(config.model.link)
        released = ReleasedWinLoss.of(counts, config.items.catalogue.names)
        return evidence_of_win_loss(counts, law, link), released

    def noise_in_net_wins(self, mechanism: CountMechanism) -> float:
        """Variance of (wins - losses) / 2."""
        return mechanism.shown_variance / (2 * mechanism.row_weight**2)

    def predicted_error(
        self, config: SurveyConfig, survey: PlannedSurvey, mechanism: CountMechanism
    ) -> float | None:
        """Predicted error of scores."""
        variance = self.noise_in_net_wins(mechanism)
        weight = weight_under_perturbation(
            survey.n_items, survey.pair_comparisons, variance, survey.link
        )
        return predicted_error(survey.n_items, weight, survey.link).typical


def _shown(drawn: Arrays, mechanism: CountMechanism) -> tuple[WinLossCounts, NoiseLaw]:
    """Noisy counts by which items are ranked, and the law of their noise."""
    if mechanism.stream is None:
        wins, losses, law = drawn["wins"], drawn["losses"], mechanism.law
    else:
        cells = shown_cells(drawn, mechanism, SHOWN)
        (wins, losses), law = cells.counts, cells.law
    return WinLossCounts(wins, losses, mechanism.row_weight, confidential=False), law


METHODS = (WinLoss(),)
