"""The sensitivity of a stream that counts rows of pairs, by enumeration of everything allowed."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from hushrank.privacy.sensitivity import Sensitivity
from hushrank.privacy.stream import relative_error, stream_sensitivity
from hushrank.privacy.stream_encoder import ONE, Encoder, RowTerms, Workload, square_root
from hushrank.privacy.units import Adjacency

SIZES = [  # nights, pairs, rows, gap, bands
    (3, 2, 2, 2, 2),
    (4, 2, 3, 2, 2),
    (4, 2, 2, 3, 3),
    (3, 3, 3, 2, 2),
    (3, 2, 2, 3, 1),
]
ROW = Sensitivity(1, 1)


def allowed_streams(nights: int, pairs: int, terms: RowTerms) -> np.ndarray:
    """Every stream of one person that the terms allow, shape (m, nights, 2 pairs).

    A night has for each pair nothing, a win of the one item or of the other.
    """
    found = []
    for won in itertools.product((0, 1, 2), repeat=nights * pairs):
        rows = np.array(won).reshape(nights, pairs)
        there = rows > 0
        if any(there[: night + 1].sum() > terms.allowance(night) for night in range(nights)):
            continue
        apart = (np.diff(np.flatnonzero(each)) >= terms.gap for each in there.T)
        if all(each.all() for each in apart):
            found.append(np.concatenate([rows == 1, rows == 2], axis=1))
    return np.array(found, np.int64)


def encoded(streams: np.ndarray, encoder: Encoder) -> np.ndarray:
    """C X of each stream, one row a stream."""
    nights = streams.shape[1]
    matrix = np.zeros((nights, nights), np.int64)
    for lag, coefficient in enumerate(encoder.coefficients[:nights]):
        matrix += np.diag(np.full(nights - lag, coefficient), -lag)
    return np.einsum("ts,msc->mtc", matrix, streams).reshape(len(streams), -1)


def farthest(vectors: np.ndarray, adjacency: Adjacency) -> Sensitivity:
    """Largest norms over all pairs of adjacent streams."""
    if adjacency is Adjacency.ADD_REMOVE:
        differences = vectors
    else:
        first, second = np.triu_indices(len(vectors))
        differences = vectors[first] - vectors[second]
    absolute = np.abs(differences)
    return Sensitivity(int(absolute.sum(axis=1).max()), int((absolute**2).sum(axis=1).max()))


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("size", SIZES)
def test_sensitivity_is_that_of_all_streams_that_the_terms_allow(size, adjacency):
    nights, pairs, rows, gap, bands = size
    terms = RowTerms(nights=nights, rows=rows, gap=gap, burst=rows)
    encoder = square_root(Workload(None), bands)
    stated = stream_sensitivity(ROW, adjacency, terms, encoder)
    found = farthest(encoded(allowed_streams(nights, pairs, terms), encoder), adjacency)
    assert found == stated  # enough, and not too much


def test_a_burst_never_costs_more():
    terms = RowTerms(nights=4, rows=3, gap=2, burst=1)
    encoder = square_root(Workload(None), 2)
    stated = stream_sensitivity(ROW, Adjacency.REPLACE_ONE, terms, encoder)
    found = farthest(encoded(allowed_streams(4, 2, terms), encoder), Adjacency.REPLACE_ONE)
    assert found.l2_squared <= stated.l2_squared
    assert [terms.allowance(night) for night in range(4)] == [1, 1, 2, 3]


@pytest.mark.parametrize("gap", [1, 2])
def test_enumeration_sees_pairs_that_count_too_close(gap):
    """With two bands a gap of one night is too small, and only that."""
    encoder = square_root(Workload(None), 2)
    stated = stream_sensitivity(
        ROW, Adjacency.ADD_REMOVE, RowTerms(nights=3, rows=2, gap=2, burst=2), encoder
    )
    closer = RowTerms(nights=3, rows=2, gap=gap, burst=2)
    found = farthest(encoded(allowed_streams(3, 2, closer), encoder), Adjacency.ADD_REMOVE)
    assert (found.l2_squared > stated.l2_squared) == (gap < 2)


def test_a_gap_of_pairs_does_not_bound_wins_of_items():
    """A beats B, and the next night A beats C: 3.5 where two rows of pairs move 2.5."""
    encoder = square_root(Workload(None), 2)
    terms = RowTerms(nights=3, rows=2, gap=2, burst=2)
    stated = stream_sensitivity(ROW, Adjacency.ADD_REMOVE, terms, encoder)
    wins_of_a = np.array([[[1], [1], [0]]])
    moved = farthest(encoded(wins_of_a, encoder), Adjacency.ADD_REMOVE)
    assert stated.l2_squared / ONE**2 == 2.5
    assert moved.l2_squared / ONE**2 == 3.5


def test_bands_beyond_the_gap_are_refused():
    terms = RowTerms(nights=9, rows=2, gap=2, burst=2)
    with pytest.raises(ValueError, match="3 bands and the gap is 2 nights"):
        stream_sensitivity(ROW, Adjacency.ADD_REMOVE, terms, square_root(Workload(None), 3))


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("rows", 0, "rows must be between"),
        ("burst", 0, "burst must be between 1 and rows"),
        ("burst", 5, "burst must be between 1 and rows"),
        ("gap", 0, "gap must be >= 1"),
        ("nights", 0, "nights must be between"),
    ],
)
def test_terms_out_of_range_are_refused(field, value, text):
    with pytest.raises(ValueError, match=text):
        RowTerms(**{"nights": 9, "rows": 4, "gap": 2, "burst": 4, field: value})


@pytest.mark.parametrize(
    ("window", "bands", "rows", "error"),
    [  # in units of one release with 5 rows at the same rho
        (28, 7, 60, 9.6),
        (28, 14, 60, 8.8),
        (28, 28, 60, 8.5),
        (28, 28, 120, 12.0),
        (28, 7, 260, 19.9),
        (None, 28, 60, 12.3),
        (None, 14, 130, 22.1),
        (None, 7, 26, 12.7),
    ],
)
def test_errors_of_a_year_are_those_of_a_year_of_nights_with_as_many_rows(
    window, bands, rows, error
):
    terms = RowTerms(nights=365, rows=rows, gap=bands, burst=rows)
    found = relative_error(Workload(window), terms, bands)
    assert found / math.sqrt(5) == pytest.approx(error, rel=0.01)
