"""Whether a Flink cluster makes up for a machine that dies: what its settings say, in words.

A task manager that dies is noticed when its heartbeat is overdue. Until then Flink may send the
restarted job to the dead one again, where it fails again. So restarts must go on for longer than
`heartbeat.timeout`, 50 s unless it is set. Without a strategy a job that has no checkpoints, as all
of Beam's that read files, is never restarted.
"""

from __future__ import annotations

import json
import re
import urllib.request

SECONDS = 5
HEARTBEAT = "heartbeat.timeout"
STRATEGY = "restart-strategy"
UNITS = {"ms": 1e-3, "s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "": 1e-3}
ADVICE = (
    "Set restart-strategy.type: fixed-delay, with attempts and a delay that together last longer"
    f" than {HEARTBEAT}, for example 4 attempts and 15 s."
)


def settings_of(address: str) -> dict[str, str] | None:
    """The settings that the cluster at `address`, of its REST interface, tells; None: it does not.

    Never raises for what a server may do: this is a check, not a need.
    """
    try:
        place = f"http://{address}/jobmanager/config"
        with urllib.request.urlopen(place, timeout=SECONDS) as answer:
            return {str(each["key"]): str(each["value"]) for each in json.load(answer)}
    except (OSError, ValueError, KeyError, TypeError):
        return None


def doubt_about(settings: dict[str, str]) -> str | None:
    """Why a dead task manager would fail a job on a cluster with such settings; None: it does not.

    The keys are those of Flink 1.19 to 2.2, and the older `restart-strategy` in place of
    `restart-strategy.type`.
    """
    strategy = settings.get(f"{STRATEGY}.type", settings.get(STRATEGY, "none"))
    if strategy in ("none", "off", "disable"):
        return f"the cluster restarts no job: a run fails if a task manager dies. {ADVICE}"
    if strategy not in ("fixed-delay", "fixeddelay"):
        return None  # an exponential delay, or a failure rate, goes on for long by default
    attempts = int(settings.get(f"{STRATEGY}.fixed-delay.attempts", "1"))
    delay = _seconds(settings.get(f"{STRATEGY}.fixed-delay.delay", "1 s"))
    noticed = _seconds(settings.get(HEARTBEAT, "50 s"))
    if attempts * delay > noticed:
        return None
    return (
        f"the cluster restarts a job at most {attempts} times, {delay:g} s apart, and takes"
        f" {noticed:g} s to notice that a task manager died: a run fails if one does. {ADVICE}"
    )


def _seconds(text: str) -> float:
    """A duration as Flink writes it, such as `10 s`, `PT10S` or milliseconds without a unit."""
    found = re.fullmatch(r"(?:pt)?([0-9.]+)\s*([a-z]*)", text.strip().lower())
    if found is None:
        return 0.0
    unit = found[2].removesuffix("econds").removesuffix("econd").removesuffix("ec")
    return float(found[1]) * UNITS.get(unit, 1.0)
