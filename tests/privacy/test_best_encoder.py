"""The encoder with the least noise: the design's figures, and no guarantee rests on it."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from hushrank.privacy import best_encoder as module
from hushrank.privacy.best_encoder import best_encoder, encoder_noise
from hushrank.privacy.sensitivity import Sensitivity
from hushrank.privacy.stream import stream_sensitivity
from hushrank.privacy.stream_encoder import (
    ONE,
    Encoder,
    RowTerms,
    SquareTerms,
    Terms,
    Workload,
    square_root,
)
from hushrank.privacy.units import Adjacency
from tests.privacy.test_row_stream import allowed_streams as rows_of_pairs
from tests.privacy.test_row_stream import encoded, farthest
from tests.privacy.test_square_stream import allowed_streams as squares_of_items

ALL = Workload(None)
# Gap, nights of a person; noise by the square root and by the best, computed apart from this code.
YEAR = [(7, 52, 44.01, 40.24), (14, 26, 24.00, 22.11), (28, 12, 12.98, 12.31)]


@pytest.mark.parametrize(("gap", "times", "root", "best"), YEAR)
def test_noise_of_a_year_of_nights(gap, times, root, best):
    terms = Terms(nights=365, participations=times, gap=gap)
    found = best_encoder(ALL, terms, gap)
    for encoder, error in ((square_root(ALL, gap), root), (found, best)):
        assert math.sqrt(encoder_noise(ALL, terms, encoder)) == pytest.approx(error, rel=1e-3)
    assert min(found.coefficients) > 0.17 * ONE


def test_coefficients_of_a_week():
    terms = Terms(nights=365, participations=52, gap=7)
    stated = [1, 0.7254, 0.6500, 0.6040, 0.5664, 0.5287, 0.4811]
    assert np.array(best_encoder(ALL, terms, 7).coefficients) / ONE == pytest.approx(
        stated, abs=2e-4
    )


@pytest.mark.parametrize("nights", [1, 2, 5, 30])
@pytest.mark.parametrize("gap", [1, 2, 9])
def test_never_more_noise_than_by_the_square_root(nights, gap):
    for terms in (
        Terms(nights=nights, participations=3, gap=gap),
        RowTerms(nights=nights, rows=4, gap=gap, burst=4),
    ):
        bands = ALL.most_bands(terms)
        root, best = square_root(ALL, bands), best_encoder(ALL, terms, bands)
        assert best.bands == bands
        assert encoder_noise(ALL, terms, best) <= encoder_noise(ALL, terms, root)
        if bands > 1:
            assert best != root


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("seed", range(6))
def test_any_coefficients_have_the_stated_sensitivity_under_all_terms(seed, adjacency):
    """All streams of five nights that the terms allow; coefficients may rise, and be 0."""
    rng = np.random.default_rng(seed)
    gap = 2 + seed % 2
    coefficients = (ONE, *rng.integers(0, 2 * ONE, gap - 1).tolist())
    by_nights = Terms(nights=5, participations=2, gap=gap)
    by_rows = RowTerms(nights=5, rows=2, gap=gap, burst=2)
    by_squares = SquareTerms(nights=5, squares=4, gap=gap, burst=4)
    one_row = np.array(list(itertools.product((0, 1, 2), repeat=5)))
    nights = one_row[[kept(each, gap, 2) for each in one_row]]
    streams = {
        by_nights: np.stack([nights == 1, nights == 2], axis=2).astype(np.int64),
        by_rows: rows_of_pairs(5, 2, by_rows),
        by_squares: squares_of_items(3, 2, by_squares),
    }
    encoders = [Encoder(coefficients), best_encoder(ALL, by_nights, gap)]
    for terms, allowed in streams.items():
        for encoder in encoders:
            stated = stream_sensitivity(Sensitivity(1, 1), adjacency, terms, encoder)
            vectors = encoded(allowed, encoder)
            found = farthest(vectors[np.argsort(-np.square(vectors).sum(axis=1))[:800]], adjacency)
            assert found.l2_squared <= stated.l2_squared
            assert found.l1 <= stated.l1
            if terms is not by_squares:  # whose last row may be cut short at the end
                assert found.l2_squared == stated.l2_squared


def kept(nights: np.ndarray, gap: int, most: int) -> bool:
    there = np.flatnonzero(nights)
    return len(there) <= most and bool((np.diff(there) >= gap).all())


def test_the_gradient_is_that_of_the_noise():
    terms = Terms(nights=12, participations=2, gap=4)
    times, shown = module._times_in_norm(terms, 4), np.arange(12, 0, -1) / 12
    at, step = np.array([0.7, 0.4, 0.3]), 1e-6
    _, gradient = module._noise(at, times, shown)
    for place, way in enumerate(np.eye(3) * step):
        above, below = (module._noise(at + sign * way, times, shown)[0] for sign in (1, -1))
        assert gradient[place] == pytest.approx((above - below) / (2 * step), rel=1e-6)


def test_windows_and_very_long_streams_keep_the_square_root():
    long = Terms(nights=1 << 15, participations=9, gap=28)
    assert best_encoder(ALL, long, 28) == square_root(ALL, 28)
    year = Terms(nights=365, participations=12, gap=28)
    assert best_encoder(Workload(28), year, 28) == square_root(Workload(28), 28)
