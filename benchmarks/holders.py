"""How far scores are off where several holders have the answers: three ways to combine them.

Claim: the table in docs/choosing.md ("Several holders who may not share rows"): everybody answers
10 of all pairs of 20 items, `noisy-counts`, replace-one, epsilon 1. The error is that of the share
of its comparisons that an item wins, near one half, in percentage points: standard deviation.

    one curator      the rows of all holders, one draw
    each holder      a draw of each, added up by `hushrank pool`
    at the source    each answer by randomised response, with a tenth of a person's epsilon

    python benchmarks/holders.py
"""

from __future__ import annotations

import math

import numpy as np

from hushrank.privacy.noise import NoiseLaw, laplace_law
from hushrank.privacy.randomized_response import attenuation, flip_thresholds
from hushrank.privacy.sensitivity import win_counts_sensitivity
from hushrank.privacy.units import Adjacency, NoiseKind, PrivacyParams, Unit

ITEMS, ANSWERS, EPSILON = 20, 10, 1.0
SIZES = ((3, 200), (3, 2000), (10, 200), (10, 2000), (30, 200), (30, 2000))  # holders, people each


def noise_law(epsilon: float = EPSILON) -> NoiseLaw:
    """The law of the noise on each item's wins."""
    params = PrivacyParams(
        unit=Unit.USER,
        adjacency=Adjacency.REPLACE_ONE,
        noise=NoiseKind.LAPLACE,
        epsilon=epsilon,
        max_contributions=ANSWERS,
        distinct_pairs=True,
    )
    return laplace_law(win_counts_sensitivity(params, ITEMS), epsilon)


def appearances(people: int) -> float:
    """In how many comparisons an item takes part."""
    return 2 * ANSWERS * people / ITEMS


def error(people: int, draws: int, epsilon: float = EPSILON) -> float:
    """Standard deviation of a share, from the wins of all people with the noise of some draws."""
    of_an_item = appearances(people)
    variance = 2 * noise_law(epsilon).scale ** 2  # of Laplace noise; of the discrete one it is less
    return math.sqrt(0.25 / of_an_item + draws * variance / of_an_item**2)


def error_at_source(people: int, epsilon: float = EPSILON) -> float:
    """The same, of answers that are each randomised with a part of a person's epsilon."""
    (kept,) = attenuation(flip_thresholds(np.array([epsilon / ANSWERS])))
    return math.sqrt(0.25 / appearances(people)) / float(kept)


def table() -> list[str]:
    """Lines of the table, as the page has them."""
    lines = []
    for holders, people in SIZES:
        everybody = holders * people
        errors = (
            math.sqrt(0.25 / appearances(everybody)),
            error(everybody, 1),
            error(everybody, holders),
            error_at_source(everybody),
        )
        told = " | ".join(f"{100 * each:.2g}" for each in errors)
        lines.append(f"| {holders} × {people:,} | {told} |")
    return lines


if __name__ == "__main__":
    print("\n".join(table()))
