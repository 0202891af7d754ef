"""Epsilon and delta of discrete Gaussian noise on vectors of integers, better than through zCDP.

Of N(0, s^2 I) for changes of l2 norm D the smallest delta at an epsilon is known: with m = D / s,

    delta(epsilon; m) = Phi(m/2 - epsilon/m) - e^epsilon Phi(-m/2 - epsilon/m)       [BW18, Thm 8]

which holds for negative epsilon too. Composed, also adaptively, such mechanisms are one of m^2, the
sum of theirs ([DRS22] Corollary 3.3; [ZDW22] Theorem 10). The discrete Gaussian N_Z(c, sigma^2) is
not N(c, sigma^2) rounded, and its delta may be a little above. This is by how much at most.

Theorem. Let 0 < r < sigma, t^2 = r^2 (1 - r^2 / sigma^2), a = exp(-2 pi^2 r^2), E = 2a / (1 - a^3)
< 1 and k = exp(-2 pi^2 t^2) E / (1 - E) < 1. Independent N_Z(0, sigma^2) on every entry of a vector
of integers that moves by at most D in l2 norm is (epsilon, delta)-DP for every epsilon and

    delta = e^S delta(epsilon - S; D / s),   s^2 = sigma^2 - r^2,   S = D^2 log((1 + k) / (1 - k)).

Several such releases together are so with the sum of their D^2 / s^2 and of their S.

Proof. Round x to the integer y with probability exp(-(y - x)^2 / 2r^2) / (r sqrt(2 pi) Z(x)). By
Poisson summation Z(x) = 1 + e(x), e(x) = sum over j != 0 of a^(j^2) exp(2 pi i j x), and |e| <= E.
Let Q_c be the law of y for x from N(c, s^2), c an integer. Completing the square, and with g the
density of N(0, sigma^2),

    Q_c(y) = g(y - c) A,   A = mean of 1 / Z over N(x', t^2) for some x' that depends on y and c.

1 / Z is the sum of (-e)^n, and every power of e has Fourier coefficients >= 0. So those of 1 / Z
are at most those of 1 / (1 - e) in size. These add up to at most 1 / (1 - E), the 0-th is at least
1, and so those of 1 / Z apart from the 0-th, b, add up to at most E / (1 - E). The mean over
N(x', t^2) shrinks them by exp(-2 pi^2 t^2) or more: |A - b| <= k. As 1 / z is convex and Z has mean
1, b >= 1. So A is in [(1 - k) b, (1 + k) b], and b is the same for all y and c, as is
N_Z(c, sigma^2)(y) / g(y - c). Hence N_Z(c, sigma^2) = w Q_c for some w(y, c) between W / (1 + k)
and W / (1 - k); both laws have mass 1, so W <= 1 + k.

A vector that moves by at most D does so in at most D^2 entries; the noise in the others has the
same law on both inputs, apart from all else. So of the laws P, P' of the release on two such
inputs P <= u e^S Q and P' >= u Q' with u = (W / (1 + k))^(D^2) <= 1. With x_+ = max(x, 0)

    sum (P - e^epsilon P')_+ <= sum (u e^S Q - e^epsilon u Q')_+
                              = u e^S sum (Q - e^(epsilon - S) Q')_+

where Q and Q' are computed from Gaussian noise of variance s^2, entry by entry, so that the last
sum is at most delta(epsilon - S; D / s). For several releases factors w multiply. QED

k falls as exp(-4 pi^2 r^2): r^2 below 1 does, and costs a part r^2 / sigma^2 of the variance.
`tests/privacy/test_gaussian_profile.py` compares with sums over all outputs.

References:
    [BW18] Balle, Wang. Improving the Gaussian mechanism for differential privacy. 2018.
    [DRS22] Dong, Roth, Su. Gaussian differential privacy. 2022.
    [ZDW22] Zhu, Dong, Wang. Optimal accounting of differential privacy via characteristic
        function. 2022.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from scipy.special import erfcx, ndtr

SLACK = (
    1e-3  # S is about this part of rho, or less, unless the scale is small: little beside epsilon
)
LEAST_DELTA = 1e-300  # below it floats end
# Relative error of `erfcx` (below 1e-13 by its author) and of the few operations around it, with
# room to spare; of exp(-x^2 / 2) it grows with x.
FLOAT_ERROR = 1e-12


class Shift(NamedTuple):
    """A Gaussian mechanism that is nearly as hard on privacy as a discrete one, or harder.

    Attributes:
        squared: D^2 / s^2, rounded up; `inf` where the theorem gives nothing.
        slack: S, rounded up.
    """

    squared: float
    slack: float


def shift_of(rho: float, l2_squared: int) -> Shift:
    """Shift of discrete Gaussian noise of variance l2_squared / (2 rho), by the theorem.

    It holds for every larger squared sensitivity D^2 at the same rho as well, so that the least
    that it can be will do: with r^2 as chosen here, D^2 / s^2 = 2 rho / (1 - r^2 / sigma^2) falls
    with D^2, because r^2 / D^2 does (r^2 grows by 1 / (2 pi^2) with log D^2, and is above that);
    and so does S, because r^2 + t^2 = r^2 (2 - r^2 / sigma^2) grows by at least 1 / (2 pi^2) with
    log D^2, for which k falls as 1 / D^2.

    Args:
        rho: rho of the noise, >= 0.
        l2_squared: squared l2 sensitivity of the integers, >= 1.
    """
    if rho == 0:
        return Shift(0.0, 0.0)
    variance = l2_squared / (2 * rho)
    logs = math.log(math.e**2 + 4 / (SLACK * rho)) + 2 * math.log(l2_squared)
    smoothing = logs / (4 * math.pi**2)  # r^2, such that S is about SLACK rho / D^2
    if not smoothing < variance / 2:  # not even half the variance is left: zCDP says more
        return Shift(math.inf, 0.0)
    decay = math.exp(-2 * math.pi**2 * smoothing)
    ripple = 2 * decay / (1 - decay**3)
    apart = math.exp(-2 * math.pi**2 * smoothing * (1 - smoothing / variance))
    apart *= ripple / (1 - ripple)
    slack = l2_squared * (math.log1p(apart) - math.log1p(-apart))
    return Shift(l2_squared / (variance - smoothing) * (1 + FLOAT_ERROR), slack * (1 + 1e-9))


def composed_gaussians(shifts: Iterable[Shift], delta: float) -> float:
    """Epsilon such that releases of these `shifts` together are (epsilon, delta)-DP.

    Rounded up, by about 1 part in 10^12; `inf` where nothing is known.
    """
    together = list(shifts)
    squared = math.fsum(shift.squared for shift in together) * (1 + FLOAT_ERROR)
    slack = math.fsum(shift.slack for shift in together) * (1 + FLOAT_ERROR)
    if not (math.isfinite(squared) and delta >= LEAST_DELTA):
        return math.inf
    if squared == 0:
        return 0.0
    shift = math.sqrt(squared)

    def holds(epsilon: float) -> bool:
        return math.exp(slack) * delta_of(epsilon - slack, shift) <= delta

    if holds(0.0):
        return 0.0
    low, high = 0.0, shift
    while not holds(high):
        low, high = high, 2 * high
    while high - low > FLOAT_ERROR * high:
        middle = (low + high) / 2
        if holds(middle):
            high = middle
        else:
            low = middle
    return high


def delta_of(epsilon: float, shift: float) -> float:
    """Smallest delta of the Gaussian mechanism at `epsilon` ([BW18] Theorem 8), rounded up.

    Args:
        epsilon: may be negative.
        shift: m, sensitivity over standard deviation, > 0.
    """
    near, far = epsilon / shift - shift / 2, epsilon / shift + shift / 2
    # e^epsilon phi(far) = phi(near): by ratios of tail to density nothing overflows.
    density = math.exp(-(near**2) / 2)
    first = density * _tail_ratio(near) if near > 0 else float(ndtr(-near))
    second = density * _tail_ratio(far) if far > 0 else math.exp(epsilon) * float(ndtr(-far))
    error = FLOAT_ERROR * (1 + abs(near) * (abs(near) + shift)) * (first + second)
    return first - second + error


def _tail_ratio(x: float) -> float:
    """P(normal > x) exp(x^2 / 2), x > 0."""
    return float(erfcx(x / math.sqrt(2))) / 2
