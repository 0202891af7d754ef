"""Method `instant-runoff`: in each round the item with the fewest rankings leaves; unit `user`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hushrank.estimation.rankings.election_rules import (
    MOST_CELLS,
    MOST_ROUNDS,
    Rounds,
    first_choices,
    n_sets,
    release_rounds,
)
from hushrank.estimation.rankings.ranking_counts import NoisyRankings
from hushrank.flows.config.method import Problems, Sections
from hushrank.flows.config.rankings import RankingsConfig, RankingTies, Unlisted
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import ConfigError
from hushrank.flows.methods.base import Arrays, Attacked
from hushrank.flows.methods.rankings.private_rankings import consensus_places
from hushrank.flows.methods.rankings.trusted_rankings import (
    Ranked,
    TrustedRankings,
    longest_of,
    trusted_facts,
)
from hushrank.flows.release.scale import Scale
from hushrank.flows.statement.rankings import ROUND_COUNTS, RankingCountMechanism
from hushrank.pipelines.simulate.planned_survey import PlannedSurvey
from hushrank.privacy.randomness import RandomBits
from hushrank.privacy.ranking_sensitivity import Part
from hushrank.transforms.storage.files import ENDINGS, FileFormat, ending_of

FEWER = (
    "name fewer candidates, and one in place of all whom hardly anybody expects to win (with"
    " layout: places input.write_ins counts their names as that one)"
)


@dataclass(frozen=True, kw_only=True)
class InstantRunoff(TrustedRankings):
    """See `estimation.rankings.election_rules`."""

    def calibrate(self, config: SurveyConfig) -> RankingCountMechanism:
        """Noise for every cell of every round."""
        n_items, longest = len(config.items.catalogue.names), longest_of(config)
        if n_items > MOST_ROUNDS + 1:
            raise ConfigError(
                f"items: method: {self.facts.name} takes at most {MOST_ROUNDS + 1} items, because"
                f" each round has noise of its own, got {n_items}; {FEWER}"
            )
        if n_sets(n_items, longest) * n_items > MOST_CELLS:
            raise ConfigError(
                f"input.max_length: ballots with up to {longest} of {n_items} items can begin in"
                f" too many ways to be counted; write as many as a ballot has places, or {FEWER}"
            )
        return super().calibrate(config)

    def draw(self, exact: Arrays, mechanism: RankingCountMechanism, bits: RandomBits) -> Arrays:
        """Draw the noise of all rounds, then count them."""
        rounds = release_rounds(exact["firsts"], mechanism.longest, mechanism.law, bits)
        return {str(Part.ROUNDS): rounds}

    def attacked(self, mechanism: RankingCountMechanism) -> Attacked:
        """What is stated alone: which cells a round has depends on the noise of those before it."""
        guarantee = mechanism.guarantee
        return Attacked(epsilon=guarantee.epsilon, delta=guarantee.delta)

    def simulated(self, config: SurveyConfig, survey: PlannedSurvey, replicate: int) -> Arrays:
        """First choices of a simulated survey."""
        longest = longest_of(config)
        orders = survey.orders(replicate, longest)
        lengths = np.full(len(orders), longest)
        return {"firsts": first_choices(orders.ravel(), lengths, survey.n_items, longest)}

    def predicted_error(
        self, config: SurveyConfig, survey: PlannedSurvey, mechanism: RankingCountMechanism
    ) -> float | None:
        """No formula is known: an order says nothing of how far items are apart."""
        return None


def _rank(counts: NoisyRankings, config: SurveyConfig) -> Ranked:
    estimate = Rounds.of(counts.parts[Part.ROUNDS], counts.law).estimate()
    return Ranked(estimate=estimate, scale=Scale.ABOVE_MIDDLE, parameters={})


def _problems(config: Sections) -> Problems:
    rows = config.rankings
    ends = "exhaust ends a ballot before them, as a file needs that puts all the unranked last"
    if rows.ties is RankingTies.RANDOM:
        yield (
            "input.ties",
            "must be refuse with method: instant-runoff, where a coin would give ballots to"
            f" candidates whom nobody ranked; remove this line, and write input.overvotes: {ends}",
        )
    elif _may_tie(rows) and "overvotes" not in rows.model_fields_set:
        yield (
            "input.overvotes",
            "missing; .toc and .toi files may put candidates at one rank, and a count in rounds has"
            f" to know what that means: {ends}; set-aside counts no such ballot. If input.paths"
            " find files of another kind, write input.format instead",
        )
    if config.rankings.unlisted is not Unlisted.BELOW:
        yield (
            "input.unlisted",
            "must be below with method: instant-runoff, where a ballot counts for the best on it"
            " that is left, and is exhausted once nobody is; write below",
        )


def _may_tie(rows: RankingsConfig) -> bool:
    """Whether `paths` may find PrefLib files with candidates at one rank; it lists no file."""
    if rows.layout != "long" or rows.source is not None:
        return False
    if rows.format is FileFormat.PREFLIB:
        return any(ending_of(path) not in (".soc", ".soi") for path in rows.paths)
    never = ENDINGS.keys() - {".toc", ".toi"}
    return rows.format is None and any(ending_of(path) not in never for path in rows.paths)


METHODS = (
    InstantRunoff(
        facts=trusted_facts(
            "instant-runoff",
            "rounds in which the item that the fewest rankings have first leaves",
            rules=_problems,
            elections="rounds",
        ),
        plan_order=None,
        weights=lambda params, longest, below, groups: {Part.ROUNDS: 1},
        words=ROUND_COUNTS,
        rank=_rank,
        truth=consensus_places,
        steepness=lambda survey, length: 1.0,
    ),
)
