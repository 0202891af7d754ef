"""Hypothesis strategies for small comparison logs and privacy parameters."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hypothesis import strategies as st

from hushrank.privacy.units import Adjacency, NoiseKind, PrivacyParams, Unit


@dataclass(frozen=True)
class ComparisonRow:
    """One row of a log: `user` compared items `left` and `right`, and `outcome` says who won."""

    user: int
    left: int
    right: int
    outcome: int  # +1 left, -1 right, 0 tie


def epsilons(least: float = 1e-3, most: float = 20.0) -> st.SearchStrategy[float]:
    """Budgets as people type them (few decimals) and as computations produce them."""
    typed = st.integers(math.ceil(1000 * least), math.floor(1000 * most)).map(lambda k: k / 1000)
    return typed | st.floats(least, most)


def deltas() -> st.SearchStrategy[float]:
    """Failure probabilities strictly between 0 and 1, mostly tiny."""
    return st.integers(2, 9).map(lambda digits: 10.0**-digits) | st.floats(1e-9, 0.1)


@st.composite
def comparison_logs(
    draw: st.DrawFn, n_items: int = 5, n_users: int = 4, max_rows: int = 30, ties: bool = True
) -> list[ComparisonRow]:
    """Logs in which items differ, users have few to many rows and pairs repeat."""
    items = st.integers(0, n_items - 1)
    pairs = st.tuples(items, items).filter(lambda pair: pair[0] != pair[1])
    outcomes = st.sampled_from((1, -1, 0) if ties else (1, -1))
    rows = st.tuples(st.integers(0, n_users - 1), pairs, outcomes)
    log = draw(st.lists(rows, max_size=max_rows))
    return [ComparisonRow(user, *pair, outcome) for user, pair, outcome in log]


@st.composite
def privacy_params(
    draw: st.DrawFn, unit: Unit | None = None, max_contributions: int = 8
) -> PrivacyParams:
    """Every valid combination of unit, adjacency, noise and contribution bounds."""
    unit = unit or draw(st.sampled_from((Unit.COMPARISON, Unit.USER)))
    noise = draw(st.sampled_from(list(NoiseKind)))
    delta, rho = 0.0, None
    if noise is NoiseKind.GAUSSIAN:
        if draw(st.booleans()):
            rho = draw(epsilons())
        else:
            delta = draw(deltas())
    most_rows, cap, distinct = 1, None, False
    if unit is Unit.USER:
        most_rows = draw(st.integers(1, max_contributions))
        cap = draw(st.none() | st.integers(1, most_rows))
        distinct = draw(st.booleans())
    return PrivacyParams(
        unit=unit,
        adjacency=draw(st.sampled_from(list(Adjacency))),
        epsilon=draw(epsilons()),
        delta=delta,
        rho=rho,
        noise=noise,
        max_contributions=most_rows,
        per_item_cap=cap,
        distinct_pairs=distinct,
    )
