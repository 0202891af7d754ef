"""What a step returns or raises stays in this process; Prefect gets a safe text."""

from __future__ import annotations

import pickle

import pytest

from hushrank.flows.errors import BudgetRefused
from hushrank.flows.nights.flow import Kept, StepFailed

PRIVATE = "ants won 475 times"


def fail() -> None:
    raise ValueError(PRIVATE)


def test_an_unforeseen_error_is_told_by_its_type_alone():
    kept = Kept(fail)
    with pytest.raises(StepFailed) as told:
        kept.carry_out()
    assert str(told.value) == "An unforeseen error of type ValueError."
    assert told.value.__cause__ is None
    assert PRIVATE.encode() not in pickle.dumps(told.value)
    with pytest.raises(ValueError, match=PRIVATE):  # for the operator's terminal
        kept.result()


def test_an_error_that_explains_itself_is_told_as_it_is():
    def refuse() -> None:
        raise BudgetRefused("The ledger does not hold it.")

    kept = Kept(refuse)
    with pytest.raises(BudgetRefused, match="does not hold"):
        kept.carry_out()


def test_a_state_holds_neither_what_was_returned_nor_what_was_raised():
    ended = Kept(lambda: PRIVATE).state()
    assert ended.is_completed()
    assert PRIVATE not in ended.model_dump_json()
    failed = Kept(fail).state()
    assert failed.is_failed()
    assert PRIVATE not in failed.model_dump_json()
    assert failed.data is None


def test_a_step_that_is_repeated_counts_by_its_last_attempt():
    attempts = iter([fail, lambda: None])
    kept = Kept(lambda: next(attempts)())
    with pytest.raises(StepFailed):
        kept.carry_out()
    kept.carry_out()
    assert kept.ended
    assert kept.result() is None
