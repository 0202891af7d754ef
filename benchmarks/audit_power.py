"""What `hushrank audit` sees: every method as it is, and with each planted fault.

A correct mechanism should pass; a planted fault (`tests/flows/trust/audit/planted.py`) should be
refuted.
Seconds are of one processor, whatever else the machine does: five minutes of two of them are 600. A
fault is tried for the first of the numbers of seconds, and for the next one if it was not seen; all
tries together are wrong with the probability of one audit.

    python benchmarks/audit_power.py [--seconds S ...] [--correct S] [--only NAME ...]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the faults are those of the tests

from hushrank.flows.trust.audit import audit
from hushrank.flows.trust.audit import audit as whole
from hushrank.flows.trust.audit.result import AuditFound
from hushrank.transforms.engine import in_process
from tests.flows.trust.audit.planted import BUGS, JOBS, Bug, survey_of

HEADS = ("planted fault", "stated", "correct", "bound", "largest", "runs", "processor", "verdict")
ROW = "| {:52} | {:>6} | {:>7} | {:>7} | {:>7} | {:>8} | {:>9} | {:>7} |"
BY_PROCESSOR = SimpleNamespace(monotonic=time.process_time)


@dataclass(frozen=True)
class Seen:
    """An audit in this process, where faults are planted.

    Attributes:
        found: by it.
        seconds: of a processor, that it took.
    """

    found: AuditFound
    seconds: float

    @classmethod
    def of(cls, job: str, bug: Bug | None, seconds: float, wrong: float = whole.WRONG) -> Seen:
        """Of a job, with a fault in it or none."""
        started = time.process_time()
        with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
            patch.setattr(audit, "time", BY_PROCESSOR)
            patch.setattr(whole, "time", BY_PROCESSOR)
            if bug is not None:
                bug.plant(patch)
            survey = survey_of(job, Path(folder))
            found = whole.audit(survey, seconds=seconds, processes=0, wrong=wrong)
        return cls(found, time.process_time() - started)

    def numbers(self) -> tuple[str, ...]:
        """Of the part that shows most of what it promises, after what is stated of it."""
        found = self.found
        part = max(found.parts, key=lambda each: each.largest.epsilon_lower / each.epsilon)
        by_nothing = max(each.epsilon_lower for each in part.bounds if each.assumes == "nothing")
        return (
            f"{part.epsilon:g}",
            f"{by_nothing:.3f}",
            f"{part.largest.epsilon_lower:.3f}",
            f"{part.runs:,}",
            f"{self.seconds:.1f} s",
            "refuted" if found.refuted else "kept",
        )


def hunted(bug: Bug, stages: Sequence[float]) -> Seen:
    """An audit of a job with a fault: the first that sees it, or the longest."""
    for seconds in stages:
        seen = Seen.of(bug.job, bug, seconds, whole.WRONG / len(stages))
        if seen.found.refuted:
            break
    return seen


def main() -> None:
    """Print the table, a line at a time."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, nargs="+", default=[1.0, 30.0, 550.0])
    parser.add_argument("--correct", type=float, default=3.0, help="seconds; 0: not at all")
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--part", default="1/1", help="K/N: the K-th of N parts of the jobs")
    given = parser.parse_args()
    in_process.choose()
    Seen.of("counts", None, 0.0)  # loads what an audit needs: no row of the table is charged for it
    print(ROW.format(*HEADS))
    print("|" + "---|" * len(HEADS), flush=True)
    place, parts = map(int, given.part.split("/"))
    for job in list(JOBS)[place - 1 :: parts]:
        bugs = {name: bug for name, bug in BUGS.items() if bug.job == job}
        if given.only and not any(word in name for name in (job, *bugs) for word in given.only):
            continue
        largest = ""
        if given.correct:
            seen = Seen.of(job, None, given.correct)
            stated, bound, largest, *rest = seen.numbers()
            print(ROW.format(f"none: {job}", stated, largest, bound, largest, *rest), flush=True)
        for name, bug in bugs.items():
            if not given.only or any(word in name for word in given.only):
                stated, *rest = hunted(bug, given.seconds).numbers()
                print(ROW.format(name, stated, largest, *rest), flush=True)


if __name__ == "__main__":
    main()
