"""Integer noise: discrete Laplace and discrete Gaussian.

A release draws through OpenDP's exact samplers (rational arithmetic on bits of the operating
system): no floating-point Laplace, whose low bits leak. Counts are integers and so is the noise.

References:
    [CKS20] Canonne, Kamath, Steinke. The discrete Gaussian for differential privacy. 2020.
"""

from __future__ import annotations

import functools
import math
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from opendp.domains import atom_domain, vector_domain
from opendp.measurements import make_gaussian, make_laplace
from opendp.metrics import l1_distance, l2_distance
from opendp.mod import enable_features
from scipy.special import ndtri

from hushrank.privacy.accounting import smaller_reading
from hushrank.privacy.randomness import BitSource, RandomBits
from hushrank.privacy.sensitivity import Sensitivity
from hushrank.privacy.units import NoiseKind

enable_features("contrib")  # OpenDP's own gate for constructors without a finished written proof

THREAD = 1 << 10  # draws, 10 us each: starting a thread pays from here on
CHUNK = 1 << 16  # OpenDP returns Python lists: this many integers at a time keep them small
MAX_SCALE = 2.0**50  # noise beyond 2^62, which could overflow a count, has probability < e^-4000


@dataclass(frozen=True, slots=True)
class NoiseLaw:
    """Law of one integer noise value.

    Attributes:
        kind: `laplace`: P(x) proportional to exp(-|x| / scale); `gaussian`: to
            exp(-x^2 / (2 scale^2)).
        scale: scale in units of the count; 0 means no noise at all.

    Raises:
        ValueError: `scale` is not finite, negative or above 2^50.
    """

    kind: NoiseKind
    scale: float

    def __post_init__(self) -> None:
        if not 0 <= self.scale <= MAX_SCALE:
            raise ValueError(f"noise scale must be at least 0 and at most 2^50, got {self.scale!r}")

    @property
    def variance(self) -> float:
        """Exact for `laplace`; for `gaussian` the upper bound scale^2 ([CKS20] Corollary 9)."""
        if self.scale == 0 or self.kind is NoiseKind.GAUSSIAN:
            return self.scale**2
        decay = math.exp(-1 / self.scale)
        return 2 * decay / math.expm1(-1 / self.scale) ** 2


def laplace_law(sensitivity: Sensitivity, epsilon: float) -> NoiseLaw:
    """Discrete Laplace of scale l1 / epsilon, rounded up.

    Guarantee: epsilon-DP for a statistic of that l1 sensitivity: the probabilities of two outputs
    differ by the factor exp(l1 / scale) at most.

    Raises:
        ValueError: `epsilon` is not > 0 (`inf` gives the law without noise), or is so small that
            the scale would exceed 2^50.
    """
    if not epsilon > 0:
        raise ValueError(f"epsilon must be > 0, got {epsilon!r}")
    if math.isinf(epsilon):
        return NoiseLaw(NoiseKind.LAPLACE, 0.0)
    return _finite_laplace_law(sensitivity, epsilon)


@functools.lru_cache(maxsize=256)  # an audit asks for the same law again for each release
def _finite_laplace_law(sensitivity: Sensitivity, epsilon: float) -> NoiseLaw:
    exact = sensitivity.l1 / smaller_reading(epsilon)
    if exact > MAX_SCALE:
        raise ValueError(f"epsilon {epsilon!r} is too small: the noise could overflow a count")
    scale = float(exact)
    if Fraction(scale) < exact:
        scale = math.nextafter(scale, math.inf)
    return NoiseLaw(NoiseKind.LAPLACE, scale)


def gaussian_law(sensitivity: Sensitivity, rho: float) -> NoiseLaw:
    """Discrete Gaussian with scale^2 = l2^2 / (2 rho), rounded up.

    Guarantee: rho-zCDP for a statistic of that l2 sensitivity ([CKS20] Theorem 14, in every
    dimension).

    Raises:
        ValueError: `rho` is not > 0 (`inf` gives the law without noise), or is so small that the
            scale would exceed 2^50.
    """
    if not rho > 0:
        raise ValueError(f"rho must be > 0, got {rho!r}")
    if math.isinf(rho):
        return NoiseLaw(NoiseKind.GAUSSIAN, 0.0)
    variance = sensitivity.l2_squared / (2 * smaller_reading(rho))
    if variance > MAX_SCALE**2:
        raise ValueError(f"rho {rho!r} is too small: the noise could overflow a count")
    scale = math.sqrt(float(variance))
    while Fraction(scale) ** 2 < variance:
        scale = math.nextafter(scale, math.inf)
    return NoiseLaw(NoiseKind.GAUSSIAN, scale)


def add_noise(counts: NDArray[np.int64], law: NoiseLaw, bits: RandomBits) -> NDArray[np.int64]:
    """Add independent noise of `law` to every entry of `counts`, zeros included.

    Guarantee: the one with which `law` was made (`laplace_law`, `gaussian_law`), if `bits.safe`.

    Args:
        counts: any shape, integers below 2^62 in size.
        law: law of the noise.
        bits: `system_bits()` in a release; OpenDP then draws from the operating system itself.
            Other bits feed a faster sampler that is only good for simulation. `bits.used` tells
            afterwards which of the two it was.

    Returns:
        A new array of the same shape.
    """
    if law.scale == 0:
        return counts.copy()
    if bits.safe:
        noise = _exact_noise(counts.size, law, bits)
    else:
        noise = _simulated_noise(counts.size, law, bits)
    return counts + noise.reshape(counts.shape)


def _exact_noise(size: int, law: NoiseLaw, bits: RandomBits) -> NDArray[np.int64]:
    bits.note(BitSource.OPENDP)
    threads = min(os.cpu_count() or 1, size // THREAD)
    if threads < 2:
        return _drawn(law, size)
    sizes = [size // threads + (thread < size % threads) for thread in range(threads)]
    with ThreadPoolExecutor(threads) as pool:
        return np.concatenate(list(pool.map(functools.partial(_drawn, law), sizes)))


def _drawn(law: NoiseLaw, size: int) -> NDArray[np.int64]:
    sampler = _sampler(law)  # one for each thread: nothing says that it may be shared
    chunks = [min(CHUNK, size - start) for start in range(0, size, CHUNK)]
    drawn = [np.array(sampler(np.zeros(chunk, np.int64)), np.int64) for chunk in chunks]
    return np.concatenate([np.empty(0, np.int64), *drawn])


def _sampler(law: NoiseLaw) -> Any:
    integers = vector_domain(atom_domain(T="i64"))
    if law.kind is NoiseKind.LAPLACE:
        return make_laplace(integers, l1_distance(T="i64"), law.scale)
    return make_gaussian(integers, l2_distance(T="f64"), law.scale)


def _simulated_noise(size: int, law: NoiseLaw, bits: RandomBits) -> NDArray[np.int64]:
    """Fast and reproducible, to 53 bits only: never for a release.

    Laplace: the difference of two geometric variables. Gaussian: a rounded normal, whose variance
    exceeds scale^2 by 1/12.
    """
    bits.note(BitSource.SIMULATED)
    high_bits = bits.words((2, size)) >> np.uint64(11)
    uniform = (high_bits.astype(np.float64) + 0.5) * 2.0**-53
    if law.kind is NoiseKind.GAUSSIAN:
        normal: NDArray[np.float64] = ndtri(uniform[0])
        return np.rint(law.scale * normal).astype(np.int64)
    geometric = np.floor(-law.scale * np.log(uniform)).astype(np.int64)
    difference: NDArray[np.int64] = geometric[0] - geometric[1]
    return difference
