"""Epsilon that buys nothing is refused before anything is read; what no formula tells, passes."""

from __future__ import annotations

import json
import re
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

import hushrank as hr
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import ConfigError, MethodRefused
from hushrank.flows.methods.registry import calibrate, load_config
from hushrank.flows.planning.plan.survey import (
    MANY_PEOPLE,
    Setting,
    Worth,
    accuracy_of,
    plan_config,
    worth_of,
)
from hushrank.flows.planning.plan.world import World
from hushrank.flows.run.job import check_worth, prepare_job, read_survey
from tests.flows.conftest import Survey

NOTHING = {"privacy__epsilon": 0.00005}


def reached(config: SurveyConfig) -> Worth:
    """What a job reaches, of which a formula tells that."""
    found = worth_of(config, calibrate(config))
    assert found is not None
    return found


@pytest.fixture
def many(survey: Survey) -> Survey:
    """A job whose noise hides four items even from `MANY_PEOPLE` people."""
    return survey.set(**NOTHING)


@pytest.mark.parametrize(
    "words", [("validate",), ("run", "--direct"), ("plan", "--epsilon", "0.00005")]
)
def test_epsilon_that_buys_nothing_is_refused_and_nothing_is_spent(many, command, words):
    people = ("--people", "300") if words[0] == "plan" else ()
    code, printed = command(words[0], many.config, *words[1:], *people)
    assert code == 2, printed
    said = " ".join(printed.split())
    assert "privacy.epsilon: 5e-05 buys nothing here: even with 100,000 people" in said
    assert "--anyway (in Python anyway=True) continues" in said
    assert not many.ledger.exists()
    code, printed = command(words[0], many.config, *words[1:], *people, "--anyway")
    assert code == 0, printed


def test_a_release_that_is_paid_for_is_published_again_without_a_word(many, command):
    assert command("run", many.config, "--direct", "--anyway")[0] == 0
    before = many.ledger.read_bytes()
    code, printed = command("run", many.config, "--direct")
    assert code == 0, printed
    assert many.ledger.read_bytes() == before


def test_as_many_people_answer_as_were_asked_if_the_job_says_so(survey, tmp_path):
    survey.set(privacy__epsilon=0.05)
    whole = reached(load_config(survey.config))
    assert whole.people == MANY_PEOPLE
    assert not whole.nothing
    survey.set(privacy__look={"share": 0.02, "people": 40})
    few = reached(load_config(survey.config))
    assert few.people == 40
    assert few.nothing


@pytest.mark.parametrize("unit", ["user", "comparison"])
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_the_advice_is_what_the_job_has_not_done(survey, command, unit, noise):
    """Single answers are counted as answers, and have no bound that could be lower."""
    of_people = None if unit == "comparison" else 1
    survey.set(privacy__unit=unit, privacy__max_contributions=of_people)
    survey.set(privacy__distinct_pairs=None, method="win-loss")
    survey.set(privacy__noise=noise, privacy__delta=1e-6 if noise == "gaussian" else None)
    told = {"user": "people", "comparison": "answers"}[unit]
    printed = " ".join(command("validate", survey.config)[1].split())
    assert re.search(rf"Fewer than about [\d,]+ {told} would tell nothing", printed), printed
    code, printed = command("validate", survey.set(privacy__epsilon=0.000005).config)
    assert code == 2, printed
    said = " ".join(printed.split())
    assert f"even with 100,000 {told}, the standard error" in said
    assert ("take noise: gaussian" in said) is (noise == "laplace")
    assert ("lower max_contributions" in said) is (unit == "user")


@pytest.mark.parametrize(
    "words",
    [("catch-up",), ("backfill", "--from", "2024-11-16", "--to", "2024-11-17")],
    ids=lambda words: words[0],
)
def test_so_it_is_before_any_night(many, command, words):
    many.set(input__paths=["{date}.parquet"], schedule={"catch_up_days": 3, "empty": "fail"})
    for back in range(4):
        yesterday = (datetime.now(UTC) - timedelta(days=1 + back)).date()
        for night in (yesterday, date(2024, 11, 16), date(2024, 11, 17)):
            copy = many.folder / f"{night}.parquet"
            copy.write_bytes((many.folder / "answers.parquet").read_bytes())
    code, printed = command(words[0], many.config, *words[1:], "--direct")
    assert code == 2, printed
    assert printed.count("buys nothing here") == 1
    assert "RESERVE" not in printed
    assert not many.ledger.exists() or "reserve" not in many.ledger.read_text()


def test_so_it_is_in_python(many, tmp_path):
    with pytest.raises(MethodRefused, match="buys nothing here"):
        hr.run(many.config)
    rows = [{"u": str(k), "l": "a", "r": "b", "w": "a"} for k in range(20)]
    asked = {
        "name": "zoo", "items": ["a", "b"], "user": "u", "left": "l", "right": "r", "winner": "w",
        "epsilon": 1e-5, "max_contributions": 1, "ledger": tmp_path / "of_table.jsonl",
    }  # fmt: skip
    with pytest.raises(MethodRefused, match="epsilon: 1e-05 buys nothing here"):
        hr.rank(rows, **asked)
    with pytest.raises(ConfigError, match=r"^epsilon: 1e-05 buys nothing here"):
        hr.plan(people=300, **{**asked, "ledger": None}, epsilons=[1e-5])
    hr.rank(rows, **asked, anyway=True)


