"""Naive methods beside the methods of a plan: those that a hand-made script would use.

They are measured on the same simulated surveys, with the same privacy, and are no methods: nothing
runs them. Where the method of a job orders items worse than one of them, the plan says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hushrank.estimation.common.central_noise import (
    calibrate_pair_counts,
    calibrate_win_counts,
    release_pair_counts,
    release_win_counts,
)
from hushrank.estimation.common.links import LOGISTIC, Floats
from hushrank.estimation.common.matrices import PairCounts, WinCounts
from hushrank.estimation.fit.likelihood import Objective
from hushrank.estimation.fit.solve import minimise
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.planning.plan.accuracy import Accuracy, mean_accuracy, scores_measured
from hushrank.flows.planning.plan.survey import (
    Setting,
    noise_bits,
    planned_survey,
    repetitions,
    with_setting,
)
from hushrank.flows.planning.plan.world import World
from hushrank.flows.release.scale import SCALE_OF_LINK
from hushrank.pipelines.simulate.planned_survey import counts_of
from hushrank.privacy.randomness import RandomBits
from hushrank.privacy.units import PrivacyParams, Unit
from hushrank.transforms.common.schema import Ties

NEARLY_NO_RIDGE = 0.01  # keeps the scores of items that lost every comparison finite
MOST_ITEMS = 2_000  # largest matrix of wins with noise in every entry, as in `noisy-pairs`
CLEARLY_BETTER = 2.0  # standard errors by which a naive way must be better
Way = Callable[[PairCounts, PrivacyParams, RandomBits], Floats]


def clipped_fit(counts: PairCounts) -> Floats:
    """Fit Bradley-Terry scores to noisy wins, shape (n,); negative wins count as zero.

    Of exact counts that is the fit without privacy.

    Raises:
        ConvergenceError: no fit was found.
    """
    wins = np.maximum(counts.dense() / counts.row_weight, 0.0)
    return minimise(Objective(wins, LOGISTIC, NEARLY_NO_RIDGE, np.zeros(len(wins)))).theta


@dataclass(frozen=True, slots=True)
class Loss:
    """Method of hushrank that a naive method beats.

    Attributes:
        method: ours.
        naive: the naive way.
        ours, theirs: shares of the pairs of items in the right order.
    """

    method: str
    naive: str
    ours: float
    theirs: float


def naive_ways(
    config: SurveyConfig, setting: Setting, world: World
) -> list[tuple[Setting, Accuracy]]:
    """Measure naive methods; none if answers are not comparisons, or are privatised one by one.

    Args:
        config: the job.
        setting: setting; its method is ignored.
        world: see `World`.
    """
    tried = with_setting(config, setting)
    n_items = len(tried.items.catalogue())
    if (
        config.input.kind != "comparisons"
        or config.privacy.unit is Unit.LOCAL
        or config.privacy.public_graph
        or n_items > MOST_ITEMS
    ):
        return []
    return [
        (replace(setting, method=f"naive: {name}"), _accuracy(tried, setting, world, way))
        for name, way in WAYS.items()
    ]


def loss_of(
    own: tuple[Setting, Accuracy], naive: Sequence[tuple[Setting, Accuracy]]
) -> Loss | None:
    """Return the best naive method that orders items significantly better than a method, if any."""
    setting, found = own
    if math.isnan(found.order) or not naive:
        return None
    best, theirs = max(naive, key=lambda each: each[1].order)
    margin = CLEARLY_BETTER * math.hypot(found.spread["order"], theirs.spread["order"])
    if theirs.order - found.order <= margin:
        return None
    return Loss(setting.method, best.method, found.order, theirs.order)


def _accuracy(config: SurveyConfig, setting: Setting, world: World, way: Way) -> Accuracy:
    survey = planned_survey(config, setting, world)
    params, weight = config.privacy.params(), config.comparisons.ties.row_weight
    found = []
    for replicate in range(repetitions(survey, world)):
        wins = survey.pair_wins(replicate)
        if survey.ties > 0:  # a coin decides ties, as for a method without a model of ties
            cells = survey.with_ties(wins, replicate)
            wins = counts_of(cells, Ties.RANDOM, (survey.seed, replicate))
        counts = PairCounts(wins * weight, weight)
        scores = way(counts, params, noise_bits(survey, replicate))
        found.append(scores_measured(scores, survey.truth(replicate), config.top_k))
    if way is _noisy_wins:  # this way gives an order, but no scores
        found = [each | dict.fromkeys(("error", "largest"), math.nan) for each in found]
    return mean_accuracy(found, SCALE_OF_LINK["logistic"])


def _clipped(counts: PairCounts, params: PrivacyParams, bits: RandomBits) -> Floats:
    calibration = calibrate_pair_counts(params, counts.n_items, counts.row_weight)
    return clipped_fit(release_pair_counts(counts, calibration, bits))


def _noisy_wins(counts: PairCounts, params: PrivacyParams, bits: RandomBits) -> Floats:
    calibration = calibrate_win_counts(params, counts.n_items, counts.row_weight)
    wins = WinCounts(counts.won(), counts.row_weight)
    return np.asarray(release_win_counts(wins, calibration, bits).wins, np.float64)


WAYS: dict[str, Way] = {"clipped + Bradley-Terry": _clipped, "noisy wins": _noisy_wins}
