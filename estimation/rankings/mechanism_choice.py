"""Predict which local mechanism has the smaller error, at the same privacy loss of a whole ranking.

The prediction rests on public facts alone: the most items of a list, epsilon and the method. Both
errors are
those of one ranking where all orders are equally likely, which is where items are hardest to tell
apart; over n rankings they shrink alike, so their ratio holds for any number of people.

*Scores* (`borda`, `bradley-terry`) follow from half nets. Undone place by place, a synthetic
ranking counts w[k] for the item at place k, and every place is equally likely: variance mean(w^2),
and the bias that is left (`net_evidence.place_weights`, for `PEOPLE` rankings). Of d random pairs
among P, an item's half net has the variance

    P (m - 1) / (4 d t^2)  +  (1 - 1/d) P / (P - 1) ((m^2 - 1) / 12 - (m - 1) / 4)

the first from each answer, the second because one ranking's answers agree among themselves.

*Orders* (`kemeny`) follow from pairs, and those of neighbours are the hardest. A synthetic ranking
keeps the order of neighbours with probability c, so a pair counts as it is with the signal 2c - 1
on the noise 1; or it is undone by pairs, with the noise that `pair_debiasing` has. The better of
the two is compared with the noise P / (d t^2) of random pairs.

The law of places is a table: entry [i, k] is the chance that the item at true place i comes out at
place k, 0 = best. The law does not depend on which items they are, only on the length of the list
and epsilon.

References:
    [RDP] Xu, Sun, Cheng. Ranking differential privacy. Algorithm 1 and Lemma 3.
    [DPR] Doignon, Pekec, Regenwetter. The repeated insertion model for rankings. 2004.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.polynomial.legendre import leggauss
from numpy.typing import NDArray

from hushrank.estimation.rankings.net_evidence import place_weights
from hushrank.estimation.rankings.ranking_counts import MOST_BY_PLACE, n_place_pairs
from hushrank.estimation.rankings.ranking_evidence import pair_estimator
from hushrank.privacy.laplace_baselines import GRID, rank_sensitivity
from hushrank.privacy.mallows import concordance_probability
from hushrank.privacy.random_pairs import RandomPairs, n_pairs

Floats = NDArray[np.float64]

NODES, NODES_EACH = 8, 6.0  # of the quadrature between two ranks, and more in units of the scale
LEAST_SCALE = 1 / 40  # of noise on a rank: two ranks are swapped once in 10^17 rankings
MOST_LAPLACE = 150  # items of a list up to which its law takes seconds
PEOPLE = 1_000  # of whom the bias of undone places must be hidden by chance
UNDONE_BY_PAIRS = 25  # items; of longer lists the counts by place are too many anyway


@lru_cache(maxsize=64)
def mallows_places(length: int, epsilon: float) -> Floats:
    """Law of places under the Mallows mechanism, shape (m, m); rows and columns sum to 1.

    By repeated insertion ([DPR]): the t-th item goes behind t - 1 - D of those already there, and
    whoever is inserted later moves an item one place back where it goes in front.

    Raises:
        ValueError: epsilon is not finite and positive, or m < 1.
    """
    _require(length, epsilon)
    ratio = math.exp(-epsilon / max(length - 1, 1))
    law = np.zeros((length, length))
    for t in range(length):
        probabilities = ratio ** (
            t - np.arange(t + 1.0)
        )  # of each place of item t among those there
        probabilities /= probabilities.sum()
        moved = law[:t, :t] * np.cumsum(probabilities)[:t]  # item t goes in front of place p
        law[:t, :t] -= moved
        law[:t, 1 : t + 1] += moved
        law[t, : t + 1] = probabilities
    return law


@lru_cache(maxsize=64)
def laplace_places(length: int, epsilon: float) -> Floats:
    """Law of places where Laplace noise is added to ranks, shape (m, m).

    Given its own noisy rank y, an item's place is the number of others with a smaller one: a sum of
    independent events of known probabilities. The integral over y is by Gauss's rule between every
    two ranks; beyond the ranks the integrand is a polynomial in e^(-|y| / scale), so there it is
    exact. The noise, discrete on a grid of 1 / 1024 of a rank, is taken as continuous.

    Raises:
        ValueError: epsilon is not finite and positive, m < 1, or m is above `MOST_LAPLACE`.
    """
    _require(length, epsilon)
    if length > MOST_LAPLACE:
        raise ValueError(f"the law of lists of {length} items, over {MOST_LAPLACE}, takes too long")
    scale = rank_sensitivity(length).l1 / GRID / epsilon
    if length == 1 or scale < LEAST_SCALE:
        return np.eye(length)
    at, weight = _nodes(length, scale)
    distance = at - np.arange(length)[:, np.newaxis]
    weights = weight * np.exp(-np.abs(distance) / scale) / (2 * scale)
    half = 0.5 * np.exp(-np.abs(distance) / scale)
    below = np.where(distance < 0, half, 1 - half)  # chance that each item's noisy rank is smaller
    law = np.empty((length, length))
    for item in range(length):
        law[item] = _counts_below(np.delete(below, item, axis=0)) @ weights[item]
    return law


def _require(length: int, epsilon: float) -> None:
    if length < 1:
        raise ValueError(f"a list needs 1 item or more, got {length}")
    if not 0 < epsilon < math.inf:
        raise ValueError(f"epsilon must be finite and > 0, got {epsilon!r}")


def _nodes(length: int, scale: float) -> tuple[Floats, Floats]:
    """Nodes and weights of the integral over all noisy ranks."""
    node, weight = leggauss(NODES + math.ceil(NODES_EACH / scale))
    middle = (np.arange(length - 1)[:, np.newaxis] + (node + 1) / 2).ravel()
    tail, tail_weight = leggauss(length)
    part = (tail + 1) / 2  # e^(-distance from the ranks / scale)
    reach, own = -scale * np.log(part), scale * tail_weight / 2 / part
    at = np.concatenate([-reach, middle, length - 1 + reach])
    return at, np.concatenate([own, np.tile(weight / 2, length - 1), own])


def _counts_below(probabilities: Floats) -> Floats:
    """Law of the number of independent events that happen, shape (events + 1, nodes)."""
    law = np.zeros((len(probabilities) + 1, probabilities.shape[1]))
    law[0] = 1.0
    for chance in probabilities:
        happened = law[:-1] * chance
        law[:-1] -= happened
        law[1:] += happened
    return law


@dataclass(frozen=True, slots=True)
class Predicted:
    """Standard errors of one ranking, of the two mechanisms at the same loss of a whole ranking."""

    mallows: float
    random_pairs: float

    @property
    def takes_pairs(self) -> bool:
        """Whether random pairs lose less."""
        return self.random_pairs < self.mallows

    @property
    def fewer_people(self) -> float:
        """How many times as many rankings the worse mechanism needs for the same error."""
        return (max(self.mallows, self.random_pairs) / min(self.mallows, self.random_pairs)) ** 2


def mallows_epsilon(whole: float, n_items: int) -> float:
    """Epsilon of `mallows` with which a whole ranking of m items loses `whole`, rounded down."""
    return float(np.nextafter(2 * whole / n_items, 0.0))


def predicted(law: RandomPairs, n_items: int, *, by_pairs: bool) -> Predicted:
    """The errors where lists have `n_items` items.

    Args:
        law: of random pairs that hide the order.
        n_items: m, at least 2.
        by_pairs: of an order; False: of scores.
    """
    epsilon = mallows_epsilon(law.epsilon, n_items)
    if by_pairs:
        noise = n_pairs(n_items) / law.pairs / law.attenuation**2
        return Predicted(order_error(epsilon, n_items), math.sqrt(noise))
    return Predicted(_score_error(epsilon, n_items), _score_error_of_pairs(law, n_items))


def _score_error(epsilon: float, n_items: int) -> float:
    weights, bias = place_weights(lambda m: mallows_places(m, epsilon), n_items, PEOPLE)
    return math.sqrt(float(np.mean(weights**2)) + PEOPLE * bias**2)


def _score_error_of_pairs(law: RandomPairs, n_items: int) -> float:
    pairs, d, m = n_pairs(n_items), law.pairs, n_items
    alone = pairs * (m - 1) / (4 * d * law.attenuation**2)
    shared = 0.0
    if d > 1:
        shared = (1 - 1 / d) * pairs / (pairs - 1) * ((m**2 - 1) / 12 - (m - 1) / 4)
    return math.sqrt(alone + shared)


def order_error(epsilon: float, n_items: int) -> float:
    """Deviation of a margin of neighbours in one synthetic ranking, undone; 1 without privacy."""
    kept = float(concordance_probability(np.array([1]), epsilon, n_items)[0])
    plain = 1 / (2 * kept - 1)
    if n_items > UNDONE_BY_PAIRS or n_place_pairs(n_items) * n_items**2 > MOST_BY_PLACE:
        return plain
    table = pair_estimator(n_items, epsilon)
    margins = (table - table.T)[~np.eye(n_items, dtype=bool)]
    return min(plain, math.sqrt(float(np.mean(margins**2))))
