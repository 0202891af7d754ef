"""Methods that a plan compares, and the method that it recommends.

A method that is not right for the design of the simulated surveys is never taken, however it fares:
its errors there are not those of a survey with other scores.

Naive methods beside the methods of a plan: those that a hand-made script would use.

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
from hushrank.flows.errors import ConfigError
from hushrank.flows.methods.base import PlannedMethod
from hushrank.flows.methods.registry import METHODS
from hushrank.flows.planning.plan.crossed import TRUTHS, with_crossed
from hushrank.flows.planning.plan.survey import (
    Setting,
    answers_of,
    is_right,
    needs_list,
    noise_bits,
    planned_survey,
    repetitions,
    with_setting,
)
from hushrank.flows.planning.plan.world import (
    SHARES,
    Accuracy,
    Target,
    World,
    mean_accuracy,
    scores_measured,
)
from hushrank.flows.release.scale import SCALE_OF_LINK
from hushrank.pipelines.simulate.planned_survey import counts_of
from hushrank.privacy.randomness import RandomBits
from hushrank.privacy.units import PrivacyParams, Unit
from hushrank.transforms.common.schema import Ties

AUTO = "auto"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Recommended method.

    Attributes:
        setting: setting with the method.
        why: reason, in words.
    """

    setting: Setting
    why: str


def methods_to_compare(config: SurveyConfig, own: str | None = None) -> tuple[str, ...]:
    """List the methods that suit the job and its design, the job's own one first.

    Args:
        config: the job.
        own: method that ranks in it, where the job leaves that open; it stands there even if it is
            not right.
    """
    usable = [
        name
        for name in sorted(METHODS, key=_plan_order)
        if config.input.kind in METHODS[name].facts.kinds
        and config.privacy.unit in METHODS[name].facts.units
        and math.isfinite(_plan_order(name))
        and is_right(config, name)
        and _accepts(config, name)
    ]
    return tuple(dict.fromkeys((own or config.method, *usable)))


def verdict(
    config: SurveyConfig, tried: Sequence[tuple[Setting, Accuracy]], target: Target
) -> Verdict | None:
    """Choose the method to recommend, and say why; None: there is no choice.

    The one that is best at what is wanted; of several that two standard errors of the difference do
    not tell apart, the one that the job names or `method: auto` takes, or else the one with the
    smallest `plan_order`, which assumes less. A method that names the best items and ranks no
    others is for jobs that ask for no more than that.

    Args:
        config: the job.
        tried: the same setting by each method; where the job says `auto`, that one's choice first.
        target: accuracy that is wanted.
    """
    sign = 1 if target.name in SHARES else -1
    right = [(each, found) for each, found in tried if is_right(config, each.method)]
    known = [(each, found) for each, found in right if math.isfinite(getattr(found, target.name))]
    if config.top_k is None:
        known = [each for each in known if not needs_list(each[0].method)]
    if target.name in ("error", "largest") and known:  # errors on other scales cannot be compared
        known = [(each, found) for each, found in known if found.scale is known[0][1].scale]
    if len(tried) < 2 or not known:
        return None
    best = max(known, key=lambda each: sign * getattr(each[1], target.name))
    close = [each for each in known if _is_close(each[1], best[1], target.name)]
    chosen = min((each for each, _ in close), key=lambda each: _plan_order(each.method))
    if tried[0] in close:
        chosen = tried[0][0]
    return Verdict(chosen, _why(config, chosen, best[0], len(known), len(close)))


def _is_close(one: Accuracy, other: Accuracy, name: str) -> bool:
    """Whether two standard errors of the difference explain the difference."""
    apart = abs(getattr(one, name) - getattr(other, name))
    return bool(apart <= 2 * math.hypot(one.spread[name], other.spread[name]))


def _why(config: SurveyConfig, chosen: Setting, best: Setting, known: int, close: int) -> str:
    if known == 1:
        return "no other method that suits this design has that measure"
    if chosen.method == best.method:
        return "best at the target" if close == 1 else "as good as any method here"
    if config.method in (AUTO, chosen.method):
        return f"{best.method} is not significantly better"
    return f"{best.method} is not significantly better, and assumes more"


def _plan_order(name: str) -> float:
    """Sort key of a method; smaller: it assumes less; infinite: a plan compares it only on
    request."""
    order = getattr(METHODS[name], "plan_order", None)
    return math.inf if order is None else order


def _accepts(config: SurveyConfig, name: str) -> bool:
    setting = Setting(method=name, epsilon=1.0, people=1000, answers=answers_of(config))
    try:
        tried = with_setting(config, setting)
        method = METHODS[name].resolve(tried).method
        if isinstance(method, PlannedMethod):
            method.calibrate(tried)
    except ConfigError:
        return False
    return True


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
    n_items = len(tried.items.catalogue.names)
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
    found, released = [], []
    for replicate in range(repetitions(survey, world)):
        wins = survey.pair_wins(replicate)
        if survey.ties > 0:  # a coin decides ties, as for a method without a model of ties
            cells = survey.with_ties(wins, replicate)
            wins = counts_of(cells, Ties.RANDOM, (survey.seed, replicate))
        counts = PairCounts(wins * weight, weight)
        scores = way(counts, params, noise_bits(survey, replicate))
        found.append(scores_measured(scores, survey.truth(replicate), config.top_k))
        released.append(scores)
    if way is _noisy_wins:  # this way gives an order, but no scores
        found = [each | dict.fromkeys(("error", "largest"), math.nan) for each in found]
    truths = np.array([survey.truth(number) for number in range(len(found) + TRUTHS)])
    if way is _noisy_wins:
        truths = np.array([survey.true_shares(each) for each in truths])
    accuracy = mean_accuracy(found, SCALE_OF_LINK["logistic"])
    wanted, further = np.split(truths, [len(found)])
    if survey.meetings is not None and way is _noisy_wins:  # wins say how often an item was shown
        return accuracy
    return with_crossed(accuracy, np.array(released), wanted, further, config.top_k)


def _clipped(counts: PairCounts, params: PrivacyParams, bits: RandomBits) -> Floats:
    calibration = calibrate_pair_counts(params, counts.n_items, counts.row_weight)
    return clipped_fit(release_pair_counts(counts, calibration, bits))


def _noisy_wins(counts: PairCounts, params: PrivacyParams, bits: RandomBits) -> Floats:
    calibration = calibrate_win_counts(params, counts.n_items, counts.row_weight)
    wins = WinCounts(counts.won(), counts.row_weight)
    return np.asarray(release_win_counts(wins, calibration, bits).wins, np.float64)


WAYS: dict[str, Way] = {"clipped + Bradley-Terry": _clipped, "noisy wins": _noisy_wins}
