"""The privacy statement and record of answers that were privatised one by one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from hushrank.flows.config.privacy import Budget
from hushrank.flows.config.rankings import RankingsConfig
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.statement.record import Parameter, PrivacyRecord
from hushrank.flows.statement.sentences import (
    REACH,
    large_loss,
    never_protected,
    number,
    odds_factor,
)
from hushrank.privacy.accounting import Spend
from hushrank.privacy.laplace_baselines import GRID
from hushrank.privacy.randomized_response import attenuation
from hushrank.privacy.units import Adjacency, Unit
from hushrank.transforms.common.randomisation import LocalLaw, Randomisation
from hushrank.transforms.common.schema import Ties

XSC = "Xu, Sun and Cheng, Rate-optimal rank aggregation with private pairwise rankings"
WARNER = "Warner, Randomized response (1965)"
_RESPONSE = f"{WARNER}; {XSC}, section 3.1 (each answer) and S.2 (all answers of a person)"
THEOREM = {
    Randomisation.WEIGHTED: _RESPONSE,
    Randomisation.COUNTED: _RESPONSE,
    Randomisation.LAPLACE: (
        "Dwork, McSherry, Nissim and Smith, Calibrating noise to sensitivity in private data"
        f" analysis (2006), on each answer; {XSC}, Scenario V"
    ),
}
WORTH_SAYING = 0.99  # part of an answer's epsilon, above which nothing is said to be gained
SHUFFLE_DELTA = 1e-6  # delta of the guarantee after shuffling, if the ledger has none


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalGuarantee:
    """Guarantee that is promised before anything is read.

    Attributes:
        low, high: bounds of the epsilons that the job accepts.
        budget: whether such an epsilon is of one answer or of all answers of a person.
        max_contributions: L; None: no bound.
        already_private: the answers were privatised at the source.
        person: most that all answers of one person lose together; None where nothing bounds it.
    """

    low: float
    high: float
    budget: Budget
    max_contributions: int | None
    already_private: bool
    person: float | None

    @classmethod
    def of(cls, config: SurveyConfig) -> LocalGuarantee:
        """The guarantee of a job under `unit: local`."""
        privacy, epsilons = config.privacy, config.privacy.local_epsilons()
        most = privacy.max_contributions
        if isinstance(config.input, RankingsConfig):
            most = (most or 1) if config.input.names_people else None
        person = None if most is None else most * epsilons.high
        return cls(
            low=epsilons.low,
            high=epsilons.high,
            budget=privacy.budget,
            max_contributions=most,
            already_private=privacy.already_private,
            person=epsilons.high if privacy.budget is Budget.PER_USER else person,
        )

    @property
    def charged(self) -> float:
        """Loss that the ledger counts: a person's where it is bounded, else that of one answer."""
        return self.high if self.person is None else self.person


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerMechanism:
    """Mechanism that randomises single answers before they are counted.

    Attributes:
        guarantee: the guarantee that is promised.
        randomisation: the mechanism.
        law: probabilities of the answers; the workers draw by it, or refuse.
        ties: rule for comparisons without a winner.
        spend: cost that the ledger is charged.
    """

    guarantee: LocalGuarantee
    randomisation: Randomisation
    law: LocalLaw
    ties: Ties
    spend: Spend

    @property
    def least_weight(self) -> float | None:
        """A lower bound on every answer's t^2, exact for one epsilon; None: none is known."""
        if self.guarantee.budget is Budget.PER_USER:
            return None
        threshold = np.array([self.law.numbers[0]], np.uint64)
        return float(attenuation(threshold)[0] ** 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shuffled:
    """Guarantee of the answers against somebody who sees their sums only.

    Attributes:
        epsilon, delta: central guarantee of one answer; epsilon is the local one where the theorem
            gives hardly anything better.
        reports: answers to the pair that has fewest.
        bits: whether each answer is a flipped bit.
    """

    epsilon: float
    delta: float
    reports: int
    bits: bool

    @property
    def theorem(self) -> str:
        """Proof on which the guarantee rests."""
        if self.bits:
            return "Balle, Bell, Gascon and Nissim 2019, the privacy blanket summed exactly"
        return "Feldman, McMillan and Talwar 2021, Theorem III.1"


@lru_cache(maxsize=64)  # simulated surveys of one plan ask for the same one, for 40 ms each time
def shuffled_guarantee(
    epsilon: float, reports: int, delta: float, *, bits: bool = True
) -> Shuffled:
    """The guarantee after shuffling, for answers that all have one epsilon.

    Args:
        epsilon: epsilon of one answer.
        reports: number of answers that hide each other.
        delta: delta of the guarantee; 0: `SHUFFLE_DELTA`.
        bits: whether answers are flipped bits; otherwise they are numbers with Laplace noise.
    """
    # This loads `scipy.stats`, which takes a while, and few need it.
    from hushrank.privacy.amplification import shuffled_bit_epsilon, shuffled_epsilon

    delta = delta or SHUFFLE_DELTA
    amplified = (shuffled_bit_epsilon if bits else shuffled_epsilon)(epsilon, reports, delta)
    gained = amplified < WORTH_SAYING * epsilon
    return Shuffled(
        epsilon=amplified if gained else epsilon, delta=delta, reports=reports, bits=bits
    )


def local_record(
    mechanism: AnswerMechanism,
    parameters: dict[str, Parameter],
    shuffled: Shuffled | None,
    *,
    ordered: bool = False,
) -> PrivacyRecord:
    """The record of a release of privatised answers.

    Args:
        mechanism: the mechanism that privatised the answers.
        parameters: public parameters of the estimate.
        shuffled: guarantee after shuffling; None where answers had different epsilons, there are
            none, or other sums than those of pairs are released too.
        ordered: whether sums of the order of presentation are released too.
    """
    guarantee = mechanism.guarantee
    laplace = mechanism.randomisation is Randomisation.LAPLACE
    facts: dict[str, Parameter] = {"epsilon_of_an_answer": _range(guarantee)}
    facts |= _probabilities(mechanism)
    if guarantee.person is not None:
        facts["epsilon_of_a_person_at_most"] = guarantee.person
    if shuffled is not None and shuffled.epsilon < guarantee.high:
        facts |= {
            "epsilon_of_an_answer_after_shuffling": shuffled.epsilon,
            "delta_after_shuffling": shuffled.delta,
            "fewest_answers_to_a_pair": shuffled.reports,
        }
    return PrivacyRecord(
        unit=Unit.LOCAL,
        adjacency=Adjacency.REPLACE_ONE,
        epsilon=mechanism.spend.epsilon,
        delta=0.0,
        mechanism="laplace-response" if laplace else "randomised-response",
        max_contributions=guarantee.max_contributions,
        ties=mechanism.ties,
        parameters=facts | parameters,
        statement=tuple(_sentences(guarantee, laplace=laplace, shuffled=shuffled)),
        not_protected=tuple(_not_protected(guarantee, ordered=ordered)),
        theorem=f"{THEOREM[mechanism.randomisation]}.",
    )


def _probabilities(mechanism: AnswerMechanism) -> dict[str, Parameter]:
    """The chance of a flip, or the scale of the noise, where all answers have the same."""
    guarantee, (number_of_all, _) = mechanism.guarantee, mechanism.law.numbers
    one_for_all = guarantee.low == guarantee.high and guarantee.budget is not Budget.PER_USER
    if not one_for_all or guarantee.already_private:
        return {}
    if mechanism.randomisation is Randomisation.LAPLACE:
        return {"noise_scale_of_an_answer": number_of_all / GRID}
    return {"flip_probability": number_of_all / 2**64}


def _sentences(
    guarantee: LocalGuarantee, *, laplace: bool, shuffled: Shuffled | None
) -> Iterator[str]:
    high = number(guarantee.high)
    if guarantee.already_private:
        yield "Each answer was privatised where it was given; true answers were never collected."
    else:
        yield "Each answer was privatised by itself before it was counted."
    yield (
        f"If one answer were another, nothing here would become more than"
        f" {odds_factor(guarantee.high)} times as likely (e^epsilon); its epsilon"
        f" {_of_an_answer(guarantee)}."
    )
    yield REACH
    yield _how(laplace=laplace)
    if guarantee.budget is Budget.PER_USER:
        yield (
            "A person's epsilon was divided by the number of their answers, so all of them together"
            f" are protected at the person's epsilon, {high} at most."
        )
    elif guarantee.person is not None:
        yield (
            f"At most {guarantee.max_contributions} answers of each person count, chosen without"
            " looking at what was answered; all of them together are protected at the sum of their"
            f" epsilons, {number(guarantee.person)} at most."
        )
    if shuffled is not None:
        yield _shuffled_sentence(shuffled, guarantee)


def _how(*, laplace: bool) -> str:
    if laplace:
        return (
            "Each answer, 0 or 1, got its own discrete Laplace noise of scale 1 / epsilon; scores"
            " and intervals are computed from the sums of noisy answers alone."
        )
    return (
        "Each answer was flipped with probability 1 / (e^epsilon + 1), by secret bits; scores and"
        " intervals are computed from the sums of flipped answers alone."
    )


def _shuffled_sentence(shuffled: Shuffled, guarantee: LocalGuarantee) -> str:
    if shuffled.epsilon >= guarantee.high:
        return (
            "Being one of many adds nothing that can be proven here: a pair has too few answers for"
            f" the theorem on shuffling ({shuffled.theorem})."
        )
    return (
        "Somebody who sees this release alone, and not the single privatised answers, learns less:"
        f" an answer is then protected at epsilon = {number(shuffled.epsilon)} but for a"
        f" probability of {number(shuffled.delta)} ({shuffled.theorem}, with {shuffled.reports}"
        " answers to the pair that has fewest)."
    )


def _of_an_answer(guarantee: LocalGuarantee) -> str:
    if guarantee.budget is Budget.PER_USER:
        return f"is the person's, {_interval(guarantee)}, divided by the number of their answers"
    if guarantee.low == guarantee.high:
        return f"is {number(guarantee.high)}"
    return f"lies between {number(guarantee.low)} and {number(guarantee.high)}"


def _range(guarantee: LocalGuarantee) -> str:
    if guarantee.budget is Budget.PER_USER:
        return f"{_interval(guarantee)}, divided by the person's answers"
    return _interval(guarantee)


def _interval(guarantee: LocalGuarantee) -> str:
    low, high = number(guarantee.low), number(guarantee.high)
    return low if low == high else f"{low} to {high}"


def _not_protected(guarantee: LocalGuarantee, *, ordered: bool) -> Iterator[str]:
    yield (
        "Which pairs were compared, how often and at which epsilon, and that an answer was given at"
        " all: only what was answered is hidden."
    )
    if ordered:
        yield (
            "Which item of each pair was shown first, and how many answers people gave: sums of"
            " both are published as they are, some of them of few people. So a column of who was"
            " shown first must say nothing of the answer."
        )
    if guarantee.person is None:
        yield (
            "A person with many answers: for k answers the loss is the sum of their k epsilons, and"
            " nothing bounds k here."
        )
    yield from never_protected()
    yield from large_loss(guarantee.charged)
