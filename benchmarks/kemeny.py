"""Time and memory of the exact Kemeny consensus, and how good the heuristic above 20 items is.

Claim: 20 items exactly in under 20 s and 1 GB, without any majority that would split them.

    python benchmarks/kemeny.py
"""

from __future__ import annotations

import functools
import time

import numpy as np
from measuring import taken_by

from hushrank.estimation.rankings.ranking_counts import pair_counts
from hushrank.estimation.rankings.ranking_estimates import cheapest_order, kemeny
from hushrank.privacy.mallows import synthetic_rankings
from hushrank.privacy.randomness import seeded_bits

VOTERS = 1000


def main() -> None:
    """Print times, memory and bounds."""
    random = np.random.default_rng(0)
    print("exact, random counts")
    for n_items in (8, 12, 16, 20):
        cost = random.integers(0, 1000, (n_items, n_items)).astype(np.float64)
        taken = taken_by(functools.partial(cheapest_order, cost))
        claim = "   claim: 20 s, 1000 MB" if n_items == 20 else ""
        print(f"  {n_items:3} items {taken.wall:8.3f} s   peak {taken.peak / 2**20:5.0f} MB{claim}")
    print(f"private rankings of {VOTERS} people who agree, and random counts")
    for n_items, epsilon in ((30, 0.05), (30, 1.0), (100, 0.05), (100, 1.0)):
        lengths = np.full(VOTERS, n_items)
        rankings = np.tile(np.arange(n_items), VOTERS)
        private = synthetic_rankings(rankings, lengths, epsilon, seeded_bits(1))
        report(f"epsilon {epsilon}", pair_counts(private, lengths, n_items))
    for n_items in (30, 100):
        report("random", random.integers(0, 1000, (n_items, n_items)))


def report(name: str, wins: np.ndarray) -> None:
    """Consensus of `wins`: its time, and how far above the lower bound it can be."""
    started = time.perf_counter()
    found = kemeny(wins)
    seconds = time.perf_counter() - started
    above = found.disagreements / found.lower_bound - 1
    proven = "proven best" if found.optimal else f"at most {above:.2%} above the best"
    print(f"  {len(wins):3} items, {name:12} {seconds:8.3f} s   {proven}")


if __name__ == "__main__":
    main()
