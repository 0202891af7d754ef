"""Orders that are certain on all nights of a stream: quantiles, false alarms of a year, power."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest

from hushrank.estimation.common.matrices import WinCounts
from hushrank.estimation.common.night_orders import (
    all_nights_quantile,
    certain_orders,
    rank_bands,
)
from hushrank.estimation.comparisons.noisy_counts import rank_by_win_counts
from hushrank.privacy.noise import gaussian_law
from hushrank.privacy.sensitivity import Sensitivity
from hushrank.privacy.stream import stream_of
from hushrank.privacy.stream_encoder import ENDLESS, Terms, Workload
from hushrank.privacy.units import Adjacency, NoiseKind, PrivacyParams, Unit

NIGHTS, ITEMS, YEARS = 365, 10, 400
PAIRS = ITEMS * (ITEMS - 1) // 2
TOO_MANY = 34  # of 400 years: at a rate of 5 %, one run in 1,000 has more
PARAMS = PrivacyParams(
    unit=Unit.USER,
    adjacency=Adjacency.ADD_REMOVE,
    epsilon=1.0,
    delta=1e-6,
    noise=NoiseKind.GAUSSIAN,
    max_contributions=1,
)
TERMS = Terms(nights=NIGHTS, participations=14, gap=28)


def test_an_endless_stream_shares_its_error_by_years():
    endless = partial(all_nights_quantile, ENDLESS, 1, normal=False)
    shares = [
        365 * math.exp(-math.sqrt(2) * endless(number=1 + 365 * year)) for year in range(2000)
    ]
    assert sum(shares) == pytest.approx(0.05, rel=1e-3)
    assert sum(shares) < 0.05
    assert endless(number=365) == endless(number=1) < endless(number=366)
    normal = all_nights_quantile(ENDLESS, 1, normal=True, number=100)
    assert normal == pytest.approx(3.93, abs=0.01)  # a stream of one year: 3.81


@pytest.mark.parametrize("sampling", [0.0, 0.5])
def test_three_years_of_an_endless_stream_have_a_false_alarm_as_rarely(sampling):
    """Over the borders of years, which windows cross; with 5 % a year more would be seen."""
    terms = Terms(nights=ENDLESS, participations=14, gap=28)
    errors = errors_of_nights(sampling, 28, terms, 3 * NIGHTS)
    worst = np.ptp(errors, axis=2) / math.sqrt(2)
    number = range(1, 3 * NIGHTS + 1)
    q = [all_nights_quantile(ENDLESS, PAIRS, normal=True, number=each) for each in number]
    assert (np.diff(q) > 0).nonzero()[0].tolist() == [NIGHTS - 1, 2 * NIGHTS - 1]
    assert (worst > np.array(q)).any(axis=1).sum() <= TOO_MANY
    whole = all_nights_quantile(NIGHTS, PAIRS, normal=True)  # 5 % in each year
    assert (worst > whole).any(axis=1).sum() > TOO_MANY


@pytest.mark.parametrize(("pairs", "expected"), [(1, 3.81), (9, 4.33), (45, 4.67)])
def test_quantiles_of_a_year_are_those_of_bonferroni(pairs, expected):
    assert all_nights_quantile(365, pairs, normal=True) == pytest.approx(expected, abs=0.006)


def test_one_laplace_error_exceeds_its_quantile_with_the_chance_of_one_statement():
    q = all_nights_quantile(7, 3, normal=False)
    assert math.exp(-math.sqrt(2) * q) == pytest.approx(0.05 / 21)
    assert q > all_nights_quantile(7, 3, normal=True)


@pytest.mark.parametrize("q", [1.7, -math.log(0.05) / math.sqrt(2), 4.0])
def test_no_sum_of_laplace_and_normal_errors_has_a_longer_tail(q):
    """By Fourier inversion; the tail of a sum of Laplace errors beside a normal one."""
    t = np.linspace(1e-6, 200, 200_001)
    for draws in (1, 2, 3, 8):
        for normal in np.linspace(0, 1, 11):
            law = np.exp(-normal * t**2 / 2) / (1 + (1 - normal) / draws * t**2 / 2) ** draws
            tail = 1 - 2 / math.pi * np.trapezoid(np.sin(q * t) / t * law, t)
            assert tail <= math.exp(-math.sqrt(2) * q) * 1.001


@pytest.mark.parametrize(("nights", "pairs"), [(0, 1), (1, 0)])
def test_nothing_to_watch_is_refused(nights, pairs):
    with pytest.raises(ValueError, match="at least 1"):
        all_nights_quantile(nights, pairs, normal=True)


def largest_errors(sampling: float, window: int | None = 28) -> np.ndarray:
    """Largest error of any pair on any night, in standard errors, of each of `YEARS` years.

    All items are equally good, so every order is false. `sampling`: share of the variance of a
    shown count that comes from who answered what.
    """
    errors = errors_of_nights(sampling, window, TERMS, NIGHTS)
    return np.ptp(errors, axis=2).max(axis=1) / math.sqrt(2)  # deviation of a difference: sqrt(2)


def errors_of_nights(sampling: float, window: int | None, terms: Terms, nights: int) -> np.ndarray:
    """Error of each item on each night in standard errors, shape (YEARS, nights, ITEMS)."""
    stream = stream_of(PARAMS, Sensitivity(1, 1), terms, Workload(window))
    rng = np.random.default_rng()
    size = 1 << (2 * nights).bit_length()
    noise, kernel = rng.normal(size=(YEARS, nights, ITEMS)), stream.kernel[:nights]
    answers, ones = rng.normal(size=(YEARS, nights, ITEMS)), Workload(window).column(nights)

    def shown(each: np.ndarray, by: np.ndarray) -> np.ndarray:
        spectra = np.fft.rfft(each, size, axis=1) * np.fft.rfft(by, size)[:, np.newaxis]
        sums = np.fft.irfft(spectra, size, axis=1)[:, :nights]
        return sums / np.sqrt(np.cumsum(by**2))[:, np.newaxis]

    errors = math.sqrt(1 - sampling) * shown(noise, kernel)
    return errors + math.sqrt(sampling) * shown(answers, ones)


@pytest.mark.parametrize("sampling", [0.0, 0.5, 1.0])
def test_a_year_has_a_false_alarm_with_a_chance_of_5_percent_at_most(sampling):
    worst = largest_errors(sampling)
    assert (worst > all_nights_quantile(NIGHTS, PAIRS, normal=True)).sum() <= TOO_MANY
    for planted in (
        all_nights_quantile(1, PAIRS, normal=True),  # the error of one night
        all_nights_quantile(NIGHTS, 1, normal=True),  # pairs chosen in view of the releases
    ):
        assert (worst > planted).sum() > TOO_MANY


def test_all_nights_so_far_have_few_false_alarms_too():
    worst = largest_errors(0.0, None)
    assert (worst > all_nights_quantile(NIGHTS, PAIRS, normal=True)).sum() <= TOO_MANY


def years_with_an_order(truth: np.ndarray, nights: int, years: int) -> tuple[int, int]:
    """Years in which `noisy-counts` calls a false order certain, and a true one, by its errors."""
    rng = np.random.default_rng()
    law = gaussian_law(Sensitivity(1, 1), 1 / 800)  # deviation 20
    q = all_nights_quantile(nights, 15, normal=True)
    wrong = right = 0
    for _ in range(years):
        found = np.zeros((6, 6), bool)
        for _ in range(nights):
            wins = np.zeros(6, np.int64)
            for one in range(6):
                for other in range(one):
                    chance = 0.5 + (truth[one] - truth[other]) / 2
                    won = rng.binomial(60, chance)
                    wins[one] += won
                    wins[other] += 60 - won
            noisy = wins + np.rint(rng.normal(0, math.sqrt(law.variance), 6)).astype(np.int64)
            counts = WinCounts(noisy, confidential=False)
            errors = rank_by_win_counts(counts, law).errors
            if errors is not None:
                found |= certain_orders(errors.centre, np.diag(errors.covariance), q)
        better = truth[:, np.newaxis] > truth
        wrong += bool((found & ~better).any())
        right += bool((found & better).any())
    return wrong, right


def test_scores_of_noisy_counts_give_no_more_false_alarms():
    """Of 60 streams of 20 nights; more than 9 at a rate of 5 %: one run in 1,000."""
    wrong, _ = years_with_an_order(np.zeros(6), 20, 60)
    assert wrong <= 9


def test_a_large_difference_is_noticed():
    wrong, right = years_with_an_order(np.array([1.0, 0, 0, 0, 0, 0]), 5, 20)
    assert right == 20
    assert wrong <= 6  # of 20 at a rate of 5 %: one run in 3,000 has more


def test_bands_leave_room_for_whatever_is_not_certain():
    ahead = np.array([[0, 1, 1], [0, 0, 0], [0, 0, 0]], bool)
    low, high = rank_bands(ahead)
    assert (low.tolist(), high.tolist()) == ([1, 2, 2], [1, 3, 3])


def test_equal_scores_are_never_certain_even_without_errors():
    assert not certain_orders(np.zeros(2), np.zeros((2, 2)), 3.0).any()
