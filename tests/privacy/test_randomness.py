"""Where bits come from, and that no two holders of them draw the same."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import numpy as np
import pytest

from hushrank.privacy.noise import NoiseLaw, _simulated_noise, add_noise
from hushrank.privacy.randomness import SECURE, BitSource, RandomBits, seeded_bits, system_bits
from hushrank.privacy.units import NoiseKind
from tests.statistics import FALSE_POSITIVE_RATE, binomial_p_value

WORDS = 20_000


def test_system_bits_are_safe_and_never_repeat() -> None:
    bits = system_bits()
    assert bits.safe
    draws = [bits, bits, pickle.loads(pickle.dumps(bits)), copy.deepcopy(bits), system_bits()]
    assert len({source.take(16) for source in draws}) == len(draws)  # repeats: 2^-124


def test_a_seed_is_reproducible_and_unsafe() -> None:
    bits, again, other = seeded_bits(7), seeded_bits(7), seeded_bits(8)
    assert not bits.safe
    first = bits.take(64)
    assert first == again.take(64)
    assert first != other.take(64)
    assert first != bits.take(64)  # the stream moves on
    assert (bits.words(5) == again.words((6,))[:5]).sum() == 0  # 64 bytes behind
    assert seeded_bits(-1).take(8) == seeded_bits(2**256 - 1).take(8)


@pytest.mark.parametrize("duplicate", [pickle.dumps, copy.copy, copy.deepcopy])
def test_seeded_bits_refuse_to_be_copied(duplicate: Callable[[RandomBits], object]) -> None:
    with pytest.raises(TypeError, match="every copy would draw the same noise"):
        duplicate(seeded_bits(7))


@pytest.mark.parametrize("bits", [system_bits(), seeded_bits(7)])
def test_words_have_the_shape_and_fair_bits(bits: RandomBits) -> None:
    words = bits.words((WORDS // 2, 2))
    assert words.shape == (WORDS // 2, 2)
    assert words.dtype == np.uint64
    assert bits.words(0).shape == (0,)
    for position in range(64):
        ones = int(((words >> np.uint64(position)) & np.uint64(1)).sum())
        assert binomial_p_value(ones, WORDS, 0.5) > FALSE_POSITIVE_RATE / 64
        assert binomial_p_value(ones, WORDS, 0.56) < FALSE_POSITIVE_RATE  # power: 17 errors off


def test_a_stream_tells_what_was_really_drawn() -> None:
    bits = system_bits()
    assert bits.used == frozenset()
    bits.words(0)  # even nothing: whether anything is needed can depend on rows
    assert bits.used == {BitSource.SYSTEM}
    seeded = seeded_bits(1)
    seeded.take(1)
    assert (seeded.used, seeded.safe) == ({BitSource.SEEDED}, False)


@pytest.mark.parametrize("size", [5, 5_000])  # few and many are drawn in different ways
@pytest.mark.parametrize("kind", list(NoiseKind))
def test_integer_noise_tells_which_sampler_drew_it(kind: NoiseKind, size: int) -> None:
    law, counts = NoiseLaw(kind, 2.0), np.zeros(size, np.int64)
    bits, seeded = system_bits(), seeded_bits(1)
    add_noise(counts, law, bits)
    assert bits.used == {BitSource.OPENDP}
    add_noise(counts, law, seeded)
    assert seeded.used == {BitSource.SEEDED, BitSource.SIMULATED}
    simulated = system_bits()
    _simulated_noise(5, law, simulated)  # whatever bits it is given
    assert not simulated.used <= SECURE
