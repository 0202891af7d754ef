"""Draws that are the same in every run of a test: it fails for what has changed, never by luck.

What a release draws comes from the operating system, which nobody can seed, and a test that looks
at it fails once in so many runs; of thousands of tests, one does. So this stands in for the two
places where randomness enters: the bytes of `system_bits()`, and OpenDP's samplers. The laws are
the same, and so is all above them: what is calibrated, drawn, recorded and refused. The seed
follows from the test's name alone, not from tests before it.

Draws stay real in tests of `privacy`, which show that they have their laws, in child processes that
are given no name, and everywhere with `--real-draws`, as `make soak` has it. What fails there and
not in `make test` was luck; where it fails more often than once in 100 000 runs, it asserts too
much.
"""

from __future__ import annotations

import contextlib
import hashlib
import sys
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from hushrank.privacy import noise, randomness
from hushrank.privacy.noise import NoiseLaw
from hushrank.privacy.units import NoiseKind

NAMES: list[str] = []  # from which the draws of this moment follow, the last one; none: real ones
WIDE = 1000.0  # scale from which on a rounded normal is discrete Gaussian, for what tests see

Sampler = Callable[[NDArray[np.int64]], NDArray[np.int64]]


@contextlib.contextmanager
def same_draws(name: str) -> Iterator[None]:
    """All that this process draws inside follows from `name`."""
    seed = int.from_bytes(hashlib.sha256(name.encode()).digest())
    random = np.random.default_rng(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(randomness._SystemBits, "_drawn", lambda _, n_bytes: random.bytes(n_bytes))
        patch.setattr(noise, "_sampler", lambda law: _sampler(law, random))
        patch.setattr(noise, "THREAD", sys.maxsize)  # two threads would race for the draws
        NAMES.append(name)
        try:
            yield
        finally:
            NAMES.pop()


def _sampler(law: NoiseLaw, random: np.random.Generator) -> Sampler:
    """Adds noise of `law`, as OpenDP's samplers do."""

    def drawn(counts: NDArray[np.int64]) -> NDArray[np.int64]:
        size = len(counts)
        if law.kind is NoiseKind.LAPLACE:
            stops = -np.expm1(-1 / law.scale)
            return counts + random.geometric(stops, size) - random.geometric(stops, size)
        if law.scale > WIDE:
            return counts + np.rint(random.normal(0, law.scale, size)).astype(np.int64)
        values = np.arange(-int(40 * law.scale) - 2, int(40 * law.scale) + 3)
        weights = np.exp(-0.5 * (values / law.scale) ** 2)
        return counts + random.choice(values, size, p=weights / weights.sum())

    return drawn
