"""Speed of private synthetic rankings, and of counting them.

Claim: at least 3 M rankings of 10 items a second on one core in the pure function, with bits of the
operating system. The baseline beside it is a Python loop over rankings and items.

    python benchmarks/mallows_speed.py [--rankings N]
"""

from __future__ import annotations

import argparse
import math
import time
from bisect import bisect_right
from collections.abc import Callable
from itertools import accumulate
from random import SystemRandom

import numpy as np
from measuring import seconds

from hushrank.estimation.rankings.ranking_counts import pair_counts
from hushrank.privacy.mallows import insertion_weights, sample_positions, synthetic_rankings
from hushrank.privacy.randomness import system_bits

EPSILON = 1.0
REPEATS = 3
LOOPED = 5_000  # rankings of the Python loop


def rate(work: Callable[[], object], n: int) -> float:
    """Millions of rankings a second of processor time: the best of some runs."""
    return n / min(seconds(work, REPEATS, time.process_time)) / 1e6


def loop(n_rankings: int, n_items: int) -> list[list[int]]:
    """Repeated insertion one ranking and one item at a time, with floating-point weights."""
    random = SystemRandom()
    q = math.exp(EPSILON / (n_items - 1))
    sums = [list(accumulate(q**k for k in range(t))) for t in range(1, n_items + 1)]
    private = []
    for _ in range(n_rankings):
        ranking: list[int] = []
        for item, own in enumerate(sums):
            ranking.insert(bisect_right(own, random.random() * own[-1]), item)
        private.append(ranking)
    return private


def main() -> None:
    """Print the measured rates beside the claim."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rankings", type=int, default=500_000)
    total = parser.parse_args().rankings
    bits = system_bits()
    print("M rankings a second on one core")
    print("items   positions   one epsilon   own epsilon   pair counts   Python loop")
    for n_items in (5, 10, 30, 100):
        n = max(100 * total // n_items**2, 1000) if n_items > 10 else total
        items, lengths = np.tile(np.arange(n_items), n), np.full(n, n_items)
        own = np.random.default_rng(0).uniform(0.5, 3.0, n)
        weights = insertion_weights(np.array([EPSILON]), n_items)
        rates = [
            rate(lambda w=weights, n=n: sample_positions(w, n, bits), n),
            rate(lambda i=items, k=lengths: synthetic_rankings(i, k, EPSILON, bits), n),
            rate(lambda i=items, k=lengths, e=own: synthetic_rankings(i, k, e, bits), n),
            rate(lambda i=items, k=lengths, m=n_items: pair_counts(i, k, m), n),
            rate(lambda m=n_items: loop(LOOPED, m), LOOPED),
        ]
        columns = "".join(f"{value:14.3f}" for value in rates)
        print(f"{n_items:5}{columns}" + ("   claim: 3 with one epsilon" if n_items == 10 else ""))


if __name__ == "__main__":
    main()
