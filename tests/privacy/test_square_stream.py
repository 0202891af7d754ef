"""The sensitivity of a stream that counts squares, by enumeration of everything allowed."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.stats import chi2

from hushrank.privacy.noise import add_noise
from hushrank.privacy.randomness import system_bits
from hushrank.privacy.sensitivity import Sensitivity, win_loss_sensitivity
from hushrank.privacy.stream import relative_error, stream_of, stream_sensitivity
from hushrank.privacy.stream_encoder import (
    ONE,
    RowTerms,
    SquareTerms,
    Terms,
    Workload,
    square_root,
)
from hushrank.privacy.units import Adjacency, NoiseKind, PrivacyParams, Unit
from tests.privacy.test_row_stream import encoded, farthest

FALSE_POSITIVE_RATE = 1e-6  # of one assertion about simulated noise
SQUARE = Sensitivity(1, 1)
SIZES = [  # nights, items, squares, gap, bands, most rows a night; the bound is attained
    (1, 4, 6, 1, 1, 2),
    (1, 4, 12, 1, 1, 3),
    (3, 3, 6, 2, 2, 2),
    (4, 3, 8, 2, 2, 2),
    (3, 3, 4, 1, 1, 2),
    (6, 3, 4, 3, 3, 1),
    (3, 3, 12, 1, 1, 2),
]


def nights_of(items: int, most: int) -> dict[int, np.ndarray]:
    """Wins and losses of every bundle on distinct pairs, by number of rows: shape (m, 2 items)."""
    pairs = list(itertools.combinations(range(items), 2))
    found: dict[int, list[np.ndarray]] = {}
    for outcomes in itertools.product((0, 1, -1), repeat=len(pairs)):
        cells = np.zeros(2 * items, np.int64)
        for (one, other), won in zip(pairs, outcomes, strict=True):
            winner, loser = (one, other) if won > 0 else (other, one)
            cells[[winner, items + loser]] += abs(won)
        found.setdefault(sum(map(abs, outcomes)), []).append(cells)
    return {rows: np.unique(bundles, axis=0) for rows, bundles in found.items() if rows <= most}


def allowed_streams(items: int, most: int, terms: SquareTerms) -> np.ndarray:
    """Every stream of one person that the terms allow, shape (m, nights, 2 items)."""
    nights = nights_of(items, most)
    found = []
    for rows in itertools.product(nights, repeat=terms.nights):
        numbers = np.array(rows)
        charged = np.cumsum(terms.charge(numbers))
        if any(charged[night] > terms.allowance(night) for night in range(terms.nights)):
            continue
        if (np.diff(np.flatnonzero(numbers)) < terms.gap).any():
            continue
        for each in itertools.product(*(range(len(nights[number])) for number in rows)):
            bundles = [nights[number][place] for number, place in zip(rows, each, strict=True)]
            found.append(np.stack(bundles))
    return np.array(found)


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("size", SIZES)
def test_sensitivity_is_that_of_all_streams_that_the_terms_allow(size, adjacency):
    nights, items, squares, gap, bands, most = size
    terms = SquareTerms(nights=nights, squares=squares, gap=gap, burst=squares)
    encoder = square_root(Workload(None), bands)
    stated = stream_sensitivity(SQUARE, adjacency, terms, encoder)
    vectors = encoded(allowed_streams(items, most, terms), encoder)
    longest = np.argsort(-np.square(vectors).sum(axis=1))[:1_500]
    summed = np.argsort(-vectors.sum(axis=1))[:1_500]  # norms of both sides add up at most
    found = farthest(vectors[np.union1d(longest, summed)], adjacency)
    assert found.l2_squared == stated.l2_squared  # enough, and not too much
    assert found.l1 <= stated.l1


@pytest.mark.parametrize(("rows", "added", "replaced"), [(2, 6, 12), (3, 12, 24)])
def test_a_night_of_four_items_moves_what_the_charge_says(rows, added, replaced):
    vectors = nights_of(4, rows)[rows]
    assert farthest(vectors, Adjacency.ADD_REMOVE).l2_squared == added
    assert farthest(vectors, Adjacency.REPLACE_ONE).l2_squared == replaced
    terms = SquareTerms(nights=1, squares=added, gap=1, burst=added)
    assert terms.charge(np.array([rows])).item() == added


@pytest.mark.parametrize("items", [2, 3, 4])
def test_no_night_on_distinct_pairs_moves_more_than_its_charge(items):
    for rows, vectors in nights_of(items, 99).items():
        charge = SquareTerms.charge(np.array([rows])).item()
        assert np.square(vectors).sum(axis=1).max() <= charge == rows**2 + rows


def test_a_night_of_rows_on_one_pair_moves_more_than_its_charge():
    """So pairs have to be distinct."""
    same = np.array([3, 0, 0, 3])  # A beats B three times
    assert np.square(same).sum() == 18 > 3**2 + 3


@pytest.mark.parametrize("squares", [1, 2, 5, 6, 11, 12, 120, 1 << 15])
def test_as_many_rows_count_as_the_rest_of_the_allowance_pays_for(squares):
    terms = SquareTerms(nights=1, squares=squares, gap=1, burst=squares)
    left = np.arange(squares + 1)
    rows = terms.rows_within(left)
    assert (terms.charge(rows) <= left).all()
    assert (terms.charge(rows + 1) > left).all()
    assert terms.rows_within(np.array([-1])).item() == 0


def test_a_night_costs_the_squares_of_its_rows_and_k_nights_of_l_rows_as_k_charges():
    """k nights of L rows and an allowance of k (L^2 + L) have the same noise."""
    nights = Terms(nights=365, participations=10, gap=28)
    squares = SquareTerms(nights=365, squares=300, gap=28, burst=100)
    encoder = square_root(Workload(28), 28)
    params = PrivacyParams(
        unit=Unit.USER, adjacency=Adjacency.ADD_REMOVE, epsilon=1.0, max_contributions=5,
        distinct_pairs=True,
    )  # fmt: skip
    one = win_loss_sensitivity(params, 20)
    for adjacency in Adjacency:
        by_nights = stream_sensitivity(one, adjacency, nights, encoder)
        by_squares = stream_sensitivity(SQUARE, adjacency, squares, encoder)
        assert by_nights.l2_squared == by_squares.l2_squared


def test_a_gap_of_pairs_does_not_bound_wins_and_losses():
    """A beats B, and the next night A beats C: 6 where two rows on two pairs would move 5."""
    encoder = square_root(Workload(None), 2)
    by_pairs = RowTerms(nights=3, rows=2, gap=2, burst=2)
    stated = stream_sensitivity(Sensitivity(2, 2), Adjacency.ADD_REMOVE, by_pairs, encoder)
    night = {"A beats B": [1, 0, 0, 0, 1, 0], "A beats C": [1, 0, 0, 0, 0, 1], "": [0] * 6}
    stream = np.array([[night["A beats B"], night["A beats C"], night[""]]])
    moved = farthest(encoded(stream, encoder), Adjacency.ADD_REMOVE)
    assert stated.l2_squared / ONE**2 == 5
    assert moved.l2_squared / ONE**2 == 6


def test_differences_in_place_of_wins_and_losses_would_cost_twice_as_much_again():
    """X' = -X: entries of both signs, four times the square of one side."""
    net = np.array([[[1, -1], [0, 0]], [[-1, 1], [0, 0]]])
    encoder = square_root(Workload(None), 1)
    alone = farthest(encoded(net, encoder), Adjacency.ADD_REMOVE).l2_squared
    assert farthest(encoded(net, encoder), Adjacency.REPLACE_ONE).l2_squared == 4 * alone


