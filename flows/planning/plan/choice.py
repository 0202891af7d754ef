"""Methods that a plan compares, and the method that it recommends.

A method that is not right for the design of the simulated surveys is never taken, however it fares:
its errors there are not those of a survey with other scores.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import ConfigError
from hushrank.flows.methods.base import PlannedMethod
from hushrank.flows.methods.registry import METHODS
from hushrank.flows.planning.plan.accuracy import SHARES, Accuracy, Target
from hushrank.flows.planning.plan.survey import (
    Setting,
    answers_of,
    is_right,
    needs_list,
    with_setting,
)

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
