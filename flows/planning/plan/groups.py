"""Predicted accuracy of each group's ranking, from simulated surveys."""

from __future__ import annotations

import numpy as np

from hushrank.estimation.common.metrics import rms_error
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.planning.plan.accuracy import in_order
from hushrank.flows.planning.plan.survey import (
    FEWEST,
    Setting,
    noise_bits,
    planned_method,
    planned_survey,
    with_setting,
)
from hushrank.flows.planning.plan.world import World


def group_errors(config: SurveyConfig, setting: Setting, world: World) -> list[tuple[float, float]]:
    """Compute for each group the error of a typical score, shrunk towards the whole, and `order`.

    Empty where there are no groups.

    Raises:
        ConfigError: the method refuses the setting.
    """
    if config.groups is None:
        return []
    survey, tried = planned_survey(config, setting, world), with_setting(config, setting)
    method, found = planned_method(tried), []
    mechanism = method.calibrate(tried)
    for replicate in range(FEWEST):
        bits = noise_bits(survey, replicate)
        exact = method.simulated(tried, survey, replicate)
        boards = method.conclude(method.draw(exact, mechanism, bits), mechanism, tried).boards
        truths = [survey.group_truth(replicate, group) for group in range(len(boards))]
        found.append(
            [
                (
                    rms_error(board.estimate.scores, method.estimand(tried, survey, truth)),
                    in_order(board.estimate.scores, truth),
                )
                for board, truth in zip(boards, truths, strict=True)
            ]
        )
    return [(float(error), float(order)) for error, order in np.mean(found, axis=0)]
