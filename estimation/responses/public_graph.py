"""When a sparse graph is the better one: from public numbers alone.

A difficulty's privacy noise. On a graph of |E| pairs an item has 2 |E| / m of them, and each tells
the same whatever the graph. So the noise in an item's balance has a variance of s^2 |E|, s^2 that
of one count, its slope is as |E|, and a difficulty's noise has a variance in proportion to

    s^2 / |E|,    s as the l1 sensitivity D for Laplace noise, as the root of D for Gaussian.

All pairs: |E| = m^2 / 2 and D = K^2 / 4, nearly. A graph of degree d: |E| = m d / 2 and D = K d / 2
(`privacy.measurement_sensitivity`). The variance with all pairs over that with the graph is

    Laplace    K^2 / (4 m d)      above 1 for d < K^2 / (4 m)
    Gaussian   K / (2 m)          never above 1/2: all pairs, always

Sampling of people. Where everybody answers everything, a graph costs next to nothing, since all
pairs of a person follow from those that connect the items. Else a person's K items are connected by
d K / m pairs each: at 4 of them nearly all that the person tells is still counted. So the degree is
the least even number that gives those 4, and 6 at least; and the graph is taken where it at least
halves the variance of the noise.
"""

from __future__ import annotations

import math

from hushrank.privacy.measurement_sensitivity import measurement_sensitivity
from hushrank.privacy.units import NoiseKind, PrivacyParams

LEAST_DEGREE = 6
PAIRS_OF_AN_ANSWER = 4.0  # that connect it with the person's other answers
WORTHWHILE = 2.0  # times less variance


def degree_for(n_items: int, max_answers: int) -> int:
    """The least degree that loses next to nothing of what a person tells; even, below m."""
    wanted = PAIRS_OF_AN_ANSWER * n_items / min(max_answers, n_items)
    degree = max(LEAST_DEGREE, 2 * math.ceil(wanted / 2))
    return max(2, min(degree, n_items - 1) // 2 * 2)


def noise_ratio(params: PrivacyParams, n_items: int, degree: int) -> float:
    """Variance of the noise in a difficulty with all pairs, over that on a graph of this degree.

    Args:
        params: unit `user`; K is `max_contributions`.
        n_items: m, at least 2.
        degree: pairs of each item, at most m - 1.
    """
    n_pairs, n_edges = n_items * (n_items - 1) // 2, max(1, n_items * degree // 2)
    dense = measurement_sensitivity(params, n_items)
    even = measurement_sensitivity(params, n_items, n_edges, degree)
    if params.noise is NoiseKind.GAUSSIAN:
        return dense.l2_squared / even.l2_squared * n_edges / n_pairs
    return (dense.l1 / even.l1) ** 2 * n_edges / n_pairs


def even_graph_pays(params: PrivacyParams, n_items: int) -> bool:
    """Whether a graph of `degree_for` at least halves the variance of the noise."""
    if params.max_contributions < 2 or n_items < 3:
        return False
    degree = degree_for(n_items, params.max_contributions)
    return degree < n_items - 1 and noise_ratio(params, n_items, degree) >= WORTHWHILE
