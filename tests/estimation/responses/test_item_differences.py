"""Differences of items between groups: errors, level and power of the design, and sizes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import binom

from hushrank.estimation.responses.totals_estimate import estimate_from_totals, item_differences
from tests.estimation.responses.test_conditional_fit import (
    GAUSSIAN,
    LAPLACE,
    NOISELESS,
    REPLACED,
    noisy,
    totals_of,
)

ITEMS, PEOPLE, MOVED, LARGE = 28, 1461, 3, 0.64  # people of each group; the item that differs


def two_groups(replicate, large=LARGE, people=PEOPLE):
    """Exact totals of two groups, the second of which is less able by half a standard deviation."""
    rng = np.random.default_rng((77, replicate))
    difficulty = rng.normal(size=ITEMS).clip(-1.8, 1.8)
    difficulty[MOVED] = 0.3
    found = []
    for impact, own in ((0.0, 0.0), (-0.5, large)):
        b = difficulty + own * (np.arange(ITEMS) == MOVED)
        right = rng.random((people, ITEMS)) < expit(rng.normal(impact, 1, (people, 1)) - b)
        found.append(totals_of(right))
    return found


def told(first, second, kind, epsilon, replicate, comparisons=1):
    """What is released of two groups, at one epsilon for both."""
    estimates = []
    for number, exact in enumerate((first, second)):
        released, law = noisy(exact, kind, epsilon, REPLACED, 2 * replicate + number)
        estimates.append(estimate_from_totals(released, law))
    return item_differences(*estimates, kind, comparisons)


@pytest.mark.parametrize(
    ("epsilon", "error", "power"), [(2.0, 0.128, 0.98), (1.0, 0.190, 0.78), (4.0, 0.101, 1.0)]
)
def test_errors_level_and_power_are_those_of_the_design(epsilon, error, power):
    """12 data sets; the level of all items and detections, within chances of 1e-6 and 1e-4."""
    sets, errors, rejected, found = 12, [], 0, 0
    for replicate in range(sets):
        here = told(*two_groups(replicate), GAUSSIAN, epsilon, replicate)
        moved = here.item == MOVED  # an item that hardly anybody misses may be left out
        true = LARGE * (moved - moved.mean())
        errors.append(here.error[moved])
        outside = (here.low > true) | (here.high < true)
        rejected += int(outside.sum())
        found += bool(here.differs[moved].all())
        assert here.difference.sum() == pytest.approx(0, abs=1e-9)
    assert np.mean(errors) == pytest.approx(error, rel=0.08)
    assert binom.sf(rejected - 1, sets * ITEMS, 0.05) > 1e-6
    assert rejected > 0  # intervals are not wide for nothing: a chance of 3e-8
    assert binom.cdf(found, sets, power) > 1e-4


def test_half_the_noise_in_the_errors_would_be_seen():
    """Intervals that leave out the noise would miss far more often than 5 %."""
    outside = 0
    for replicate in range(6):
        first, second = two_groups(replicate, large=0.0)
        here = told(first, second, GAUSSIAN, 0.7, replicate)
        bare = item_differences(
            *(estimate_from_totals(each, NOISELESS) for each in released(first, second)),
            GAUSSIAN,
            1,
        )
        of_bare = bare.error[here.item]  # noise may hide the few who miss an easy item
        outside += int((np.abs(here.difference) > 1.96 * of_bare).sum())
    assert binom.sf(outside - 1, 6 * ITEMS, 0.05) < 1e-6


def released(*exact):
    return [type(each)(each.entries, each.shape, confidential=False) for each in exact]


def test_sizes_follow_the_rule_and_more_comparisons_need_more():
    first, second = two_groups(0, large=1.2, people=6000)
    here = item_differences(
        *(estimate_from_totals(each, NOISELESS) for each in released(first, second)), LAPLACE, 1
    )
    assert here.size[MOVED] == 2
    assert here.differs[MOVED]
    far = np.abs(here.difference)
    assert (far[here.size == 2] >= 1.5 / 2.35).all()
    assert (far[here.size == 1] >= 1 / 2.35).all()
    assert (here.size[np.abs(here.difference) < 1 / 2.35] == 0).all()
    one, many = (told(first, second, LAPLACE, 0.5, 3, n) for n in (1, 1000))
    assert one.differs.sum() >= many.differs.sum()
    assert (one.error == many.error).all()


def test_groups_of_which_nothing_is_known_are_not_compared():
    first, second = two_groups(0, people=40)
    assert told(first, second, GAUSSIAN, 0.1, 0) is None
