"""Let the process's memory allocator keep the memory of freed arrays."""

from __future__ import annotations

import ctypes
import functools

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -2, -3, -8  # for GNU libc's mallopt
_LARGEST_KEPT = 32 << 20  # bytes of one array; the most that GNU libc takes from its own heap
_FREE_KEPT = 512 << 20
_STEP = 16 << 20


@functools.cache
def keep_freed_memory() -> None:
    """Let new arrays of some MB reuse the memory of freed ones; without GNU libc, do nothing.

    By default GNU libc returns such memory to the system and takes new memory, page by page, for
    the next array: this costs a third of the time in which a million rows are reduced. All threads
    share one heap, because a heap for each would keep as much again. Memory in use does not change.
    The process may keep up to 512 MiB that it does not use, for the next arrays only.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # another libc, or another system
        return
    for parameter, value in (
        (_ARENA_MAX, 1),
        (_MMAP_THRESHOLD, _LARGEST_KEPT),
        (_TRIM_THRESHOLD, _FREE_KEPT),
        (_TOP_PAD, _STEP),
    ):
        mallopt(parameter, value)
