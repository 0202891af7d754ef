"""Fit of items by bands of raw scores: level and power of the design, and the counts behind it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy.special import expit
from scipy.stats import binom

from hushrank.estimation.responses.conditional_fit import item_fit
from hushrank.estimation.responses.sheet_totals import SheetShape
from hushrank.estimation.responses.totals_estimate import estimate_from_totals
from tests.estimation.responses.test_conditional_fit import (
    GAUSSIAN,
    NOISELESS,
    REPLACED,
    noisy,
    totals_of,
)

ITEMS, FLAT, STEEP = 28, 3, 7


def fitted(replicate, people, epsilon, slopes=(1.0, 1.0), bands=4):
    """What is said of a simulated test in which two items have slopes of their own."""
    rng = np.random.default_rng((5, replicate))
    difficulty, slope = rng.normal(size=ITEMS).clip(-1.8, 1.8), np.ones(ITEMS)
    slope[[FLAT, STEEP]], difficulty[[FLAT, STEEP]] = slopes, 0.2
    right = rng.random((people, ITEMS)) < expit(slope * (rng.normal(size=(people, 1)) - difficulty))
    exact = totals_of(right, SheetShape.of(ITEMS, (), GAUSSIAN, bands))
    released, law = noisy(exact, GAUSSIAN, epsilon, REPLACED, replicate)
    fit = estimate_from_totals(released, law).fit
    return item_fit(released, fit, law.variance)


@pytest.mark.parametrize(
    ("people", "epsilon", "power"), [(2922, 2.0, (1.0, 0.97)), (2922, 1.0, (0.55, 0.35))]
)
def test_level_and_power_are_those_of_the_design(people, epsilon, power):
    """15 tests each; chances of a failure of 1e-6 (level) and below 1e-4 (power)."""
    sets, rejected, found, steeper = 15, 0, np.zeros(2), np.zeros(2)
    for replicate in range(sets):
        here = fitted(replicate, people, epsilon, (0.5, 1.8))
        others = ~np.isin(np.arange(ITEMS), [FLAT, STEEP])
        rejected += int((here.chance[others] < 0.05).sum())
        found += here.misfits[[FLAT, STEEP]]
        steeper += here.steeper[[FLAT, STEEP]]
    assert binom.sf(rejected - 1, sets * (ITEMS - 2), 0.06) > 1e-6
    assert rejected > 0
    assert all(binom.cdf(f, sets, p - 0.02) > 1e-4 for f, p in zip(found, power, strict=True))
    assert steeper.tolist() == [0, sets]


def test_errors_without_the_noise_would_reject_what_fits():
    """The same statistics in units of sampling errors alone are far too large."""
    rng = np.random.default_rng(1)
    right = rng.random((2922, ITEMS)) < expit(
        rng.normal(size=(2922, 1)) - rng.normal(size=ITEMS).clip(-1.8, 1.8)
    )
    exact = totals_of(right, SheetShape.of(ITEMS, (), GAUSSIAN, 4))
    released, law = noisy(exact, GAUSSIAN, 1.0, REPLACED, 1)
    fit = estimate_from_totals(released, law).fit
    assert (item_fit(released, fit, law.variance).chance < 0.05).mean() < 0.3
    assert (item_fit(released, fit, 0.0).chance < 0.05).mean() > 0.7


def test_bands_and_knots_cover_all_scores_once():
    for items, bands in [(12, 6), (28, 4), (60, 4), (600, 3), (4, 2)]:
        shape = SheetShape.of(items, (), GAUSSIAN, bands)
        starts, knots = shape.band_starts(0), shape.knots(0)
        assert starts[0] == 0
        assert len(starts) == bands
        assert (np.diff(starts) > 0).all()
        assert (np.diff(knots) > 0).all()
        assert {*starts.tolist(), *(starts[1:] - 1).tolist(), items} <= {*knots.tolist()}


def test_right_less_wrong_is_counted_in_the_band_of_the_sheet():
    shape = SheetShape(
        n_items=5, booklets=(tuple(range(5)),), step=1, answer_weight=2, sheet_weight=3, bands=2
    )
    right = np.array([[0, 0, 1, 0, 0], [1, 1, 1, 0, 1], [1, 0, 1, 1, 0]])
    found, (_, start) = totals_of(right, shape), shape.band_starts(0)
    for band, own in enumerate((right.sum(1) < start, right.sum(1) >= start)):
        wanted = 2 * (2 * right[own].sum(axis=0) - own.sum())
        assert found.by_band[band].tolist() == wanted.tolist()
    assert found.right_minus_wrong.tolist() == (2 * (2 * right.sum(axis=0) - 3)).tolist()
    (sheets,) = found.histograms
    assert (sheets == 3 * np.bincount(right.sum(axis=1), minlength=6)).all()
    with pytest.raises(ValueError, match="two bands"):
        item_fit(totals_of(right), None, 1.0)


def test_a_real_examination_is_not_rasch():
    """28 items of ECPE, 2,922 people, epsilon 2: as is known of it, items depart."""
    path = Path(__file__).parents[4] / "shared" / "data" / "bin_ecpe.parquet"
    if not path.exists():
        pytest.skip("the file of the examination is not here")
    table = pq.read_table(path).sort_by([("user", "ascending"), ("item", "ascending")])
    right = np.array(table["y"]).reshape(-1, ITEMS)
    exact = totals_of(right, SheetShape.of(ITEMS, (), GAUSSIAN, 4))
    for seed in range(4):  # of 25 draws each named 1 to 5 items; without noise they are 9
        released, law = noisy(exact, GAUSSIAN, 2.0, REPLACED, seed)
        found = item_fit(released, estimate_from_totals(released, law).fit, law.variance)
        assert found.misfits.any()
    bare = replace(exact, confidential=False)
    assert item_fit(bare, estimate_from_totals(bare, NOISELESS).fit, 0.0).misfits.sum() == 9
