"""What debiasing the pairwise shares of private rankings gains, and what it costs.

People belong to two camps with different random rankings. Printed: root mean square error of the
share of rankings with a above b, over all pairs, for the plain share and for the debiased one.

    python benchmarks/pair_debiasing.py
"""

from __future__ import annotations

from itertools import product

import numpy as np

from hushrank.estimation.rankings.ranking_counts import pair_counts
from hushrank.estimation.rankings.ranking_evidence import debiased_pair_counts
from hushrank.privacy.mallows import synthetic_rankings
from hushrank.privacy.randomness import system_bits

REPEATS = 5


def errors(n: int, m: int, epsilon: float, random: np.random.Generator) -> tuple[float, float]:
    """Root mean square error of the plain and of the debiased share."""
    camps = np.array([random.permutation(m), random.permutation(m)])
    true = camps[(random.random(n) < 0.3).astype(int)]
    lengths = np.full(n, m)
    private = synthetic_rankings(true.ravel(), lengths, epsilon, system_bits())
    truth, plain = (pair_counts(rows, lengths, m) / n for rows in (true.ravel(), private))
    debiased = debiased_pair_counts(private.reshape(n, m), epsilon) / n
    pairs = np.triu_indices(m, 1)
    plain_error, debiased_error = (
        float(np.sqrt(np.square((share - truth)[pairs]).mean())) for share in (plain, debiased)
    )
    return plain_error, debiased_error


def main() -> None:
    """Print both errors for some sizes."""
    random = np.random.default_rng(0)
    print("items   epsilon   rankings   plain    debiased")
    for m, epsilon, n in product((5, 10), (1.0, 3.0, 10.0), (1_000, 100_000)):
        found = np.array([errors(n, m, epsilon, random) for _ in range(REPEATS)]).mean(axis=0)
        print(f"{m:5}   {epsilon:7}   {n:8}   {found[0]:.4f}   {found[1]:.4f}")


if __name__ == "__main__":
    main()
