"""Speed of spectral difficulties, and their agreement with marginal maximum likelihood.

Claims: from arrays to difficulties, 100 items and 100,000 people take at most a quarter of the time
of `girth.rasch_mml`; on real tests the difficulties correlate with its at 0.99 or more, without
privacy; the time to count measurements grows linearly with the people.

Needs girth (`pip install girth`) and, for the real tests, Parquet files with the columns user, item
and y in `../shared/data`; where one is absent that is said.

    python benchmarks/spectral_speed.py [--people N] [--data DIR]
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from girth import rasch_mml
from measuring import peak_bytes, seconds
from numpy.typing import NDArray
from scipy.special import expit

from hushrank.estimation.responses.item_graph import complete_graph
from hushrank.estimation.responses.measurements import (
    measurements_of_answers,
    measurements_of_block,
)
from hushrank.estimation.responses.spectral_estimate import chain_difficulties, jump_rates

REPEATS = 5
N_ITEMS = 100
MISSING = -99999  # girth's mark of an answer that was not given
REAL = ("bin_lsat", "bin_ecpe", "bin_verbagg")
LONG_ITEMS, LONG_ANSWERS = 200, 20  # of the linear claim: answers of one person

Long = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint8]]


def spectral(y: NDArray[np.int64]) -> NDArray[np.float64]:
    """Difficulties from measurements of all pairs, without privacy."""
    graph = complete_graph(len(y))
    return chain_difficulties(jump_rates(y.astype(np.float64), graph))


def median_seconds(work: Callable[[], object], repeats: int = REPEATS) -> float:
    """Median time of some runs."""
    return float(np.median(seconds(work, repeats)))


def simulated(n_people: int) -> NDArray[np.bool_]:
    """Answers of a Rasch model with standard normal abilities and difficulties."""
    rng = np.random.default_rng(0)
    chance = expit(rng.normal(size=(n_people, 1)) - rng.normal(size=N_ITEMS))
    return rng.random((n_people, N_ITEMS)) < chance


def compare_speed(n_people: int) -> None:
    """Print the times of both, from arrays to difficulties."""
    right = simulated(n_people)
    answered = np.ones_like(right)
    dataset = np.ascontiguousarray(right.T).astype(np.int64)
    person, item = (each.ravel() for each in np.indices(right.shape))
    correct = right.ravel().astype(np.uint8)
    marginal = median_seconds(lambda: rasch_mml(dataset))
    wide = median_seconds(lambda: spectral(measurements_of_block(right, answered)))
    long = median_seconds(lambda: spectral(measurements_of_answers(person, item, correct, N_ITEMS)))
    print(f"{N_ITEMS} items, {n_people} people, everybody answers everything")
    print(f"  girth rasch_mml           {marginal:8.3f} s")
    for name, taken in (("wide table", wide), ("long form", long)):
        print(
            f"  spectral, {name:15} {taken:8.3f} s   {marginal / taken:5.1f} times as fast, claim 4"
        )


def long_answers(n_people: int) -> Long:
    """Everybody answers 20 of 200 items."""
    rng = np.random.default_rng(1)
    stride = LONG_ITEMS // LONG_ANSWERS
    item = rng.integers(0, stride, (n_people, LONG_ANSWERS)) + stride * np.arange(LONG_ANSWERS)
    person = np.repeat(np.arange(n_people), LONG_ANSWERS)
    return person, item.ravel(), rng.integers(0, 2, len(person), np.uint8)


def show_growth(n_people: int) -> None:
    """Print how the time to count grows with the people, and the peak memory."""
    print(f"counting, {LONG_ITEMS} items, {LONG_ANSWERS} answers a person, long form, one process")
    for people in (n_people, 2 * n_people, 4 * n_people, 8 * n_people):
        answers = long_answers(people)
        count = functools.partial(measurements_of_answers, *answers, LONG_ITEMS)
        taken = median_seconds(count, repeats=3)
        print(f"  {people:9} people {taken:8.3f} s   {1e6 * taken / people:6.2f} us a person")
    print(f"  peak memory {peak_bytes() / 2**30:.2f} GB, the answers themselves included")


def compare_difficulties(folder: Path) -> None:
    """Print the correlation with marginal maximum likelihood on real tests."""
    print("correlation with girth rasch_mml, without privacy (claim 0.99)")
    for name in REAL:
        path = folder / f"{name}.parquet"
        if not path.exists():
            print(f"  {name:12} not measured: {path} is absent")
            continue
        table = pq.read_table(path)
        person, item, correct = (
            np.unique(table[column].to_numpy(), return_inverse=True)[1]
            for column in ("user", "item", "y")
        )
        n_items = int(item.max()) + 1
        dataset = np.full((n_items, int(person.max()) + 1), MISSING)
        dataset[item, person] = correct
        ours = spectral(measurements_of_answers(person, item, correct.astype(np.uint8), n_items))
        correlation = np.corrcoef(ours, rasch_mml(dataset)["Difficulty"])[0, 1]
        print(f"  {name:12} {n_items:3} items, {dataset.shape[1]:5} people {correlation:8.4f}")


def main() -> None:
    """Print what was measured beside the claims."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--people", type=int, default=100_000)
    parser.add_argument("--data", type=Path, default=Path(__file__).parents[2] / "shared" / "data")
    arguments = parser.parse_args()
    compare_speed(arguments.people)
    show_growth(arguments.people)
    compare_difficulties(arguments.data)


if __name__ == "__main__":
    main()
