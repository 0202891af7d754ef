"""Whether a Flink cluster makes up for a machine that dies: what its settings say, in words.

A task manager that dies is noticed when its heartbeat is overdue. Until then Flink may send the
restarted job to the dead one again, where it fails again. So restarts must go on for longer than
`heartbeat.timeout`, 50 s unless it is set. Without a strategy a job that has no checkpoints, as all
of Beam's that read files, is never restarted.
"""

from __future__ import annotations

import http.client
import json
import math
import re
import urllib.request
from collections.abc import Callable, Mapping

SECONDS = 5
HEARTBEAT = "heartbeat.timeout"
STRATEGY = "restart-strategy"
FIXED, RATE, GROWING = (
    f"{STRATEGY}.{kind}" for kind in ("fixed-delay", "failure-rate", "exponential-delay")
)
NEVER = ("none", "off", "disable")
WITHOUT_END = str((1 << 31) - 1)  # attempts of an exponential delay, unless they are set
UNITS = {  # in seconds, by the labels that Flink knows
    **dict.fromkeys(("ns", "nano", "nanosecond"), 1e-9),
    **dict.fromkeys(("us", "µs", "micro", "microsecond"), 1e-6),
    **dict.fromkeys(("", "ms", "milli", "millisecond"), 1e-3),
    **dict.fromkeys(("s", "sec", "second"), 1.0),
    **dict.fromkeys(("m", "min", "minute"), 60.0),
    **dict.fromkeys(("h", "hour"), 3600.0),
    **dict.fromkeys(("d", "day"), 86400.0),
}
ADVICE = (
    "Set restart-strategy.type: fixed-delay, with attempts and a delay that together last longer"
    f" than {HEARTBEAT}, for example 4 attempts and 15 s."
)
NOT_CHECKED = "whether Flink makes up for a machine that dies was not checked"
NOBODY_TO_ASK = (
    f"runner: {NOT_CHECKED}, because runner.rest does not name the cluster's REST interface."
)

Settings = Mapping[str, str]


def restart_notes(address: str | None) -> tuple[str, ...]:
    """Return what speaks against a run on the cluster at `address`; ask its REST interface.

    Args:
        address: host:port; None: nobody knows it, and a note says so.
    """
    if address is None:
        return (NOBODY_TO_ASK,)
    settings = settings_of(address)
    if settings is None:
        return (f"runner: {NOT_CHECKED}: its REST interface at {address} does not answer.",)
    doubt = doubt_about(settings)
    return () if doubt is None else (f"runner: {doubt}",)


def settings_of(address: str) -> dict[str, str] | None:
    """The settings that the cluster at `address`, of its REST interface, tells; None: it does not.

    Never raises for what a server may do: this is a check, not a need.
    """
    try:
        place = f"http://{address}/jobmanager/config"
        with urllib.request.urlopen(place, timeout=SECONDS) as answer:
            return {str(each["key"]): str(each["value"]) for each in json.load(answer)}
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError, RecursionError):
        return None


def doubt_about(settings: Settings) -> str | None:
    """Why a dead task manager would fail a job on a cluster with such settings; None: it does not.

    The keys are those of Flink 1.19 to 2.2, and the older `restart-strategy` in place of
    `restart-strategy.type`. What is not set has Flink's default.
    """
    strategy = settings.get(f"{STRATEGY}.type", settings.get(STRATEGY, NEVER[0])).lower()
    if strategy in NEVER:
        return f"the cluster restarts no job: a run fails if a task manager dies. {ADVICE}"
    how = _STRATEGIES.get(strategy.replace("-", ""))
    if how is None:
        return f"{NOT_CHECKED}: its restart strategy {strategy[:60]!r} is unknown. {ADVICE}"
    lasts, words = how(settings)
    noticed = _seconds(settings, HEARTBEAT, "50 s")
    if not noticed:
        return f"{NOT_CHECKED}: its {HEARTBEAT} {settings[HEARTBEAT][:60]!r} is not understood."
    if lasts > noticed:
        return None
    return (
        f"the cluster restarts a job {words}, and takes {noticed:g} s to notice that a task manager"
        f" died: a run fails if one does. {ADVICE}"
    )


def _fixed_delay(settings: Settings) -> tuple[float, str]:
    """Seconds for which restarts go on while all of them fail at once, and their number in words.

    So for the other strategies.
    """
    attempts = _count(settings, f"{FIXED}.attempts", "1")
    delay = _seconds(settings, f"{FIXED}.delay", "1 s")
    return attempts * delay, f"at most {attempts} times, {delay:g} s apart"


def _failure_rate(settings: Settings) -> tuple[float, str]:
    """A job is given up at the first failure too many within an interval: with delays that are
    long enough there never is one."""
    most = _count(settings, f"{RATE}.max-failures-per-interval", "1")
    interval = _seconds(settings, f"{RATE}.failure-rate-interval", "1 min")
    delay = _seconds(settings, f"{RATE}.delay", "1 s")
    lasts = math.inf if most * delay > interval else most * delay
    return lasts, f"at most {most} times in {interval:g} s, {delay:g} s apart"


def _exponential_delay(settings: Settings) -> tuple[float, str]:
    """Compute retries and time of growing delays, each shortened as much as chance may."""
    attempts = _count(settings, f"{GROWING}.attempts-before-reset-backoff", WITHOUT_END)
    first = _seconds(settings, f"{GROWING}.initial-backoff", "1 s")
    most = _seconds(settings, f"{GROWING}.max-backoff", "1 min")
    factor = _number(settings, f"{GROWING}.backoff-multiplier", "1.5")
    jitter = _number(settings, f"{GROWING}.jitter-factor", "0.1")
    words = f"at most {attempts} times, {first:g} s apart at first and {most:g} s at last"
    growing, last = 0, min(first, most)  # number of growing delays, and length of the others
    if 0 < first < most and factor > 1:
        growing, last = min(attempts, math.ceil(math.log(most / first, factor))), most
    lasts = (attempts - growing) * last
    if growing:
        lasts += first * (factor**growing - 1) / (factor - 1)
    return lasts * (1 - jitter), words


_STRATEGIES: dict[str, Callable[[Settings], tuple[float, str]]] = {
    "fixeddelay": _fixed_delay,
    "failurerate": _failure_rate,
    "exponentialdelay": _exponential_delay,
}


def _count(settings: Settings, key: str, default: str) -> int:
    return int(_number(settings, key, default))


def _number(settings: Settings, key: str, default: str) -> float:
    """A number; 0, which is doubted, if it is none."""
    try:
        number = float(settings.get(key, default))
    except ValueError:
        return 0.0
    return number if math.isfinite(number) else 0.0


def _seconds(settings: Settings, key: str, default: str) -> float:
    """A duration as Flink writes it, such as `10 s`, `PT10S` or milliseconds without a unit.

    Returns 0 for a text that is no duration; the caller says so.
    """
    text = settings.get(key, default).strip().lower()
    found = re.fullmatch(r"(?:pt)?([0-9]+(?:\.[0-9]+)?)\s*([a-zµ]*)", text)
    if found is None:
        return 0.0
    unit = found[2] if found[2] in UNITS else found[2].removesuffix("s")
    return float(found[1]) * UNITS.get(unit, 0.0)
