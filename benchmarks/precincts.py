"""How far tables of first places by precinct are off: raw cells, whole numbers, totals, leaders.

Claim: the table in docs/elections.md, replace-one, delta = 1e-6, Gaussian noise.

    python benchmarks/precincts.py
"""

from __future__ import annotations

import numpy as np

from hushrank.estimation.rankings.precinct_tables import (
    NoisyPrecincts,
    adjusted_votes,
    release_precincts,
)
from hushrank.estimation.rankings.ranking_counts import calibrate_rankings
from hushrank.privacy.randomness import seeded_bits
from hushrank.privacy.ranking_sensitivity import Part, level_weights
from hushrank.privacy.units import Adjacency, NoiseKind, PrivacyParams, Unit

SIZES = ((65, 40, 5), (65, 400, 5), (500, 100, 9))  # precincts, voters of each, candidates
RUNS = 12


def main() -> None:
    """Print the table."""
    print("precincts x voters, candidates | eps | raw -> whole | below 10: rms (bias) |", end=" ")
    print("total: cells alone -> all levels | first right")
    for precincts, voters, items in SIZES:
        for epsilon in (0.5, 1.0, 2.0):
            told = measured(precincts, voters, items, epsilon)
            print(f"{precincts:3} x {voters}, {items} | {epsilon} | {told}")


def measured(precincts: int, voters: int, items: int, epsilon: float) -> str:
    """Errors of `RUNS` tables."""
    params = PrivacyParams(
        unit=Unit.USER,
        adjacency=Adjacency.REPLACE_ONE,
        epsilon=epsilon,
        delta=1e-6,
        noise=NoiseKind.GAUSSIAN,
    )
    weights = level_weights(params, districts=False)
    law = calibrate_rankings(params, items, weights).law
    rows = []
    for run in range(RUNS):
        random = np.random.default_rng([precincts, voters, run])
        scores = random.normal(0, 1.2, items) + random.normal(0, 0.6, (precincts, items))
        shares = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
        exact = random.poisson(voters * shares).astype(np.int64)
        parts = release_precincts(exact, (), weights, law, seeded_bits(run))
        counts = NoisyPrecincts(parts, weights, law)
        votes = adjusted_votes(counts)
        raw, few = counts.of(Part.PRECINCTS), exact < 10
        error = votes.precincts - exact
        rows.append(
            [
                np.mean((raw - exact) ** 2),
                np.mean(error**2),
                np.sum(error[few] ** 2),
                np.sum(error[few]),
                np.sum(few),
                np.mean((raw - exact).sum(axis=0) ** 2),
                np.mean((votes.totals - exact.sum(axis=0)) ** 2),
                np.mean(votes.precincts.argmax(axis=1) == exact.argmax(axis=1)),
            ]
        )
    mean = np.mean(rows, axis=0)
    mean[[2, 3]] /= max(mean[4], 1)
    cell, whole, small, alone, all_levels = np.sqrt(mean[[0, 1, 2, 5, 6]])
    return (
        f"{cell:.1f} -> {whole:.1f} | {small:.1f} ({mean[3]:+.1f}) | {alone:.0f} ->"
        f" {all_levels:.0f} | {mean[7]:.2f}"
    )


if __name__ == "__main__":
    main()
