"""Likelihood, score and information of an expected number, given its noisy count.

A count x is N + noise, where N has mean and variance m (Poisson) and the noise has a public law. Of
small counts under little noise the law of x is summed up exactly. Else N is taken as normal:

    Gaussian noise:  x has variance m + v,
    Laplace noise of scale b, with s^2 = m and z = x - m ([KKP01] 2.3: density of a normal Laplace
    variable):   density proportional to  e^(-z/b) Phi(z/s - s/b) + e^(z/b) Phi(-z/s - s/b).

The score of the latter stays within 1/b: what lies far out is taken for noise. Where noise exceeds
the chance in the counts by far, a location then has half the variance that a mean would have.

References:
    [KKP01] Kotz, Kozubowski, Podgorski. The Laplace distribution and generalizations. 2001.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, pdtr, pdtrc

from hushrank.estimation.common.links import Floats
from hushrank.privacy.noise import NoiseLaw
from hushrank.privacy.units import NoiseKind

EXACT_MEAN = 15.0  # a larger count is taken as normal
EXACT_SCALE = 2.0  # and so is any, under noise of a larger scale
CLOSED_SCALE = 0.3  # scale from which on the closed form for Laplace noise stays in range
LEAST_VARIANCE = 1e-3
RATIOS = np.geomspace(1e-3, 1e3, 121)  # ratios of s to b, in the table of informations
REACH, POINTS = 14.0, 6001  # standard deviations and abscissas of the sum for one table entry
MEANS = np.geomspace(1e-3, EXACT_MEAN, 40)  # in the table of informations of exact laws
FAR = 30.0  # scales from where noise is left out there
SMALLEST = 1e-290


@dataclass(frozen=True, slots=True)
class CellLaw:
    """Law of noisy counts, in comparisons.

    Attributes:
        noise: law of the noise in the counts' integer units.
        row_weight: integer units of one comparison.
        whole: whether counts and noise are integers; those that a night of a stream shows are not.
    """

    noise: NoiseLaw
    row_weight: int = 1
    whole: bool = True

    @property
    def variance(self) -> float:
        """Variance of the noise."""
        return self.noise.variance / self.row_weight**2

    def _exact(self, means: Floats) -> NDArray[np.bool_]:
        possible = self.whole and self.row_weight == 1 and self.noise.scale <= EXACT_SCALE
        return np.asarray(possible & (means <= EXACT_MEAN))

    def loss_and_score(
        self, counts: Floats, means: Floats, spread: Floats
    ) -> tuple[Floats, Floats]:
        """Minus the log-likelihood, but for a constant, and its negative slope in the mean.

        Args:
            counts: noisy, any shape.
            means: m, > 0, of the same shape.
            spread: variance of N, where it is taken as normal: near m, held while m is sought.
        """
        spread = np.maximum(spread, LEAST_VARIANCE)
        away = counts - means
        if self.noise.kind is NoiseKind.GAUSSIAN:
            total = spread + self.variance
            loss, score = away**2 / (2 * total), away / total
        else:
            loss, score = _normal_laplace(away, np.sqrt(spread), np.sqrt(self.variance / 2))
        exact = self._exact(spread)  # not the mean: which law is used must not change in a search
        if exact.any():
            loss[exact], score[exact] = _poisson(counts[exact], means[exact], self.noise)
        return loss, score

    def information(self, means: Floats) -> Floats:
        """Expected square of the score at the mean, in the shape of `means`."""
        spread = np.maximum(means, LEAST_VARIANCE)
        if self.noise.kind is NoiseKind.GAUSSIAN:
            found = 1 / (spread + self.variance)
        else:
            scale = np.sqrt(self.variance / 2)
            at = np.log(np.clip(np.sqrt(spread) / scale, RATIOS[0], RATIOS[-1]))
            found = np.exp(np.interp(at, np.log(RATIOS), _normal_laplace_table())) / scale**2
            # Beyond the table the noise is nothing beside the chance in N.
            found = np.where(np.sqrt(spread) > RATIOS[-1] * scale, 1 / spread, found)
        exact = self._exact(spread)
        if exact.any():
            table = _poisson_table(self.noise)
            found[exact] = np.exp(np.interp(np.log(spread[exact]), np.log(MEANS), table))
        return np.asarray(found)


def _normal_laplace(away: Floats, s: Floats | float, b: float) -> tuple[Floats, Floats]:
    above = log_ndtr(away / s - s / b) - away / b
    below = log_ndtr(-away / s - s / b) + away / b
    return -np.logaddexp(above, below), np.tanh((above - below) / 2) / b


@lru_cache(maxsize=1)
def _normal_laplace_table() -> Floats:
    """Log of the information at scale 1, for each of `RATIOS`."""
    found = []
    for ratio in RATIOS:
        reach = REACH * np.sqrt(ratio**2 + 2)
        loss, score = _normal_laplace(np.linspace(-reach, reach, POINTS), ratio, 1.0)
        weight = np.exp(loss.min() - loss)
        found.append(np.log((weight * score**2).sum() / weight.sum()))
    return np.array(found)


@lru_cache(maxsize=4)
def _noise_probabilities(noise: NoiseLaw) -> Floats:
    """Chance of each noise from -r to r, shape (2 r + 1,)."""
    squares = noise.kind is NoiseKind.GAUSSIAN
    r = int(np.ceil(FAR * max(noise.scale, 0.5)) * (1 if squares else 15))
    at = np.abs(np.arange(-r, r + 1.0)) / noise.scale
    weight = np.exp(-(at**2) / 2 if squares else -at)
    return np.asarray(weight / weight.sum())


def _poisson(counts: Floats, means: Floats, noise: NoiseLaw) -> tuple[Floats, Floats]:
    """Law of N + noise, N Poisson: the slope of p(x) in the mean is p(x - 1) - p(x)."""
    if noise.kind is NoiseKind.LAPLACE and noise.scale >= CLOSED_SCALE:
        return _poisson_laplace(np.rint(counts), means, noise.scale)
    return _poisson_summed(counts, means, noise)


def _poisson_laplace(x: Floats, m: Floats, scale: float) -> tuple[Floats, Floats]:
    """The same in closed form, with q = e^(-1 / scale): p(x) is in proportion to L + U, where

        L = sum over k < x of P(k) q^(x - k) = q^x e^(m / q - m) P[N' < x],     N' of mean m / q,
        U = sum over k >= x of P(k) q^(k - x) = q^-x e^(m q - m) P[N'' >= x],   N'' of mean m q,

    and p(x - 1) to L / q + U q.
    """
    q = np.exp(-1 / scale)
    loss, score = -x / scale + m * (1 - q), np.full(m.shape, q - 1)  # L is 0 where x <= 0
    above = x > 0
    x, m = x[above], m[above]
    low = np.exp(m / q - m - x / scale) * pdtr(x - 1, m / q)
    high = np.exp(m * q - m + x / scale) * pdtrc(x - 1, m * q)
    here = np.maximum(low + high, SMALLEST)
    loss[above], score[above] = -np.log(here), np.maximum(low / q + high * q, SMALLEST) / here - 1
    return loss - np.log(np.tanh(1 / (2 * scale))), score


def _poisson_summed(counts: Floats, means: Floats, noise: NoiseLaw) -> tuple[Floats, Floats]:
    probabilities = _noise_probabilities(noise)
    middle = len(probabilities) // 2
    at = np.rint(counts).astype(np.int64) + middle
    here, before = np.zeros(means.shape), np.zeros(means.shape)
    chance, noise_chance = np.exp(-means), probabilities.take(at, mode="clip")
    for k in range(_most(float(means.max()))):
        here += chance * noise_chance
        noise_chance = probabilities.take(at - (k + 1), mode="clip")
        before += chance * noise_chance
        chance *= means / (k + 1)
    here = np.maximum(here, SMALLEST)
    return -np.log(here), np.maximum(before, SMALLEST) / here - 1


def _most(mean: float) -> int:
    """No Poisson variable of this mean exceeds it, but for a chance of 1e-15."""
    k = int(mean) + 10
    while pdtrc(k, mean) > 1e-15:
        k += 5
    return k


@lru_cache(maxsize=4)
def _poisson_table(noise: NoiseLaw) -> Floats:
    """Log of the information for each of `MEANS`."""
    found = []
    for mean in MEANS:
        reach = int(np.ceil(FAR * max(noise.scale, 0.5)))
        x = np.arange(-reach, _most(mean) + reach + 1.0)
        loss, score = _poisson(x, np.full(x.shape, mean), noise)
        found.append(np.log((np.exp(-loss) * score**2).sum()))
    return np.array(found)
