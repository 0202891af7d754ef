"""Methods on rankings that are privatised one by one: unit `local`.

As in `local_answers.local_responses`, what the reduction leaves is private already and waits in the
confidential area until the ledger has recorded the release.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hushrank.estimation.common.estimate import Estimate, mean_ranks, nothing_learned
from hushrank.estimation.common.links import Floats
from hushrank.estimation.rankings.bradley_terry import bradley_terry_estimate
from hushrank.estimation.rankings.pair_answer_evidence import PairAnswerCounts, count_answers
from hushrank.estimation.rankings.ranking_counts import RankingCounts, count_rankings
from hushrank.estimation.rankings.ranking_estimates import (
    Consensus,
    borda_estimate,
    kemeny_estimate,
)
from hushrank.flows.config.method import MethodFacts
from hushrank.flows.config.rankings import RankingTies
from hushrank.flows.config.section import BadRows
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import ConfigError
from hushrank.flows.methods.base import Arrays, Conclusion, PlannedMethod, Terms
from hushrank.flows.methods.draws import (
    Draw,
    Insertions,
    IntegerSensitivity,
    NoisyRanks,
    PairLevel,
    RandomPairAnswers,
    SyntheticRankings,
    at_most,
    cost_of,
    ends,
    ends_of_law,
    exact,
    laplace_laws,
)
from hushrank.flows.methods.rankings.released_rankings import ReleasedPairAnswers, ReleasedRankings
from hushrank.flows.methods.rankings.undone_rankings import (
    Counts,
    LevelCounts,
    impossible,
    nets_of,
    no_law,
    pairs_of,
    publishes_plain_orders,
    told_of_levels,
)
from hushrank.flows.release.scale import Scale
from hushrank.flows.statement.rankings import (
    RankingGuarantee,
    SyntheticMechanism,
    ranking_record,
)
from hushrank.flows.statement.record import Parameter
from hushrank.pipelines.reduce.rankings_job import ReduceRankings
from hushrank.pipelines.simulate.planned_survey import PlannedSurvey
from hushrank.privacy import laplace_baselines
from hushrank.privacy.accounting import Spend
from hushrank.privacy.keyed_hash import SecretKey
from hushrank.privacy.mallows import MOST_ITEMS, insertion_weights
from hushrank.privacy.random_pairs import Hide
from hushrank.privacy.randomness import RandomBits, seeded_bits
from hushrank.privacy.units import Unit
from hushrank.transforms.common.randomisation import (
    LocalLaw,
    RankingLevels,
    RankingMechanism,
    law_of_pairs,
    law_of_rankings,
)
from hushrank.transforms.rankings.pair_answers import answer_rankings, randomize_rankings
from hushrank.transforms.rankings.rankings import Rankings
from hushrank.transforms.storage.files import InputFile

MOST_KEMENY_ITEMS = 500  # above that the local search takes minutes
HARDLY_DRAWN = 0.95
NO_RANKINGS = (
    "Nothing useful can be learned from this release: too few rankings put items of the catalogue"
    " above each other."
)
NO_ORDER = (
    "No order is published: what the mechanism does to rankings was not undone ({}), and the order"
    " of private rankings may be another one than that of the true rankings, unless people rank by"
    " one common order. model.common_order: true states that they do."
)


@dataclass(frozen=True, slots=True)
class _Ranked:
    """What a method makes of the counts.

    Attributes:
        debiased: the mechanism was undone.
        reason: why it was not.
    """

    estimate: Estimate
    scale: Scale
    debiased: bool
    reason: str
    parameters: dict[str, Parameter]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class PrivateRankings(PlannedMethod[SyntheticMechanism]):
    """See `estimation.rankings.ranking_estimates`.

    Attributes:
        facts, plan_order: see `PlannedMethod`.
        truth: what the scores are of a simulated survey, from its true scores and the length of
            its lists.
        rank: what the method makes of the counts.
        bias: what counting private rankings as they are does to the result.
        by_pairs: pairs are undone, not places.
        needs_items: which items were ranked must not be hidden.
        most_items: largest catalogue; None: as large as any of rankings.
    """

    facts: MethodFacts
    plan_order: int | None
    truth: Callable[[PlannedSurvey, Floats, int], Floats]
    rank: Callable[[LevelCounts], _Ranked]
    bias: str = "scores are too near 0, and how far the true ones may lie from them is not known"
    by_pairs: bool = False
    needs_items: bool = False
    most_items: int | None = None

    mechanism = SyntheticMechanism

    def calibrate(self, config: SurveyConfig) -> SyntheticMechanism:
        """The law of synthetic rankings at both ends of the range of epsilons."""
        rankings = config.rankings
        refuse_too_many_items(config, self.facts, self.most_items)
        guarantee = self._guarantee(config)
        if self.needs_items and guarantee.pairs and guarantee.pairs.hide is Hide.ITEMS:
            raise ConfigError(
                f"privacy.hide: must be order with method: {self.facts.name}, which needs to know"
                " how many rankings hold both items of a pair; or set method: borda"
            )
        reason = impossible(config, guarantee, by_pairs=self.by_pairs)
        if config.model.debiased is True and reason:
            raise ConfigError(f"model.debiased: cannot be: {reason}; write auto or false")
        never = reason if self.by_pairs else no_law(guarantee, by_pairs=False)
        if never and not publishes_plain_orders(config):
            raise ConfigError(
                f"model.common_order: missing, since the mechanism cannot be undone: {never}. The"
                " order of private rankings may be another one than that of the true rankings,"
                " unless people rank by one common order: state that with model.common_order: true,"
                " or write model.debiased: false to publish the order as it is"
            )
        ends = (guarantee.low, guarantee.high)
        try:
            if guarantee.pairs is not None:
                levels = guarantee.levels
                law = law_of_pairs((guarantee.pairs,) if levels is None else levels.pairs)
            else:
                law = law_of_rankings(guarantee.mechanism, *ends, guarantee.max_length)
        except ValueError as error:
            raise ConfigError(f"privacy: {error}") from None
        refuses_ties = rankings.has_numbers and rankings.ties is RankingTies.REFUSE
        return SyntheticMechanism(
            guarantee=guarantee,
            law=law,
            contests=rankings.columns.contest is not None,
            ties_refused=refuses_ties and not guarantee.already_private,
            spend=Spend(epsilon=guarantee.person),
            tie_rule=rankings.tie_rule,
        )

    def terms(self, mechanism: SyntheticMechanism) -> Terms:
        """Cost and noise."""
        guarantee = mechanism.guarantee
        noise = "each ranking replaced by a synthetic one, before counting"
        if (law := guarantee.pairs) is not None:
            pairs = "one random pair" if law.pairs == 1 else f"{law.pairs} random pairs"
            if guarantee.levels is not None and guarantee.levels.pairs[0].pairs < law.pairs:
                pairs = f"at most {pairs}, by their own epsilon"
            noise = f"each ranking replaced by private answers to {pairs}, before counting"
        if guarantee.already_private:
            noise = "none is added: the rankings were privatised where they were given"
        if guarantee.chosen:
            noise += f"; mechanism: auto took {guarantee.mechanism}, because {guarantee.chosen}"
        whole = "one ranking" if guarantee.unnamed else "all rankings of one person"
        if law is not None:
            noise += f" (protects {whole} at epsilon {guarantee.person:g}, or less)"
            return Terms(spend=mechanism.spend, noise=noise)
        noise += (
            f" (protects one moved item at epsilon {guarantee.high:g}, or less; {whole} at epsilon"
            f" {guarantee.person:g}, or less)"
        )
        return Terms(spend=mechanism.spend, noise=noise)

    def reduction(
        self,
        config: SurveyConfig,
        mechanism: SyntheticMechanism,
        files: tuple[InputFile, ...],
        key: SecretKey,
        folder: str,
    ) -> ReduceRankings:
        """Privatise each ranking and count."""
        rankings, guarantee = config.rankings, mechanism.guarantee
        return ReduceRankings(
            files=files,
            columns=config.ranking_columns(),
            catalogue=config.items.catalogue,
            contest=rankings.contest,
            max_length=guarantee.max_length,
            max_rankings=guarantee.max_rankings,
            break_ties=rankings.ties is RankingTies.RANDOM,
            reading=rankings.reading,
            epsilons=guarantee.epsilons(config.privacy.local_epsilons()),
            mechanism=guarantee.mechanism,
            already_private=guarantee.already_private,
            by_place=self._by_place(config, guarantee),
            key=key,
            confidential=folder,
            fail_on_bad_rows=rankings.on_bad_rows is BadRows.FAIL,
            law=None if guarantee.already_private else mechanism.law,
            pairs=guarantee.pairs,
            levels=guarantee.levels,
        )

    def draw(self, exact: Arrays, mechanism: SyntheticMechanism, bits: RandomBits) -> Arrays:
        """Let out what is private already: see the module's text."""
        return exact

    def conclude(
        self, drawn: Arrays, mechanism: SyntheticMechanism, config: SurveyConfig
    ) -> Conclusion:
        """Rank by the counts."""
        counts = _counts_of(drawn, mechanism.guarantee)
        found = LevelCounts(counts, mechanism.guarantee, config)
        ranked = self.rank(found)
        told, of_levels = told_of_levels(found, by_pairs=self.by_pairs, undone=ranked.debiased)
        no_order = bool(ranked.reason) and not publishes_plain_orders(config)
        if no_order:
            ranked = replace(
                ranked, estimate=nothing_learned(np.zeros(len(config.items.catalogue.names)))
            )
        parameters = {"debiased": ranked.debiased, **told, **ranked.parameters}
        warnings = (*self._doubt(ranked), *of_levels, *ranked.warnings)
        if no_order:
            warnings = (NO_ORDER.format(ranked.reason),)
        elif not ranked.estimate.informative:
            warnings = (NO_RANKINGS,)
        names = config.items.catalogue.names
        return Conclusion(
            estimate=ranked.estimate,
            privacy=ranking_record(mechanism, parameters),
            released=_record(counts, names, mechanism.guarantee.levels),
            scale=ranked.scale,
            warnings=warnings,
        )

    def estimand(self, config: SurveyConfig, survey: PlannedSurvey, truth: Floats) -> Floats:
        """Places above the middle, or scores in log odds."""
        return self.truth(survey, truth, self._guarantee(config).max_length)

    def simulated(self, config: SurveyConfig, survey: PlannedSurvey, replicate: int) -> Arrays:
        """Counts of privatised rankings of a simulated survey."""
        guarantee, n_items = self._guarantee(config), survey.n_items
        orders = survey.orders(replicate, guarantee.max_length)
        lengths = np.full(len(orders), guarantee.max_length)
        epsilons = np.full(len(orders), guarantee.high)
        true = Rankings(orders.ravel(), lengths, epsilons)
        bits = seeded_bits(survey.seed * 1_000_033 + replicate)  # a simulated survey: no release
        if (law := guarantee.pairs) is not None:
            answers = answer_rankings(true, n_items, law, bits)
            return {**count_answers(answers, n_items, guarantee.max_length, law).arrays()}
        private = randomize_rankings(true, guarantee.mechanism, bits)
        counted = count_rankings(
            private.items,
            private.lengths,
            n_items,
            guarantee.max_length,
            by_place=self._by_place(config, guarantee),
        )
        return {**counted.arrays()}

    def _guarantee(self, config: SurveyConfig) -> RankingGuarantee:
        return RankingGuarantee.of(config, by_pairs=self.by_pairs)

    def _by_place(self, config: SurveyConfig, guarantee: RankingGuarantee) -> bool:
        """Whether counts are kept by place, so that the mechanism may be undone."""
        undone = config.model.debiased is not False and guarantee.pairs is None
        return undone and not impossible(config, guarantee, by_pairs=self.by_pairs)

    def _doubt(self, ranked: _Ranked) -> tuple[str, ...]:
        if ranked.debiased:
            return ()
        return (
            "Private rankings are counted as they are: that draws every pair towards 50 %, so"
            f" {self.bias}. It was not undone: {ranked.reason}. Unless people rank by one common"
            " order, two items can change places by that.",
        )

    def certified(self, mechanism: SyntheticMechanism, drawn: Arrays) -> tuple[Draw, ...]:
        """Each ranking, before it is counted."""
        return (_certified(mechanism),)


