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
from hushrank.estimation.rankings.pair_answer_counts import PairAnswerCounts
from hushrank.estimation.rankings.pair_answer_evidence import (
    answered_nets,
    answered_pairs,
    fitted_nets,
)
from hushrank.estimation.rankings.ranking_counts import (
    MOST_BY_PLACE,
    RankingCounts,
    n_place_pairs,
)
from hushrank.estimation.rankings.ranking_evidence import (
    LARGEST_ENTRY,
    RankingEvidence,
    debiased_evidence,
    largest_entry,
    plain_evidence,
    undoing_pays,
)
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.statement.rankings import RankingGuarantee
from hushrank.privacy.random_pairs import RandomPairs
from hushrank.transforms.common.randomisation import RankingMechanism

AS_THEY_ARE = "model.debiased is false"
Counts = RankingCounts | PairAnswerCounts


def publishes_plain_orders(config: SurveyConfig) -> bool:
    """Whether the job publishes the order of rankings that were not undone."""
    return config.model.debiased is False or config.model.common_order


def impossible(config: SurveyConfig, guarantee: RankingGuarantee, *, by_pairs: bool) -> str:
    """Why the mechanism cannot be undone for sure, from public choices alone; empty: it can."""
    if (reason := no_law(config, guarantee, by_pairs=by_pairs)) or guarantee.pairs is not None:
        return reason
    n_items, longest = len(config.items.catalogue()), guarantee.max_length
    if n_place_pairs(longest) * n_items**2 > MOST_BY_PLACE:
        return (
            f"for {n_items} items in lists of up to {longest} it takes too many counts (a smaller"
            " input.max_length would help)"
        )
    return ""


def no_law(config: SurveyConfig, guarantee: RankingGuarantee, *, by_pairs: bool) -> str:
    """Why what the mechanism does to a list is not known; empty: it is."""
    if guarantee.pairs is not None:
        return ""
    if guarantee.mechanism is RankingMechanism.LAPLACE_RANKS:
        if by_pairs:
            return "for pairs under mechanism laplace-ranks no closed form is known"
        if guarantee.max_length > MOST_LAPLACE:
            return f"of mechanism laplace-ranks that takes too long above {MOST_LAPLACE} items"
    if config.privacy.epsilon is None:
        return "rankings have different epsilons"
    return ""


def pairs_of(
    counts: Counts, guarantee: RankingGuarantee, config: SurveyConfig
) -> tuple[RankingEvidence, str]:
    """Plain or undone pairs, as the configuration and the released counts decide; why plain."""
    undone = config.model.debiased is not False
    if isinstance(counts, PairAnswerCounts):
        law = _law_of_answers(guarantee)
        return answered_pairs(counts, law, undone=undone), "" if undone else AS_THEY_ARE
    plain, epsilon = plain_evidence(counts), guarantee.high
    if config.model.debiased is False:
        return plain, AS_THEY_ARE
    if reason := impossible(config, guarantee, by_pairs=True):
        return plain, reason
    if counts.by_place is None:
        raise ValueError("counts by place are missing, and the configuration asks for them")
    if largest_entry(counts, epsilon) > LARGEST_ENTRY:
        return plain, "at this epsilon one ranking would count as thousands"
    debiased = debiased_evidence(counts, epsilon)
    if publishes_plain_orders(config) and not undoing_pays(plain, debiased):
        return plain, "it would add more chance than it takes away bias"
    return debiased, ""


def nets_of(
    counts: Counts, guarantee: RankingGuarantee, config: SurveyConfig, *, fitted: bool
) -> tuple[NetEvidence, str]:
    """Sums of half nets, undone wherever it is possible; why not.

    Args:
        counts: as released.
        guarantee: what they promise.
        config: the job.
        fitted: for scores by likelihood; False: for mean half nets.
    """
    if isinstance(counts, PairAnswerCounts):
        undone, law = config.model.debiased is not False, _law_of_answers(guarantee)
        reason = "" if undone else AS_THEY_ARE
        if fitted:
            return fitted_nets(counts, law, config.model.ridge, undone=undone), reason
        return answered_nets(counts, law, undone=undone), reason
    if config.model.debiased is False:
        return plain_nets(counts), AS_THEY_ARE
    if reason := no_law(config, guarantee, by_pairs=False):
        return plain_nets(counts), reason
    if not can_be_undone(counts):
        return plain_nets(counts), impossible(config, guarantee, by_pairs=False)
    return undone_nets(counts, _law_of_places(guarantee)), ""


def _law_of_places(guarantee: RankingGuarantee) -> PlaceLaw:
    laplace = guarantee.mechanism is RankingMechanism.LAPLACE_RANKS
    law = laplace_places if laplace else mallows_places
    return lambda length: law(length, guarantee.high)


def _law_of_answers(guarantee: RankingGuarantee) -> RandomPairs:
    if guarantee.pairs is None:
        raise ValueError("private answers to pairs were drawn by no law of pairs")
    return guarantee.pairs
