"""The privacy statement and record of answers that were privatised one by one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hushrank.flows.config import SurveyConfig
from hushrank.flows.config_local import Budget
from hushrank.flows.config_rankings import RankingsConfig
from hushrank.flows.privacy_record import Parameter, PrivacyRecord
from hushrank.flows.statement import REACH, large_loss, never_protected, number, odds_factor
from hushrank.privacy.amplification import shuffled_epsilon
from hushrank.privacy.units import Adjacency, Unit
from hushrank.transforms.randomisation import Randomisation

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
SHUFFLE_DELTA = 1e-6  # of the guarantee after shuffling, where the ledger has no delta


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalGuarantee:
    """What is promised before anything is read.

    Attributes:
        low, high: bounds of the epsilons that the job accepts.
        budget: whether such an epsilon is of one answer or of all answers of a person.
        max_contributions: L; None: no bound.
        already_private: the answers were privatised at the source.
    """

    low: float
    high: float
    budget: Budget
    max_contributions: int | None
    already_private: bool

    @classmethod
    def of(cls, config: SurveyConfig) -> LocalGuarantee:
        """The guarantee of a job under `unit: local`."""
        privacy, epsilons = config.privacy, config.privacy.local_epsilons()
        most = privacy.max_contributions
        if isinstance(config.input, RankingsConfig):
            most = (most or 1) if config.input.names_people else None
        return cls(
            low=epsilons.low,
            high=epsilons.high,
            budget=privacy.budget,
            max_contributions=most,
            already_private=privacy.already_private,
        )

    @property
    def person(self) -> float | None:
        """Most that all answers of one person lose together; None where nothing bounds it."""
        if self.budget is Budget.PER_USER:
            return self.high
        return None if self.max_contributions is None else self.max_contributions * self.high

    @property
    def charged(self) -> float:
        """What the ledger counts: a person's loss where it is bounded, else that of one answer."""
        return self.high if self.person is None else self.person


@dataclass(frozen=True, slots=True, kw_only=True)
class Shuffled:
    """What the answers are worth to somebody who sees their sums only.

    Attributes:
        epsilon, delta: central guarantee of one answer; epsilon is the local one where the theorem
            gives nothing better.
        reports: answers to the pair that has fewest.
    """

    epsilon: float
    delta: float
    reports: int


def shuffled_guarantee(epsilon: float, reports: int, delta: float) -> Shuffled:
    """The guarantee after shuffling, for answers that all have one epsilon."""
    delta = delta or SHUFFLE_DELTA
    return Shuffled(epsilon=shuffled_epsilon(epsilon, reports, delta), delta=delta, reports=reports)


def local_record(
    config: SurveyConfig,
    randomisation: Randomisation,
    parameters: dict[str, Parameter],
    shuffled: Shuffled | None,
) -> PrivacyRecord:
    """The record of a release of privatised answers.

    Args:
        config: the job.
        randomisation: how answers were privatised.
        parameters: of the estimate, public.
        shuffled: None where answers had different epsilons, or there are none.
    """
    guarantee = LocalGuarantee.of(config)
    laplace = randomisation is Randomisation.LAPLACE
    facts: dict[str, Parameter] = {"epsilon_of_an_answer": _range(guarantee)}
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
        epsilon=guarantee.charged,
        delta=0.0,
        mechanism="laplace-response" if laplace else "randomised-response",
        max_contributions=guarantee.max_contributions,
        ties=config.comparisons.ties,
        parameters=facts | parameters,
        statement=tuple(_sentences(guarantee, laplace=laplace, shuffled=shuffled)),
        not_protected=tuple(_not_protected(guarantee)),
        theorem=f"{THEOREM[randomisation]}.",
    )


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
            " the theorem on shuffling (Feldman, McMillan and Talwar 2021, Theorem III.1)."
        )
    return (
        "Somebody who sees this release alone, and not the single privatised answers, learns less:"
        f" an answer is then protected at epsilon = {number(shuffled.epsilon)} but for a"
        f" probability of {number(shuffled.delta)} (Feldman, McMillan and Talwar 2021, Theorem"
        f" III.1, with {shuffled.reports} answers to the pair that has fewest)."
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


def _not_protected(guarantee: LocalGuarantee) -> Iterator[str]:
    yield (
        "Which pairs were compared, how often and at which epsilon, and that an answer was given at"
        " all: only what was answered is hidden."
    )
    if guarantee.person is None:
        yield (
            "A person with many answers: for k answers the loss is the sum of their k epsilons, and"
            " nothing bounds k here."
        )
    yield from never_protected()
    yield from large_loss(guarantee.charged)
