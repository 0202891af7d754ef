"""Plans of surveys in which people rank items, and of tests whose answers are randomised."""

from __future__ import annotations

import numpy as np
import pytest

from hushrank.estimation.common.links import LOGISTIC
from hushrank.flows.planning.plan.choice import methods_to_compare
from hushrank.flows.planning.plan.survey import Setting, accuracy_of, plan_config
from hushrank.flows.planning.plan.world import World
from hushrank.flows.release.scale import Scale
from hushrank.pipelines.simulate.planned_survey import PlannedSurvey

RANKINGS = ("kemeny", "borda", "bradley-terry")


def ballots(survey, **changes):
    """A job on rankings of five items of eight."""
    return survey.set(
        input={"kind": "rankings", "paths": ["nothing.csv"], "max_length": 5},
        items={"count": 8},
        privacy={"unit": "local", "epsilon": 1.0, "mechanism": "mallows"},
        method="borda",
    ).set(**changes)


def exam(survey):
    """A job on test answers that are flipped by chance."""
    return survey.set(
        input={
            "kind": "responses",
            "paths": ["nothing.csv"],
            "layout": "long",
            "columns": {"user": "u", "item": "i", "correct": "c"},
        },
        privacy={"unit": "local", "epsilon": 2.0, "max_contributions": 3, "budget": "per_user"},
        method="spectral-rr",
    )


@pytest.mark.parametrize("mechanism", ["mallows", "laplace-ranks", "random-pairs"])
@pytest.mark.parametrize("method", RANKINGS)
def test_every_method_of_rankings_is_planned_and_gets_better_with_epsilon(
    survey, method, mechanism
):
    ballots(survey, method=method, privacy__mechanism=mechanism, model={"common_order": True})
    config = plan_config(survey.config)
    assert set(methods_to_compare(config)) == set(RANKINGS)
    poor, good = (
        accuracy_of(
            config,
            Setting(method=method, epsilon=epsilon, people=800, answers=1),
            World(replicates=16, design=None),
        )
        for epsilon in (0.2, 8.0)
    )
    assert good.order > poor.order
    assert good.error < poor.error
    assert good.width < poor.width


@pytest.mark.parametrize(
    ("method", "scale"),
    [("borda", Scale.ABOVE_MIDDLE), ("bradley-terry", Scale.LOG_ODDS)],
)
def test_errors_are_of_what_the_method_claims(survey, method, scale):
    """With many people and hardly any noise they are near zero, and near no other estimand."""
    config = plan_config(ballots(survey, method=method).config)
    found = accuracy_of(
        config,
        Setting(method=method, epsilon=12.0, people=20_000, answers=1),
        World(replicates=6, design=None),
    )
    assert found.scale is scale
    assert found.error < 0.06 * found.equal


def test_lists_are_in_their_true_order_with_the_chance_of_the_link():
    survey = PlannedSurvey(
        n_items=6, people=30_000, answers=1, distinct=False, link=LOGISTIC, seed=3
    )
    orders, truth = survey.orders(0, 3), survey.truth(0)
    assert orders.shape == (30_000, 3)
    assert (np.sort(orders, axis=1)[:, 1:] > np.sort(orders, axis=1)[:, :-1]).all()
    shown = np.bincount(orders.ravel(), minlength=6)
    assert shown == pytest.approx(15_000, rel=0.03)
    for a, b in ((0, 1), (2, 5)):
        places = [np.where(orders == item, np.arange(3), 0).sum(axis=1) for item in (a, b)]
        both = (orders == a).any(axis=1) & (orders == b).any(axis=1)
        above = (places[0] < places[1])[both].mean()
        assert above == pytest.approx(float(LOGISTIC.cdf(truth[a] - truth[b])), abs=0.035)


def test_a_test_with_randomised_answers_is_planned(survey):
    config = plan_config(exam(survey).config)
    assert methods_to_compare(config) == ("spectral-rr",)
    poor, good = (
        accuracy_of(
            config,
            Setting(method="spectral-rr", epsilon=epsilon, people=4000, answers=3),
            World(replicates=12, design=None),
        )
        for epsilon in (1.0, 9.0)
    )
    assert good.scale is Scale.DIFFICULTY
    assert good.error < poor.error
    assert good.order > max(poor.order, 0.9)


def test_rankings_have_no_design(survey, command):
    for option in (("--design", "any"), ("--zipf", 1)):
        code, printed = command("plan", ballots(survey).config, "--people", 50, *option)
        assert code == 2
        assert f"{option[0]}: applies only to comparisons; remove it" in printed
    code, printed = command("plan", survey.config, "--people", 50, "--epsilon", 2)
    assert code == 0, printed
    assert "Simulated design" not in printed
    assert "simulated: 50 people with 1 ranking each" in printed
    code, printed = command("plan", survey.config, "--people", 10**9, "--anyway")
    assert code == 2
    assert "to simulate rankings of this length" in printed
