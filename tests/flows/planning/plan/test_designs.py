"""Plans of surveys that are not balanced: what is simulated, who is compared, what is taken."""

from __future__ import annotations

import csv
import math

import numpy as np
import pytest

from hushrank.estimation.common.links import LOGISTIC
from hushrank.flows.config.comparisons import Design
from hushrank.flows.planning.plan.choice import methods_to_compare
from hushrank.flows.planning.plan.display import two_digits
from hushrank.flows.planning.plan.survey import Setting, accuracy_of, is_right, plan_config
from hushrank.flows.planning.plan.world import Exposed, World
from hushrank.pipelines.simulate.planned_survey import PlannedSurvey

FEW = World(replicates=12)
BY_WINS = ("noisy-counts", "one-shot")


@pytest.fixture
def arena(survey):
    """Twelve items, of which each person compares few."""
    (survey.folder / "answers.parquet").unlink()
    return survey.set(
        items={"count": 12},
        method="auto",
        input__design="random",
        privacy={"unit": "user", "epsilon": 2.0, "max_contributions": 5},
    )


def plan(command, survey, *arguments):
    code, printed = command("plan", survey.config, "--epsilon", "2", *arguments)
    assert code == 0, printed
    return printed


def write_exposures(survey, exposures: dict[str, object]):
    path = survey.folder / "shown.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["item", "exposure"], *exposures.items()])
    return path


@pytest.mark.parametrize(
    ("design", "said", "method"),
    [
        ("balanced", "balanced, every pair of items is asked about equally often.", "win-loss"),
        ("random", "and pairs are random.", "win-loss"),
        ("any", "and items of similar strength are compared more often.", "noisy-pairs"),
    ],
)
def test_the_stated_design_is_simulated_and_auto_chooses_for_it(
    arena, command, design, said, method
):
    printed = plan(command, arena.set(input__design=design), "--people", 500)
    assert printed.splitlines()[0].startswith(f"Simulated design: {design}")
    assert printed.splitlines()[0].endswith(said)
    assert f"Method auto takes {method}: " in printed
    assert f"(input.design: {design})" in printed
    compared = printed.split("Methods at epsilon")[1].split("(simulated")[0]
    assert compared.splitlines()[2].startswith(method)
    told = design != "any"  # for which one method is right, and nothing is compared
    assert (f"(design {design})." in compared) is told
    assert all((name in compared) is (design == "balanced") for name in BY_WINS)
    assert "\nnaive: clipped + Bradley-Terry " in compared
    assert "\nnaive: noisy wins " in compared


def test_another_design_stands_in_place_of_the_stated_one(arena, command):
    printed = plan(command, arena, "--people", 500, "--design", "balanced")
    assert "Simulated design: balanced" in printed
    assert "Method auto takes win-loss" in printed
    text = arena.config.read_text().replace("design: random", "design:   # CHOOSE: how")
    arena.config.write_text(text)
    assert command("plan", arena.config, "--people", 500)[0] == 2
    assert "Simulated design: any" in plan(command, arena, "--people", 500, "--design", "any")


def test_a_method_that_is_not_right_is_said_so_and_never_taken(arena, command):
    arena.set(input__design="balanced", method="noisy-counts")
    printed = plan(command, arena, "--people", 20_000, "--design", "random", "--target", "top=0.1")
    assert "<- recommended" not in printed
    assert printed.count("<- not suited to this design") == 2  # in both tables
    assert "No epsilon helps: noisy-counts does not suit this design" in printed
    assert "\nTake win-loss: " in printed


def test_wins_alone_do_not_rank_where_exposure_differs(arena):
    """Without noise to speak of: what auto takes finds the order, and wins do not."""
    config = plan_config(arena.config)
    world = World(replicates=12, design=Design.RANDOM)
    wins, auto = (
        accuracy_of(config, Setting(method=each, epsilon=50.0, people=20_000, answers=5), world)
        for each in ("noisy-counts", "auto")
    )
    assert auto.order > 0.95 > 0.8 > wins.order
    assert is_right(config, "win-loss")
    assert not is_right(config, "noisy-counts")


def test_shares_of_privatised_answers_are_for_balanced_designs(arena):
    arena.set(privacy={"unit": "local", "epsilon": 1.0}, method="debiased-rr", input__ties="random")
    unbalanced = methods_to_compare(plan_config(arena.config))
    assert "rr-counts" not in unbalanced
    balanced = methods_to_compare(plan_config(arena.set(input__design="balanced").config))
    assert set(balanced) == {*unbalanced, "rr-counts"}


def test_exposures_from_a_public_column_are_those_of_the_simulated_survey(arena, command):
    shown = {str(item): 10.0 if item < 2 else 3.0 for item in range(12)}
    path = write_exposures(arena, shown)
    printed = plan(command, arena, "--people", 500, "--exposures", path)
    assert (
        "the item shown most is shown 3.3 times as often as the median item (shown.csv)" in printed
    )
    exposed = Exposed(zipf=None, shown=tuple(shown.values()))
    meetings = World(design=Design.RANDOM, exposed=exposed).meetings(12)
    survey = PlannedSurvey(
        n_items=12, people=40_000, answers=5, distinct=False, link=LOGISTIC, meetings=meetings
    )
    wins = survey.pair_wins(0)
    shares = (wins.sum(axis=0) + wins.sum(axis=1)) / (2 * wins.sum())
    wanted = np.array(list(shown.values())) / sum(shown.values())
    assert shares == pytest.approx(wanted, rel=0.02)
    assert survey.exposures(0) == pytest.approx(400_000 * wanted, rel=1e-6)


