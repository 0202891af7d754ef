"""Which pairs to ask about next, from published scores and their errors alone.

With c the scores and S the covariance of their errors, d = c_i - c_j of an item i of the best k and
an item j below them has variance s^2 = S_ii + S_jj - 2 S_ij. If d is normal, the expected loss of a
wrong order, E[max(0, -d)] = s phi(d / s) - |d| Phi(-|d| / s), falls with s^2 at the rate
phi(d / s) / (2 s) ([CI01] eq. 4, the linear loss of a selection). Let L be the Laplacian of these
rates over all such i and j. Answers that carry information h about c_a - c_b turn S into
S - h S x x' S / (1 + h x' S x) with x = e_a - e_b (Sherman and Morrison), so to first order they
lower the loss by

    h x' S L S x / (1 + h x' S x),    h = (number of answers) F'^2 / (F (1 - F)) at c_a - c_b.

The answers to come are shared out in equal parts, each to the pair of the largest gain, after which
S and L are updated: greedy L-optimal design ([F72] section 2.7). A pair whose order is known, or
whose items are far from the edge of the best k, teaches nothing of that edge and gets none.

A share `SPREAD_OUT` is spread evenly over all pairs. So all items stay linked, an item whose score
was wrong by chance can come back, and what is known of an item does not depend on its first score
alone. Intervals of a fit that conditions on who met whom then keep their level after one such
choice (`benchmarks/next_pairs.py`). Each further choice costs some: after three, intervals of 95 %
held in about 94 %; and in 88 % where that share went to neighbours in the ranking instead.

No pair gets more than `MOST_OF_ONE` of the answers (of fewer than 6 pairs, `LEAST_ROOM` even
shares). To first order nothing speaks against asking about the two items at the edge alone; but a
person is asked about a pair once, and where chance put the wrong items at the edge such answers are
lost.

Nothing here is computed from rows: the choice is a function of what is published.

References:
    [CI01] Chick, Inoue. New two-stage and sequential procedures for selecting the best simulated
        system. Operations Research 49, 2001.
    [F72] Fedorov. Theory of Optimal Experiments. 1972.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.common.links import Floats, Link, score_differences
from hushrank.estimation.common.pair_separation import ScoreErrors, difference_variance

SPREAD_OUT = 0.3  # share of the answers that goes evenly to all pairs
PARTS = 200  # equal parts in which the rest is shared out
MOST_OF_ONE = 1 / 3  # share of the answers that one pair gets at most
LEAST_ROOM = 2  # even shares of which a pair may always have so many


@dataclass(frozen=True, slots=True)
class PairShares:
    """Pairs to ask about, the largest share first.

    Attributes:
        left: places of items in the catalogue, shape (m,), of all m = n (n - 1) / 2 pairs.
        right: places of the items that they meet, shape (m,); above those in `left`.
        share: part of the next answers, shape (m,); above 0, and they add up to 1.
    """

    left: NDArray[np.int64]
    right: NDArray[np.int64]
    share: Floats


def next_pairs(errors: ScoreErrors, link: Link, k: int, more: float = 1.0) -> PairShares:
    """Share out the next answers so that they tell the best k from the others.

    Args:
        errors: scores on the scale of `link`, and the covariance of their errors, shape (n, n).
        link: F.
        k: number of the best items that are sought, from 1 to n - 1.
        more: number of answers to come, as a multiple of the answers that taught what is known.

    Raises:
        ValueError: k is not from 1 to n - 1, or a covariance is not finite.
    """
    centre, n = errors.centre, len(errors.centre)
    if not 1 <= k < n:
        raise ValueError(f"k must be from 1 to {n - 1}, got {k!r}")
    if errors.covariance.shape != (n, n) or not np.isfinite(errors.covariance).all():
        raise ValueError("covariance must be finite and of all pairs of items")
    order = np.argsort(-centre, kind="stable")
    even, added = 2 / (n * (n - 1)), (1 - SPREAD_OUT) / PARTS
    shares = np.triu(np.full((n, n), SPREAD_OUT * even), 1)
    most = max(MOST_OF_ONE, LEAST_ROOM * even)
    information = link.information(score_differences(centre))
    np.fill_diagonal(information, 0)
    covariance = _centred(errors.covariance)
    part = information * (_known_answers(covariance, information) * more * (1 - SPREAD_OUT) / PARTS)
    top, below = order[:k], order[k:]
    for _ in range(PARTS):
        a, b = _best_pair(centre, covariance, part, top, below)
        if part[a, b] == 0:
            break
        row = covariance[a] - covariance[b]
        h = part[a, b]
        covariance = covariance - np.outer(row, row) * (h / (1 + h * (row[a] - row[b])))
        shares[a, b] += added
        if shares[a, b] + added > most:
            part[a, b] = part[b, a] = 0
    return _listed(shares)


def _centred(covariance: Floats) -> Floats:
    """The covariance of scores that add up to zero."""
    centred = covariance - covariance.mean(axis=0)
    return np.asarray(centred - centred.mean(axis=1, keepdims=True))


def _known_answers(covariance: Floats, information: Floats) -> float:
    """Number of answers, spread evenly over all pairs, that would teach as much as is known."""
    n = len(covariance)
    above = np.triu_indices(n, 1)
    mean_variance = float(difference_variance(covariance)[above].mean())
    per_pair = 2 / (n * mean_variance) if mean_variance > 0 else 0.0
    typical = float(information[above].mean())
    return per_pair / typical * len(above[0]) if typical > 0 else 0.0


def _best_pair(
    centre: Floats,
    covariance: Floats,
    part: Floats,
    top: NDArray[np.int64],
    below: NDArray[np.int64],
) -> tuple[int, int]:
    """The pair whose next part of the answers lowers the expected loss most."""
    variance = difference_variance(covariance)
    rates = _loss_rates(np.subtract.outer(centre[top], centre[below]), variance[np.ix_(top, below)])
    weights = np.zeros_like(covariance)
    weights[np.ix_(top, below)] = rates
    weights += weights.T
    laplacian = np.diag(weights.sum(axis=1)) - weights
    moved = covariance @ laplacian @ covariance
    gain = part * difference_variance(moved) / (1 + part * variance)
    a, b = np.unravel_index(int(np.argmax(np.triu(gain, 1))), gain.shape)
    return int(a), int(b)


def _loss_rates(d: Floats, variance: Floats) -> Floats:
    """phi(d / s) / (2 s): how fast the expected loss of an order falls with its variance."""
    s = np.sqrt(np.maximum(variance, np.finfo(float).tiny))
    return np.asarray(np.exp(-np.square(d / s) / 2) / (2 * math.sqrt(2 * math.pi) * s))


def _listed(shares: Floats) -> PairShares:
    left, right = np.nonzero(shares)
    share = shares[left, right]
    order = np.argsort(-share, kind="stable")
    return PairShares(left[order], right[order], share[order] / share.sum())
