"""A process that does not outlive the one that started it, however that ends.

Nobody would take up what it counts, or delete it.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import sys
import threading
from multiprocessing.connection import wait

_PR_SET_PDEATHSIG = 1  # of Linux: which signal the kernel sends when the parent is gone


def end_with_parent() -> None:
    """Have SIGTERM end this process, which `multiprocessing` started, when its parent is gone.

    The kernel sees to it where it can, at once and whatever runs here; elsewhere a thread does.
    """
    parent = multiprocessing.parent_process()
    if parent is None:
        raise ValueError("this process was not started by multiprocessing, so it has no parent")
    if not _kernel_does_it():  # not both: a second signal would break off what the first began
        threading.Thread(target=_wait_for, args=(parent.sentinel,), daemon=True).start()
    if os.getppid() != parent.pid:  # it ended before the kernel was asked
        os.kill(os.getpid(), signal.SIGTERM)


def _kernel_does_it() -> bool:
    if sys.platform != "linux":
        return False
    failed: int = ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    return not failed


def _wait_for(sentinel: int) -> None:
    wait([sentinel])
    os.kill(os.getpid(), signal.SIGTERM)
