"""Method `spectral-rr`: difficulties from test answers that are randomised before they are counted.

The baseline of Nguyen and Zhang. As in `flows.local_responses`, what the reduction leaves is
private already and waits in the confidential area until the ledger has recorded the release.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hushrank.estimation.randomized_measurements import (
    RandomizedMeasurements,
    merge_measurements,
)
from hushrank.estimation.spectral_estimate import SpectralEstimate, estimate_randomized
from hushrank.flows.config import SurveyConfig
from hushrank.flows.config_spectral import SpectralConfig
from hushrank.flows.errors import ConfigError
from hushrank.flows.local_statement import SHUFFLE_DELTA, WARNER
from hushrank.flows.method import Arrays, Conclusion, Terms
from hushrank.flows.privacy_record import Parameter, PrivacyRecord
from hushrank.flows.released import ReleasedRandomized
from hushrank.flows.scale import Scale
from hushrank.flows.spectral import public_graph
from hushrank.flows.spectral_statement import NZ
from hushrank.flows.statement import REACH, large_loss, never_protected, number, odds_factor
from hushrank.flows.survey_reduction import reduce_test
from hushrank.pipelines.responses_job import ReduceResponses
from hushrank.privacy.accounting import Spend
from hushrank.privacy.amplification import shuffled_epsilon
from hushrank.privacy.randomized_response import attenuation, flip_thresholds
from hushrank.privacy.randomness import RandomBits
from hushrank.privacy.units import Adjacency, Unit
from hushrank.transforms.files import InputFile
from hushrank.transforms.local_answers import LocalAnswers

MOST_ITEMS = 500  # a matrix for each part of the people is kept
NOT_INFORMATIVE = (
    "Nothing useful can be learned from this release: randomised answers say less than chance about"
    " every item. More people, fewer answers each or a larger epsilon would help."
)
PLAIN = (
    "debiased: false is the paper's baseline: it takes randomised answers for true ones, so"
    " difficulties are drawn towards 0 and intervals do not hold the true ones."
)


class SpectralRandomized:
    """Section 5 of Nguyen and Zhang: see `estimation.randomized_measurements`."""

    def terms(self, config: SurveyConfig) -> Terms:
        """Cost and noise."""
        problems = list(_problems(config))
        if problems:
            raise ConfigError("\n".join(problems))
        epsilon = _epsilon(config)
        n_pairs = public_graph(config).n_edges  # refuses a graph that does not connect all items
        noise = (
            f"each answer flipped at random, before {n_pairs:,} pairs of items are counted"
            f" (protects all answers of one person at epsilon {epsilon:g})"
        )
        return Terms(spend=Spend(epsilon=epsilon), noise=noise)

    def reduction(
        self, config: SurveyConfig, files: tuple[InputFile, ...], key: bytes, folder: str
    ) -> ReduceResponses:
        """Randomise answers and sum what they say of each pair."""
        local = LocalAnswers(_epsilon(config), _settings(config).debiased)
        most = _answers(config)
        return reduce_test(config, files, key, folder, max_answers=most, local=local)

    def draw(self, exact: Arrays, config: SurveyConfig, bits: RandomBits) -> Arrays:
        """Let out what is private already: see the module's text."""
        return exact

    def conclude(self, drawn: Arrays, config: SurveyConfig) -> Conclusion:
        """Difficulties from the sums."""
        epsilon, debiased = _epsilon(config), _settings(config).debiased
        parts = [
            RandomizedMeasurements(sums, people, epsilon, debiased)
            for sums, people in zip(drawn["sums"], drawn["people"], strict=True)
        ]
        merged = merge_measurements(parts)
        found = estimate_randomized(parts, public_graph(config))
        return Conclusion(
            estimate=found.estimate,
            privacy=_record(config, merged),
            released=ReleasedRandomized.of(merged, config.items.catalogue().names),
            scale=Scale.DIFFICULTY,
            warnings=tuple(_warnings(found, debiased=debiased)),
        )


def _problems(config: SurveyConfig) -> Iterator[str]:
    privacy, n_items = config.privacy, len(config.items.catalogue())
    if privacy.epsilon is None:
        yield "privacy.epsilon: missing; method: spectral-rr needs one number for all"
        return
    if (privacy.max_contributions or 0) < 2:
        yield "privacy.max_contributions: must be at least 2 with method: spectral-rr"
        return
    if n_items > MOST_ITEMS:
        yield f"items: must be at most {MOST_ITEMS} for method: spectral-rr, got {n_items}"
    share = np.array([privacy.epsilon / _answers(config)])
    if attenuation(flip_thresholds(share))[0] == 0:
        yield "privacy.epsilon: too small: split over a person's answers it says nothing; raise it"


def _settings(config: SurveyConfig) -> SpectralConfig:
    return config.spectral or SpectralConfig()


def _epsilon(config: SurveyConfig) -> float:
    return config.privacy.epsilon or 0.0


def _answers(config: SurveyConfig) -> int:
    return min(config.privacy.max_contributions or 0, len(config.items.catalogue()))


def _warnings(found: SpectralEstimate, *, debiased: bool) -> Iterator[str]:
    if not debiased:
        yield PLAIN
    if not found.estimate.informative:
        yield NOT_INFORMATIVE


def _record(config: SurveyConfig, merged: RandomizedMeasurements) -> PrivacyRecord:
    epsilon, answers = _epsilon(config), _answers(config)
    facts: dict[str, Parameter] = {
        "epsilon_of_a_person": epsilon,
        "epsilon_of_an_answer": f"{number(epsilon)}, divided by the person's answers",
        "debiased": merged.debiased,
        "pairs": public_graph(config).n_edges,
    }
    facts |= _after_shuffling(config, merged)
    return PrivacyRecord(
        unit=Unit.LOCAL,
        adjacency=Adjacency.REPLACE_ONE,
        epsilon=epsilon,
        delta=0.0,
        mechanism="randomised-response",
        max_contributions=answers,
        parameters=facts,
        statement=(
            "All answers of a person together are protected, each before it was counted.",
            f"If a person had answered the same items otherwise, nothing here would become more"
            f" than {odds_factor(epsilon)} times as likely (e^epsilon, epsilon ="
            f" {number(epsilon)}).",
            REACH,
            "Each answer was flipped with probability 1 / (e^(epsilon / k) + 1), k the number of"
            " answers of its person, by secret bits; difficulties and intervals are computed from"
            " the sums of flipped answers alone.",
            f"At most {answers} answers of each person count, chosen at random.",
        ),
        not_protected=(
            "Which items a person answered, and that they took part.",
            *never_protected(),
            *large_loss(epsilon),
        ),
        theorem=f"{WARNER}; {NZ}, Section 5 (its baseline).",
    )


def _after_shuffling(config: SurveyConfig, merged: RandomizedMeasurements) -> dict[str, Parameter]:
    """The central guarantee, where all people answered all items: others then give no cover."""
    n_people = int(merged.people[1:].sum())
    if n_people == 0 or merged.people[-1] != n_people or _answers(config) != merged.n_items:
        return {}
    delta = config.ledger.delta or SHUFFLE_DELTA
    epsilon = shuffled_epsilon(_epsilon(config), n_people, delta)
    if epsilon >= _epsilon(config):
        return {"after_shuffling": "nothing better than epsilon can be proven"}
    return {
        "epsilon_of_a_person_after_shuffling": epsilon,
        "delta_after_shuffling": delta,
        "people": n_people,
    }
