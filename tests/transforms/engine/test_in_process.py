"""The stand-in for Beam does in bundles what Beam does, in the order of the input."""

from __future__ import annotations

import threading

import pytest

from hushrank.transforms import system
from hushrank.transforms.engine import in_process
from hushrank.transforms.engine.in_process import FEW_WORKERS


class _Numbered(in_process.DoFn):
    """An element -> it, beside the elements that its bundle had before; their sum at the end."""

    def start_bundle(self) -> None:
        self._before: list[int] = []

    def process(self, element: int) -> list[object]:
        before = tuple(self._before)
        self._before.append(element)
        return [(element, before), in_process.TaggedOutput("seen", element)]

    def finish_bundle(self) -> list[in_process.WindowedValue]:
        return [in_process.GlobalWindows.windowed_value(sum(self._before))]


def outputs(elements: list[int]) -> tuple[list[object], list[int]]:
    pipeline = in_process.Pipeline()
    found = (
        pipeline
        | in_process.Create(elements)
        | in_process.ParDo(_Numbered()).with_outputs("seen", main="main")
    )
    return found["main"].elements, found["seen"].elements


def test_each_worker_gets_a_bundle_and_outputs_keep_the_order(monkeypatch):
    monkeypatch.setattr(system, "processors", lambda: 3)
    main, seen = outputs([1, 2, 3, 4, 5])
    assert seen == [1, 2, 3, 4, 5]
    assert main == [(1, ()), 1, (2, ()), (3, (2,)), 5, (4, ()), (5, (4,)), 9]


def test_there_are_no_more_bundles_than_memory_is_planned_for(monkeypatch):
    monkeypatch.setattr(system, "processors", lambda: 64)
    main, _ = outputs(list(range(64)))
    assert sum(isinstance(output, int) for output in main) == FEW_WORKERS


def test_a_stated_number_of_workers_holds_in_its_block():
    for number in (1, 2, 64):
        with in_process.with_workers(number):
            main, _ = outputs(list(range(64)))
        assert sum(isinstance(output, int) for output in main) == number


@pytest.mark.parametrize(("elements", "sums"), [([], [0]), ([7], [(7, ()), 7])])
def test_what_is_too_little_for_two_makes_one_bundle(elements, sums):
    assert outputs(elements)[0] == sums


def test_bundles_are_worked_on_at_the_same_time(monkeypatch):
    monkeypatch.setattr(system, "processors", lambda: 2)
    both = threading.Barrier(2)

    class Waiting(in_process.DoFn):
        def process(self, element: int) -> list[int]:
            both.wait(timeout=600)  # one bundle after the other would break the barrier
            return [element]

    found = in_process.Pipeline() | in_process.Create([1, 2]) | in_process.ParDo(Waiting())
    assert found.elements == [1, 2]


def test_what_a_bundle_raises_is_raised(monkeypatch):
    monkeypatch.setattr(system, "processors", lambda: 2)

    class Failing(in_process.DoFn):
        def process(self, element: int) -> list[int]:
            if element == 2:
                raise ValueError("two")
            return [element]

    with pytest.raises(ValueError, match="two"):
        _ = in_process.Pipeline() | in_process.Create([1, 2]) | in_process.ParDo(Failing())


class _Sum(in_process.CombineFn):
    """Sum of integers, in accumulators that count themselves."""

    def __init__(self) -> None:
        self.made: list[list[int]] = []

    def create_accumulator(self) -> list[int]:
        self.made.append([0])
        return self.made[-1]

    def add_input(self, accumulator: list[int], element: int) -> list[int]:
        accumulator[0] += element
        return accumulator

    def extract_output(self, accumulator: list[int]) -> int:
        return accumulator[0]


class _Tripled(in_process.DoFn):
    """An element -> three of it, and a note of it; at the end a thousand."""

    def process(self, element: int) -> list[object]:
        if element < 0:
            raise ValueError("below zero")
        return [element] * 3 + [in_process.TaggedOutput("seen", element)]

    def finish_bundle(self) -> list[in_process.WindowedValue]:
        return [in_process.GlobalWindows.windowed_value(1000)]


def tripled(elements: list[int]) -> dict[str, in_process.PCollection]:
    step = in_process.ParDo(_Tripled()).with_outputs("seen", main="main")
    return in_process.Pipeline() | in_process.Create(elements) | step


@pytest.mark.parametrize(("n_workers", "elements"), [(1, [1, 2]), (3, list(range(50))), (3, [])])
def test_what_is_summed_is_summed_as_it_comes_and_not_kept(monkeypatch, n_workers, elements):
    monkeypatch.setattr(system, "processors", lambda: n_workers)
    found, fn = tripled(elements), _Sum()
    (total,) = (found["main"] | in_process.CombineGlobally(fn)).elements
    bundles = max(1, min(n_workers, len(elements)))
    assert total == 3 * sum(elements) + 1000 * bundles
    assert len(fn.made) == 1  # whatever memory one takes, there is no second
    assert sorted(found["seen"].elements) == elements
    with pytest.raises(RuntimeError, match="what was summed as it came"):
        _ = found["main"].elements


def test_what_was_used_before_is_summed_from_what_is_kept(monkeypatch):
    monkeypatch.setattr(system, "processors", lambda: 2)
    found = tripled([1, 2, 3])
    assert found["seen"].elements == [1, 2, 3]
    (total,) = (found["main"] | in_process.CombineGlobally(_Sum())).elements
    assert total == 18 + 2000 == sum(found["main"].elements)
    (seen,) = (found["seen"] | in_process.CombineGlobally(_Sum())).elements
    assert seen == 6


def test_an_error_of_one_worker_ends_the_others(monkeypatch):
    monkeypatch.setattr(system, "processors", lambda: 2)
    taken = in_process._Shared([-1, *range(100)])
    with pytest.raises(ValueError, match="below zero"), taken.or_none():
        list(in_process.outputs_of_bundle(_Tripled(), taken))
    assert list(taken) == []
    for use in ("main", "seen"):
        found = tripled([-1, *range(100)])
        with pytest.raises(ValueError, match="below zero"):
            _ = found[use] | in_process.CombineGlobally(_Sum())
        with pytest.raises(RuntimeError, match="or failed"):
            _ = found["seen"].elements
