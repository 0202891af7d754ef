"""The error of a typical score by formula, where `estimation.comparisons.planning` has one."""

from __future__ import annotations

import math

import numpy as np

from hushrank.estimation.common.central_noise import (
    calibrate_outcomes,
    calibrate_pair_counts,
    calibrate_win_counts,
)
from hushrank.estimation.comparisons.perturbed_mle import MleSettings, calibrate_mle
from hushrank.estimation.comparisons.planning import (
    predicted_error,
    predicted_share_error,
    weight_under_noise,
    weight_under_perturbation,
)
from hushrank.flows.config.method import Method
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.plan.survey import Setting, World, planned_survey, with_setting
from hushrank.pipelines.simulate.planned_survey import PlannedSurvey
from hushrank.privacy.randomized_response import attenuation, flip_thresholds


def predicted(config: SurveyConfig, setting: Setting, world: World) -> float | None:
    """n^(-1/2) l2 norm of the error of the scores, for scores near each other; None: no formula.

    It is that of estimates without bias: shrinking noisy scores towards zero can do better.
    """
    survey, tried = planned_survey(config, setting, world), with_setting(config, setting)
    if setting.method is Method.NOISY_COUNTS:
        return _of_shares(tried, survey)
    weight = _weight(tried, survey)
    return None if weight is None else predicted_error(survey.n_items, weight, survey.link).typical


def _of_shares(config: SurveyConfig, survey: PlannedSurvey) -> float:
    rows = config.comparisons.ties.row_weight
    law = calibrate_win_counts(config.privacy.params(), survey.n_items, rows).law
    share = min(survey.answers / survey.n_pairs, 1.0) if survey.distinct else 0.0
    return predicted_share_error(
        survey.n_items, survey.pair_comparisons, share, law.variance / rows**2
    ).typical


def _weight(config: SurveyConfig, survey: PlannedSurvey) -> float | None:
    """Comparisons of a pair without noise that say as much as this mechanism lets out."""
    weight, n_items = survey.pair_comparisons, survey.n_items
    if config.method is Method.NOISY_PAIRS:
        rows, public = config.comparisons.ties.row_weight, config.privacy.public_graph
        calibrate = calibrate_outcomes if public else calibrate_pair_counts
        variance = calibrate(config.privacy.params(), n_items, rows).law.variance / rows**2
        # Of a pair with a total that is public, noise moves one count up and the other one down.
        return weight_under_noise(weight, 2 * variance if public else variance)
    if config.method in (Method.PERTURBED_MLE, Method.NOISY_OBJECTIVE):
        model = config.model
        settings = MleSettings(
            expected_comparisons=model.expected_comparisons or 1.0,
            link=survey.link,
            ridge=model.gamma,
            constants=model.constants,
            public_graph=config.privacy.public_graph,
        )
        noise = calibrate_mle(config.privacy.params(), settings, n_items).noise
        return weight_under_perturbation(n_items, weight, noise.variance, survey.link)
    if config.method is Method.DEBIASED_RR:
        epsilon = float(config.privacy.epsilon or 0)
        if config.privacy.local_shares().per_user:
            epsilon /= survey.answers
        t = float(attenuation(flip_thresholds(np.array([epsilon])))[0])
        return weight * t**2 if math.isfinite(t) and t > 0 else None
    return None
