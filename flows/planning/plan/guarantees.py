"""Comparison of a survey under other guarantees: Laplace or Gaussian noise, trusted or local.

No verdict follows from this. Which guarantee people were promised is not a question of accuracy.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from hushrank.flows.config.privacy import Budget, PrivacyConfig, RankingChoice, usual_delta
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import ConfigError
from hushrank.flows.methods.registry import METHODS
from hushrank.flows.planning.plan.accuracy import Accuracy
from hushrank.flows.planning.plan.survey import (
    Setting,
    accuracy_of,
    chosen_method,
    is_right,
    with_setting,
)
from hushrank.flows.planning.plan.world import World
from hushrank.flows.statement.rankings import RankingGuarantee
from hushrank.privacy.random_pairs import Hide
from hushrank.privacy.units import Adjacency, Bounding, NoiseKind, Unit
from hushrank.transforms.common.schema import Ties

LOCAL = {"comparisons": "debiased-rr", "responses": "spectral-rr"}  # methods by kind of input
TRUSTED = {"comparisons": "auto", "responses": "auto"}
BY_PAIRS = "kemeny"  # replaces ranking methods that have no local form


@dataclass(frozen=True, slots=True)
class Alternative:
    """Job under another guarantee.

    Attributes:
        words: name of the guarantee.
        method: method that ranks under it.
        config: configuration of the job under it.
        setting: setting with the same people and epsilon.
    """

    words: str
    method: str
    config: SurveyConfig
    setting: Setting


def tried_guarantees(
    config: SurveyConfig, base: Setting, world: World
) -> list[tuple[Alternative, Accuracy]]:
    """Compute the accuracy of the survey under each other guarantee that some method gives."""
    found = []
    delta = usual_delta(base.people)
    if config.ledger.delta:
        delta = min(delta, config.ledger.delta)
    for other, method in _alternatives(config, base.method, delta):
        setting = replace(base, method=method, epsilon=_same_loss(config, other, base))
        if not is_right(other, method):
            continue
        try:
            name = chosen_method(other, setting).method.facts.name
            accuracy = accuracy_of(other, setting, world)
        except ConfigError:  # no method gives that guarantee
            continue
        words = guarantee_words(other) + _epsilon_words(config, other, setting)
        found.append((Alternative(words, name, other, setting), accuracy))
    return found


def _same_loss(config: SurveyConfig, other: SurveyConfig, base: Setting) -> float:
    """Epsilon under another guarantee at which a person's total loss is the same.

    Under unit `local` the epsilon of rankings is that of one moved item, or of one whole ranking;
    a person loses a multiple of it.
    """
    if config.input.kind != "rankings" or not (_local_unit(config) or _local_unit(other)):
        return base.epsilon
    of_person = [
        RankingGuarantee.of(with_setting(each, base)).person if _local_unit(each) else base.epsilon
        for each in (config, other)
    ]
    return base.epsilon * of_person[0] / of_person[1]


def _local_unit(config: SurveyConfig) -> bool:
    return config.privacy.unit is Unit.LOCAL


def _epsilon_words(config: SurveyConfig, other: SurveyConfig, setting: Setting) -> str:
    if config.input.kind != "rankings" or not (_local_unit(config) or _local_unit(other)):
        return ""
    of = "of all rankings of a person"
    if _local_unit(other):
        mechanism = other.privacy.mechanism
        of = "of a ranking" if mechanism and mechanism.of_whole else "of a moved item"
    return f", epsilon {setting.epsilon:.3g} {of}"


def guarantee_words(config: SurveyConfig) -> str:
    """Text of a job's guarantee: the law of its noise, or that answers are privatised one by
    one."""
    if config.privacy.unit is not Unit.LOCAL:
        return _noise_words(config)
    mechanism = config.privacy.mechanism
    return "local, before counting" if mechanism is None else f"local, {mechanism}"


def _alternatives(
    config: SurveyConfig, own: str, delta: float
) -> Iterator[tuple[SurveyConfig, str]]:
    """Yield the job under other guarantees, each with the method that it then names.

    Args:
        config: the job.
        own: method of the job.
        delta: delta of Gaussian noise, where the job has none.
    """
    privacy, kind = config.privacy, config.input.kind
    if privacy.unit is not Unit.LOCAL:
        gaussian = privacy.noise is NoiseKind.GAUSSIAN
        noise = NoiseKind.LAPLACE if gaussian else NoiseKind.GAUSSIAN
        bounding = Bounding.LEAVE_OUT if gaussian else privacy.bounding
        yield _with(config, noise=noise, delta=0.0 if gaussian else delta, bounding=bounding), own
        if kind == "rankings":
            local = Unit.LOCAL in METHODS[own].facts.units
            yield _local(config), own if local else BY_PAIRS
        elif kind in LOCAL and config.schedule.stream is None and config.groups is None:
            yield _local(config), LOCAL[kind]
    elif kind == "rankings" and not privacy.already_private:
        for mechanism in _other_mechanisms(privacy):
            yield _with(config, mechanism=mechanism), own
        config = _with(config, mechanism=None, pairs=None, hide=Hide.ORDER)
        yield _with(config, unit=Unit.USER, noise=NoiseKind.GAUSSIAN, delta=delta), own
        yield _with(config, unit=Unit.USER), own
    elif kind in TRUSTED and not privacy.already_private:
        yield _trusted(config), TRUSTED[kind]


def _other_mechanisms(privacy: PrivacyConfig) -> tuple[RankingChoice, ...]:
    """Local mechanisms of rankings to compare with the job's own, at the same loss of a person."""
    mallows, pairs = RankingChoice.MALLOWS, RankingChoice.RANDOM_PAIRS
    if privacy.hide is Hide.ITEMS:  # no other mechanism hides the items
        return ()
    return tuple(each for each in (mallows, pairs) if each is not privacy.mechanism)


def _local(config: SurveyConfig) -> SurveyConfig:
    """Return the job with local privacy, and epsilon for the same unit as before."""
    one = config.privacy.unit is Unit.COMPARISON
    other = _with(
        config,
        unit=Unit.LOCAL,
        budget=Budget.PER_COMPARISON if one else Budget.PER_USER,
        adjacency=Adjacency.REPLACE_ONE,
        bounding=Bounding.LEAVE_OUT,
        max_weight=None,
    )
    if config.input.kind == "rankings":
        return _with(other, mechanism=RankingChoice.AUTO)
    if config.input.kind != "comparisons":
        return other
    ties = config.comparisons.model_copy(update={"ties": Ties.RANDOM})  # unit local requires this
    return other.model_copy(update={"input": ties})


def _trusted(config: SurveyConfig) -> SurveyConfig:
    one = config.privacy.budget is Budget.PER_COMPARISON
    bound = {"max_contributions": None} if one else {}
    return _with(config, unit=Unit.COMPARISON if one else Unit.USER, **bound)


def _with(config: SurveyConfig, **privacy: object) -> SurveyConfig:
    return config.model_copy(update={"privacy": config.privacy.model_copy(update=privacy)})


def _noise_words(config: SurveyConfig) -> str:
    privacy = config.privacy
    delta = f", delta {privacy.delta:g}" if privacy.noise is NoiseKind.GAUSSIAN else ""
    return f"{privacy.noise.value.capitalize()}{delta}"
