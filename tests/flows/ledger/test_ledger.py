"""What the ledger promises one process: states, budget, terms, records."""

import json
from datetime import UTC, date, datetime, timedelta

import pytest

from hushrank.flows.errors import BudgetRefused, LedgerError
from hushrank.flows.ledger.account import ReleaseState, Reservation
from hushrank.flows.ledger.entries import Commit, read_chain, write_lines
from hushrank.flows.ledger.ledger import Ledger
from hushrank.flows.ledger.texts import HISTORY_COLUMNS
from hushrank.privacy.accounting import Spend
from hushrank.privacy.units import Adjacency, Unit
from tests.ledgers import NOW, pure, release, terms_of


def refusal(call, *arguments, **options) -> str:
    with pytest.raises((LedgerError, BudgetRefused)) as caught:
        call(*arguments, **options)
    return str(caught.value)


# States


def test_a_release_goes_through_its_states(ledger):
    assert ledger.state("a") is ReleaseState.NONE
    assert ledger.reserve("a", pure(2)) == Reservation("a", 1, pure(2), NOW, repeated=False)
    assert ledger.state("a") is ReleaseState.RESERVED
    ledger.mark_drawn("a")
    assert ledger.state("a") is ReleaseState.DRAWN
    ledger.commit("a")
    assert ledger.state("a") is ReleaseState.COMMITTED
    assert ledger.balance().spent_epsilon == 2


def test_a_repeated_reservation_is_the_same_one(ledger, path, clock):
    ledger.reserve("a", pure(7))
    before = path.read_bytes()
    clock.now += timedelta(hours=1)
    assert ledger.reserve("a", pure(7)) == Reservation("a", 1, pure(7), NOW, repeated=True)
    assert path.read_bytes() == before


def test_a_repeated_commit_or_cancel_changes_nothing(ledger, path):
    release(ledger, "a", 1)
    ledger.reserve("b", pure(1))
    ledger.cancel("b")
    before = path.read_bytes()
    ledger.commit("a")
    ledger.cancel("b")
    assert path.read_bytes() == before


def test_a_cancelled_reservation_gives_its_budget_back(ledger):
    ledger.reserve("a", pure(10))
    ledger.cancel("a")
    assert ledger.state("a") is ReleaseState.CANCELLED
    assert ledger.balance().remaining_epsilon == 10
    assert ledger.reserve("a", pure(10)).attempt == 2


@pytest.mark.parametrize("published", [False, True])
def test_lost_noise_is_paid_for_again(ledger, published):
    ledger.reserve("a", pure(4))
    ledger.mark_drawn("a")
    if published:
        ledger.commit("a")
    assert refusal(ledger.reserve, "a", pure(4)) == (
        "Release a: its noise was drawn on 2026-11-21 and is paid for; publish the stored result."
        " Nothing was spent now."
    )
    assert ledger.reserve("a", pure(4), noise_lost=True).attempt == 2
    assert ledger.balance().spent_epsilon == 8
    ledger.cancel("a")  # of the second attempt: the first stays spent
    assert ledger.balance().spent_epsilon == 4
    with pytest.raises(BudgetRefused):
        ledger.reserve("a", pure(7), noise_lost=True)


