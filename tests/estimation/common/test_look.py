"""The share that a look saw: its interval covers, and stops are as rare as stated.

Noise is simulated, with seeds: the numbers never change.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from hushrank.estimation.common.central_noise import (
    FALSE_STOP,
    LEVEL,
    MISSED,
    Seen,
    calibrate_look,
    noticed_from,
    total_error,
)
from hushrank.privacy.noise import NoiseLaw
from hushrank.privacy.pilot_query import with_look
from hushrank.privacy.units import Adjacency, NoiseKind, PrivacyParams, Unit

RUNS = 2_000


def law_of(scale: float) -> NoiseLaw:
    return NoiseLaw(NoiseKind.LAPLACE, scale)


def looks(fit: int, unfit: int, scale: float, runs: int = RUNS) -> list[Seen]:
    """So many looks at the same votes."""
    rng = np.random.default_rng(fit + 7 * unfit + int(scale))
    chance = -math.expm1(-1 / scale)
    drawn = rng.geometric(chance, (2, 2, runs))
    noisy = np.array([[fit], [unfit]]) + drawn[0] - drawn[1]
    return [Seen(int(a), int(b), law_of(scale)) for a, b in noisy.T]


@pytest.mark.parametrize("scale", [0.5, 3.0, 50.0])
@pytest.mark.parametrize(("fit", "unfit"), [(40, 0), (300, 100), (200, 200), (5, 900), (2000, 40)])
def test_the_interval_of_the_share_holds_the_truth_as_often_as_stated(fit, unfit, scale):
    truth = fit / (fit + unfit)
    held = [low <= truth <= high for low, high in map(Seen.interval, looks(fit, unfit, scale, 400))]
    assert np.mean(held) > LEVEL - 4 * math.sqrt(LEVEL * (1 - LEVEL) / 400)


def test_the_interval_is_narrow_where_votes_are_many():
    low, high = Seen(9_000, 1_000, law_of(50.0)).interval()
    assert 0.87 < low < 0.9 < high < 0.93
    assert Seen(3, -20, law_of(50.0)).interval() == (0.0, 1.0)


@pytest.mark.parametrize("scale", [1.0, 50.0])
@pytest.mark.parametrize(("fit", "unfit"), [(0, 0), (100, 100), (5_000, 5_000), (60, 40)])
def test_a_look_seldom_stops_where_half_or_more_fit(fit, unfit, scale):
    stops = sum(seen.stops for seen in looks(fit, unfit, scale, 20_000))
    assert stops <= 20_000 * FALSE_STOP + 5 * math.sqrt(20_000 * FALSE_STOP)


@pytest.mark.parametrize("scale", [2.0, 50.0, 400.0])
def test_a_look_stops_from_the_number_on_that_is_told(scale):
    number = noticed_from(law_of(scale))
    stopped = np.mean([seen.stops for seen in looks(0, number, scale)])
    assert stopped > 1 - MISSED - 0.02
    few = np.mean([seen.stops for seen in looks(0, number // 2, scale)])
    assert few < 0.5  # so the number says something


@pytest.mark.parametrize("scale", [2.0, 50.0])
@pytest.mark.parametrize("people", [100, 5_000])
def test_a_run_seldom_stops_for_silence_where_half_of_the_people_vote(scale, people):
    runs = 20_000
    stops = [replace(seen, people=people).silent for seen in looks(people // 2, 0, scale, runs)]
    assert sum(stops) <= runs * FALSE_STOP + 5 * math.sqrt(runs * FALSE_STOP)
    if people > scale * 40:  # so the threshold is no looser than it has to be
        near = people // 2 - total_error(law_of(scale))
        assert sum(replace(seen, people=people).silent for seen in looks(near, 0, scale, runs))


@pytest.mark.parametrize("scale", [2.0, 50.0])
def test_silence_is_noticed_from_the_number_on_that_is_told(scale):
    people = 2 * noticed_from(law_of(scale))
    stopped = [replace(seen, people=people).silent for seen in looks(0, 0, scale)]
    assert np.mean(stopped) > 1 - MISSED - 0.02
    assert np.mean([replace(s, people=people // 2).silent for s in looks(0, 0, scale)]) < 0.5
    assert not any(seen.stops for seen in looks(0, 0, scale, 100))  # nobody said how many


@pytest.mark.parametrize("scale", [0.5, 2.0, 50.0])
def test_the_number_of_votes_is_within_its_error_as_often_as_stated(scale):
    found = [abs(seen.fit + seen.unfit - 400) for seen in looks(300, 100, scale, 20_000)]
    held = np.mean(np.array(found) <= total_error(law_of(scale)))
    assert held > LEVEL - 4 * math.sqrt(LEVEL * (1 - LEVEL) / 20_000)
    assert scale < 50 or held < LEVEL + 0.02  # of integers, no number is as near


def test_a_look_is_calibrated_to_its_own_part_of_the_budget():
    whole = PrivacyParams(
        unit=Unit.USER, adjacency=Adjacency.REPLACE_ONE, epsilon=2.0, max_contributions=9
    )
    look = calibrate_look(with_look(whole, 0.02))
    assert look is not None
    assert look.law == law_of(50.0)  # two votes move, at epsilon 0.04
    assert look.spend.epsilon == 0.04
    assert calibrate_look(whole) is None


def test_the_share_of_no_votes_is_not_known():
    assert Seen(-3, 0, law_of(50.0)).share is None
    assert Seen(30, -3, law_of(50.0)).share == 1.0
