"""Coverage of the intervals of perturbed maximum likelihood scores, by simulation.

Claims, nominal 95 %: score intervals hold the true score in 92 to 98 % of the cases in every cell
of the grid; rank intervals, one item at a time, and simultaneous ones hold at least as often as
they say, 95 %.

People answer L questions each about random pairs; true scores are normal.

    python benchmarks/mle_coverage.py [--replicates N]
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass
from itertools import product

import numpy as np

from hushrank.estimation.common.estimate import mean_ranks
from hushrank.estimation.common.links import LAPLACE, LOGISTIC, Link
from hushrank.estimation.common.matrices import PairCounts
from hushrank.estimation.comparisons.mle_uncertainty import (
    mle_errors,
    rank_by_scores,
)
from hushrank.estimation.comparisons.perturbed_mle import MleSettings, calibrate_mle, perturbed_mle
from hushrank.experiments.ccw.ccw import one_process_per_processor
from hushrank.privacy.randomness import seeded_bits
from hushrank.privacy.units import Adjacency, NoiseKind, PrivacyParams, Unit

SPREAD = 0.7  # standard deviation of the true scores
COMPARISONS = 600  # of an item
DELTA = 1e-6
LOW, HIGH = 0.92, 0.98


@dataclass(frozen=True, slots=True)
class Cell:
    """One setting of the grid."""

    link: Link
    noise: NoiseKind
    n_items: int
    rows: int
    epsilon: float

    def params(self) -> PrivacyParams:
        """What is protected: all answers of one person."""
        gaussian = self.noise is NoiseKind.GAUSSIAN
        return PrivacyParams(
            unit=Unit.USER,
            adjacency=Adjacency.REPLACE_ONE,
            epsilon=self.epsilon,
            delta=DELTA if gaussian else 0.0,
            noise=self.noise,
            max_contributions=self.rows,
        )


def cells() -> list[Cell]:
    """Items, rows and epsilons, for each link and law of noise."""
    grid = product((4, 16, 50), (1, 5), (0.5, 1.0, 2.5, math.inf))
    return [
        Cell(link, noise, n_items, rows, epsilon)
        for n_items, rows, epsilon in grid
        for link in (LOGISTIC, LAPLACE)
        for noise in NoiseKind
        if not (math.isinf(epsilon) and noise is NoiseKind.GAUSSIAN)
    ]


def held(cell: Cell, replicate: int) -> tuple[float, float, bool, float]:
    """Shares of score and rank intervals that hold; whether all ranks do; a median half-width."""
    rng, n = np.random.default_rng([replicate, cell.n_items, cell.rows]), cell.n_items
    truth = rng.normal(0, SPREAD, n)
    truth -= truth.mean()
    asked = rng.poisson(np.triu(np.full((n, n), COMPARISONS / (n - 1)), 1))
    won = rng.binomial(asked, cell.link.cdf(np.subtract.outer(truth, truth)))
    counts = PairCounts((won + (asked - won).T).astype(np.int64))
    settings = MleSettings(expected_comparisons=COMPARISONS, link=cell.link)
    bits = seeded_bits(int(rng.integers(2**62)))
    mechanism = calibrate_mle(cell.params(), settings, n)
    scores = perturbed_mle(counts, mechanism, bits)
    errors = mle_errors(scores, mechanism)
    single = rank_by_scores(scores, mechanism)
    together = single.at_once
    ranks = mean_ranks(truth)
    return (
        float(np.mean((errors.low <= truth) & (truth <= errors.high))),
        float(np.mean((single.rank_low <= ranks) & (ranks <= single.rank_high))),
        bool(((together.rank_low <= ranks) & (ranks <= together.rank_high)).all()),
        float(np.median(np.minimum(errors.high, 99.0) - np.maximum(errors.low, -99.0)) / 2),
    )


def summary(task: tuple[Cell, int]) -> tuple[float, ...]:
    """Means over the replicates of a cell."""
    cell, replicates = task
    return tuple(np.mean([held(cell, replicate) for replicate in range(replicates)], axis=0))


def main() -> None:
    """Print the grid and its extremes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replicates", type=int, default=200)
    replicates = parser.parse_args().replicates
    tasks = [(cell, replicates) for cell in cells()]
    print("link      noise      n  L  epsilon   score   rank  all ranks  half-width")
    with one_process_per_processor() as pool:
        found = list(pool.map(summary, tasks))
    for (cell, _), (score, rank, together, width) in zip(tasks, found, strict=True):
        mark = "" if LOW <= score <= HIGH and min(rank, together) >= 0.95 else "  <- outside"
        print(
            f"{cell.link.name:9} {cell.noise:9} {cell.n_items:2} {cell.rows:2} {cell.epsilon:8} "
            f"{score:7.3f} {rank:6.3f} {together:10.3f} {width:11.2f}{mark}"
        )
    scores = [each[0] for each in found]
    print(f"score intervals: {min(scores):.3f} to {max(scores):.3f}, claim {LOW} to {HIGH}")
    for name, position in (("rank intervals", 1), ("simultaneous rank intervals", 2)):
        print(f"{name}: at least {min(each[position] for each in found):.3f}, claim 0.95")


if __name__ == "__main__":
    main()
