"""Speed of method `totals`, and its agreement with conditional and marginal maximum likelihood.

Claims: of 100 items and 100,000 people, 0.1 s to count sheets and 0.2 s to fit difficulties; on
real tests difficulties without noise are within 0.001 of girth's conditional maximum likelihood,
and within 0.04 with the ridge that noise needs. Marginal likelihood (normal abilities) and
measurements of pairs stand beside them. With `--large` 600 items and a million people, in parts as
a run reads them: within 10 s and 1 GB.

Needs girth (`pip install girth`) and, for the real tests, Parquet files with the columns user, item
and y in `../shared/data`; where one is absent that is said.

    python benchmarks/totals_speed.py [--people N] [--data DIR] [--large]
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from girth import rasch_conditional, rasch_mml
from measuring import peak_bytes, seconds
from numpy.typing import NDArray
from scipy.special import expit

from hushrank.estimation.responses.conditional_fit import fit_totals
from hushrank.estimation.responses.sheet_totals import SheetShape, SheetTotals

REPEATS = 5
clocked = partial(seconds, clock=time.process_time)  # of one thread: OMP_NUM_THREADS=1
ITEMS = 100
REAL = ("bin_lsat", "bin_ecpe", "bin_verbagg")
LITTLE = 1e-9  # variance of noise, with which the ridge is there and noise is not
LARGE_ITEMS, LARGE_PEOPLE, PART = 600, 1_000_000, 4_000

Right = NDArray[np.bool_]


def counted(right: Right) -> SheetTotals:
    """Totals of whole sheets."""
    items = right.shape[1]
    shape = SheetShape.of(items, ())
    person, item = np.divmod(np.arange(right.size), items)
    entries = shape.count(person, item, right.ravel().view(np.uint8))
    return SheetTotals(entries, shape, confidential=False)


def simulated(people: int, items: int, seed: int = 0) -> Right:
    """Answers of a Rasch model with standard normal abilities and difficulties."""
    rng = np.random.default_rng((items, seed))
    difficulty = np.random.default_rng(items).normal(size=items)
    ability = rng.normal(size=(people, 1))
    return rng.random((people, items), np.float32) < expit(ability - difficulty).astype(np.float32)


def centred(difficulty: NDArray[np.float64]) -> NDArray[np.float64]:
    """Difficulties of mean zero."""
    return np.asarray(difficulty - difficulty.mean())


def compare(path: Path) -> None:
    """Print how far difficulties of a real test are apart."""
    table = pq.read_table(path).to_pandas()
    right = table.pivot(index="user", columns="item", values="y").to_numpy().astype(bool)
    totals = counted(right)
    found, with_ridge = (fit_totals(totals, each).difficulty for each in (0.0, LITTLE))
    conditional = centred(rasch_conditional(right.T.astype(int))["Difficulty"])
    marginal = centred(rasch_mml(right.T.astype(int))["Difficulty"])
    apart = [float(np.abs(each - conditional).max()) for each in (found, with_ridge, marginal)]
    print(
        f"{path.stem}: {right.shape[0]} x {right.shape[1]}; from conditional maximum likelihood:"
        f" {apart[0]:.1e} without ridge, {apart[1]:.3f} with it; marginal {apart[2]:.3f}"
    )


def time_large() -> None:
    """Print time and memory of 600 items and a million people, counted part by part."""
    shape, entries = SheetShape.of(LARGE_ITEMS, ()), 0
    right = simulated(PART, LARGE_ITEMS)
    person, item = np.divmod(np.arange(right.size), LARGE_ITEMS)
    marks = right.ravel().view(np.uint8)

    def count() -> None:
        nonlocal entries
        entries = sum(
            (shape.count(person, item, marks) for _ in range(LARGE_PEOPLE // PART)),
            start=np.zeros(shape.n_entries, np.int64),
        )

    took = clocked(count, 1)[0]
    totals = SheetTotals(entries, shape, confidential=False)
    fitted = clocked(lambda: fit_totals(totals, 100.0), 1)[0]
    print(
        f"{LARGE_ITEMS} items, {LARGE_PEOPLE:,} people: count {took:.1f} s, fit {fitted:.1f} s,"
        f" at most {peak_bytes() / 1e9:.2f} GB"
    )


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--people", type=int, default=100_000)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--large", action="store_true")
    options = parser.parse_args()
    right = simulated(options.people, ITEMS)
    person, item = np.divmod(np.arange(right.size), ITEMS)
    marks, shape = right.ravel().view(np.uint8), SheetShape.of(ITEMS, ())
    count = np.median(clocked(lambda: shape.count(person, item, marks), REPEATS))
    totals = counted(right)
    fit = np.median(clocked(lambda: fit_totals(totals, 100.0), REPEATS))
    print(f"{ITEMS} items, {options.people:,} people: count {count:.3f} s, fit {fit:.3f} s")
    for name in REAL:
        path = options.data / f"{name}.parquet"
        if path.exists():
            compare(path)
        else:
            print(f"{path}: is not there, so it was not compared")
    if options.large:
        time_large()


if __name__ == "__main__":
    main()
