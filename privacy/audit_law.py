"""Lower bounds on epsilon of a mechanism that adds independent noise of a stated family. Pure.

`privacy.audit` assumes nothing, and so cannot show more than log(runs), nor the loss that is spread
over many counts. Where a release adds independent discrete Laplace or Gaussian noise to exact
counts, of whatever scale, its loss between two inputs follows from how far the counts move, v, and
from the scales, s: of Laplace noise it is sum |v| / s ([DR14] Theorem 3.6, with equality), and of
Gaussian noise that of the shift sqrt(sum v^2 / s^2) (`privacy.gaussian_profile`). So an upper
confidence bound on each scale gives a lower bound on epsilon. That says nothing of noise of another
family, or that is not independent.

References:
    [DR14] Dwork, Roth. The Algorithmic Foundations of Differential Privacy. 2014.
    [DZ10] Dembo, Zeitouni. Large Deviations Techniques and Applications. 2010. Section 2.2.
"""

from __future__ import annotations

import math

import numpy as np
import scipy
from numpy.typing import NDArray

from hushrank.privacy.gaussian_profile import Shift, composed_gaussians
from hushrank.privacy.units import NoiseKind

Floats = NDArray[np.float64]


def epsilon_by_law(
    change: Floats, noise: Floats, kind: NoiseKind, *, delta: float, level: float
) -> float:
    """A lower bound on epsilon at `delta`, if the noise is independent and of the family `kind`.

    Args:
        change: shape (d,): how far each exact count moves between the two inputs.
        noise: shape (runs, d): noise of that many runs.
        kind: family of the noise in every count that moves; scales may differ.
        delta: delta of the promised (epsilon, delta)-DP.
        level: probability that the bound is wrong, over the runs.

    Returns:
        At least 0; `inf` where a count that moves has no noise.

    Raises:
        ValueError: the shapes do not fit, or there is no run.
    """
    if noise.ndim != 2 or change.shape != noise.shape[1:] or not len(noise):
        raise ValueError(f"noise of shape {noise.shape} does not fit {change.shape} counts")
    moved = np.flatnonzero(change)
    if not len(moved):
        return 0.0
    scales = np.array([scale_at_most(noise[:, j], kind, level / len(moved)) for j in moved])
    if not scales.all():
        return math.inf
    shares = np.abs(change[moved]) / scales
    if kind is NoiseKind.LAPLACE:
        return float(shares.sum())
    return epsilon_of_shift(float(np.linalg.norm(shares)), delta)


def epsilon_of_shift(shift: float, delta: float) -> float:
    """Epsilon at `delta` of Gaussian noise whose mean moves by `shift` standard deviations."""
    return composed_gaussians([Shift(shift**2, 0.0)], delta)


def scale_at_most(noise: Floats, kind: NoiseKind, level: float) -> float:
    """An upper confidence bound on the scale of discrete noise.

    Laplace: |X| is an exponential family in log q, q = exp(-1 / scale), so the Chernoff bound on a
    mean of |X| as small as the one seen, a, is exp(-runs KL(q_a, q)) with q_a the member of mean a
    ([DZ10]); it holds for any number of runs. Gaussian: runs mean(X^2) / scale^2 is taken as chi
    squared, of which the discrete law differs by less than 10^-7 from scale 1 on.

    Args:
        noise: shape (runs,), integers.
        kind: family.
        level: probability that the true scale is larger.
    """
    runs = len(noise)
    if not noise.any():
        return 0.0
    if kind is NoiseKind.GAUSSIAN:
        return math.sqrt(float(np.square(noise).sum()) / float(scipy.stats.chi2.ppf(level, runs)))
    mean = float(np.abs(noise).mean())
    seen = (math.sqrt(1 + mean**2) - 1) / mean  # q_a: the mean of |X| is 2 q / (1 - q^2)

    def excess(scale: float) -> float:
        q = math.exp(-1 / scale)
        at_zero = math.log1p(-seen) - math.log1p(seen) - math.log(-math.expm1(-1 / scale))
        divergence = at_zero + math.log1p(q) + mean * (math.log(seen) + 1 / scale)
        return runs * divergence + math.log(level)

    low = -1 / math.log(seen)
    high = 2 * low
    while excess(high) < 0:
        high *= 2
    return float(scipy.optimize.brentq(excess, low, high))
