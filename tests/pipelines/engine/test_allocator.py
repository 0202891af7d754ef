"""Arrays use the memory of those before them, in a process that asked for it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

# Pages that the system gave for arrays of 2 and 3 MB, which are there one after the other.
ARRAYS = """
import ctypes, resource, sys
import numpy as np
from hushrank.pipelines.reduce.kind import keep_freed_memory
if sys.argv[1] == "kept":
    keep_freed_memory()
    keep_freed_memory()
PR_SET_THP_DISABLE = 41  # a fault gives one page then, on every machine
ctypes.CDLL(None).prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0)
def pages():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
np.ones(10).sum()
before = pages()
for _ in range(20):
    held = [np.ones(megabytes << 17) for megabytes in (2, 3, 2, 3)]
    del held
print(pages() - before)
"""


def pages_of(way: str) -> int:
    child = subprocess.run(
        [sys.executable, "-c", ARRAYS, way], capture_output=True, text=True, check=True
    )
    return int(child.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="only GNU libc has what is asked of it")
def test_memory_is_asked_for_once():
    at_once = (10 << 20) // os.sysconf("SC_PAGESIZE")
    assert pages_of("kept") < 1.5 * at_once
    assert pages_of("given back") > 3 * at_once  # without it; else this test would show nothing
