"""A stream of nights in the ledger: one cost, nights in order, each drawn once."""

import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from hushrank.flows.errors import BudgetRefused, LedgerError, NightOutOfTurn
from hushrank.flows.ledger.account import ReleaseState
from hushrank.flows.ledger.entries import Draw, Reserve, StreamSpan, read_chain, write_lines
from hushrank.flows.ledger.forecast import forecast_of_stream, stream_text
from hushrank.flows.ledger.ledger import Ledger
from hushrank.flows.ledger.streams import FREE, NightToPay, check_night, reserve_night
from hushrank.privacy.accounting import Spend
from tests.ledgers import NOW, pure, release, terms_of

FIRST = date(2026, 11, 20)
SPAN = StreamSpan(nights=3, first=FIRST)


def night(number: int, spend: Spend | None = None, span: StreamSpan = SPAN) -> NightToPay:
    day = FIRST + timedelta(days=number)
    return NightToPay(stream_id="s", span=span, night=day, spend=spend or pure(6))


def draw(ledger: Ledger, number: int) -> None:
    """A whole night."""
    reserve_night(ledger, f"n{number}", night(number), config_hash="h")
    ledger.mark_drawn(f"n{number}", f"digest {number}", f"people {number}")
    ledger.commit(f"n{number}")


def events(path: Path) -> list[str]:
    return [json.loads(line)["event"] for line in path.read_text().splitlines()]


def test_the_first_night_costs_the_stream_and_later_ones_nothing(ledger, path):
    made = reserve_night(ledger, "n0", night(0))
    assert (made.spend, made.repeated) == (pure(6), False)
    assert reserve_night(ledger, "n0", night(0)).repeated
    ledger.mark_drawn("n0", "digest", "people")
    assert ledger.state("s") is ReleaseState.RUNNING
    assert reserve_night(ledger, "n1", night(1)).spend == FREE
    ledger.mark_drawn("n1", "digest", "people")
    draw(ledger, 2)
    assert ledger.state("s") is ReleaseState.ENDED
    balance = ledger.balance()
    assert (balance.spent_epsilon, balance.releases, balance.undrawn) == (6, 1, ())
    assert set(balance.unpublished) == {"n0", "n1"}  # the stream itself has nothing to publish
    assert events(path).count("reserve") == 4
    nights = ledger.book().account.nights_of("s")
    assert [nights[FIRST + timedelta(days=day)].people for day in range(3)] == [
        "people", "people", "people 2",
    ]  # fmt: skip


def test_a_stream_that_does_not_fit_is_refused_whole(ledger, path):
    release(ledger, "a", 5)
    with pytest.raises(BudgetRefused, match=r"needs epsilon 6\.00"):
        reserve_night(ledger, "n0", night(0))
    with pytest.raises(BudgetRefused, match=r"needs epsilon 6\.00"):
        check_night(ledger, night(0))
    assert ledger.state("s") is ReleaseState.NONE


@pytest.mark.parametrize(
    ("number", "says"),
    [
        (-1, "is before the first of its stream, 2026-11-20"),
        (0, "was drawn before, and a night of a stream is drawn only once"),
        (2, "2026-11-21 comes first. hushrank catch-up"),
        (3, "ended on 2026-11-22, its night 3. To continue, start a new stream "),
    ],
)
def test_nights_out_of_turn_are_refused(ledger, path, number, says):
    draw(ledger, 0)
    before = path.read_bytes()
    for call in (check_night, lambda *given: reserve_night(given[0], "other", given[1])):
        with pytest.raises(NightOutOfTurn, match=says):
            call(ledger, night(number))
    assert path.read_bytes() == before
    check_night(ledger, night(1))


def test_a_night_is_not_drawn_twice_whatever_is_written(ledger, path):
    """Not even by lines that some other program makes."""
    draw(ledger, 0)
    content = path.read_bytes()
    chain = read_chain(content, "x")
    again = [
        Reserve(release_id="n0", attempt=2, spend=FREE, config_hash="h", night=FIRST, of="s"),
        Draw(release_id="n0", attempt=2),
    ]
    late = Reserve(
        release_id="n2", attempt=1, spend=FREE, config_hash="h", of="s",
        night=FIRST + timedelta(days=2),
    )  # fmt: skip
    costly = Reserve(
        release_id="n1", attempt=1, spend=pure(1), config_hash="h", of="s",
        night=FIRST + timedelta(days=1),
    )  # fmt: skip
    orphan = Reserve(
        release_id="n1", attempt=1, spend=FREE, config_hash="h", night=FIRST, of="other"
    )
    for lines in (again, [late], [costly], [orphan]):
        more = write_lines(chain, lines, population="campus-choice", operator="x", time=NOW)
        path.write_bytes(content + more)
        Path(f"{path}.length").unlink(missing_ok=True)
        with pytest.raises(LedgerError, match=r"line \d+"):
            ledger.book(whole=False)


