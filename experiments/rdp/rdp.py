"""Rerun the experiments of [RDP]: `run` writes a table and figures.

Settings that the paper's text leaves open: Figure 2 has rankings of 5, 10, 15 and 20 items; the
coefficients of Figure 7 are uniform on (-1, 1); Figure 6 has the N of Figure 5. Figure 8 takes the
user's file; of the ten sushi it keeps the paper's five.

Every setting and every part of its replicates has a seed of its own, made from its names, so a part
of the experiments gives the same numbers as the whole, on any number of processors.

Full rankings of a file, for Figure 8 of [RDP]. Figures of the experiments of [RDP], as PNG and
SVG.

References:
    [RDP] Xu, Sun, Cheng. Ranking differential privacy. Sections 3.2 and 6.
    [RDP] Xu, Sun, Cheng. Ranking differential privacy. Section 6.4.
    [RDP] Xu, Sun, Cheng. Ranking differential privacy. Figures 2 and 4 to 8.
"""

from __future__ import annotations

import csv
import math
import os
import zlib
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path

import matplotlib
import numpy as np
import pyarrow.parquet as pa_parquet
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hushrank.experiments.rdp.rdp_trial import (
    Codes,
    Setting,
    Summary,
    Values,
    attack,
    concordance,
    estimated_epsilon,
    personalized,
    real_rankings,
)

SUSHI = (2, 5, 6, 7, 9)  # tuna, salmon roe, tamago, fatty tuna, cucumber roll: the paper's five
N_SUSHI = 10


def read_rankings(path: Path) -> Codes:
    """Read everybody's full ranking of the same items.

    Two forms: Parquet with columns user, item and rank; or the order file of the sushi survey
    (`sushi3a.5000.10.order`): a heading of two numbers, then on every line two numbers and the
    items, best first. Of ten items in an order file the paper's five are kept.

    Returns:
        shape (n, m), item codes 0..m-1, best first.

    Raises:
        ValueError: the file has another form, or a ranking is not one of all items.
    """
    rows = _from_long_form(path) if path.suffix == ".parquet" else _from_order_file(path)
    items = np.unique(rows)
    if rows.shape[1] < 2 or len(items) != rows.shape[1]:
        raise ValueError(f"{path}: every ranking must hold the same items, two or more")
    if (np.sort(rows, axis=1) != items).any():
        raise ValueError(f"{path}: every ranking must hold every item once")
    codes: Codes = np.searchsorted(items, rows).astype(np.int64)
    return codes


def _from_order_file(path: Path) -> Codes:
    try:
        lines = path.read_text(encoding="utf-8").split("\n")[1:]
        rows = np.array([line.split()[2:] for line in lines if line.strip()], np.int64)
    except ValueError:
        raise ValueError(f"{path}: every line after the heading must be numbers alike") from None
    if rows.ndim != 2:
        raise ValueError(f"{path}: no rankings found after the heading")
    if rows.shape[1] != N_SUSHI:
        return rows
    kept = np.isin(rows, SUSHI)
    if (kept.sum(axis=1) != len(SUSHI)).any():
        raise ValueError(f"{path}: every ranking must hold every item once")
    return rows[kept].reshape(len(rows), len(SUSHI))


def _from_long_form(path: Path) -> Codes:
    table = pa_parquet.read_table(path)
    missing = [name for name in ("user", "item", "rank") if name not in table.column_names]
    if missing:
        have = ", ".join(table.column_names)
        raise ValueError(f"{path}: column {missing[0]} not found; it has {have}")
    user, item, rank = (table.column(name).to_numpy() for name in ("user", "item", "rank"))
    _, codes = np.unique(item, return_inverse=True)
    _, people, sizes = np.unique(user, return_inverse=True, return_counts=True)
    if len(np.unique(sizes)) != 1:
        raise ValueError(f"{path}: every user must rank the same number of items")
    return np.asarray(codes[np.lexsort((rank, people))].reshape(len(sizes), -1), np.int64)


matplotlib.use("Agg")  # files only: no window system is needed

EPSILON, N_RANKINGS, USERS = r"$\epsilon$ of a ranking", "synthetic rankings $N$", "users $n$"
LABELS = {
    "2": (EPSILON, "concordant pairs"),
    "4": (r"stated $\epsilon$", r"estimated $\epsilon$"),
    "5": (N_RANKINGS, "probability of the right guess"),
    "6": (N_RANKINGS, "probability of the right guess"),
    "7": (USERS, "pairwise accuracy for new users"),
    "8": (EPSILON, "accuracy relative to no privacy"),
}
BASE_RATE = "no-privacy"  # in the table, not in the figure


