"""Plans of very many items: formulas in place of simulated surveys."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hushrank.flows.config.comparisons import Design
from hushrank.flows.planning.plan import formula
from hushrank.flows.planning.plan import survey as planned_surveys
from hushrank.flows.planning.plan.survey import Setting, accuracy_of, error_parts, plan_config
from hushrank.flows.planning.plan.world import MOST_SIMULATED, ErrorParts, World

BALANCED = World(design=Design.BALANCED)
UNEQUAL = World(design=Design.RANDOM)
N_ITEMS = 40


@pytest.fixture
def config(survey):
    return plan_config(survey.config, n_items=N_ITEMS)


@pytest.mark.parametrize(
    ("method", "epsilon"),
    [
        ("noisy-counts", 0.5),
        ("noisy-counts", 4.0),
        ("win-loss", 0.5),
        ("noisy-pairs", 2.0),
        ("perturbed-mle", 1.0),
    ],
)
def test_formulas_say_what_simulated_surveys_do(config, method, epsilon, monkeypatch):
    """Items that differ by 1 in log odds. A formula of twice the error is seen."""
    setting = Setting(method=method, epsilon=epsilon, people=8000, answers=6)
    simulated = accuracy_of(config, setting, replace(BALANCED, replicates=12))
    assert not simulated.by_formula
    monkeypatch.setattr(planned_surveys, "MOST_SIMULATED", N_ITEMS - 1)
    found = accuracy_of(config, setting, BALANCED)
    assert found.by_formula
    assert found.scale is simulated.scale
    assert found.order == pytest.approx(simulated.order, abs=0.015)
    # Few surveys miss the true share by 4 standard errors of a coin once in 10 000 runs.
    assert found.top == pytest.approx(simulated.top, abs=4 * 0.5 / 12**0.5)
    assert found.error == pytest.approx(simulated.error, rel=0.35)
    assert found.largest / simulated.largest == pytest.approx(1, abs=0.6)
    assert 0.6 < found.width / simulated.width < 1.5

    def twice(*arguments):
        parts = error_parts(*arguments)
        return ErrorParts(2 * parts.sampling, 2 * parts.privacy)

    monkeypatch.setattr(planned_surveys, "error_parts", twice)
    wrong = accuracy_of(config, setting, BALANCED)
    assert wrong.error > 1.35 * simulated.error


@pytest.mark.parametrize(
    ("method", "epsilon"),
    [
        ("win-loss", 0.5),
        ("win-loss", 4.0),
        ("noisy-pairs", 2.0),
        ("noisy-pairs", 8.0),
        ("perturbed-mle", 1.0),
        ("perturbed-mle", 4.0),
        ("debiased-rr", 6.0),
        ("debiased-rr", 18.0),
    ],
)
def test_formulas_hold_where_items_meet_unequally_often(survey, method, epsilon, monkeypatch):
    """By Zipf's law, so that the item shown most meets others 20 times as often as a typical one.

    Taking all items for equally exposed, as in a balanced design, is seen, and so is an error of
    the privacy part by half.
    """
    survey.set(input__design="random", method=method)
    if method == "debiased-rr":
        survey.set(
            input__ties="random",
            privacy={"unit": "local", "epsilon": epsilon, "max_contributions": 6},
        )
    config = plan_config(survey.config, n_items=N_ITEMS)
    setting = Setting(method=method, epsilon=epsilon, people=8000, answers=6)
    simulated = accuracy_of(config, setting, replace(UNEQUAL, replicates=12))
    assert not simulated.by_formula
    monkeypatch.setattr(planned_surveys, "MOST_SIMULATED", N_ITEMS - 1)
    found = accuracy_of(config, setting, UNEQUAL)
    assert found.by_formula
    assert found.order == pytest.approx(simulated.order, abs=0.02)
    assert found.top == pytest.approx(simulated.top, abs=4 * 0.5 / 12**0.5)
    assert found.error == pytest.approx(simulated.error, rel=0.25)
    assert 0.5 < found.largest / simulated.largest < 1.6
    assert 0.45 < found.width / simulated.width < 1.5
    balanced = accuracy_of(config, setting, BALANCED)
    assert balanced.error < 0.75 * simulated.error


@pytest.mark.parametrize("world", [UNEQUAL, BALANCED], ids=["random", "balanced"])
def test_scores_that_noise_rules_are_drawn_to_zero_as_fits_draw_them(survey, world, monkeypatch):
    """Without that, the formula has twice the error of the surveys of design random."""
    survey.set(input__design=f"{world.design}", method="win-loss")
    config = plan_config(survey.config, n_items=N_ITEMS)
    setting = Setting(method="win-loss", epsilon=0.1, people=8000, answers=6)
    simulated = accuracy_of(config, setting, replace(world, replicates=12))
    monkeypatch.setattr(planned_surveys, "MOST_SIMULATED", N_ITEMS - 1)
    found = accuracy_of(config, setting, world)
    assert found.error == pytest.approx(simulated.error, rel=0.35)
    assert found.error < found.equal
    assert found.largest == pytest.approx(simulated.largest, rel=0.5)
    assert found.order == pytest.approx(simulated.order, abs=0.07)


def test_true_scores_and_their_designs_are_shared_by_all_epsilons(survey, monkeypatch):
    """A plan of many items takes seconds because of it."""
    survey.set(input__design="random", method="win-loss")
    config, calls = plan_config(survey.config, n_items=160), []
    spectrum = formula._spectrum

    def counted(*arguments):
        calls.append(arguments)
        return spectrum(*arguments)

    monkeypatch.setattr(formula, "_spectrum", counted)
    formula._spectra.cache_clear()
    for epsilon, people in ((0.5, 9000), (1.0, 9000), (4.0, 20_000)):
        setting = Setting(method="win-loss", epsilon=epsilon, people=people, answers=6)
        assert accuracy_of(config, setting, UNEQUAL).by_formula
    assert len(calls) == formula.truths_of(160) == 15


@pytest.mark.parametrize("method", ["noisy-pairs", "win-loss", "auto"])
def test_a_plan_of_300_items_by_chance_simulates_no_survey(survey, method, monkeypatch):
    def never(*_arguments):
        raise AssertionError("a survey was simulated")

    monkeypatch.setattr(planned_surveys, "_one", never)
    survey.set(input__design="random", method=method)
    config = plan_config(survey.config, n_items=300)
    for epsilon in (0.1, 10.0):
        setting = Setting(method=method, epsilon=epsilon, people=20_000, answers=10)
        assert accuracy_of(config, setting, UNEQUAL).by_formula


@pytest.mark.parametrize("method", ["noisy-pairs", "win-loss"])
def test_a_plan_of_300_items_simulates_no_survey(survey, method, monkeypatch):
    def never(*_arguments):
        raise AssertionError("a survey was simulated")

    monkeypatch.setattr(planned_surveys, "_one", never)
    config = plan_config(survey.config, n_items=300)
    poor, good = (
        accuracy_of(config, Setting(method=method, epsilon=e, people=20_000, answers=10), BALANCED)
        for e in (0.1, 10.0)
    )
    assert poor.by_formula
    assert poor.order < good.order
    assert poor.error > good.error
    assert poor.width > good.width


def test_few_items_and_other_designs_are_simulated(config, survey, monkeypatch):
    monkeypatch.setattr(planned_surveys, "FEWEST", 2)
    setting = Setting(method="noisy-counts", epsilon=1.0, people=500, answers=6)
    assert N_ITEMS <= MOST_SIMULATED
    assert not accuracy_of(config, setting, BALANCED).by_formula
    many = plan_config(survey.config, n_items=MOST_SIMULATED + 1)
    assert accuracy_of(many, setting, BALANCED).by_formula
    assert not accuracy_of(many, setting, World(design=Design.ANY)).by_formula
    assert not accuracy_of(many, setting, UNEQUAL).by_formula  # shares won
    assert not accuracy_of(many, setting, replace(BALANCED, activity=((4, 1.0),))).by_formula


def test_the_command_says_which_numbers_are_by_formula(survey, capsys):
    from hushrank.flows.interfaces.cli.main import main

    arguments = ["plan", str(survey.config), "--items", "160", "--people", "9000"]
    main([*arguments, "--epsilon", "1", "--target", "order=0.8"])
    said = capsys.readouterr().out
    assert "with so many items (160) the numbers of" in said
    assert "follow from formulas, and no survey is simulated for them" in said


@pytest.mark.parametrize(("method", "epsilon"), [("win-loss", 1.0), ("noisy-pairs", 4.0)])
def test_formulas_hold_for_the_whole_of_groups(survey, method, epsilon, monkeypatch):
    """The whole has the noise of all groups, which a formula without groups would leave out."""
    survey.set(input__design="random", method=method)
    alone = plan_config(survey.config, n_items=N_ITEMS)
    survey.set(groups={"column": "language", "values": ["de", "en", "fr", "it"]})
    config = plan_config(survey.config, n_items=N_ITEMS)
    setting = Setting(method=method, epsilon=epsilon, people=8000, answers=6)
    simulated = accuracy_of(config, setting, replace(UNEQUAL, replicates=12))
    monkeypatch.setattr(planned_surveys, "MOST_SIMULATED", N_ITEMS - 1)
    found = accuracy_of(config, setting, UNEQUAL)
    assert found.by_formula
    assert found.error == pytest.approx(simulated.error, rel=0.25)
    assert found.order == pytest.approx(simulated.order, abs=0.02)
    assert accuracy_of(alone, setting, UNEQUAL).error < 0.9 * found.error
