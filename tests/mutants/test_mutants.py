"""The list of mutants fits the code, the runner tells them apart, and a sample of them is caught.

`make mutants` plants all of them. Here the whole list is only compared with the code.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests.mutants.__main__ import _failing_anyway
from tests.mutants.catalogue import Mutant, mutants, problems
from tests.mutants.trial import Copy, Outcome, Session, Verdict, try_mutant, unready, verdict_of

MUTANTS = mutants()
FEWEST = 60
AREAS = {
    *("accounting", "adjacency", "bounding", "draw-once", "leaks", "ledger", "names", "reports"),
    *("rows", "scale", "seeds", "sensitivity", "state", "thresholds"),
}
TEST = "tests/privacy/test_decimals.py::test_rounding_is_directed_and_tight"


def test_every_mutant_can_be_planted_in_the_code_as_it_is(checkout: Path) -> None:
    """Its old text occurs exactly once, its new text is Python, and its tests exist."""
    assert [problem for mutant in MUTANTS for problem in problems(mutant, checkout)] == []


def test_the_list_covers_every_area_and_names_each_mutant_once() -> None:
    assert len(MUTANTS) >= FEWEST
    assert {mutant.area for mutant in MUTANTS} == AREAS
    assert [
        name for name, times in Counter(each.name for each in MUTANTS).items() if times > 1
    ] == []
    assert [each.name for each in MUTANTS if not each.harm.endswith(".")] == []


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"old": "number"}, "occurs"),
        ({"file": "privacy/attic.py"}, "no module"),
        ({"file": "tests/conftest.py"}, "no module"),
        ({"new": "return nearest if"}, "no Python"),
        ({"tests": ("tests/privacy/test_decimals.py::test_attic",)}, "no test"),
        ({"tests": ()}, "names no test"),
    ],
)
def test_a_mutant_that_does_not_fit_is_named(checkout: Path, change: dict, says: str) -> None:
    (problem,) = problems(replace(rounding_mutant(), **change), checkout)
    assert says in problem


def rounding_mutant(new: str = "return nearest") -> Mutant:
    (mutant,) = (each for each in MUTANTS if each.name == "accounting/total-rounded-down")
    return replace(mutant, new=new, tests=(TEST,))


def session(*outcomes: Outcome, code: int | None = 1) -> Session:
    return Session(code, outcomes, "", 1.0)


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (session(Outcome("t[1]", True, False), Outcome("t[2]", False, True)), Verdict.CAUGHT),
        (session(Outcome("t", True, False), code=0), Verdict.SURVIVED),
        (session(Outcome("tt", False, True), Outcome("t", True, False)), Verdict.SURVIVED),
        (session(Outcome("t", False, True), Outcome("u", False, False)), Verdict.BROKEN),
        (session(code=2), Verdict.BROKEN),
        (session(code=-1), Verdict.BROKEN),
        (session(code=None), Verdict.SLOW),
    ],
)
def test_only_a_test_that_fails_by_itself_catches(found: Session, verdict: Verdict) -> None:
    assert verdict_of(["t"], found) is verdict


def test_tests_that_fail_without_a_mutant_are_named() -> None:
    passed, failed = Outcome("t[1]", True, False), Outcome("u", False, True)
    assert unready(["t"], session(passed, code=0)) == []
    assert unready(["t", "u"], session(passed, code=0)) == ["u"]
    assert unready(["t", "u"], session(passed, failed)) == ["u"]
    assert unready(["t"], session(code=4)) == ["t"]


def test_a_copy_without_a_test_of_its_own_runs_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """pytest without a name runs all there are."""
    ran: list[list[str]] = []

    def run(_: Copy, tests: list[str]) -> Session:
        ran.append(tests)
        return session(*(Outcome(test, True, False) for test in tests), code=0)

    monkeypatch.setattr(Copy, "run", run)
    copies = [object.__new__(Copy) for _ in range(3)]
    one = replace(mutants()[0], tests=("tests/test_a.py::test_b",))
    assert _failing_anyway([one, one], copies) == []
    assert ran == [["tests/test_a.py::test_b"]]


@pytest.mark.slow
@pytest.mark.mutants
def test_a_sample_of_mutants_is_caught(checkout: Path, tmp_path: Path) -> None:
    """And one that changes nothing survives; one that cannot be run is no catch."""
    copy = Copy(checkout, tmp_path)
    kept = "nearest = float(value)"
    harmless = replace(rounding_mutant(), old=kept, new=f"{kept} + 0")
    wrong = rounding_mutant("return nearest_of_all")
    unmutated = copy.run(sorted({test for each in sample() for test in each.tests} | {TEST}))
    assert unmutated.code == 0, unmutated.output
    caught = {each.name: try_mutant(copy, each).verdict for each in sample()}
    assert caught == dict.fromkeys(caught, Verdict.CAUGHT)
    assert try_mutant(copy, harmless).verdict is Verdict.SURVIVED
    assert try_mutant(copy, wrong).verdict is Verdict.BROKEN


def sample() -> list[Mutant]:
    return [each for each in MUTANTS if each.sample]


def test_the_sample_is_of_several_areas() -> None:
    assert 6 <= len(sample()) <= 10
    assert len({each.area for each in sample()}) == len(sample())
