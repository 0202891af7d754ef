"""Sheets of a test, from the file over init's questions to the page."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hushrank.flows.methods.registry import load_config
from hushrank.flows.planning.propose.proposal import propose_config
from tests.flows.planning.propose.test_shapes import filled, write_csv

EXAM = [f"M{100 + number}{'abc'[number % 3]}" for number in range(6)]
PEOPLE = 2500


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def exam(*, blank: str = "", points: bool = False) -> list[dict[str, Any]]:
    """Items from easy to hard with letters after their numbers, and at the end one with points.

    A tenth of the wrong answers is blank. The able get 2 points on the last item.
    """
    rng = np.random.default_rng(4)
    ability = rng.normal(size=PEOPLE)
    hard = np.linspace(-1.5, 1.5, len(EXAM))
    right = rng.random((PEOPLE, len(EXAM))) < 1 / (1 + np.exp(hard - ability[:, None]))
    left_out = ~right & (rng.random(right.shape) < 0.1)
    left_out[0, 2] = True  # in the rows that are read
    rows = []
    for person in range(PEOPLE):
        marks = zip(EXAM, right[person], left_out[person], strict=True)
        cells = {name: blank if empty else str(int(mark)) for name, mark, empty in marks}
        more = {
            "M200a": str(min(2, int(ability[person] > -1) + int(person < 5 or ability[person] > 0)))
        }
        rows.append({"idstud": person, "female": person % 2} | cells | (more if points else {}))
    return rows


def release_after(command: Any, choices: dict[str, str]) -> dict[str, Any]:
    """Fill in what init wrote, run it, and read the release."""
    job = Path("survey.yaml")
    job.write_text(filled(job.read_text(), {"epsilon": "4", "max_contributions": "6"} | choices))
    code, printed = command("run", "--direct", job)
    assert code == 0, printed
    (release,) = Path("out").glob("*/release.json")
    found: dict[str, Any] = json.loads(release.read_text())
    return found


def test_all_items_of_an_exam_count_and_the_noise_is_gaussian(command):
    write_csv(Path("exam.csv"), exam())
    code, printed = command("init", "exam.csv")
    assert code == 0, printed
    assert "6 columns are taken for items, M100a to M105c" in printed
    assert "Not among them: female." in printed
    release = release_after(command, {"missing": "wrong", "booklets": "null", "words": "null"})
    assert [line["item"] for line in release["ranking"]] == EXAM[::-1]
    assert release["privacy"]["mechanism"] == "discrete-gaussian"
    assert max(line["high"] - line["low"] for line in release["ranking"]) < 0.35
    assert "counts as a wrong answer" in next(Path("out").glob("*/report.html")).read_text()


def test_a_dot_is_asked_for_and_then_no_sheet_is_lost(command):
    write_csv(Path("exam.csv"), exam(blank="."))
    code, printed = command("init", "exam.csv")
    assert code == 0, printed
    assert "what a code means" in printed
    words = '{right: ["1"], wrong: ["0"], blank: ["."]}'
    assert f'does "." in place of an answer mean a blank? {words} if so' in (
        Path("survey.yaml").read_text()
    )
    choices = {"missing": "wrong", "booklets": "null", "words": words}
    release = release_after(command, choices)
    assert [line["item"] for line in release["ranking"]] == EXAM[::-1]
    (counts,) = Path(".hushrank/work").rglob("diagnostics.json")
    assert json.loads(counts.read_text())["rows_rejected"] == 0
    code, printed = command("verify", next(Path("out").iterdir()))
    assert code == 0, printed


def test_points_are_a_question_and_leaving_their_item_out_loses_nobody(command):
    write_csv(Path("exam.csv"), exam(points=True))
    question = next(
        each
        for each in propose_config(Path("exam.csv"), Path("a.yaml")).questions
        if each.key == "items"
    )
    assert "hold numbers above 1 in M200a" in question.because
    without, with_points = (choice.written for choice in question.choices)
    assert "M200a" not in without
    assert "M200a" in with_points
    assert "with their points in input.points" in question.text
    command("init", "exam.csv")
    choices = {"missing": "wrong", "booklets": "null", "points": "null", "items": without}
    release = release_after(command, choices)
    assert [line["item"] for line in release["ranking"]] == EXAM[::-1]
    (counts,) = Path(".hushrank/work").rglob("diagnostics.json")
    assert json.loads(counts.read_text())["rows_rejected"] == 0


@pytest.mark.parametrize("seen", [True, False])
def test_points_of_a_log_are_a_question(command, seen):
    """Of q3 one answer in three is 2 points: excluded, it seems harder than q2, and is easier."""
    random = np.random.default_rng(5)
    probabilities = {"q1": 0.3, "q2": 0.55, "q3": 0.8}
    rows = [
        {"person": person, "item": item, "score": int(right) * (1 + (item == "q3" and person % 2))}
        for person in range(900)
        for item, right in zip(
            probabilities, random.random(3) < [*probabilities.values()], strict=True
        )
    ]
    first = [{"person": 900, "item": item, "score": 2 * seen} for item in ("q3", "q2")]
    write_csv(Path("log.csv"), [*first, {"person": 900, "item": "q1", "score": 0}, *rows])
    code, printed = command("init", "log.csv")
    assert code == 0, printed
    assert "item=item, correct=score" in printed
    asked = next(
        each
        for each in propose_config(Path("log.csv"), Path("a.yaml")).questions
        if each.key in ("input.words", "input.points")
    )
    told = "the rows that were read hold numbers above 1 in score"
    assert (asked.because == told) is seen
    no_points, *any_right = (choice.written for choice in asked.choices)
    assert no_points == "null"
    choices = {"max_contributions": "3", "items": "{names: [q1, q2, q3]}"}
    if seen:
        assert asked.value_of("{q3: 2}") == "{q3: 2}"
        choices |= {"points": "{q3: 2}", "missing": "wrong"}
    else:
        choices |= {"words": any_right[0]}
    release = release_after(command, choices)
    assert (release["scale"] == "point-difficulty") is seen
    assert [line["item"] for line in release["ranking"]] == ["q1", "q2", "q3"]


def test_how_many_items_a_person_was_asked_is_never_the_number_of_columns(command):
    write_csv(Path("exam.csv"), exam())
    command("init", "exam.csv")
    line = next(x for x in Path("survey.yaml").read_text().splitlines() if "max_contr" in x)
    assert re.fullmatch(r" +max_contributions: +# CHOOSE: how many items was a person .*", line)


def test_python_takes_the_same_keys():
    import hushrank as hr

    found = hr.rank(
        [{key: value for key, value in row.items() if key != "female"} for row in exam()],
        name="exam",
        items=EXAM,
        user="idstud",
        layout="wide",
        missing="wrong",
        epsilon=4.0,
        noise="gaussian",
        delta=1e-6,
        max_contributions=6,
        ledger="ledger.jsonl",
    )
    assert found.record.ranking[0].item == EXAM[-1]
    assert "counts as a wrong answer" in " ".join(found.record.privacy.statement)


def test_letters_are_scored_by_a_key_that_is_asked_for(command):
    """From a teacher's file of answers to the page: right answers are those of the key.

    A third of the sheets has a dot at the easiest item, which is not the easiest if a dot is wrong.
    """
    key, random = dict(zip(EXAM, "BDACBA", strict=True)), np.random.default_rng(6)
    ability = random.normal(size=(1500, 1))
    right = random.random((1500, 6)) < 1 / (1 + np.exp(np.linspace(-1.5, 1.5, 6) - ability))
    other = {letter: "ABCDE"["ABCDE".index(letter) - 1] for letter in "ABCDE"}
    rows = [
        {"student": 1000 + person, "school": f"S{person % 30}"}
        | {
            name: key[name].lower() if good else other[key[name]]
            for name, good in zip(EXAM, marks, strict=True)
        }
        for person, marks in enumerate(right.tolist())
    ]
    for row in rows[::3]:
        row[EXAM[0]] = "."
    write_csv(Path("answers.csv"), rows)
    code, printed = command("init", "answers.csv")
    assert code == 0, printed
    assert "6 columns are taken for items" in printed
    assert "the right answers" in printed
    choices = {"key": "BDACBA", "missing": "set-aside", "booklets": "null"}
    told = propose_config(Path("answers.csv"), Path("a.yaml")).questions
    (asked,) = (each for each in told if each.key == "input.words")
    assert "if not: it counts as a wrong answer" in asked.text
    blank, wrong = (choice.written for choice in asked.choices)
    assert (blank, wrong) == ('{blank: ["."]}', "null")
    Path("other.yaml").write_text(
        filled(
            Path("survey.yaml").read_text(),
            {"epsilon": "4", "max_contributions": "6", "words": wrong} | choices,
        )
    )
    load_config(Path("other.yaml"))
    release = release_after(command, choices | {"words": blank})
    assert [line["item"] for line in release["ranking"]] == EXAM[::-1]
    code, printed = command("verify", next(Path("out").iterdir()))
    assert code == 0, printed
