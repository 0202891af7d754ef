"""The privacy statement and record of rankings that were privatised one by one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.guarantee.record import Parameter, PrivacyRecord
from hushrank.flows.guarantee.sentences import (
    REACH,
    large_loss,
    never_protected,
    number,
    odds_factor,
)
from hushrank.privacy import laplace_ranks, mallows
from hushrank.privacy.accounting import Spend
from hushrank.privacy.units import Adjacency, Unit
from hushrank.transforms.common.randomisation import LocalLaw, RankingMechanism

RDP = "Xu, Sun and Cheng, Ranking differential privacy"
THEOREM = {
    RankingMechanism.MALLOWS: f"{RDP}, Algorithm 1 and Theorem 1.",
    RankingMechanism.LAPLACE_RANKS: f"{RDP}, Lemma 3, with discrete Laplace noise.",
}
ERRATUM = (
    "E4: Lemmas 1 and 2 of the paper print an exponent that is not the one of its Algorithm 1 where"
    " agreeing pairs are summed. Algorithm 1 was used: epsilon / (m - 1) for each unordered pair of"
    " m items."
)


WHOLE_RANKING = {
    RankingMechanism.MALLOWS: mallows.whole_ranking_epsilon,
    RankingMechanism.LAPLACE_RANKS: laplace_ranks.whole_ranking_epsilon,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RankingGuarantee:
    """What is promised before anything is read.

    Attributes:
        low, high: bounds of the epsilons of a ranking.
        max_length: m, the most items of a ranking that counts.
        max_rankings: the most rankings of one person that count.
        mechanism: how a ranking was privatised.
        already_private: at the source.
        unnamed: nothing says whose a ranking is, so each is taken for another person's.
        whole_ranking: most that one ranking loses, whatever other order of its items it takes.
        person: most that the rankings of one person that count lose: what the ledger is charged.
            Where they are unnamed nothing bounds how many those are; it is then the loss of one.
    """

    low: float
    high: float
    max_length: int
    max_rankings: int
    mechanism: RankingMechanism
    already_private: bool
    unnamed: bool
    whole_ranking: float
    person: float

    @classmethod
    def of(cls, config: SurveyConfig) -> RankingGuarantee:
        """The guarantee of a job on rankings."""
        privacy, epsilons = config.privacy, config.privacy.local_epsilons()
        n_items = len(config.items.catalogue())
        mechanism = privacy.mechanism or RankingMechanism.MALLOWS
        longest = min(config.rankings.max_length or n_items, n_items)
        most = privacy.max_contributions or 1
        whole = WHOLE_RANKING[mechanism](epsilons.high, longest)
        return cls(
            low=epsilons.low,
            high=epsilons.high,
            max_length=longest,
            max_rankings=most,
            mechanism=mechanism,
            already_private=privacy.already_private,
            unnamed=not config.rankings.names_people,
            whole_ranking=whole,
            person=most * whole,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntheticMechanism:
    """How rankings are replaced by private synthetic ones before they are counted.

    Attributes:
        guarantee: what is promised.
        law: in numbers; the workers draw by it, or refuse.
        contests: only the rankings of one contest count.
        ties_refused: rankings with ties are left out.
        spend: what the ledger is charged.
    """

    guarantee: RankingGuarantee
    law: LocalLaw
    contests: bool
    ties_refused: bool
    spend: Spend


def ranking_record(
    mechanism: SyntheticMechanism, parameters: dict[str, Parameter]
) -> PrivacyRecord:
    """The record of a release of private rankings.

    Args:
        mechanism: how the rankings were privatised.
        parameters: of the estimate, public.
    """
    guarantee = mechanism.guarantee
    mallows_used = guarantee.mechanism is RankingMechanism.MALLOWS
    facts: dict[str, Parameter] = {
        "epsilon_of_a_ranking": _interval(guarantee),
        "epsilon_of_a_whole_ranking_at_most": guarantee.whole_ranking,
        "longest_ranking": guarantee.max_length,
    }
    if not guarantee.unnamed:
        facts["epsilon_of_a_person_at_most"] = guarantee.person
    return PrivacyRecord(
        unit=Unit.LOCAL,
        adjacency=Adjacency.REPLACE_ONE,
        epsilon=mechanism.spend.epsilon,
        delta=0.0,
        mechanism=guarantee.mechanism,
        max_contributions=guarantee.max_rankings,
        parameters=facts | parameters,
        statement=tuple(_sentences(guarantee)),
        not_protected=tuple(_not_protected(mechanism)),
        theorem=THEOREM[guarantee.mechanism],
        erratum=ERRATUM if mallows_used else None,
    )


def _sentences(guarantee: RankingGuarantee) -> Iterator[str]:
    if guarantee.already_private:
        yield (
            "Each ranking was replaced by a synthetic one where it was given; true rankings were"
            " never collected."
        )
    else:
        yield (
            "Each ranking was replaced by a synthetic ranking of the same items, before it was"
            " counted."
        )
    yield (
        "If somebody had put one item of their ranking at another place, nothing here would become"
        f" more than {odds_factor(guarantee.high)} times as likely (e^epsilon; the epsilon of a"
        f" ranking {_is(guarantee)})."
    )
    yield _whole(guarantee)
    yield REACH
    yield _how(guarantee.mechanism)
    if guarantee.unnamed:
        yield "Each ranking in the input counts as the one ranking of another person."
    elif guarantee.max_rankings == 1:
        yield "One ranking of each person counts; of several, one was chosen at random."
    else:
        yield (
            f"At most {guarantee.max_rankings} rankings of each person count, chosen at random; all"
            " of them together are protected at the sum of their losses,"
            f" {number(guarantee.person)} at most."
        )


def _whole(guarantee: RankingGuarantee) -> str:
    m, whole = guarantee.max_length, guarantee.whole_ranking
    formula = "epsilon m / 2"
    if guarantee.mechanism is RankingMechanism.LAPLACE_RANKS:
        formula = "epsilon floor(m^2 / 2) / (2m - 2)"
    return (
        "If they had put the same items in any other order, nothing would become more than"
        f" {odds_factor(whole)} times as likely: the loss of a whole ranking is {number(whole)} at"
        f" most ({formula}, for the longest ranking allowed, m = {m}). The budget is charged with"
        " this larger loss."
    )


def _how(mechanism: RankingMechanism) -> str:
    if mechanism is RankingMechanism.LAPLACE_RANKS:
        return (
            "To each rank discrete Laplace noise of scale 2 (m - 1) / epsilon was added, and items"
            " were put in the order of the noisy ranks. This is a baseline: mechanism mallows is"
            " more accurate at the same epsilon."
        )
    return (
        "The synthetic ranking was drawn by secret bits from a Mallows law around the true one:"
        " each pair of items on which the two agree makes it e^(epsilon / (m - 1)) times as likely,"
        " m items in the list. All results are computed from synthetic rankings alone."
    )


def _not_protected(mechanism: SyntheticMechanism) -> Iterator[str]:
    guarantee = mechanism.guarantee
    contests = ", in which contests" if mechanism.contests else ""
    yield (
        f"Which items a person ranked, and how many{contests}, at which epsilon, and that a ranking"
        " was given at all: only the order of the ranked items is hidden."
    )
    if mechanism.ties_refused:
        yield "Whether somebody put two items at the same rank: such rankings were left out."
    if guarantee.unnamed:
        yield "A person with several rankings in the input: their losses add up, unbounded."
    yield from never_protected()
    yield from large_loss(guarantee.person)


def _is(guarantee: RankingGuarantee) -> str:
    if guarantee.low == guarantee.high:
        return f"is {number(guarantee.high)}"
    return f"lies between {number(guarantee.low)} and {number(guarantee.high)}"


def _interval(guarantee: RankingGuarantee) -> str:
    low, high = number(guarantee.low), number(guarantee.high)
    return low if low == high else f"{low} to {high}"
