"""The sensitivity, the noise and the error of a whole stream of nights."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushrank.privacy.accounting import Spend, epsilon_of, rho_for
from hushrank.privacy.noise import NoiseLaw
from hushrank.privacy.randomness import seeded_bits, system_bits
from hushrank.privacy.sensitivity import Sensitivity, win_counts_sensitivity
from hushrank.privacy.stream import (
    Stream,
    encoded_night,
    relative_error,
    released_night,
    shown_night,
    stream_of,
    stream_sensitivity,
)
from hushrank.privacy.stream_encoder import ONE, Encoder, Terms, Workload, square_root
from hushrank.privacy.units import Adjacency, NoiseKind, PrivacyParams, Unit
from tests.statistics import FALSE_POSITIVE_RATE, mean_p_value

MOST_NIGHTS, MOST_ROWS, MOST_KEPT, MOST_GAP = 5, 2, 2, 3
WORKLOADS = [Workload(1), Workload(2), Workload(3), Workload(None)]


def all_streams(nights: int, rows: int) -> np.ndarray:
    """Every stream of one person: up to `rows` rows a night in two cells, shape (m, nights, 2)."""
    night = [u for u in itertools.product(range(rows + 1), repeat=2) if sum(u) <= rows]
    return np.array(list(itertools.product(night, repeat=nights)), np.int64)


def kept(streams: np.ndarray, terms: Terms) -> np.ndarray:
    """The streams without the nights on which the person's rows do not count, each once."""
    streams = streams.copy()
    last, times = np.full(len(streams), -terms.gap), np.zeros(len(streams), np.int64)
    for night in range(streams.shape[1]):
        counts = (night - last >= terms.gap) & (times < terms.participations)
        there = streams[:, night].any(axis=1)
        streams[~counts, night] = 0
        last[counts & there], times[counts & there] = night, times[counts & there] + 1
    return np.unique(streams, axis=0)


def encoded(streams: np.ndarray, encoder: Encoder) -> np.ndarray:
    """C X of each stream, one row a stream."""
    nights = streams.shape[1]
    matrix = np.zeros((nights, nights), np.int64)
    for lag, coefficient in enumerate(encoder.coefficients[:nights]):
        matrix += np.diag(np.full(nights - lag, coefficient), -lag)
    return np.einsum("ts,msc->mtc", matrix, streams).reshape(len(streams), -1)


def farthest(streams: np.ndarray, encoder: Encoder, adjacency: Adjacency) -> Sensitivity:
    """Largest norms of C (X - X') over all pairs of adjacent streams, by looking at every pair."""
    vectors = encoded(streams, encoder)
    if adjacency is Adjacency.ADD_REMOVE:
        differences = vectors
    else:
        first, second = np.triu_indices(len(vectors))
        differences = vectors[first] - vectors[second]
    absolute = np.abs(differences)
    return Sensitivity(int(absolute.sum(axis=1).max()), int((absolute**2).sum(axis=1).max()))


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("rows", range(1, MOST_ROWS + 1))
@pytest.mark.parametrize("nights", range(1, MOST_NIGHTS + 1))
def test_sensitivity_is_that_of_all_tiny_streams(nights, rows, adjacency):
    streams = all_streams(nights, rows)
    for times, gap in itertools.product(range(1, MOST_KEPT + 1), range(1, MOST_GAP + 1)):
        terms = Terms(nights=nights, participations=times, gap=gap)
        counted = kept(streams, terms)
        for workload in WORKLOADS:
            for bands in range(1, workload.most_bands(terms) + 1):
                encoder = square_root(workload, bands)
                night = Sensitivity(rows, rows**2)
                stated = stream_sensitivity(night, adjacency, terms, encoder)
                assert stated == farthest(counted, encoder, adjacency)  # enough, and not too much