def _counts_of(drawn: Arrays, guarantee: RankingGuarantee) -> tuple[Counts, ...]:
    """Counts of each level of epsilon, from arrays that have the levels along their first axis."""
    kind = RankingCounts if guarantee.pairs is None else PairAnswerCounts
    if guarantee.levels is None:
        return (kind(**drawn),)
    places = range(len(guarantee.levels.levels))
    return tuple(kind(**{name: array[place] for name, array in drawn.items()}) for place in places)


def _record(
    counts: Sequence[Counts], names: Sequence[str], levels: RankingLevels | None
) -> ReleasedRankings | ReleasedPairAnswers:
    answers = [each for each in counts if isinstance(each, PairAnswerCounts)]
    if answers:
        return ReleasedPairAnswers.of(answers, names, levels)
    rankings = [each for each in counts if isinstance(each, RankingCounts)]
    return ReleasedRankings.of(rankings, names, levels)


def consensus_places(survey: PlannedSurvey, truth: Floats, length: int) -> Floats:
    """Places above the middle of the true order."""
    return np.asarray((survey.n_items + 1) / 2 - mean_ranks(truth))


def mean_places(survey: PlannedSurvey, truth: Floats, length: int) -> Floats:
    """Half the mean net, by items in front and behind, where a list holds items by chance."""
    return length * (length - 1) / survey.n_items * survey.true_shares(truth)


