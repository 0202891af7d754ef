"""Methods on rankings that are counted before noise is added: unit `user`.

The names that unit `local` has too (`private_rankings`) stand for two methods; the unit of privacy
says which of them ranks.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.common.estimate import Estimate
from hushrank.estimation.common.links import Floats
from hushrank.estimation.rankings.bradley_terry import bradley_terry_estimate
from hushrank.estimation.rankings.noisy_evidence import (
    NoisyNets,
    NoisyPairs,
    NoisyPlaces,
    footrule_estimate,
)
from hushrank.estimation.rankings.ranking_counts import (
    NoisyRankings,
    RankingCounts,
    calibrate_rankings,
    count_rankings,
    net_variance,
    release_rankings,
)
from hushrank.estimation.rankings.ranking_estimates import borda_estimate, kemeny_estimate
from hushrank.flows.config.chosen_sets import most_shown
from hushrank.flows.config.method import MethodFacts
from hushrank.flows.config.rankings import RankingTies, Unlisted
from hushrank.flows.config.section import BadRows
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import ConfigError
from hushrank.flows.methods.base import (
    GROUPS,
    Arrays,
    Attacked,
    Choice,
    Conclusion,
    Method,
    PlannedMethod,
    RankingMethod,
    SureVotes,
    Terms,
    attacked_counts,
)
from hushrank.flows.methods.counts.common import cells_of, groups_of
from hushrank.flows.methods.draws import CountNoise
from hushrank.flows.methods.formulas import count_noise
from hushrank.flows.methods.rankings import private_rankings as private
from hushrank.flows.methods.rankings.private_rankings import (
    HARDLY_DRAWN,
    MOST_KEMENY_ITEMS,
    NO_RANKINGS,
    consensus_places,
    log_odds,
    mean_places,
    not_proven,
    refuse_too_many_items,
)
from hushrank.flows.methods.rankings.ranking_counts import (
    election_record,
    released_rankings,
    sure_votes,
)
from hushrank.flows.methods.rankings.sensitivity_formulas import RESTATED, rankings_formula
from hushrank.flows.methods.reductions import with_whole
from hushrank.flows.release.boards import Board
from hushrank.flows.release.release import NOT_INFORMATIVE
from hushrank.flows.release.scale import Scale
from hushrank.flows.statement.mechanism import CountWords
from hushrank.flows.statement.rankings import (
    ABOVE_COUNTS,
    MARGIN_COUNTS,
    NET_SUMS,
    PLACE_COUNTS,
    SPREAD_ABOVE_COUNTS,
    RankingCountMechanism,
    ranking_count_record,
)
from hushrank.flows.statement.record import Parameter
from hushrank.pipelines.reduce.rankings_job import CountRankings
from hushrank.pipelines.simulate.planned_survey import PlannedSurvey
from hushrank.privacy.keyed_hash import SecretKey
from hushrank.privacy.randomness import RandomBits
from hushrank.privacy.ranking_sensitivity import (
    Part,
    margin_weights,
    spread_weights,
)
from hushrank.privacy.units import PrivacyParams, Unit
from hushrank.transforms.storage.files import InputFile

MOST_GROUPED_COUNTS = 2_000_000  # of items in two ways and groups: 20 MB of JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """What a method makes of the noisy counts."""

    estimate: Estimate
    scale: Scale
    parameters: dict[str, Parameter]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class TrustedRankings(PlannedMethod[RankingCountMechanism]):
    """See `estimation.rankings.ranking_counts`.

    Attributes:
        facts, plan_order: see `PlannedMethod`.
        weights: of the parts that are released, by guarantee, longest list, the size of the
            catalogue if unlisted items count as below, and how many groups are counted apart.
        words: what they are.
        rank: what the method makes of them.
        truth: what the scores are of a simulated survey, from its true scores and the length of
            its lists.
        steepness: by how much a score grows with an item's log odds, from the same.
        most_items: largest catalogue; None: as large as any of rankings.
    """

    facts: MethodFacts
    plan_order: int | None
    weights: Callable[[PrivacyParams, int, int | None, int], dict[Part, int]]
    words: CountWords
    rank: Callable[[NoisyRankings, SurveyConfig], Ranked]
    truth: Callable[[PlannedSurvey, Floats, int], Floats]
    steepness: Callable[[PlannedSurvey, int], float]
    most_items: int | None = None

    mechanism = RankingCountMechanism

    def calibrate(self, config: SurveyConfig) -> RankingCountMechanism:
        """Noise for every released entry, of each group if there are groups."""
        refuse_too_many_items(config, self.facts, self.most_items)
        params = config.privacy.params()
        longest, below = longest_of(config), _below(config)
        groups = groups_of(config, len(config.items.catalogue.names) ** 2, MOST_GROUPED_COUNTS)
        n_groups, most = cells_of(groups)
        weights = self.weights(params, longest, below, n_groups)
        try:
            calibration = calibrate_rankings(
                params, longest, weights, below=below, n_groups=n_groups, most=most
            )
        except ValueError as error:
            raise ConfigError(f"privacy: {error}") from None
        return RankingCountMechanism.of_job(config, params, calibration, weights, longest, groups)

    def terms(self, mechanism: RankingCountMechanism) -> Terms:
        """Cost and noise."""
        words = self._words(mechanism)
        return Terms.of(mechanism.calibration, f"on every {words.entry.split(' (')[0]}")

    def reduction(
        self,
        config: SurveyConfig,
        mechanism: RankingCountMechanism,
        files: tuple[InputFile, ...],
        key: SecretKey,
        folder: str,
    ) -> CountRankings:
        """Count, within the bounds of the mechanism."""
        return counting_job(config, mechanism, files, key, folder)

    def draw(self, exact: Arrays, mechanism: RankingCountMechanism, bits: RandomBits) -> Arrays:
        """Add noise to every entry; of groups, to every entry of each."""
        groups = [exact]
        if mechanism.groups is not None:
            numbers = range(len(mechanism.groups))
            groups = [{name: each[number] for name, each in exact.items()} for number in numbers]
        drawn = [
            release_rankings(RankingCounts(**each), mechanism.weights, mechanism.law, bits)
            for each in groups
        ]
        if mechanism.groups is None:
            return {**drawn[0]}
        return {name: np.stack([each[name] for each in drawn]) for name in drawn[0]}

    def conclude(
        self, drawn: Arrays, mechanism: RankingCountMechanism, config: SurveyConfig
    ) -> Conclusion:
        """Rank by the noisy counts, all rankings and those of each group."""
        whole = self.conclude_whole(drawn, mechanism, config)
        if mechanism.groups is None:
            return whole
        parts = _noisy(drawn, mechanism, config).by_group()
        named = zip(mechanism.groups.names, parts, strict=False)  # others come last
        boards = tuple(self._board(name, counts, config) for name, counts in named)
        return replace(whole, boards=boards)

    def _board(self, name: str, counts: NoisyRankings, config: SurveyConfig) -> Board:
        """The ranking of one group, which follows from its own counts alone."""
        names, estimate = config.items.catalogue.names, self.rank(counts, config).estimate
        return Board(
            name=name,
            estimate=estimate,
            own=1.0,
            released=released_rankings(counts, names),
            election=election_record(counts, names, config.rules) if estimate.informative else None,
        )

    def conclude_whole(
        self, drawn: Arrays, mechanism: RankingCountMechanism, config: SurveyConfig
    ) -> Conclusion:
        """Rank by the noisy counts of all rankings."""
        counts = _noisy(drawn, mechanism, config)
        if mechanism.groups is not None:
            overlap = mechanism.groups.most is not None
            counts = counts.by_group()[-1] if overlap else counts.together()
        ranked = self.rank(counts, config)
        warnings = ranked.warnings
        if not ranked.estimate.informative:
            warnings = (NOT_INFORMATIVE if mechanism.params.private else NO_RANKINGS,)
        return Conclusion(
            estimate=ranked.estimate,
            privacy=ranking_count_record(self._words(mechanism), mechanism, ranked.parameters),
            released=released_rankings(counts, config.items.catalogue.names),
            scale=ranked.scale,
            warnings=warnings,
            election=(
                election_record(counts, config.items.catalogue.names, config.rules)
                if ranked.estimate.informative
                else None
            ),
        )

    def sure_votes(self, mechanism: RankingCountMechanism) -> SureVotes | None:
        """Margins that a method which counts pairs calls sure; None: it counts none."""
        return sure_votes(mechanism) if self.facts.elections == "pairs" else None

    def estimand(self, config: SurveyConfig, survey: PlannedSurvey, truth: Floats) -> Floats:
        """Places above the middle, or scores in log odds."""
        return self.truth(survey, truth, longest_of(config))

    def predicted_error(
        self, config: SurveyConfig, survey: PlannedSurvey, mechanism: RankingCountMechanism
    ) -> float | None:
        """Error of scores: the standard error of an item's net in log odds, times the steepness.

        Each pair is in c lists, where the net of an item grows by 2 c k a log odds and pair, k the
        mean slope of the logistic curve.
        """
        n, m = survey.n_items, mechanism.longest
        lists = survey.people * survey.answers
        c, k = lists * m * (m - 1) / (n * (n - 1)), _slope(survey)
        variance = net_variance(
            mechanism.weights, mechanism.whole_law, n, m, lists, below=mechanism.below
        )
        return math.sqrt(variance) / (2 * c * k * n) * self.steepness(survey, m)

    def simulated(self, config: SurveyConfig, survey: PlannedSurvey, replicate: int) -> Arrays:
        """Counts of rankings of a simulated survey; of groups one after the other."""
        longest = longest_of(config)
        if not survey.shares:
            return _counted(survey.orders(replicate, longest), survey, config)
        groups = range(len(survey.shares))
        each = [_counted(survey.orders(replicate, longest, k), survey, config) for k in groups]
        stacked = {name: np.stack([counts[name] for counts in each]) for name in each[0]}
        return {name: with_whole(counts, config) for name, counts in stacked.items()}

    def _words(self, mechanism: RankingCountMechanism) -> CountWords:
        """What gets noise: earlier versions counted both sides of a pair."""
        return MARGIN_COUNTS if Part.MARGINS in mechanism.weights else self.words

    def attacked(self, mechanism: RankingCountMechanism) -> Attacked:
        """Noise on counts."""
        return attacked_counts(mechanism)

    def certified(self, mechanism: RankingCountMechanism, drawn: Arrays) -> tuple[CountNoise]:
        """Noise on counts of true rankings."""
        below, weights = mechanism.n_items if mechanism.below else None, mechanism.weights
        n_groups, most = cells_of(mechanism.groups)
        formula = rankings_formula(
            mechanism.params,
            mechanism.longest,
            weights,
            below=below,
            n_groups=n_groups,
            overlap=most,
        )
        parts = ", ".join(f"{weight} x {part}" for part, weight in weights.items())
        return (count_noise(f"{RESTATED.what}: {parts}", None, formula, mechanism.calibration),)


def counting_job(
    config: SurveyConfig,
    mechanism: RankingCountMechanism,
    files: tuple[InputFile, ...],
    key: SecretKey,
    folder: str,
) -> CountRankings:
    """The job that counts true rankings within the bounds of a mechanism."""
    rankings = config.rankings
    return CountRankings(
        files=files,
        columns=config.whole_ranking_columns(),
        catalogue=config.items.catalogue,
        contest=rankings.contest,
        max_length=mechanism.longest,
        max_rankings=mechanism.params.max_contributions,
        break_ties=rankings.ties is RankingTies.RANDOM,
        below=mechanism.below,
        rounds=Part.ROUNDS in mechanism.weights,
        reading=rankings.reading,
        key=key,
        confidential=folder,
        fail_on_bad_rows=rankings.on_bad_rows is BadRows.FAIL,
        people_vote=mechanism.params.look > 0,
    )


def _noisy(drawn: Arrays, mechanism: RankingCountMechanism, config: SurveyConfig) -> NoisyRankings:
    """The drawn counts; where there are groups, statements hold for these and all at once."""
    chosen = config.rankings.layout == "best-worst"
    return NoisyRankings(
        drawn,
        mechanism.weights,
        mechanism.law,
        mechanism.longest,
        mechanism.below,
        boards=1 if mechanism.groups is None else 1 + len(mechanism.groups.names),
        shown=mechanism.longest if chosen else 0,
        sets=mechanism.params.max_contributions if chosen else 1,
        found=mechanism.params.discovery is not None,
    )


def _counted(orders: NDArray[np.int64], survey: PlannedSurvey, config: SurveyConfig) -> Arrays:
    """Counts of rankings of the same length, a row for each."""
    longest = longest_of(config)
    counts = count_rankings(
        orders.ravel(),
        np.full(len(orders), longest),
        survey.n_items,
        longest,
        by_place=False,
        below=_below(config) is not None,
    )
    return {**counts.arrays()}


def _slope(survey: PlannedSurvey) -> float:
    """Mean slope of the logistic curve between two items, by the normal curve nearest to it."""
    return 0.25 / math.sqrt(1 + math.pi * 2 * survey.spread**2 / 8)


def _of_an_order(survey: PlannedSurvey, length: int) -> float:
    """Places that an item moves by a log odds: how dense normal scores are, on average."""
    return survey.n_items / (math.sqrt(2 * math.pi * math.sqrt(3)) * max(survey.spread, 1e-9))


def _of_mean_places(survey: PlannedSurvey, length: int) -> float:
    """Places that an item moves on average of lists."""
    return length * (length - 1) / (survey.n_items - 1) * _slope(survey)


def longest_of(config: SurveyConfig) -> int:
    """Most items of a ranking that counts; a set of best-worst has no more than columns of it.

    Where names are found, the settings alone say it, so that noise is as stated before.
    """
    rankings = config.rankings
    allowed = [rankings.max_length, most_shown(rankings.columns) or None]
    if config.items.discover is None:
        allowed.append(len(config.items.catalogue.names))
    return min(each for each in allowed if each is not None)


def _below(config: SurveyConfig) -> int | None:
    """Size of the catalogue if unlisted items count as below; None: they are unknown."""
    return len(config.items.catalogue.names) if config.rankings.unlisted is Unlisted.BELOW else None


def _kemeny(counts: NoisyRankings, config: SurveyConfig) -> Ranked:
    estimate, consensus = kemeny_estimate(NoisyPairs.of(counts))
    against = "contradicted_margins" if Part.MARGINS in counts.weights else "disagreements"
    parameters: dict[str, Parameter] = {
        against: consensus.disagreements,
        f"fewest_possible_{against}": consensus.lower_bound,
        "proven_best": consensus.optimal,
        **_widened(counts.margins_go_together),
    }
    return Ranked(
        estimate=estimate,
        scale=Scale.ABOVE_MIDDLE,
        parameters=parameters,
        warnings=not_proven(consensus),
    )


def _footrule(counts: NoisyRankings, config: SurveyConfig) -> Ranked:
    estimate, found = footrule_estimate(NoisyPlaces.of(counts))
    parameters: dict[str, Parameter] = {"sum_of_footrules": found.distance}
    return Ranked(estimate=estimate, scale=Scale.ABOVE_MIDDLE, parameters=parameters)


def _borda(counts: NoisyRankings, config: SurveyConfig) -> Ranked:
    evidence = NoisyNets.of(counts)
    found = borda_estimate(evidence)
    parameters: dict[str, Parameter] = {
        "rankings_with_noise": evidence.rankings,
        "drawn_to_zero_by": found.factor,
        **_widened(counts.nets_go_together),
    }
    warnings = _drawn(f"multiplied by {found.factor:.2g}") if found.factor < HARDLY_DRAWN else ()
    return Ranked(
        estimate=found.estimate,
        scale=Scale.ABOVE_MIDDLE,
        parameters=parameters,
        warnings=warnings,
    )


def _widened(variance: float) -> dict[str, Parameter]:
    """By how much intervals allow for sets of one person that go together; none if not at all."""
    return {"widened_for_sets_of_a_person_by": math.sqrt(variance)} if variance > 1 else {}


def _bradley_terry(counts: NoisyRankings, config: SurveyConfig) -> Ranked:
    evidence = NoisyNets.of(counts)
    found = bradley_terry_estimate(evidence, config.model.ridge)
    parameters: dict[str, Parameter] = {
        "rankings_with_noise": evidence.rankings,
        "ridge": found.ridge,
    }
    drawn = found.factor < HARDLY_DRAWN
    return Ranked(
        estimate=found.estimate,
        scale=Scale.LOG_ODDS,
        parameters=parameters,
        warnings=_drawn(f"fitted with a ridge of {found.ridge:.3g}") if drawn else (),
    )


def _drawn(how: str) -> tuple[str, ...]:
    return (
        "Noise and chance leave much doubt in the scores, so they are drawn towards 0, where their"
        f" error is smaller: {how}. Their intervals are not drawn, and allow for all of it.",
    )


def _pairs(params: PrivacyParams, longest: int, below: int | None, groups: int) -> dict[Part, int]:
    if below is None:
        return {Part.ABOVE: 1}
    return margin_weights(params, longest, below=below, n_groups=groups)


def _spread(
    part: Part, params: PrivacyParams, longest: int, below: int | None, groups: int
) -> dict[Part, int]:
    return spread_weights(params, part, longest, below=below, n_groups=groups)


def trusted_facts(name: str, summary: str, **more: Any) -> MethodFacts:
    """Facts of a method on counts of true rankings."""
    return MethodFacts(name=name, summary=summary, kind="rankings", units=(Unit.USER,), **more)


KEMENY = TrustedRankings(
    facts=trusted_facts(
        "kemeny",
        "the order that contradicts rankings least",
        elections="pairs",
        reads=(GROUPS,),
        best_worst=True,
    ),
    plan_order=0,
    weights=_pairs,
    words=ABOVE_COUNTS,
    rank=_kemeny,
    truth=consensus_places,
    steepness=_of_an_order,
    most_items=MOST_KEMENY_ITEMS,
)
BORDA = TrustedRankings(
    facts=trusted_facts(
        "borda",
        "places above the middle, on average of rankings",
        reads=(GROUPS,),
        best_worst=True,
        finds_names=True,
    ),
    plan_order=1,
    weights=partial(_spread, Part.NETS),
    words=NET_SUMS,
    rank=_borda,
    truth=mean_places,
    steepness=_of_mean_places,
)
BRADLEY_TERRY = TrustedRankings(
    facts=trusted_facts(
        "bradley-terry",
        "scores by maximum likelihood, from rankings",
        logistic=True,
        elections="pairs",
        reads=(GROUPS,),
    ),
    plan_order=2,
    weights=partial(_spread, Part.ABOVE),
    words=SPREAD_ABOVE_COUNTS,
    rank=_bradley_terry,
    truth=log_odds,
    steepness=lambda survey, length: 1.0,
)
FOOTRULE = TrustedRankings(
    facts=trusted_facts(
        "footrule",
        "the order nearest to rankings, by how many places items are apart",
        elections="places",
        reads=(GROUPS,),
    ),
    plan_order=3,
    weights=lambda params, longest, below, groups: {Part.PLACES: 1},
    words=PLACE_COUNTS,
    rank=_footrule,
    truth=consensus_places,
    steepness=_of_an_order,
)


@dataclass(frozen=True, kw_only=True)
class ByUnit(Method):
    """Rank by private rankings under unit `local`, else by noisy counts of true ones.

    Attributes:
        facts: of both; of either unit.
        local, trusted: the methods, of the same name.
    """

    facts: MethodFacts
    local: PlannedMethod[Any]
    trusted: PlannedMethod[Any]

    def resolve(self, config: SurveyConfig) -> Choice:
        """The method for the unit that the configuration states."""
        return Choice(self.local if config.privacy.unit is Unit.LOCAL else self.trusted)

    @property
    def ways(self) -> tuple[RankingMethod[Any], ...]:
        """Both."""
        return self.local, self.trusted

    @property
    def plan_order(self) -> int | None:
        """That of both."""
        return self.trusted.plan_order


def _either(local: private.PrivateRankings, central: TrustedRankings) -> ByUnit:
    facts = replace(
        local.facts,
        summary=central.facts.summary,
        units=(Unit.USER, Unit.LOCAL),
        elections=central.facts.elections,
        best_worst=central.facts.best_worst,
        finds_names=central.facts.finds_names,
        reads={*local.facts.reads, *central.facts.reads},
    )
    return ByUnit(facts=facts, local=local, trusted=central)


METHODS = (
    _either(private.KEMENY, KEMENY),
    _either(private.BORDA, BORDA),
    _either(private.BRADLEY_TERRY, BRADLEY_TERRY),
    FOOTRULE,
)
