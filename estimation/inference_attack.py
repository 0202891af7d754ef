"""What repeated synthetic rankings of one person give away: the best guess, and how good it is.

Somebody who holds N synthetic rankings of the same ranking, by the Mallows mechanism with a known
epsilon, knows the likelihood of every ranking r: proportional to q^T(r), where T(r) is the number
of pairs that r and the synthetic rankings agree on, summed over them, and q = e^(epsilon / (m-1)).
The most likely r is the Kemeny consensus of the synthetic rankings.

References:
    [RDP] Xu, Sun, Cheng. Ranking differential privacy. Section 4, equation 1 (where argmin stands
        for argmax, and the exponent is that of its Lemma 2) and Theorem 2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.consensus import disagreements, kemeny
from hushrank.estimation.ranking_pairs import pair_counts
from hushrank.estimation.subset_orders import MOST_ITEMS, log_sum_over_orders
from hushrank.privacy.mallows import insertion_weights, sample_positions
from hushrank.privacy.randomness import RandomBits


@dataclass(frozen=True, slots=True)
class Guess:
    """The best guess of somebody's ranking.

    Attributes:
        order: item codes, best first.
        probability: that it is right, if all m! rankings were equally likely beforehand.
    """

    order: NDArray[np.int64]
    probability: float


@dataclass(frozen=True, slots=True)
class SuccessRate:
    """How often the best guess is right: mean over simulations, and the standard error of that."""

    mean: float
    standard_error: float


def most_likely_ranking(wins: NDArray[np.int64], epsilon: float) -> Guess:
    """The maximum likelihood guess from pooled pair counts, and the probability that it is right.

    Where several rankings are equally likely it is the first of them; none would be a better guess.

    Args:
        wins: shape (m, m), wins[a, b] = synthetic rankings with a above b, m up to 20.
        epsilon: of each of them.

    Raises:
        ValueError: epsilon is not finite and positive, or m is not in 2..20.
    """
    if not 0 < epsilon < math.inf:
        raise ValueError(f"epsilon must be finite and > 0, got {epsilon!r}")
    n_items = len(wins)
    if not 2 <= n_items <= MOST_ITEMS:
        raise ValueError(f"the attack takes 2 to {MOST_ITEMS} items, got {n_items}")
    order = kemeny(wins).order
    theta = epsilon / (n_items - 1)
    # A pair costs its margin where it is against the margin: sums stay small, and so does rounding.
    against = np.maximum(wins.T - wins, 0).astype(np.float64)
    log_likelihood = -theta * disagreements(against.T, order)
    log_total = log_sum_over_orders(theta * against)
    return Guess(order, math.exp(min(log_likelihood - log_total, 0.0)))


def guess_ranking(synthetic: NDArray[np.int64], epsilon: float) -> Guess:
    """`most_likely_ranking` of synthetic rankings of one person.

    Args:
        synthetic: shape (N, m), each row the items 0..m-1, best first.
        epsilon: of each of them.

    Raises:
        ValueError: a row is not a ranking of 0..m-1, or as `most_likely_ranking`.
    """
    n_rankings, n_items = synthetic.shape
    lengths = np.full(n_rankings, n_items)
    return most_likely_ranking(pair_counts(synthetic.ravel(), lengths, n_items), epsilon)


def success_rate(
    n_items: int, epsilon: float, n_rankings: int, simulations: int, bits: RandomBits
) -> SuccessRate:
    """Probability that the best guess from `n_rankings` synthetic rankings is right.

    By symmetry it does not depend on the true ranking. Each simulation contributes the probability
    of its own guess, which has the same mean as "right or wrong" and less variance.

    Args:
        n_items: m, 2 to 20; from about 12 a simulation takes noticeable time.
        epsilon: of each synthetic ranking.
        n_rankings: N, at least 1.
        simulations: at least 2.
        bits: any; nothing here is released.

    Raises:
        ValueError: a number is too small, or m too large.
    """
    if n_rankings < 1 or simulations < 2:
        raise ValueError("success_rate needs n_rankings >= 1 and simulations >= 2")
    weights = insertion_weights(np.array([epsilon]), n_items)
    values = np.empty(simulations)
    for trial in range(simulations):
        positions = sample_positions(weights, n_rankings, bits)
        wins = (positions[:, None] < positions).sum(axis=2, dtype=np.int64)
        values[trial] = most_likely_ranking(wins, epsilon).probability
    return SuccessRate(float(values.mean()), float(values.std(ddof=1) / math.sqrt(simulations)))
