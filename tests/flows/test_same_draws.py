"""Tests of this room draw what follows from their names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hushrank.privacy.randomized_response import split_response
from hushrank.privacy.randomness import system_bits
from hushrank.transforms.common.randomisation import LocalAnswers
from tests.draws import same_draws
from tests.flows.small_jobs import SMALL_JOBS
from tests.pipelines.reduce import test_reduce_responses as responses


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


def test_what_is_drawn_while_rows_are_read_elsewhere_follows_from_the_name_given(
    tmp_path: Path,
) -> None:
    folder = responses.write(responses.a_log(), tmp_path / "in")
    local = LocalAnswers(split_response(2.0, responses.K), debiased=False)

    def drawn(name: str, work: Path) -> dict[str, list[int]]:
        SMALL_JOBS.run(responses.a_job(folder, work, local=local), draws=name)
        with np.load(work / "exact.npz") as arrays:
            return {each: arrays[each].tolist() for each in arrays}

    one, again, other = (drawn(name, tmp_path / f"w{k}") for k, name in enumerate("aab"))
    assert one == again
    assert one != other
