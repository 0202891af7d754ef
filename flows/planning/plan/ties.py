"""Comparison of the ways to treat ties, if the job counts ties as outcomes.

Ties are simulated by the job's model, with the chance of `World.ties`. Every way ranks the same
comparisons, by the method of the job. What is compared is the order, which all of them estimate:
scores of half wins, or of ties that a coin decided, lie nearer each other than those of a model.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import ConfigError
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
from hushrank.pipelines.simulate.planned_survey import counts_of
from hushrank.transforms.common.schema import Ties

WAYS = (Ties.MODEL, Ties.RANDOM, Ties.SPLIT, Ties.DROP)


def with_ties(config: SurveyConfig, world: World, ties: float) -> World:
    """Return `world` with another probability that equal items tie.

    Raises:
        ConfigError: the job models no ties, or that is no such chance.
    """
    if not _models_ties(config):
        raise ConfigError("--ties: needs input.ties: model; add that, or remove --ties")
    if not 0 < ties < 1:
        raise ConfigError(f"--ties must be between 0 and 1, got {ties!r}")
    return replace(world, ties=ties)


def _models_ties(config: SurveyConfig) -> bool:
    return config.input.kind == "comparisons" and config.comparisons.ties is Ties.MODEL


def orders_by_ties(config: SurveyConfig, setting: Setting, world: World) -> dict[Ties, float]:
    """Compute the share of pairs in the right order by each way; empty without a model of ties.

    Raises:
        ConfigError: the method refuses the setting.
    """
    if not _models_ties(config) or config.groups is not None:
        return {}
    survey = planned_survey(config, setting, world)
    found: dict[Ties, list[float]] = {way: [] for way in WAYS}
    for replicate in range(FEWEST):
        cells = survey.with_ties(survey.pair_wins(replicate), replicate)
        for way in WAYS:
            rows = config.comparisons.model_copy(update={"ties": way})
            tried = with_setting(config.model_copy(update={"input": rows}), setting)
            method = planned_method(tried)
            mechanism = method.calibrate(tried)
            counts = counts_of(cells, way, (survey.seed, replicate))
            drawn = method.draw({"counts": counts}, mechanism, noise_bits(survey, replicate))
            estimate = method.conclude(drawn, mechanism, tried).estimate
            found[way].append(in_order(-estimate.rank, survey.truth(replicate)))
    return {way: float(np.mean(each)) for way, each in found.items()}


def ties_text(orders: dict[Ties, float], world: World) -> str:
    """Line that compares the ways to treat ties; empty: there is no comparison."""
    if not orders:
        return ""
    ways = ", ".join(f"{100 * order:.1f} % with {way}" for way, order in orders.items())
    return (
        f"Ties, if equals tie in {100 * world.ties:g} % of their comparisons (--ties): pairs in the"
        f" right order are {ways}."
    )
