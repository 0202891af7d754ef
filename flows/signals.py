"""Signals that wait until what was begun is finished, or tidied up.

Ctrl-C, the SIGTERM of a supervisor and the SIGHUP of a terminal that closes all mean: stop, and
tidy up. In a place where nothing can be tidied up, as between two files that belong together, a
signal waits until that place is passed. A signal that comes while another one is obeyed does not
interrupt the tidying up.

Python handles signals in the main thread alone, so this module does nothing in other threads.
SIGKILL cannot be delayed.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType

from hushrank.transforms.system import STOPPING as STOPPING


def stop_as_ctrl_c() -> None:
    """Have SIGTERM and SIGHUP interrupt this process as Ctrl-C does, so that it can tidy up.

    A signal that whoever started the process has it ignore, as `nohup` does with SIGHUP, stays
    ignored, and one that somebody handles already is left to them.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    for number in STOPPING:
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, signal.default_int_handler)


@contextmanager
def signals_held() -> Iterator[None]:
    """Deliver no SIGINT, SIGTERM or SIGHUP in this block; the first that came follows it."""
    with _letting_through(0):
        yield


@contextmanager
def one_signal() -> Iterator[None]:
    """Deliver one SIGINT, SIGTERM or SIGHUP in this block; the next that came follows it.

    So what the first one interrupts can be tidied up in the block, however many are sent.
    """
    with _letting_through(1):
        yield


@contextmanager
def _letting_through(most: int) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        came.append(number)
        handler = handlers[signal.Signals(number)]
        if len(came) <= most and callable(handler):
            handler(number, frame)

    handlers = {number: signal.getsignal(number) for number in STOPPING}
    try:
        with ExitStack() as restored:
            for number, before in handlers.items():
                if callable(before) or (before is signal.SIG_DFL and not most):
                    restored.callback(signal.signal, number, before)
                    signal.signal(number, handle)
            yield
    finally:  # a process that is being interrupted need not be told again
        if len(came) > most and not isinstance(sys.exception(), KeyboardInterrupt):
            signal.raise_signal(came[most])
