"""The real application of [XSC] §5.2: a file of answers, randomised again and again.

The ranking of all answers without privacy is taken as the truth, as in the paper. In each replicate
every person gets an epsilon, every method ranks the items from the same people, and the methods are
compared replicate by replicate (paired t-tests).

References:
    [XSC] Xu, Sun, Cheng. Rate-optimal rank aggregation with private pairwise rankings.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.stats import ttest_rel

from hushrank.estimation.common.estimate import mean_ranks
from hushrank.estimation.common.links import Floats, Link, link_named
from hushrank.estimation.fit.pair_fit import AnswerVariance, fit_scores, win_totals
from hushrank.estimation.fit.weighted_pairs import WeightedPairs, counted_sums
from hushrank.experiments.xsc.xsc_scenarios import drawn_epsilon
from hushrank.experiments.xsc.xsc_setting import LINKS, Survey

# Names of each column in files that are around: our own, and the car preferences of the paper.
COLUMNS = {
    "user": ("user", "user id"),
    "winner": ("winner", "item1 id"),
    "loser": ("loser", "item2 id"),
}
CONTROL = ("control", "is control")  # optional: a question that was asked twice; left out


@dataclass(frozen=True, slots=True)
class Answers:
    """Answers of a file.

    Attributes:
        person: shape (m,), codes of the people.
        cells: shape (m,), i * n + j of the pair, i < j.
        outcomes: shape (m,), 1 where i won.
        n_people, n_items: sizes.
        items: names of the items, in the order of their codes.
    """

    person: NDArray[np.int64]
    cells: NDArray[np.int64]
    outcomes: NDArray[np.uint8]
    n_people: int
    n_items: int
    items: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PairedTest:
    """Whether `method` errs more than ours: mean difference, t statistic, two-sided p-value."""

    method: str
    difference: float
    t: float
    p_value: float


def read_answers(path: Path) -> Answers:
    """Read a CSV file with the columns user, winner and loser (or User ID, Item1 ID, Item2 ID).

    Rows that are marked in a column `control` (or Is Control) are left out: they repeat a question.

    Raises:
        ValueError: a column is missing, or a row has the same item twice.
    """
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file, skipinitialspace=True))
    found = {name.strip().lower(): name for name in (rows[0] if rows else {}) if name}
    columns = {}
    for role, names in COLUMNS.items():
        known = [found[name] for name in names if name in found]
        if not known:
            raise ValueError(
                f"{path}: column {role} not found; a CSV file with the columns user, winner and "
                "loser is needed"
            )
        columns[role] = known[0]
    control = [found[name] for name in CONTROL if name in found]
    kept = [row for row in rows if not (control and float(row[control[0]] or 0))]
    _, person = np.unique([row[columns["user"]] for row in kept], return_inverse=True)
    both = [[row[columns["winner"]], row[columns["loser"]]] for row in kept]
    items, codes = np.unique(both, return_inverse=True)
    winner, loser = codes.reshape(-1, 2).T
    if (winner == loser).any():
        raise ValueError(f"{path}: a row has the same item as winner and loser")
    return Answers(
        person=person.astype(np.int64),
        cells=(np.minimum(winner, loser) * len(items) + np.maximum(winner, loser)).astype(np.int64),
        outcomes=(winner < loser).astype(np.uint8),
        n_people=int(person.max()) + 1,
        n_items=len(items),
        items=tuple(map(str, items)),
    )


def ranking_without_privacy(answers: Answers, link: Link) -> Floats:
    """Scores from the answers themselves."""
    counted = counted_sums(answers.cells, answers.outcomes, answers.n_items)
    return fit_scores(WeightedPairs(*counted), link, AnswerVariance(least_weight=1.0)).scores


def ranks_without_privacy(answers: Answers) -> dict[str, Floats]:
    """Ranks by both links and by win counts: [XSC] Table 1, where all three agree."""
    counted = WeightedPairs(*counted_sums(answers.cells, answers.outcomes, answers.n_items))
    scores = {name: ranking_without_privacy(answers, link_named(name)) for name in LINKS}
    return {name: mean_ranks(s) for name, s in {**scores, "counts": win_totals(counted)}.items()}


def with_drawn_epsilon(answers: Answers, rng: np.random.Generator) -> Survey:
    """Everybody's epsilon is drawn anew."""
    epsilon = drawn_epsilon(answers.n_people, rng)
    return Survey(
        answers.n_items, answers.cells, answers.outcomes, epsilon[answers.person], epsilon
    )


def paired_tests(errors: dict[str, list[float]], ours: str) -> list[PairedTest]:
    """Compare each other method's errors with ours, replicate by replicate."""
    tests = []
    for method, theirs in errors.items():
        if method != ours:
            result = ttest_rel(theirs, errors[ours])
            difference = float(np.mean(theirs) - np.mean(errors[ours]))
            tests.append(
                PairedTest(method, difference, float(result.statistic), float(result.pvalue))
            )
    return tests
