"""Mechanisms, statements and records of rankings: privatised one by one, or as noisy counts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, Self

from hushrank.estimation.common.central_noise import Calibration
from hushrank.estimation.rankings.mechanism_choice import mallows_epsilon, predicted
from hushrank.flows.config.privacy import RankingChoice
from hushrank.flows.config.rankings import RankingTies, Unlisted
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.statement.mechanism import CountMechanism, CountWords
from hushrank.flows.statement.record import Parameter, PrivacyRecord, count_record
from hushrank.flows.statement.sentences import (
    REACH,
    large_loss,
    never_protected,
    number,
    odds_factor,
)
from hushrank.privacy import laplace_baselines, mallows
from hushrank.privacy.accounting import Spend
from hushrank.privacy.random_pairs import Hide, RandomPairs
from hushrank.privacy.ranking_sensitivity import Part
from hushrank.privacy.units import Adjacency, PrivacyParams, Unit
from hushrank.transforms.common.catalogue import Groups
from hushrank.transforms.common.epsilons import EpsilonSource
from hushrank.transforms.common.randomisation import LocalLaw, RankingLevels, RankingMechanism
from hushrank.transforms.rankings.person_features import PersonFeatures

ALGORITHM = (
    "Dwork, McSherry, Nissim and Smith, Calibrating noise to sensitivity in private data analysis"
    " (2006), on counts of rankings, with the sensitivity that hushrank's"
    " privacy/ranking_sensitivity.py proves"
)
_BESIDE = (
    " (sums of squares and the number of rankings included, from which intervals know how much"
    " rankings differ)"
)
ABOVE_COUNTS = CountWords(
    entry="count of pairs (in how many rankings one item is above another)",
    computed="the order and all intervals are computed from the noisy counts alone",
    algorithm={Unit.USER: ALGORITHM},
)
MARGIN_COUNTS = replace(
    ABOVE_COUNTS,
    entry="margin of a pair (in how many more rankings one item is above the other than below it),"
    " and the number of rankings",
)
SPREAD_ABOVE_COUNTS = replace(
    ABOVE_COUNTS,
    entry=f"{ABOVE_COUNTS.entry}{_BESIDE}",
    computed="the scores and all intervals are computed from the noisy counts alone",
)
NET_SUMS = CountWords(
    entry=f"item's sum of items below it less items above it{_BESIDE}",
    computed="the scores and all intervals are computed from the noisy sums alone",
    algorithm={Unit.USER: ALGORITHM},
)
PLACE_COUNTS = CountWords(
    entry="count of places (in how many rankings an item is at a place)",
    computed="the order and all intervals are computed from the noisy counts alone",
    algorithm={Unit.USER: ALGORITHM},
)

ROUND_COUNTS = CountWords(
    entry="count of a round (how many rankings have an item as the best of those left, or none of"
    " them)",
    computed="which item leaves and all else are computed from the noisy counts alone",
    algorithm={Unit.USER: ALGORITHM},
)
ROUNDS = (
    "In each round the item with the smallest noisy count left, and rankings went on to the best of"
    " their items that was left. The noise of all rounds was drawn before the first one."
)


UNLISTED = {
    True: "Items that a ranking does not list count as below those it lists.",
    False: "Items that a ranking does not list are taken as unknown: it says nothing of them.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RankingCountMechanism(CountMechanism):
    """Discrete noise on counts of true rankings.

    Attributes:
        weights: worth of 1 in each part of the release.
        longest: the most items of a ranking that counts.
        unnamed: nothing says whose a ranking is, so each is taken for another person's.
        contests: whether only the rankings of one contest count.
        ties_refused: rankings with ties are left out.
        below: items that a ranking does not list count as below those it lists; False, as in
            versions that had no choice: they are taken as unknown.
        tie_rule: `RankingsConfig.tie_rule`; empty also of versions that did not state it.
        features: public ones of people, by which counts are kept apart; None: there are none.
    """

    weights: dict[Part, int]
    longest: int
    unnamed: bool
    contests: bool
    ties_refused: bool
    below: bool = False
    tie_rule: str = ""

    @classmethod
    def of_job(
        cls,
        config: SurveyConfig,
        params: PrivacyParams,
        calibration: Calibration,
        weights: dict[Part, int],
        longest: int,
        groups: Groups | None = None,
        **own: Any,
    ) -> Self:
        """The mechanism that adds the calibrated noise; `own`: fields of a class built on this one.

        Raises:
            ValueError: the calibration is not the noise that `params` needs, or has less of it.
        """
        n_items, rankings = len(config.items.catalogue.names), config.rankings
        noise = CountMechanism.of(params, calibration, n_items, None, groups=groups)
        return cls(
            **{field.name: getattr(noise, field.name) for field in fields(noise)},
            weights=weights,
            longest=longest,
            unnamed=not rankings.names_people,
            contests=rankings.contest is not None,
            ties_refused=rankings.layout == "long" and rankings.ties is RankingTies.REFUSE,
            below=rankings.unlisted is Unlisted.BELOW,
            tie_rule=rankings.tie_rule,
            **own,
        )


def ranking_count_record(
    words: CountWords,
    mechanism: RankingCountMechanism,
    parameters: dict[str, Parameter],
    last: str | None = None,
) -> PrivacyRecord:
    """The record of a release of noisy counts of rankings.

    Args:
        words: words for the kind of counts.
        mechanism: the mechanism that drew the counts.
        parameters: public parameters of the estimate.
        last: last sentence of the statement; None: what becomes of items that are not listed.
    """
    facts: dict[str, Parameter] = {"longest_ranking": mechanism.longest}
    if mechanism.tie_rule:
        facts["items_at_one_rank"] = mechanism.tie_rule
    facts |= {f"weight_of_{part}": weight for part, weight in mechanism.weights.items()}
    record = count_record(words, mechanism, facts | parameters)
    if not mechanism.params.private:
        return record
    *statement, _ = map(of_rankings, record.statement)  # the last one says which rows count
    return record.model_copy(
        update={
            "statement": (
                *statement,
                *_weighted(mechanism),
                *([ROUNDS] if Part.ROUNDS in mechanism.weights else []),
                bound_of_rankings(mechanism),
                UNLISTED[mechanism.below] if last is None else last,
            ),
            "not_protected": (
                *not_protected_by_counts(mechanism),
                *map(of_rankings, record.not_protected),
            ),
        }
    )


def of_rankings(text: str) -> str:
    """Return a sentence on answers as one on rankings."""
    return text.replace("answers", "rankings").replace("An answer ", "A ranking ")


def _weighted(mechanism: RankingCountMechanism) -> Iterator[str]:
    if set(mechanism.weights.values()) == {1}:
        return
    said = ", ".join(f"{part} times {weight:,}" for part, weight in mechanism.weights.items())
    yield (
        f"What is released is multiplied by whole numbers first ({said}), so that one noise serves"
        " all; scale and sensitivity are of these products."
    )


def bound_of_rankings(mechanism: RankingCountMechanism) -> str:
    """Say how many rankings of a person count."""
    most, longest = mechanism.params.max_contributions, mechanism.longest
    lists = f"longer than {longest} items none counts" if longest < mechanism.n_items else ""
    end = f"; {lists}." if lists else "."
    if mechanism.unnamed:
        return f"Each ranking in the input counts as the one ranking of another person{end}"
    if most == 1:
        return f"One ranking of each person counts; of several, a secret key chose one{end}"
    return f"At most {most} rankings of each person count, chosen by a secret key{end}"


def not_protected_by_counts(mechanism: RankingCountMechanism) -> Iterator[str]:
    """Yield the limits of counts of rankings of which nothing says whose they are."""
    if mechanism.unnamed:
        yield (
            "A person with several rankings in the input: each is protected as if it were another"
            " person's, and their losses add up, unbounded."
        )


RDP = "Xu, Sun and Cheng, Ranking differential privacy"
THEOREM = {
    RankingMechanism.MALLOWS: f"{RDP}, Algorithm 1 and Lemmas 1 and 2 (with erratum E4).",
    RankingMechanism.LAPLACE_RANKS: f"{RDP}, Lemma 3, with discrete Laplace noise.",
    RankingMechanism.RANDOM_PAIRS: (
        "Warner, Randomized response (1965), on pairs drawn without looking at the order; see"
        " hushrank's privacy/random_pairs.py"
    ),
}
ERRATUM = (
    "E4: Lemmas 1 and 2 of the paper print an exponent that is not the one of its Algorithm 1 where"
    " agreeing pairs are summed. Algorithm 1 was used: epsilon / (m - 1) for each unordered pair of"
    " m items."
)


LEVELS = {
    False: (
        "The epsilon of each ranking came with it, and was rounded down to one of the public levels"
        " before anything was drawn."
    ),
    True: (
        "The epsilon of each ranking came with it, and is one of the public levels; rankings with"
        " another one do not count."
    ),
}
FEATURES_SHOW = (
    "Features of people ({}): they are taken as public, and what is published is kept apart by"
    " them."
)
CHOICE_SHOWS = (
    "Which epsilon a person chose: what is published is kept apart by it. If people let it depend"
    " on how they rank, it tells that."
)
HIDDEN = {
    Hide.ORDER: "the order of the ranked items",
    Hide.ITEMS: "which items were ranked, how many, and their order",
}
WHOLE_RANKING = {
    RankingMechanism.MALLOWS: mallows.whole_ranking_epsilon,
    RankingMechanism.LAPLACE_RANKS: laplace_baselines.whole_ranking_epsilon,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RankingGuarantee:
    """Guarantee that is promised before anything is read.

    Attributes:
        low, high: bounds of the epsilons of a ranking: of one moved item; under `random-pairs` of
            the whole ranking.
        max_length: m, the most items of a ranking that counts.
        max_rankings: the most rankings of one person that count.
        mechanism: the mechanism that privatised a ranking.
        already_private: whether rankings were privatised at the source.
        unnamed: nothing says whose a ranking is, so each is taken for another person's.
        whole_ranking: most that one ranking loses, whatever other order of its items it takes.
        person: most that the rankings of one person that count lose: what the ledger is charged.
            Where they are unnamed nothing bounds how many those are; it is then the loss of one.
        pairs: the law of `random-pairs`, at the largest epsilon; None: another mechanism.
        chosen: why this mechanism, where the job leaves that open; empty: the job names it.
        levels: the public levels to which epsilons that come with the rows are rounded down; None:
            all rankings have one epsilon, or an earlier version privatised them as they came.
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
    pairs: RandomPairs | None = None
    chosen: str = ""
    levels: RankingLevels | None = None

    @classmethod
    def of(cls, config: SurveyConfig, *, by_pairs: bool = False) -> RankingGuarantee:
        """The guarantee of a job on rankings.

        Args:
            config: the job.
            by_pairs: whether the method publishes an order, which follows from pairs, and no
                scores; `mechanism: auto` chooses by that, and nothing else depends on it.

        Raises:
            ConfigError: a ranking has fewer pairs than it should answer.
        """
        privacy, n_items = config.privacy, len(config.items.catalogue.names)
        longest = min(config.rankings.max_length or n_items, n_items)
        most = privacy.max_contributions or 1
        bounds = privacy.local_epsilons()
        offered = privacy.levels() if privacy.epsilon is None else ()
        laws = config.laws_of_pairs()
        pairs, chosen = laws[-1] if laws else None, ""
        if laws and privacy.mechanism is RankingChoice.AUTO:
            takes_pairs, chosen = _choice(laws[0], longest, by_pairs=by_pairs)
            pairs = pairs if takes_pairs else None
        own_epsilons = offered or (bounds.high,)
        if laws and pairs is None:
            own_epsilons = tuple(mallows_epsilon(each, longest) for each in own_epsilons)
        low, high = own_epsilons[0], own_epsilons[-1]
        mechanism = RankingMechanism.RANDOM_PAIRS
        if pairs is None:
            own = privacy.mechanism or RankingChoice.MALLOWS
            mechanism = RankingMechanism(RankingChoice.MALLOWS if own.of_whole else own)
        whole = high if pairs is not None else WHOLE_RANKING[mechanism](high, longest)
        return cls(
            low=low,
            high=high,
            max_length=longest,
            max_rankings=most,
            mechanism=mechanism,
            already_private=privacy.already_private,
            unnamed=not config.rankings.names_people,
            whole_ranking=whole,
            person=most * whole,
            pairs=pairs,
            chosen=chosen,
            levels=RankingLevels(
                levels=offered, epsilons=own_epsilons, pairs=() if pairs is None else laws
            )
            if offered
            else None,
        )

    def epsilons(self, source: EpsilonSource) -> EpsilonSource:
        """Return the source of rankings' epsilons, for the mechanism that was chosen."""
        if self.levels is not None:
            levels, drawn_before = self.levels.levels, self.already_private
            return replace(source, levels=levels, drawn_before=drawn_before)
        return EpsilonSource(low=self.low, high=self.high, value=self.high)


