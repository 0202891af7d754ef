"""Invented comparisons with ties, and what each way of treating ties counts of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

from hushrank.estimation.ties.tie_models import TieModel, outcomes_of
from hushrank.transforms.common.schema import Ties

Counts = NDArray[np.int64]


def tied(
    wins: Counts,
    truth: NDArray[np.float64],
    ties: float,
    model: TieModel,
    rng: np.random.Generator,
) -> Counts:
    """As many comparisons of each pair as in `wins`, with outcomes of a tie model.

    Args:
        wins: shape (n, n); only how often each pair met counts.
        truth: scores, shape (n,).
        ties: chance that equals tie, between 0 and 1.
        model: of ties.
        rng: where outcomes come from.

    Returns:
        Wins and ties, shape (2, n, n); ties above the diagonal.
    """
    i, j = np.triu_indices(len(truth), 1)
    chances = outcomes_of(model, truth[i] - truth[j], float(logit(ties))).chances
    won, lost, alike = rng.multinomial(wins[i, j] + wins[j, i], chances.T).T
    cells = np.zeros((2, *wins.shape), np.int64)
    cells[0, i, j], cells[0, j, i], cells[1, i, j] = won, lost, alike
    return cells


def counts_of(cells: NDArray[np.int64], way: Ties, coins: tuple[int, ...]) -> NDArray[np.int64]:
    """What a way of treating ties counts of comparisons.

    Args:
        cells: wins and ties, shape (2, n, n), ties above the diagonal.
        way: of treating ties.
        coins: seeds of a coin for each tie.
    """
    wins, ties = cells
    if way is Ties.MODEL:
        return cells
    if way is Ties.SPLIT:
        return np.asarray(2 * wins + ties + ties.T)
    if way is Ties.RANDOM:
        first = np.random.default_rng(coins).binomial(ties, 0.5)
        return np.asarray(wins + first + (ties - first).T)
    return np.asarray(wins)
