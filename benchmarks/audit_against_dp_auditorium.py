"""Lower bounds on epsilon from the same draws: hushrank's audit and testers of DP-Auditorium.

Both get outputs of the same two synthetic inputs, as many of each, and the same confidence. A
tester of DP-Auditorium tests one epsilon: its bound here is the largest of a grid that it rejects,
at the confidence of one test (which favours it). No index has the package. Its testers run in an
environment of their own, which this script makes under `build/`.

    python benchmarks/audit_against_dp_auditorium.py [--source CHECKOUT] [--runs N] [--tensorflow]

CHECKOUT is a checkout of github.com/google/differential-privacy; without it, one is cloned. With
--tensorflow, which takes 250 MB, the hockey-stick tester is tried beside the histogram tester.

References:
    [GM18] Gilbert, McMillan. Property testing for differential privacy. 2018. (histogram)
    [KMBM23] Kong, Medina, Bravo, Munoz. DP-Auditorium: a large scale library for auditing
        differential privacy. 2023.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # the jobs are those of the tests

BUILD = ROOT / "build" / "dp-auditorium"
REPOSITORY = "https://github.com/google/differential-privacy.git"
NEEDS = ("numpy", "etils", "typing_extensions", "absl-py")
JOBS = ("counts, one row", "pairs", "debiased-rr, one answer", "random-pairs, hidden items")
CONFIDENCE = 1 - 1e-3
GRID = 40  # epsilons that a tester is asked about, up to 1.2 times the stated one
THEIRS = """
import json, sys, time
sys.stdout, out = sys.stderr, sys.stdout
import numpy as np
source, path, stated, grid, failure, names = sys.argv[1:7]
import types
for name in ("dp_auditorium", "dp_auditorium.testers"):  # they import all, Vizier too, when loaded
    package = sys.modules[name] = types.ModuleType(name)
    package.__path__ = [f"{source}/{name.replace('.', '/')}"]
from dp_auditorium.configs import privacy_property, property_tester_config as configs
with np.load(path) as stored:
    left, right = stored["left"], stored["right"]

def histogram(dp):
    from dp_auditorium.testers import histogram_tester
    both = np.concatenate([left, right])
    return histogram_tester.HistogramTester(configs.HistogramPropertyTesterConfig(
        test_discrete_mechanism=False, histogram_size=20, min_value=float(both.min()),
        max_value=float(both.max()), approximate_dp=dp)), left[:, 0], right[:, 0]

def hockey_stick(dp):
    from dp_auditorium.testers import hockey_stick_tester as module
    training = module.make_default_hs_training_config()
    config = configs.HockeyStickPropertyTesterConfig(training_config=training, approximate_dp=dp)
    spread = np.concatenate([left, right]).std(axis=0)
    tester = module.HockeyStickPropertyTester(config, module.make_default_hs_base_model())
    return tester, left / spread, right / spread

found = {}
for name in names.split(","):
    started, best = time.time(), 0.0
    try:
        for epsilon in np.linspace(0, 1.2 * float(stated), int(grid) + 1)[1:]:
            dp = privacy_property.ApproximateDp(epsilon=float(epsilon), delta=0.0)
            for turned in (False, True):
                make = {"histogram": histogram, "hockey-stick": hockey_stick}[name]
                tester, one, other = make(dp)
                pair = (other, one) if turned else (one, other)
                if tester.reject_property(tester.estimate_lower_bound(*pair, float(failure))):
                    best = float(epsilon)
        found[name] = {"epsilon": best, "seconds": time.time() - started}
    except Exception as error:
        found[name] = {"failed": f"{type(error).__name__}: {error}"}
print(json.dumps(found), file=out)
"""


def environment(tensorflow: bool) -> Path:
    """The interpreter of an environment with what DP-Auditorium's testers import."""
    python = BUILD / "bin" / "python"
    if not python.exists():
        venv.create(BUILD, with_pip=True)
    needs = (*NEEDS, "tensorflow-cpu") if tensorflow else NEEDS
    subprocess.run([python, "-m", "pip", "install", "--quiet", *needs], check=True)
    return python


def checkout(given: Path | None) -> Path:
    """The folder that holds the package `dp_auditorium`."""
    source = given or BUILD / "differential-privacy"
    if not source.exists():
        subprocess.run(["git", "clone", "--quiet", "--depth", "1", REPOSITORY, source], check=True)
    return source / "python" / "dp_auditorium"


def compare(name: str, runs: int, python: Path, source: Path, testers: str) -> str:
    """A row of the table for one job."""
    import numpy as np

    from hushrank.flows.trust.audit.audit import Workers, hardest, parts_of
    from hushrank.privacy.audit import audit_epsilon
    from tests.flows.trust.audit.planted import survey_of

    with tempfile.TemporaryDirectory() as folder, Workers(0) as workers:
        part = parts_of(survey_of(name, Path(folder)).config, Path(folder))[0]
        pair = hardest(part, workers, 1.0)
        outputs = [part.source.outputs(side, runs)[:runs].astype(float) for side in pair]
        moved = np.abs(outputs[0].mean(axis=0) - outputs[1].mean(axis=0)).argsort()[::-1]
        outputs = [rows[:, moved] for rows in outputs]  # a histogram is of one column: the best
        path = Path(folder) / "outputs.npz"
        np.savez(path, left=outputs[0], right=outputs[1])
        started = time.perf_counter()
        ours = audit_epsilon(
            lambda rows, _: rows, *outputs, trials=runs, confidence=CONFIDENCE
        ).epsilon_lower
        taken = time.perf_counter() - started
        words = [source, path, part.epsilon, GRID, 1 - CONFIDENCE, testers]
        theirs = subprocess.run(
            [python, "-c", THEIRS, *map(str, words)], capture_output=True, text=True, check=True
        )
    cells = [name, f"{part.epsilon:g}", f"{ours:.2f} ({taken:.1f} s)"]
    for result in json.loads(theirs.stdout.splitlines()[-1]).values():
        if "failed" in result:
            cells.append(result["failed"][:60])
        else:
            cells.append(f"{result['epsilon']:.2f} ({result['seconds']:.1f} s)")
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Print the table, a line at a time."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", type=Path)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--tensorflow", action="store_true")
    given = parser.parse_args()
    from hushrank.transforms.engine import in_process

    in_process.choose()
    python, source = environment(given.tensorflow), checkout(given.source)
    testers = ["histogram", *(["hockey-stick"] if given.tensorflow else [])]
    print(f"| job | stated | hushrank | {' | '.join(testers)} |")
    print("|---|---|---|" + "---|" * len(testers))
    for name in JOBS:
        print(compare(name, given.runs, python, source, ",".join(testers)), flush=True)


if __name__ == "__main__":
    main()