def test_enumeration_sees_bands_longer_than_the_gap():
    terms = Terms(nights=4, participations=2, gap=1)
    encoder = square_root(Workload(None), 2)
    found = farthest(kept(all_streams(4, 1), terms), encoder, Adjacency.ADD_REMOVE)
    assert found.l2_squared > encoder.norms(terms).l2_squared
    with pytest.raises(ValueError, match="2 bands and the gap is 1 nights"):
        stream_sensitivity(Sensitivity(1, 1), Adjacency.ADD_REMOVE, terms, encoder)


def test_enumeration_sees_kept_nights_too_close():
    terms = Terms(nights=4, participations=2, gap=2)
    closer = Terms(nights=4, participations=2, gap=1)
    encoder = square_root(Workload(None), 2)
    found = farthest(kept(all_streams(4, 1), closer), encoder, Adjacency.ADD_REMOVE)
    stated = stream_sensitivity(Sensitivity(1, 1), Adjacency.ADD_REMOVE, terms, encoder)
    assert found.l2_squared > stated.l2_squared


def test_replaced_rows_may_be_on_other_nights():
    """On one night a replaced person of distinct pairs moves 5 wins of 3 items; on two nights 6."""
    params = PrivacyParams(
        unit=Unit.USER, adjacency=Adjacency.REPLACE_ONE, epsilon=1.0,
        max_contributions=3, distinct_pairs=True,
    )  # fmt: skip
    one_night = win_counts_sensitivity(params, 3)
    added = win_counts_sensitivity(
        PrivacyParams(
            unit=Unit.USER, adjacency=Adjacency.ADD_REMOVE, epsilon=1.0,
            max_contributions=3, distinct_pairs=True,
        ), 3,
    )  # fmt: skip
    terms = Terms(nights=2, participations=1, gap=1)
    night = square_root(Workload(1), 1)
    assert one_night.l1 == 5
    assert stream_sensitivity(added, Adjacency.REPLACE_ONE, terms, night).l1 == 6 * ONE


def test_square_root_times_itself_is_the_workload():
    for workload, bands in ((Workload(None), 40), (Workload(28), 28), (Workload(7), 5)):
        c = [Fraction(c, ONE) for c in square_root(workload, bands).coefficients]
        for i in range(bands):
            product = sum(c[j] * c[i - j] for j in range(i + 1))
            assert abs(product - 1) < Fraction(bands, ONE)  # of rounding alone
            exact = Fraction(math.comb(2 * i, i), 4**i)
            assert abs(c[i] - exact) <= Fraction(1, 2 * ONE)


@pytest.mark.parametrize("window", [2, 7, 28])
def test_bands_beyond_the_window_are_refused(window):
    square_root(Workload(window), window)
    with pytest.raises(ValueError, match="negative"):
        square_root(Workload(window), window + 1)


# In units of the noise of one release: STREAM's table, computed independently of this code.
TABLE = {
    (28, 365, 1): (99.2, 99.2),
    (28, 52, 7): (37.4, 19.9),
    (28, 26, 14): (26.5, 13.0),
    (28, 12, 28): (18.0, 8.5),
    (None, 365, 1): (258.4, 258.4),
    (None, 52, 7): (97.5, 40.24),
    (None, 26, 14): (69.0, 22.11),
    (None, 12, 28): (46.9, 12.31),
}


@pytest.mark.parametrize(("setting", "errors"), TABLE.items())
def test_errors_of_a_year(setting, errors):
    window, times, gap = setting
    workload, terms = Workload(window), Terms(nights=365, participations=times, gap=gap)
    found = [relative_error(workload, terms, bands) for bands in (1, workload.most_bands(terms))]
    assert found == pytest.approx(errors, rel=0.02)


def a_stream(
    window: int | None = 4, adjacency: Adjacency = Adjacency.REPLACE_ONE, **changes
) -> Stream:
    budget = {"epsilon": math.inf, "rho": 0.5, "noise": NoiseKind.GAUSSIAN, **changes}
    params = PrivacyParams(unit=Unit.USER, adjacency=adjacency, max_contributions=2, **budget)
    terms = Terms(nights=12, participations=2, gap=3)
    return stream_of(params, Sensitivity(2, 4), terms, Workload(window))


