"""What repeated synthetic rankings of one person give away: the best guess, and how good it is.

Somebody who holds N synthetic rankings of the same ranking, by the Mallows mechanism with known
epsilons, knows the likelihood of every ranking r: proportional to the product of q_i^T_i(r), where
T_i(r) is the number of pairs that r and the i-th synthetic ranking agree on, and q_i =
e^(epsilon_i / (m-1)). The most likely r is the Kemeny consensus of the synthetic rankings.

References:
    [RDP] Xu, Sun, Cheng. Ranking differential privacy. Section 4, equation 1 (the sign of the
        normalising sum is wrong, argmin stands for argmax, and the exponent is that of its Lemma 2)
        and Theorem 2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, expit

from hushrank.estimation.rankings.ranking_counts import pair_counts
from hushrank.estimation.rankings.ranking_estimates import (
    MOST_ITEMS,
    disagreements,
    kemeny,
    log_sum_over_orders,
)
from hushrank.privacy.mallows import insertion_weights, sample_positions
from hushrank.privacy.randomness import RandomBits

PLACES_AT_ONCE = 1 << 20  # of simulated rankings


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
    """How good the best guess from so many synthetic rankings is, over simulations.

    Attributes:
        n_rankings: N.
        mean: probability that the guess is right in every place.
        standard_error: of that.
        pairs: share of the m (m - 1) / 2 pairs that the guess has in the right order; 1/2 would be
            blind luck.
        best_item: how often the guess has the right item on top.
    """

    n_rankings: int
    mean: float
    standard_error: float
    pairs: float
    best_item: float


def guess_ranking(synthetic: NDArray[np.int64], epsilon: float | NDArray[np.float64]) -> Guess:
    """The maximum likelihood guess from synthetic rankings of one person.

    Args:
        synthetic: shape (N, m), each row the items 0..m-1, best first.
        epsilon: of each of them; one for all, or shape (N,).

    Raises:
        ValueError: a row is not a ranking of 0..m-1, the shapes differ, an epsilon is not
            finite and positive, or m is not in 2..20.
    """
    n_rankings, n_items = synthetic.shape
    _check_items(n_items)
    epsilons = np.atleast_1d(np.asarray(epsilon, np.float64))
    _check_epsilons(epsilons)
    if np.ndim(epsilon) and len(epsilons) != n_rankings:
        raise ValueError(f"{len(epsilons)} epsilons do not match {n_rankings} rankings")
    evidence = np.zeros((n_items, n_items))
    values = np.unique(epsilons)
    unit = values[0]  # with one epsilon the evidence is whole counts, so equal is exactly equal
    for value in values:
        rows = synthetic[epsilons == value] if len(epsilons) == n_rankings else synthetic
        counts = pair_counts(rows.ravel(), np.full(len(rows), n_items), n_items)
        evidence += value / unit * counts
    return _guess(evidence, unit / (n_items - 1))


def success_rates(
    n_items: int, epsilon: float, numbers: Sequence[int], simulations: int, bits: RandomBits
) -> list[SuccessRate]:
    """How good the best guess from N synthetic rankings is, for each N of `numbers`.

    By symmetry it does not depend on the true ranking. Each simulation contributes the probability
    of its own guess, which has the same mean as "right or wrong" and less variance. The first N
    rankings of a simulation serve every N.

    Args:
        n_items: m, 2 to 20; from about 16 a simulation takes noticeable time.
        epsilon: of each synthetic ranking.
        numbers: each at least 1.
        simulations: at least 2.
        bits: any; nothing here is released.

    Raises:
        ValueError: a number is too small, or m too large, or epsilon is not finite and positive.
    """
    _check_items(n_items)
    _check_epsilons(np.array([epsilon]))
    if not numbers or min(numbers) < 1 or simulations < 2:
        raise ValueError("success_rates needs numbers >= 1 and simulations >= 2")
    weights = insertion_weights(np.array([epsilon]), n_items)
    found = np.empty((len(numbers), simulations, 3))
    for trial in range(simulations):
        # under other names, or ties, which the first item wins, would go in favour of the truth
        names = np.argsort(bits.words(n_items))
        for row, wins in zip(found, _simulated_wins(weights, numbers, bits), strict=True):
            guess = _guess(wins[np.ix_(names, names)], epsilon / (n_items - 1))
            order = names[guess.order]
            inverted = int(np.triu(order[:, None] > order, 1).sum())
            right = 1 - inverted / math.comb(n_items, 2)
            row[trial] = guess.probability, right, order[0] == 0
    error = found[:, :, 0].std(axis=1, ddof=1) / math.sqrt(simulations)
    means = found.mean(axis=1)
    return [
        SuccessRate(n, float(mean), float(se), float(pairs), float(best))
        for n, (mean, pairs, best), se in zip(numbers, means, error, strict=True)
    ]


def largest_success(n_items: int, epsilon: float, n_rankings: int) -> float:
    """Probability that the best guess from N synthetic rankings is right, or more.

    The best guess has the first two items the wrong way round if more than half of the synthetic
    rankings have, whatever else they hold, and in one of two cases if half have. [RDP] Theorem 2
    bounds the probability of that from below, up to a constant that it does not name; here it is
    the probability itself.
    """
    flip, fewer = expit(-epsilon / (n_items - 1)), (n_rankings - 1) // 2
    return float(bdtr(fewer, n_rankings, flip) + bdtr(n_rankings // 2, n_rankings, flip)) / 2


def _guess(wins: NDArray[np.float64], theta: float) -> Guess:
    """The order with the fewest disagreements; each costs `theta` of log likelihood."""
    order = kemeny(wins).order
    # A pair costs its margin where it is against the margin: sums stay small, and so does rounding.
    against = np.maximum(wins.T - wins, 0)
    log_likelihood = -theta * disagreements(against.T, order)
    log_total = log_sum_over_orders(theta * against)
    return Guess(order, math.exp(min(log_likelihood - log_total, 0.0)))


def _simulated_wins(
    weights: NDArray[np.uint64], numbers: Sequence[int], bits: RandomBits
) -> list[NDArray[np.float64]]:
    """Pair counts of the first N synthetic rankings of 0..m-1, for each N of `numbers`."""
    n_items = len(weights)
    above, below = np.triu_indices(n_items, 1)
    at_once = max(PLACES_AT_ONCE // n_items**2, 1)
    wins, done, found = np.zeros((n_items, n_items)), 0, {}
    for number in sorted(set(numbers)):
        while done < number:
            n = min(number - done, at_once)
            positions = sample_positions(weights, n, bits)
            kept = (positions[above] < positions[below]).sum(axis=1)
            wins[above, below] += kept
            wins[below, above] += n - kept
            done += n
        found[number] = wins.copy()
    return [found[number] for number in numbers]


def _check_items(n_items: int) -> None:
    if not 2 <= n_items <= MOST_ITEMS:
        raise ValueError(f"the attack takes 2 to {MOST_ITEMS} items, got {n_items}")


def _check_epsilons(epsilon: NDArray[np.float64]) -> None:
    if not ((epsilon > 0) & (epsilon < math.inf)).all():
        raise ValueError("epsilon must be finite and > 0")
