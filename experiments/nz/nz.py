"""Rerun the experiments of [NZ]: `run` writes a table and figures.

Settings that the paper's text leaves open (its figures give no numbers): synthetic difficulties and
abilities are standard normal, difficulties centred; everybody answers every item; items, people
and epsilons are those of SYNTHETIC, PEOPLE and EPSILONS. Figure 2 takes the user's files of up to
20 items (education), Figure 3 those of more (recommendation), of which each trial draws CATALOGUES
items where there are more; without a file, ratings are made up (`nz_ratings`). `p0` is the sweep of
the supplement. `growth` has more and more people, where the private estimate should tend to the
other.

Every trial has a seed of its own, made from the names of its setting and its number.

References:
    [NZ] Nguyen, Zhang. Optimal and private learning from human response data. 2023.
"""

from __future__ import annotations

import csv
import math
import os
import zlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path

import numpy as np
from scipy.special import expit

from hushrank.estimation.responses.item_graph import (
    ItemGraph,
    complete_graph,
    connecting_probability,
    random_graph,
)
from hushrank.experiments.nz.nz_data import read_sheets
from hushrank.experiments.nz.nz_figures import draw_figures
from hushrank.experiments.nz.nz_ratings import sheets_of_ratings, stand_in
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
    without_privacy,
)
from hushrank.privacy.randomness import seeded_bits

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
