"""Method `spectral-rr`: difficulties from test answers that are randomised before they are counted.

The baseline of Nguyen and Zhang. As in `local_answers.local_responses`, what the reduction leaves
is private already and waits in the confidential area until the ledger has recorded the release.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Literal, Self

import numpy as np

from hushrank.estimation.responses.measurements import (
    RandomizedMeasurements,
    merge_measurements,
    no_measurements,
    randomize_answers,
    randomized_measurements,
)
from hushrank.estimation.responses.spectral_estimate import SpectralEstimate, estimate_randomized
from hushrank.flows.config.method import (
    MethodFacts,
    Problems,
    Sections,
    SpectralConfig,
    SpectralEstimator,
)
from hushrank.flows.config.privacy import Budget
from hushrank.flows.config.responses import ResponsesConfig
from hushrank.flows.config.rules import ONE_EPSILON
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import ConfigError
from hushrank.flows.methods.base import Arrays, Conclusion, PlannedMethod, Terms
from hushrank.flows.methods.draws import MOST_LISTED, FlippedAnswers, Threshold, cost_of, exact
from hushrank.flows.methods.reductions import reduce_test
from hushrank.flows.methods.responses.spectral import GraphChoice, graph_choice
from hushrank.flows.release.released import Figure, ReleasedRecord
from hushrank.flows.release.scale import Scale
from hushrank.flows.statement.local import SHUFFLE_DELTA, WARNER
from hushrank.flows.statement.record import Parameter, PrivacyRecord, Record
from hushrank.flows.statement.responses import NZ
from hushrank.flows.statement.sentences import (
    REACH,
    large_loss,
    never_protected,
    number,
    odds_factor,
)
from hushrank.pipelines.reduce.responses_job import ReduceResponses
from hushrank.pipelines.simulate.planned_survey import PlannedSurvey
from hushrank.privacy.accounting import Spend
from hushrank.privacy.keyed_hash import SecretKey
from hushrank.privacy.randomized_response import (
    PersonalResponse,
    SplitResponse,
    attenuation,
    epsilon_of_answer,
    flip_thresholds,
    split_response,
)
from hushrank.privacy.randomness import RandomBits, seeded_bits
from hushrank.privacy.units import Adjacency, Unit
from hushrank.transforms.common.randomisation import LocalAnswers
from hushrank.transforms.responses.answer_sheets import Missing
from hushrank.transforms.storage.files import InputFile

OWN_EPSILON = {
    False: (
        "The epsilon of each person came with their answers, and was rounded down to one of the"
        " public levels before anything was drawn; it is the largest that is stated, or less."
    ),
    True: (
        "The epsilon of each person came with their answers, and is one of the public levels;"
        " answers with another one do not count. It is the largest that is stated, or less."
    ),
}
CHOICE_SHOWS = "Which epsilon a person chose: how many chose each is published."
PARTS = 16  # of the people of a simulated test
MOST_ITEMS = 500  # a matrix for each part of the people is kept
NOT_INFORMATIVE = (
    "Nothing useful can be learned from this release: randomised answers say less than chance about"
    " every item. More people, fewer answers each or a larger epsilon would help."
)
PLAIN = (
    "debiased: false is the paper's baseline: it takes randomised answers for true ones, so"
    " difficulties are drawn towards 0 and intervals do not hold the true ones."
)


def _problems_of_sections(config: Sections) -> Problems:
    privacy, rows = config.privacy, config.input
    if isinstance(rows, ResponsesConfig):
        for name, rule in rows.problems_of_key(config.items.catalogue):
            yield f"input.{name}", rule
        for key in ("missing", "booklets", "points"):
            if getattr(rows, key) not in (None, Missing.UNSEEN):
                other = "totals" if key == "points" else "spectral"
                yield (
                    f"input.{key}",
                    f"is for method: {other}: under unit: local which items a person answered is"
                    " not hidden, and each answer counts by itself; remove it",
                )
    if config.spectral is not None and config.spectral.estimator is SpectralEstimator.CHAIN:
        yield "spectral.estimator", "chain is for method: spectral; remove it"
    if privacy.unit is not Unit.LOCAL:
        return
    if privacy.budget is not Budget.PER_USER and not privacy.already_private:
        yield "privacy.budget", "must be per_user with method: spectral-rr, which splits epsilon"
    column = rows.columns.epsilon if isinstance(rows, ResponsesConfig) else None
    if sum(each is not None for each in (privacy.epsilon, privacy.epsilon_table, column)) != 1:
        yield "privacy", ONE_EPSILON.format("answers")
    if privacy.epsilon is None and config.spectral is not None and not config.spectral.debiased:
        yield (
            "spectral.debiased",
            "false is the paper's baseline, with one epsilon for all; write true, or give"
            " privacy.epsilon",
        )


class PeopleOfLevel(Record):
    """How many people have one level of epsilon.

    Attributes:
        epsilon: the level, of a person; split over their answers.
        people: entry k counts the people with k answers.
    """

    epsilon: float
    people: tuple[int, ...]


class ReleasedRandomized(ReleasedRecord):
    """Sums of randomised test answers.

    Attributes:
        items: in catalogue order; rows and columns are in this order.
        epsilon: of a person, split over their answers; where people have their own, the largest.
        people: entry k counts the people with k answers, which randomised response does not hide.
        sums: entry j of row i estimates who was right on i and wrong on j, in units of 2^-30.
        by_epsilon: people of each level of epsilon that somebody chose; null: all have one. In the
            sums people then have the weight 0.2 / (v^2 + v + 0.2), v the variance of an answer.
    """

    shows = (Figure.ITEM_MAP,)
    kind: Literal["randomised-answers"] = "randomised-answers"
    items: tuple[str, ...]
    epsilon: float
    people: tuple[int, ...]
    sums: tuple[tuple[int, ...], ...]
    by_epsilon: tuple[PeopleOfLevel, ...] | None = None

    @classmethod
    def of(cls, measurements: RandomizedMeasurements, items: Sequence[str]) -> Self:
        """The record of `measurements`, which are private from the start.

        Raises:
            ValueError: they are of another number of items.
        """
        if len(items) != measurements.n_items:
            raise ValueError(f"got {len(items)} items, but sums of {measurements.n_items}")
        response, levels = measurements.response, None
        people = np.atleast_2d(measurements.people)
        if isinstance(response, PersonalResponse):
            levels = tuple(
                PeopleOfLevel(epsilon=level.epsilon, people=tuple(own.tolist()))
                for level, own in zip(response.levels, people, strict=True)
                if own.any()
            )
        return cls(
            items=tuple(items),
            epsilon=response.epsilon,
            people=tuple(people.sum(axis=0).tolist()),
            sums=tuple(map(tuple, measurements.sums.tolist())),
            by_epsilon=levels,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseMechanism:
    """Randomised response on all answers of a person together.

    Attributes:
        response: the probabilities of a flip, which the workers draw by; where people have their
            own epsilon, those of the largest.
        debiased: whether the sums undo the flips.
        already_private: whether answers were flipped at the source.
        personal: the probabilities of each level of epsilon; None: all people have one.
        graph: the public graph on which the difficulties are estimated.
        spend: what drawing by it costs.
    """

    response: SplitResponse
    debiased: bool
    graph: GraphChoice
    spend: Spend
    already_private: bool = False
    personal: PersonalResponse | None = None

    @property
    def drawn_by(self) -> SplitResponse | PersonalResponse:
        """The probabilities of all people."""
        return self.response if self.personal is None else self.personal


class SpectralRandomized(PlannedMethod[ResponseMechanism]):
    """Section 5 of Nguyen and Zhang: see `estimation.responses.measurements`."""

    facts = MethodFacts(
        name="spectral-rr",
        summary="flip each test answer at random; difficulties undo the flips",
        kind="responses",
        units=(Unit.LOCAL,),
        reads=("spectral",),
        baseline=True,
        rules=_problems_of_sections,
    )
    mechanism = ResponseMechanism
    plan_order = 0

    def suits(self, config: SurveyConfig) -> bool:
        """As for every method; items that give points are for `totals`."""
        return config.responses.points is None and super().suits(config)

    def calibrate(self, config: SurveyConfig) -> ResponseMechanism:
        """The chance of a flip for everybody's number of answers."""
        problems = list(_problems(config))
        if problems:
            raise ConfigError("\n".join(problems))
        levels = tuple(split_response(each, _answers(config)) for each in config.privacy.levels())
        return ResponseMechanism(
            response=levels[-1],
            debiased=_settings(config).debiased,
            graph=graph_choice(config),  # refuses a graph that does not connect all items
            spend=Spend(epsilon=levels[-1].epsilon),
            already_private=config.privacy.already_private,
            personal=PersonalResponse(levels) if config.privacy.epsilon is None else None,
        )

    def terms(self, mechanism: ResponseMechanism) -> Terms:
        """Cost and noise."""
        pairs = f"{mechanism.graph.n_edges:,} pairs of items are counted"
        noise = f"each answer flipped at random, before {pairs}"
        if mechanism.already_private:
            noise = f"none is added: answers were privatised where they were given; {pairs}"
        at_most = "" if mechanism.personal is None else ", or less"
        epsilon = f"{mechanism.response.epsilon:g}{at_most}"
        noise += f" (protects all answers of one person at epsilon {epsilon})"
        return Terms(spend=mechanism.spend, noise=noise)

    def reduction(
        self,
        config: SurveyConfig,
        mechanism: ResponseMechanism,
        files: tuple[InputFile, ...],
        key: SecretKey,
        folder: str,
    ) -> ReduceResponses:
        """Randomise answers and sum what they say of each pair."""
        already = mechanism.already_private
        local = LocalAnswers(mechanism.drawn_by, mechanism.debiased, already_private=already)
        most, epsilons = mechanism.response.max_answers, None
        if mechanism.personal is not None:
            levels = tuple(each.epsilon for each in mechanism.personal.levels)
            source = config.privacy.local_epsilons()
            epsilons = replace(source, levels=levels, drawn_before=already)
        return reduce_test(
            config, files, key, folder, max_answers=most, local=local, epsilons=epsilons
        )

    def draw(self, exact: Arrays, mechanism: ResponseMechanism, bits: RandomBits) -> Arrays:
        """Let out what is private already: see the module's text."""
        return {**exact, **mechanism.graph.arrays()}

    def conclude(
        self, drawn: Arrays, mechanism: ResponseMechanism, config: SurveyConfig
    ) -> Conclusion:
        """Difficulties from the sums."""
        debiased = mechanism.debiased
        parts = [
            RandomizedMeasurements(sums, people, mechanism.drawn_by, debiased)
            for sums, people in zip(drawn["sums"], drawn["people"], strict=True)
        ]
        merged = merge_measurements(parts)
        found = estimate_randomized(parts, mechanism.graph.stored(drawn))
        shuffled = {}
        if mechanism.personal is None:
            shuffled = _after_shuffling(mechanism, merged, config.ledger.delta)
        return Conclusion(
            estimate=found.estimate,
            privacy=_record(mechanism, shuffled),
            released=ReleasedRandomized.of(merged, config.items.catalogue.names),
            scale=Scale.DIFFICULTY,
            warnings=tuple(_warnings(found, debiased=debiased)),
        )

    def simulated(self, config: SurveyConfig, survey: PlannedSurvey, replicate: int) -> Arrays:
        """Sums of randomised answers of a simulated test, apart for `PARTS` sets of people."""
        response = split_response(_epsilon(config), _answers(config))
        bits = seeded_bits(survey.seed * 1_000_033 + replicate)  # a simulated survey: no release
        parts = [
            no_measurements(survey.n_items, response, debiased=_settings(config).debiased)
        ] * PARTS
        for answered, right in survey.sheets(replicate):
            person, item = np.nonzero(answered)
            noisy = randomize_answers(person, right[answered].astype(np.uint8), response, bits)
            for part, sums in enumerate(parts):
                rows = person % PARTS == part
                own = randomized_measurements(
                    person[rows],
                    item[rows],
                    noisy[rows],
                    survey.n_items,
                    response,
                    debiased=sums.debiased,
                )
                parts[part] = merge_measurements([sums, own])
        return {
            "sums": np.stack([part.sums for part in parts]),
            "people": np.stack([part.people for part in parts]),
        }

    def certified(self, mechanism: ResponseMechanism, drawn: Arrays) -> tuple[FlippedAnswers]:
        """Each answer of a person, before it is counted."""
        response = mechanism.response
        low = response if mechanism.personal is None else mechanism.personal.levels[0]
        both = (low,) if low.epsilon == response.epsilon else (low, response)
        return (
            FlippedAnswers(
                mechanism="randomised-response",
                what="each answer, before it is counted",
                derivation="hushrank.privacy.randomized_response.split_response",
                budget="per_user",
                at_source=mechanism.already_private,
                thresholds=tuple(chain.from_iterable(map(_thresholds, both))),
                most_answers=response.max_answers,
                cost=cost_of(mechanism.spend),
            ),
        )


