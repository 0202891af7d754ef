"""Rerun the experiments of [XSC]: `run` writes a table, a comparison with the paper, and figures.

Every replicate has a seed of its own, made from the names of its setting and its number, so a part
of the experiments gives the same numbers as the whole, on any number of processors.

References:
    [XSC] Xu, Sun, Cheng. Rate-optimal rank aggregation with private pairwise rankings.
"""

from __future__ import annotations

import csv
import math
import os
import zlib
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hushrank.estimation.common.links import link_named
from hushrank.experiments.xsc.xsc_application import (
    Answers,
    PairedTest,
    paired_tests,
    ranking_without_privacy,
    ranks_without_privacy,
    read_answers,
    with_drawn_epsilon,
)
from hushrank.experiments.xsc.xsc_figures import draw_figures
from hushrank.experiments.xsc.xsc_paper import PRINTED, REPLICATES, markdown_tables
from hushrank.experiments.xsc.xsc_scenarios import inverse_sqrt_b, kendall_errors, scenarios
from hushrank.experiments.xsc.xsc_setting import LINKS, OURS, Scenario, Setting, Values, all_scores

QUICK_REPLICATES = 10
AT_ONCE = 10  # replicates that a process takes at a time
APPLICATION = "application"
PAIRED = (APPLICATION, "table-2", "V")  # compared replicate by replicate
FIELDS = ("scenario", "link", "m", "L", "scheme", "delta", "share", "method", "metric")

# Values of all replicates, in their order, by setting, method and metric.
Outcomes = dict[tuple[Setting, str, str], list[float]]


@dataclass(frozen=True, slots=True)
class Summary:
    """One row of the table."""

    setting: Setting
    method: str
    metric: str
    mean: float
    sd: float
    replicates: int

    @property
    def se(self) -> float:
        """Standard error of the mean."""
        return self.sd / math.sqrt(self.replicates)


def run(
    only: Sequence[str] | None,
    replicates: int | None,
    quick: bool,
    out: Path,
    data: Sequence[Path] = (),
) -> None:
    """Rerun experiments and write results, comparisons with the paper and figures into `out`.

    `results.csv` has every mean, `comparison.csv` those beside a printed number, and `tables.md`
    Tables 3 to 11 by name.

    Args:
        only: names among I, II, III, IV, V, S.1.2, S.1.3, S.3, figure-3, table-2 and application
            (Tables 1 and 2, Figure 14); None: all.
        replicates: of each setting (30 at most for S.3, as in the paper, and 20 times as many for
            table-2); None: 200, or 10 with `quick`.
        quick: few replicates, and the largest sizes of S.3 left out.
        out: folder, made if missing; `paired_tests.csv` comes beside the others, and
            `ranks_without_privacy.csv` with the application.
        data: the file of answers for the real application; without it that part is left out.

    Raises:
        ValueError: a name is unknown, `replicates` is not positive, the application was asked for
            without a file or with several, or the file cannot be used.
    """
    known = scenarios(quick)
    chosen = _chosen(only, known, data)
    count = (QUICK_REPLICATES if quick else REPLICATES) if replicates is None else replicates
    if count < 1:
        raise ValueError(f"replicates must be >= 1, got {count}")
    answers = read_answers(data[0]) if APPLICATION in chosen else None
    outcomes: Outcomes = {}
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for name in chosen:
            if name != APPLICATION:
                outcomes |= _run_scenario(name, known[name], count, pool)
    if answers is not None:
        outcomes |= _run_application(answers, count)
    out.mkdir(parents=True, exist_ok=True)
    summaries = summarise(outcomes)
    write_results(summaries, out / "results.csv")
    write_comparison(summaries, out / "comparison.csv")
    means = {(row.setting, row.method, row.metric): (row.mean, row.se) for row in summaries}
    (out / "tables.md").write_text(markdown_tables(means), encoding="utf-8")
    _write_tests(_tests(outcomes), out / "paired_tests.csv")
    if answers is not None:
        _write_ranks(answers, out / "ranks_without_privacy.csv")
    draw_figures(outcomes, out)


def _chosen(
    only: Sequence[str] | None, known: Mapping[str, Scenario], data: Sequence[Path]
) -> list[str]:
    every = [*known, APPLICATION]
    if len(data) > 1:
        raise ValueError(f"--data: the application takes one file, got {len(data)}")
    if only is None:
        return every if data else list(known)
    unknown = [name for name in only if name not in every]
    if unknown:
        raise ValueError(f"--only: no experiment {unknown[0]!r}; there are {', '.join(every)}")
    if APPLICATION in only and not data:
        raise ValueError("--only application needs --data FILE, a CSV file of answers")
    return [name for name in every if name in only]


