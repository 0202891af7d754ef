"""Arguments that more than one command takes."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

from hushrank.flows.errors import ConfigError

JSON_OPTION = "--json"

ConfigPath = Annotated[Path, typer.Argument(metavar="SURVEY.YAML", help="The job's YAML file.")]
ReleaseId = Annotated[
    str, typer.Argument(help="The release's id, as `hushrank ledger show` prints it.")
]
UserColumn = Annotated[str, typer.Option(help="The column that names the person.")]
AsJson = Annotated[
    bool, typer.Option(JSON_OPTION, help="Print one JSON document, for programs, and nothing else.")
]
Anyway = Annotated[
    bool,
    typer.Option(
        "--anyway",
        help="Accept a delta above 1e-5 (or above 1 / (10 * people), if people are stated),"
        " and an epsilon at which the plan's formula predicts no accuracy.",
    ),
]
ThroughPrefect = Annotated[
    bool | None,
    typer.Option(
        "--prefect/--direct",
        help="Run as a Prefect flow, or without Prefect, which starts faster.",
        show_default="direct, unless Prefect's settings name a server",
    ),
]
NightsThroughPrefect = Annotated[
    bool,
    typer.Option(
        "--prefect/--direct",
        help="Run each night as a Prefect flow, on the server in Prefect's settings or else on one"
        " that is started for this command; or run without Prefect.",
    ),
]


def epsilon_mix(levels: list[str]) -> dict[float, float]:
    """Relative number of people at each epsilon, from options such as `1` or `1:0.5`.

    Raises:
        ConfigError: a level is not `epsilon` or `epsilon:share`, both numbers above 0.
    """
    mix: dict[float, float] = {}
    for level in levels:
        try:
            epsilon, _, share = level.partition(":")
            numbers = float(epsilon), float(share or 1)
        except ValueError:
            numbers = (math.nan, math.nan)
        if not all(math.isfinite(number) and number > 0 for number in numbers):
            raise ConfigError(f"--epsilon must be a number > 0, or two as 1:0.5, got {level!r}")
        mix[numbers[0]] = mix.get(numbers[0], 0.0) + numbers[1]
    return mix


def mix_text(mix: dict[float, float]) -> str:
    """Text that lists each epsilon with its share of the people."""
    total = sum(mix.values())
    if len(mix) == 1:
        return f"{next(iter(mix)):g}"
    return ", ".join(f"{epsilon:g} ({share / total:.0%})" for epsilon, share in mix.items())
