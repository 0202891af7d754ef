"""`schedule.budget: per-month`: what a night costs follows from the ledger's total.

The privacy section then names no epsilon. Its place is taken by the largest one of which as many
nights as a month may have stay within `ledger.epsilon` together, by the accountant of the ledger.
It is part of the configuration like one that was written down: public, and the same every month.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hushrank.flows.config_errors import refuse
from hushrank.flows.config_schedule import MOST_NIGHTS, NightlyBudget
from hushrank.flows.config_section import LEAST_LOSS, MOST_LOSS
from hushrank.privacy.units import NoiseKind

_COMPUTED = "is computed under schedule.budget: per-month; remove it, or write budget: per-night"


def with_nightly_share(content: Any) -> Any:
    """The content of a YAML file, with the privacy of a night where the file leaves that to us.

    Content that is wrong otherwise is returned as it is, to be refused in the usual words.

    Raises:
        PydanticCustomError: the file says two things at once, or the budget of a month nowhere.
    """
    if not isinstance(content, Mapping):
        return content
    schedule, privacy, ledger = (content.get(key) for key in ("schedule", "privacy", "ledger"))
    if not isinstance(schedule, Mapping) or not _shares(schedule.get("budget")):
        return content
    if not (isinstance(privacy, Mapping) and isinstance(ledger, Mapping)):
        return content
    problems = list(_problems(content, privacy, ledger))
    if problems:
        refuse(*problems)
    total, delta = ledger.get("epsilon"), ledger.get("delta", 0.0)
    nights = schedule.get("nights", MOST_NIGHTS)
    if not isinstance(total, int | float) or not isinstance(delta, int | float):
        return content
    if not LEAST_LOSS <= total <= MOST_LOSS:
        return content
    if not isinstance(nights, int) or privacy.get("noise", "laplace") not in list(NoiseKind):
        return content
    from hushrank.privacy.budget_split import even_share

    noise = NoiseKind(privacy.get("noise", "laplace"))
    try:
        share = even_share(noise, nights, total, delta)
    except ValueError:
        return content
    found = {"epsilon": share.epsilon} if share.rho is None else {"rho": share.rho}
    return {**content, "privacy": {**privacy, **found}}


def _shares(budget: object) -> bool:
    return isinstance(budget, str) and budget.replace("_", "-") == NightlyBudget.PER_MONTH


def _problems(
    content: Mapping[str, Any], privacy: Mapping[str, Any], ledger: Mapping[str, Any]
) -> Iterable[tuple[str, str]]:
    for key in ("epsilon", "rho", "delta"):
        if key in privacy:
            yield f"privacy.{key}", _COMPUTED
    if privacy.get("unit") == "local":
        yield (
            "schedule.budget",
            "per-month is not for privacy.unit: local, where people choose; write per-night",
        )
    if ledger.get("refresh") != "monthly":
        yield "ledger.refresh", "must be monthly with schedule.budget: per-month"
    if privacy.get("noise") == NoiseKind.GAUSSIAN:
        if not ledger.get("delta"):
            yield "ledger.delta", "missing; noise: gaussian needs it. Add for example delta: 1.0e-6"
        if content.get("method") == "noisy-objective":
            yield (
                "schedule.budget",
                "per-month is not for method: noisy-objective, whose cost is no rho; write"
                " per-night",
            )
