"""What publishing a ranking of very many items takes: time and peak memory of each step.

A few people answer about a large catalogue, so reading is short. All steps of a run follow in one
process, and the peak is that of all steps so far. `estimate` is shown with the part of it that is
the fit. Afterwards the run is repeated, which reads what is published, and the verifier checks the
release in a process of its own.

    python benchmarks/publish_items.py [--items N] [--method NAME] [--scale elo] [--profile FILE]
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from measuring import peak_bytes

from hushrank.flows.assembly import run_job
from hushrank.flows.interfaces.cli.main import NEW_OBJECTS
from hushrank.flows.reading import Reducer
from hushrank.flows.run import run
from hushrank.flows.run.context import Job
from hushrank.flows.run.job import prepare_job, read_survey
from hushrank.flows.run.stages import PUBLISH, Step

HUSHRANK = [sys.executable, "-m", "hushrank.flows.interfaces.cli.main"]
VERIFIER = Path(__file__).parents[1] / "verifier" / "verify_release.py"
T = TypeVar("T")


def show(what: str, wall: float, cpu: float, peak: int) -> None:
    """Print a line of the table: seconds by the clock and on processors, and the peak."""
    print(f"{what:24} {wall:8.1f} s {cpu:8.1f} s {peak / 2**20:8.0f} MiB", flush=True)


def timed(what: str, action: Callable[[], T], profile: str | None = None) -> T:
    """Do it, and print what it took."""
    wall, cpu = time.perf_counter(), time.process_time()
    profiler = cProfile.Profile() if profile else None
    done = action() if profiler is None else profiler.runcall(action)
    if profiler is not None:
        profiler.dump_stats(str(profile))
    show(what, time.perf_counter() - wall, time.process_time() - cpu, peak_bytes())
    return done


def write_survey(folder: Path, options: argparse.Namespace) -> Path:
    """The configuration of a job with so many items, and its answers."""
    rows = ["--people", "2000", "--comparisons", "50", "--items", str(options.items)]
    subprocess.run([*HUSHRANK, "simulate", str(folder), *rows], check=True, capture_output=True)
    path = folder / "survey.yaml"
    text = path.read_text().replace("method: noisy-counts", f"method: {options.method}")
    text += "report: {scale: elo}\n" if options.scale == "elo" else ""
    path.write_text(text)
    return path


def publish(job: Job, profile: str | None) -> None:
    """Run the job, and print what each step takes."""
    fit = run._concluded  # the part of `estimate` that another method does in another way
    run._concluded = lambda *of: timed("  of it the fit", lambda: fit(*of))

    def perform(step: Step, action: Callable[[], T]) -> T:
        return timed(step.name, action, profile if step is PUBLISH else None)

    with Reducer() as reducer:
        run_job(job, reducer, perform)
        timed("run again", lambda: run_job(job, reducer, perform))


def verify(folder: Path) -> None:
    """Check the release, and print what that takes."""
    wall, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, str(VERIFIER), str(folder)], check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    show("verify", time.perf_counter() - wall, cpu, after.ru_maxrss * 1024)  # or of the reader


def main() -> None:
    """Publish and verify one release."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("--method", default="noisy-counts")
    parser.add_argument("--scale")
    parser.add_argument("--profile", help="Write a profile of the step publish to this file.")
    options = parser.parse_args()
    gc.set_threshold(NEW_OBJECTS)
    with tempfile.TemporaryDirectory() as name:
        path = write_survey(Path(name), options)
        survey = timed("read configuration", lambda: read_survey(path))
        publish(prepare_job(survey), options.profile)
        for file in sorted((Path(name) / "out").glob("*.*")):
            print(f"{file.name:24} {file.stat().st_size / 1e6:8.1f} MB")
        verify(Path(name) / "out")


if __name__ == "__main__":
    main()
