"""The draws of each method, as a certificate lists them."""

from __future__ import annotations

from hushrank.flows.certificate.counts import (
    cost_of,
    is_explained,
    look_noise,
    noise_of_best,
    noise_of_counts,
    noise_of_measurements,
    noise_of_rankings,
)
from hushrank.flows.certificate.draws import Draw, Unexplained
from hushrank.flows.certificate.local import (
    draw_of_answers,
    draw_of_rankings,
    draw_of_responses,
)
from hushrank.flows.certificate.objective import draws_of_effects, draws_of_scores
from hushrank.flows.methods.base import Arrays, Calibrated
from hushrank.flows.methods.one_shot import OneShotMechanism
from hushrank.flows.methods.spectral import MeasurementMechanism
from hushrank.flows.methods.spectral_rr import ResponseMechanism
from hushrank.flows.statement.effect_mechanism import EffectMechanism
from hushrank.flows.statement.local import AnswerMechanism
from hushrank.flows.statement.mechanism import CountMechanism
from hushrank.flows.statement.ranking_counts import RankingCountMechanism
from hushrank.flows.statement.rankings import SyntheticMechanism
from hushrank.flows.statement.score_mechanism import ScoreMechanism


def draws_of(calibrated: Calibrated, drawn: Arrays) -> tuple[Draw, ...]:
    """Every draw of a release, a look at its rows first.

    Args:
        calibrated: what drew.
        drawn: what was stored of it, the public graph that it was drawn on among it.
    """
    own = _own_draws(calibrated, drawn)
    if calibrated.look is None:
        return own
    return look_noise(calibrated.look, calibrated.params), *own


def _own_draws(calibrated: Calibrated, drawn: Arrays) -> tuple[Draw, ...]:
    counted = getattr(calibrated.method, "counted", None)
    match calibrated.mechanism:
        case RankingCountMechanism() as mechanism:
            return (noise_of_rankings(mechanism),)
        case CountMechanism() as mechanism if is_explained(mechanism, counted):
            return (noise_of_counts(mechanism, counted),)
        case OneShotMechanism() as mechanism:
            return (noise_of_best(mechanism),)
        case MeasurementMechanism() as mechanism:
            return (noise_of_measurements(mechanism, drawn),)
        case ScoreMechanism() as mechanism:
            return draws_of_scores(mechanism)
        case EffectMechanism() as mechanism:
            return draws_of_effects(mechanism)
        case AnswerMechanism() as mechanism:
            return (draw_of_answers(mechanism),)
        case ResponseMechanism() as mechanism:
            return (draw_of_responses(mechanism),)
        case SyntheticMechanism() as mechanism:
            return (draw_of_rankings(mechanism),)
        case other:
            what = f"what method {calibrated.method.facts.name} releases"
            derivation = f"{type(other).__module__}.{type(other).__qualname__}"
            cost = cost_of(other.spend)
            return (Unexplained(mechanism="other", what=what, derivation=derivation, cost=cost),)