def draw_figures(summaries: Sequence[Summary], out: Path) -> None:
    """Draw every figure that has rows into `out`."""
    for name, labels in LABELS.items():
        rows = [
            row
            for row in summaries
            if row.setting.figure == name and not row.method.startswith(BASE_RATE)
        ]
        if rows:
            figure = _figure(rows, *labels)
            for kind in ("png", "svg"):
                figure.savefig(out / f"figure_{name}.{kind}", dpi=120)


def _figure(rows: Sequence[Summary], x_label: str, y_label: str) -> Figure:
    panels = list(dict.fromkeys(_panel(row) for row in rows))
    columns = min(len(panels), 4)
    n_rows = math.ceil(len(panels) / columns)
    figure = Figure(figsize=(4.2 * columns, 3.4 * n_rows), layout="constrained")
    grid = figure.subplots(n_rows, columns, squeeze=False).ravel()
    for axes, panel in zip(grid, panels, strict=False):
        _draw_panel(axes, [row for row in rows if _panel(row) == panel])
        axes.set(title=panel, xlabel=x_label, ylabel=y_label)
    for axes in grid[len(panels) :]:
        axes.set_axis_off()
    return figure


def _draw_panel(axes: Axes, rows: Sequence[Summary]) -> None:
    for line in dict.fromkeys(_line(row) for row in rows):
        own = [row for row in rows if _line(row) == line]
        error = [0.0 if math.isnan(row.se) else 2 * row.se for row in own]
        axes.errorbar(
            [_x(row) for row in own], [row.mean for row in own], error, fmt="o-", ms=3, label=line
        )
    if rows[0].setting.figure == "4":
        stated = sorted({row.setting.epsilon for row in rows})
        axes.plot(stated, stated, "k:", lw=1, label="equal")
    axes.legend(fontsize="x-small")


def _panel(row: Summary) -> str:
    title = f"m = {row.setting.m}"
    return f"{title}, ε = {row.setting.epsilon:g}" if row.setting.figure == "7" else title


def _line(row: Summary) -> str:
    own = row.setting
    if own.figure == "4":
        return row.metric
    if own.figure == "5":
        return f"ε = {own.epsilon:g}"
    return own.note or row.method


def _x(row: Summary) -> float:
    own = row.setting
    return {"5": own.N, "6": own.N, "7": own.n}.get(own.figure, own.epsilon)


FIGURES = ("2", "4", "5", "6", "7", "8")
FROM_FILE = "8"
REPLICATES = {"2": 20_000, "4": 1, "5": 1000, "6": 5000, "7": 50, "8": 50}
QUICK_REPLICATES = {"2": 500, "4": 1, "5": 200, "6": 500, "7": 3, "8": 3}
AT_ONCE = {"7": 5, "8": 5}  # replicates that a process takes at a time; elsewhere all are one array
DRAWS, QUICK_DRAWS = 10**7, 2 * 10**5
SHORT_LISTS = (3, 4, 5)
COLUMNS = ("figure", "m", "n", "N", "epsilon", "method", "metric", "mean", "se", "replicates")


def run(
    only: Sequence[str] | None,
    replicates: int | None,
    quick: bool,
    out: Path,
    data: Sequence[Path] = (),
) -> None:
    """Rerun experiments and write `results.csv` and the figures into `out`.

    Args:
        only: names among 2, 4, 5, 6, 7 and 8; None: all for which there is data.
        replicates: of each setting; None: the paper's (a single one for Figure 4), or few with
            `quick`.
        quick: few replicates, and fewer draws in Figure 4.
        out: folder, made if missing.
        data: one file of full rankings for Figure 8.

    Raises:
        ValueError: a name is unknown, `replicates` is not positive, Figure 8 was asked for without
            a file or with several, or the file cannot be used.
    """
    if replicates is not None and replicates < 1:
        raise ValueError(f"replicates must be >= 1, got {replicates}")
    chosen = _chosen(only, data)
    rankings = read_rankings(data[0]) if FROM_FILE in chosen else None
    tasks = []
    for name in chosen:
        count = (QUICK_REPLICATES if quick else REPLICATES)[name]
        count = count if replicates is None else replicates
        size = AT_ONCE.get(name, count)
        for setting in settings(name, quick, rankings):
            own = rankings if name == FROM_FILE else None
            tasks += [
                (setting, own, range(start, min(start + size, count)))
                for start in range(0, count, size)
            ]
    outcomes: dict[tuple[Setting, str, str], list[float]] = {}
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        found = pool.map(_trials, *zip(*tasks, strict=True))
        for (setting, _, _), values in zip(tasks, found, strict=True):
            for (method, metric), column in values.items():
                outcomes.setdefault((setting, method, metric), []).extend(column.tolist())
    out.mkdir(parents=True, exist_ok=True)
    summaries = [_summary(*key, values) for key, values in outcomes.items()]
    write_results(summaries, out / "results.csv")
    draw_figures(summaries, out)


