"""What is made ahead is the same, in order, and an error comes where it did."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from hushrank.transforms.engine.in_process import ahead

LONGEST = 600  # seconds


@pytest.mark.parametrize("n", [0, 1, 5])
def test_elements_are_the_same_in_order(n: int) -> None:
    assert list(ahead(iter(range(n)))) == list(range(n))


def test_the_next_element_is_made_while_the_last_one_is_worked_on() -> None:
    begun = [threading.Event() for _ in range(3)]

    def elements() -> Iterator[int]:
        for number, each in enumerate(begun):
            each.set()
            yield number

    for number in ahead(elements()):
        assert number == 2 or begun[number + 1].wait(LONGEST)


def test_an_error_comes_after_the_elements_before_it() -> None:
    def elements() -> Iterator[int]:
        yield 1
        raise ValueError("damaged")

    found = ahead(elements())
    assert next(found) == 1
    with pytest.raises(ValueError, match="damaged"):
        next(found)


def test_whoever_stops_early_ends_what_is_made() -> None:
    ended, before = threading.Event(), threading.active_count()

    def elements() -> Iterator[int]:
        try:
            yield from range(9)
        finally:
            ended.set()

    found = ahead(elements())
    assert next(found) == 0
    found.close()  # type: ignore[attr-defined]
    del found
    assert ended.wait(LONGEST)
    assert threading.active_count() <= before
