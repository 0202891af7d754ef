"""Rerun the experiments of [NZ]: `run` writes a table and figures.

Settings that the paper's text leaves open (its figures give no numbers): synthetic difficulties and
abilities are standard normal, difficulties centred; everybody answers every item; items, people
and epsilons are those of SYNTHETIC, PEOPLE and EPSILONS. Figure 2 takes the user's files of up to
20 items (education), Figure 3 those of more (recommendation), of which each trial draws CATALOGUES
items where there are more; without a file, ratings are made up (`nz_ratings`). `p0` is the sweep of
the supplement. `growth` has more and more people, where the private estimate should tend to the
other.

Every trial has a seed of its own, made from the names of its setting and its number.

Answers of a file, for the experiments of [NZ]. Figures of the experiments of [NZ], as PNG and
SVG.

References:
    [NZ] Nguyen, Zhang. Optimal and private learning from human response data. 2023.
    [NZ] Nguyen, Zhang. Optimal and private learning from human response data. 2023. Figures 1 to 3,
        and Figure 1 of the supplement.
"""

from __future__ import annotations

import csv
import math
import os
import zlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.special import expit

from hushrank.estimation.responses.item_graph import (
    ItemGraph,
    complete_graph,
    connecting_probability,
    random_graph,
)
from hushrank.experiments.nz.nz_trial import (
    DEBIASED,
    GAUSSIAN,
    LAPLACE,
    PAPER,
    PLAIN,
    TIGHT,
    Method,
    Outcomes,
    Scores,
    Series,
    Setting,
    Sheets,
    private_scores,
    sheets_of_ratings,
    stand_in,
    without_privacy,
)
from hushrank.privacy.randomness import seeded_bits

ANSWER_COLUMNS = ("y", "correct")
RATING = "rating"


def read_sheets(path: Path) -> Sheets:
    """Read a Parquet or CSV file in long form: columns user, item, and y or correct (0 or 1).

    With a column rating instead, answers are made of the ratings as in `nz_ratings`.

    Raises:
        ValueError: a column is missing, an answer is not 0 or 1 or given twice, a rating is not a
            number, or there are fewer than 2 items.
    """
    table = pa_csv.read_csv(path) if path.suffix == ".csv" else pa_parquet.read_table(path)
    if {"user", "item", RATING} <= set(table.column_names):
        return _of_ratings(path, table)
    answer = next((name for name in ANSWER_COLUMNS if name in table.column_names), None)
    for name, found in (("user", "user"), ("item", "item"), ("y or correct", answer)):
        if found not in table.column_names:
            have = ", ".join(table.column_names)
            raise ValueError(f"{path}: column {name} not found; it has {have}")
    person, item = (_codes(table.column(name)) for name in ("user", "item"))
    correct = table.column(answer).to_numpy()
    if not np.isin(correct, (0, 1)).all():
        raise ValueError(f"{path}: column {answer} must hold 0 and 1 only, no missing values")
    n_items = int(item.max()) + 1 if len(item) else 0
    if n_items < 2:
        raise ValueError(f"{path}: at least 2 items are needed, found {n_items}")
    right, answered = (np.zeros((int(person.max()) + 1, n_items), np.bool_) for _ in range(2))
    answered[person, item] = True
    if np.count_nonzero(answered) < len(person):
        raise ValueError(f"{path}: a user answers the same item twice")
    right[person, item] = correct == 1
    return Sheets(right, answered)


def _of_ratings(path: Path, table: pa.Table) -> Sheets:
    person, item = (_codes(table.column(name)) for name in ("user", "item"))
    given = table.column(RATING).cast(pa.float64()).to_numpy()
    if not (len(given) and np.isfinite(given).all() and item.max() and person.max()):
        raise ValueError(f"{path}: needs finite ratings of at least 2 items by at least 2 people")
    ratings = np.full((int(person.max()) + 1, int(item.max()) + 1), np.nan)
    ratings[person, item] = given
    return sheets_of_ratings(ratings)


def _codes(column: pa.ChunkedArray) -> NDArray[np.int64]:
    """Codes 0, 1, ... of the values, in their order."""
    _, codes = np.unique(column.to_numpy(), return_inverse=True)
    return np.asarray(codes, np.int64)


matplotlib.use("Agg")  # files only: no window system is needed

ERROR = r"$\|\tilde\beta-\beta\|_2$ to the estimate without privacy"
ERROR_TO_TRUTH = r"$\|\tilde\beta-\beta^*\|_2$ to the true difficulties"
COLORS = {
    (GAUSSIAN, "dense"): "C0",
    (GAUSSIAN, "sparse"): "C1",
    (LAPLACE, "dense"): "C2",
    (LAPLACE, "sparse"): "C3",
    (PLAIN, "dense"): "C4",
    (DEBIASED, "dense"): "C5",
}
STYLES = {TIGHT: "o-", PAPER: "x--"}


