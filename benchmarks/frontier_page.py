"""The page of `benchmarks.frontier`: its measurements, tables and figure."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import asdict, dataclass
from pathlib import Path

ALIKE = 0.02  # of an error: a smaller difference is chance
DESIGNED = (  # refused for some designs
    *("noisy-counts", "win-loss", "noisy-pairs", "noisy-pairs, spectral", "perturbed-mle"),
)
BEGIN, END = "<!-- frontier: begin -->", "<!-- frontier: end -->"


@dataclass(frozen=True)
class Found:
    """Means over logs; nan where a method does not say."""

    setting: str
    epsilon: float
    method: str
    tau: float
    error: float
    held: float
    held_ranks: float


def kept_in(path: Path | None) -> list[Found]:
    """What earlier runs measured."""
    if path is None or not path.exists():
        return []
    return [Found(**json.loads(line)) for line in path.read_text().splitlines()]


def keep(found: Sequence[Found], path: Path | None) -> None:
    """Add measurements to the file."""
    if path is not None:
        with path.open("a") as lines:
            lines.writelines(json.dumps(asdict(each)) + "\n" for each in found)


HEADER = "| method | ε | tau | error | intervals | rank intervals |\n|---|---:|---:|---:|---:|---:|"


def shown(value: float, form: str) -> str:
    """A number, or a dash."""
    return "–" if math.isnan(value) else format(value, form)


def table_line(found: Found) -> str:
    """A row of the table."""
    return (
        f"| {found.method} | {found.epsilon:g} | {found.tau:.3f} | {shown(found.error, '.3f')}"
        f" | {shown(found.held, '.1%')} | {shown(found.held_ranks, '.1%')} |"
    )


Offered = Mapping[str, Set[str]]  # of each setting, methods of ours that its design may name


def losers(found: Sequence[Found], offered: Offered) -> list[str]:
    """Methods whose scores are worse than the naive fit's of the same setting by 2 % and more.

    Only methods that are offered for the design. Not `debiased-rr`, which trusts nobody with the
    answers: the naive fit needs somebody.
    """
    naive = {(each.setting, each.epsilon): each.error for each in found if "clipped" in each.method}
    return [
        f"- {each.setting}, ε = {each.epsilon:g}: {each.method}, error {each.error:.3f}"
        f" (naive {naive[each.setting, each.epsilon]:.3f})"
        for each in found
        if each.method in offered[each.setting]
        and each.error > (1 + ALIKE) * naive[each.setting, each.epsilon]
    ]


def page(found: Sequence[Found], offered: Offered, autos: Mapping[tuple[str, float], str]) -> str:
    """Tables of all settings, and who loses to the naive fit."""
    parts = []
    for setting in dict.fromkeys(each.setting for each in found):
        taken = dict.fromkeys(name for (of, _), name in autos.items() if of == setting)
        rows = [each for each in found if each.setting == setting]
        rows.sort(key=lambda each: each.epsilon)
        methods = dict.fromkeys(each.method for each in rows)
        wrong = [name for name in methods if name in DESIGNED and name not in offered[setting]]
        said = f"`auto` takes {', '.join(taken)}."
        if wrong:
            said += f" Refused for this design: {', '.join(wrong)}."
        parts += [f"### {setting}", "", said, "", HEADER]
        parts += [*map(table_line, rows), ""]
    worse = losers(found, offered) or ["- None."]
    parts += ["### Worse than the naive fit by 2 % and more", "", *worse]
    return "\n".join(parts)


def plot(found: Sequence[Found], offered: Offered, path: Path) -> None:
    """Error of the scores against epsilon, a panel a setting."""
    from matplotlib.figure import Figure

    settings = list(dict.fromkeys(each.setting for each in found))
    ours = frozenset[str]().union(*offered.values())
    rows = -(-len(settings) // 2)
    figure = Figure(figsize=(10, 3 * rows), layout="constrained")
    panels = figure.subplots(rows, 2, squeeze=False).ravel()
    for axes, setting in zip(panels, settings, strict=False):
        for number, method in enumerate(dict.fromkeys(each.method for each in found)):
            mine = [each for each in found if (each.setting, each.method) == (setting, method)]
            if not any(math.isnan(each.error) for each in mine):
                style = "o-" if method in ours else "--" if "no" in method[:2] else "x:"
                color = "black" if style == "--" else f"C{number}"
                errors = [each.error for each in mine]
                axes.loglog(
                    [each.epsilon for each in mine], errors, style, color=color, label=method
                )
        axes.set_title(setting, fontsize=8)
        axes.set(xlabel="epsilon", ylabel="error of a score")
        axes.grid(alpha=0.3)
    for axes in panels[len(settings) :]:
        axes.set_axis_off()
    panels[0].legend(fontsize=6)
    figure.savefig(path, metadata={"Date": None})


def write(
    found: Sequence[Found],
    offered: Offered,
    autos: Mapping[tuple[str, float], str],
    folder: Path,
) -> None:
    """Put the tables into frontier.md, between its two marks, and the figure beside it."""
    target = folder / "frontier.md"
    before, _, rest = target.read_text().partition(BEGIN)
    middle = (
        f"\n![Error of scores against epsilon](frontier.svg)\n\n{page(found, offered, autos)}\n"
    )
    target.write_text(before + BEGIN + middle + END + rest.partition(END)[2])
    plot(found, offered, folder / "frontier.svg")
