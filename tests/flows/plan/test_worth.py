"""Epsilon that buys nothing is refused before anything is read; what no formula tells, passes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hushrank.flows.methods.registry import load_config
from hushrank.flows.plan.survey import Setting, accuracy_of, plan_config
from hushrank.flows.plan.world import World
from hushrank.flows.plan.worth import MANY_PEOPLE, worth_of
from tests.flows.conftest import Survey

NOTHING = {"privacy__epsilon": 0.00005}


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
    assert "privacy.epsilon: 5e-05 buys nothing here: even if 100,000 people answer" in said
    assert "--anyway goes on" in said
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
    whole = worth_of(load_config(survey.config))
    assert whole is not None
    assert whole.people == MANY_PEOPLE
    assert not whole.nothing
    survey.set(privacy__look={"share": 0.02, "people": 40})
    few = worth_of(load_config(survey.config))
    assert few is not None
    assert few.people == 40
    assert few.nothing


@pytest.mark.parametrize(
    "changes",
    [
        {"method": "one-shot", "top_k": 2},
        {"privacy": {"unit": "user", "rho": 0.1, "noise": "gaussian", "max_contributions": 6}},
    ],
)
def test_what_no_formula_tells_passes_and_validate_says_so(survey, command, changes):
    code, printed = command("validate", survey.set(**changes).config, "--json")
    assert code == 0, printed
    notes = " ".join(json.loads(printed)["notes"])
    assert "No formula tells beforehand whether this epsilon is enough" in notes


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
    found = worth_of(config)
    assert found is not None
    setting = Setting(method="spectral", epsilon=epsilon, people=people, answers=10)
    tried = accuracy_of(config, setting, World(design=None, replicates=3))
    assert 0.3 < found.error / tried.error < 1.1
    assert found.spread == pytest.approx(tried.equal, rel=0.3)
