"""What a hand-made script would do with noisy counts: the bar for every method for comparisons."""

from __future__ import annotations

import numpy as np

from hushrank.estimation.common.links import LOGISTIC, Floats
from hushrank.estimation.common.matrices import PairCounts
from hushrank.estimation.fit.likelihood import Objective
from hushrank.estimation.fit.solve import minimise

NEARLY_NO_RIDGE = 0.01  # items that lost every comparison stay finite


def clipped_fit(counts: PairCounts) -> Floats:
    """Bradley-Terry scores of wins of any sign, shape (n,): what is below zero counts as zero.

    Of exact counts that is the fit without privacy.

    Raises:
        ConvergenceError: no fit was found.
    """
    wins = np.maximum(counts.dense() / counts.row_weight, 0.0)
    return minimise(Objective(wins, LOGISTIC, NEARLY_NO_RIDGE, np.zeros(len(wins)))).theta
