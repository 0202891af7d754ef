"""Number of people that a test needs to tell two items, or two groups of people, apart.

The error of a difficulty of N people has the variance a / N + b / N^2: sampling and noise. Both
follow from the method's formula at two N. A difference d is found with the chance `POWER` if it is
as large as its standard error times the limit of its test plus that of the chance.

Comparison of the ways to treat ties, if the job counts ties as outcomes.

Ties are simulated by the job's model, with the chance of `World.ties`. Every way ranks the same
comparisons, by the method of the job. What is compared is the order, which all of them estimate:
scores of half wins, or of ties that a coin decided, lie nearer each other than those of a model.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtri

from hushrank.estimation.common.uncertainty import LEVEL, quantile
from hushrank.estimation.responses.totals_estimate import DELTA, LARGE
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import ConfigError
from hushrank.flows.planning.plan.survey import (
    FEWEST,
    Setting,
    chosen_method,
    noise_bits,
    planned_method,
    planned_survey,
    predicted,
    with_setting,
)
from hushrank.flows.planning.plan.world import World, in_order
from hushrank.pipelines.simulate.planned_survey import counts_of
from hushrank.privacy.units import NoiseKind
from hushrank.transforms.common.schema import Ties

APART = 0.5  # log odds between two items
POWER = 0.8
FEW, MANY = 1_000, 1_000_000_000  # people at which the two parts of the variance are learned
HALVINGS = 60


@dataclass(frozen=True, slots=True)
class PeopleNeeded:
    """People in all, at one epsilon.

    Attributes:
        epsilon: epsilon of the release.
        two_items: people needed for two items of difficulties `APART` apart, alone.
        large_dif: people needed for an item that is large by the rule of ETS in one group, among
            all items and groups, which are equally large; None: there are not two groups.
    """

    epsilon: float
    two_items: int
    large_dif: int | None


def people_needed(
    config: SurveyConfig, settings: Sequence[Setting], world: World
) -> list[PeopleNeeded]:
    """Compute the numbers for each epsilon; empty where the method does not compare sheets.

    Raises:
        ConfigError: the method refuses a setting.
    """
    found = dict[float, PeopleNeeded]()
    for setting in settings:
        if setting.epsilon in found:
            continue
        if not chosen_method(config, setting).method.facts.uses("model.bands"):  # no whole sheets
            return []
        one = config.model_copy(update={"groups": None})
        variances = [predicted(one, replace(setting, people=n), world) for n in (FEW, MANY)]
        if None in variances:
            return []
        few, many = (float(error or 0) ** 2 for error in variances)
        sampling = (many * MANY**2 - few * FEW**2) / (MANY - FEW)
        noise = max(few * FEW**2 - sampling * FEW, 0.0)
        names = () if config.groups is None else config.groups.values
        groups = 0 if config.groups is None else len(config.groups.groups())
        n_items = len(config.items.catalogue.names)
        whole = _people(sampling, max(groups, 1) * noise, config, n_items, APART, LEVEL / 2)
        dif = None
        if len(names) > 1:
            tail = LEVEL / (2 * n_items * (len(names) - 1))
            # In a difference between groups both are centred, in one between items neither is.
            apart = LARGE / DELTA * (1 - 1 / n_items)  # less the mean of all items
            one_group = _people(sampling, noise, config, n_items, apart, tail, centred=True)
            dif = rounded_up(groups * one_group)
        found[setting.epsilon] = PeopleNeeded(setting.epsilon, whole, dif)
    return list(found.values())


def _people(
    sampling: float,
    noise: float,
    config: SurveyConfig,
    n_items: int,
    apart: float,
    tail: float,
    *,
    centred: bool = False,
) -> int:
    """The least number of people by which a difference of two independent difficulties is found."""
    kind = config.privacy.noise or NoiseKind.LAPLACE
    lone = 2.0 if centred else 2 * n_items / (n_items - 1)
    low, high = 0.0, math.log(1e12)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        people = math.exp(middle)
        parts = sampling / people, noise / people**2
        share = np.array(parts[1] / sum(parts))
        limit = float(quantile(share, tail, kind, 2)) + float(ndtri(POWER))
        enough = limit * math.sqrt(lone * sum(parts)) <= apart
        low, high = (low, middle) if enough else (middle, high)
    return rounded_up(math.exp(high))


def rounded_up(people: float) -> int:
    """Two figures of a number of people, never fewer people."""
    unit: int = 10 ** max(math.floor(math.log10(people)) - 1, 0)
    return math.ceil(people / unit) * unit


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
