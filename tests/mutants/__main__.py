"""`make mutants`: plant every mutant of the list, run what must catch it, and say what survived."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rich.console import Console

from tests.mutants.catalogue import Mutant, mutants, problems
from tests.mutants.trial import Copy, Result, Verdict, try_all, unready

ROOT = Path(__file__).resolve().parents[2]
PRINTED = Console(highlight=False, soft_wrap=True, markup=False)
OUTPUT_SHOWN = 25  # lines of what pytest said of a mutant that was not caught


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0 if every chosen mutant was caught."""
    options = _options(arguments)
    words = options.k.split()
    chosen = [each for each in mutants() if all(word in each.name for word in words)]
    wrong = [problem for mutant in chosen for problem in problems(mutant, ROOT)]
    if wrong or not chosen:
        PRINTED.print("\n".join(wrong) or f"no mutant has {options.k!r} in its name")
        return 1
    with tempfile.TemporaryDirectory(prefix="hushrank-mutants-") as folder:
        n_copies = min(_workers(options.workers), len(chosen))
        copies = [Copy(ROOT, Path(folder) / str(number)) for number in range(n_copies)]
        return _tried(chosen, copies)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument("-k", default="", help="only mutants with these words in area/id")
    parser.add_argument("--workers", default="auto", help="how many at a time; auto: one a core")
    return parser.parse_args(arguments)


def _workers(wanted: str) -> int:
    return max(1, (os.cpu_count() or 1) if wanted == "auto" else int(wanted))


def _tried(chosen: Sequence[Mutant], copies: Sequence[Copy]) -> int:
    started = time.monotonic()
    failing = _failing_anyway(chosen, copies)
    if failing:
        PRINTED.print("These tests fail without any mutant, so they show nothing:", *failing)
        return 1
    PRINTED.print(f"All tests pass without a mutant ({time.monotonic() - started:.0f} s).")
    results = try_all(chosen, copies, _tell)
    left = [result for result in results if result.verdict is not Verdict.CAUGHT]
    PRINTED.print(
        f"{len(results) - len(left)} of {len(results)} mutants caught,"
        f" in {time.monotonic() - started:.0f} s."
    )
    return 1 if left else 0


def _failing_anyway(chosen: Sequence[Mutant], copies: Sequence[Copy]) -> list[str]:
    """Tests of the list that do not pass on the tree as it is."""
    tests = sorted({test for mutant in chosen for test in mutant.tests})
    # Without a name of a test, pytest would run all there are.
    shares = [tests[number :: len(copies)] for number in range(min(len(copies), len(tests)))]
    with ThreadPoolExecutor(len(copies)) as pool:
        sessions = list(pool.map(Copy.run, copies, shares))
    pairs = zip(shares, sessions, strict=True)
    return [test for share, session in pairs for test in unready(share, session)]


def _tell(result: Result) -> None:
    mutant, session = result.mutant, result.session
    PRINTED.print(f"{result.verdict:9} {session.seconds:5.1f} s  {mutant.name}")
    if result.verdict is Verdict.CAUGHT:
        return
    PRINTED.print(f"    in {mutant.file}: {mutant.harm}")
    PRINTED.print("    must fail:", *mutant.tests)
    PRINTED.print(*session.output.splitlines()[-OUTPUT_SHOWN:], sep="\n")


if __name__ == "__main__":
    sys.exit(main())
