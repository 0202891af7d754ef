"""Speed and memory of randomised response: flipping, and flipping with summing.

Claims: at least 20 M answers a second are randomised on one core with an epsilon of their own each,
and 100 M answers of 2 M people about 200 items are randomised and summed at 8 M a second or more on
two cores, in under 1 GB. Here the answers are made in memory; what reading them from files adds is
the pipeline's. Bits are the operating system's, as in a release.

    python benchmarks/randomized_response_speed.py [--answers N] [--workers N]
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor

import numpy as np
from measuring import peak_bytes, seconds
from numpy.typing import NDArray

from hushrank.estimation.fit.weighted_pairs import PairSums, add_sums, weighted_sums
from hushrank.privacy.local_source import privatize_answer
from hushrank.privacy.randomized_response import randomize
from hushrank.privacy.randomness import system_bits

N_ITEMS, ANSWERS_A_PERSON = 200, 50
BATCH = 1 << 20
REPEATS = 5


def batch_of(
    n_answers: int, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.uint8], NDArray[np.float64]]:
    """Cells, outcomes and the epsilon of each answer; every person has an epsilon of their own."""
    rng = np.random.default_rng(seed)
    first = rng.integers(0, N_ITEMS - 1, n_answers)
    second = rng.integers(first + 1, N_ITEMS)
    people = -(-n_answers // ANSWERS_A_PERSON)
    epsilon = np.repeat(rng.uniform(0.2, 5.0, people), ANSWERS_A_PERSON)[:n_answers]
    return first * N_ITEMS + second, rng.integers(0, 2, n_answers, np.uint8), epsilon


def rate(work: Callable[[], object], n_answers: int) -> float:
    """Millions of answers a second: the median of some runs."""
    return n_answers / float(np.median(seconds(work, REPEATS))) / 1e6


def worker(job: tuple[int, int]) -> tuple[PairSums, float, int]:
    """Randomise and sum `n_answers` made from `seed`: sums, seconds spent on that, peak memory."""
    n_answers, seed = job
    bits, total, spent = system_bits(), np.zeros((2, N_ITEMS, N_ITEMS), np.int64), 0.0
    for number, start in enumerate(range(0, n_answers, BATCH)):
        cells, outcomes, epsilon = batch_of(min(BATCH, n_answers - start), seed + number)
        started = time.perf_counter()
        noisy = randomize(outcomes, epsilon, bits)
        total = add_sums([total, weighted_sums(cells, noisy, epsilon, N_ITEMS)], N_ITEMS)
        spent += time.perf_counter() - started
    return total, spent, peak_bytes()


def main() -> None:
    """Print the measured rates beside the claims."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--answers", type=int, default=100_000_000)
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    cells, outcomes, epsilon = batch_of(4 * BATCH, seed=0)
    bits, n = system_bits(), len(outcomes)
    print("one core, millions of answers a second")
    one = rate(lambda: randomize(outcomes, 1.0, bits), n)
    print(f"  randomise, one epsilon for all      {one:6.1f}")
    own = rate(lambda: randomize(outcomes, epsilon, bits), n)
    print(f"  randomise, an epsilon each          {own:6.1f}   claim: 20")
    summed = rate(lambda: weighted_sums(cells, outcomes, epsilon, N_ITEMS), n)
    print(f"  sum S and W                         {summed:6.1f}")
    source = rate(lambda: [privatize_answer(1, 1.0) for _ in range(20_000)], 20_000)
    print(f"  at the source, one call an answer   {source:6.3f}")

    share = -(-arguments.answers // arguments.workers)
    with ProcessPoolExecutor(arguments.workers) as pool:
        done = list(pool.map(worker, [(share, 10**6 * k) for k in range(arguments.workers)]))
    slowest = max(spent for _, spent, _ in done)
    memory = sum(peak for _, _, peak in done) / 2**20
    answers = share * arguments.workers
    both = answers / slowest / 1e6
    print(f"{answers:,} answers on {arguments.workers} of {os.cpu_count()} cores")
    print(f"  randomise and sum, M answers/s      {both:6.1f}   claim: 8")
    print(f"  peak memory of all workers, MB      {memory:6.0f}   claim: 1000")


if __name__ == "__main__":
    main()