def draw_figures(outcomes: Outcomes, out: Path) -> None:
    """Draw every figure that has outcomes into `out`."""
    for name in dict.fromkeys(series.setting.figure for series in outcomes):
        own = {
            series: values for series, values in outcomes.items() if series.setting.figure == name
        }
        if name == "p0":
            figures = {name: _sweep(own)}
        elif name == "growth":
            figures = {name: _growth(own)}
        else:
            figures = {name: _mechanisms(own), f"{name}_gain": _gain(own)}
        for title, figure in figures.items():
            for kind in ("png", "svg"):
                figure.savefig(out / f"figure_{title}.{kind}", dpi=120)


def _panels(rows: int, columns: int) -> tuple[Figure, Any]:
    figure = Figure(figsize=(4.6 * columns, 3.6 * rows), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False)


def _settings(outcomes: Outcomes) -> list[Setting]:
    return list(dict.fromkeys(series.setting for series in outcomes))


def _line(
    axes: Axes,
    outcomes: Outcomes,
    chosen: Callable[[Series], bool],
    x: Callable[[Series], float],
    style: str,
    **options: Any,
) -> None:
    """Mean over trials with a band of two standard errors, over the chosen series."""
    members = sorted((series for series in outcomes if chosen(series)), key=x)
    places = [x(series) for series in members]
    mean = np.array([np.mean(outcomes[series]) for series in members])
    error = np.array([np.std(outcomes[s]) / math.sqrt(len(outcomes[s])) for s in members])
    (line,) = axes.plot(places, mean, style, markersize=4, **options)
    axes.fill_between(
        places,
        np.maximum(mean - 2 * error, 0.5 * mean),  # above 0, for the logarithmic axis
        mean + 2 * error,
        color=line.get_color(),
        alpha=0.15,
    )


def _mechanisms(outcomes: Outcomes) -> Figure:
    """Error against epsilon, a panel a setting; solid: tight constants, dashed: the paper's."""
    settings = _settings(outcomes)
    columns = min(2, len(settings))
    figure, axes = _panels(math.ceil(len(settings) / columns), columns)
    for panel, setting in zip(axes.flat, settings, strict=False):
        for (mechanism, graph), color in COLORS.items():
            for constants, style in STYLES.items():
                _line(
                    panel,
                    outcomes,
                    _is(setting, Method(mechanism, graph, constants), "l2"),
                    _epsilon,
                    style,
                    color=color,
                    label=f"{mechanism}, {graph}" if constants == TIGHT else None,
                )
        panel.loglog()
        panel.set_title(f"{setting.data}: m = {setting.m}, n = {setting.n}")
        panel.set_xlabel(r"$\epsilon$")
        panel.set_ylabel(ERROR)
    for panel in axes.flat[len(settings) :]:
        panel.set_axis_off()
    axes[0, 0].legend(fontsize=7, title="dashed: the paper's constants", title_fontsize=7)
    return figure


def _gain(outcomes: Outcomes) -> Figure:
    """Error with the paper's constants over error with tight ones, discrete Gaussian, dense."""
    figure, axes = _panels(1, 1)
    panel = axes[0, 0]
    for setting in _settings(outcomes):
        ratios = {}
        for series, values in outcomes.items():
            if series.setting == setting and series.metric == "l2":
                ratios[series.epsilon, series.method] = float(np.mean(values))
        tight, paper = (Method(GAUSSIAN, "dense", constants) for constants in (TIGHT, PAPER))
        epsilons = sorted(epsilon for epsilon, method in ratios if method == tight)
        gain = [ratios[epsilon, paper] / ratios[epsilon, tight] for epsilon in epsilons]
        label = f"{setting.data}: m = {setting.m}, n = {setting.n}"
        panel.semilogx(epsilons, gain, "o-", markersize=4, label=label)
    panel.axhline(1, color="grey", linewidth=1)
    panel.axhline(math.sqrt(2), color="grey", linestyle=":", label="half the variance")
    panel.set_xlabel(r"$\epsilon$")
    panel.set_ylabel("error with the paper's constants / ours")
    panel.legend(fontsize=7)
    return figure


def _sweep(outcomes: Outcomes) -> Figure:
    """Error against the edge probability, a line an epsilon; dashed: the paper's constants."""
    figure, axes = _panels(1, 1)
    panel = axes[0, 0]
    for number, epsilon in enumerate(sorted({s.epsilon for s in outcomes} - {math.inf})):
        for constants, style in STYLES.items():
            _line(
                panel,
                {
                    series: values
                    for series, values in outcomes.items()
                    if series.epsilon == epsilon and series.method.constants == constants
                },
                lambda series: series.metric == "l2",
                lambda series: float(series.method.graph.removeprefix("p0=")),
                style,
                color=f"C{number}",
                label=rf"$\epsilon$ = {epsilon:g}" if constants == TIGHT else None,
            )
    panel.loglog()
    panel.set_xlabel("edge probability $p_0$")
    panel.set_ylabel(ERROR)
    panel.legend(fontsize=7)
    return figure


