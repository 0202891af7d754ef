"""Tests of this room draw what follows from their names."""

from __future__ import annotations

import pytest

from hushrank.privacy.randomness import system_bits
from tests.draws import same_draws


def expected(name: str) -> bytes:
    with same_draws(name):
        return system_bits().take(16)


@pytest.fixture(scope="module")
def shared() -> bytes:
    return system_bits().take(16)


@pytest.mark.parametrize("number", [1, 2])
def test_what_a_test_draws_follows_from_its_name(
    request: pytest.FixtureRequest, shared: bytes, number: int
) -> None:
    found, real = system_bits().take(16), request.config.getoption("--real-draws")
    module = request.node.nodeid.partition("::")[0]
    assert (found == expected(request.node.nodeid)) is not real
    assert (shared == expected(f"{module}::shared[0]")) is not real
