"""What a run costs before its input does: `hushrank run` on 1 000 rows, from start to end.

Everything counts: starting Python, loading libraries, the ledger, reading, noise, estimate, report.
With `--direct`, and with `--prefect` through the server that Prefect starts for the run. The first
run of each compiles Python files and is not counted. Libraries that are installed beside hushrank
can be loaded as well (pyarrow loads pandas, OpenDP loads polars), so measure where only hushrank is
installed:

    python -m venv alone && alone/bin/pip install . && alone/bin/python benchmarks/run_overhead.py

    python benchmarks/run_overhead.py [--runs N]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HUSHRANK = [sys.executable, "-m", "hushrank.flows.interfaces.cli.main"]
PEOPLE, ROWS_A_PERSON = 100, 10


def write_surveys(folder: Path, count: int) -> list[Path]:
    """Configurations of one survey, each with a ledger and an output of its own."""
    rows = ["--people", str(PEOPLE), "--comparisons", str(ROWS_A_PERSON), "--items", "20"]
    subprocess.run([*HUSHRANK, "simulate", str(folder), *rows], check=True, capture_output=True)
    text = (folder / "survey.yaml").read_text()
    paths = [folder / f"survey-{number}.yaml" for number in range(count)]
    for number, path in enumerate(paths):
        own = text.replace("output: out", f"output: out-{number}")
        path.write_text(own.replace(".hushrank/", f".hushrank-{number}/"))
    return paths


def seconds(survey: Path, *options: str) -> float:
    """Seconds by the clock of one run."""
    started = time.perf_counter()
    subprocess.run([*HUSHRANK, "run", str(survey), *options], check=True, capture_output=True)
    return time.perf_counter() - started


def main() -> None:
    """Run, and print the median and the range of each way."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory() as folder:
        surveys = iter(write_surveys(Path(folder, "survey"), 2 * (options.runs + 1)))
        for name, how in (("--direct", ["--direct"]), ("--prefect, its own server", ["--prefect"])):
            _, *taken = [seconds(next(surveys), *how) for _ in range(options.runs + 1)]
            median = statistics.median(taken)
            print(f"{name:30} {median:6.2f} s ({min(taken):.2f} to {max(taken):.2f})", flush=True)


if __name__ == "__main__":
    main()