@pytest.mark.parametrize(
    ("before", "step", "text"),
    [
        (
            "",
            "mark_drawn",
            "Release a holds no reservation (none), so no noise may be drawn for it."
            " Run again from the start.",
        ),
        ("", "commit", "Release a cannot be committed: no noise was drawn for it (none)."),
        ("", "cancel", "Release a cannot be cancelled: it holds no reservation."),
        ("r", "commit", "Release a cannot be committed: no noise was drawn for it (reserved)."),
        (
            "rd",
            "mark_drawn",
            "Release a: its noise was drawn already, and a second draw would cost the budget again."
            " Nothing was drawn now.",
        ),
        (
            "rd",
            "cancel",
            "Release a cannot be cancelled: its noise was drawn, so its budget is spent.",
        ),
        (
            "rdc",
            "mark_drawn",
            "Release a: its noise was drawn already, and a second draw would cost the budget again."
            " Nothing was drawn now.",
        ),
        (
            "rdc",
            "cancel",
            "Release a cannot be cancelled: its noise was drawn, so its budget is spent.",
        ),
        (
            "rx",
            "mark_drawn",
            "Release a holds no reservation (cancelled), so no noise may be drawn for it."
            " Run again from the start.",
        ),
        ("rx", "commit", "Release a cannot be committed: no noise was drawn for it (cancelled)."),
    ],
)
def test_a_step_out_of_order_is_refused_and_changes_nothing(ledger, path, before, step, text):
    steps = {"d": ledger.mark_drawn, "c": ledger.commit, "x": ledger.cancel}
    for letter in before:
        if letter == "r":
            ledger.reserve("a", pure(1))
        else:
            steps[letter]("a")
    content = path.read_bytes() if before else b""
    assert refusal(getattr(ledger, step), "a") == text
    assert (path.read_bytes() if path.exists() else b"") == content


def test_a_reservation_at_another_cost_is_refused(ledger):
    ledger.reserve("a", pure(1))
    assert refusal(ledger.reserve, "a", pure(2)) == (
        "Release a is reserved at another cost (epsilon 1.00); this run needs epsilon 2.00."
        " Cancel that reservation first. Nothing was read or spent."
    )


@pytest.mark.parametrize("release_id", ["", "../a", "a/b", ".a", "a" * 129, "a\n"])
@pytest.mark.parametrize("method", ["reserve", "run_lock", "record_unsafe"])
def test_a_release_id_that_cannot_name_a_lock_is_refused(ledger, release_id, method):
    arguments = {"reserve": [pure(1)], "record_unsafe": ["why"], "run_lock": []}[method]
    with pytest.raises(ValueError, match="release_id must be 1 to 128 letters"):
        getattr(ledger, method)(release_id, *arguments)


def test_two_runs_of_one_release_exclude_each_other(ledger):
    with ledger.run_lock("a"):
        assert "Another run of release a is in progress." in refusal(ledger.run_lock("a").__enter__)


# Budget


def test_over_budget_is_refused_with_what_is_left(ledger, path):
    release(ledger, "a", 8.5)
    before = path.read_bytes()
    expected = (
        "Budget: this run needs epsilon 4.00; campus-choice has 1.50 left until 1 December."
        " Nothing was read or spent."
    )
    assert refusal(ledger.reserve, "b", pure(4)) == expected
    assert refusal(ledger.check, pure(4)) == expected
    assert path.read_bytes() == before
    ledger.check(pure(1.5))
    assert path.read_bytes() == before
    ledger.reserve("b", pure(1.5))


def test_a_refusal_names_what_holds_the_budget(ledger):
    ledger.reserve("a", pure(6))
    ledger.reserve("b", pure(3))
    assert refusal(ledger.reserve, "c", pure(4)).endswith(
        "has 1.00 left until 1 December. Nothing was read or spent. Reserved, but never drawn:"
        " a, b; cancel those that no run uses any more."
    )


def test_a_budget_without_renewal_names_no_day(path, clock):
    ledger = Ledger(path, terms_of(refresh=None), clock=clock)
    release(ledger, "a", 9)
    assert refusal(ledger.reserve, "b", pure(2)) == (
        "Budget: this run needs epsilon 2.00; campus-choice has 1.00 left."
        " Nothing was read or spent."
    )