def test_the_noise_is_the_gaussian_of_the_formula_and_a_wrong_scale_is_seen():
    """Variance of 400 nights of 40 cells: chi-square, two-sided; 20 % more or less is seen."""
    terms = SquareTerms(nights=365, squares=120, gap=28, burst=40)
    params = PrivacyParams(
        unit=Unit.USER, adjacency=Adjacency.REPLACE_ONE, epsilon=math.inf, rho=0.1,
        noise=NoiseKind.GAUSSIAN, max_contributions=5, distinct_pairs=True,
    )  # fmt: skip
    stream = stream_of(params, SQUARE, terms, Workload(28))
    squares = sum(each**2 for each in stream.encoder.coefficients)
    variance = 2 * 120 * squares / (2 * 0.1)
    assert stream.encoder.bands == 28
    assert stream.law.variance == pytest.approx(variance)
    drawn = add_noise(np.zeros((400, 40), np.int64), stream.law, system_bits()).astype(float)

    def p_value(of: float) -> float:
        tail = chi2.cdf(np.square(drawn).sum() / of, drawn.size)
        return 2 * min(tail, 1 - tail)

    assert p_value(variance) > FALSE_POSITIVE_RATE
    assert p_value(1.2 * variance) < FALSE_POSITIVE_RATE
    assert p_value(variance / 1.2) < FALSE_POSITIVE_RATE


@pytest.mark.parametrize(
    ("window", "bands", "squares", "error"),
    [(28, 28, 60, 8.5), (28, 7, 260, 19.9), (None, 28, 60, 12.3), (None, 7, 26, 12.7)],
)
def test_errors_of_a_year_are_those_of_as_many_rows(window, bands, squares, error):
    """Relative to five rows on five pairs, of which two cells are of a row: 10 squares at least."""
    terms = SquareTerms(nights=365, squares=squares, gap=bands, burst=squares)
    found = relative_error(Workload(window), terms, bands)
    assert found / math.sqrt(5) == pytest.approx(error, rel=0.01)


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("squares", 0, "squares must be between"),
        ("burst", 7, "burst must be between 1 and squares"),
        ("refill", 0.0, "refill must be above 0 and at most squares"),
        ("gap", 0, "gap must be >= 1"),
    ],
)
def test_terms_out_of_range_are_refused(field, value, text):
    with pytest.raises(ValueError, match=text):
        SquareTerms(**{"nights": 9, "squares": 6, "gap": 2, "burst": 6, field: value})