def test_no_formula_passes_and_validate_says_so(survey, command):
    survey.set(method="one-shot", top_k=2)
    code, printed = command("validate", survey.config, "--json")
    assert code == 0, printed
    notes = " ".join(json.loads(printed)["notes"])
    assert "No formula predicts whether this epsilon is enough" in notes


def test_rho_is_told_as_epsilon_is(survey, command):
    gaussian = {"unit": "user", "noise": "gaussian", "max_contributions": 6}
    survey.set(privacy={**gaussian, "rho": 0.1})
    code, printed = command("validate", survey.config, "--json")
    assert code == 0, printed
    assert "people would tell nothing at this epsilon" in printed
    survey.set(privacy={**gaussian, "rho": 1e-12})
    code, printed = command("validate", survey.config)
    assert code == 2, printed
    assert "privacy.rho: 1e-12 buys nothing here" in printed


def test_six_hundred_items_with_laplace_noise_need_more_people_than_most_have(tmp_path, command):
    """600 items of which a person answers 60: 2,000 of them learn nothing, and 100,000 would."""
    columns = [f"Q{k}" for k in range(600)]
    (tmp_path / "x.csv").write_text(f"p,{','.join(columns)}\n1{',1' * 600}\n")
    content = (
        "name: quiz\n"
        "input: {kind: responses, layout: wide, paths: [x.csv], columns: {user: p}}\n"
        f"items: {{names: [{', '.join(columns)}]}}\n"
        "privacy: {unit: user, epsilon: 2.0, max_contributions: 60, look: LOOK}\n"
        "method: spectral\noutput: out\nconfidential: work\nledger: {path: l, epsilon: 10}\n"
    )
    job = tmp_path / "quiz.yaml"
    job.write_text(content.replace("LOOK", "0.02"))
    code, printed = command("validate", job)
    assert code == 0, printed
    assert re.search("Fewer than about 4.,000 people would tell nothing", printed), printed
    job.write_text(content.replace("LOOK", "{share: 0.02, people: 2000}"))
    for words in (("validate",), ("run", "--direct")):
        code, printed = command(words[0], job, *words[1:])
        assert code == 2, printed
        assert "buys nothing here: even with 2,000 people" in printed
    job.write_text(content.replace("LOOK", "0.02"))
    note = check_worth(prepare_job(read_survey(job)))
    assert re.search("fewer than about 4.,000 people nothing can be learned", note), note
    assert not check_worth(prepare_job(read_survey(job, anyway=True)))


@pytest.mark.parametrize("method", ["borda", "bradley-terry", "kemeny", "footrule"])
@pytest.mark.parametrize(("noise", "people"), [("gaussian", 1_000), ("laplace", 3_000)])
def test_the_formula_of_rankings_is_near_the_error(tmp_path, method, noise, people):
    content = (
        "name: vote\ninput: {kind: rankings, layout: list, paths: [x.csv],"
        " columns: {user: u, ranking: r}}\nitems: {count: 8}\n"
        f"privacy: {{unit: user, epsilon: 1.0, max_contributions: 1, noise: {noise},"
        f" look: {{share: 0.02, people: {people}}}"
        f"{', delta: 1.0e-6' * (noise == 'gaussian')}}}\n"
        f"method: {method}\noutput: out\nconfidential: work\n"
        "ledger: {path: l, epsilon: 10, delta: 1.0e-5}\n"
    )
    (tmp_path / "vote.yaml").write_text(content)
    config = plan_config(tmp_path / "vote.yaml")
    found = reached(config)
    setting = Setting(method=method, epsilon=1.0, people=people, answers=1)
    tried = accuracy_of(config, setting, World(design=None, replicates=12))
    assert 0.35 < found.error / tried.error < 1.6


@pytest.mark.parametrize(("epsilon", "people"), [(1.0, 1_000), (0.2, 5_000)])
def test_the_formula_of_tests_is_the_error_at_best(tmp_path: Path, epsilon, people):
    content = (
        "name: quiz\ninput: {kind: responses, paths: [x.csv]}\nitems: {count: 20}\n"
        f"privacy: {{unit: user, epsilon: {epsilon}, max_contributions: 10,"
        f" look: {{share: 0.02, people: {people}}}}}\n"
        "method: spectral\noutput: out\nconfidential: work\nledger: {path: l, epsilon: 10}\n"
    )
    (tmp_path / "quiz.yaml").write_text(content)
    config = plan_config(tmp_path / "quiz.yaml")
    found = reached(config)
    setting = Setting(method="spectral", epsilon=epsilon, people=people, answers=10)
    tried = accuracy_of(config, setting, World(design=None, replicates=3))
    assert 0.6 < found.error / tried.error < 1.6
    assert found.spread == pytest.approx(tried.equal, rel=0.3)
