"""Ties as outcomes: what `noisy-pairs` does where the job says `ties: model`.

Fits load when a release is concluded, as in `noisy_pairs`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal, Self

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.common.pooling import EvidenceAt
from hushrank.estimation.ties.tie_models import TieCounts, calibrate_tie_counts, release_tie_counts
from hushrank.flows.config.comparisons import Design
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import ConfigError
from hushrank.flows.methods.base import Arrays, Conclusion
from hushrank.flows.methods.counts.common import cells_of, groups_of
from hushrank.flows.methods.formulas import CELLS_OF_PAIRS, Restated
from hushrank.flows.methods.reductions import UNKNOWN_PAIRS
from hushrank.flows.release.release import NO_COMPARISONS, NOT_INFORMATIVE
from hushrank.flows.release.released import (
    Figure,
    Released,
    ReleasedRecord,
    TieRecord,
    among_items,
    in_comparisons,
    require_noisy,
)
from hushrank.flows.release.scale import Scale
from hushrank.flows.statement.mechanism import TIE_COUNTS, CountMechanism
from hushrank.flows.statement.record import Parameter, count_record
from hushrank.privacy.randomness import RandomBits

if TYPE_CHECKING:
    from hushrank.estimation.ties.noisy_ties import RankedTies

MOST_ITEMS = 1_000  # scores, exposures and ties are fitted together: a minute or two
CELLS = "cells"


RESTATED = Restated(
    proof="privacy.sensitivity.tie_counts_sensitivity",
    what="three outcomes of each pair: either item won, or they tied",
    entries=lambda n_items: 3 * (n_items * (n_items - 1) // 2),
    lines=CELLS_OF_PAIRS,
)


class ReleasedTies(ReleasedRecord):
    """The noisy counts of three outcomes of each pair, from which all the rest is computed.

    Attributes:
        items: in catalogue order; rows and columns are in this order.
        wins: entry b of row a is how often a beat b, noise included; zero on the diagonal.
        ties: entry b of row a is how often a and b tied, noise included, for b after a; else zero.
    """

    shows = (
        Figure.SCORES,
        Figure.WINS,
    )
    kind: Literal["tie-counts"] = "tie-counts"
    items: tuple[str, ...]
    wins: tuple[tuple[int, ...], ...]
    ties: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, counts: TieCounts, items: Sequence[str]) -> Self:
        """The record of noisy `counts`.

        Raises:
            ValueError: the counts are confidential, or of another number of items.
        """
        require_noisy(counts, items)
        wins, ties = (tuple(map(tuple, matrix)) for matrix in counts.cells.tolist())
        # Checked above: a million entries are not checked again.
        return cls.model_construct(items=tuple(items), wins=wins, ties=ties)

    def among(self, items: Sequence[str]) -> NDArray[np.float64]:
        """Noisy wins of some items over each other."""
        return among_items(self.wins, self.items, items)

    def wins_by_item(self) -> dict[str, int | float] | None:
        """Comparisons won by each item: the sums of the rows, noise included."""
        return in_comparisons(dict(zip(self.items, map(sum, self.wins), strict=True)), 1)


def calibrate(config: SurveyConfig) -> CountMechanism:
    """Noise for the three counts of every pair."""
    params, n_items = config.privacy.params(), len(config.items.catalogue.names)
    if n_items > MOST_ITEMS:
        raise ConfigError(
            f"items: ties: model takes at most {MOST_ITEMS:,} items, got {n_items:,}; rank fewer"
            " items, or set ties: random"
        )
    groups = groups_of(config, 2 * n_items**2, 2 * MOST_ITEMS**2)
    calibration = calibrate_tie_counts(params, n_items, *cells_of(groups))
    return CountMechanism.of(params, calibration, n_items, config.comparisons.ties, groups=groups)


def draw(exact: Arrays, mechanism: CountMechanism, bits: RandomBits) -> Arrays:
    """Add noise to all three counts of every pair."""
    noisy = release_tie_counts(TieCounts(exact["counts"]), mechanism.calibration, bits)
    return {CELLS: noisy.cells}


def conclude(drawn: Arrays, mechanism: CountMechanism, config: SurveyConfig) -> Conclusion:
    """Fit scores and ties to the noisy counts."""
    from hushrank.estimation.ties.noisy_ties import rank_noisy_ties

    counts, model = TieCounts(drawn[CELLS], confidential=False), config.comparisons.tie_model
    chance = config.comparisons.design is not Design.ANY
    ranked = rank_noisy_ties(counts, mechanism.law, model, chance=chance)
    parameters: dict[str, Parameter] = {
        "link": "logistic",
        "tie_model": model.value,
        "pairs": ranked.n_pairs,
        "design_of_chance_fits": ranked.by_chance,
        "pairs_left_out_of_the_fit": ranked.n_left_out,
    }
    return Conclusion(
        estimate=ranked.estimate,
        privacy=count_record(TIE_COUNTS, mechanism, parameters),
        released=ReleasedTies.of(counts, config.items.catalogue.names),
        scale=Scale.LOG_ODDS,
        warnings=tuple(_warnings(ranked, mechanism.params.private)),
        ties=TieRecord.of(model, ranked.tie),
    )


def board(
    drawn: Arrays, mechanism: CountMechanism, config: SurveyConfig, whole: Conclusion
) -> tuple[EvidenceAt, Released]:
    """Scores in one group, by the design that the whole has."""
    from hushrank.estimation.ties.noisy_ties import evidence_of_ties

    counts = TieCounts(drawn[CELLS], confidential=False)
    by_chance = bool(whole.privacy.parameters["design_of_chance_fits"])
    equals = 0.0 if whole.ties is None else whole.ties.equals / 100
    model = config.comparisons.tie_model
    evidence = evidence_of_ties(counts, mechanism.law, model, by_chance=by_chance, equals=equals)
    return evidence, ReleasedTies.of(counts, config.items.catalogue.names)


def _warnings(ranked: RankedTies, private: bool) -> Iterator[str]:
    if ranked.hidden:
        yield UNKNOWN_PAIRS
    elif not ranked.estimate.informative:
        yield NOT_INFORMATIVE if private else NO_COMPARISONS
    elif ranked.n_left_out > 0:
        yield (
            f"{ranked.n_left_out:,} of {ranked.n_pairs:,} pairs of items were left out of the fit:"
            " their noisy totals do not stand clear of the noise, so they say next to nothing. They"
            " are in the released counts all the same."
        )
