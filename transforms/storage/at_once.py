"""Ask many places for something, several of them at once where each answer takes a round trip."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

AT_ONCE = 16  # questions that wait for their answers at the same time

Place = TypeVar("Place")
Answer = TypeVar("Answer")


def in_order(
    ask: Callable[[Place], Answer], places: Sequence[Place], *, remote: bool
) -> Iterator[Answer]:
    """The answer of each place, in order; the first place in order whose question raises ends it.

    Args:
        ask: the question; where places are remote it is asked in threads.
        places: whom to ask.
        remote: whether an answer takes so long that it pays to ask others meanwhile.
    """
    if not remote:
        yield from map(ask, places)
        return
    pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="ask")
    try:
        yield from pool.map(ask, places)
    finally:
        pool.shutdown(cancel_futures=True)
