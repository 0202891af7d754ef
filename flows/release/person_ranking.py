"""Scores by public features of people: their record, and the ranking for one person from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hushrank.estimation.common.estimate import Estimate, nothing_learned
from hushrank.estimation.common.links import Floats
from hushrank.estimation.fit.solve import ConvergenceError
from hushrank.estimation.rankings.pair_answer_evidence import PairAnswerCounts
from hushrank.estimation.rankings.personalized import Personalization, centred_features
from hushrank.flows.errors import ConfigError
from hushrank.flows.release.release import Release
from hushrank.flows.release.released import PersonalEffect, PersonalRecord, PersonFeatureRecord
from hushrank.privacy.random_pairs import Hide, law_of_epsilon
from hushrank.transforms.rankings.person_features import PersonFeature, PersonFeatures

if TYPE_CHECKING:
    from hushrank.estimation.rankings.two_towers import TwoTowers

NOT_PERSONAL = (
    "features: release {} has one score for each item, whoever asks; rank for a person from a"
    " release of method: personalized"
)


def lines_for(
    release: Release, person: Mapping[str, object], towers: TwoTowers | None = None
) -> list[dict[str, Any]]:
    """Rank, item, score, interval and ranks of each item for a person, the best first.

    Args:
        release: a release of method `personalized`.
        person: their features.
        towers: from `towers_of`, whose scores have no interval; None: the scores of the release.

    Raises:
        ConfigError: the release has no such scores, or `person` does not have its features.
    """
    if release.personal is None:
        raise ConfigError(NOT_PERSONAL.format(release.name))
    if towers is None:
        estimate = estimate_for(release.personal, person)
    else:
        features = encoded_person(release.personal, person)
        estimate = nothing_learned(towers.scores(features[np.newaxis])[0])
    names = release.released.items  # type: ignore[attr-defined]  # in catalogue order
    labels = {line.item: line.shown for line in release.ranking}
    return [
        {
            "rank": float(estimate.rank[k]),
            "item": labels[names[k]],
            "score": float(estimate.scores[k]),
            "low": float(estimate.low[k]),
            "high": float(estimate.high[k]),
            "rank_low": int(estimate.rank_low[k]),
            "rank_high": int(estimate.rank_high[k]),
        }
        for k in np.argsort(estimate.rank, kind="stable").tolist()
    ]


def towers_of(release: Release) -> TwoTowers:
    """Fit two towers to the counts of a release; this reads no row and spends nothing.

    Raises:
        ConfigError: the release has no scores by features, or too few combinations of them, or
            some without which the scores of the release cannot be fitted again.
    """
    from hushrank.estimation.rankings.two_towers import FOLDS, fit_two_towers

    personal = release.personal
    if personal is None:
        raise ConfigError(NOT_PERSONAL.format(release.name))
    profiles = getattr(release.released, "by_profile", None) or ()
    if len(profiles) < FOLDS:
        raise ConfigError(
            f"two towers: release {release.name} has rankings of {len(profiles)} combinations of"
            f" features, and at least {FOLDS} are needed to judge the fit; leave two towers out"
        )
    counts = [
        PairAnswerCounts(
            wins=np.array(each.wins),
            asked=np.array(each.asked),
            squares=np.array(each.squares),
            moments=np.array(each.moments),
            lengths=np.array(each.rankings),
        )
        for each in profiles
    ]
    privacy, answered = release.privacy, int(release.privacy.parameters["pairs_answered"])
    law = law_of_epsilon(privacy.epsilon / (privacy.max_contributions or 1), answered, Hide.ORDER)
    people = np.stack([encoded_person(personal, each.features) for each in profiles])
    try:
        return fit_two_towers(counts, law, people, fitted_again(personal).item_features)
    except ConvergenceError:
        raise ConfigError(
            f"two towers: release {release.name} tells too little to fit its own scores again"
            " without a fifth of its combinations of features, which judges the towers; leave two"
            " towers out"
        ) from None


def personal_record(
    fitted: Personalization,
    features: PersonFeatures,
    items: Sequence[str],
    of_items: Sequence[str],
) -> PersonalRecord:
    """The record of a fit to private answers."""
    low, high = (ends.tolist() for ends in fitted.intervals())
    values, n = fitted.coefficients.tolist(), fitted.n_items
    names = [(of, by) for by in features.titles for of in of_items or items]
    return PersonalRecord(
        features=tuple(
            PersonFeatureRecord(name=each.name, numbers=each.numbers, words=each.words)
            for each in features.features
        ),
        of_items=tuple(of_items),
        item_features=tuple(map(tuple, fitted.item_features.tolist())) if of_items else (),
        effects=tuple(
            PersonalEffect(of=of, by=by, estimate=values[k], low=low[k], high=high[k])
            for k, (of, by) in enumerate(names, start=n)
        ),
        coefficients=tuple(values),
        centre=tuple(fitted.centre.tolist()),
        covariance=tuple(map(tuple, fitted.covariance.tolist())),
        known=fitted.known,
        ridge=fitted.ridge,
        rankings=fitted.rankings,
        mean_features=tuple(fitted.mean_features.tolist()),
    )


def estimate_for(personal: PersonalRecord, person: Mapping[str, object]) -> Estimate:
    """Scores, intervals and ranks for a person with these features, in catalogue order.

    Raises:
        ConfigError: a feature is missing, unknown, or has a value that the release does not know.
    """
    return fitted_again(personal).estimate_for(encoded_person(personal, person))


def encoded_person(personal: PersonalRecord, person: Mapping[str, object]) -> Floats:
    """Numbers that a person's features are in a score, shape (p,).

    Raises:
        ConfigError: a feature is missing, unknown, or has a value that the release does not know.
    """
    described = PersonFeatures(
        features=tuple(
            PersonFeature(name=each.name, numbers=each.numbers, words=each.words)
            for each in personal.features
        )
    )
    for name in person:
        if name not in described.names:
            raise ConfigError(
                f"{name}: is no feature of this release; it has {', '.join(described.names)}"
            )
    for name in described.names:
        if name not in person:
            raise ConfigError(f"{name}: missing; give a value for every feature of the release")
    try:
        each = [feature.of_person(person[feature.name]) for feature in described.features]
    except ValueError as error:
        raise ConfigError(str(error)) from None
    return np.concatenate(each)


def fitted_again(personal: PersonalRecord) -> Personalization:
    """The fit that the record was made of."""
    n = len(personal.coefficients) - len(personal.effects)
    features = centred_features(None, n)
    if personal.of_items:
        features = np.array(personal.item_features)
    return Personalization(
        item_features=features,
        people=len(personal.mean_features),
        coefficients=np.array(personal.coefficients),
        centre=np.array(personal.centre),
        covariance=np.array(personal.covariance),
        known=personal.known,
        ridge=personal.ridge,
        rankings=personal.rankings,
        mean_features=np.array(personal.mean_features),
    )
