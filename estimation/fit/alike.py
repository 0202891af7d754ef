"""Answers of people who chose their own epsilon, all weighed alike, and a check of both weights.

The weights of `weighted_pairs` are *precision weights*: an answer counts by t^2. They have the
smallest variance, but estimate shares of all people only if the epsilon that somebody chose says
nothing of the answer. *Equal weights* estimate them whatever people chose, at a price: the pull of
an answer is a = b / t in the place of t, with b the t of the smallest epsilon that is accepted, so
that a <= 1, and the sums of a pair are

    S' = sum a (noisy - p)      W' = sum a t = b n      Q' = sum a^2.

S' / W' is the mean over its n answers of (noisy - p) / t, which is unbiased for each of them. An
answer as it is sent has the variance (1 - t^2 (2F - 1)^2) / 4. So, with R the sum of the squared
weights a t of S and W,

    Var S  <= (W - R (2F - 1)^2) / 4, exact without a cap,
    Var S'  = (Q' - b W' (2F - 1)^2) / 4,

also where people differ, F being the mean of their chances. For the fit, all sums of answers alike
are multiplied by one factor, sum W' / sum Q' over all pairs. Then the sum of all W' is that of all
Q', as with precision weights, and the ridge means the same as there.

`answers_differ` compares both weights ([H78]). Where people of every epsilon answer alike, S / W
and S' / W' of a pair have the same mean, and sum (t / W - a / W')^2 / 4 bounds the variance of
their difference. That is (Q' / W'^2 - 1 / W) / 4, and at most (Q' / W'^2 + 1 / W) / 4 where a cap
lowers some of the first pulls. Differences of an item's pairs are added up, each times W; no model
of the shares is needed. Errors are those of independent answers.

References:
    [H78] Hausman. Specification tests in econometrics. 1978.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from hushrank.estimation.common.links import Floats
from hushrank.estimation.common.uncertainty import LEVEL
from hushrank.estimation.fit.weighted_pairs import UNITS, WeightedPairs
from hushrank.privacy.randomized_response import attenuation, flip_thresholds


@dataclass(frozen=True, slots=True, eq=False)
class SummedVariance:
    """Variance of sums of answers with different epsilons, from sums of their squares.

    Attributes:
        squares: sum of a^2, in the form of the weights that `of_sums` takes.
        products: sum of a^2 t^2, likewise.
    """

    squares: Floats
    products: Floats

    def of_sums(self, weights: Floats, win_chance: Floats) -> Floats:
        """Variance of each sum, in the shape of `weights` and `win_chance`."""
        return np.asarray(self.squares / 4 - self.products * (win_chance - 0.5) ** 2)


def least_attenuation(epsilon: float) -> float:
    """b: t of the smallest epsilon that is accepted."""
    return float(attenuation(flip_thresholds(np.array([epsilon])))[0])


def weighed_by_precision(pairs: WeightedPairs) -> tuple[WeightedPairs, SummedVariance]:
    """S and W as they are fitted, and their variance, of sums that have those alike."""
    _, w, *_, products = pairs.entries() / UNITS
    return pairs, SummedVariance(w, products)


def weighed_alike(pairs: WeightedPairs, least: float) -> tuple[WeightedPairs, SummedVariance]:
    """S' and W' in the place of S and W, as they are fitted, and their variance.

    Args:
        pairs: sums that have those of answers alike.
        least: the smallest epsilon that is accepted.
    """
    s, w, squares, _ = pairs.alike / UNITS
    total = float(squares.sum())
    factor = float(w.sum()) / total if total > 0 else 1.0
    alike = pairs.with_sums(*(np.rint(factor * UNITS * each).astype(np.int64) for each in (s, w)))
    products = least_attenuation(least) * w
    return alike, SummedVariance(factor**2 * squares, factor**2 * products)


def answers_differ(pairs: WeightedPairs, least: float, *, capped: bool) -> bool:
    """Whether shares by precision weights and by equal ones differ by more than chance.

    Where epsilons say nothing of answers, that happens in at most about 5 % of releases.

    Args:
        pairs: sums that have those of answers alike.
        least: the smallest epsilon that is accepted.
        capped: whether S and W were summed with a cap on epsilon.
    """
    low, high, sums = pairs.table()
    if not len(low):
        return False
    s, w, s_alike, w_alike, squares, _ = sums
    apart = s - w * s_alike / w_alike
    variance = (w * w * squares / w_alike**2 + (w if capped else -w)) / 4
    rounding = w * 2 / UNITS / least_attenuation(least) ** 2

    def of_items(values: Floats, sign: float) -> Floats:
        of_low, of_high = (np.bincount(ends, values, pairs.n_items) for ends in (low, high))
        return np.asarray(of_low + sign * of_high)

    size = -ndtri(LEVEL / 2 / pairs.n_items)
    reach = size * np.sqrt(np.maximum(of_items(variance, 1.0), 0)) + of_items(rounding, 1.0)
    return bool((np.abs(of_items(apart, -1.0)) > reach).any())
