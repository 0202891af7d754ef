"""What a certificate says of answers and rankings that were privatised one by one.

Of the law that drew, the numbers at both ends of the range of epsilons are stored. Longer tables
are computed here, and left out where this code comes to other ends: then another version has drawn.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np

from hushrank.flows.certificate.counts import cost_of
from hushrank.flows.config.privacy import Budget
from hushrank.flows.methods.draws import (
    Draw,
    FlippedAnswers,
    Insertions,
    IntegerSensitivity,
    Law,
    NoisyAnswers,
    NoisyRanks,
    RandomPairAnswers,
    SyntheticRankings,
    Threshold,
    at_most,
    exact,
)
from hushrank.flows.methods.responses.spectral_rr import ResponseMechanism
from hushrank.flows.statement.local import AnswerMechanism, LocalGuarantee
from hushrank.flows.statement.rankings import RankingGuarantee, SyntheticMechanism
from hushrank.privacy import laplace_ranks
from hushrank.privacy.laplace_response import GRID
from hushrank.privacy.mallows import MOST_ITEMS, insertion_weights
from hushrank.privacy.randomized_response import epsilon_of_answer, flip_thresholds
from hushrank.transforms.common.randomisation import (
    LocalLaw,
    Randomisation,
    RankingMechanism,
    law_of_answers,
)

MOST_LISTED = 1_000  # numbers of answers of a person whose thresholds are listed
ANSWERS = "each answer, before it is counted"
RANKINGS = "each ranking, before it is counted"
_HOME = "hushrank.privacy"


def draw_of_answers(mechanism: AnswerMechanism) -> Draw:
    """Of single answers to comparisons."""
    guarantee = mechanism.guarantee
    epsilons = _ends(guarantee)
    split = guarantee.budget is Budget.PER_USER
    budget: Literal["per_answer", "per_user"] = "per_user" if split else "per_answer"
    if mechanism.randomisation is Randomisation.LAPLACE:
        return NoisyAnswers(
            mechanism="laplace-response",
            what=ANSWERS,
            derivation=f"{_HOME}.laplace_response.response_law",
            budget=budget,
            at_source=guarantee.already_private,
            grid=GRID,
            epsilons=tuple(at_most(each) for each in epsilons),
            laws=_noise(mechanism.law),
            most_answers=guarantee.max_contributions,
            cost=cost_of(mechanism.spend),
        )
    return FlippedAnswers(
        mechanism="randomised-response",
        what=ANSWERS,
        derivation=f"{_HOME}.randomized_response.flip_thresholds",
        budget=budget,
        at_source=guarantee.already_private,
        thresholds=tuple(_split(mechanism) if split else _whole(mechanism.law)),
        most_answers=guarantee.max_contributions,
        cost=cost_of(mechanism.spend),
    )


def draw_of_responses(mechanism: ResponseMechanism) -> FlippedAnswers:
    """Of all test answers of a person."""
    response = mechanism.response
    most = min(response.max_answers, MOST_LISTED)
    shares = _shares(response.epsilon, most)
    listed = zip(shares, range(1, most + 1), response.thresholds[1:], strict=False)
    return FlippedAnswers(
        mechanism="randomised-response",
        what=ANSWERS,
        derivation=f"{_HOME}.randomized_response.split_response",
        budget="per_user",
        at_source=mechanism.already_private,
        thresholds=tuple(
            Threshold(epsilon=share, answers=answers, threshold=threshold)
            for share, answers, threshold in listed
        ),
        most_answers=response.max_answers,
        cost=cost_of(mechanism.spend),
    )


def draw_of_rankings(mechanism: SyntheticMechanism) -> Draw:
    """Of whole rankings."""
    law = mechanism.guarantee.pairs
    if law is not None:
        return RandomPairAnswers(
            mechanism="random-pairs",
            what=RANKINGS,
            derivation=f"{_HOME}.random_pairs.law_of_epsilon",
            at_source=mechanism.guarantee.already_private,
            hide=law.hide.value,
            pairs=law.pairs,
            epsilon=at_most(law.epsilon),
            threshold=law.threshold,
            most_rankings=mechanism.guarantee.max_rankings,
            cost=cost_of(mechanism.spend),
        )
    if mechanism.guarantee.mechanism is RankingMechanism.LAPLACE_RANKS:
        return _noisy_ranks(mechanism)
    return _synthetic(mechanism)


def _noisy_ranks(mechanism: SyntheticMechanism) -> NoisyRanks:
    guarantee = mechanism.guarantee
    moved = laplace_ranks.rank_sensitivity(guarantee.max_length)
    return NoisyRanks(
        mechanism="laplace-ranks",
        what=RANKINGS,
        derivation=f"{_HOME}.laplace_ranks.rank_sensitivity",
        at_source=guarantee.already_private,
        longest=guarantee.max_length,
        grid=laplace_ranks.GRID,
        sensitivity=IntegerSensitivity(l1=moved.l1, l2_squared=moved.l2_squared),
        epsilons=tuple(at_most(each) for each in _ends(guarantee)),
        laws=_noise(mechanism.law),
        whole_ranking=exact(guarantee.whole_ranking),
        most_rankings=guarantee.max_rankings,
        cost=cost_of(mechanism.spend),
    )


def _synthetic(mechanism: SyntheticMechanism) -> SyntheticRankings:
    guarantee = mechanism.guarantee
    longest = min(guarantee.max_length, MOST_ITEMS)
    return SyntheticRankings(
        mechanism="mallows",
        what=RANKINGS,
        derivation=f"{_HOME}.mallows.insertion_weights",
        at_source=guarantee.already_private,
        longest=longest,
        tables=tuple(_tables(mechanism.law, longest)),
        whole_ranking=exact(guarantee.whole_ranking),
        most_rankings=guarantee.max_rankings,
        cost=cost_of(mechanism.spend),
    )


def _ends(guarantee: LocalGuarantee | RankingGuarantee) -> tuple[float, ...]:
    """The smallest and the largest epsilon; once where they are equal."""
    low, high = guarantee.low, guarantee.high
    return (low,) if low == high else (low, high)


def _ends_of(law: LocalLaw) -> list[tuple[float, int | float]]:
    """Each epsilon with its number; once where both are equal."""
    return list(dict(zip(law.epsilons, law.numbers, strict=True)).items())


def _noise(law: LocalLaw) -> tuple[Law, ...]:
    """Of a law whose numbers are scales."""
    return tuple(Law(kind="laplace", scale=exact(scale)) for _, scale in _ends_of(law))


def _whole(law: LocalLaw) -> Iterator[Threshold]:
    """Of answers that each have an epsilon of their own."""
    for epsilon, threshold in _ends_of(law):
        yield Threshold(epsilon=at_most(epsilon), answers=1, threshold=int(threshold))


def _split(mechanism: AnswerMechanism) -> Iterator[Threshold]:
    """Of somebody with 1, 2, ... answers, among which their epsilon is split."""
    guarantee = mechanism.guarantee
    if law_of_answers(mechanism.randomisation, guarantee.low, guarantee.high) != mechanism.law:
        return
    most = min(guarantee.max_contributions or 1, MOST_LISTED)
    answers = np.arange(1, most + 1)
    for epsilon in _ends(guarantee):
        shares = epsilon_of_answer(np.full(most, epsilon), answers)
        thresholds = flip_thresholds(shares).tolist()
        for share, number, threshold in zip(shares, answers, thresholds, strict=True):
            yield Threshold(epsilon=exact(float(share)), answers=int(number), threshold=threshold)


def _tables(law: LocalLaw, longest: int) -> Iterator[Insertions]:
    """Weights of rankings of `longest` items."""
    for epsilon, least in _ends_of(law):
        weights = insertion_weights(np.array([epsilon]), longest)[:, 0].tolist()
        if weights[-1] != least:
            return
        yield Insertions(epsilon=at_most(epsilon), weights=tuple(weights))


def _shares(epsilon: float, most: int) -> list[str]:
    answers = np.arange(1, most + 1)
    return [exact(each) for each in epsilon_of_answer(np.full(most, epsilon), answers).tolist()]
