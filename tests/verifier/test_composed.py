"""The verifier's composition of pure costs: never below the optimal one, and hardly above it."""

from __future__ import annotations

import itertools
import math
import random
import time
from collections import Counter
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushrank.privacy.accounting import Spend, composed_epsilon, decimal_value
from hushrank.verifier import verify_release as verifier

FEW = settings(max_examples=25, deadline=None)
COSTS = st.lists(
    st.floats(0.01, 3).map(lambda value: Fraction(f"{value:.4g}")), min_size=1, max_size=5
)


def told(costs: list[Fraction], delta: Fraction = Fraction(0)) -> list[verifier.Spend]:
    """Costs as the verifier has them."""
    return [(cost, delta, None, 1) for cost in costs]


def delta_of(costs: list[Fraction], epsilon: Fraction) -> Fraction:
    """The least delta of releases with these costs, by the 2^n outcomes of [KOV15], to 50 digits:
    sum of P max(0, 1 - e^(epsilon - loss))."""
    with localcontext(prec=50):
        shares = [1 / (1 + (-decimal(cost)).exp()) for cost in costs]
        found = Decimal(0)
        for lies in itertools.product((False, True), repeat=len(costs)):
            chance, loss = Decimal(1), Fraction(0)
            for cost, share, lie in zip(costs, shares, lies, strict=True):
                chance *= 1 - share if lie else share
                loss += -cost if lie else cost
            found += chance * max(Decimal(0), 1 - decimal(epsilon - loss).exp())
    return Fraction(found)


def decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / value.denominator


@settings(max_examples=6, deadline=None)
@given(COSTS, st.floats(0.05, 0.999))
def test_of_few_costs_it_is_that_of_all_outcomes(costs, share):
    """Never below, and within a thousandth of the grid's reach above."""
    total = sum(costs)
    epsilon = total * Fraction(share)
    exact = delta_of(costs, epsilon)
    spends = told(costs)
    assert not verifier.composed(epsilon, exact * (1 - Fraction(1, 10**9)), spends)
    assert verifier.composed(epsilon + total / 10**4, exact, spends)


@FEW
@given(COSTS, st.floats(0.05, 0.999), st.sampled_from([Fraction(1, 7), Fraction(1, 1000)]))
def test_on_any_grid_the_bound_is_a_bound(costs, share, grid):
    """Wide grids, where what is rounded is seen: the bound is above, by no more than the losses
    moved, whether they are counted from their sum or from 0."""
    counts = sorted(Counter(costs).items())
    epsilon = sum(costs) * Fraction(share)
    exact, unit = delta_of(costs, epsilon), 10**40
    moved = delta_of(costs, epsilon - 2 * len(costs) * grid)
    for tops in (
        tuple((cost, often, cost * often) for cost, often in counts),
        tuple((cost, often, math.ceil(cost * often / grid) * grid) for cost, often in counts),
    ):
        found = verifier.chance_beyond(epsilon, tops, grid, unit)
        assert exact * (1 - Fraction(1, 10**30)) <= found <= moved + Fraction(1, 10**30)


@FEW
@given(st.integers(1, 60), st.fractions(Fraction(1, 100), 3, max_denominator=1000), st.data())
def test_equal_costs_are_split_so_that_both_chances_add_up(often, cost, data):
    """The law of equal costs on a grid: chances of one input add up to 1, and those of the other,
    e^-loss times these, to 1 or hardly less, so that nothing was moved down."""
    grid = data.draw(st.fractions(Fraction(1, 1000), Fraction(1, 10), max_denominator=1000))
    unit, top = 10**30, cost * often
    size = math.ceil(2 * top / grid) + 2
    law = verifier.law_of(cost, often, top, grid, size, unit)
    losses = [float(top - place * grid) for place in range(len(law))]
    chances = [each / unit for each in law]
    assert min(law) >= 0
    assert 0 <= sum(law) - unit <= 2 * len(law)
    other = math.fsum(c * math.exp(-x) for c, x in zip(chances, losses, strict=True))
    assert 1 - float(grid) <= other <= 1 + 1e-9


