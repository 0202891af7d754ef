"""A delta at which too many people may be exposed is refused everywhere, unless it is accepted."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

import hushrank as hr
from hushrank.flows.config.privacy import check_deltas, share_of_people, usual_delta
from hushrank.flows.errors import ConfigError
from hushrank.flows.interfaces.cli.schedule_commands import _parameters
from tests.flows.conftest import ITEMS, InProcessReducer, answers

LARGE = {
    "privacy": {
        "unit": "user", "epsilon": 2.0, "max_contributions": 6, "noise": "gaussian", "delta": 0.3,
    },
    "ledger": {"path": "ledger.jsonl", "epsilon": 10, "delta": 0.3},
}  # fmt: skip
SAID = (
    "privacy.delta: must be at most 1e-05, got 0.3, at which the promise may fail for 3 people in"
    " 10; write for example delta: 1.0e-06, or accept it with --anyway"
)


@pytest.mark.parametrize(
    ("delta", "words"),
    [
        (0.3, "3 people in 10"),
        (1e-6, "1 person in 1,000,000"),
        (2.5e-6, "25 people in 10,000,000"),
        (1.234e-5, "13 people in 1,000,000"),
        (1e-50, "1 person in 10^50"),
    ],
)
def test_a_delta_is_told_as_people(delta, words):
    assert share_of_people(delta) == words


@pytest.mark.parametrize(("people", "most"), [(None, 1e-5), (10_000, 1e-5), (200_000, 5e-7)])
def test_the_limit_is_1e_5_or_a_tenth_of_one_person(people, most):
    assert usual_delta(people) in (1e-6, 1e-7)
    for fine in (0.0, usual_delta(people), most):
        check_deltas("x", {"privacy.delta": fine}, anyway=False, people=people)
    with pytest.raises(ConfigError, match=r"x: privacy\.delta: must be at most"):
        check_deltas("x", {"privacy.delta": 1.01 * most}, anyway=False, people=people)
    check_deltas("x", {"privacy.delta": 1.01 * most}, anyway=True, people=people)


@pytest.mark.parametrize(
    "words",
    [
        ["validate", "{}"],
        ["run", "{}"],
        ["run", "{}", "--plan"],
        ["plan", "{}", "--people", 50],
        ["catch-up", "{}"],
        ["backfill", "{}", "--from", "2026-11-01", "--to", "2026-11-02"],
        ["serve", "{}", "--cron", "0 2 * * *"],
        ["deploy", "{}", "--cron", "0 2 * * *"],
        ["survey", "build", "{}"],
        ["survey", "tokens", "{}", 3],
        ["collect", "{}"],
    ],
    ids=lambda words: " ".join(map(str, words)).replace(" {}", ""),
)
def test_every_command_refuses_a_large_delta_and_spends_nothing(survey, command, words):
    survey.set(**LARGE)
    code, said = command(*(str(word).format(survey.config) for word in words))
    assert code == 2
    assert f"{survey.config}: {SAID}" in " ".join(said.split())
    assert f"{survey.config}: ledger.delta: must be at most" in said
    assert "Nothing was read or spent." in said
    assert not survey.ledger.exists()


def test_a_ledger_of_a_large_delta_is_read_and_used_only_with_anyway(survey, command):
    survey.set(**LARGE)
    code, said = command("run", survey.config, "--direct", "--anyway")
    assert code == 0, said
    assert "At worst what that person answered is then exposed: 3 people in 10." in said
    before = survey.ledger.read_bytes()
    survey.set(privacy__epsilon=1.0, output="out2")
    code, said = command("run", survey.config, "--direct")
    assert code == 2
    assert SAID in said
    for words in (["ledger", "show"], ["ledger", "forecast"], ["ledger", "verify"], ["history"]):
        code, said = command(*words, survey.set(output="out").config)
        assert code == 0, said
    assert survey.ledger.read_bytes() == before


def test_the_people_of_a_plan_and_of_tokens_lower_the_limit(survey, command):
    survey.set(ledger__delta=1e-6)
    assert command("plan", survey.config, "--people", 50)[0] == 0
    code, said = command("plan", survey.config, "--people", 200_000)
    assert code == 2
    assert "ledger.delta: must be at most 5e-07, which is 1 / (10 * 200,000 people)" in said
    stream = ["plan", "--stream", 10, "--habit", 0.5, "--people", 200_000]
    code, said = command(*stream, "--delta", 1e-6)
    assert code == 2
    assert "plan --stream: --delta: must be at most 5e-07" in said


def test_a_schedule_passes_anyway_on_and_refuses_without_it(survey, monkeypatch):
    from hushrank.flows.nights import scheduled

    assert _parameters("s.yaml", False) == {"survey": "s.yaml"}
    assert _parameters("s.yaml", True) == {"survey": "s.yaml", "anyway": True}
    monkeypatch.setattr(scheduled, "Reducer", InProcessReducer)
    monkeypatch.setattr(scheduled, "get_run_logger", lambda: logging.getLogger("test"))
    survey.set(**LARGE)
    with pytest.raises(ConfigError, match=r"privacy\.delta: must be at most"):
        scheduled._rank(str(survey.config), "2026-11-01", False)
    with pytest.raises(ConfigError) as refused:  # of a job without nights
        scheduled._rank(str(survey.config), "2026-11-01", True)
    assert "delta" not in str(refused.value)


def test_python_refuses_it_in_its_own_words_unless_it_is_accepted(
    tmp_path: Path, monkeypatch, survey
):
    monkeypatch.setattr("hushrank.flows.interfaces.python.run.Reducer", InProcessReducer)
    job = {
        **{"left": "item_i", "right": "item_j", "outcome": "outcome", "user": "user"},
        **{"words": {"left": 1, "right": -1, "tie": 0}, "epsilon": 2.0, "max_contributions": 6},
        **{"items": {"names": ITEMS, "first_code": 0}, "design": "balanced"},
        **{"method": "noisy-counts", "ledger": tmp_path / "zoo.jsonl", "name": "zoo"},
        **{"noise": "gaussian", "delta": 0.3},
    }
    with pytest.raises(ConfigError) as refused:
        hr.rank(answers(20), **job)
    first, second = str(refused.value).splitlines()
    assert first.startswith("delta: must be at most 1e-05, got 0.3")
    assert second.startswith("total_delta: must be at most 1e-05, got 0.3")
    assert not (tmp_path / "zoo.jsonl").exists()
    assert hr.rank(answers(20), **job, anyway=True).delta == 0.3
    survey.set(**LARGE)
    for call in (hr.run, lambda path: hr.plan(path, people=50)):
        with pytest.raises(ConfigError, match=r"privacy\.delta: must be at most"):
            call(str(survey.config))
