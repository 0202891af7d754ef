"""The ledger holds for an analyst who chooses each cost in view of all earlier results."""

import json
import math
from datetime import UTC, datetime

import pytest

from hushrank.flows.errors import BudgetRefused
from hushrank.flows.interfaces.documents.runs import Budget
from hushrank.flows.ledger.entries import ALWAYS, period_at
from hushrank.flows.ledger.keys import InputNames
from hushrank.flows.ledger.ledger import Ledger
from hushrank.flows.ledger.rules import sharing_of, together_with
from hushrank.flows.ledger.texts import needed_text, rule_text
from hushrank.privacy.accounting import Spend, composed_epsilon, rho_for
from hushrank.privacy.filters import Rule, adaptive_total
from tests.ledgers import pure, release, terms_of


def test_noise_of_another_kind_after_a_result_is_refused_where_it_could_cost_a_second_delta(
    path, clock
):
    """`tests/privacy/test_filters.py` computes that it costs 1.7 times delta with other noise."""
    ledger = Ledger(path, terms_of(epsilon=1.0, delta=1e-6), clock=clock)
    first = Spend(rho=rho_for(0.3, 1e-6, 10**6), l2_squared=10**6)
    run(ledger, "a", first)
    assert composed_epsilon([first, pure(0.7)], 1e-6) <= 1.0
    with pytest.raises(BudgetRefused, match=r"campus-choice has 0\.57 left"):
        ledger.reserve("b", pure(0.7))
    run(ledger, "b", pure(0.57))
    assert ledger.balance().rule is Rule.RENYI
    assert ledger.balance().spent_epsilon <= 1.0


def run(ledger: Ledger, name: str, spend: Spend) -> None:
    ledger.reserve(name, spend)
    ledger.mark_drawn(name)
    ledger.commit(name)


def test_a_larger_cost_after_equal_ones_is_refused_where_only_totals_of_fixed_costs_allow_it(
    path, clock
):
    costs, delta = [pure(0.3)] * 12, 1e-2
    limit = composed_epsilon([*costs, pure(0.5)], delta) + 0.01
    assert limit < adaptive_total([*costs, pure(0.5)], delta).epsilon
    ledger = Ledger(path, terms_of(epsilon=limit, delta=delta), clock=clock)
    for number, spend in enumerate(costs):
        run(ledger, f"r{number}", spend)
    assert ledger.balance().rule is Rule.EQUAL_COSTS
    with pytest.raises(BudgetRefused):
        ledger.reserve("larger", pure(0.5))
    assert ledger.reserve("equal", pure(0.3)).attempt == 1


def test_a_reservation_given_back_in_view_of_a_result_still_selects_the_rule(path, clock):
    ledger = Ledger(path, terms_of(epsilon=9.0, delta=1e-6), clock=clock)
    ledger.reserve("a", pure(0.5))
    ledger.reserve("b", pure(0.3))
    ledger.cancel("a")  # nothing was drawn
    assert ledger.costs() == ((pure(0.3),), pure(0.3))
    ledger.reserve("a", pure(0.5))
    ledger.mark_drawn("b")
    ledger.cancel("a")
    assert ledger.costs() == ((pure(0.3),), pure(0.3))  # it was set aside later than b
    clock.now = datetime(2026, 12, 1, tzinfo=UTC)
    ledger.reserve("c", pure(0.7))
    ledger.reserve("d", pure(0.2))
    ledger.mark_drawn("d")
    ledger.cancel("c")
    assert ledger.costs() == ((pure(0.2),), pure(0.7))
    account = ledger.book().account
    assert account.costs(ALWAYS).first == pure(0.3)
    january = period_at(datetime(2027, 1, 1, tzinfo=UTC), "monthly")
    assert account.costs(january) == ((), None)


def test_a_release_that_a_look_stops_still_selects_the_rule_by_what_it_had_set_aside(path, clock):
    ledger = Ledger(path, terms_of(epsilon=9.0, delta=1e-6), clock=clock)
    ledger.reserve("a", pure(0.5))
    ledger.mark_stopped("a", pure(0.02), "0" * 64)
    release(ledger, "b", 0.4)
    assert ledger.costs() == ((pure(0.02), pure(0.4)), pure(0.5))


def test_the_release_that_was_set_aside_first_of_two_populations_selects_their_rule(path, clock):
    one = Ledger(path, terms_of(population="one", delta=1e-6), clock=clock)
    two = Ledger(path, terms_of(population="two", delta=1e-6, other_people=("one",)), clock=clock)
    one.reserve("a", pure(0.5), inputs=InputNames("key", ("x",)))
    two.reserve("b", pure(0.3), inputs=InputNames("key", ("x",)))
    book = two.book()
    shared = sharing_of(book.chain.entries, two.terms, (), book.period, str(path))
    together = together_with(book.account, book.period, shared)
    assert together == ((pure(0.3), pure(0.5)), pure(0.5))


@pytest.mark.parametrize("rule", list(Rule))
def test_every_rule_has_words(rule):
    assert rule_text(rule).endswith(").")


def test_mixed_costs_with_a_delta_are_refused_with_a_way_out(path, clock):
    ledger = Ledger(path, terms_of(epsilon=9.0, delta=1e-6), clock=clock)
    release(ledger, "a", 0.5)
    with pytest.raises(BudgetRefused) as caught:
        ledger.reserve("b", Spend(epsilon=0.5, delta=1e-7))
    assert str(caught.value) == (
        "Budget: this run costs epsilon 0.50, delta 1e-07. The first cost that campus-choice set"
        " aside has no delta, so later costs together may have at most delta 7.8e-09. Set"
        " privacy.delta to at most 7.8e-09, or set noise: laplace until 1 December."
        " Nothing was read or spent."
    )
    assert math.isinf(adaptive_total([pure(0.5), Spend(epsilon=0.5, delta=1e-7)], 1e-6).epsilon)


def test_a_cost_in_rho_beside_costs_with_a_delta_is_refused_with_a_way_out(path, clock):
    ledger = Ledger(path, terms_of(epsilon=9.0, delta=1e-6, refresh=None), clock=clock)
    run(ledger, "a", Spend(epsilon=0.5, delta=1e-7))
    older = Ledger(path, terms_of(epsilon=9.0, delta=1e-8, refresh=None), clock=clock)
    assert needed_text(older.balance().spent_epsilon) == "infinity"
    assert json.loads(Budget.of(older.balance()).model_dump_json())["spent"] == "inf"
    with pytest.raises(BudgetRefused, match=r"Set privacy\.look, .* or set noise: laplace\. "):
        ledger.reserve("b", Spend(rho=0.01))
    run(ledger, "c", pure(0.5))
    assert ledger.balance().spent_epsilon == 1.0
