"""Search for lines that change how other lines are read, for as long as there is time.

    python -m benchmarks.fuzz_rows --seconds 3600

The property of `tests/transforms/scenarios/test_row_locality.py`, over every format, kind and
column, with new random lines in every round. It stops at the first file of which more or less is
kept than of its lines alone, and prints the shortest such lines that hypothesis finds.
"""

from __future__ import annotations

import argparse
import itertools
import secrets
import tempfile
import time
from pathlib import Path

from tests.transforms.scenarios.test_row_locality import CASES, search

AT_ONCE = 100  # files


def main() -> None:
    """Print what was searched; fail where something is found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--seed", type=int, default=None, help="of the first round")
    arguments = parser.parse_args()
    seed = secrets.randbits(32) if arguments.seed is None else arguments.seed
    end, searched = time.monotonic() + arguments.seconds, 0
    with tempfile.TemporaryDirectory() as folder:
        for round_ in itertools.count():
            for format_, kind in CASES:
                if time.monotonic() > end:
                    print(f"{searched:,} files in {round_} rounds from seed {seed}: none found")
                    return
                search(Path(folder, "rows"), format_, kind, AT_ONCE, seed + round_)
                searched += AT_ONCE


if __name__ == "__main__":
    main()