def exact_windows(nights: np.ndarray, window: int | None) -> np.ndarray:
    sums = np.cumsum(nights, axis=0)
    if window is not None:
        sums[window:] -= sums[:-window].copy()
    return sums


def released(stream: Stream, nights: np.ndarray, bits) -> np.ndarray:
    """All y, night by night."""
    bands = stream.encoder.bands
    return np.stack(
        [
            released_night(stream, nights[max(0, t + 1 - bands) : t + 1][::-1], bits)
            for t in range(len(nights))
        ]
    )


@pytest.mark.parametrize("window", [1, 4, None])
def test_law_of_the_shown_cells_is_the_formula(window):
    stream = a_stream(window)
    cells = 60_000  # a variance is then known to 0.6 %; the seed makes the outcome certain
    truth = np.random.default_rng(3).integers(0, 50, (12, 1)).repeat(cells, axis=1)
    noisy = released(stream, truth, seeded_bits(8))
    shown = np.stack([shown_night(stream, noisy[: t + 1]) for t in range(12)])
    errors = shown - exact_windows(truth, window)
    covariance = np.cov(errors)
    for first, second in itertools.product(range(12), repeat=2):
        unit = math.sqrt(stream.variances[first] * stream.variances[second])
        stated = stream.covariance(first, second)
        assert covariance[first, second] / unit == pytest.approx(stated / unit, abs=0.02)
    assert np.diag(covariance) == pytest.approx(stream.variances, rel=0.02)
    means = np.abs(errors.mean(axis=1)) / np.sqrt(stream.variances / cells)
    assert means.max() < 5


def test_noise_of_a_release_has_the_stated_scale():
    stream, cells = a_stream(), 12_000
    noisy = released(stream, np.zeros((4, cells), np.int64), system_bits())
    squares = shown_night(stream, noisy) ** 2
    variance = stream.variances[3]
    assert mean_p_value(squares, variance, 2 * variance**2) > FALSE_POSITIVE_RATE
    assert mean_p_value(squares, 1.2 * variance, 2 * (1.2 * variance) ** 2) < FALSE_POSITIVE_RATE
    assert mean_p_value(squares, 0.8 * variance, 2 * (0.8 * variance) ** 2) < FALSE_POSITIVE_RATE


def test_nights_share_noise_and_their_difference_says_so():
    stream = a_stream(None)
    change = stream.variances[10] + stream.variances[11] - 2 * stream.covariance(10, 11)
    assert change < 0.8 * (stream.variances[10] + stream.variances[11])
    errors = released(stream, np.zeros((12, 60_000), np.int64), seeded_bits(2))
    last, before = (shown_night(stream, errors[:t]) for t in (12, 11))
    assert np.var(last - before) == pytest.approx(change, rel=0.02)


@pytest.mark.parametrize("window", [1, 3, None])
def test_without_noise_the_windows_are_exact(window):
    stream = a_stream(window, rho=None, epsilon=math.inf, delta=1e-6)
    assert stream.law.scale == 0
    truth = np.random.default_rng(1).integers(0, 10**9, (12, 5))
    noisy = released(stream, truth, system_bits())
    for t in range(12):
        expected = exact_windows(truth, window)[t]
        assert shown_night(stream, noisy[: t + 1]) == pytest.approx(expected, rel=1e-12)