def settings(figure: str, quick: bool, rankings: Codes | None = None) -> list[Setting]:
    """Every setting of a figure.

    Args:
        figure: its number.
        quick: fewer draws in Figure 4.
        rankings: of the file, for Figure 8.
    """
    draws = QUICK_DRAWS if quick else DRAWS
    numbers = range(10, 101, 10)
    if figure == "2":
        epsilons = np.linspace(0.1, 30, 24).round(3).tolist()
        return [Setting("2", m, 0, 0, e) for m, e in product((5, 10, 15, 20), epsilons)]
    if figure == "4":
        stated = [0.5 + 0.25 * step for step in range(7)]
        return [Setting("4", m, 0, draws, e) for m, e in product(SHORT_LISTS, stated)]
    if figure == "5":
        return [Setting("5", m, 0, N, e) for m, e, N in product(SHORT_LISTS, (1, 2, 3, 4), numbers)]
    if figure == "6":
        found = []
        for m, N in product(SHORT_LISTS, numbers):
            slow = (m - 1) / math.sqrt(N)
            found.append(Setting("6", m, 0, N, slow, "(m-1)/sqrt(N)"))
            found.append(Setting("6", m, 0, N, slow * math.log(N), "(m-1)log(N)/sqrt(N)"))
        return found
    if figure == "7":
        sizes = product((15, 30), (200, 250, 300, 350), (1, 2, 3, 4))
        return [Setting("7", m, n, 0, e) for m, n, e in sizes]
    if rankings is None:
        return []
    n, m = rankings.shape
    return [Setting("8", m, n, 0, e) for e in np.linspace(0.06, 0.5, 12).round(3).tolist()]


def write_results(summaries: Sequence[Summary], path: Path) -> None:
    """One row a mean; `se` is empty where there is one replicate."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for row in summaries:
            own = row.setting
            se = "" if math.isnan(row.se) else f"{row.se:.6g}"
            method = f"{row.method} {own.note}".strip()
            sizes = (own.figure, own.m, own.n or "", own.N or "", f"{own.epsilon:.6g}")
            writer.writerow([*sizes, method, row.metric, f"{row.mean:.6g}", se, row.replicates])


def _chosen(only: Sequence[str] | None, data: Sequence[Path]) -> list[str]:
    if only is None:
        return [name for name in FIGURES if name != FROM_FILE or data]
    unknown = [name for name in only if name not in FIGURES]
    if unknown:
        raise ValueError(f"--only: no figure {unknown[0]!r}; there are {', '.join(FIGURES)}")
    if FROM_FILE in only and len(data) != 1:
        raise ValueError(f"--only 8 needs one --data FILE of full rankings, got {len(data)}")
    return [name for name in FIGURES if name in only]


def _trials(setting: Setting, rankings: Codes | None, numbers: range) -> Values:
    rng = np.random.default_rng([zlib.crc32(repr(setting).encode()), numbers.start])
    if rankings is not None:
        return real_rankings(setting, rng, len(numbers), rankings)
    trials = {
        "2": concordance,
        "4": estimated_epsilon,
        "5": attack,
        "6": attack,
        "7": personalized,
    }
    return trials[setting.figure](setting, rng, len(numbers))


def _summary(setting: Setting, method: str, metric: str, values: Sequence[float]) -> Summary:
    n = len(values)
    se = float(np.std(values, ddof=1) / math.sqrt(n)) if n > 1 else math.nan
    return Summary(setting, method, metric, float(np.mean(values)), se, n)