def _thresholds(response: SplitResponse) -> Iterator[Threshold]:
    """Thresholds of somebody with 1, 2, ... answers, among which their epsilon is split."""
    most = min(response.max_answers, MOST_LISTED)
    answers = np.arange(1, most + 1)
    shares = epsilon_of_answer(np.full(most, response.epsilon), answers).tolist()
    for share, k, threshold in zip(shares, answers, response.thresholds[1:], strict=False):
        yield Threshold(epsilon=exact(share), answers=int(k), threshold=threshold)


def _problems(config: SurveyConfig) -> Iterator[str]:
    privacy, n_items = config.privacy, len(config.items.catalogue.names)
    if (privacy.max_contributions or 0) < 2:
        yield "privacy.max_contributions: must be at least 2 with method: spectral-rr"
        return
    if n_items > MOST_ITEMS:
        yield f"items: must be at most {MOST_ITEMS} for method: spectral-rr, got {n_items}"
    share = np.array([privacy.levels()[0] / _answers(config)])
    if attenuation(flip_thresholds(share))[0] == 0:
        keys = ("epsilon", "epsilon_levels", "epsilon_range")
        key = next(each for each in keys if getattr(privacy, each) is not None)
        yield f"privacy.{key}: too small: split over a person's answers it says nothing; raise it"


