"""Tables 3 to 11 of [XSC] by name, cell by cell: ours, the printed number, and their ratio.

References:
    [XSC] Xu, Sun, Cheng. Rate-optimal rank aggregation with private pairwise rankings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from hushrank.experiments.xsc.xsc_paper import PRINTED, Printed
from hushrank.experiments.xsc.xsc_setting import Setting

NOT_AT_HAND = "no printed number at hand"


@dataclass(frozen=True, slots=True)
class Table:
    """What one table of the paper shows."""

    number: int
    scenario: str
    metrics: tuple[str, ...]
    what: str


TABLES = (
    Table(3, "S.1.2", ("l2", "sigma_error"), "person effects"),
    Table(4, "S.1.3", ("correct_link",), "share of correct links"),
    Table(5, "I", ("l2", "linf"), "Scenario I"),
    Table(6, "III", ("l2",), "Scenario III, ℓ2"),
    Table(7, "III", ("linf",), "Scenario III, ℓ∞"),
    Table(8, "IV", ("kendall",), "Scenario IV, full ranking error"),
    Table(9, "IV", ("topk",), "Scenario IV, top-K error"),
    Table(10, "V", ("l2", "linf"), "Scenario V, errors of scores"),
    Table(11, "V", ("kendall", "topk"), "Scenario V, errors of ranks"),
)
NAMES = {
    "l2": "ℓ2",
    "linf": "ℓ∞",
    "sigma_error": "σ",
    "correct_link": "links",
    "kendall": "full ranking",
    "topk": "top K",
}

Cell = tuple[Setting, str, str]  # a setting, a method, a metric
Means = Mapping[Cell, tuple[float, float]]  # mean and standard error


def markdown_tables(ours: Means) -> str:
    """A table for each that has numbers: a line a series, a column a number of people."""
    theirs = {(cell.setting, cell.method, cell.metric): cell for cell in PRINTED}
    parts = []
    for table in TABLES:
        cells = [
            cell
            for metric in table.metrics
            for cell in ours
            if cell[0].scenario == table.scenario and cell[2] == metric
        ]
        if cells:
            parts.append("\n".join(_lines(table, cells, ours, theirs)))
    return "\n\n".join(parts) + "\n"


def _lines(
    table: Table, cells: Sequence[Cell], ours: Means, theirs: Mapping[Cell, Printed]
) -> Iterator[str]:
    printed = any(cell in theirs for cell in cells)
    said = "ours (SE); theirs; ratio" if printed else f"ours (SE); {NOT_AT_HAND}"
    yield f"**Table {table.number}** ({table.what}): {said}"
    yield ""
    people = list(dict.fromkeys(cell[0].L for cell in cells))
    heads = ["" if each is None else f"L = {each}" for each in people]
    yield f"| {' | '.join(['series', *heads])} |"
    yield "|" + "---|" * (1 + len(heads))
    for name, row in groupby(cells, key=series_of):
        texts = (_text(ours[cell], theirs.get(cell), printed=printed) for cell in row)
        yield f"| {' | '.join([name, *texts])} |"


def series_of(cell: Cell) -> str:
    """What a line is of."""
    setting, method, metric = cell
    parts = [setting.link if setting.link != "auto" else "", NAMES[metric]]
    parts += [f"scheme {setting.scheme}"] if setting.scheme else []
    parts += [f"gap {setting.delta:g}"] if setting.delta is not None else []
    parts += [f"m = {setting.m}"] if setting.m is not None else [f"`{method}`"]
    return ", ".join(part for part in parts if part)


def _text(ours: tuple[float, float], theirs: Printed | None, *, printed: bool) -> str:
    mean, se = ours
    text = f"{mean:.4f} ({se:.4f})"
    if theirs is not None:
        return f"{text}; {theirs.mean:.4f}; {mean / theirs.mean:.2f}"
    return f"{text}; none" if printed else text
