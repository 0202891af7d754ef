"""The law that a method calibrates pays for the worst two neighbours of what its draw adds noise to.

For every method and every way in which it counts, all small people are enumerated, and all pairs of
neighbours among them (`tests.flows.methods.neighbours`); no sensitivity of the product is asked.
Noise of scale b costs |change|_1 / b, noise of variance s^2 costs |change|^2 / (2 s^2). No pair may
cost more than the job says, and the worst one costs exactly that: a scale that is too small is
caught, and so is one that is too large. Where the enumeration need not attain the bound, `is_exact`
says so.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise, permutations, product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import ndtr

from hushrank.estimation.common.covariates import STEPS, CovariateCounts
from hushrank.estimation.comparisons.covariate_mle import H
from hushrank.estimation.rankings.ranking_counts import count_rankings
from hushrank.estimation.responses.measurements import measurements_of_answers
from hushrank.flows.methods.base import Arrays, Calibrated
from hushrank.flows.methods.registry import METHODS, calibrate
from hushrank.privacy.randomness import system_bits
from hushrank.privacy.stream import released_night
from tests.flows.methods.neighbours import (
    ELSEWHERE,
    GROUPS,
    Ear,
    Heard,
    Person,
    counted,
    job,
    listening,
    people_of,
    rows_of,
)

EPSILON, RHO, DELTA, LOOK = 1.0, 0.5, 1e-6, 0.25
EXACT = 1e-9  # rounding of a scale
SIZES = [(2, 3), (3, 1), (3, 2), (3, 3), (4, 2)]  # items, and most rows of a person
NOISE: dict[str, dict[str, Any]] = {
    "laplace": {"epsilon": EPSILON},
    "look": {"epsilon": EPSILON, "look": LOOK},
    "rho": {"epsilon": None, "rho": RHO, "noise": "gaussian"},
    "delta": {"epsilon": EPSILON, "delta": DELTA, "noise": "gaussian"},
}
ADJACENCIES = ("replace-one", "add-remove")
PUBLIC = {"public_graph": True, "public_graph_statement": "all saw all pairs"}
WHERE = {
    "none": {},
    "groups": {"groups": {"column": "group", "values": list(GROUPS)}},
    "others": {"groups": {"column": "group", "values": list(GROUPS), "others": "whole"}},
}

Vectors = NDArray[np.float64]


@dataclass(frozen=True)
class Change:
    """The largest change between two neighbours: l1 norm and squared l2 norm."""

    l1: float
    l2_squared: float

    def cost(self, scale: float, noise: str) -> float:
        """Share of the budget that noise of this scale needs for it; at most 1 is right."""
        if noise in ("laplace", "look"):
            return self.l1 / scale / EPSILON + (LOOK if noise == "look" else 0.0)
        if noise == "rho":
            return self.l2_squared / (2 * scale**2) / RHO
        return delta_of(math.sqrt(self.l2_squared) / scale) / DELTA


def delta_of(shift: float) -> float:
    """Of the Gaussian mechanism at `EPSILON`, for a change of so many standard deviations."""
    below = ndtr(shift / 2 - EPSILON / shift) - math.exp(EPSILON) * ndtr(
        -shift / 2 - EPSILON / shift
    )
    return float(below)


def largest(vectors: Vectors, adjacency: str) -> Change:
    """Over all neighbours; the vectors are of people, and one is of nobody."""
    values = np.unique(vectors, axis=0)
    if adjacency == "add-remove":
        return Change(np.abs(values).sum(axis=1).max(), np.square(values).sum(axis=1).max())
    l1 = l2_squared = 0.0
    for number, value in enumerate(values):
        change = values[number:] - value
        l1 = max(l1, np.abs(change).sum(axis=1).max())
        l2_squared = max(l2_squared, np.square(change).sum(axis=1).max())
    return Change(l1, l2_squared)


def bounds_of(most: int) -> Iterator[dict[str, Any]]:
    """Every way to bound a person's rows."""
    for distinct, cap in product((False, True), (None, 1, 2)):
        if cap is None or cap <= most:
            bounds = {"max_contributions": most, "distinct_pairs": distinct}
            yield bounds if cap is None else {**bounds, "per_item_cap": cap}


