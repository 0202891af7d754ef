"""`hushrank plan SURVEY.YAML`: predicted accuracy, from public parameters alone."""

from __future__ import annotations

import io
import math
import os
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from hushrank.estimation.rankings.ranking_evidence import pair_estimator
from hushrank.flows.config.privacy import Budget
from hushrank.flows.planning.plan.choice import methods_to_compare, verdict
from hushrank.flows.planning.plan.limits import limits_of
from hushrank.flows.planning.plan.survey import (
    Setting,
    accuracy_of,
    epsilon_for,
    plan_config,
    predicted,
)
from hushrank.flows.planning.plan.world import MEASURES, Accuracy, Target, World
from hushrank.flows.release.scale import Scale
from hushrank.privacy.mallows import concordance_probability

# Those that assume least first.
CENTRAL = ("noisy-counts", "win-loss", "perturbed-mle", "noisy-pairs", "one-shot")
LOCAL = ("debiased-rr", "rr-counts", "classic-rr", "laplace-rr")
FEW = World(replicates=12)


@pytest.fixture
def planned(survey):
    """A job whose answers are not there, cannot be read, and whose epsilon is open."""
    (survey.folder / "answers.parquet").unlink()
    text = survey.config.read_text()
    survey.config.write_text(re.sub(r"epsilon: 2.0", "epsilon:   # CHOOSE: how much", text))
    return survey


def local(survey):
    return survey.set(
        privacy={"unit": "local", "epsilon": 1.0},
        method="debiased-rr",
        input__ties="random",
    )


@pytest.mark.parametrize("source", ["epsilon_range", "epsilon_levels"])
def test_a_job_whose_people_choose_their_epsilon_can_be_planned(survey, command, source):
    own = {"unit": "local", source: [0.5, 4.0]}
    local(survey).set(privacy=own, input__columns__epsilon="epsilon")
    code, printed = command("plan", survey.config, "--people", 500)
    assert code == 0, printed
    assert "everybody chooses the same epsilon" in " ".join(printed.split())


def public(survey):
    stated = {"privacy__public_graph": True, "privacy__public_graph_statement": "all were asked"}
    return survey.set(method="noisy-pairs", input__ties="split", **stated)


def exam(survey):
    return survey.set(
        input={
            "kind": "responses",
            "paths": ["nothing.csv"],
            "layout": "long",
            "columns": {"user": "u", "item": "i", "correct": "c"},
        },
        privacy={"unit": "user", "epsilon": 2.0, "max_contributions": 3},
        method="spectral",
    )


def rows_of(printed: str) -> list[tuple[str, ...]]:
    found = re.findall(r"^ +([\d.]+) +(\d+) % +(\d+) % +([\d.]+)", printed, re.M)
    return [tuple(row) for row in found]


def test_the_plan_of_a_job_without_answers_and_epsilon(planned, command):
    plot = planned.folder / "plan.svg"
    code, printed = command("plan", planned.config, "--people", 100, "--plot", plot)
    assert code == 0, printed
    rows = rows_of(printed)
    assert [row[0] for row in rows] == ["0.25", "0.5", "1", "2", "4"]
    errors = [float(row[3]) for row in rows]
    assert errors == sorted(errors, reverse=True)
    assert errors[0] > 2 * errors[-1]
    assert printed.count("<- recommended") == 1
    assert re.search(r"Epsilon [\d.]+ is enough so that the best item comes out first", printed)
    assert re.search(r"^Take [a-z-]+: ", printed, re.M)
    assert "simulated: 100 people with 6 answers each" in printed
    assert "your data was not read; nothing was spent" in printed
    assert b"typical, by formula" in plot.read_bytes()
    assert not planned.ledger.exists()
    assert not planned.work.exists()
    assert not planned.output.exists()