def _run_scenario(name: str, scenario: Scenario, count: int, pool: ProcessPoolExecutor) -> Outcomes:
    count = min(count, scenario.most_replicates or count) * scenario.times
    starts = range(0, count, AT_ONCE)
    tasks = [
        (name, setting, start, min(start + AT_ONCE, count))
        for setting in scenario.settings
        for start in starts
    ]
    done: Iterable[list[Values]] = (
        map(_replicates, tasks) if scenario.timed else pool.map(_replicates, tasks)
    )
    outcomes: Outcomes = {}
    for (_, setting, _, _), values in zip(tasks, done, strict=True):
        for replicate in values:
            for (method, metric), value in replicate.items():
                outcomes.setdefault((setting, method, metric), []).append(value)
    return outcomes


def _replicates(task: tuple[str, Setting, int, int]) -> list[Values]:
    name, setting, start, stop = task
    replicate = scenarios(quick=False)[name].replicate
    return [replicate(setting, _generator(setting, number)) for number in range(start, stop)]


def _generator(setting: Setting, replicate: int) -> np.random.Generator:
    return np.random.default_rng([zlib.crc32(repr(setting).encode()), replicate])


def _run_application(answers: Answers, count: int) -> Outcomes:
    outcomes: Outcomes = {}
    for link_name in LINKS:
        link = link_named(link_name)
        setting = Setting(APPLICATION, link_name, answers.n_items, answers.n_people)
        truth = ranking_without_privacy(answers, link)
        for number in range(count):
            rng = _generator(setting, number)
            survey = with_drawn_epsilon(answers, rng)
            values: Values = {(OURS, "inverse_sqrt_b"): inverse_sqrt_b(survey.people_epsilon)}
            for method, scores in all_scores(survey, link, rng).items():
                values |= kendall_errors(scores, truth, method)
            for (method, metric), value in values.items():
                outcomes.setdefault((setting, method, metric), []).append(value)
    return outcomes


def _tests(outcomes: Outcomes) -> dict[tuple[Setting, str], list[PairedTest]]:
    """Paired tests by setting and metric, where there are two replicates or more."""
    tests = {}
    for (setting, method, metric), values in outcomes.items():
        paired = setting.scenario in PAIRED and metric.startswith("kendall")
        if paired and method == OURS and len(values) > 1:
            errors = {
                other: column
                for (own, other, name), column in outcomes.items()
                if (own, name) == (setting, metric)
            }
            tests[setting, metric] = paired_tests(errors, OURS)
    return tests


def summarise(outcomes: Outcomes) -> list[Summary]:
    """Mean and standard deviation of every series; for Scenario II its correlations too."""
    summaries = []
    for (setting, method, metric), values in outcomes.items():
        sd = float(np.std(values, ddof=1)) if len(values) > 1 else math.nan
        summaries.append(Summary(setting, method, metric, float(np.mean(values)), sd, len(values)))
        privacy = outcomes.get((setting, method, "inverse_sqrt_b"))
        if privacy and len(values) > 1 and metric != "inverse_sqrt_b":
            correlation = float(np.corrcoef(privacy, values)[0, 1])
            name = f"{metric}_correlation_with_inverse_sqrt_b"
            summaries.append(Summary(setting, method, name, correlation, math.nan, len(values)))
    return summaries


def write_results(summaries: Sequence[Summary], path: Path) -> None:
    """One row a series: what was measured, its mean, sd, se and number of replicates."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([*FIELDS, "mean", "sd", "se", "replicates"])
        for row in summaries:
            numbers = [_number(value) for value in (row.mean, row.sd, row.se)]
            writer.writerow([*_key(row), *numbers, row.replicates])


def _key(row: Summary) -> list[str]:
    setting = row.setting
    sizes = [setting.m, setting.L, setting.scheme, setting.delta, setting.share]
    texts = ["" if value is None else str(value) for value in sizes]
    return [setting.scenario, setting.link, *texts, row.method, row.metric]


def _number(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.6g}"


def write_comparison(summaries: Sequence[Summary], path: Path) -> None:
    """Ours beside every printed number: the ratio, and how many standard errors they are apart."""
    ours = {(row.setting, row.method, row.metric): row for row in summaries}
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(
            ["table", *FIELDS, "mean", "se", "paper_mean", "ratio", "standard_errors_apart"]
        )
        for cell in PRINTED:
            row = ours.get((cell.setting, cell.method, cell.metric))
            if row is not None:
                apart = (row.mean - cell.mean) / math.hypot(row.se, cell.se)
                numbers = [row.mean, row.se, cell.mean, row.mean / cell.mean, apart]
                writer.writerow([cell.table, *_key(row), *map(_number, numbers)])


def _write_ranks(answers: Answers, path: Path) -> None:
    ranks = ranks_without_privacy(answers)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["item", *ranks])
        writer.writerows(zip(answers.items, *map(np.ndarray.tolist, ranks.values()), strict=True))


def _write_tests(tests: Mapping[tuple[Setting, str], Sequence[PairedTest]], path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        heading = ["scenario", "link", "scheme", "metric", "method"]
        writer.writerow([*heading, "mean_difference_to_ours", "t", "p_value"])
        for (setting, metric), rows in tests.items():
            for row in rows:
                numbers = [_number(value) for value in (row.difference, row.t, row.p_value)]
                key = [setting.scenario, setting.link, setting.scheme, metric]
                writer.writerow([*key, row.method, *numbers])
