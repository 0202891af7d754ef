"""numpy with one thread, where threads would wait for each other."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

ASK = """
import os, sys
from hushrank.transforms.system.numpy_threads import load_numpy_with_one_thread
assert "numpy" not in sys.modules
{first}
load_numpy_with_one_thread()
left = os.environ.get("OPENBLAS_NUM_THREADS", "-")
import numpy as np
a = np.ones((400, 400))
for _ in range(9): a @ a / 400
print(len(os.listdir("/proc/self/task")), left)
"""


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="threads are counted on Linux")
@pytest.mark.parametrize(
    ("first", "given", "threads"),
    [("", None, "1 -"), ("", "2", "2 2"), ("import numpy", None, "2 -")],
)
def test_one_thread_is_taken_unless_somebody_chose(first, given, threads):
    if (os.cpu_count() or 1) < 2 and threads[0] == "2":
        pytest.skip("one processor")
    own = {key: value for key, value in os.environ.items() if not key.endswith("_NUM_THREADS")}
    own |= {} if given is None else {"OPENBLAS_NUM_THREADS": given}
    words = [sys.executable, "-c", ASK.format(first=first)]
    done = subprocess.run(words, env=own, capture_output=True, text=True, check=True)
    found, left = done.stdout.split()
    assert left == threads[2:]
    assert (int(found) == 1) == (threads[0] == "1")