@pytest.mark.parametrize("distinct", [False, True])
def test_zipf_exposures_and_matched_partners(distinct):
    def survey(design: Design) -> PlannedSurvey:
        return PlannedSurvey(
            n_items=40,
            people=10_000,
            answers=10,
            distinct=distinct,
            link=LOGISTIC,
            meetings=World(design=design).meetings(40),
        )

    random, matched = survey(Design.RANDOM), survey(Design.ANY)
    truth = random.truth(0)
    i, j = np.triu_indices(40, 1)
    gaps = []
    for each in (random, matched):
        wins = each.pair_wins(0)
        met = (wins + wins.T)[i, j]
        assert met.sum() == pytest.approx(100_000, rel=0.02)
        assert (met <= 10_000).all() or not distinct
        gaps.append((np.abs(truth[i] - truth[j]) * met).sum() / met.sum())
    assert gaps[1] < 0.8 * gaps[0]
    exposures = random.exposures(0)
    assert list(exposures) == sorted(exposures, reverse=True)
    assert exposures[0] > 10 * exposures[-1]
    assert World(design=Design.BALANCED).meetings(40) is None


def test_people_who_are_asked_every_pair_make_any_design_balanced(arena, command):
    arena.set(
        items={"count": 4},
        privacy={"unit": "user", "epsilon": 2.0, "max_contributions": 6, "distinct_pairs": True},
    )
    printed = plan(command, arena, "--people", 300)
    assert "about equally often, because each person is asked nearly all pairs" in printed


@pytest.mark.parametrize(
    ("changes", "arguments", "message"),
    [
        ({}, ("--design", "odd"), "--design odd: must be balanced, random, any"),
        ({}, ("--zipf", 9), "--zipf must be from 0 to 5, got 9"),
        (
            {},
            ("--zipf", 1, "--exposures", "x.csv"),
            "--zipf and --exposures: give only one of them",
        ),
        ({"input__design": "balanced"}, ("--zipf", 1), "--zipf: needs a design that is not"),
        ({}, ("--exposures", "nothing.csv"), "nothing.csv: cannot be read"),
        ({"method": "noisy-counts"}, ("--people", 5), "method: noisy-counts ranks by wins"),
    ],
)
def test_mistakes_are_named(arena, command, changes, arguments, message):
    code, printed = command("plan", arena.set(**changes).config, "--people", 9, *arguments)
    assert code == 2, printed
    assert message in printed


@pytest.mark.parametrize(
    ("exposures", "message"),
    [
        ({"0": 1}, "item '1' is missing; add a line for every item"),
        ({"zebra": 1}, "line 2: item 'zebra' is not in the catalogue"),
        ({"0": -1}, "line 2: exposure must be a number >= 0, got '-1'"),
        ({"0": "many"}, "line 2: exposure must be a number >= 0, got 'many'"),
        ({str(item): 1 + 50 * (item == 3) for item in range(12)}, "item '3' was shown more often"),
    ],
)
def test_numbers_that_are_no_exposures_are_refused(arena, command, exposures, message):
    path = write_exposures(arena, exposures)
    code, printed = command("plan", arena.config, "--people", 9, "--exposures", path)
    assert code == 2
    assert message in printed


def test_noise_that_hides_everything_is_said_in_words(arena, command):
    printed = plan(command, arena, "--people", 30, "--epsilon", "0.01")
    first = next(line for line in printed.splitlines() if line.strip().startswith("0.01"))
    assert "unknown" in first
    assert "<- nothing learned in 100 %" in first
    assert "unknown: errors are larger than if all items were called equal" in printed
    measured = printed.split("Noise at")[0]  # where delta is 1e-06
    assert not any(mark in measured for mark in ("e+0", "e-0", "nan"))


def test_items_that_are_called_equal_are_in_half_the_right_order(arena):
    found = accuracy_of(
        plan_config(arena.config),
        Setting(method="auto", epsilon=0.001, people=10, answers=5),
        World(replicates=40, design=Design.RANDOM),
    )
    assert found.informative == 0
    assert found.order == 0.5
    assert found.error == found.equal


def test_methods_without_groups_are_not_tried_where_there_are_groups(arena, command):
    """`perturbed-mle` ranks groups only beside covariates."""
    arena.set(groups={"column": "language", "values": ["de", "fr"]})
    printed = plan(command, arena, "--people", 200)
    methods = printed.split("Methods at epsilon")[1].split("Take ")[0]
    assert "win-loss" in methods
    assert "perturbed-mle" not in methods


@pytest.mark.parametrize(
    ("value", "text"),
    [(160.3, "160"), (12.34, "12"), (1.234, "1.2"), (2.0, "2"), (0.0567, "0.057"), (0.0, "0"),
     (0.000012, "0.000012"), (0.996, "1"), (math.inf, "inf")],
)  # fmt: skip
def test_numbers_have_two_digits_and_no_exponent(value, text):
    assert two_digits(value) == text
