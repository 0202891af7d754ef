"""The one source of random bits.

A release takes its bits from `system_bits()`. `seeded_bits()` exists for simulation and tests; it
is the only place where a seed can enter, and whatever was drawn from it is not private. Every
stream notes which bits were really drawn (`used`): that, and not what was asked for, decides
whether a release is safe (`privacy.bits_used`).
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from enum import StrEnum
from typing import ClassVar, NoReturn, Protocol

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray


class BitSource(StrEnum):
    """Where random bits, or what was drawn with them, came from."""

    SYSTEM = "system"  # the operating system's cryptographic generator
    OPENDP = "opendp"  # OpenDP's exact samplers, which ask the operating system themselves
    SEEDED = "seeded"  # a seed: whoever knows it can draw the same again
    SIMULATED = "simulated"  # the fast sampler of integer noise, good to 53 bits


SECURE = frozenset({BitSource.SYSTEM, BitSource.OPENDP})  # nobody can predict or replay them


class RandomBits(Protocol):
    """A stream of independent, uniformly random bits."""

    @property
    def source(self) -> BitSource:
        """Where the bits come from."""
        ...

    @property
    def safe(self) -> bool:
        """True only where nobody can predict or replay the bits."""
        ...

    @property
    def used(self) -> frozenset[BitSource]:
        """Where all that was drawn with this stream so far really came from."""
        ...

    def note(self, source: BitSource) -> None:
        """Have `used` tell that something was drawn from `source` in place of this stream."""
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
        n_words = int(np.prod(shape, dtype=np.int64))
        return np.frombuffer(self.take(8 * n_words), np.uint64).reshape(shape)


class _SystemBits(_Words):
    """The operating system's cryptographic generator. Copies never repeat each other."""

    source = BitSource.SYSTEM

    def _drawn(self, n_bytes: int) -> bytes:
        return os.urandom(n_bytes)


class _SeededBits(_Words):
    """AES-256 in counter mode under a key made of the seed: reproducible, hence never private."""

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

    They are not `safe`, so nothing drawn from them is published. They cannot be pickled: a copy in
    each worker would repeat the noise of the others.

    Args:
        seed: any integer; it is taken modulo 2^256.
    """
    return _SeededBits(seed)