def log_odds(survey: PlannedSurvey, truth: Floats, length: int) -> Floats:
    """The true scores."""
    return truth


def _kemeny(drawn: LevelCounts) -> _Ranked:
    evidence, reason = pairs_of(drawn)
    estimate, consensus = kemeny_estimate(evidence)
    parameters: dict[str, Parameter] = {
        "disagreements": consensus.disagreements,
        "fewest_possible_disagreements": consensus.lower_bound,
        "proven_best": consensus.optimal,
    }
    warnings = not_proven(consensus)
    return _Ranked(estimate, Scale.ABOVE_MIDDLE, not reason, reason, parameters, warnings)


def refuse_too_many_items(config: SurveyConfig, facts: MethodFacts, most: int | None) -> None:
    """Raise ConfigError for a catalogue that a method cannot rank; None: it ranks any."""
    n_items = len(config.items.catalogue.names)
    if most is not None and n_items > most:
        raise ConfigError(
            f"items: must be at most {most} with method: {facts.name}, got {n_items}; set method:"
            " borda"
        )


def not_proven(consensus: Consensus) -> tuple[str, ...]:
    """A warning where a better order may exist."""
    if consensus.optimal:
        return ()
    return (
        "The order is the best that a local search found: pairs contradict it"
        f" {consensus.disagreements:,.6g} times, and no order does with fewer than"
        f" {consensus.lower_bound:,.6g}.",
    )


