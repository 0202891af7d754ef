"""Draws of tests: the same in every run, and of the laws that they stand for."""

from __future__ import annotations

import numpy as np
import pytest

from hushrank.privacy.noise import NoiseLaw, add_noise
from hushrank.privacy.randomness import BitSource, RandomBits, system_bits
from hushrank.privacy.units import NoiseKind
from tests.draws import same_draws
from tests.statistics import (
    FALSE_POSITIVE_RATE,
    discrete_gaussian_pmf,
    discrete_laplace_pmf,
    law_p_value,
)

PMFS = {NoiseKind.LAPLACE: discrete_laplace_pmf, NoiseKind.GAUSSIAN: discrete_gaussian_pmf}


def drawn(bits: RandomBits) -> tuple[bytes, list[int]]:
    noise = add_noise(np.zeros(5000, np.int64), NoiseLaw(NoiseKind.LAPLACE, 20.0), bits)
    return bits.take(32), noise.tolist()


def test_a_name_is_a_seed_and_nothing_lasts() -> None:
    bits = system_bits()
    with same_draws("one"):
        first, next_ = drawn(bits), drawn(bits)
    with same_draws("one"):
        again = drawn(bits)
        with same_draws("two"):
            other = drawn(bits)
        after = drawn(bits)
    assert (again, after) == (first, next_)
    assert len({each[0] for each in (first, next_, other, drawn(bits), drawn(bits))}) == 5
    assert bits.used == {BitSource.SYSTEM, BitSource.OPENDP}


@pytest.mark.parametrize("kind", list(NoiseKind))
@pytest.mark.parametrize("scale", [0.7, 12.0, 1500.0])
def test_laws_are_those_of_releases(kind: NoiseKind, scale: float) -> None:
    with same_draws("law"):
        noise = add_noise(np.zeros(60_000, np.int64), NoiseLaw(kind, scale), system_bits())
    assert law_p_value(noise, PMFS[kind](scale)) > FALSE_POSITIVE_RATE
    assert law_p_value(noise, PMFS[kind](1.1 * scale)) < FALSE_POSITIVE_RATE