def test_the_same_seed_gives_the_same_plan_and_another_one_does_not(planned, command):
    first, again, other = (
        command("plan", planned.config, "--people", 30, "--epsilon", "0.5", "--seed", seed)[1]
        for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other


def test_more_people_and_more_of_their_answers_are_compared(planned, command):
    arguments = ("--people", 50, "--people", 500, "--max-contributions", 3, "--epsilon", "1")
    code, printed = command("plan", planned.config, *arguments, "--max-contributions", 6)
    assert code == 0, printed
    found = re.findall(r"^ +1 +(50|500) +(3|6) +(\d+) %", printed, re.M)
    assert [(people, answers) for people, answers, _ in found] == [
        *(("50", "3"), ("50", "6"), ("500", "3"), ("500", "6")),
    ]


@pytest.mark.parametrize("method", CENTRAL)
def test_every_central_method_is_planned_and_gets_better_with_epsilon(survey, method):
    config = plan_config(survey.set(method=method, top_k=1).config)
    assert set(methods_to_compare(config)) == set(CENTRAL)
    setting = Setting(method=method, epsilon=0.3, people=60, answers=6)
    poor, good = (
        accuracy_of(config, replace(setting, epsilon=epsilon), World(replicates=40))
        for epsilon in (0.1, 5.0)
    )
    assert good.top > poor.top
    if method != "one-shot":
        assert good.error < poor.error
        assert good.order > poor.order
        assert good.width < poor.width


@pytest.mark.parametrize("method", LOCAL)
def test_every_local_method_is_planned_and_gets_better_with_epsilon(survey, method):
    config = plan_config(local(survey).set(method=method).config)
    assert set(methods_to_compare(config)) == set(LOCAL)
    setting = Setting(method=config.method, epsilon=0.3, people=60, answers=6)
    poor, good = (
        accuracy_of(config, replace(setting, epsilon=epsilon), World(replicates=40))
        for epsilon in (0.1, 5.0)
    )
    assert good.top > poor.top
    assert good.order > poor.order


def test_a_test_is_planned(survey):
    config = plan_config(exam(survey).config)
    assert methods_to_compare(config) == ("spectral",)
    setting = Setting(method="spectral", epsilon=8.0, people=400, answers=3)
    few, many = (
        accuracy_of(config, replace(setting, people=people), FEW) for people in (400, 8000)
    )
    assert few.scale is Scale.DIFFICULTY
    assert many.error < few.error
    assert many.order > 0.8


@pytest.mark.parametrize(
    ("make", "method", "epsilon", "people"),
    [
        (lambda survey: survey, "noisy-counts", 0.5, 400),
        (lambda survey: survey, "noisy-pairs", 2.0, 4000),
        (lambda survey: survey, "win-loss", 0.5, 4000),
        (public, "noisy-pairs", 1.0, 4000),
        (lambda survey: survey, "perturbed-mle", 0.5, 4000),
        (local, "debiased-rr", 1.0, 4000),
    ],
)
def test_formula_and_simulation_agree_where_items_are_alike(survey, make, method, epsilon, people):
    """The mean squared error of 60 simulated surveys of equal items, within its chance."""
    config = plan_config(make(survey).set(method=method).config)
    setting = Setting(method=method, epsilon=epsilon, people=people, answers=6)
    world = World(spread=0.02, replicates=60)
    found = accuracy_of(config, setting, world)
    formula = predicted(config, setting, world)
    assert formula is not None
    margin = 5 * found.spread["error"] + 0.12 * formula  # a mean is below the root of a mean square
    assert found.error == pytest.approx(formula, abs=margin)
    assert abs(found.error - 2 * formula) > margin  # a formula that is off by a factor is seen
    assert abs(found.error - formula / 2) > margin


@pytest.mark.parametrize("method", ["noisy-counts", "noisy-pairs", "perturbed-mle"])
def test_sampling_and_privacy_add_up_and_are_equal_where_the_plan_says(survey, method):
    config, world = plan_config(survey.set(method=method).config), World(spread=0.02)
    setting = Setting(method=method, epsilon=1.0, people=500, answers=6)
    limits = limits_of(config, setting, world)
    assert limits is not None
    whole = predicted(config, setting, world)
    assert math.hypot(limits.sampling, limits.privacy) == pytest.approx(whole)
    there = limits_of(config, replace(setting, people=limits.even), world)
    assert there.privacy == pytest.approx(there.sampling, rel=0.05)
    assert limits_of(config, replace(setting, epsilon=0.05), world).privacy_rules
    assert not limits_of(config, replace(setting, people=10**6), world).privacy_rules
    n_items = len(config.items.catalogue.names)
    assert limits.their_privacy == pytest.approx(n_items * math.log(n_items) / 500)
    assert limits.their_sampling == pytest.approx(math.sqrt(n_items * math.log(n_items) / 500))


def test_flips_cost_the_same_share_of_people_however_many_there_are(survey):
    config, world = plan_config(local(survey).config), World(spread=0.02)
    setting = Setting(method="debiased-rr", epsilon=1.0, people=500, answers=6)
    limits = limits_of(config, setting, world)
    assert limits is not None
    assert limits.even is None
    people = 1 / math.tanh(0.5) ** 2  # the weight of an answer is tanh(epsilon / 2)^2
    assert 1 + (limits.privacy / limits.sampling) ** 2 == pytest.approx(people, rel=0.02)
    assert f"{people:.3g} times as many people" in limits.text
    m = len(config.items.catalogue.names)  # [XSC] Theorem 2: a person answers m (m - 1) p / 2
    free = math.sqrt(math.log(m) / (m * 500 * (2 * 6 / (m * (m - 1)))))
    assert limits.their_sampling == pytest.approx(free)
    assert limits.their_privacy == pytest.approx(free * math.sqrt(people))
    per_person = config.privacy.model_copy(update={"budget": Budget.PER_USER})
    split = limits_of(
        config.model_copy(update={"privacy": per_person}), replace(setting, epsilon=6.0), world
    )
    assert split.their_privacy == pytest.approx(limits.their_privacy)


@pytest.mark.parametrize("mechanism", ["mallows", "random-pairs"])
def test_private_rankings_have_the_error_that_draws_have_and_name_their_theorem(survey, mechanism):
    privacy = {"unit": "local", "epsilon": 4.0, "mechanism": mechanism, "max_contributions": 1}
    privacy |= {"pairs": 1} if mechanism == "random-pairs" else {}
    rankings = {"kind": "rankings", "paths": ["answers.parquet"]}
    job = survey.set(input=rankings, privacy=privacy, method="kemeny", items={"count": 4})
    setting = Setting(method="kemeny", epsilon=4.0, people=2_000, answers=1)
    limits = limits_of(plan_config(job.config), setting, World())
    assert limits is not None
    assert limits.even is None
    assert limits.sampling == pytest.approx(0.5 / math.sqrt(2_000))
    if mechanism == "random-pairs":  # a pair is drawn once in 6, and undone by tanh(2)
        worse = 6 / math.tanh(2) ** 2
        assert not limits.theorem
    else:
        kept = concordance_probability(np.array([1]), 4.0, 4)[0]
        table = pair_estimator(4, 4.0)
        margins = (table - table.T)[~np.eye(4, dtype=bool)]
        worse = min(1 / (2 * kept - 1) ** 2, np.mean(margins**2))
        psi = 1 / math.tanh(4 / 6)
        assert limits.their_privacy == pytest.approx(limits.their_sampling * psi**2)
        assert limits.their_sampling == pytest.approx(4 * math.log(500) / 2_000)
        assert "one common order" in limits.text
    assert 1 + (limits.privacy / limits.sampling) ** 2 == pytest.approx(worse)
    assert f"{worse:.3g} times as many people" in limits.text


def test_the_example_of_the_docs_is_what_the_plan_says(survey, checkout):
    """docs/reproduction.md, Theory: 8 items, 500 people with 10 answers each, epsilon 1."""
    job = survey.set(
        items={"count": 8}, privacy__epsilon=1.0, privacy__max_contributions=10,
        method="win-loss", input__design="random",
    )  # fmt: skip
    setting = Setting(method="win-loss", epsilon=1.0, people=500, answers=10)
    limits = limits_of(plan_config(job.config), setting, World())
    page = " ".join((checkout / "docs" / "reproduction.md").read_text().split())
    assert f"are {limits.their_sampling:.2g} and {limits.their_privacy:.2g}, which looks" in page
    assert f"`win-loss` are {limits.sampling:.2g} and {limits.privacy:.2f}, because" in page
    assert f"with about {float(f'{limits.even:.2g}'):,.0f} people both are equal" in page


def test_the_noise_of_a_count_is_at_the_rho_that_epsilon_and_delta_give(survey):
    """[NZ] section 4: its epsilon is that of zCDP, some five times smaller at this delta."""
    job = exam(survey).set(privacy__noise="gaussian", privacy__delta=1e-6)
    config, world = plan_config(job.config), World(spread=0.02)
    setting = Setting(method="spectral", epsilon=1.0, people=500, answers=6)
    limits, m = limits_of(config, setting, world), len(config.items.catalogue.names)

    def spare(sigma: float) -> float:  # delta of continuous Gaussian noise at epsilon 1, less 1e-6
        low, high = (norm.cdf(side / (2 * sigma) - sigma) for side in (-1, 1))
        return high - math.e * low - 1e-6

    rho = 1 / (2 * brentq(spare, 1, 20) ** 2)
    assert limits.their_sampling == pytest.approx(math.sqrt(500) * min(6, m) / m)
    assert limits.their_privacy == pytest.approx(math.sqrt(m * (m - 1) / (2 * rho)), rel=0.01)
    assert limits.their_privacy > 4 * math.sqrt(m * (m - 1))
    laplace = plan_config(exam(survey).set(privacy__noise="laplace", privacy__delta=None).config)
    assert not limits_of(laplace, setting, world).theorem  # of Gaussian noise only


def test_the_epsilon_that_is_enough_is_enough_and_less_is_not(survey):
    config = plan_config(survey.config)
    setting = Setting(method=config.method, epsilon=1.0, people=60, answers=6)
    target = Target("error", 0.06)
    needed = epsilon_for(config, target, setting, FEW)
    assert target.met(accuracy_of(config, replace(setting, epsilon=needed), FEW))
    assert not target.met(accuracy_of(config, replace(setting, epsilon=0.8 * needed), FEW))
    assert epsilon_for(config, Target("error", 1e-6), setting, FEW) == math.inf


def accuracy(**changes) -> Accuracy:
    values = dict.fromkeys(MEASURES, 0.9)
    return Accuracy(**(values | changes), spread=dict.fromkeys(values, 0.01), scale=Scale.LOG_ODDS)


def test_the_method_is_the_best_or_the_plainest_of_equals(survey):
    config = plan_config(survey.config)
    tried = {
        method: Setting(method=method, epsilon=1.0, people=60, answers=6) for method in CENTRAL
    }

    def take(tops: dict[str, float], job=config) -> str:
        found = [(tried[method], accuracy(top=top)) for method, top in tops.items()]
        return verdict(job, found, Target("top", 0.9)).setting.method

    counts, win_loss, mle, pairs, one_shot = CENTRAL
    assert take({counts: 0.80, mle: 0.90, pairs: 0.7}) == mle
    assert take({counts: 0.89, mle: 0.90, pairs: 0.7}) == counts
    assert take({counts: 0.80, pairs: 0.70, one_shot: 0.99}) == counts
    listed = plan_config(survey.set(top_k=1).config)
    assert take({counts: 0.80, pairs: 0.70, one_shot: 0.99}, listed) == one_shot
    auto = plan_config(survey.set(top_k=None, method="auto").config)
    assert take({win_loss: 0.89, counts: 0.90, mle: 0.90}, auto) == win_loss  # what auto took
    assert take({win_loss: 0.80, counts: 0.90, mle: 0.90}, auto) == counts
    random = plan_config(survey.set(input__design="random").config)  # of method auto
    assert take({counts: 0.99, win_loss: 0.80, mle: 0.70}, random) == win_loss


@pytest.mark.parametrize(
    ("changes", "arguments", "message"),
    [
        ({}, (), "--people: missing. Say about how many people will answer: --people 300"),
        ({}, ("--people", 0), "--people must be at least 1, got 0"),
        ({}, ("--people", 9, "--target", "top"), "--target top: must be one of top, best, order"),
        ({}, ("--people", 9, "--target", "top=2"), "--target top=2: must be one of"),
        ({}, ("--people", 9, "--epsilon", "1:2"), "--epsilon 1:2: with a YAML file, give single"),
        ({}, ("--people", 9, "--answers", 3), "--answers and --per-user apply only without"),
        ({}, ("--people", 9, "--spread", -1), "--spread must be from 0 to 1000, got -1.0"),
        ({}, ("--people", 9, "--plot", "plan.pdf"), "--plot plan.pdf: must end in .svg or .png"),
        ({"items": {"count": 3001}}, ("--people", 9), "items must be at most 3000 to simulate a"),
        ({"method": "nonsense"}, ("--people", 9), "method"),
    ],
)
def test_mistakes_are_named(survey, command, changes, arguments, message):
    code, printed = command("plan", survey.set(**changes).config, *arguments)
    assert code == 2, printed
    assert message in printed


def test_items_that_are_not_listed_yet_are_counted(planned, command):
    text = planned.config.read_text()
    planned.config.write_text(re.sub(r"items:\n(- .*\n|  .*\n)+", "items:  # CHOOSE\n", text))
    code, printed = command("plan", planned.config, "--people", 50)
    assert code == 2
    assert "items: line" in printed
    code, printed = command("plan", planned.config, "--people", 50, "--items", 5, "--epsilon", "2")
    assert code == 0, printed


def test_only_the_configuration_is_opened(planned, command, monkeypatch):
    """Nothing but the YAML file is opened in its folder."""
    opened = []

    def noting(true_open):
        def noted(path, *arguments, **named):
            if isinstance(path, str | Path):
                opened.append(Path(path))
            return true_open(path, *arguments, **named)

        return noted

    for module in (os, io):  # `Path.open` is `io.open`
        monkeypatch.setattr(module, "open", noting(module.open))
    code, _ = command("plan", planned.config, "--people", 20, "--epsilon", "1")
    assert code == 0
    assert {path for path in opened if path.is_relative_to(planned.folder)} == {planned.config}
