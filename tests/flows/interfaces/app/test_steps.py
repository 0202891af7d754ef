"""From a file to a budget: what the page says, asks and writes is what the commands do."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
import yaml

import hushrank as hr
from hushrank.flows.interfaces.app.budget import number_at
from hushrank.flows.interfaces.app.folder import digest_of
from hushrank.flows.planning.plan.display import two_digits
from hushrank.flows.planning.propose.proposal import propose_config
from tests.flows.interfaces.app.conftest import ANSWERS
from tests.flows.planning.propose.test_shapes import SHAPES, WRITERS


def test_a_file_is_taken_for_what_init_takes_it(asker):
    found = asker.post("api/head", {"file": "votes.csv"}).json()
    proposal = propose_config(Path("votes.csv"), Path("survey.yaml"))
    assert found["summary"] == proposal.summary.splitlines()
    assert [each["key"] for each in found["questions"]] == [q.key for q in proposal.questions]
    roles = {each["name"]: each["role"] for each in found["columns"]}
    assert roles == {"voter": "user", "left": "left", "right": "right", "winner": "winner"}
    design = found["questions"][0]
    assert [each["answer"] for each in design["choices"]] == ["balanced", "random", "any"]
    assert all(each["does"] for each in design["choices"])


def test_rows_are_shown_after_the_confirmation_only(asker, folder):
    with (folder / "votes.csv").open() as file:
        rows = list(csv.reader(file))[1:6]
    plain = asker.post("api/head", {"file": "votes.csv"})
    assert plain.json()["rows"] is None
    assert "u0" not in plain.text
    for agreed in ("true", 1, None):
        found = asker.post("api/head", {"file": "votes.csv", "confidential": agreed})
        assert found.json()["rows"] is None
    found = asker.post("api/head", {"file": "votes.csv", "confidential": True})
    assert found.json()["rows"] == rows


def recording(path: str, **ledger) -> Path:
    """A job that records accesses; return its ledger."""
    Path("strict.yaml").write_text(
        yaml.safe_dump(
            {
                "name": "strict",
                "input": {
                    "kind": "comparisons",
                    "paths": [path],
                    "design": "balanced",
                    "columns": {"user": "voter", "left": "left", "right": "right"}
                    | {"winner": "winner"},
                },
                "items": {"names": ["Oslo", "Bern"]},
                "privacy": {"unit": "user", "epsilon": 1, "max_contributions": 3},
                "method": "auto",
                "ledger": {"path": "strict.jsonl", "epsilon": 5, "record_access": True} | ledger,
                "confidential": ".hushrank/work",
                "output": "out/strict",
            }
        )
    )
    return Path("strict.jsonl")


@pytest.mark.parametrize("path", ["votes.csv", "v*.csv", "**/v*.csv"])
def test_the_first_rows_are_recorded_where_a_job_records_who_looks(asker, path):
    ledger = recording(path)
    asker.post("api/head", {"file": "votes.csv"})
    assert not ledger.exists()
    assert asker.post("api/head", {"file": "votes.csv", "confidential": True}).json()["rows"]
    entries = [json.loads(line) for line in ledger.read_text().splitlines()]
    (access,) = (each for each in entries if each["event"] == "access")
    assert access["command"] == "app, first rows"


def test_rows_of_other_files_and_of_other_jobs_are_not_recorded(asker):
    ledger = recording("other.csv")
    assert asker.post("api/head", {"file": "votes.csv", "confidential": True}).json()["rows"]
    recording("votes.csv", record_access=False)
    assert asker.post("api/head", {"file": "votes.csv", "confidential": True}).json()["rows"]
    assert not ledger.exists()


def test_rows_whose_record_cannot_be_written_are_not_shown(asker):
    recording("votes.csv").mkdir()
    refused = asker.post("api/head", {"file": "votes.csv", "confidential": True})
    assert refused.status_code == 422
    assert "u0" not in refused.text


def test_what_is_shown_unconfirmed_does_not_depend_on_how_many_rows_there_are(asker, folder):
    lines = (folder / "votes.csv").read_text().splitlines(keepends=True)
    long = asker.post("api/head", {"file": "votes.csv"}).text
    (folder / "votes.csv").write_text("".join(lines[:2]))
    assert asker.post("api/head", {"file": "votes.csv"}).text == long


def test_a_file_that_cannot_be_read_gets_the_sentence_of_the_command(asker, folder, command):
    (folder / "odd.csv").write_text("a|b|c\n1|2|3\n4|5|6\n")
    error = asker.post("api/head", {"file": "odd.csv"}).json()["error"]
    code, printed = command("init", "odd.csv")
    assert code == 2
    assert " ".join(printed.split()) == error


def test_a_person_states_other_roles(asker):
    roles = {"voter": "user", "left": "right", "right": "left", "winner": "winner"}
    found = asker.post("api/head", {"file": "votes.csv", "roles": roles}).json()
    assert {each["name"]: each["role"] for each in found["columns"]} == roles
    name = asker.written(ANSWERS, roles=roles)
    columns = yaml.safe_load(Path(name).read_text())["input"]["columns"]
    assert columns == {"user": "voter", "left": "right", "right": "left", "winner": "winner"}


@pytest.mark.parametrize(
    ("roles", "why"),
    [
        ({"voter": "user", "left": "user"}, "cannot both be whose row it is"),
        ({"voter": "rank"}, "column voter cannot be the rank, a number"),
        ({"nobody": "user"}, "column nobody cannot be whose row it is"),
    ],
)
def test_roles_that_do_not_go_together_are_refused(asker, roles, why):
    assert why in asker.post("api/head", {"file": "votes.csv", "roles": roles}).json()["error"]


def test_wrong_answers_are_named_and_write_nothing(asker, folder):
    content = {"file": "votes.csv", "answers": ANSWERS | {"input.design": "perhaps"}}
    found = asker.post("api/survey", content).json()
    assert found == {"wrong": {"input.design": "the design: answer with balanced or random or any"}}
    content["answers"] = ANSWERS | {"items": "{names: [Oslo, Oslo]}"}
    refused = asker.post("api/survey", content)
    assert refused.status_code == 422
    assert refused.json()["error"].startswith("survey.yaml: items.names")
    content["answers"] = ANSWERS | {"items": "{names: [Oslo, Oslo], names: [Bern, Rome]}"}
    assert asker.post("api/survey", content).json()["error"].startswith("survey.yaml: ")
    assert [*folder.glob("*.yaml")] == []


def test_what_the_page_wrote_it_may_write_again_but_no_other_file(asker, folder):
    first = asker.post("api/survey", {"file": "votes.csv", "answers": ANSWERS}).json()
    changed = ANSWERS | {"input.design": "any"}
    again = asker.post("api/survey", {"file": "votes.csv", "answers": changed, **first}).json()
    assert again["survey"] == "survey.yaml"
    assert yaml.safe_load(Path("survey.yaml").read_text())["input"]["design"] == "any"
    other = asker.post("api/survey", {"file": "votes.csv", "answers": ANSWERS, **first}).json()
    assert other["survey"] == "survey-votes.yaml"  # survey.yaml is not what `first` names
    refused = asker.post("api/survey", {"file": "votes.csv", "answers": ANSWERS})
    assert "exists already and was not changed" in refused.json()["error"]
    assert again["digest"] == digest_of(Path("survey.yaml").read_text())


def test_epsilon_changes_its_own_place_alone(asker):
    name = asker.written(ANSWERS)
    before = Path(name).read_text()
    asker.paid(1.5)
    after = Path(name).read_text()
    assert "CHOOSE" not in after.split("report:")[0]
    different = [
        (old, new)
        for old, new in zip(before.splitlines()[2:], after.splitlines()[2:], strict=True)
        if old != new
    ]
    ((old, new),) = different
    assert old.startswith("  epsilon:")
    assert yaml.safe_load(new)["epsilon"] == 1.5
    asker.paid(2.0)
    assert number_at(Path(name).read_text(), ("privacy", "epsilon")) == 2.0


def test_a_file_on_one_line_is_changed_where_the_number_stands(asker):
    name = asker.written(ANSWERS)
    asker.paid(1.0)
    content = yaml.safe_load(Path(name).read_text())
    Path(name).write_text(yaml.safe_dump(content, default_flow_style=True, width=10_000))
    asker.paid(4.0)
    assert yaml.safe_load(Path(name).read_text()) == content | {
        "privacy": content["privacy"] | {"epsilon": 4}
    }


def test_a_file_that_somebody_else_changed_is_not_overwritten(asker):
    name = asker.written(ANSWERS)
    digest = asker.digest()
    Path(name).write_text(Path(name).read_text() + "\n# mine\n")
    refused = asker.post("api/budget", {"survey": name, "digest": digest, "epsilon": 1.0})
    assert "was changed since this page showed it" in refused.json()["error"]
    assert Path(name).read_text().endswith("# mine\n")


@pytest.mark.parametrize("epsilon", [0, -1, 1000, "much", None])
def test_an_epsilon_out_of_range_is_refused(asker, epsilon):
    asker.written(ANSWERS)
    body = {"survey": "survey.yaml", "digest": asker.digest(), "epsilon": epsilon}
    assert asker.post("api/budget", body).json()["error"].startswith("epsilon: must be")


def test_the_prediction_is_that_of_plan(asker):
    asker.written(ANSWERS)
    setting = "survey=survey.yaml&people=60&epsilon=2&answers=2"
    found = asker.get(f"api/plan?{setting}").json()
    planned = hr.plan("survey.yaml", people=60, epsilons=[2.0], answers=[2], anyway=True)
    (row,) = planned.document.settings
    assert {key: found[key] for key in ("best_first", "order", "error", "rank_width")} == {
        "best_first": row.best_first,
        "order": row.order,
        "error": row.error,
        "rank_width": row.rank_width,
    }
    assert found["informative"] == row.informative
    assert f"{100 * row.order:.0f} % of all pairs" in found["says"][0]
    assert "is right at most 88.08 % of the time" in found["says"][-1]  # e^2 / (1 + e^2)
    at_once = asker.get(f"api/formula?{setting}").json()
    assert at_once["formula"] == row.formula
    assert f"a typical score is off by {two_digits(row.formula)}." in at_once["says"][0]
    picture = asker.get(f"plan.svg?{setting}")
    assert picture.headers["content-type"] == "image/svg+xml"
    assert f"epsilon 2: {100 * row.best_first:.0f} %" in picture.text


def test_the_picture_is_there_at_once_and_fills_up_to_that_of_plan(asker):
    asker.written(ANSWERS)
    setting = "survey=survey.yaml&people=60&epsilon=2&answers=2"
    first = asker.get(f"plan.svg?{setting}&at_once").text
    assert "typical, by formula" in first
    assert "best item comes out first" not in first  # nothing was simulated yet
    predicted = asker.get(f"api/plan?{setting}").json()
    best_first = f"epsilon 2: {100 * predicted['best_first']:.0f} %"
    assert best_first in asker.get(f"plan.svg?{setting}&at_once").text
    whole = asker.get(f"plan.svg?{setting}").text
    assert best_first in whole
    assert asker.get(f"plan.svg?{setting}&at_once").text == whole


def test_a_picture_without_any_number_is_not_drawn(asker):
    asker.written(ANSWERS | {"input.design": "any"})  # for which there is no formula
    found = asker.get("plan.svg?survey=survey.yaml&people=60&epsilon=2&at_once")
    assert found.status_code == 422


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_every_choice_says_what_it_does_to_the_result(asker, shape):
    WRITERS[Path(shape.file).suffix](Path(shape.file), shape.rows())
    for each in asker.post("api/head", {"file": shape.file}).json()["questions"]:
        assert all(choice["does"] for choice in each["choices"]), each["key"]


def test_the_budget_is_that_of_the_ledger(asker):
    asker.written(ANSWERS)
    found = asker.get("api/budget?survey=survey.yaml").json()
    assert found["left"] == "10.00 of 10.00"
    assert (found["budget"]["left"], found["epsilon"], found["answers"]) == (10.0, None, 3.0)
    assert (found["population"], found["unit"], found["items"]) == ("votes", "user", 3)