def _settings(config: SurveyConfig) -> SpectralConfig:
    return config.spectral or SpectralConfig()


def _epsilon(config: SurveyConfig) -> float:
    return config.privacy.epsilon or 0.0


def _answers(config: SurveyConfig) -> int:
    return min(config.privacy.max_contributions or 0, len(config.items.catalogue.names))


def _warnings(found: SpectralEstimate, *, debiased: bool) -> Iterator[str]:
    if not debiased:
        yield PLAIN
    if not found.estimate.informative:
        yield NOT_INFORMATIVE


def _record(mechanism: ResponseMechanism, shuffled: dict[str, Parameter]) -> PrivacyRecord:
    epsilon, answers = mechanism.response.epsilon, mechanism.response.max_answers
    facts: dict[str, Parameter] = {
        "epsilon_of_a_person": epsilon,
        "epsilon_of_an_answer": f"{number(epsilon)}, divided by the person's answers",
        "debiased": mechanism.debiased,
        "pairs": mechanism.graph.n_edges,
    }
    facts |= shuffled
    personal = mechanism.personal
    facts |= {} if personal is None else _facts_of_levels(personal)
    return PrivacyRecord(
        unit=Unit.LOCAL,
        adjacency=Adjacency.REPLACE_ONE,
        epsilon=epsilon,
        delta=0.0,
        mechanism="randomised-response",
        max_contributions=answers,
        parameters=facts,
        statement=(
            "All answers of a person together are protected, each"
            f" {'where it was given' if mechanism.already_private else 'before it was counted'}.",
            f"If a person had answered the same items otherwise, nothing here would become more"
            f" than {odds_factor(epsilon)} times as likely (e^epsilon, epsilon ="
            f" {number(epsilon)}).",
            REACH,
            "Each answer was flipped with probability 1 / (e^(epsilon / k) + 1), k the number of"
            " answers of its person, by secret bits; difficulties and intervals are computed from"
            " the sums of flipped answers alone.",
            f"At most {answers} answers of each person count, chosen at random.",
            *((OWN_EPSILON[mechanism.already_private],) if personal is not None else ()),
        ),
        not_protected=(
            "Which items a person answered, and that they took part.",
            *((CHOICE_SHOWS,) if personal is not None else ()),
            *never_protected(),
            *large_loss(epsilon),
        ),
        theorem=f"{WARNER}; {NZ}, Section 5 (its baseline).",
    )


