"""Distances of scores or a ranking from the truth: the papers' measures.

Larger scores are better. Ranks are 1 for the best, and equal items share the mean of their ranks;
where a set of the best K is needed, the first in the catalogue come first among equals.

References:
    [CCW] Cai, Chakraborty, Wang. Optimal differentially private ranking from pairwise comparisons.
        2025.
    [XSC] Xu, Sun, Cheng. Rate-optimal rank aggregation with private pairwise rankings.
"""

from __future__ import annotations

import numpy as np

from hushrank.estimation.common.estimate import mean_ranks
from hushrank.estimation.common.links import Floats


def rms_error(scores: Floats, truth: Floats) -> float:
    """n^(-1/2) ||scores - truth||_2 ([XSC] §4.1)."""
    return float(np.sqrt(np.square(_paired(scores, truth)).mean()))


def linf_error(scores: Floats, truth: Floats) -> float:
    """||scores - truth||_inf ([XSC] §4.1)."""
    return float(np.abs(_paired(scores, truth)).max())


def relative_l2_error(scores: Floats, truth: Floats) -> float:
    """||scores - truth||_2 / ||truth||_2, whose logarithm [CCW] §4.1 reports.

    Raises:
        ValueError: the truth is zero.
    """
    return rms_error(scores, truth) / _size(rms_error(truth, np.zeros_like(truth)))


def relative_linf_error(scores: Floats, truth: Floats) -> float:
    """||scores - truth||_inf / ||truth||_inf, whose logarithm [CCW] §4.1 reports.

    Raises:
        ValueError: the truth is zero.
    """
    return linf_error(scores, truth) / _size(linf_error(truth, np.zeros_like(truth)))


def top_k_distance(scores: Floats, truth: Floats, k: int) -> float:
    """H_K, normalised Hamming distance of the best K ([XSC] §4.2); 1 - overlap / K ([CCW] §4.1).

    Raises:
        ValueError: `k` is not between 1 and the number of items.
    """
    if not 1 <= k <= len(_paired(scores, truth)):
        raise ValueError(f"k must be between 1 and {len(truth)} (the items), got {k!r}")
    best, best_true = (np.argsort(-values, kind="stable")[:k] for values in (scores, truth))
    return 1 - len(np.intersect1d(best, best_true)) / k


def kendall_distance(scores: Floats, truth: Floats) -> float:
    """K, the share of pairs of items in the opposite order ([XSC] §4.3); equal is not opposite."""
    n = len(_paired(scores, truth))
    orders = (np.sign(np.subtract.outer(values, values)) for values in (scores, truth))
    return float((np.multiply(*orders) < 0).sum() / (n * (n - 1)))


def footrule_distance(scores: Floats, truth: Floats) -> float:
    """S, Spearman's footrule: 2 / n^2 times the sum of the rank differences ([XSC] §4.3)."""
    return 2 / len(truth) * mean_rank_difference(scores, truth)


def mean_rank_difference(scores: Floats, truth: Floats) -> float:
    """Mean absolute difference of the ranks ([CCW] §4.3)."""
    return float(np.abs(_paired(mean_ranks(scores), mean_ranks(truth))).mean())


def _paired(scores: Floats, truth: Floats) -> Floats:
    if scores.ndim != 1 or scores.shape != truth.shape:
        raise ValueError(f"scores of shape {scores.shape} do not match truth of {truth.shape}")
    return scores - truth


def _size(norm: float) -> float:
    if norm == 0:
        raise ValueError("the true scores are all zero: no error is relative to that")
    return norm
