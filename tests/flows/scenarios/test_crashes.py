"""Runs of every method, struck at a file operation by a signal, a full disk or a broken one.

Whatever strikes and when: nothing is over budget, nothing is paid twice, no second noisy copy is in
public, a signal gives back what was not drawn, and after the next run nothing is left that nobody
needs. Part of all pairs of an operation and what strikes it are tried here, all of them with
`--soak` (`make soak`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.flows.crashes import (
    FINDING,
    METERED_NEXT,
    NIGHTLY,
    RESUMING,
    SQUARES_NEXT,
    STOPPING,
    STREAM_FIRST,
    STREAM_LAST,
    STREAM_NEXT,
)
from tests.flows.every_method import VARIANTS
from tests.foreign_system import foreign_system
from tests.loaded_process import LoadedProcess, loaded_process

STREAM_NIGHTS = [STREAM_FIRST, STREAM_NEXT, STREAM_LAST, METERED_NEXT, SQUARES_NEXT]
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
STATES = {"none", "cancelled", "reserved", "drawn", "committed"}
STOPPED_STATES = {"none", "cancelled", "reserved", "stopped"}


@pytest.fixture(scope="module")
def loaded() -> Iterator[LoadedProcess]:
    with loaded_process("tests.flows.strikes", ONE_THREAD) as process:
        yield process


@pytest.fixture
def struck(loaded, tmp_path) -> Callable[[Sequence[str], int], dict[str, int]]:
    """Strikes runs; tells how often one had got how far. Every check in between held."""
    return lambda names, stride: loaded.do("strike", names, tmp_path, stride).returned


@pytest.mark.slow
@pytest.mark.parametrize("part", range(2))
def test_runs_of_every_method_may_be_struck_here_and_there(part, struck):
    stopped_after = struck(list(VARIANTS)[part::2], 449)
    assert stopped_after.keys() >= {"reserved", "drawn"}


@pytest.mark.slow
def test_a_night_may_be_struck_at_many_operations(struck):
    assert struck([NIGHTLY], 53).keys() == STATES


@pytest.mark.slow
@pytest.mark.parametrize("system", ["windows", "macos"])
def test_a_night_may_be_struck_as_on_another_system(system, tmp_path):
    assert struck_as_on(system, tmp_path, 97).keys() >= {"none", "reserved", "drawn"}


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("system", ["windows", "macos"])
def test_a_night_may_be_struck_at_every_operation_as_on_another_system(system, tmp_path):
    assert struck_as_on(system, tmp_path, 1).keys() >= {"none", "reserved", "drawn", "committed"}


def struck_as_on(system: str, folder: Path, stride: int) -> dict[str, int]:
    """What `struck` does with a night, in a process that lacks what the system lacks."""
    with loaded_process("tests.flows.strikes", ONE_THREAD | foreign_system(system)) as process:
        stopped_after: dict[str, int] = process.do("strike", [NIGHTLY], folder, stride).returned
    return stopped_after


@pytest.mark.slow
def test_a_run_that_its_look_stops_may_be_struck_at_many_operations(struck):
    assert struck([STOPPING], 31).keys() == STOPPED_STATES


@pytest.mark.slow
def test_a_run_that_counts_beside_its_ranking_may_be_struck_at_many_operations(struck):
    assert struck(["noisy-counts, counted"], 53).keys() == STATES


@pytest.mark.slow
def test_a_run_that_finds_names_may_be_struck_at_many_operations(struck):
    """A kill between both draws leaves names that the next run takes up."""
    assert struck([FINDING], 67).keys() >= {"reserved", "found", "drawn"}


@pytest.mark.slow
def test_a_count_whose_parcels_wait_may_be_struck_at_every_operation_by_everything(struck):
    """All operations between the reservation and the draw, some 55; of the others every 47th."""
    assert struck([RESUMING], 47).keys() >= {"reserved", "cancelled", "drawn"}


@pytest.mark.slow
def test_a_night_of_a_stream_may_be_struck_at_many_operations(struck):
    names = [STREAM_FIRST, STREAM_NEXT, STREAM_LAST]
    assert struck(names, 211).keys() >= {"reserved", "drawn", "committed"}


@pytest.mark.slow
def test_a_night_of_metered_rows_may_be_struck_at_many_operations(struck):
    """A kill between the draw and the state of who used what loses neither and spends nothing."""
    assert struck([METERED_NEXT], 67).keys() >= {"reserved", "drawn"}


@pytest.mark.slow
def test_a_night_of_squares_may_be_struck_at_many_operations(struck):
    assert struck([SQUARES_NEXT], 71).keys() >= {"reserved", "drawn"}


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", STREAM_NIGHTS)
def test_a_night_of_a_stream_may_be_struck_at_every_operation(name, struck):
    assert struck([name], 1).keys() == STATES


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_run_that_its_look_stops_may_be_struck_at_every_operation(struck):
    assert struck([STOPPING], 1).keys() == STOPPED_STATES


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", [NIGHTLY, RESUMING, *VARIANTS])
def test_a_run_may_be_struck_at_every_operation_by_everything(name, struck):
    assert struck([name], 1).keys() == STATES
