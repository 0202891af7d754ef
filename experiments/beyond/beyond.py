"""Rerun the comparisons of what hushrank adds with what there was: one figure a module.

A module of this room with a `FIGURE` is found and measured. To add one, add a module.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import asdict, fields
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import hushrank.experiments.beyond
from hushrank.experiments.beyond.figure import Figure, Point, draw


def figures() -> dict[str, Figure]:
    """All figures by name."""
    package = hushrank.experiments.beyond
    modules = [
        import_module(f"{package.__name__}.{module.name}")
        for module in iter_modules(package.__path__)
        if f"{package.__name__}.{module.name}" != __name__
    ]
    found = [module.FIGURE for module in modules if hasattr(module, "FIGURE")]
    return {figure.name: figure for figure in found}


def run(
    only: Sequence[str] | None,
    replicates: int | None,
    quick: bool,
    out: Path,
    data: Sequence[Path] = (),
) -> None:
    """Write `results.csv` and the figures into `out`.

    Args:
        only: names of figures; None: all.
        replicates: of each point; None: as many as each figure says.
        quick: few replicates.
        out: folder, made if missing.
        data: none is used.

    Raises:
        ValueError: a name is unknown, `replicates` is not positive, or a file was given.
    """
    known = figures()
    unknown = set(only or ()) - set(known)
    if unknown:
        raise ValueError(f"unknown figure {sorted(unknown)[0]!r}; known: {', '.join(known)}")
    if data:
        raise ValueError("--data: no real answers are used")
    if replicates is not None and replicates < 1:
        raise ValueError(f"replicates must be >= 1, got {replicates}")
    out.mkdir(parents=True, exist_ok=True)
    rows = []
    for name in only or known:
        figure = known[name]
        count = replicates or (figure.quick if quick else figure.replicates)
        points = figure.measure(count)
        draw(figure, points, out)
        rows += [{"figure": name, **asdict(point)} for point in points]
    with (out / "results.csv").open("w", newline="") as stream:
        writer = csv.DictWriter(stream, ["figure", *(field.name for field in fields(Point))])
        writer.writeheader()
        writer.writerows(
            {key: f"{v:.6g}" if isinstance(v, float) else v for key, v in row.items()}
            for row in rows
        )
