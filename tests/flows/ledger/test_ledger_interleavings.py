"""The ledger under every interleaving of steps, waiting, wrong clocks and interrupted appends."""

import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from hushrank.flows.errors import BudgetRefused, LedgerError
from hushrank.flows.ledger.entries import LINE_START, period_at
from hushrank.flows.ledger.ledger import Ledger
from hushrank.flows.ledger.rules import MAX_CLOCK_LAG
from tests.ledgers import Clock, pure, terms_of

TOTAL = 5
RELEASES = st.sampled_from(["a", "b", "c", "d"])
COSTS = st.integers(1, 3)


class AnyInterleaving(RuleBasedStateMachine):
    """The ledger against a model of a few lines, under every interleaving of steps and mishaps.

    The model keeps, for each attempt, its cost, its state and the times of reservation and draw.
    """

    @initialize(refresh=st.sampled_from([None, "daily", "weekly"]))
    def begin(self, refresh):
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "ledger.jsonl"
        self.clock = Clock()
        self.last = datetime(2000, 1, 1, tzinfo=UTC)  # before every entry
        self.refresh = refresh
        self.attempts = []
        self.reopen()

    def teardown(self):
        self.folder.cleanup()

    @rule()
    def reopen(self):
        terms = terms_of(epsilon=float(TOTAL), refresh=self.refresh)
        self.ledger = Ledger(self.path, terms, clock=self.clock, operator="anna")

    @rule(hours=st.integers(0, 60))
    def wait(self, hours):
        self.clock.now += timedelta(hours=hours)

    @rule(minutes=st.sampled_from([1, 30, 61, 3000]))
    def set_clock_back(self, minutes):
        self.clock.now -= timedelta(minutes=minutes)

    @precondition(lambda self: self.path.exists())
    @rule(length=st.integers(1, 40))
    def die_in_the_middle_of_an_append(self, length):
        line = LINE_START + b'1,"seq":99,"time":"2026-01-01T00:00:00Z"'
        content = self.path.read_bytes()
        if content.endswith(b"\n"):
            self.path.write_bytes(content + line[:length])

    @rule(release_id=RELEASES, cost=COSTS, lost=st.booleans())
    def reserve(self, release_id, cost, lost):
        latest = self.latest(release_id)
        repeated = latest is not None and latest["state"] == "reserved"
        spent_before = latest is not None and latest["drawn"] is not None
        lag = self.refresh is not None and self.last - self.clock.now > MAX_CLOCK_LAG
        try:
            self.ledger.reserve(release_id, pure(cost), noise_lost=lost)
        except BudgetRefused:
            assert not repeated
            assert self.counted() + cost > TOTAL
        except LedgerError:
            other_cost = repeated and latest["cost"] != cost
            assert other_cost or (spent_before and not lost) or (lag and not repeated)
        else:
            assert lost or not spent_before or repeated
            if not repeated:
                assert self.counted() + cost <= TOTAL
                assert not lag
                attempt = {"id": release_id, "cost": cost, "state": "reserved", "drawn": None}
                self.attempts.append({**attempt, "reserved": self.record()})

    @rule(release_id=RELEASES)
    def mark_drawn(self, release_id):
        if self.step(self.ledger.mark_drawn, release_id, {"reserved"}, "drawn"):
            self.latest(release_id)["drawn"] = self.last

    @rule(release_id=RELEASES)
    def commit(self, release_id):
        self.step(self.ledger.commit, release_id, {"drawn", "committed"}, "committed")

    @rule(release_id=RELEASES)
    def cancel(self, release_id):
        self.step(self.ledger.cancel, release_id, {"reserved", "cancelled"}, "cancelled")

    @rule(release_id=RELEASES)
    def record_unsafe(self, release_id):
        self.ledger.record_unsafe(release_id, "no noise")
        self.record()

    @invariant()
    def never_more_drawn_in_a_period_than_its_total(self):
        for attempt in self.attempts:
            if attempt["drawn"] is not None:
                period = period_at(attempt["drawn"], self.refresh)
                drawn = sum(
                    other["cost"]
                    for other in self.attempts
                    if other["drawn"] is not None
                    and period_at(other["drawn"], self.refresh) == period
                )
                assert drawn <= TOTAL

    @invariant()
    def ledger_and_model_agree(self):
        balance = self.ledger.balance()
        assert balance.spent_epsilon == self.counted() <= TOTAL
        assert balance.remaining_epsilon == TOTAL - self.counted()
        for release_id in ("a", "b", "c", "d"):
            latest = self.latest(release_id)
            expected = "none" if latest is None else latest["state"]
            assert self.ledger.state(release_id) == expected

    def step(self, call, release_id, allowed, result) -> bool:
        latest = self.latest(release_id)
        before = None if latest is None else latest["state"]
        try:
            call(release_id)
        except LedgerError:
            assert before not in allowed
            return False
        assert before in allowed
        if before != result:
            latest["state"] = result
            self.record()
        return True

    def record(self) -> datetime:
        """An entry was made: now, but never before the last one."""
        self.last = max(self.last, self.clock.now)
        return self.last

    def latest(self, release_id):
        return next((a for a in reversed(self.attempts) if a["id"] == release_id), None)

    def counted(self) -> int:
        now = period_at(max(self.last, self.clock.now), self.refresh)
        return sum(
            attempt["cost"]
            for attempt in self.attempts
            if attempt["state"] != "cancelled"
            and (now.start is None or attempt["drawn"] is None or attempt["drawn"] >= now.start)
        )


AnyInterleaving.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
test_any_interleaving = AnyInterleaving.TestCase
