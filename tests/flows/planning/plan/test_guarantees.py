"""What a plan says of other guarantees: Laplace or Gaussian noise, before or after counting."""

from __future__ import annotations

import pytest

from hushrank.flows.planning.plan.limits import guarantee_words, tried_guarantees
from hushrank.flows.planning.plan.survey import Setting, accuracy_of, plan_config
from hushrank.flows.planning.plan.world import World
from hushrank.privacy.units import Unit
from hushrank.transforms.common.schema import Ties

LAPLACE, GAUSSIAN = "Laplace", "Gaussian, delta 1e-06"
LOCAL = "local, before counting"
WORLD = World(replicates=40)
TEST = {
    "kind": "responses",
    "paths": ["nothing.csv"],
    "layout": "long",
    "columns": {"user": "u", "item": "i", "correct": "c"},
}


def compared(survey, world: World = WORLD):
    config = plan_config(survey.config)
    setting = Setting(method=config.method, epsilon=2.0, people=300, answers=6)
    own = accuracy_of(config, setting, world)
    others = tried_guarantees(config, setting, world)
    return {guarantee_words(config): own} | {each.words: found for each, found in others}, others


def test_noise_of_the_operator_is_compared_with_that_of_the_people(survey):
    found, others = compared(survey.set(method="auto", input__ties="split"))
    assert list(found) == [LAPLACE, GAUSSIAN, LOCAL]
    assert found[LAPLACE].order > found[LOCAL].order
    local = others[1][0].config
    assert local.privacy.unit is Unit.LOCAL
    assert local.comparisons.ties is Ties.RANDOM


def test_answers_of_the_people_are_compared_with_noise_of_the_operator(survey):
    survey.set(
        method="debiased-rr",
        input__design="any",
        input__ties="random",
        privacy={"unit": "local", "epsilon": 1.0, "budget": "per_user", "max_contributions": 6},
    )
    found, others = compared(survey)
    assert list(found) == [LOCAL, LAPLACE]
    assert found[LAPLACE].order > found[LOCAL].order
    assert others[0][0].config.privacy.unit is Unit.USER
    survey.set(privacy={"unit": "local", "epsilon": 1.0})
    assert compared(survey)[1][0][0].config.privacy.unit is Unit.COMPARISON


def test_gaussian_noise_is_compared_with_laplace(survey):
    survey.set(privacy__noise="gaussian", privacy__delta=1e-5)
    assert list(compared(survey)[0]) == [
        "Gaussian, delta 1e-05",
        LAPLACE,
        LOCAL,
    ]


@pytest.mark.parametrize("method", ["spectral", "spectral-rr"])
def test_tests_are_compared_too(survey, method):
    privacy = {"unit": "user", "epsilon": 2.0, "max_contributions": 3}
    if method == "spectral-rr":
        privacy |= {"unit": "local", "budget": "per_user"}
    survey.set(input=TEST, privacy=privacy, method=method)
    found, _ = compared(survey, World(replicates=4, design=None))
    expected = [LAPLACE, GAUSSIAN, LOCAL] if method == "spectral" else [LOCAL, LAPLACE]
    assert list(found) == expected


def test_rankings_are_compared_by_mechanism_and_with_noise_of_the_operator(survey):
    """All at the same loss of a whole ranking: of 5 items, 2 for one move are 5."""
    survey.set(
        input={"kind": "rankings", "paths": ["nothing.csv"]},
        privacy={"unit": "local", "epsilon": 1.0, "mechanism": "mallows"},
        items={"count": 5},
        method="borda",
    )
    found, _ = compared(survey, World(replicates=12, design=None))
    assert list(found)[:2] == ["local, mallows", "local, random-pairs, epsilon 5 of a ranking"]
    assert all("epsilon 5 of all rankings of a person" in words for words in list(found)[2:])
    mallows, pairs, *trusted = found.values()
    assert pairs.error < mallows.error
    assert max(each.error for each in trusted) < pairs.error
    survey.set(privacy__mechanism="random-pairs")
    again, _ = compared(survey, World(replicates=4, design=None))
    assert list(again)[:2] == ["local, random-pairs", "local, mallows, epsilon 0.8 of a moved item"]
    survey.set(privacy__hide="items")
    only, _ = compared(survey, World(replicates=4, design=None))
    assert [words.split(",")[0] for words in only] == ["local", *["Gaussian", "Laplace"]]


def test_the_plan_shows_them(survey, command):
    code, printed = command("plan", survey.config, "--people", 50, "--epsilon", "2")
    assert code == 0, printed
    table = printed.split("Noise at epsilon 2, the job's first:")[1].split("(simulated")[0]
    rows = [line.split("  ")[0] for line in table.strip().splitlines()]
    assert rows == ["noise", LAPLACE, GAUSSIAN, LOCAL]
    assert all(name in table for name in ("noisy-counts", "debiased-rr"))


@pytest.mark.parametrize(("people", "delta"), [(300, "1e-06"), (200_000, "1e-07")])
def test_the_promise_of_gaussian_noise_fails_for_fewer_than_one_person_in_ten_jobs(
    survey, people, delta
):
    config = plan_config(survey.set(ledger__delta=1e-5).config)
    setting = Setting(method="noisy-counts", epsilon=1.0, people=people, answers=6)
    found = [words for words, _ in tried_guarantees(config, setting, World(replicates=2))]
    assert f"Gaussian, delta {delta}" in [each.words for each in found]
