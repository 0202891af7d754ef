"""What a release of private rankings is concluded from: counts as they are, or undone.

Whether the mechanism can be undone follows from public choices and the released counts alone.

The mechanisms keep the order of two items in every single ranking more likely than not, but not in
a population of rankings: [RDP] Theorem 1 (1) and (2), Lemmas 6 and 7 and Corollary 1 say so, and
are wrong (docs/reproduction.md, erratum R3). Two items that stand next to each other in most
rankings and far apart in the others can change places. They cannot where people rank by one common
order: where each ranking that puts the better of two items in front is at least as common as the
one with only these two exchanged. `model.common_order` states that; without it an order comes from
rankings that were undone, or none is published (`model.debiased: auto`).

References:
    [RDP] Xu, Sun, Cheng. Ranking differential privacy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hushrank.estimation.common.links import Floats
from hushrank.estimation.rankings.mechanism_choice import (
    MOST_LAPLACE,
    laplace_places,
    mallows_places,
)
from hushrank.estimation.rankings.net_evidence import (
    NetEvidence,
    PlaceLaw,
    can_be_undone,
    plain_nets,
    undone_nets,
)
from hushrank.estimation.rankings.pair_answer_evidence import (
    AnswerSums,
    PairAnswerCounts,
    answered_nets,
    answered_pairs,
    fitted_nets,
    precision_of,
)
from hushrank.estimation.rankings.ranking_counts import (
    MOST_BY_PLACE,
    RankingCounts,
    n_place_pairs,
)
from hushrank.estimation.rankings.ranking_evidence import (
    LARGEST_ENTRY,
    RankingEvidence,
    answers_differ,
    combined_nets,
    combined_pairs,
    debiased_evidence,
    effective_rankings,
    largest_entry,
    mean_one,
    plain_evidence,
    undoing_pays,
    variance_of_nets,
    variance_of_pairs,
)
from hushrank.flows.config.method import Weights
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.statement.rankings import RankingGuarantee
from hushrank.flows.statement.record import Parameter
from hushrank.flows.statement.sentences import number
from hushrank.privacy.random_pairs import RandomPairs
from hushrank.privacy.units import Levels
from hushrank.transforms.common.randomisation import RankingMechanism

AS_THEY_ARE = "model.debiased is false"
SEVERAL = "rankings have different epsilons"
TOO_MUCH = "at this epsilon one ranking would count as thousands"
ONE_LEVEL = 0.95  # share of the weight above which a result is that of one level
DIFFER = (
    "People who chose more privacy may answer differently: the scores that weigh rankings by their"
    " epsilon differ from those that count all alike by more than chance. These scores lean to"
    " people with a large epsilon; model.weights: equal counts all alike."
)
Counts = RankingCounts | PairAnswerCounts


def publishes_plain_orders(config: SurveyConfig) -> bool:
    """Whether the job publishes the order of rankings that were not undone."""
    return config.model.debiased is False or config.model.common_order


def impossible(config: SurveyConfig, guarantee: RankingGuarantee, *, by_pairs: bool) -> str:
    """Why the mechanism cannot be undone for sure, from public choices alone; empty: it can."""
    if (reason := no_law(guarantee, by_pairs=by_pairs)) or guarantee.pairs is not None:
        return reason
    n_items, longest = len(config.items.catalogue.names), guarantee.max_length
    n_levels = 1 if guarantee.levels is None else len(guarantee.levels.levels)
    if n_levels * n_place_pairs(longest) * n_items**2 > MOST_BY_PLACE:
        apart = "" if n_levels == 1 else f", apart for {n_levels} levels of epsilon,"
        return (
            f"for {n_items} items in lists of up to {longest}{apart} it takes too many counts (a"
            " smaller input.max_length would help)"
        )
    return ""


def no_law(guarantee: RankingGuarantee, *, by_pairs: bool) -> str:
    """Why what the mechanism does to a list is not known; empty: it is."""
    if guarantee.pairs is not None:
        return ""
    if guarantee.mechanism is RankingMechanism.LAPLACE_RANKS:
        if by_pairs:
            return "for pairs under mechanism laplace-ranks no closed form is known"
        if guarantee.max_length > MOST_LAPLACE:
            return f"of mechanism laplace-ranks that takes too long above {MOST_LAPLACE} items"
    if guarantee.levels is None and guarantee.low < guarantee.high:
        return SEVERAL  # an earlier version drew, which did not round epsilons
    return ""


@dataclass(frozen=True, slots=True, eq=False)
class LevelCounts:
    """Counts of private rankings, apart for each level of epsilon, and how they were drawn.

    Attributes:
        counts: of each level; of one, where all rankings have one epsilon.
        guarantee: what they promise.
        config: the job.
    """

    counts: tuple[Counts, ...]
    guarantee: RankingGuarantee
    config: SurveyConfig

    @property
    def epsilons(self) -> Levels:
        """Epsilon of the mechanism at each level."""
        levels = self.guarantee.levels
        return (self.guarantee.high,) if levels is None else levels.epsilons

    @property
    def rankings(self) -> Floats:
        """How many rankings each level has."""
        return np.array([each.rankings for each in self.counts], np.float64)

    def answers(self) -> list[tuple[PairAnswerCounts, RandomPairs]]:
        """Counts of private answers of each level, with their law; empty: of other rankings."""
        guarantee = self.guarantee
        if guarantee.pairs is None:
            return []
        laws = (guarantee.pairs,) if guarantee.levels is None else guarantee.levels.pairs
        found = zip(self.counts, laws, strict=True)
        return [(each, law) for each, law in found if isinstance(each, PairAnswerCounts)]

    def synthetic(self) -> list[tuple[RankingCounts, float]]:
        """Counts of synthetic rankings of each level, with their epsilon."""
        found = zip(self.counts, self.epsilons, strict=True)
        return [(each, epsilon) for each, epsilon in found if isinstance(each, RankingCounts)]

    def law_of_places(self, epsilon: float) -> PlaceLaw:
        """Law of the places in private rankings of one epsilon, for each length."""
        laplace = self.guarantee.mechanism is RankingMechanism.LAPLACE_RANKS
        law = laplace_places if laplace else mallows_places
        return lambda length: law(length, epsilon)

    def weights(self, *, by_pairs: bool) -> Floats:
        """Weights of a ranking of each level whose mechanism is undone, with the mean 1.

        A level at which one ranking would count as thousands has the weight 0.

        Args:
            by_pairs: for undone pairs; False: for undone places.
        """
        alike = np.ones(len(self.counts))
        if self.guarantee.levels is None or self.config.model.weights is Weights.EQUAL:
            return alike
        longest, n = self.guarantee.max_length, self.rankings
        if answers := self.answers():
            precision = [precision_of(law) for _, law in answers]
        elif by_pairs:
            precision = [
                0.0 if is_extreme(counts, own) else 1 / variance_of_pairs(longest, own)
                for counts, own in self.synthetic()
            ]
        else:
            laws = map(self.law_of_places, self.epsilons)
            precision = [1 / variance_of_nets(law, longest, int(n.sum())) for law in laws]
        return mean_one(np.array(precision), n)

    def nets(self) -> list[NetEvidence]:
        """Undone sums of half nets of each level, all rankings alike."""
        if answers := self.answers():
            return [answered_nets(AnswerSums.of([each])) for each in answers]
        people = int(self.rankings.sum())
        return [
            undone_nets(counts, self.law_of_places(epsilon), people)
            for counts, epsilon in self.synthetic()
        ]


def is_extreme(counts: RankingCounts, epsilon: float) -> bool:
    """Whether one of these rankings would count as thousands once its pairs were undone."""
    return largest_entry(counts, epsilon) > LARGEST_ENTRY


def pairs_of(drawn: LevelCounts) -> tuple[RankingEvidence, str]:
    """Plain or undone pairs, as the configuration and the released counts decide; why plain."""
    config, weights = drawn.config, drawn.weights(by_pairs=True)
    undone = config.model.debiased is not False
    if answers := drawn.answers():
        sums = AnswerSums.of(answers, weights if undone else None, undone=undone)
        return answered_pairs(sums), "" if undone else AS_THEY_ARE
    rankings = drawn.synthetic()
    plain = combined_pairs([plain_evidence(each) for each, _ in rankings], np.ones(len(rankings)))
    if not undone:
        return plain, AS_THEY_ARE
    if reason := impossible(config, drawn.guarantee, by_pairs=True):
        return plain, reason
    if any(each.by_place is None for each, _ in rankings):
        raise ValueError("counts by place are missing, and the configuration asks for them")
    if any(is_extreme(*each) for each, w in zip(rankings, weights, strict=True) if w > 0):
        return plain, TOO_MUCH
    parts = [
        debiased_evidence(*each) if w > 0 else plain_evidence(each[0])
        for each, w in zip(rankings, weights, strict=True)
    ]
    debiased = combined_pairs(parts, weights)
    if publishes_plain_orders(config) and not undoing_pays(plain, debiased):
        return plain, "it would add more chance than it takes away bias"
    return debiased, ""


def nets_of(drawn: LevelCounts, *, fitted: bool) -> tuple[NetEvidence, str]:
    """Sums of half nets, undone wherever it is possible; why not.

    Args:
        drawn: counts as released.
        fitted: for scores by likelihood; False: for mean half nets.
    """
    config, weights = drawn.config, drawn.weights(by_pairs=False)
    undone = config.model.debiased is not False
    if answers := drawn.answers():
        sums = AnswerSums.of(answers, weights if undone else None, undone=undone)
        found = fitted_nets(sums, config.model.ridge) if fitted else answered_nets(sums)
        return found, "" if undone else AS_THEY_ARE
    plain = combined_nets(
        [plain_nets(each) for each, _ in drawn.synthetic()], np.ones(len(drawn.counts))
    )
    if not undone:
        return plain, AS_THEY_ARE
    if reason := no_law(drawn.guarantee, by_pairs=False):
        return plain, reason
    if not all(can_be_undone(each) for each, _ in drawn.synthetic()):
        return plain, impossible(config, drawn.guarantee, by_pairs=False)
    return combined_nets(drawn.nets(), weights), ""


def told_of_levels(
    drawn: LevelCounts, *, by_pairs: bool, undone: bool
) -> tuple[dict[str, Parameter], tuple[str, ...]]:
    """What a release says of the weights of people who chose their own epsilon, and warns of.

    Args:
        drawn: counts as released.
        by_pairs: the method undoes pairs, not places.
        undone: the mechanism was undone; if not, all rankings count alike.

    Returns:
        Parameters and warnings; none where all rankings have one epsilon.
    """
    levels, n = drawn.guarantee.levels, drawn.rankings
    if levels is None:
        return {}, ()
    weights = drawn.weights(by_pairs=by_pairs) if undone else np.ones(len(n))
    equal = not undone or drawn.config.model.weights is Weights.EQUAL
    told: dict[str, Parameter] = {
        "weights": (Weights.EQUAL if equal else Weights.PRECISION).value,
        "effective_rankings": effective_rankings(weights, n),
    }
    warnings = []
    share = weights * n / max(float(weights @ n), 1.0)
    if len(n) > 1 and share.max() > ONE_LEVEL > n.max() / max(n.sum(), 1):
        level = number(levels.levels[int(np.argmax(share))])
        warnings.append(
            f"{100 * share.max():.0f} % of the weight is that of rankings with epsilon {level}, so"
            " this result is theirs. model.weights: equal counts all alike."
        )
    can_compare = drawn.answers() or all(can_be_undone(each) for each, _ in drawn.synthetic())
    if not equal and can_compare:
        nets, chosen = drawn.nets(), n > 0
        parts = [part for part, some in zip(nets, chosen, strict=True) if some]
        if len(parts) > 1 and answers_differ(parts, weights[chosen]):
            warnings.append(DIFFER)
    return told, tuple(warnings)