def _borda(drawn: LevelCounts) -> _Ranked:
    evidence, reason = nets_of(drawn, fitted=False)
    found = borda_estimate(evidence, drawn=drawn.config.model.debiased == "auto")
    parameters: dict[str, Parameter] = {} if reason else {"drawn_to_zero_by": found.factor}
    warnings = _drawn(f"multiplied by {found.factor:.2g}") if found.factor < HARDLY_DRAWN else ()
    return _Ranked(found.estimate, Scale.ABOVE_MIDDLE, not reason, reason, parameters, warnings)


def _bradley_terry(drawn: LevelCounts) -> _Ranked:
    evidence, reason = nets_of(drawn, fitted=True)
    found = bradley_terry_estimate(evidence, drawn.config.model.ridge)
    to_zero = not reason and found.factor < HARDLY_DRAWN
    warnings = _drawn(f"fitted with a ridge of {found.ridge:.3g}") if to_zero else ()
    parameters: dict[str, Parameter] = {"ridge": found.ridge}
    return _Ranked(found.estimate, Scale.LOG_ODDS, not reason, reason, parameters, warnings)


def _certified(mechanism: SyntheticMechanism) -> Draw:
    """Certificate entry of whole rankings, by the mechanism that privatised them."""
    law = mechanism.guarantee.pairs
    if law is not None:
        return RandomPairAnswers(
            mechanism="random-pairs",
            what="each ranking, before it is counted",
            derivation="hushrank.privacy.random_pairs.law_of_epsilon",
            at_source=mechanism.guarantee.already_private,
            hide=law.hide.value,
            pairs=law.pairs,
            epsilon=at_most(law.epsilon),
            threshold=law.threshold,
            levels=_levels(mechanism.guarantee.levels),
            most_rankings=mechanism.guarantee.max_rankings,
            cost=cost_of(mechanism.spend),
        )
    if mechanism.guarantee.mechanism is RankingMechanism.LAPLACE_RANKS:
        return _noisy_ranks(mechanism)
    return _synthetic(mechanism)


