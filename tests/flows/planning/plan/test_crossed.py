"""How often the best items come first, from the errors of few simulated surveys."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from hushrank.estimation.common import pair_separation
from hushrank.flows.config.comparisons import Design
from hushrank.flows.planning.plan import survey as planned_surveys
from hushrank.flows.planning.plan.crossed import crossed_shares
from hushrank.flows.planning.plan.survey import Setting, accuracy_of, plan_config
from hushrank.flows.planning.plan.world import MEASURES, World, mean_accuracy
from hushrank.flows.release.scale import Scale

N_ITEMS, SURVEYS, TRUTHS = 8, 24, 96
FEW = 24  # as many surveys as a plan of few items simulates
MANY = 300
BIAS = 0.06  # most by which shares may be off, beside chance


@pytest.fixture
def config(survey):
    return plan_config(survey.config, n_items=N_ITEMS)


def made(rng, surveys, slope=1.0, largest=0.5):
    """Scores of surveys, drawn to zero, with larger errors at the ends, and what is wanted."""
    wanted = rng.normal(0, 1, (surveys, N_ITEMS))
    errors = rng.normal(0, 1, wanted.shape) * largest * (0.5 + np.abs(wanted)) / 2
    return slope * wanted + errors, wanted


@pytest.mark.parametrize("slope", [1.0, 0.3])
def test_shares_of_few_surveys_are_those_of_very_many(slope):
    """200 times 24 surveys: the mean of 200 shares is off by less than 0.03, else it is the bias;
    their deviation is at most what is said, and below that of 24 yes or no."""
    rng = np.random.default_rng(3)
    scores, wanted = made(rng, 40_000, slope)
    first = float((scores.argmax(axis=1) == wanted.argmax(axis=1)).mean())
    found = [
        crossed_shares(*made(rng, SURVEYS, slope), rng.normal(0, 1, (TRUTHS, N_ITEMS)), 3)
        for _ in range(200)
    ]
    tops = np.array([each.top for each in found])
    assert tops.mean() == pytest.approx(first, abs=0.03)
    said = np.mean([each.spread[0] for each in found])
    assert 0.5 * said < tops.std() < 1.1 * said
    assert tops.std() < 0.9 * math.sqrt(first * (1 - first) / SURVEYS)
    best = np.argpartition(-scores, 2, axis=1)[:, :3], np.argpartition(-wanted, 2, axis=1)[:, :3]
    overlap = np.mean(
        [len({*a} & {*b}) / 3 for a, b in zip(*map(np.ndarray.tolist, best), strict=True)]
    )
    assert np.mean([each.best for each in found]) == pytest.approx(overlap, abs=0.03)


@pytest.mark.parametrize(
    ("method", "design", "epsilon"),
    [
        ("noisy-counts", Design.BALANCED, 0.3),
        ("noisy-counts", Design.BALANCED, 2.0),
        ("win-loss", Design.RANDOM, 0.3),
        ("win-loss", Design.RANDOM, 2.0),
        ("noisy-pairs", Design.ANY, 1.0),
        ("perturbed-mle", Design.BALANCED, 1.0),
    ],
)
def test_a_plan_of_few_surveys_has_the_shares_of_many(config, monkeypatch, method, design, epsilon):
    """Beside 300 surveys whose best item comes first or not. Four standard errors of both are
    exceeded once in 15 000 times."""
    setting = Setting(method=method, epsilon=epsilon, people=400, answers=6)
    world = World(replicates=FEW, design=design)
    found = accuracy_of(config, setting, world)
    monkeypatch.setattr(planned_surveys, "_summary", plain)
    counted = accuracy_of(config, setting, replace(world, replicates=MANY))
    for name in ("top", "best"):
        few, many = getattr(found, name), getattr(counted, name)
        assert few == pytest.approx(
            many, abs=BIAS + 4 * math.hypot(found.spread[name], counted.spread[name])
        )
    assert found.spread["top"] < 0.11
    for name in ("error", "order", "width"):
        few, many = getattr(found, name), getattr(counted, name)
        chance = 4 * math.hypot(found.spread[name], counted.spread[name])
        assert few == pytest.approx(many, abs=0.05 * many + chance)


def plain(replicates, *_):
    return mean_accuracy([each.found for each in replicates], replicates[0].scale)


@pytest.mark.parametrize("epsilon", [0.3, 3.0])
def test_ranks_of_a_plan_are_those_of_a_release(config, monkeypatch, epsilon):
    """A release says what is sure of all items at once too, which a plan leaves out."""
    setting = Setting(method="noisy-pairs", epsilon=epsilon, people=2_000, answers=6)
    world = World(replicates=12)
    planned = accuracy_of(config, setting, world)
    monkeypatch.setattr(
        pair_separation, "_one_at_a_time", type("Never", (), {"get": lambda self: False})()
    )
    monkeypatch.setattr(
        planned_surveys, "ranks_one_at_a_time", pair_separation.contextlib.nullcontext
    )
    released = accuracy_of(config, setting, world)
    assert planned.width == pytest.approx(released.width, rel=0.03, abs=0.05)
    assert replace(planned, width=0, spread={}) == replace(released, width=0, spread={})


def test_one_survey_far_out_does_not_decide_the_error():
    table = [dict.fromkeys(MEASURES, 1.0 + k / 20) for k in range(20)]
    usual = mean_accuracy(table, Scale.LOG_ODDS)
    assert usual.error == pytest.approx(usual.order)  # none is far out: the mean
    table[3] = table[3] | {"error": 50.0, "order": 50.0}
    found = mean_accuracy(table, Scale.LOG_ODDS)
    assert found.error < 1.2 * usual.error
    assert found.order > 2 * usual.order
    equal = [dict.fromkeys(MEASURES, float(k == 0)) for k in range(20)]  # quartiles are equal
    assert mean_accuracy(equal, Scale.LOG_ODDS).error == pytest.approx(0.05)
