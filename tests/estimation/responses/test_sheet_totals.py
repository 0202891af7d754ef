"""Totals of sheets: what is counted, on which knots, with which weights, and its noise."""

from __future__ import annotations

import numpy as np
import pytest

from hushrank.estimation.responses.sheet_totals import (
    SheetShape,
    SheetTotals,
    release_sheet_totals,
)
from hushrank.privacy.randomness import seeded_bits, system_bits
from hushrank.privacy.units import Adjacency, NoiseKind, PrivacyParams, Unit
from tests.statistics import (
    FALSE_POSITIVE_RATE,
    discrete_gaussian_pmf,
    discrete_laplace_pmf,
    law_p_value,
)


def counted(shape, *sheets):
    """Entries of sheets, each a dict from item to 1 or 0."""
    person = np.repeat(np.arange(len(sheets)), [len(each) for each in sheets])
    item = np.array([item for each in sheets for item in each], np.int64)
    correct = np.array([right for each in sheets for right in each.values()], np.uint8)
    return SheetTotals(shape.count(person, item, correct), shape)


def whole(n_items, step=1, answer_weight=1, sheet_weight=1):
    return SheetShape(
        n_items=n_items,
        booklets=(tuple(range(n_items)),),
        step=step,
        answer_weight=answer_weight,
        sheet_weight=sheet_weight,
    )


def test_right_less_wrong_and_scores():
    found = counted(whole(3, 1, 2, 5), {0: 1, 1: 1, 2: 0}, {0: 0, 1: 0, 2: 0}, {0: 1, 1: 0, 2: 1})
    assert found.right_minus_wrong.tolist() == [2, -2, -2]
    assert [each.tolist() for each in found.histograms] == [[5, 0, 10, 0]]


def test_a_score_between_knots_is_shared_and_keeps_its_mean():
    shape = whole(10, 4, 1, 4)
    assert shape.knots(0).tolist() == [0, 4, 8, 10]
    for score in range(11):
        (sheets,) = counted(shape, {item: int(item < score) for item in range(10)}).histograms
        assert sheets.sum() == 4
        assert (sheets >= 0).all()
        assert (sheets > 0).sum() <= 2
        assert sheets @ shape.knots(0) / 4 == score


def test_each_booklet_has_its_scores():
    shape = SheetShape(
        n_items=4, booklets=((0, 1), (1, 2, 3)), step=1, answer_weight=1, sheet_weight=1
    )
    found = counted(shape, {0: 1, 1: 1}, {1: 0, 2: 1, 3: 0}, {0: 0, 1: 1})
    assert found.right_minus_wrong.tolist() == [0, 1, 1, -1]
    assert [each.tolist() for each in found.histograms] == [[0, 1, 1], [0, 1, 0, 0]]
    assert len(found.entries) == shape.n_entries


def test_booklets_of_the_same_items_are_one():
    assert SheetShape.of(3, ((0, 1, 2), (0, 1, 2))).booklets == ((0, 1, 2),)


@pytest.mark.parametrize("sheet", [{0: 1}, {0: 1, 1: 0, 2: 1}, {0: 1, 3: 1}])
def test_a_sheet_that_is_not_whole_is_a_fault(sheet):
    shape = SheetShape(
        n_items=4, booklets=((0, 1), (1, 2, 3)), step=1, answer_weight=1, sheet_weight=1
    )
    with pytest.raises(ValueError, match="all items of one booklet"):
        counted(shape, {0: 1, 1: 1}, sheet)


def test_nobody_adds_nothing():
    nothing = np.empty(0, np.int64)
    assert not whole(4).count(nothing, nothing, nothing.astype(np.uint8)).any()


def test_counts_of_parts_add_up():
    rng = np.random.default_rng(0)
    right = rng.integers(0, 2, (60, 5)).astype(np.uint8)
    shape, person, item = whole(5), np.repeat(np.arange(60), 5), np.tile(np.arange(5), 60)
    parts = [
        shape.count(person[:100], item[:100], right[part].ravel())
        for part in (slice(20), slice(20, 40), slice(40, 60))
    ]
    assert (sum(parts) == shape.count(person, item, right.ravel())).all()


@pytest.mark.parametrize("kind", NoiseKind)
@pytest.mark.parametrize("items", [3, 5, 28, 40, 41, 100, 113, 600, 2000])
def test_the_histogram_gets_nearly_its_best_share_of_the_budget(items, kind):
    """u = w^2 is within a factor 2 of the best, where the error is 3 % larger at most."""
    shape = SheetShape.of(items, (), kind)
    assert shape.step == (1 if items <= 40 else -(-items // 24))
    weight = shape.sheet_weight / shape.answer_weight / 2
    if kind is NoiseKind.GAUSSIAN:
        best = (0.12 if items <= 40 else 0.08) * items
        assert 0.45 < weight**2 / best < 3
    else:
        share = 2 * weight / (items + 2 * weight)
        assert 0.5 < share / (0.15 if items <= 40 else 0.08) < 2


def test_no_exact_totals_are_released_twice():
    params = PrivacyParams(
        unit=Unit.USER, adjacency=Adjacency.REPLACE_ONE, epsilon=1.0, max_contributions=3
    )
    totals = counted(whole(3), {0: 1, 1: 1, 2: 0})
    calibration = totals.shape.calibrate(params)
    released = release_sheet_totals(totals, calibration, seeded_bits(0))
    assert not released.confidential
    assert (totals.entries == counted(whole(3), {0: 1, 1: 1, 2: 0}).entries).all()
    with pytest.raises(ValueError, match="noise already"):
        release_sheet_totals(released, calibration, seeded_bits(0))


@pytest.mark.parametrize("kind", NoiseKind)
def test_the_noise_of_every_entry_has_the_stated_law(kind):
    """Chi-square; false positives 1e-6. A scale that is 10 % off is caught on the same sample."""
    gaussian = kind is NoiseKind.GAUSSIAN
    params = PrivacyParams(
        unit=Unit.USER,
        adjacency=Adjacency.REPLACE_ONE,
        epsilon=2.0,
        delta=1e-6 if gaussian else 0.0,
        noise=kind,
        max_contributions=5,
    )
    exact = counted(SheetShape.of(5, (), kind), dict.fromkeys(range(5), 1))
    calibration = exact.shape.calibrate(params)
    law, pmf = calibration.law, discrete_gaussian_pmf if gaussian else discrete_laplace_pmf
    moved = exact.shape.answer_weight * 5 + exact.shape.sheet_weight
    if not gaussian:
        assert law.scale == pytest.approx(2 * moved / 2.0)
    noise = np.array(
        [
            release_sheet_totals(exact, calibration, system_bits()).entries - exact.entries
            for _ in range(6_000)
        ]
    )
    assert noise.shape[1] == 5 + 6
    assert law_p_value(noise.ravel(), pmf(law.scale)) > FALSE_POSITIVE_RATE
    assert law_p_value(noise.ravel(), pmf(0.9 * law.scale)) < FALSE_POSITIVE_RATE
    assert abs(np.corrcoef(noise.T) - np.eye(11)).max() < 6 / 6_000**0.5
