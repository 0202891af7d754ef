"""Where a mechanism puts the item that a person ranked at a given place, as a table of chances.

Entry [i, k] is the chance that the item at true place i comes out at place k, 0 = best. The law
does not depend on which items they are, only on the length of the list and epsilon.

References:
    [RDP] Xu, Sun, Cheng. Ranking differential privacy. Algorithm 1 and Lemma 3.
    [DPR] Doignon, Pekec, Regenwetter. The repeated insertion model for rankings. 2004.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.polynomial.legendre import leggauss
from numpy.typing import NDArray

from hushrank.privacy.laplace_ranks import GRID, rank_sensitivity

Floats = NDArray[np.float64]

NODES, NODES_EACH = 8, 6.0  # of the quadrature between two ranks, and more in units of the scale
LEAST_SCALE = 1 / 40  # of noise on a rank: two ranks are swapped once in 10^17 rankings
MOST_LAPLACE = 150  # items of a list up to which its law takes seconds


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
        chances = ratio ** (t - np.arange(t + 1.0))  # of each place of item t among those there
        chances /= chances.sum()
        moved = law[:t, :t] * np.cumsum(chances)[:t]  # item t goes in front of place p
        law[:t, :t] -= moved
        law[:t, 1 : t + 1] += moved
        law[t, : t + 1] = chances
    return law


@lru_cache(maxsize=64)
def laplace_places(length: int, epsilon: float) -> Floats:
    """Law of places where Laplace noise is added to ranks, shape (m, m).

    Given its own noisy rank y, an item's place is the number of others with a smaller one: a sum of
    independent events of known chances. The integral over y is by Gauss's rule between every two
    ranks; beyond the ranks the integrand is a polynomial in e^(-|y| / scale), so there it is exact.
    The noise, discrete on a grid of 1 / 1024 of a rank, is taken as continuous.

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


def _counts_below(chances: Floats) -> Floats:
    """Law of the number of independent events that happen, shape (events + 1, nodes)."""
    law = np.zeros((len(chances) + 1, chances.shape[1]))
    law[0] = 1.0
    for chance in chances:
        happened = law[:-1] * chance
        law[:-1] -= happened
        law[1:] += happened
    return law
