"""Black-box audits of the methods under local privacy: files of rows in, released arrays out.

A trial is one person, whom nobody else shares an item with: what is drawn for them is drawn for
them alone, and their cells of the released arrays are one output of the mechanism. So one run of
the real path (read, encode, meet, privatise, sum, draw) on a file of many people is many trials.
Everybody's rows are the same on one input, and on the other they are what an adjacent person would
say; the two are a pair at which the promise is exhausted.

A bound is below the truth with confidence 1 - 10^-6, so a correct method fails with probability
10^-6 at most. Half the noise, which is twice the epsilon, is caught with a much larger margin.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hushrank.flows.methods.base import Arrays
from hushrank.flows.run.confidential_folder import load_arrays
from hushrank.flows.run.job import prepare_job, read_survey
from hushrank.privacy.audit import audit_epsilon
from hushrank.privacy.keyed_hash import SecretKey
from tests.flows.conftest import Survey
from tests.flows.small_jobs import SMALL_JOBS
from tests.statistics import FALSE_POSITIVE_RATE

EPSILON = 2.0
LOCAL = {"unit": "local", "epsilon": EPSILON}

Rows = dict[str, list[int]]


@dataclass(frozen=True)
class Audit:
    """A method, two adjacent persons, and what the release holds of each.

    Attributes:
        privacy: of the configuration; at `EPSILON` it hides all that the two persons differ in.
        people, runs: in one file, each with `items` items to themselves; and how many files.
        left, right: columns of one person's rows, with items 0, 1, ...
        input: of the configuration.
        seen: released arrays and the number of people -> one output for each person.
    """

    privacy: dict[str, Any]
    people: int
    runs: int
    items: int
    left: Rows
    right: Rows
    input: dict[str, Any]
    seen: Callable[[Arrays, int], np.ndarray]


def compared(arrays: Arrays, people: int) -> np.ndarray:
    """S of a person's three pairs, the first two of which come before the others in each row."""
    rows, columns = np.repeat(np.arange(3 * people), np.diff(arrays["row_ends"])), arrays["columns"]
    order = np.lexsort((columns, rows))
    assert (rows[order] // 3 == columns[order] // 3).all()
    return arrays["s"][order].reshape(people, 3)


def of_two_items(arrays: Arrays, people: int) -> np.ndarray:
    """Y of a person's two items, in both directions, over all parts of the people."""
    first = 2 * np.arange(people)
    whole = arrays["sums"].sum(axis=0)
    return np.column_stack([whole[first, first + 1], whole[first + 1, first]])


def of_three_items(arrays: Arrays, people: int) -> np.ndarray:
    """Who is above whom, which is the whole synthetic ranking of a person's three items."""
    first = 3 * np.arange(people)
    pairs = ((0, 1), (0, 2), (1, 2))
    return np.column_stack([arrays["wins"][first + a, first + b] for a, b in pairs])


def of_random_pairs(arrays: Arrays, people: int) -> np.ndarray:
    """Which of a person's three pairs were answered, and how: each answer weighs three."""
    first = 3 * np.arange(people)
    pairs = ((0, 1), (0, 2), (1, 2))
    wins = arrays["wins"]
    return np.column_stack(
        [wins[first + a, first + b] - wins[first + b, first + a] for a, b in pairs]
    )


PAIRS = {"item_i": [0, 0, 1], "item_j": [1, 2, 2]}
COMPARED = {
    "items": 3,
    "left": {**PAIRS, "outcome": [1, 1, 1]},
    "right": {**PAIRS, "outcome": [-1, -1, -1]},
    "input": {
        "kind": "comparisons",
        "columns": {"left": "item_i", "right": "item_j"},
        "ties": "random",
    },
    "seen": compared,
}
RANKED = {
    "privacy": {**LOCAL, "mechanism": "mallows"},
    "items": 3,
    "left": {"item": [0, 1, 2], "rank": [1, 2, 3]},
    "right": {"item": [1, 2, 0], "rank": [1, 2, 3]},  # the first item became the last
    "input": {"kind": "rankings"},
    "seen": of_three_items,
}
AUDITS = {
    "debiased-rr": Audit(privacy={**LOCAL, "budget": "per_user"}, people=6_000, runs=1, **COMPARED),
    "spectral-rr": Audit(
        privacy={**LOCAL, "budget": "per_user", "max_contributions": 2},
        people=250,
        runs=4,
        items=2,
        left={"item": [0, 1], "correct": [1, 0]},
        right={"item": [0, 1], "correct": [0, 1]},
        input={"kind": "responses"},
        seen=of_two_items,
    ),
    "kemeny": Audit(people=150, runs=10, **RANKED),
    "borda": Audit(people=300, runs=5, **RANKED),
    "bradley-terry": Audit(people=300, runs=5, **RANKED),
    "borda, random-pairs": Audit(
        people=300,
        runs=5,
        **{
            **RANKED,
            "privacy": {**LOCAL, "mechanism": "random-pairs", "pairs": 2},
            "right": {"item": [2, 1, 0], "rank": [1, 2, 3]},
            "seen": of_random_pairs,
        },
    ),
}


def rows_of(audit: Audit, person: Rows) -> pa.Table:
    """Everybody says the same of items of their own."""
    users = np.arange(audit.people)
    table = {"user": np.repeat(users, len(next(iter(person.values()))))}
    for name, values in person.items():
        own = audit.items * users[:, np.newaxis] if name.startswith("item") else 0
        table[name] = np.ravel(np.array(values) + np.broadcast_to(own, (audit.people, 1)))
    return pa.table(table)


def release_of(name: str, folder: Path, epsilon: float) -> Callable[[Rows, int], np.ndarray]:
    """Run the method on files of people who all say the same, as often as outputs are wanted."""
    audit = AUDITS[name]
    settings = {
        "name": "zoo",
        "input": {**audit.input, "paths": ["rows.parquet"]},
        "items": {"count": audit.items * audit.people},
        "privacy": {**audit.privacy, "epsilon": epsilon},
        "method": name.partition(",")[0],
        "output": "out",
        "confidential": "work",
        "ledger": {"path": "ledger.jsonl", "epsilon": 100, "delta": 1e-5},
    }
    if name == "kemeny":  # so many items in a list cannot be undone; the draw is the same
        settings["model"] = {"debiased": False}
    job_of = Survey(folder, settings).set().config

    def release(person: Rows, runs: int) -> np.ndarray:
        pq.write_table(rows_of(audit, person), folder / "rows.parquet")
        job = prepare_job(read_survey(job_of))
        method, outputs = job.drawn_by.method, []
        for _ in range(runs // audit.people):
            key, work = SecretKey.draw(job.bits()), folder / f"work{len(list(folder.iterdir()))}"
            work.mkdir()
            SMALL_JOBS.run(method.reduction(job.config, job.mechanism, job.files, key, str(work)))
            drawn = method.draw(load_arrays(work / "exact.npz"), job.mechanism, job.bits())
            outputs.append(audit.seen(drawn, audit.people))
        return np.concatenate(outputs)

    return release


def found(name: str, folder: Path, epsilon: float) -> float:
    """Largest epsilon that the outputs prove."""
    audit = AUDITS[name]
    return audit_epsilon(
        release_of(name, folder, epsilon),
        audit.left,
        audit.right,
        trials=audit.people * audit.runs,
        confidence=1 - FALSE_POSITIVE_RATE,
    ).epsilon_lower


@pytest.mark.slow
@pytest.mark.parametrize("name", AUDITS)
def test_a_whole_method_keeps_its_epsilon(name: str, tmp_path: Path) -> None:
    """And spends much of it: a bound near zero would come of two inputs that hardly differ."""
    assert EPSILON / 4 < found(name, tmp_path, EPSILON) <= EPSILON


@pytest.mark.slow
@pytest.mark.parametrize("name", AUDITS)
def test_half_the_noise_is_caught(name: str, tmp_path: Path) -> None:
    """What a run at twice the epsilon draws."""
    assert found(name, tmp_path, 2 * EPSILON) > EPSILON