def _facts_of_levels(personal: PersonalResponse) -> dict[str, Parameter]:
    low, high = personal.levels[0].epsilon, personal.epsilon
    interval = number(low) if low == high else f"{number(low)} to {number(high)}"
    return {
        "epsilon_of_an_answer": f"{interval}, divided by the person's answers",
        "levels_of_epsilon": ", ".join(number(each.epsilon) for each in personal.levels),
    }


def _after_shuffling(
    mechanism: ResponseMechanism, merged: RandomizedMeasurements, delta: float
) -> dict[str, Parameter]:
    """The central guarantee, where all people answered all items: others then give no cover."""
    response, n_people = mechanism.response, int(merged.people[1:].sum())
    everything = response.max_answers == merged.n_items
    if n_people == 0 or merged.people[-1] != n_people or not everything:
        return {}
    # It loads `scipy.stats`, which takes a while, and few need it.
    from hushrank.privacy.amplification import shuffled_epsilon

    delta = delta or SHUFFLE_DELTA
    epsilon = shuffled_epsilon(response.epsilon, n_people, delta)
    if epsilon >= response.epsilon:
        return {"after_shuffling": "nothing better than epsilon can be proven"}
    return {
        "epsilon_of_a_person_after_shuffling": epsilon,
        "delta_after_shuffling": delta,
        "people": n_people,
    }


METHODS = (SpectralRandomized(),)
