"""`hushrank plan`: how many people at which epsilons a survey of privatised answers needs."""

from __future__ import annotations

import math
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from hushrank.flows.errors import ConfigError

DEFAULT_MIX = ("0.5", "1", "2", "4")  # shown one by one where no mix is given

TargetError = Annotated[
    float, typer.Option(help="Largest error of a score that is fine, in mean: 0.1, for example.")
]
Items = Annotated[int, typer.Option(help="How many items are ranked.")]
Answers = Annotated[int, typer.Option(help="How many different pairs each person is asked.")]
Mix = Annotated[
    list[str] | None,
    typer.Option(
        "--epsilon",
        metavar="EPSILON[:SHARE]",
        help="What people choose for an answer, and how many of them; several times for a mix.",
    ),
]
People = Annotated[int | None, typer.Option(help="Say instead what so many people give.")]
PerUser = Annotated[
    bool, typer.Option("--per-user", help="The epsilon is for all answers of a person together.")
]
LinkName = Annotated[str, typer.Option(help="logistic, probit or laplace.")]


def plan(
    items: Items,
    answers: Answers,
    target_error: TargetError = 0.1,
    mix: Mix = None,
    people: People = None,
    per_user: PerUser = False,
    link: LinkName = "logistic",
) -> None:
    """Say how many people are needed for scores of a wanted precision, before anybody is asked.

    For methods on privatised answers (privacy.unit: local). No answer is read; nothing is spent.
    """
    from hushrank.estimation.links import link_named
    from hushrank.estimation.planning import information_needed

    n_pairs = items * (items - 1) // 2
    if items < 2 or not 1 <= answers <= n_pairs:
        raise ConfigError(
            f"--answers must be between 1 and the pairs of the items ({max(n_pairs, 1)}), got"
            f" {answers}"
        )
    try:
        needed = information_needed(target_error, items, answers / n_pairs, link_named(link))
    except ValueError as error:
        raise ConfigError(f"{error}") from None
    console = Console()
    console.print(
        f"Scores of {items} items, each person asked {answers} of {n_pairs} pairs, link {link}:",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
    mixes = [_mix(mix)] if mix else [_mix([level]) for level in DEFAULT_MIX]
    console.print(_table(mixes, needed, target_error, answers if per_user else 1, people))
    console.print(
        f"Stop asking when G, the sum of tanh(epsilon of an answer / 2)^2 over people, reaches"
        f" {needed:.4g}.\nNo answer was read; nothing was spent.",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )


def _table(
    mixes: list[dict[float, float]], needed: float, target: float, divisor: int, people: int | None
) -> Table:
    from hushrank.estimation.planning import people_needed

    table = Table(box=None, header_style="dim", pad_edge=False)
    table.add_column("epsilon" if divisor == 1 else "epsilon of a person")
    table.add_column(f"people for error {target:g}", justify="right")
    if people is not None:
        table.add_column(f"error with {people:,} people", justify="right")
    for mix in mixes:
        shares = {epsilon / divisor: share for epsilon, share in mix.items()}
        try:
            enough = people_needed(needed, shares)
        except ValueError as error:
            raise ConfigError(f"--epsilon: {error}") from None
        row = [_mix_text(mix), f"{enough:,}"]
        if people is not None:
            row.append(f"{target * math.sqrt(enough / people):.3g}")
        table.add_row(*row)
    return table


def _mix(levels: list[str]) -> dict[float, float]:
    """Epsilon -> relative number of people.

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


def _mix_text(mix: dict[float, float]) -> str:
    total = sum(mix.values())
    if len(mix) == 1:
        return f"{next(iter(mix)):g}"
    return ", ".join(f"{epsilon:g} ({share / total:.0%})" for epsilon, share in mix.items())
