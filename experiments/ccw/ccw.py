"""Rerun the experiments of [CCW]: `run` writes a table and the paper's figures.

Every replicate has a seed of its own, made from its setting and its number, so a part of the
experiments gives the same numbers as the whole, on any number of processors.

Processes that share the processors fairly.

References:
    [CCW] Cai, Chakraborty, Wang. Optimal differentially private ranking from pairwise comparisons.
        2025. §4.
"""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from hushrank.experiments.ccw.ccw_figures import Summary, draw_figures
from hushrank.experiments.ccw.ccw_trials import (
    CEMS_EPSILONS,
    Answers,
    Setting,
    Values,
    read_answers,
    simulated,
    simulated_settings,
    with_real_answers,
)

THREAD_LIMITS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


@contextmanager
def one_process_per_processor() -> Iterator[ProcessPoolExecutor]:
    """A pool whose processes compute on one thread each.

    Otherwise each starts as many threads for linear algebra as there are processors, and they wait
    for each other: eight times as slow, measured on two. A library reads the limit when it is
    loaded, so the processes are started afresh, under the limit, and not forked.
    """
    before = {name: os.environ.get(name) for name in THREAD_LIMITS}
    os.environ.update(dict.fromkeys(THREAD_LIMITS, "1"))
    try:
        with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
            yield pool
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


REPLICATES, QUICK_REPLICATES = 200, 10
AT_ONCE = 5  # replicates that a process takes at a time
REAL = 8  # the experiment on a file of answers
COLUMNS = [
    "experiment",
    "n",
    "m",
    "p",
    "L",
    "epsilon",
    "method",
    "metric",
    "mean",
    "se",
    "replicates",
]


def run(
    only: Sequence[str] | None,
    replicates: int | None,
    quick: bool,
    out: Path,
    data: Sequence[Path] = (),
) -> None:
    """Rerun experiments and write `results.csv` and the figures into `out`.

    Args:
        only: numbers from 1 to 8; None: all, 8 only if there is data.
        replicates: of each setting; None: 200, or 10 with `quick`.
        quick: few replicates.
        out: folder, made if missing.
        data: the file of answers for experiment 8: columns user, item_i, item_j, outcome.

    Raises:
        ValueError: a number is unknown, `replicates` is not positive, experiment 8 was asked for
            without a file or with several, or the file cannot be used.
    """
    chosen = _chosen(only, data)
    count = (QUICK_REPLICATES if quick else REPLICATES) if replicates is None else replicates
    if count < 1:
        raise ValueError(f"replicates must be >= 1, got {count}")
    tasks = [
        (setting, answers, range(start, min(start + AT_ONCE, count)))
        for setting, answers in _settings(chosen, data)
        for start in range(0, count, AT_ONCE)
    ]
    outcomes: dict[Setting, list[Values]] = {}
    with one_process_per_processor() as pool:
        for (setting, _, _), values in zip(tasks, pool.map(_trials, tasks), strict=True):
            outcomes.setdefault(setting, []).extend(values)
    summaries = [row for setting, values in outcomes.items() for row in _summarise(setting, values)]
    out.mkdir(parents=True, exist_ok=True)
    write_results(summaries, out / "results.csv")
    draw_figures(summaries, out)


def _chosen(only: Sequence[str] | None, data: Sequence[Path]) -> list[int]:
    if len(data) > 1:
        raise ValueError(f"--data: experiment {REAL} takes one file, got {len(data)}")
    every = [*simulated_settings(), REAL]
    if only is None:
        return every if data else every[:-1]
    unknown = [name for name in only if name not in map(str, every)]
    if unknown:
        raise ValueError(f"--only: no experiment {unknown[0]!r}; there are 1 to {REAL}")
    if str(REAL) in only and not data:
        raise ValueError(f"--only {REAL} needs --data FILE with user, item_i, item_j, outcome")
    return [number for number in every if str(number) in only]


def _settings(chosen: Sequence[int], data: Sequence[Path]) -> list[tuple[Setting, Answers | None]]:
    known = simulated_settings()
    settings: list[tuple[Setting, Answers | None]] = [
        (setting, None) for number in chosen if number != REAL for setting in known[number]
    ]
    if REAL in chosen:
        answers = read_answers(data[0])
        n_items = answers.counts.n_items
        real = Setting(REAL, n_items, CEMS_EPSILONS, m=answers.users, rows=answers.most_rows)
        settings.append((real, answers))
    return settings


def _trials(task: tuple[Setting, Answers | None, range]) -> list[Values]:
    setting, answers, replicates = task
    if answers is None:
        return [simulated(setting, replicate) for replicate in replicates]
    return [with_real_answers(setting, answers, replicate) for replicate in replicates]


def _summarise(setting: Setting, values: Sequence[Values]) -> list[Summary]:
    count = len(values)
    rows = []
    for epsilon, method, metric in values[0]:
        errors = np.array([each[epsilon, method, metric] for each in values])
        se = float(errors.std(ddof=1)) / math.sqrt(count) if count > 1 else math.nan
        rows.append(Summary(setting, epsilon, method, metric, float(errors.mean()), se, count))
    return rows


def write_results(summaries: Sequence[Summary], path: Path) -> None:
    """One row for each setting, epsilon, method and metric; what does not apply is left empty."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for row in summaries:
            setting = row.setting
            place = (setting.experiment, setting.n, setting.m, setting.p, setting.rows)
            errors = (f"{row.mean:.6g}", f"{row.se:.3g}", row.replicates)
            writer.writerow((*place, row.epsilon, row.method, row.metric, *errors))
