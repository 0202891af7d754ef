"""Noise in the difficulties of a typical test, by two methods, from public facts alone.

Abilities and difficulties are taken to be standard normal, the latter at the quantiles of that law.
What an answer tells does not depend on how many people there are, and both methods learn about as
much from answers, so the one with less noise here is the better one for any number of people.
Simulated errors of both methods differ as these do: by 0 to 10 % for 5 to 28 items with Gaussian
noise, by 15 to 30 % for 100 to 600, and 4 to 20 times with Laplace noise.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.polynomial.hermite_e import hermegauss
from scipy.special import expit, ndtri

from hushrank.estimation.common.links import Floats

ABILITIES = 21  # nodes of the normal law
MOST_QUANTILES = 200  # difficulties of longer tests lie as these


def noise_from_totals(items: int, asked: float, variance: float) -> float:
    """Standard deviation of the noise in a difficulty, times the number of people.

    Args:
        items: of the catalogue.
        asked: share of people who are asked an item.
        variance: of the noise in half of right less wrong (`totals_estimate.predicted_noise`).
    """
    right, _, chance = _typical(items)
    slope = chance @ (right * (1 - right))
    return math.sqrt(variance * float(np.mean(1 / np.square(asked * slope))))


def noise_from_pairs(items: int, degree: float, asked: float, variance: float) -> float:
    """The same of measurements of pairs: right on one item and wrong on the other, both ways.

    Args:
        items: of the catalogue.
        degree: pairs of an item that are measured.
        asked: share of people who are asked both items of such a pair.
        variance: of the noise in a count.
    """
    right, difficulty, chance = _typical(items)
    one = (chance[:, np.newaxis] * right).T @ (1 - right)
    wrong = expit(difficulty[:, np.newaxis] - difficulty)
    slope = asked * (one + one.T) * wrong * wrong.T
    told = np.square(slope) / (variance * (np.square(wrong) + np.square(wrong.T)))
    np.fill_diagonal(told, 0.0)
    of_item = told.sum(axis=1) * degree / (len(difficulty) - 1)
    return math.sqrt(float(np.mean(1 / of_item)))


def _typical(items: int) -> tuple[Floats, Floats, Floats]:
    """Chance of a right answer by ability and item, difficulties, and chance of each ability."""
    n = min(items, MOST_QUANTILES)
    difficulty = ndtri((np.arange(n) + 0.5) / n)
    ability, weight = hermegauss(ABILITIES)
    return expit(ability[:, np.newaxis] - difficulty), difficulty, weight / weight.sum()
