"""Random bits from the operating system, and which sources a draw has used.

The one source of random bits.

A release takes its bits from `system_bits()`. `seeded_bits()` is for simulation and tests. It is
the only place where a seed can enter, and nothing drawn from it is private. Every stream records
the source of the bits that were really drawn (`used`). That record, not the requested source,
decides whether a release is safe (`privacy.randomness`).

The random bits that a release was really drawn from; they decide whether it is safe.

Every place that draws records its purpose and the source of its bits. The records are combined and
stored with the result. They follow from the configuration and the code alone, so they reveal
nothing about anybody's rows.
"""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
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


class Purpose(StrEnum):
    """Decisions for which random bits are drawn."""

    NOISE = "noise"  # noise that is added to counts, or inside an optimisation
    RANDOMISATION = "randomisation"  # randomisation of single answers and rankings
    ROW_CHOICE = "row-choice"  # the choice of rows that count; the pseudonyms of people
    COINS = "coins"  # the winner of a tie


@dataclass(frozen=True, slots=True)
class BitsUsed:
    """The sources of bits for each purpose.

    Attributes:
        uses: every purpose that bits were drawn for, with every source that they came from.
    """

    uses: frozenset[tuple[Purpose, BitSource]] = frozenset()

    @classmethod
    def of(cls, purpose: Purpose, sources: Iterable[BitSource]) -> BitsUsed:
        """The record for one purpose; `sources` has the form of `RandomBits.used`."""
        return cls(frozenset((purpose, source) for source in sources))

    @classmethod
    def from_dict(cls, content: Mapping[str, Iterable[str]]) -> BitsUsed:
        """The inverse of `to_dict`.

        Raises:
            ValueError: a purpose or a source has an unknown name.
        """
        return cls(
            frozenset(
                (Purpose(purpose), BitSource(source))
                for purpose, sources in content.items()
                for source in sources
            )
        )

    def to_dict(self) -> dict[str, list[str]]:
        """Sources by purpose, both as text and in alphabetical order."""
        purposes = sorted({str(purpose) for purpose, _ in self.uses})
        return {
            name: sorted(str(source) for purpose, source in self.uses if purpose == name)
            for name in purposes
        }

    def __or__(self, other: BitsUsed) -> BitsUsed:
        return BitsUsed(self.uses | other.uses)

    @property
    def safe(self) -> bool:
        """Whether nobody can predict or repeat anything that was drawn."""
        return all(source in SECURE for _, source in self.uses)

    def covers(self, purpose: Purpose) -> bool:
        """Whether bits were drawn for `purpose`."""
        return any(own is purpose for own, _ in self.uses)