def _growth(outcomes: Outcomes) -> Figure:
    """Error to the truth against the number of people, with and without privacy."""
    figure, axes = _panels(1, 1)
    panel = axes[0, 0]
    lines = {Method("none", "dense", TIGHT): "k"}
    lines |= {Method(*key, TIGHT): color for key, color in COLORS.items()}
    for method, color in lines.items():
        _line(
            panel,
            outcomes,
            _is(None, method, "l2_truth"),
            lambda series: float(series.setting.n),
            "o-",
            color=color,
            label=f"{method.mechanism}, {method.graph}",
        )
    panel.loglog()
    panel.set_xlabel("people n")
    panel.set_ylabel(ERROR_TO_TRUTH)
    panel.legend(fontsize=7)
    return figure


def _is(setting: Setting | None, method: Method, metric: str) -> Callable[[Series], bool]:
    return lambda series: (
        (setting is None or series.setting == setting)
        and series.method == method
        and series.metric == metric
    )


def _epsilon(series: Series) -> float:
    return series.epsilon


DELTA = 1e-4
TRIALS, QUICK_TRIALS = 100, 5
AT_ONCE = 5  # trials that a process takes at a time
FIGURES = ("1", "2", "3", "p0", "growth")
CATALOGUES = (50, 200)  # items of Figure 3, a and b
STAND_IN = "stand-in"
FEW_ITEMS = 20
SYNTHETIC = tuple(product((10, 50, 100), (200, 1000)))
PEOPLE = (200, 1000, 5000, 25_000)
EPSILONS = (0.01, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
MULTIPLES = (1.0, 2.0, 4.0, 8.0, math.inf)  # of log(m) / m; infinity is the complete graph
METHODS = tuple(
    Method(mechanism, graph, constants)
    for mechanism, graph, constants in product(
        (GAUSSIAN, LAPLACE, PLAIN, DEBIASED), ("dense", "sparse"), (TIGHT, PAPER)
    )
    if (mechanism, constants) != (DEBIASED, PAPER)  # the paper does not debias
)
COLUMNS = ("figure", "data", "m", "n", "epsilon", "delta", "mechanism", "graph", "constants")


def run(
    only: Sequence[str] | None, trials: int | None, quick: bool, out: Path, data: Sequence[Path]
) -> None:
    """Rerun experiments and write `results.csv` and the figures into `out`.

    Args:
        only: names among 1, 2, 3, p0 and growth; None: all for which there is data.
        trials: of each setting; None: 100, or 5 with `quick`.
        quick: few trials.
        out: folder, made if missing.
        data: files of answers (Parquet or CSV: user, item, and y or correct) for Figures 2 and 3,
            or of ratings (user, item, rating) for Figure 3.

    Raises:
        ValueError: a name is unknown, `trials` is not positive, a figure was asked for without a
            file for it, or a file cannot be used.
    """
    count = (QUICK_TRIALS if quick else TRIALS) if trials is None else trials
    if count < 1:
        raise ValueError(f"trials must be >= 1, got {count}")
    files = _settings_of_files(data)
    if (only is None or "3" in only) and not any(own.figure == "3" for own in files):
        files |= _panels_of(STAND_IN, sheets_of_ratings(stand_in()))
    settings = _chosen(only, files)
    tasks = [
        (setting, files.get(setting), range(start, min(start + AT_ONCE, count)))
        for setting in settings
        for start in range(0, count, AT_ONCE)
    ]
    outcomes: dict[Series, list[float]] = {}
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for found in pool.map(_trials, *zip(*tasks, strict=True)):
            for series, values in found.items():
                outcomes.setdefault(series, []).extend(values)
    out.mkdir(parents=True, exist_ok=True)
    write_results(outcomes, out / "results.csv")
    draw_figures(outcomes, out)


def _settings_of_files(paths: Sequence[Path]) -> dict[Setting, Sheets]:
    found: dict[Setting, Sheets] = {}
    for path in paths:
        sheets = read_sheets(path)
        if sheets.n_items > FEW_ITEMS:
            found |= _panels_of(path.stem, sheets)
        else:
            found[Setting("2", path.stem, sheets.n_items, sheets.n_people)] = sheets
    return found


def _panels_of(name: str, sheets: Sheets) -> dict[Setting, Sheets]:
    sizes = dict.fromkeys(min(items, sheets.n_items) for items in CATALOGUES)
    return {Setting("3", name, items, sheets.n_people): sheets for items in sizes}


def _chosen(only: Sequence[str] | None, files: Mapping[Setting, Sheets]) -> list[Setting]:
    simulated = [Setting("1", "synthetic", m, n) for m, n in SYNTHETIC]
    simulated += [Setting("p0", "synthetic", 100, 1000)]
    simulated += [Setting("growth", "synthetic", 50, n) for n in PEOPLE]
    every = [*simulated, *files]
    if only is None:
        return every
    unknown = [name for name in only if name not in FIGURES]
    if unknown:
        raise ValueError(f"--only: no figure {unknown[0]!r}; there are {', '.join(FIGURES)}")
    available = {setting.figure for setting in every}
    missing = [name for name in only if name not in available]
    if missing:
        raise ValueError(
            f"--only {missing[0]} needs --data FILE, answers to up to {FEW_ITEMS} items"
        )
    return [setting for setting in every if setting.figure in only]


def _trials(setting: Setting, sheets: Sheets | None, numbers: range) -> dict[Series, list[float]]:
    outcomes: dict[Series, list[float]] = {}
    for number in numbers:
        seed = [zlib.crc32(repr(setting).encode()), number]
        for series, value in trial(setting, sheets, np.random.default_rng(seed)).items():
            outcomes.setdefault(series, []).append(value)
    return outcomes


def trial(setting: Setting, sheets: Sheets | None, rng: np.random.Generator) -> dict[Series, float]:
    """One trial of a setting: all its methods and epsilons on the same answers.

    Args:
        setting: which.
        sheets: the answers, to at least m items, or None to simulate them.
        rng: of the simulation, and of the seeds of the mechanisms.

    Returns:
        `l2`, the l2 norm of the private estimate less the one without privacy; for simulated
        answers also `l2_truth`, less the true difficulties.
    """
    truth: Scores | None = None
    if sheets is None:
        truth, sheets = simulated(setting.m, setting.n, rng)
    if sheets.n_items > setting.m:
        items = np.sort(rng.choice(sheets.n_items, setting.m, replace=False))
        sheets = Sheets(sheets.right[:, items], sheets.answered[:, items])
    reference = without_privacy(sheets)
    bits = seeded_bits(int(rng.integers(2**63)))
    graphs = {"dense": complete_graph(setting.m)}
    epsilons = (1.0,) if setting.figure == "growth" else EPSILONS
    methods = METHODS
    if setting.figure == "p0":
        graphs = _swept_graphs(setting.m, rng)
        methods = tuple(
            Method(GAUSSIAN, graph, constants)
            for graph, constants in product(graphs, (TIGHT, PAPER))
        )
    else:
        graphs["sparse"] = random_graph(setting.m, connecting_probability(setting.m), bits)
    values = {}
    for epsilon, method in product(epsilons, methods):
        scores = private_scores(sheets, graphs[method.graph], method, epsilon, DELTA, bits)
        values[Series(setting, epsilon, method, "l2")] = _distance(scores, reference)
        if truth is not None:
            values[Series(setting, epsilon, method, "l2_truth")] = _distance(scores, truth)
    if truth is not None:
        open_ = Series(setting, math.inf, Method("none", "dense", TIGHT), "l2_truth")
        values[open_] = _distance(reference, truth)
    return values


def simulated(m: int, n: int, rng: np.random.Generator) -> tuple[Scores, Sheets]:
    """Difficulties, and the sheets of people who answer everything under the Rasch model."""
    true = rng.normal(size=m)
    true -= true.mean()
    right = rng.random((n, m)) < expit(rng.normal(size=(n, 1)) - true)
    return true, Sheets(right, np.ones_like(right))


def _swept_graphs(m: int, rng: np.random.Generator) -> dict[str, ItemGraph]:
    graphs = {}
    for multiple in MULTIPLES:
        probability = min(1.0, multiple * connecting_probability(m))
        bits = seeded_bits(int(rng.integers(2**63)))
        graphs[f"p0={probability:.3g}"] = random_graph(m, probability, bits)
    return graphs


def _distance(scores: Scores, other: Scores) -> float:
    return float(np.linalg.norm(scores - other))


def write_results(outcomes: Outcomes, path: Path) -> None:
    """One row a series: its mean over the trials, the standard error of that, and their number."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([*COLUMNS, "metric", "mean", "se", "trials"])
        for series, values in outcomes.items():
            own, method = series.setting, series.method
            se = np.std(values, ddof=1) / math.sqrt(len(values)) if len(values) > 1 else math.nan
            writer.writerow(
                [
                    *(own.figure, own.data, own.m, own.n, series.epsilon, DELTA),
                    *(method.mechanism, method.graph, method.constants, series.metric),
                    *(f"{np.mean(values):.6g}", "" if math.isnan(se) else f"{se:.6g}", len(values)),
                ]
            )
