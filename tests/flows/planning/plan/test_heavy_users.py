"""What a plan says of weights for people with many answers, from a guess of how many they give."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest

from hushrank.estimation.common.links import LOGISTIC
from hushrank.experiments.beyond import heavy_users
from hushrank.flows.errors import ConfigError
from hushrank.flows.planning.plan.limits import activity_of, gain_of_weights, weights_text
from hushrank.flows.planning.plan.survey import Setting, accuracy_of, plan_config
from hushrank.flows.planning.plan.world import World
from hushrank.pipelines.simulate.planned_survey import PlannedSurvey

GAUSSIAN = {"privacy__noise": "gaussian", "privacy__delta": 1.0e-6}
MANY = {"items": {"count": 12}, "method": "noisy-pairs", **GAUSSIAN}


def test_the_gain_is_that_of_the_roots(survey):
    config = plan_config(survey.set(**MANY).config)
    activity = ((4, 0.8), (36, 0.2))
    signal = 0.8 * 4 + 0.2 * 36 * math.sqrt(4 / 36)
    gain = gain_of_weights(config, "noisy-pairs", 4, activity)
    assert gain == pytest.approx(signal / 4, rel=1e-4)
    # 11 rows of a person can be wins of one item, which weights have to allow for: no gain at all.
    assert gain_of_weights(config, "noisy-counts", 4, ((4, 0.8), (11, 0.2))) == pytest.approx(
        1, rel=1e-4
    )
    assert gain_of_weights(config, "perturbed-mle", 4, activity) is None
    assert gain_of_weights(config, "noisy-pairs", 4, ()) is None


@pytest.mark.parametrize(
    ("exponent", "most", "printed"),
    [(0.6, 2, 1.67), (0.6, 5, 1.20), (1.0, 2, 2.23), (1.0, 5, 1.56), (1.2, 3, 2.07)],
)
def test_the_gains_of_the_guide(survey, exponent, most, printed):
    """Table of docs/choosing.md, by what a plan says of the same people."""
    rows, people = np.unique(heavy_users.activity(exponent), return_counts=True)
    activity = tuple(zip(rows.tolist(), (people / people.sum()).tolist(), strict=True))
    config = plan_config(survey.set(**MANY | {"items": {"count": 20}}).config)
    gain = gain_of_weights(config, "noisy-pairs", most, activity)
    assert gain == pytest.approx(printed, abs=0.006)
    page = (Path(__file__).parents[4] / "docs" / "choosing.md").read_text()
    assert re.search(rf"(?m)^\| {exponent} \|.*\b{printed:.2f}\b", page)


def test_the_text_tells_what_to_do(survey):
    activity = ((4, 0.8), (36, 0.2))
    config = plan_config(survey.set(**MANY).config)
    assert weights_text(config, "noisy-pairs", 4, activity).endswith(
        "1.40 times the signal-to-noise ratio of leave-out, at the same guarantee; add it."
    )
    assert weights_text(config, "noisy-pairs", 4, ((4, 1.0),)).endswith("nothing to gain.")
    chosen = plan_config(survey.set(privacy__bounding="weights").config)
    assert weights_text(chosen, "noisy-pairs", 4, activity).endswith("and the job uses it.")
    laplace = {"privacy__noise": None, "privacy__delta": None, "privacy__bounding": None}
    config = plan_config(survey.set(**laplace).config)
    assert "it needs unit: user, noise: gaussian" in weights_text(
        config, "noisy-pairs", 4, activity
    )


def test_simulated_surveys_follow_the_activity_and_gain_what_is_said(survey):
    activity = ((4, 0.7), (60, 0.3))
    world = World(replicates=12, activity=activity)
    setting = Setting(method="noisy-pairs", epsilon=1.0, people=1_000, answers=4)
    errors = [
        accuracy_of(plan_config(survey.set(**MANY, privacy__bounding=way).config), setting, world)
        for way in ("leave-out", "weights")
    ]
    assert errors[1].error < 0.8 * errors[0].error


def test_groups_of_people_add_up():
    survey = PlannedSurvey(
        n_items=6, people=1_001, answers=5, distinct=True, link=LOGISTIC,
        activity=((3, 0.5), (40, 0.5)),
    )  # fmt: skip
    for all_count, most in ((True, 15), (False, 5)):
        groups = list(survey.groups(all_count=all_count))
        assert sum(people.people for _, people in groups) == 1_001
        assert [rows for rows, _ in groups] == [3, 15]  # there are 15 pairs
        assert [people.answers for _, people in groups] == [3, most]
    first, second = (people.pair_wins(0) for _, people in survey.groups(all_count=False))
    assert not np.array_equal(first, second)


def test_the_command_takes_activity_and_says_the_gain(survey, command, monkeypatch):
    monkeypatch.setattr(
        "hushrank.flows.planning.plan.survey.MOST", 12
    )  # replicates: the gain needs none
    survey.set(**GAUSSIAN, method="noisy-pairs", privacy__max_contributions=2, top_k=1)
    asked = ("plan", survey.config, "--people", 300, "--epsilon", 1, "--target", "order=0.1")
    code, printed = command(*asked, "--activity", "2:0.8", "--activity", "36:0.2", "--json")
    assert code == 0, printed
    gain = (0.8 * 2 + 0.2 * 6 * math.sqrt(2 / 6)) / 2  # there are 6 pairs
    assert json.loads(printed)["weights_gain"] == pytest.approx(gain, rel=1e-4)


@pytest.mark.usefixtures("each_survey_simulated_once")
def test_the_command_says_what_several_names_cost(survey, command):
    survey.set(method="noisy-pairs", privacy__names_per_person=4)
    asked = ("plan", survey.config, "--people", 300, "--epsilon", 1, "--target", "order=0.1")
    code, printed = command(*asked, "--json")
    assert code == 0, printed
    found = json.loads(printed)
    assert found["one_name"]["error"] < found["recommended"]["error"]
    code, printed = command(*asked)
    assert code == 0, printed
    assert "with names_per_person: 4 noise is about 4 times as wide" in " ".join(printed.split())
    survey.set(privacy__names_per_person=1)
    assert json.loads(command(*asked, "--json")[1])["one_name"] is None


@pytest.mark.parametrize("level", ["0", "x", "3:0", "3:x", "2.5", "3:inf"])
def test_bad_activity_is_refused(level):
    with pytest.raises(ConfigError, match="--activity must be a number of answers"):
        activity_of([level])