def test_products_of_laws_are_convolutions():
    draw = random.Random(5)
    for sizes in ((1, 1), (1, 9), (40, 7), (300, 300)):
        one, other = ([draw.randrange(10**28) for _ in range(size)] for size in sizes)
        found = verifier.law_of_both(one, other, 10**30)
        expected = np.convolve(np.array(one, dtype=object), np.array(other, dtype=object))
        assert found == [-(-each // 10**30) for each in expected]


def least_epsilon(costs: list[int], part: int, delta: float) -> float:
    """Of releases whose costs are so many parts of 1, such as hundredths, by floats and exact but
    for them: all losses are multiples of such a part."""
    law, top = np.ones(1), sum(costs)
    for cost in costs:
        true = 1 / (1 + math.exp(-cost / part))
        law = true * np.pad(law, (0, 2 * cost)) + (1 - true) * np.pad(law, (2 * cost, 0))
    losses = (top - np.arange(len(law))) / part
    low, high = 0.0, top / part
    for _ in range(60):
        middle = (low + high) / 2
        beyond = float(law @ -np.expm1(np.minimum(middle - losses, 0)))
        low, high = (middle, high) if beyond > delta else (low, middle)
    return high


@pytest.mark.parametrize(
    ("costs", "part", "delta"), [(range(1, 61), 128, 1e-6), (range(1, 301), 100, 1e-5)]
)
def test_totals_of_many_different_costs_that_are_too_small_are_found(costs, part, delta):
    """By one part in a hundred and in a thousand; and one of ten thousand above is proved. Parts of
    128 are on none of the verifier's grids."""
    least = Fraction(least_epsilon(list(costs), part, delta))
    spends, allowed = told([Fraction(cost, part) for cost in costs]), Fraction(str(delta))
    for missing in (100, 1000):
        assert not verifier.composed(least * (1 - Fraction(1, missing)), allowed, spends)
    assert verifier.composed(least * (1 + Fraction(1, 10_000)), allowed, spends)


def drawn(number: int, low: float, high: float) -> list[float]:
    """Different costs of four digits."""
    draw = random.Random(number)
    return [float(f"{draw.uniform(low, high):.4g}") for _ in range(number)]


@pytest.mark.parametrize(
    ("costs", "delta", "each"),
    [
        ([round(0.05 * (i + 1), 2) for i in range(20)], 1e-6, 0.0),
        (drawn(20, 0.05, 0.5), 1e-6, 0.0),
        (drawn(100, 0.01, 0.2), 1e-6, 1e-9),
        (drawn(300, 0.01, 0.2), 1e-6, 0.0),
        (drawn(300, 0.01, 5.0), 1e-6, 0.0),  # too much for the accountant's grid: Renyi divergence
        (drawn(40, 0.1, 0.4), 1e-12, 0.0),  # likewise, for its delta
        (drawn(200, 1e-6, 2e-5), 1e-11, 0.0),
        ([0.1, 0.25] * 5000, 1e-5, 0.0),
    ],
    ids=["steps", "few", "deltas", "hundreds", "large", "small delta", "tiny", "often"],
)
def test_totals_of_the_accountant_are_proved_in_seconds(costs, delta, each):
    total = composed_epsilon([Spend(epsilon=cost, delta=each) for cost in costs], delta)
    stated, allowed = decimal_value(total), decimal_value(delta)
    spends = told([decimal_value(cost) for cost in costs], decimal_value(each))
    assert stated < sum(decimal_value(cost) for cost in costs)
    start = time.process_time()
    assert verifier.composed(stated, allowed, spends)
    assert time.process_time() - start < 30


def test_deltas_of_the_releases_are_counted():
    """Where epsilon covers all losses, they are all that is left."""
    spends = told([Fraction(1, 10)] * 3, Fraction(1, 10**7))
    for epsilon in (Fraction(3, 10), Fraction(5)):
        assert verifier.composed(epsilon, Fraction(3, 10**7), spends)
        assert not verifier.composed(epsilon, Fraction(29, 10**8), spends)
    assert not verifier.composed(Fraction(3, 10), Fraction(0), spends)