def _levels(levels: RankingLevels | None) -> tuple[PairLevel, ...] | None:
    if levels is None:
        return None
    return tuple(
        PairLevel(epsilon=at_most(law.epsilon), pairs=law.pairs, threshold=law.threshold)
        for law in levels.pairs
    )


def _noisy_ranks(mechanism: SyntheticMechanism) -> NoisyRanks:
    guarantee = mechanism.guarantee
    moved = laplace_baselines.rank_sensitivity(guarantee.max_length)
    return NoisyRanks(
        mechanism="laplace-ranks",
        what="each ranking, before it is counted",
        derivation="hushrank.privacy.laplace_baselines.rank_sensitivity",
        at_source=guarantee.already_private,
        longest=guarantee.max_length,
        grid=laplace_baselines.GRID,
        sensitivity=IntegerSensitivity(l1=moved.l1, l2_squared=moved.l2_squared),
        epsilons=tuple(at_most(each) for each in ends(guarantee)),
        laws=laplace_laws(mechanism.law),
        whole_ranking=exact(guarantee.whole_ranking),
        most_rankings=guarantee.max_rankings,
        cost=cost_of(mechanism.spend),
    )


def _synthetic(mechanism: SyntheticMechanism) -> SyntheticRankings:
    guarantee = mechanism.guarantee
    longest = min(guarantee.max_length, MOST_ITEMS)
    return SyntheticRankings(
        mechanism="mallows",
        what="each ranking, before it is counted",
        derivation="hushrank.privacy.mallows.insertion_weights",
        at_source=guarantee.already_private,
        longest=longest,
        tables=tuple(_tables(mechanism.law, longest)),
        whole_ranking=exact(guarantee.whole_ranking),
        most_rankings=guarantee.max_rankings,
        cost=cost_of(mechanism.spend),
    )


def _tables(law: LocalLaw, longest: int) -> Iterator[Insertions]:
    """Weights of rankings of `longest` items."""
    for epsilon, least in ends_of_law(law):
        weights = insertion_weights(np.array([epsilon]), longest)[:, 0].tolist()
        if weights[-1] != least:
            return
        yield Insertions(epsilon=at_most(epsilon), weights=tuple(weights))


def _drawn(how: str) -> tuple[str, ...]:
    return (
        "Undoing what the mechanism does to rankings leaves much chance in the scores, so they are"
        f" drawn towards 0, where their error is smaller: {how}. Their intervals are not drawn, and"
        " allow for all of it.",
    )


_BORDA = MethodFacts(
    name="borda",
    summary="places above the middle, on average of private rankings",
    kind="rankings",
    units=(Unit.LOCAL,),
    reads=("model.debiased", "model.common_order", "model.weights"),
)
_KEMENY = replace(
    _BORDA, name="kemeny", summary="the order that contradicts private rankings least"
)
_BRADLEY_TERRY = replace(
    _BORDA,
    name="bradley-terry",
    logistic=True,
    summary="scores by maximum likelihood, from private rankings",
    reads=("model.debiased", "model.common_order", "model.weights", "model.ridge"),
)
KEMENY = PrivateRankings(
    facts=_KEMENY,
    plan_order=0,
    truth=consensus_places,
    rank=_kemeny,
    bias="close items are harder to tell apart",
    by_pairs=True,
    most_items=MOST_KEMENY_ITEMS,
)
BORDA = PrivateRankings(facts=_BORDA, plan_order=1, truth=mean_places, rank=_borda)
BRADLEY_TERRY = PrivateRankings(
    facts=_BRADLEY_TERRY,
    plan_order=2,
    truth=log_odds,
    rank=_bradley_terry,
    needs_items=True,
)
