"""Shares of wins that honest answers do not give: a sign that some answers follow no mechanism.

S / W of a pair estimates a chance, so it leaves [0, 1] by chance alone, and never by far. An
answer's term of S has the width a, so by Hoeffding S exceeds its mean, which is at most W, by x
with chance at most exp(-2 x^2 / sum a^2), and sum a^2 <= sum a t = W. The same holds of all answers
about one item together. Lies that stay within what is possible are not found.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy

from hushrank.estimation.common.links import Floats
from hushrank.estimation.fit.weighted_pairs import WeightedPairs

FALSE_ALARM = 1e-6  # chance that honest answers raise it, whatever the truth


@dataclass(frozen=True, slots=True)
class ImpossibleShares:
    """What was found.

    Attributes:
        items: numbers of the items whose wins, or losses, are too many.
        pairs: how many pairs have such shares.
    """

    items: tuple[int, ...]
    pairs: int


def impossible_shares(pairs: WeightedPairs) -> ImpossibleShares:
    """Items and pairs whose shares of wins lie outside [0, 1] by more than chance allows."""
    s, w = pairs.pair_values()
    if isinstance(s, scipy.sparse.csr_array) and isinstance(w, scipy.sparse.csr_array):
        of_pairs = s.data, w.data
    else:
        met = np.asarray(w) > 0
        of_pairs = np.asarray(s)[met], np.asarray(w)[met]
    weight = _sums(w, 0) + _sums(w, 1)
    won = _sums(s, 1) + _sums(w, 0) - _sums(s, 0)  # as i, and as j, who wins where i loses
    tests = 2 * (len(of_pairs[0]) + pairs.n_items)
    return ImpossibleShares(
        items=tuple(np.flatnonzero(_outside(won, weight, tests)).tolist()),
        pairs=int(_outside(*of_pairs, tests).sum()),
    )


def _sums(matrix: Floats | scipy.sparse.csr_array, axis: int) -> Floats:
    return np.asarray(matrix.sum(axis=axis), np.float64).ravel()


def _outside(s: Floats, w: Floats, tests: int) -> Floats:
    reach = np.sqrt(w * math.log(tests / FALSE_ALARM) / 2)
    return np.asarray((s > w + reach) | (s < -reach))