@pytest.mark.parametrize("given_back", ["n0", "s"])
def test_before_the_first_draw_all_is_given_back_together(ledger, given_back):
    reserve_night(ledger, "n0", night(0))
    assert ledger.balance().spent_epsilon == 6
    ledger.cancel(given_back)
    assert ledger.balance().spent_epsilon == 0
    assert {ledger.state("n0"), ledger.state("s")} == {ReleaseState.CANCELLED}
    with pytest.raises(LedgerError, match="holds no reservation"):
        ledger.mark_drawn("n0", "digest")
    draw(ledger, 0)
    assert ledger.attempt("s").number == 2


def test_a_night_that_was_given_back_is_reserved_again_and_the_stream_stays(ledger):
    draw(ledger, 0)
    reserve_night(ledger, "n1", night(1))
    ledger.cancel("n1")
    assert ledger.state("s") is ReleaseState.RUNNING
    with pytest.raises(LedgerError, match="cannot be cancelled"):
        ledger.cancel("s")
    draw(ledger, 1)
    assert ledger.balance().spent_epsilon == 6


def test_a_stream_counts_in_every_month_until_its_last_night(ledger, clock):
    draw(ledger, 0)
    clock.now = datetime(2026, 12, 5, tzinfo=UTC)
    assert ledger.balance().spent_epsilon == 6
    with pytest.raises(BudgetRefused):
        ledger.reserve("a", pure(5))
    draw(ledger, 1)
    draw(ledger, 2)
    assert ledger.balance().spent_epsilon == 6
    clock.now = datetime(2027, 1, 1, tzinfo=UTC)
    assert ledger.balance().spent_epsilon == 0


def test_a_stream_at_another_cost_is_refused(ledger):
    draw(ledger, 0)
    with pytest.raises(LedgerError, match="reserved at another cost"):
        reserve_night(ledger, "n1", night(1, pure(5)))


def test_a_night_that_another_run_reserved_is_drawn_by_one(ledger, path, clock):
    other = Ledger(path, terms_of(), clock=clock, operator="ben")
    for each in (ledger, other):
        reserve_night(each, "n0", night(0))
    other.mark_drawn("n0", "theirs")
    with pytest.raises(LedgerError, match="drawn already"):
        ledger.mark_drawn("n0", "ours")


def test_history_names_the_stream_and_what_its_nights_cost(ledger):
    draw(ledger, 0)
    reserve_night(ledger, "n1", night(1))
    rows = [row.cells() for row in ledger.history()][1:]
    assert [row[1:4] for row in rows] == [
        ("s", "running", "epsilon 6.00"),
        ("n0", "committed", ""),
        ("n1", "reserved", ""),
    ]
    assert rows[0][-1] == "stream of 3 nights, 2026-11-20 to 2026-11-22"
    assert rows[1][-1] == "night 2026-11-20; paid by s"


def test_lines_that_are_about_no_stream_are_as_they_were(ledger, path):
    release(ledger, "a", 1)
    fields = [json.loads(line) for line in path.read_text().splitlines()]
    assert not any({"stream", "of", "people"} & line.keys() for line in fields)


def test_that_all_is_used_up_is_told_when_the_stream_has_ended(path, clock):
    ledger = Ledger(path, terms_of(alerts=(0.5, 1.0)), clock=clock)
    draw(ledger, 0)
    assert ledger.alert() == (0.5,)
    draw(ledger, 1)
    assert ledger.alert() == ()
    draw(ledger, 2)
    assert ledger.alert() == (1.0,)


@pytest.mark.parametrize(
    ("drawn", "spends", "says"),
    [
        (None, (), "fits into the budget. Its first night pays for all until 2026-11-22"),
        (None, (pure(5),), "does not fit into the budget"),
        (1, (pure(6),), "is paid for until 2026-11-22: 1 drawn, 2 left"),
        (3, (pure(6),), "ended on 2026-11-22. Another stream costs its own budget"),
    ],
)
def test_a_forecast_says_until_when_nights_are_paid_for(drawn, spends, says):
    found = forecast_of_stream(terms_of(), spends, pure(6), SPAN, drawn)
    assert says in stream_text("zoo", "epsilon 6.00", found)
