"""Make the next element of an iterator while the last one is worked on."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

T = TypeVar("T")

_END: Final = object()


def ahead(elements: Iterator[T]) -> Iterator[T]:
    """The same elements, in order, each made in a thread one step before it is asked for.

    For a processor that would be idle: one more element is in memory. It raises what `elements`
    raises, at the same place.
    """
    with ThreadPoolExecutor(1) as thread:
        coming = thread.submit(next, elements, _END)
        while (element := coming.result()) is not _END:
            coming = thread.submit(next, elements, _END)
            yield element  # type: ignore[misc]
