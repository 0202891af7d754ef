"""Method `precinct-table`: first places by public precinct, in two or three levels, unit `user`.

The ranking of a release is that by first places in all precincts together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from hushrank.estimation.common.links import Floats
from hushrank.estimation.common.uncertainty import LEVEL
from hushrank.estimation.rankings.election_rules import noise_reach
from hushrank.estimation.rankings.precinct_tables import (
    Districts,
    NoisyPrecincts,
    Votes,
    adjusted_votes,
    release_precincts,
    votes_estimate,
)
from hushrank.estimation.rankings.ranking_counts import calibrate_rankings
from hushrank.flows.config.method import MethodFacts
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import ConfigError
from hushrank.flows.methods.base import (
    Arrays,
    Attacked,
    Conclusion,
    PlannedMethod,
    SureVotes,
    Terms,
    attacked_counts,
)
from hushrank.flows.methods.draws import CountNoise
from hushrank.flows.methods.formulas import Restated, count_noise, sides_of
from hushrank.flows.methods.rankings.private_rankings import NO_RANKINGS
from hushrank.flows.methods.rankings.ranking_counts import reaches_of
from hushrank.flows.methods.rankings.trusted_rankings import counting_job, longest_of
from hushrank.flows.release.election import PrecinctRecord
from hushrank.flows.release.release import NOT_INFORMATIVE
from hushrank.flows.release.released import Figure, ReleasedRecord, Rows
from hushrank.flows.release.scale import Scale
from hushrank.flows.statement.precincts import PrecinctMechanism, precinct_record
from hushrank.pipelines.reduce.rankings_job import CountRankings
from hushrank.pipelines.simulate.planned_survey import PlannedSurvey
from hushrank.privacy.keyed_hash import SecretKey
from hushrank.privacy.randomness import RandomBits
from hushrank.privacy.ranking_sensitivity import LEVELS, Part, level_weights
from hushrank.privacy.units import Unit
from hushrank.transforms.common.catalogue import Groups
from hushrank.transforms.storage.files import InputFile

MOST_CELLS = 400_000  # of precincts and items, which are published
NO_PRECINCTS = (
    "missing; method: precinct-table counts first places in public precincts. Add groups: {column:"
    " precinct, values: [...]}"
)
RESTATED = Restated(
    proof="privacy.ranking_sensitivity.ranking_sensitivity",
    what="first places by precinct",
    lines=(
        "l1 = sides * L * (precincts + districts + totals)",
        "l2_squared = sides * L ** 2 * (precincts ** 2 + districts ** 2 + totals ** 2)",
    ),
)


class ReleasedPrecincts(ReleasedRecord):
    """In how many rankings an item is the best that counts, by precinct, with noise.

    Attributes:
        items: in catalogue order; rows have their numbers in this order.
        weights: what one adds to each of the counts, by their name.
        precincts: of each precinct, and last of all other places if they count.
        districts: of each district; null: there are none.
        totals: of all together.
    """

    shows = (Figure.SCORES,)
    kind: Literal["precinct-counts"] = "precinct-counts"
    ballots = "rankings"
    items: tuple[str, ...]
    weights: dict[str, int]
    precincts: Rows
    districts: Rows | None = None
    totals: tuple[int, ...]

    @classmethod
    def of(cls, counts: NoisyPrecincts, items: Sequence[str]) -> ReleasedPrecincts:
        """The record of noisy `counts`."""
        rows = {name: table.tolist() for name, table in counts.parts.items()}
        weights = {str(part): weight for part, weight in counts.weights.items()}
        return cls.model_validate({"items": items, "weights": weights, **rows}, strict=False)


@dataclass(frozen=True, kw_only=True)
class PrecinctTable(PlannedMethod[PrecinctMechanism]):
    """See `estimation.rankings.precinct_tables`.

    Attributes:
        facts: see `RankingMethod`.
    """

    facts: MethodFacts

    mechanism = PrecinctMechanism

    def calibrate(self, config: SurveyConfig) -> PrecinctMechanism:
        """Noise for every number of every level."""
        groups, params = _groups_of(config), config.privacy.params()
        n_items = len(config.items.catalogue.names)
        if (cells := len(groups) * n_items) > MOST_CELLS:
            raise ConfigError(
                f"groups.values: {len(groups):,} precincts of {n_items:,} items are {cells:,}"
                f" numbers, and at most {MOST_CELLS:,} are published; list fewer precincts"
            )
        longest = longest_of(config)
        districts = _districts_of(config, groups)
        weights = level_weights(params, districts=bool(districts))
        try:
            calibration = calibrate_rankings(params, longest, weights)
        except ValueError as error:
            raise ConfigError(f"privacy: {error}") from None
        return PrecinctMechanism.of_job(
            config, params, calibration, weights, longest, precincts=groups, districts=districts
        )

    def terms(self, mechanism: PrecinctMechanism) -> Terms:
        """Cost and noise."""
        levels = ", ".join(f"{part} times {w}" for part, w in mechanism.weights.items())
        return Terms.of(mechanism.calibration, f"on every count of first places ({levels})")

    def reduction(
        self,
        config: SurveyConfig,
        mechanism: PrecinctMechanism,
        files: tuple[InputFile, ...],
        key: SecretKey,
        folder: str,
    ) -> CountRankings:
        """Count first places, within the bounds of the mechanism."""
        return replace(counting_job(config, mechanism, files, key, folder), first_places=True)

    def draw(self, exact: Arrays, mechanism: PrecinctMechanism, bits: RandomBits) -> Arrays:
        """Add noise to every number."""
        weights, law = mechanism.weights, mechanism.law
        return {**release_precincts(exact["first_places"], mechanism.districts, weights, law, bits)}

    def conclude(
        self, drawn: Arrays, mechanism: PrecinctMechanism, config: SurveyConfig
    ) -> Conclusion:
        """Rank by first places in all precincts, and make a table that adds up."""
        counts = NoisyPrecincts(drawn, mechanism.weights, mechanism.law, mechanism.districts)
        votes = adjusted_votes(counts)
        estimate = votes_estimate(votes, mechanism.law.kind)
        warnings: tuple[str, ...] = ()
        if not estimate.informative:
            warnings = (NOT_INFORMATIVE if mechanism.params.private else NO_RANKINGS,)
        return Conclusion(
            estimate=estimate,
            privacy=precinct_record(mechanism),
            released=ReleasedPrecincts.of(counts, config.items.catalogue.names),
            scale=Scale.VOTES,
            warnings=warnings,
            precincts=_record(counts, votes, mechanism, config),
        )

    def sure_votes(self, mechanism: PrecinctMechanism) -> SureVotes:
        """Margins of first places: in all precincts, and in each."""
        table = NoisyPrecincts({}, mechanism.weights, mechanism.law)
        found, law = reaches_of(table, mechanism.n_items), mechanism.law
        deviation = math.sqrt(2) * table.deviation(Part.TOTALS)
        usual = noise_reach(LEVEL, deviation, law.kind, 2, 1 / mechanism.weights[Part.TOTALS])
        margin = found["total_margin"]
        return SureVotes(margin=margin, true_margin=margin + usual, **found)

    def estimand(self, config: SurveyConfig, survey: PlannedSurvey, truth: Floats) -> Floats:
        """First places to expect."""
        return survey.people * survey.answers * survey.first_shares(truth, longest_of(config))

    def simulated(self, config: SurveyConfig, survey: PlannedSurvey, replicate: int) -> Arrays:
        """First places of a simulated survey, in precincts that are equally large and alike."""
        n_precincts, n_items = len(_groups_of(config)), survey.n_items
        first = survey.orders(replicate, longest_of(config))[:, 0]
        cells = np.arange(len(first)) % n_precincts * n_items + first
        counts = np.bincount(cells, minlength=n_precincts * n_items)
        return {"first_places": counts.reshape(n_precincts, n_items)}

    def attacked(self, mechanism: PrecinctMechanism) -> Attacked:
        """Noise on counts."""
        return attacked_counts(mechanism)

    def certified(self, mechanism: PrecinctMechanism, drawn: Arrays) -> tuple[CountNoise]:
        """Noise on every number of every level."""
        params, weights = mechanism.params, mechanism.weights
        levels = {str(part): weights.get(part, 0) for part in LEVELS}
        formula = RESTATED.formula(
            {"L": params.max_contributions, "sides": sides_of(params), **levels}
        )
        rows = len(mechanism.precincts) + mechanism.n_districts + 1
        entries = rows * mechanism.n_items
        return (count_noise(RESTATED.what, entries, formula, mechanism.calibration),)


def _record(
    counts: NoisyPrecincts, votes: Votes, mechanism: PrecinctMechanism, config: SurveyConfig
) -> PrecinctRecord:
    groups = mechanism.precincts
    districts = None if config.groups is None else config.groups.districts
    return PrecinctRecord.model_validate(
        {
            "precincts": groups.names,
            "elsewhere": groups.others,
            "districts": districts,
            "deviation": counts.deviation(Part.PRECINCTS),
            "reach": counts.reach(Part.PRECINCTS),
            "wide_deviation": counts.deviation(Part.TOTALS),
            "wide_reach": counts.reach(Part.TOTALS),
            "margin_reach": counts.margin_reach(Part.PRECINCTS, mechanism.n_items),
            "wide_margin_reach": counts.margin_reach(Part.TOTALS, mechanism.n_items),
            "votes": votes.precincts.tolist(),
            "votes_of_districts": None if votes.districts is None else votes.districts.tolist(),
            "votes_of_all": votes.whole.tolist(),
        },
        strict=False,
    )


def _groups_of(config: SurveyConfig) -> Groups:
    if config.groups is None:  # the rules require them
        raise ConfigError(f"groups: {NO_PRECINCTS}")
    return config.groups.groups()


def _districts_of(config: SurveyConfig, groups: Groups) -> Districts:
    """Number of each precinct's district; empty: there are none."""
    if config.groups is None or config.groups.districts is None:
        return ()
    named = list(config.groups.districts.values())
    numbers = {code: number for number, codes in enumerate(named) for code in codes}
    return (*(numbers[name] for name in groups.names), *[-1] * groups.others)


METHODS = (
    PrecinctTable(
        facts=MethodFacts(
            name="precinct-table",
            summary="first places by public precinct, and in all together",
            kind="rankings",
            units=(Unit.USER,),
            reads=("groups.districts",),
            requires={"groups": NO_PRECINCTS},
        ),
    ),
)
