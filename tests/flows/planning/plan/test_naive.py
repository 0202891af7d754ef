"""Naive ways in a plan: measured on the same surveys, and a method that loses to one is named."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from hushrank.flows.config.comparisons import Design
from hushrank.flows.planning.plan.choice import loss_of, naive_ways
from hushrank.flows.planning.plan.survey import Setting, accuracy_of, plan_config
from hushrank.flows.planning.plan.world import World
from hushrank.flows.release.scale import Scale


@pytest.fixture
def many(survey):
    """Twenty-four items: a matrix of wins has far more noise than their wins."""
    (survey.folder / "answers.parquet").unlink()
    return survey.set(
        items={"count": 24},
        method="noisy-pairs",
        input__design="balanced",
        privacy={"unit": "user", "epsilon": 1.0, "max_contributions": 5},
    )


def test_without_noise_both_ways_find_the_order(many):
    config = plan_config(many.config)
    setting = Setting(method="noisy-pairs", epsilon=1e4, people=200_000, answers=5)
    scores, wins = naive_ways(config, setting, World(replicates=4))
    assert [each.method for each, _ in (scores, wins)] == [
        "naive: clipped + Bradley-Terry",
        "naive: noisy wins",
    ]
    assert min(scores[1].order, wins[1].order) > 0.97
    assert scores[1].error < 0.05
    assert scores[1].scale is Scale.LOG_ODDS
    assert math.isnan(wins[1].error)  # an order, and no scores
    assert math.isnan(scores[1].width)


def test_of_unequal_exposure_wins_say_little(many):
    config = plan_config(many.config)
    setting = Setting(method="noisy-pairs", epsilon=1e4, people=200_000, answers=5)
    scores, wins = naive_ways(config, setting, World(replicates=4, design=Design.RANDOM))
    assert scores[1].order > 0.95 > 0.8 > wins[1].order


@pytest.mark.usefixtures("each_survey_simulated_once")
def test_a_method_that_loses_is_named_with_both_shares(many, command):
    request = ("plan", many.config, "--people", 2_000, "--epsilon", "0.5", "--target", "order=0.2")
    code, printed = command(*request)
    assert code == 0, printed
    assert "\nnoisy-pairs is worse than a naive method here: noisy wins has " in printed
    code, printed = command(*request, "--json")
    document = json.loads(printed)
    assert "noisy-pairs" in document["losing"]
    naive = {each["method"]: each for each in document["naive"]}
    own = next(each for each in document["methods"] if each["method"] == "noisy-pairs")
    assert naive["naive: noisy wins"]["order"] > own["order"]
    assert naive["naive: noisy wins"]["rank_width"] is None


def test_a_difference_that_chance_explains_is_no_loss(many):
    config = plan_config(many.config)
    setting = Setting(method="win-loss", epsilon=1.0, people=2_000, answers=5)
    world = World(replicates=6)
    found, naive = accuracy_of(config, setting, world), naive_ways(config, setting, world)
    better = replace(naive[1][1], order=found.order + 0.2)
    assert loss_of((setting, found), [(naive[1][0], better)]) is not None
    alike = replace(better, order=found.order + found.spread["order"])
    assert loss_of((setting, found), [(naive[1][0], alike)]) is None
    assert loss_of((setting, replace(found, order=math.nan)), naive) is None
    assert loss_of((setting, found), []) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"privacy": {"unit": "local", "epsilon": 1.0}, "method": "debiased-rr"},
        {"items": {"count": 2_001}, "method": "win-loss"},
    ],
)
def test_where_there_is_no_naive_way_none_is_shown(many, changes):
    config = plan_config(many.set(input__ties="random", **changes).config)
    setting = Setting(method=config.method, epsilon=1.0, people=100, answers=5)
    assert naive_ways(config, setting, World()) == []
