"""Intervals that hold the truly best and the truly worst item as often as any other.

Let theta_i ~ N(m_i, e_i^2) be what is known of each score after partial pooling, taken as
independent. An interval of m_i around 1.96 e_i holds 95 % of the items. It holds fewer of the items
that are truly best: such an item is one whose error points upwards, since scores were drawn in. How
often it is missed follows from the same law. Item i is the best with the chance

    B_i(x) = product over j != i of Phi((x - m_j) / e_j)   where its score is x,

and lies above m_i + z e_i and is the best with the chance

    T_i(z) = integral from z of phi(y) B_i(m_i + y e_i) dy.

The upper ends are moved out to where the sum of all T_i is what an interval may miss: each item
whose T_i is above a common eta until it is eta. So an item far behind keeps its interval, and where
no other item can be the best nothing moves. For the worst item, the same with signs turned.
"""

from __future__ import annotations

import numpy as np
from scipy.special import log_ndtr

from hushrank.estimation.common.links import Floats

FURTHEST, STEPS = 8.0, 161  # of z, in standard deviations
CELLS = 2_048  # of scores, between which log B is straight


def reach_of_ends(centre: Floats, error: Floats, q: float, missed: float) -> tuple[Floats, Floats]:
    """How far intervals go below and above their centres, in errors; shape (n,), q at least.

    Args:
        centre: m, shape (n,).
        error: e, shape (n,), at least 0.
        q: how far an interval goes that heeds no ends.
        missed: chance that the best item, or the worst, is not held.
    """
    error = np.maximum(error, np.finfo(float).tiny + 1e-9 * error.max())
    return _reach(-centre, error, q, missed), _reach(centre, error, q, missed)


def _reach(centre: Floats, error: Floats, q: float, missed: float) -> Floats:
    """How far intervals go above, so that the largest is held."""
    z = np.linspace(-FURTHEST, FURTHEST, STEPS)
    mass = _largest(centre, error, z)
    beyond = np.cumsum(mass[:, ::-1], axis=1)[:, ::-1]  # T_i(z)
    at_q = np.array([np.interp(q, z, each) for each in beyond])
    below = float(mass[:, z < -q].sum())  # the best item may lie below its interval, too
    least = _level(at_q, max(missed - below, missed / 2))
    moved = at_q > least
    found = np.full(len(centre), q)
    found[moved] = [np.interp(-least, -each, z) for each in beyond[moved]]
    return np.asarray(np.maximum(found, q))


def _largest(centre: Floats, error: Floats, z: Floats) -> Floats:
    """Chance of each step of z that an item's score is there and the largest, shape (n, STEPS)."""
    at = centre[:, np.newaxis] + np.multiply.outer(error, z)
    grid = np.linspace(at.min(), at.max(), CELLS)
    together = np.zeros(CELLS)
    for middle, spread in zip(centre, error, strict=True):
        together += log_ndtr((grid - middle) / spread)
    others = np.interp(at, grid, together) - log_ndtr(z)
    step = z[1] - z[0]
    density = np.exp(np.minimum(others, 0) - z**2 / 2) * step / np.sqrt(2 * np.pi)
    return np.asarray(density / density.sum())


def _level(masses: Floats, allowed: float) -> float:
    """The eta at which the sum of min(mass, eta) is `allowed`; infinite where all may stay."""
    if masses.sum() <= allowed:
        return np.inf
    ordered = np.sort(masses)
    rest = allowed - np.concatenate([[0.0], np.cumsum(ordered)[:-1]])
    levels = rest / np.arange(len(ordered), 0, -1)
    return float(levels[np.argmax(ordered >= levels)])