def test_a_total_is_what_the_accountant_says(path, clock):
    ledger = Ledger(path, terms_of(epsilon=1.0, delta=1e-6), clock=clock)
    for night in range(40):
        release(ledger, f"night-{night}", 0.03)  # 1.2 by the plain sum
    assert ledger.balance().spent_epsilon < 1.0
    assert "would bring" in refusal(ledger.reserve, "gaussian", Spend(rho=1e-6))  # another kind
    ledger.reserve("night-40", Spend(epsilon=0.03))
    assert ledger.balance().spent_epsilon <= 1.0


def test_a_release_without_privacy_has_no_cost_to_reserve(ledger):
    with pytest.raises(ValueError, match="record it as unsafe"):
        ledger.reserve("a", pure(float("inf")))


def test_populations_in_one_ledger_are_apart(ledger, path, clock):
    other = Ledger(path, terms_of(population="town", unit=Unit.COMPARISON), clock=clock)
    release(ledger, "a", 10)
    assert other.balance().remaining_epsilon == 10
    assert other.state("a") is ReleaseState.NONE
    release(other, "a", 3)
    assert ledger.balance().spent_epsilon == 10
    assert other.balance().spent_epsilon == 3


def test_balance_of_a_new_and_of_a_used_ledger(ledger):
    balance = ledger.balance()
    assert (balance.spent_epsilon, balance.remaining_epsilon, balance.releases) == (0, 10, 0)
    assert (balance.total, balance.delta, balance.population) == (10, 0, "campus-choice")
    assert balance.renews_on == date(2026, 12, 1)
    release(ledger, "a", 2)
    ledger.reserve("b", pure(3))
    ledger.record_unsafe("c", "no noise")
    balance = ledger.balance()
    assert (balance.spent_epsilon, balance.remaining_epsilon, balance.releases) == (5, 5, 2)
    assert (balance.undrawn, balance.unsafe) == (("b",), 1)


def test_an_unsafe_release_is_recorded_and_not_counted(ledger, path, clock):
    ledger.record_unsafe("a", "released without noise")
    assert ledger.state("a") is ReleaseState.NONE
    assert ledger.balance().spent_epsilon == 0
    assert json.loads(path.read_text().splitlines()[-1])["why"] == "released without noise"


# Terms


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"population": ""}, "population must not be empty"),
        ({"epsilon": 0.0}, "epsilon must be finite and > 0, got 0.0"),
        ({"epsilon": float("nan")}, "epsilon must be finite and > 0, got nan"),
        ({"epsilon": float("inf")}, "epsilon must be finite and > 0, got inf"),
        ({"delta": 1.0}, "delta must be at least 0 and below 1, got 1.0"),
        ({"delta": -1e-9}, "delta must be at least 0 and below 1, got -1e-09"),
    ],
)
def test_terms_are_checked(changes, text):
    with pytest.raises(ValueError, match=f"^{text}$"):
        terms_of(**changes)


@pytest.mark.parametrize(
    ("change", "name", "known", "asked"),
    [
        ({"unit": Unit.COMPARISON}, "unit", "user", "comparison"),
        ({"adjacency": Adjacency.ADD_REMOVE}, "adjacency", "replace-one", "add-remove"),
    ],
)
def test_another_guarantee_is_refused(ledger, path, change, name, known, asked):
    release(ledger, "a", 1)
    other = Ledger(path, terms_of(**change))
    expected = (
        f"{path}: campus-choice counts its budget by {name} {known}, but the configuration has"
        f" privacy.{name}: {asked}. Costs under the two cannot be added up. Set {name}: {known}."
        " Use another name only for other people: it begins a new budget. Nothing was read or"
        " spent."
    )
    for call in (other.balance, lambda: other.reserve("b", pure(1)), other.history):
        assert refusal(call) == expected


def test_a_lower_total_keeps_what_was_spent(ledger, path, clock):
    release(ledger, "a", 6)
    lower = Ledger(path, terms_of(epsilon=5.0), clock=clock)
    assert lower.balance().spent_epsilon == 6
    assert lower.balance().remaining_epsilon == 0
    assert "this run needs epsilon 0.10; campus-choice has 0.00 left" in refusal(
        lower.reserve, "b", pure(0.1)
    )
    lower.commit("a")


