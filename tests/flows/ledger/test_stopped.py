"""A release that a look at its rows has stopped: the look is spent, and the rest is free again."""

from __future__ import annotations

import pytest

from hushrank.flows.errors import BudgetRefused, LedgerError
from hushrank.flows.ledger.account import ReleaseState
from hushrank.flows.ledger.ledger import Ledger
from hushrank.privacy.accounting import Spend
from tests.ledgers import Clock, pure, release, terms_of

DIGEST = "0" * 64


@pytest.fixture
def ledger(tmp_path) -> Ledger:
    return Ledger(tmp_path / "ledger.jsonl", terms_of(), clock=Clock(), operator="anna")


def stopped(ledger: Ledger, release_id: str = "a", whole: float = 9, look: float = 0.5) -> None:
    ledger.reserve(release_id, pure(whole))
    ledger.mark_stopped(release_id, pure(look), DIGEST)


def test_only_the_look_is_spent_and_the_rest_can_be_spent_again(ledger):
    stopped(ledger)
    assert ledger.state("a") is ReleaseState.STOPPED
    balance = ledger.balance()
    assert (balance.spent_epsilon, balance.releases, balance.undrawn) == (0.5, 1, ())
    assert balance.unpublished == ()
    release(ledger, "b", 9.5)
    with pytest.raises(BudgetRefused):
        ledger.reserve("c", pure(0.1))
    row = next(row for row in ledger.history() if row.release_id == "a")
    assert (row.state, row.spend, row.counts_now) == ("stopped", pure(0.5), True)
    assert "stopped by the pilot query" in row.note
    attempt = ledger.attempt("a")
    assert attempt is not None
    assert (attempt.result, attempt.drawn_at) == (DIGEST, ledger.clock())


@pytest.mark.parametrize(
    "step",
    [
        lambda ledger: ledger.mark_drawn("a"),
        lambda ledger: ledger.mark_stopped("a", pure(0.1), DIGEST),
        lambda ledger: ledger.cancel("a"),
        lambda ledger: ledger.commit("a"),
        lambda ledger: ledger.reserve("a", pure(9)),
        lambda ledger: ledger.reserve("a", pure(9), noise_lost=True),
    ],
)
def test_nothing_follows_a_stop(ledger, step):
    stopped(ledger)
    before = ledger.backend.read().content
    with pytest.raises(LedgerError):
        step(ledger)
    assert ledger.backend.read().content == before


def test_what_was_drawn_or_given_back_cannot_be_stopped(ledger):
    ledger.reserve("a", pure(3))
    ledger.mark_drawn("a")
    ledger.reserve("b", pure(3))
    ledger.cancel("b")
    for release_id in ("a", "b", "unknown"):
        with pytest.raises(LedgerError):
            ledger.mark_stopped(release_id, pure(0.1), DIGEST)
    assert ledger.balance().spent_epsilon == 3


@pytest.mark.parametrize("look", [pure(3.5), Spend(rho=0.1), Spend(epsilon=1.0, delta=1e-9)])
def test_a_look_that_is_no_part_of_the_reservation_is_refused(ledger, look):
    ledger.reserve("a", pure(3))
    with pytest.raises(ValueError, match="not a part of"):
        ledger.mark_stopped("a", look, DIGEST)
    assert ledger.state("a") is ReleaseState.RESERVED
