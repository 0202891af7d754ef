"""What a night shows: the formula as a matrix, rounded; and the law of its error."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from hushrank.estimation.common.shown_counts import shown_counts, shown_law
from hushrank.privacy.sensitivity import Sensitivity
from hushrank.privacy.stream import Stream, stream_of
from hushrank.privacy.stream_encoder import ONE, Terms, Workload
from hushrank.privacy.units import Adjacency, NoiseKind, PrivacyParams, Unit

NIGHTS = 7


def a_stream(window: int | None, kind: NoiseKind = NoiseKind.GAUSSIAN) -> Stream:
    params = PrivacyParams(
        unit=Unit.USER,
        adjacency=Adjacency.REPLACE_ONE,
        epsilon=1.0,
        delta=0.0 if kind is NoiseKind.LAPLACE else 1e-6,
        noise=kind,
    )
    terms = Terms(nights=NIGHTS, participations=3, gap=3)
    return stream_of(params, Sensitivity(1, 1), terms, Workload(window))


def decoder(stream: Stream) -> np.ndarray:
    """A C^-1, from dense matrices."""
    a, c = np.zeros((2, NIGHTS, NIGHTS))
    column = stream.workload.column(NIGHTS)
    for row, at in itertools.product(range(NIGHTS), repeat=2):
        if row >= at:
            a[row, at] = column[row - at]
            if row - at < stream.encoder.bands:
                c[row, at] = stream.encoder.coefficients[row - at]
    return a @ np.linalg.inv(c)


@pytest.mark.parametrize("window", [1, 2, 5, None])
def test_shown_counts_and_their_covariance_are_those_of_the_matrices(window):
    stream = a_stream(window)
    rows = decoder(stream)
    covariance = stream.law.variance * rows @ rows.T
    for one, other in itertools.product(range(NIGHTS), repeat=2):
        assert stream.covariance(one, other) == pytest.approx(covariance[one, other], abs=1e-6)
    released = np.random.default_rng(1).integers(-(10**9), 10**9, (NIGHTS, 4))
    released[:, 0] += 1000 * ONE
    for night in range(NIGHTS):
        shown = shown_counts(stream, night, released[: night + 1])
        assert (
            np.abs(shown.counts - rows[night, : night + 1] @ released[: night + 1]) <= 0.501
        ).all()
        assert shown.law.kind is NoiseKind.GAUSSIAN
        assert shown.law.variance == pytest.approx(covariance[night, night] + 1 / 12)
        assert shown.totals.end == night + 1
        assert len(shown.totals.answers) == min(night + 1, window or NIGHTS)
        assert shown.totals.answers.sum() == pytest.approx(shown.counts.sum(), abs=2.01)


def test_the_diagonal_of_a_matrix_holds_nothing():
    released = np.full((2, 3, 3), 5 * ONE)
    shown = shown_counts(a_stream(1), 1, released)
    np.testing.assert_array_equal(shown.counts, 5 * (1 - np.eye(3)))
    assert shown.totals.answers.tolist() == [30.0]


@pytest.mark.parametrize("window", [1, 3, None])
def test_laplace_noise_is_a_sum_of_draws(window):
    stream = a_stream(window, NoiseKind.LAPLACE)
    shown = shown_counts(stream, 4, np.zeros((5, 2), np.int64))
    draws = window or 5
    assert shown.draws == draws
    assert shown.law.kind is (NoiseKind.LAPLACE if draws == 1 else NoiseKind.GAUSSIAN)
    each = 2 * (2 * 3 / 1.0) ** 2  # 2 k L / epsilon
    assert shown.law.variance == pytest.approx(draws * each, rel=0.003)


def test_without_noise_there_is_no_law():
    params = PrivacyParams(
        unit=Unit.USER, adjacency=Adjacency.ADD_REMOVE, epsilon=math.inf, noise=NoiseKind.GAUSSIAN
    )
    terms = Terms(nights=4, participations=1, gap=4)
    stream = stream_of(params, Sensitivity(1, 1), terms, Workload(2))
    assert shown_law(stream, 3).variance == 0


def test_all_nights_up_to_the_one_shown_are_needed():
    for nights in (2, 5):
        with pytest.raises(ValueError, match=f"from 4 nights, got {nights}"):
            shown_counts(a_stream(2), 3, np.zeros((nights, 2), np.int64))
    with pytest.raises(ValueError, match="got 7"):
        shown_counts(a_stream(2), 7, np.zeros((8, 2), np.int64))
