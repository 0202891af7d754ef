"""No path makes a command wait or take all memory: FIFOs, devices, sockets, folders, huge files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import zip_longest
from pathlib import Path

import pytest

from tests.flows.bad_inputs.unfit_paths import MOST_SECONDS, cases

MOST_MEMORY = 256  # MiB that a case may add to what the process had taken before
MOST_CHARACTERS = 2000


@pytest.mark.parametrize("which", ["some", pytest.param("every", marks=pytest.mark.soak)])
def test_what_is_no_fit_file_is_refused_at_every_path(which: str, tmp_path: Path):
    """All in one process, which a case that hangs ends: then it has no line."""
    environment = {name: text for name, text in os.environ.items() if "PREFECT" not in name}
    ended = subprocess.run(
        [sys.executable, "-m", "tests.flows.bad_inputs.unfit_paths", str(tmp_path), which],
        env=environment | {"OPENBLAS_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    lines, wrong, before = ended.stdout.splitlines(), [], None
    for (place, kind), line in zip_longest(cases(every=which == "every"), lines):
        case = f"{' '.join(place.command)} with {place.path} as {kind}"
        if line is None:
            wrong.append(f"{case}: took {MOST_SECONDS} s, or ended the process")
            break
        told = json.loads(line)
        printed = told["printed"]
        name = place.says or place.path.rpartition("/")[2]
        grown = 0 if before is None else told["peak"] - before
        before = told["peak"]
        checks = {
            "exit code": told["code"] == 2,
            "traceback": "Traceback" not in printed,
            "the path": name in printed,
            "length": 0 < len(printed) <= MOST_CHARACTERS,
            "spent": not told["spent"],
            "memory": grown <= MOST_MEMORY,
        }
        if bad := [what for what, good in checks.items() if not good]:
            wrong.append(f"{case}: {', '.join(bad)}: {told}")
    assert not wrong, "\n".join(wrong)
