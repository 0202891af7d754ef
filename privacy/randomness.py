"""The one source of random bits.

A release takes its bits from `system_bits()`. `seeded_bits()` exists for simulation and tests; it
is the only place where a seed can enter, and whatever was drawn from it is not private: `safe` is
False and travels with the release, which the publisher then refuses.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from typing import NoReturn, Protocol

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray


class RandomBits(Protocol):
    """A stream of independent, uniformly random bits."""

    @property
    def safe(self) -> bool:
        """True only where nobody can predict or replay the bits."""
        ...

    def take(self, n_bytes: int) -> bytes:
        """The next `n_bytes` of the stream."""
        ...

    def words(self, shape: int | tuple[int, ...]) -> NDArray[np.uint64]:
        """The next uniform 64-bit words, in an array of `shape`."""
        ...


class _Words(ABC):
    @abstractmethod
    def take(self, n_bytes: int) -> bytes: ...

    def words(self, shape: int | tuple[int, ...]) -> NDArray[np.uint64]:
        n_words = int(np.prod(shape, dtype=np.int64))
        return np.frombuffer(self.take(8 * n_words), np.uint64).reshape(shape)


class _SystemBits(_Words):
    """The operating system's cryptographic generator. Stateless: copies never repeat each other."""

    safe = True

    def take(self, n_bytes: int) -> bytes:
        return os.urandom(n_bytes)


class _SeededBits(_Words):
    """AES-256 in counter mode under a key made of the seed: reproducible, hence never private."""

    safe = False

    def __init__(self, seed: int) -> None:
        key = (seed % 2**256).to_bytes(32, "little")
        self._stream = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()

    def take(self, n_bytes: int) -> bytes:
        return self._stream.update(bytes(n_bytes))

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "seeded bits cannot be pickled or copied: every copy would draw the same noise; "
            "hand over the seed and call seeded_bits() where the bits are used"
        )


def system_bits() -> RandomBits:
    """Bits for a release, from the operating system's cryptographic source."""
    return _SystemBits()


def seeded_bits(seed: int) -> RandomBits:
    """Reproducible bits for simulation and tests.

    `safe` is False, so nothing drawn from them is published. They cannot be pickled: a copy in each
    worker would repeat the noise of the others.

    Args:
        seed: any integer; it is taken modulo 2^256.
    """
    return _SeededBits(seed)
