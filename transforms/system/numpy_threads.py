"""How many threads numpy computes matrices with."""

from __future__ import annotations

import os
import sys
from importlib import import_module

THREADS = "OPENBLAS_NUM_THREADS"  # numpy reads it once, as it loads


def load_numpy_with_one_thread() -> None:
    """Load numpy so that it computes with one thread, unless it is loaded or somebody chose.

    With more, threads wait for each other in loops: products of matrices of 50 items then take
    five times the processor time. Processes that this one starts are not changed.
    """
    if "numpy" in sys.modules or THREADS in os.environ:
        return
    os.environ[THREADS] = "1"
    try:
        import_module("numpy")
    finally:
        del os.environ[THREADS]
