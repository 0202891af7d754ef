"""Matrices over all pairs of items, which every fit of scores needs."""

from __future__ import annotations

import numpy as np

from hushrank.estimation.common.links import Floats


def score_differences(scores: Floats) -> Floats:
    """scores[i] - scores[j], shape (n, n)."""
    return np.asarray(scores[:, None] - scores[None, :])


def laplacian(weights: Floats) -> Floats:
    """Laplacian matrix of the graph with these symmetric edge weights, shape (n, n)."""
    return np.asarray(np.diag(weights.sum(axis=1)) - weights)
