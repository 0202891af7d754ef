"""Black-box audit of noisy counts: two adjacent logs in, released counts out.

The bundles that differ are the worst that the bounds allow, so a scale that is too small for any
input is too small for these. Noise comes from the release path: OpenDP on system bits.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from hushrank.privacy.accounting import rho_for
from hushrank.privacy.audit import Release, audit_epsilon
from hushrank.privacy.noise import NoiseLaw, add_noise, gaussian_law, laplace_law
from hushrank.privacy.randomness import system_bits
from hushrank.privacy.sensitivity import (
    Sensitivity,
    exposures_sensitivity,
    pair_counts_sensitivity,
    win_counts_sensitivity,
    win_loss_sensitivity,
)
from hushrank.privacy.units import Adjacency, PrivacyParams, Unit
from tests.statistics import FALSE_POSITIVE_RATE

Log = NDArray[np.int64]  # shape (rows, 2): winner, loser
Count = Callable[[Log], NDArray[np.int64]]

N_ITEMS = 3
ROWS = 4  # L
# Trials, for an epsilon of about 2 and below 1. What is to be caught is 8 standard deviations of
# the bound beyond the stated epsilon, so by chance it escapes less than once in 10^9.
FEW, MANY = 10_000, 40_000
CONFIDENCE = 1 - FALSE_POSITIVE_RATE
OTHERS: Log = np.array([(0, 1), (1, 0), (0, 1), (2, 1)])  # rows of everybody else


def log_with(*bundle: tuple[int, int]) -> Log:
    return np.concatenate([OTHERS, np.array(bundle, np.int64).reshape(-1, 2)])


ALL_ON_0, ALL_ON_1 = log_with(*[(0, 1)] * ROWS), log_with(*[(1, 0)] * ROWS)
NOBODY = log_with()
TOP_WINS = log_with((0, 1), (0, 2))  # distinct pairs: 0 wins all of its own
TOP_LOSES = log_with((1, 0), (2, 0), (1, 2))  # 1 and 2 win all of theirs


def win_counts(log: Log) -> NDArray[np.int64]:
    return np.bincount(log[:, 0], minlength=N_ITEMS)


def pair_counts(log: Log) -> NDArray[np.int64]:
    return np.bincount(log[:, 0] * N_ITEMS + log[:, 1], minlength=N_ITEMS**2)


def wins_and_losses(log: Log) -> NDArray[np.int64]:
    return np.concatenate([np.bincount(side, minlength=N_ITEMS) for side in log.T])


def exposures(log: Log) -> NDArray[np.int64]:
    return np.bincount(log.ravel(), minlength=N_ITEMS)


def noisy(law: NoiseLaw, count: Count = win_counts) -> Release[Log]:
    """Releases of one log, as many as asked for."""
    return lambda log, runs: add_noise(np.tile(count(log), (runs, 1)), law, system_bits())


def audited(
    release: Release[Log], left: Log, right: Log, *, trials: int, delta: float = 0.0
) -> float:
    """Lower bound on epsilon."""
    return audit_epsilon(
        release, left, right, trials=trials, confidence=CONFIDENCE, delta=delta
    ).epsilon_lower


def user_params(
    epsilon: float, adjacency: Adjacency = Adjacency.REPLACE_ONE, *, distinct_pairs: bool = False
) -> PrivacyParams:
    rows = 3 if distinct_pairs else ROWS
    return PrivacyParams(
        unit=Unit.USER,
        adjacency=adjacency,
        epsilon=epsilon,
        max_contributions=rows,
        distinct_pairs=distinct_pairs,
    )


@pytest.mark.parametrize(
    ("epsilon", "trials", "least"), [(0.5, MANY, 0.0), (2.0, FEW, 1.0)], ids=["0.5", "2.0"]
)
def test_noisy_win_counts_keep_their_epsilon(epsilon: float, trials: int, least: float) -> None:
    law = laplace_law(win_counts_sensitivity(user_params(epsilon), N_ITEMS), epsilon)
    bound = audited(noisy(law), ALL_ON_0, ALL_ON_1, trials=trials)
    assert least <= bound <= epsilon


@pytest.mark.parametrize(("epsilon", "trials"), [(0.5, MANY), (2.0, FEW)])
def test_the_published_scale_is_caught(epsilon: float, trials: int) -> None:
    """[CCW] Alg. 3, erratum E1: Laplace(L / epsilon) under replace-one."""
    law = laplace_law(Sensitivity(ROWS, ROWS**2), epsilon)
    bound = audited(noisy(law), ALL_ON_0, ALL_ON_1, trials=trials)
    assert epsilon < bound <= 2 * epsilon


def test_the_published_scale_is_right_when_a_user_comes_or_goes() -> None:
    params = user_params(2.0, Adjacency.ADD_REMOVE)
    law = laplace_law(win_counts_sensitivity(params, N_ITEMS), 2.0)
    assert law == laplace_law(Sensitivity(ROWS, ROWS**2), 2.0)
    assert 1.0 < audited(noisy(law), ALL_ON_0, NOBODY, trials=FEW) <= 2.0


@pytest.mark.parametrize(("made_for", "caught"), [(2.0, False), (4.0, True)])
def test_distinct_pairs_spread_over_all_counts(made_for: float, caught: bool) -> None:
    sensitivity = win_counts_sensitivity(user_params(2.0, distinct_pairs=True), N_ITEMS)
    assert sensitivity.l1 == np.abs(win_counts(TOP_WINS) - win_counts(TOP_LOSES)).sum()
    release = noisy(laplace_law(sensitivity, made_for))
    assert (audited(release, TOP_WINS, TOP_LOSES, trials=FEW) > 2.0) is caught


@pytest.mark.parametrize(("made_for", "caught"), [(2.0, False), (4.0, True)])
def test_noisy_pair_counts_keep_their_epsilon(made_for: float, caught: bool) -> None:
    sensitivity = pair_counts_sensitivity(user_params(2.0), N_ITEMS)
    release = noisy(laplace_law(sensitivity, made_for), pair_counts)
    assert (audited(release, ALL_ON_0, ALL_ON_1, trials=FEW) > 2.0) is caught


@pytest.mark.parametrize(("made_for", "caught"), [(2.0, False), (4.0, True)])
def test_noisy_wins_and_losses_keep_their_epsilon(made_for: float, caught: bool) -> None:
    """The scale of wins alone would be half of what is needed: made for twice the epsilon."""
    sensitivity = win_loss_sensitivity(user_params(2.0), N_ITEMS)
    assert sensitivity.l1 == 2 * win_counts_sensitivity(user_params(2.0), N_ITEMS).l1
    release = noisy(laplace_law(sensitivity, made_for), wins_and_losses)
    assert (audited(release, ALL_ON_0, ALL_ON_1, trials=2 * FEW) > 2.0) is caught


@pytest.mark.parametrize(("made_for", "caught"), [(2.0, False), (4.5, True)])
def test_noisy_exposures_keep_their_epsilon(made_for: float, caught: bool) -> None:
    """Of a person who comes or goes; with three items a replaced one cannot move them as far."""
    params = user_params(2.0, Adjacency.ADD_REMOVE)
    release = noisy(laplace_law(exposures_sensitivity(params, N_ITEMS), made_for), exposures)
    assert (audited(release, ALL_ON_0, NOBODY, trials=FEW) > 2.0) is caught


@pytest.mark.parametrize(("made_for", "caught"), [(1.0, False), (4.0, True)])
def test_gaussian_noise_keeps_its_epsilon_at_delta(made_for: float, caught: bool) -> None:
    delta = 0.01
    sensitivity = win_counts_sensitivity(user_params(1.0), N_ITEMS)
    rho = rho_for(made_for, delta, sensitivity.l2_squared)
    release = noisy(gaussian_law(sensitivity, rho))
    bound = audited(release, ALL_ON_0, ALL_ON_1, trials=FEW, delta=delta)
    assert (bound > 1.0) is caught


def test_noise_on_nonzero_counts_only_is_caught() -> None:
    law = laplace_law(win_counts_sensitivity(user_params(2.0), N_ITEMS), 2.0)

    def sparing_zeros(log: Log, runs: int) -> NDArray[np.int64]:
        counts = win_counts(log)
        return np.where(counts == 0, 0, noisy(law)(log, runs))

    with_2, without_2 = OTHERS, OTHERS[:-1]  # the only win of item 2
    assert audited(sparing_zeros, with_2, without_2, trials=FEW) > 2.0
