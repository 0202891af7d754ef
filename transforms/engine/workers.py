"""How many threads of this process work on rows at a time, on Beam's local engine or without it."""

from __future__ import annotations

import os

MAX_LOCAL_WORKERS = 4  # each needs some 150 MB, and only what numpy and Arrow do runs at once


def local_workers() -> int:
    """One a processor, and no more than memory is planned for."""
    return min(os.cpu_count() or 1, MAX_LOCAL_WORKERS)