def test_changed_terms_are_recorded_with_the_first_release_under_them(ledger, path, clock):
    release(ledger, "a", 6)
    higher = Ledger(path, terms_of(epsilon=20.0, refresh="yearly"), clock=clock)
    higher.reserve("b", pure(14))
    higher.mark_drawn("b")
    events = [json.loads(line) for line in path.read_text().splitlines()]
    assert [event["event"] for event in events] == [
        "open",
        "reserve",
        "draw",
        "commit",
        "terms",
        "reserve",
        "draw",
    ]
    assert events[4].items() >= {"epsilon": 20.0, "delta": 0.0, "refresh": "yearly"}.items()


# What is recorded


def test_history_shows_everything_once(ledger, path, clock):
    release(ledger, "a", 2)
    ledger.reserve("b", pure(3))
    ledger.cancel("b")
    ledger.record_unsafe("c", "its bits came from a seed")
    clock.now = datetime(2026, 12, 1, tzinfo=UTC)
    tighter = Ledger(path, terms_of(epsilon=5.0), clock=clock, operator="bert")
    tighter.reserve("a", pure(2), noise_lost=True)
    day = "2026-11-21 12:00:00"
    assert [row.cells() for row in tighter.history()] == [
        (day, "", "terms", "", "no", "anna", "epsilon 10, delta 0, monthly"),
        (day, "a", "committed", "epsilon 2.00", "no", "anna", ""),
        (day, "b", "cancelled", "epsilon 3.00", "no", "anna", ""),
        (day, "c", "UNSAFE", "", "no", "anna", "its bits came from a seed"),
        ("2026-12-01 00:00:00", "", "terms", "", "no", "bert", "epsilon 5, delta 0, monthly"),
        ("2026-12-01 00:00:00", "a", "reserved", "epsilon 2.00", "yes", "bert", "attempt 2"),
    ]
    assert {len(row.cells()) for row in tighter.history()} == {len(HISTORY_COLUMNS)}


def test_the_configuration_is_recorded(ledger, path):
    ledger.reserve("a", pure(1), config_hash="c0ffee")
    assert json.loads(path.read_text().splitlines()[-1])["config_hash"] == "c0ffee"


def test_an_edited_ledger_is_refused_by_every_method(ledger, path):
    release(ledger, "a", 8)
    path.write_bytes(path.read_bytes().replace(b'"epsilon":8.0', b'"epsilon":1.0'))
    for call in (
        ledger.balance,
        ledger.history,
        lambda: ledger.state("a"),
        lambda: ledger.check(pure(1)),
        lambda: ledger.reserve("b", pure(1)),
        lambda: ledger.mark_drawn("a"),
        lambda: ledger.record_unsafe("b", "why"),
    ):
        assert f"{path}: line 2 was changed after it was written" in refusal(call)


def test_a_ledger_whose_end_was_cut_off_is_refused(ledger, path):
    release(ledger, "a", 8)
    whole = path.read_bytes()
    path.write_bytes(b"".join(whole.splitlines(keepends=True)[:1]))
    assert "bytes at its end are missing" in refusal(ledger.reserve, "b", pure(8))
    path.write_bytes(whole)
    assert ledger.balance().spent_epsilon == 8


def test_lines_that_contradict_each_other_are_refused_though_their_hashes_hold(ledger, path):
    ledger.reserve("a", pure(1))
    chain = read_chain(path.read_bytes(), str(path))
    forged = write_lines(
        chain,
        [Commit(release_id="a", attempt=1)],
        population="campus-choice",
        operator="anna",
        time=NOW,
    )
    with path.open("ab") as stream:
        stream.write(forged)
    assert refusal(ledger.balance).startswith(
        f"{path}: line 3 cannot follow the lines above it (commit)."
    )