@given(st.integers(1, 60), st.integers(1, 10), st.integers(1, 20), st.sampled_from(WORKLOADS))
def test_the_budget_is_never_exceeded(nights, times, gap, workload):
    terms = Terms(nights=nights, participations=times, gap=gap)
    params = PrivacyParams(
        unit=Unit.USER, adjacency=Adjacency.REPLACE_ONE, epsilon=math.inf, rho=0.3,
        noise=NoiseKind.GAUSSIAN, max_contributions=3,
    )  # fmt: skip
    stream = stream_of(params, Sensitivity(3, 9), terms, workload)
    assert stream.encoder.bands == workload.most_bands(terms)
    rho = stream.sensitivity.l2_squared / (2 * Fraction(stream.law.scale) ** 2)
    assert rho <= Fraction("0.3")
    assert float(rho) == pytest.approx(0.3)
    people = min(times, -(-nights // gap))
    norm = sum(c**2 for c in stream.encoder.coefficients)
    assert stream.sensitivity.l2_squared <= 2 * people * norm * 9


def test_epsilon_and_delta_hold_for_all_nights_together():
    stream = a_stream(rho=None, epsilon=2.0, delta=1e-6)
    l2_squared = stream.sensitivity.l2_squared
    rho = l2_squared / (2 * Fraction(stream.law.scale) ** 2)
    spend = Spend(rho=float(rho), l2_squared=l2_squared)
    assert epsilon_of(spend, 1e-6) == pytest.approx(2.0, rel=1e-6)
    assert rho <= Fraction(rho_for(2.0, 1e-6, l2_squared))


def test_laplace_caps_what_a_person_costs_and_takes_no_factorisation():
    stream = a_stream(4, epsilon=1.0, rho=None, noise=NoiseKind.LAPLACE)
    assert stream.encoder.bands == 1
    assert stream.law == NoiseLaw(NoiseKind.LAPLACE, 2 * 2 * 2 * ONE / 1.0)  # 2 k L
    params = PrivacyParams(unit=Unit.USER, adjacency=Adjacency.ADD_REMOVE, epsilon=1.0)
    with pytest.raises(ValueError, match="laplace takes no factorisation"):
        stream_of(params, Sensitivity(1, 1), stream.terms, Workload(4), bands=2)


def test_a_stream_is_of_people():
    params = PrivacyParams(unit=Unit.COMPARISON, adjacency=Adjacency.ADD_REMOVE, epsilon=1.0)
    with pytest.raises(ValueError, match="unit user"):
        stream_of(params, Sensitivity(1, 1), Terms(nights=1, participations=1, gap=1), Workload(1))


@pytest.mark.parametrize(
    ("recent", "message"),
    [
        ([], "need 1 to 3 nights, got 0"),
        ([np.zeros(2, np.int64)] * 4, "need 1 to 3 nights, got 4"),
        ([np.zeros(2, np.int64), np.zeros(3, np.int64)], "same cells"),
        ([np.array([3, -1])], "counts must be >= 0"),
        ([np.array([1 << 42])], "too large"),
    ],
)
def test_nights_that_cannot_be_encoded_are_refused(recent, message):
    with pytest.raises(ValueError, match=message):
        encoded_night(a_stream().encoder, recent)


def test_nights_outside_the_stream_are_refused():
    stream = a_stream()
    with pytest.raises(ValueError, match="night must be between 0 and 11, got 12"):
        shown_night(stream, np.zeros((13, 2), np.int64))
    with pytest.raises(ValueError, match="got -1"):
        stream.covariance(0, -1)


@pytest.mark.parametrize(
    ("field", "value"),
    [("nights", 0), ("nights", 2**15 + 1), ("participations", 0), ("gap", 0)],
)
def test_terms_are_checked(field, value):
    with pytest.raises(ValueError, match=f"{field} must be"):
        Terms(**{"nights": 5, "participations": 2, "gap": 1, field: value})


def test_an_encoder_is_checked():
    for coefficients in ((), (0, 1)):
        with pytest.raises(ValueError, match="above 0"):
            Encoder(coefficients)
    for call in (lambda: Workload(0), lambda: square_root(Workload(1), 0)):
        with pytest.raises(ValueError, match=">= 1"):
            call()
