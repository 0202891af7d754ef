from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushrank.flows.ledger.texts import (
    day_text,
    left_text,
    needed_text,
    refusal_text,
    spend_text,
)
from hushrank.privacy.accounting import Spend


@pytest.mark.parametrize(
    ("epsilon", "needed", "left"),
    [
        (0.0, "0.00", "0.00"),
        (4.0, "4.00", "4.00"),
        (0.1 + 0.2, "0.30", "0.30"),
        (1.501, "1.51", "1.50"),
        (1.999, "2.00", "1.99"),
        (0.1, "0.10", "0.10"),
        (0.0123, "0.013", "0.012"),
        (0.00999, "0.0100", "0.0099"),
        (123456.789, "123456.79", "123456.78"),
        (1e-12, "0.0000000000010", "0.0000000000010"),
    ],
)
def test_what_is_needed_rounds_up_and_what_is_left_rounds_down(epsilon, needed, left):
    assert (needed_text(epsilon), left_text(epsilon)) == (needed, left)


@given(epsilon=st.floats(1e-9, 1e6))
def test_texts_enclose_the_amount(epsilon):
    tiny = 1e-8 * epsilon  # the texts are made from 9 digits
    assert float(left_text(epsilon)) - tiny <= epsilon <= float(needed_text(epsilon)) + tiny


def test_days_name_the_year_only_where_it_is_another():
    assert day_text(date(2026, 12, 1), date(2026, 11, 21)) == "1 December"
    assert day_text(date(2027, 1, 1), date(2026, 12, 31)) == "1 January 2027"


@pytest.mark.parametrize(
    ("spend", "text"),
    [
        (Spend(epsilon=2), "epsilon 2.00"),
        (Spend(epsilon=0.5, delta=1e-6), "epsilon 0.50, delta 1e-06"),
        (Spend(rho=0.125), "rho 0.125"),
    ],
)
def test_costs_as_text(spend, text):
    assert spend_text(spend) == text


@pytest.mark.parametrize(
    ("spends", "spend", "delta", "until", "text"),
    [
        (
            [Spend(epsilon=8.5)],
            Spend(epsilon=4),
            0.0,
            "1 December",
            "Budget: this run needs epsilon 4.00; campus has 1.50 left until 1 December."
            " Nothing was read or spent.",
        ),
        (
            [Spend(epsilon=10)],
            Spend(epsilon=0.001),
            0.0,
            "",
            "Budget: this run needs epsilon 0.0010; campus has 0.00 left."
            " Nothing was read or spent.",
        ),
        (
            [],
            Spend(rho=0.1),
            0.0,
            "",
            "Budget: this run's guarantee needs a larger delta than campus has (0). Raise"
            " ledger.delta, or set noise: laplace, which needs none. Nothing was read or spent.",
        ),
        (
            [Spend(epsilon=1, delta=1e-6)],
            Spend(epsilon=1, delta=1e-6),
            1e-6,
            "1 December",
            "Budget: this run would bring campus to a larger delta; epsilon 10.00 at delta 1e-06"
            " is allowed until 1 December. Nothing was read or spent.",
        ),
    ],
)
def test_refusals(spends, spend, delta, until, text):
    refusal = refusal_text("campus", spends, spend, epsilon=10.0, delta=delta, until=until)
    assert refusal == text