def privacies(most: int) -> Iterator[tuple[dict[str, Any], int]]:
    """Unit and bounds, and how many rows neighbours may differ in."""
    for bounds in bounds_of(most):
        yield bounds, most
    if most == 1:
        yield {"unit": "comparison"}, 1


def small_people(n_items: int, most: int, ties: str, where: str) -> list[Person]:
    """Everybody; a tie adds no more than a win, so where there are many people it is left out."""
    groups = {"none": ("",), "groups": GROUPS, "others": (GROUPS[0], ELSEWHERE)}[where]
    tied = ties in ("split", "model") and (where == "none" or n_items * most < 8)
    outcomes = (1, -1, 0) if tied else (1, -1)
    return people_of(rows_of(n_items, outcomes, groups), most)


def is_exact(bounds: dict[str, Any], n_items: int, *, squared: bool, distinct_l2: bool) -> bool:
    """Whether small people attain the bound.

    A cap of c leaves room for c rows on each item: unless that is met exactly, the rows of a person
    cannot all be where the bound has them. What wins and losses on distinct pairs cost in l2 norm
    (`distinct_l2`) is bounded from above.
    """
    cap, most = bounds.get("per_item_cap"), bounds.get("max_contributions", 1)
    if cap is not None and cap > 1 and (most % cap or n_items < 2 * cap):
        return False
    return not (squared and distinct_l2 and bounds.get("distinct_pairs"))


@pytest.fixture
def ear() -> Iterator[Ear]:
    """Hears what draws add noise to."""
    with listening() as found:
        yield found


COUNTING = [
    (method, ties, where)
    for method, ties, where in product(
        ("noisy-counts", "win-loss", "noisy-pairs"), ("drop", "split", "random", "model"), WHERE
    )
    if ties != "model" or method == "noisy-pairs"
]


@pytest.mark.parametrize(("method", "ties", "where"), COUNTING)
def test_counts_of_rows(ear: Ear, method: str, ties: str, where: str) -> None:
    for n_items, most in SIZES:
        people = small_people(n_items, most, ties, where)
        for bounds, rows in privacies(most):
            own = [person for person in people if len(person) <= rows or "unit" not in bounds]
            found: dict[str, Change] = {}
            for adjacency, noise in product(ADJACENCIES, NOISE):
                privacy = {**bounds, "adjacency": adjacency, **NOISE[noise]}
                config = job(method, privacy, n_items, ties=ties, **WHERE[where])
                calibrated = calibrate(config)
                if not found:
                    exact = counted(config, calibrated, own)
                    vectors = np.array([vector_of(ear.draw(calibrated, x)) for x in exact])
                    found = {each: largest(vectors, each) for each in ADJACENCIES}
                parts = ear.draw(calibrated, exact[-1])
                assert (vector_of(parts) == vectors[-1]).all()
                cost = found[adjacency].cost(scale_of(parts), noise)
                check(cost, noise, f"{n_items} items, {privacy}", exact=is_exact(
                    bounds, n_items, squared=noise in ("rho", "delta"),
                    distinct_l2=method == "win-loss",
                ))
                assert look_of(calibrated, adjacency) == pytest.approx(
                    LOOK if noise == "look" else 0.0
                )


def vector_of(parts: Sequence[Heard]) -> NDArray[np.int64]:
    return np.concatenate([part.exact for part in parts])


def scale_of(parts: Sequence[Heard]) -> float:
    """Of the one law that all parts have."""
    (scale,) = {part.law.scale for part in parts}
    return scale


def look_of(calibrated: Calibrated, adjacency: str) -> float:
    """Epsilon that a vote of one person costs: one number moves by one, or two do."""
    moved = 1 if adjacency == "add-remove" else 2
    return 0.0 if calibrated.look is None else moved / calibrated.look.law.scale


def check(cost: float, noise: str, where: str, *, exact: bool, room: float = EXACT) -> None:
    """Assert that the law pays, and where `exact` that it pays no more than it must."""
    assert cost <= 1 + EXACT, f"{where}: the law pays {1 / cost:.3f} of what neighbours need"
    if not exact:
        return
    # Discrete Gaussian noise needs a little more than the continuous one, whose delta this is.
    least = 0.8 if noise == "delta" else 1 - room
    assert cost >= least, f"{where}: the law pays {1 / cost:.3f} times what neighbours need"
