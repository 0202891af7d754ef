"""How the process's memory allocator keeps what arrays give back."""

from __future__ import annotations

import ctypes
import functools

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -2, -3, -8  # of GNU libc's mallopt
_LARGEST_KEPT = 32 << 20  # bytes of one array; the most that GNU libc takes from its own heap
_FREE_KEPT = 512 << 20
_STEP = 16 << 20


@functools.cache
def keep_freed_memory() -> None:
    """Let arrays of some MB use the memory of those before them; where GNU libc is, else nothing.

    By default it gives such memory back to the system and takes new, page by page, for the next
    array: a third of the time in which a million rows are reduced. One heap for all threads, for
    each would keep as much for itself. What is in use at once stays as it is; what is not may stay
    with the process, up to 512 MiB, but for the next arrays only.
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