def _choice(law: RandomPairs, longest: int, *, by_pairs: bool) -> tuple[bool, str]:
    """Whether `mechanism: auto` takes random pairs, and why."""
    if law.hide is Hide.ITEMS:
        return True, "only random-pairs hides which items were ranked"
    found = predicted(law, longest, by_pairs=by_pairs)
    taken, other = RankingMechanism.RANDOM_PAIRS, RankingMechanism.MALLOWS
    if not found.takes_pairs:
        taken, other = other, taken
    what = "orders of neighbours" if by_pairs else "scores"
    return found.takes_pairs, (
        f"where a whole ranking of {longest} items loses {number(law.epsilon)}, {other} would need"
        f" about {number(float(f'{found.fewer_people:.2g}'))} times as many rankings as {taken} for"
        f" {what} as sure"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntheticMechanism:
    """Mechanism that privatises rankings before they are counted.

    Attributes:
        guarantee: the guarantee that is promised.
        law: probabilities of the mechanism; the workers draw by it, or refuse.
        contests: whether only the rankings of one contest count.
        ties_refused: rankings with ties are left out.
        spend: cost that the ledger is charged.
        tie_rule: `RankingsConfig.tie_rule`; empty also of versions that did not state it.
        features: public ones of people, by which counts are kept apart; None: there are none.
    """

    guarantee: RankingGuarantee
    law: LocalLaw
    contests: bool
    ties_refused: bool
    spend: Spend
    tie_rule: str = ""
    features: PersonFeatures | None = None


def ranking_record(
    mechanism: SyntheticMechanism, parameters: dict[str, Parameter]
) -> PrivacyRecord:
    """The record of a release of private rankings.

    Args:
        mechanism: the mechanism that privatised the rankings.
        parameters: public parameters of the estimate.
    """
    guarantee = mechanism.guarantee
    mallows_used = guarantee.mechanism is RankingMechanism.MALLOWS
    facts: dict[str, Parameter] = {
        "epsilon_of_a_ranking": _interval(guarantee),
        "epsilon_of_a_whole_ranking_at_most": guarantee.whole_ranking,
        "longest_ranking": guarantee.max_length,
    }
    if guarantee.pairs is not None:
        del facts["epsilon_of_a_whole_ranking_at_most"]  # `epsilon` is already that of a ranking
        facts["pairs_answered"] = guarantee.pairs.pairs
        facts["hidden"] = HIDDEN[guarantee.pairs.hide]
    if mechanism.features is not None:
        facts["features_of_people"] = ", ".join(mechanism.features.names)
    if guarantee.levels is not None:
        facts["levels_of_epsilon"] = ", ".join(map(number, guarantee.levels.levels))
    if guarantee.chosen:
        facts["mechanism_chosen"] = guarantee.chosen
    if mechanism.tie_rule:
        facts["items_at_one_rank"] = mechanism.tie_rule
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
    if guarantee.pairs is not None:
        yield from _sentences_of_pairs(guarantee, guarantee.pairs)
    else:
        yield from _sentences_of_synthetic(guarantee)
    if guarantee.levels is not None:
        yield LEVELS[guarantee.already_private]
    if guarantee.chosen:
        yield f"This mechanism was chosen from public numbers: {guarantee.chosen}."
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


def _sentences_of_pairs(guarantee: RankingGuarantee, law: RandomPairs) -> Iterator[str]:
    d, items, low, high = law.pairs, law.hide is Hide.ITEMS, guarantee.low, guarantee.high
    laws = (law,) if guarantee.levels is None else guarantee.levels.pairs
    several = len({each.pairs for each in laws})
    pairs = "one pair" if d == 1 else f"{d} pairs"
    pairs = f"at most {pairs}" if several > 1 else pairs
    charged = "it" if low == high else "the larger one"
    whose = "items of the catalogue" if items else "its items"
    if guarantee.already_private:
        yield (
            f"Each ranking was answered for where it was given, with private answers to {pairs} of"
            f" {whose}; true rankings were never collected."
        )
    else:
        yield (
            f"Each ranking was replaced by private answers to {pairs} of {whose}, before anything"
            " was counted."
        )
    other = (
        "ranked any other items, in any order,"
        if items
        else "put the same items in any other order"
    )
    yield (
        f"If somebody had {other}, nothing here would become more than"
        f" {odds_factor(law.epsilon)} times as likely (e^epsilon): the loss of a whole ranking"
        f" {_is(guarantee)}. The budget is charged with {charged}."
    )
    yield REACH
    yield _draw_of_pairs(law, differ=several > 1)


def _draw_of_pairs(law: RandomPairs, *, differ: bool) -> str:
    """Sentence on how pairs were drawn and answered; `differ`: levels have their own numbers."""
    d = law.pairs
    drawn = "pair was" if d == 1 else f"{d} pairs were"
    share = "epsilon" if d == 1 else f"epsilon / {d}"
    if differ:
        drawn, share = "pairs were", "epsilon divided by the number of them"
    if law.hide is Hide.ITEMS:
        return (
            f"The {drawn} drawn by secret bits from the whole catalogue, whatever was ranked;"
            " each answer (above, below, or not both ranked) became each of the two others with"
            f" probability 1 / (e^x + 2), x = {share}. All results are computed from such answers"
            " alone."
        )
    return (
        f"The {drawn} drawn by secret bits among those of the ranked items, without"
        " looking at their order; each answer was flipped with probability 1 / (e^x + 1), x ="
        f" {share}. All results are computed from such answers alone."
    )


def _sentences_of_synthetic(guarantee: RankingGuarantee) -> Iterator[str]:
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
    law = guarantee.pairs
    if law is not None and law.hide is Hide.ITEMS:
        yield (
            f"That a ranking was given at all{contests}, and whether it held more than"
            f" {guarantee.max_length} items: longer ones were left out."
        )
    elif law is not None:
        yield (
            f"Which items a person ranked, and how many{contests}, and that a ranking was given at"
            " all: each answer shows two of the items, and only their order is hidden."
        )
    else:
        yield (
            f"Which items a person ranked, and how many{contests}, at which epsilon, and that a"
            " ranking was given at all: only the order of the ranked items is hidden."
        )
    if mechanism.ties_refused:
        yield "Whether somebody put two items at the same rank: such rankings were left out."
    if guarantee.levels is not None:
        yield CHOICE_SHOWS
    if mechanism.features is not None:
        yield FEATURES_SHOW.format(", ".join(mechanism.features.names))
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
