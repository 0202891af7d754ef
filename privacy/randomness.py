"""The one source of random bits.

A release takes its bits from `system_bits()`. `seeded_bits()` is for simulation and tests. It is
the only place where a seed can enter, and nothing drawn from it is private. Every stream records
the source of the bits that were really drawn (`used`). That record, not the requested source,
decides whether a release is safe (`privacy.bits_used`).
"""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from enum import StrEnum
from typing import ClassVar, NoReturn, Protocol

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray


class BitSource(StrEnum):
    """The source of random bits, or of values drawn with them."""

    SYSTEM = "system"  # the operating system's cryptographic generator
    OPENDP = "opendp"  # OpenDP's exact samplers, which use the operating system themselves
    SEEDED = "seeded"  # a seed: whoever knows it can repeat the draw
    SIMULATED = "simulated"  # the fast sampler of integer noise, with 53 bits of precision


SECURE = frozenset({BitSource.SYSTEM, BitSource.OPENDP})  # nobody can predict or replay them


class RandomBits(Protocol):
    """A stream of independent, uniformly random bits."""

    @property
    def source(self) -> BitSource:
        """Source of the bits."""
        ...

    @property
    def safe(self) -> bool:
        """True only if nobody can predict or repeat the bits."""
        ...

    @property
    def used(self) -> frozenset[BitSource]:
        """The real sources of everything that was drawn with this stream so far."""
        ...

    def note(self, source: BitSource) -> None:
        """Record in `used` that something was drawn from `source` instead of this stream."""
        ...

    def take(self, n_bytes: int) -> bytes:
        """The next `n_bytes` of the stream."""
        ...

    def words(self, shape: int | tuple[int, ...]) -> NDArray[np.uint64]:
        """The next uniform 64-bit words, in an array of `shape`."""
        ...


class _Words(ABC):
    source: ClassVar[BitSource]

    def __init__(self) -> None:
        self._used: set[BitSource] = set()

    @property
    def safe(self) -> bool:
        return self.source in SECURE

    @property
    def used(self) -> frozenset[BitSource]:
        return frozenset(self._used)

    def note(self, source: BitSource) -> None:
        self._used.add(source)

    def take(self, n_bytes: int) -> bytes:
        self.note(self.source)
        return self._drawn(n_bytes)

    @abstractmethod
    def _drawn(self, n_bytes: int) -> bytes: ...

    def words(self, shape: int | tuple[int, ...]) -> NDArray[np.uint64]:
        n_words = math.prod(shape) if isinstance(shape, tuple) else shape
        return np.frombuffer(self.take(8 * int(n_words)), np.uint64).reshape(shape)


class _SystemBits(_Words):
    """The operating system's cryptographic generator. Copies never repeat each other."""

    source = BitSource.SYSTEM

    def _drawn(self, n_bytes: int) -> bytes:
        return os.urandom(n_bytes)


class _SeededBits(_Words):
    """AES-256 in counter mode under a key made of the seed: reproducible, so never private."""

    source = BitSource.SEEDED

    def __init__(self, seed: int) -> None:
        super().__init__()
        key = (seed % 2**256).to_bytes(32, "little")
        self._stream = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()

    def _drawn(self, n_bytes: int) -> bytes:
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

    They are not `safe`, so nothing drawn from them is published. They cannot be pickled, because
    every worker's copy would repeat the same noise.

    Args:
        seed: any integer; only its value modulo 2^256 counts.
    """
    return _SeededBits(seed)
