"""`hushrank dpia`: what it fills in is what a release says, and it overwrites nobody's work."""

from __future__ import annotations

import json
import re

import pytest

from hushrank.flows.interfaces.documents.assessment import OPEN
from tests.flows.collecting.surveys import survey as collecting


@pytest.mark.parametrize("unit", ["user", "comparison"])
def test_the_guarantee_is_that_of_the_release(survey, command, unit):
    if unit == "comparison":
        survey.set(privacy={"unit": unit, "epsilon": 2.0})
    survey.set(report={"about": {"title": "Zoo | <b>", "who": "visitors"}})
    assert command("dpia", survey.config, "--out", survey.folder / "dpia.md")[0] == 0
    text = (survey.folder / "dpia.md").read_text()
    assert command("run", survey.config, "--direct")[0] == 0
    release = json.loads((survey.folder / "out" / "release.json").read_text())
    said = [line[2:] for line in text.splitlines() if line.startswith("- ")]
    promised = [each for each in said if each in release["privacy"]["statement"]]
    assert len(promised) == {"user": 5, "comparison": 4}[unit]
    assert set(release["privacy"]["not_protected"]) <= set(said)
    assert text.startswith("# Data-protection impact assessment: Zoo \\| &lt;b>\n")
    assert "| Who is asked | visitors |" in text
    assert f"| Purpose | {OPEN} |" in text
    each = {"user": "person", "comparison": "answer"}[unit]
    assert f"epsilon 5 in each period (monthly), at delta 1e-06, for each {each}." in text


def test_what_somebody_has_completed_is_not_overwritten(survey, command):
    mine = survey.folder / "dpia.md"
    mine.write_text("mine")
    code, printed = command("dpia", survey.config, "--out", mine)
    assert (code, mine.read_text()) == (2, "mine")
    assert "may have been completed; name another with --out" in re.sub(r"\s+", " ", printed)


def test_of_private_answers_it_promises_what_is_charged(tmp_path, command):
    about = {"organisation": "University of Example", "contact": "survey@example.org"}
    collecting(tmp_path, collect={"folder": "answers", "questions": 7, "about": about})
    assert command("dpia", tmp_path / "survey.yaml", "--out", tmp_path / "d.md")[0] == 0
    text = (tmp_path / "d.md").read_text()
    assert "- Each answer is changed by chance on the person's own device, before" in text
    assert "epsilon 4 for each answer, of any number of them." in text
    assert "- The page asks a respondent for at most 7 answers." in text
    assert "| Organisation | University of Example |" in text
    assert "answers/{date}/*.parquet | private answers; only read |" in text
    assert text.count("| ledger.path |") == 1
    assert "true answers" not in text
