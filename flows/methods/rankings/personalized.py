"""Method `personalized`: scores of items for each person, by public features, under unit `local`.

Private answers to random pairs are counted apart for each combination of features that people have.
The ranking of a release is that of a person with the mean features; from the released coefficients
anybody can rank for another person.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hushrank.estimation.common.estimate import nothing_learned
from hushrank.estimation.common.links import Floats
from hushrank.estimation.rankings.pair_answer_evidence import PairAnswerCounts, count_answers
from hushrank.estimation.rankings.personalized import (
    centred_features,
    fit_personalized,
)
from hushrank.flows.config.method import MethodFacts, Problems, Sections
from hushrank.flows.config.privacy import RankingChoice
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import ConfigError
from hushrank.flows.methods.base import Arrays, Conclusion
from hushrank.flows.methods.rankings.private_rankings import (
    BRADLEY_TERRY,
    NO_RANKINGS,
    PrivateRankings,
    log_odds,
)
from hushrank.flows.methods.rankings.released_rankings import ReleasedPairAnswers
from hushrank.flows.release.person_ranking import personal_record
from hushrank.flows.release.scale import Scale
from hushrank.flows.statement.rankings import SyntheticMechanism, ranking_record
from hushrank.pipelines.simulate.planned_survey import PlannedSurvey
from hushrank.privacy.random_pairs import Hide, answer_pairs
from hushrank.privacy.randomness import seeded_bits
from hushrank.privacy.units import Unit
from hushrank.transforms.rankings.person_features import PersonFeatures

MOST_COEFFICIENTS = 300  # the covariance of their errors is published
MOST_CELLS = 400_000  # entries of each table of all profiles
TOO_NOISY = (
    "Noise hides how scores depend on the features of people: no interval of a score is known. More"
    " rankings, a larger epsilon, or fewer features would help."
)
LEFT_OPEN = (
    "No interval of a score is known, because rankings leave some scores open: few people ranked,"
    " none of them has some value of a feature, or items were not ranked with the others. List only"
    " values and items that rankings have, or ask more people."
)


@dataclass(frozen=True, kw_only=True)
class PersonalizedRankings(PrivateRankings):
    """See `estimation.rankings.personalized`; only answers to random pairs are read."""

    def calibrate(self, config: SurveyConfig) -> SyntheticMechanism:
        """The law of private answers, and the public features by which they are kept apart."""
        features, names = _features_of(config), config.items.catalogue.names
        try:
            item_features = _item_features(config)
        except ValueError as error:
            raise ConfigError(f"model.item_features: {error}") from None
        size = len(names) + len(features.titles) * item_features.shape[1]
        if size > MOST_COEFFICIENTS:
            raise ConfigError(
                f"items: method: personalized would fit {size} coefficients, and at most"
                f" {MOST_COEFFICIENTS} are published with their errors; name fewer features, or"
                " give features of items in model.item_features"
            )
        if (cells := features.profiles * len(names) ** 2) > MOST_CELLS:
            raise ConfigError(
                f"input.person_features: tables of all combinations would have {cells:,} entries,"
                f" and at most {MOST_CELLS:,} are published; list fewer values"
            )
        return replace(super().calibrate(config), features=features)

    def conclude(
        self, drawn: Arrays, mechanism: SyntheticMechanism, config: SurveyConfig
    ) -> Conclusion:
        """Fit the scores, and rank for the mean person."""
        names, law = config.items.catalogue.names, mechanism.guarantee.pairs
        features = mechanism.features
        if law is None or features is None:
            raise ValueError("answers of people with features have a law and the features")
        counts = [
            PairAnswerCounts(**{name: array[place] for name, array in drawn.items()})
            for place in range(features.profiles)
        ]
        fitted = fit_personalized(
            counts, law, features.encoded(), _item_features(config), config.model.ridge
        )
        estimate = fitted.estimate_for(fitted.mean_features)
        warnings: tuple[str, ...] = ()
        if not fitted.rankings:
            estimate, warnings = nothing_learned(np.zeros(len(names))), (NO_RANKINGS,)
        elif not fitted.known:
            warnings = (TOO_NOISY if fitted.complete else LEFT_OPEN,)
        chosen = config.model.features_of_items()
        return Conclusion(
            estimate=estimate,
            privacy=ranking_record(mechanism, {"debiased": True, "ridge": fitted.ridge}),
            released=ReleasedPairAnswers.of_profiles(counts, names, features.values()),
            scale=Scale.LOG_ODDS,
            warnings=warnings,
            personal=personal_record(fitted, features, names, chosen.names if chosen else ()),
        )

    def simulated(self, config: SurveyConfig, survey: PlannedSurvey, replicate: int) -> Arrays:
        """Private answers of a simulated survey, in which features change nothing."""
        guarantee, parts = self._guarantee(config), _features_of(config).profiles
        if (law := guarantee.pairs) is None:
            raise ValueError("the method is fitted to private answers alone")
        n_items, length = survey.n_items, guarantee.max_length
        orders = survey.orders(replicate, length)
        bits = seeded_bits(survey.seed * 1_000_033 + replicate)  # a simulated survey: no release
        found = []
        for place in range(parts):
            own = orders[place::parts]
            lengths = np.full(len(own), length, np.int64)
            answers = answer_pairs(own.ravel(), lengths, n_items, law, bits)
            found.append(count_answers(answers, n_items, length, law).arrays())
        return {name: np.stack([each[name] for each in found]) for name in found[0]}


def _features_of(config: SurveyConfig) -> PersonFeatures:
    features = config.rankings.features()
    if features is None:  # the rules require them
        raise ConfigError(f"input.person_features: {NO_FEATURES}")
    return features


def _item_features(config: SurveyConfig) -> Floats:
    """Features of items less their mean, in standard deviations, or the identity."""
    names, given = config.items.catalogue.names, config.model.features_of_items()
    if given is None:
        return centred_features(None, len(names))
    values = given.of(names)
    return np.asarray(centred_features(values, len(names)) / values.std(axis=0))


def _problems(config: Sections) -> Problems:
    privacy = config.privacy
    if config.rankings.person_features is None:
        yield "input.person_features", NO_FEATURES
    rows, names = config.rankings, config.items.catalogue.names
    for name in rows.person_features or () if rows.layout == "wide" else ():
        if rows.columns.items is None and name in names:
            yield (
                f"input.person_features.{name}",
                "is a column of the ranking already; name another",
            )
    if privacy.mechanism is not RankingChoice.RANDOM_PAIRS:
        yield (
            "privacy.mechanism",
            "must be random-pairs with method: personalized, which is fitted to private answers"
            " about pairs",
        )
    if privacy.hide is Hide.ITEMS:
        yield "privacy.hide", "must be order with method: personalized; remove it"
    if privacy.epsilon is None:
        yield "privacy.epsilon", "missing; method: personalized takes one number for all"


NO_FEATURES = (
    "missing; method: personalized needs public features of people. Add for example {age: [20, 40,"
    " 60]}"
)
METHODS = (
    PersonalizedRankings(
        facts=MethodFacts(
            name="personalized",
            summary="scores for each person by public features, from private rankings",
            kind="rankings",
            units=(Unit.LOCAL,),
            reads=("model.ridge", "model.item_features", "input.person_features"),
            rules=_problems,
            same_draws="bradley-terry",  # which keeps the answers of all people together
        ),
        plan_order=None,
        truth=log_odds,
        rank=BRADLEY_TERRY.rank,
        needs_items=True,
    ),
)
