"""`hushrank dpia`: what it fills in is what a release says, and it overwrites nobody's work."""

from __future__ import annotations

import json
import re

import pytest

from hushrank.flows.interfaces.documents.assessment import OPEN
from tests.flows.collecting.surveys import survey as collecting
from tests.flows.every_method import survey_of


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


@pytest.mark.parametrize("method", ["noisy-counts", "noisy-pairs"])
def test_names_of_a_person_are_told(survey, command, method):
    survey.set(method=method, privacy__names_per_person=3)
    assert command("dpia", survey.config, "--out", survey.folder / "dpia.md")[0] == 0
    said = (survey.folder / "dpia.md").read_text()
    assert "A person may have up to 3 user names here" in said
    assert "each name is protected as if" not in said
    assert command("run", survey.config, "--direct")[0] == 0
    privacy = json.loads((survey.folder / "out" / "release.json").read_text())["privacy"]
    told = [each for each in (*privacy["statement"], *privacy["not_protected"]) if "name" in each]
    assert len(told) == 2
    assert all(each in said for each in told)
    assert privacy["names_per_person"] == 3


@pytest.mark.parametrize(
    "variant",
    [
        "noisy-counts, gaussian",
        "noisy-counts, rho",
        "noisy-counts, look",
        "perturbed-mle, public",
        "totals, gaussian",
        "kemeny, user",
        "borda, user, ties",
        "precinct-table",
    ],
)
def test_each_method_promises_what_its_release_does(variant, tmp_path, command):
    survey = survey_of(variant, tmp_path)
    code, printed = command("dpia", survey.config, "--out", tmp_path / "d.md")
    assert code == 0, printed
    assert command("run", survey.config, "--direct")[0] == 0
    privacy = json.loads((survey.output / "release.json").read_text())["privacy"]
    said = [line[2:] for line in (tmp_path / "d.md").read_text().splitlines() if line[:1] == "-"]
    assert set(privacy["statement"][:3]) <= set(said)  # who, with which epsilon, against whom
    assert set(privacy["not_protected"]) <= set(said)


def test_the_nights_of_a_stream_are_covered_together(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    stream = {"nights": 30, "first": "2026-12-01", "show": {"window": 7}}
    row_terms = {"participation": {"rows": 12, "pair_gap": 5, "burst": 4}}
    privacy = {
        "unit": "user",
        "epsilon": 1.0,
        "delta": 1e-6,
        "noise": "gaussian",
        "max_contributions": 3,
    }
    job = {"privacy": privacy, "method": "noisy-pairs", "schedule": {"stream": stream | row_terms}}
    rows = {"paths": ["answers/{date}.csv"], "design": "random", "ties": "drop"}
    job |= {"input": {"kind": "comparisons", **rows}, "items": {"names": ["a", "b", "c"]}}
    job |= {"name": "club", "output": "out", "confidential": "work"}
    job |= {"ledger": {"path": "ledger.jsonl", "epsilon": 10.0, "delta": 1e-5}}
    (tmp_path / "survey.yaml").write_text(json.dumps(job))
    code, printed = command("dpia", tmp_path / "survey.yaml", "--out", tmp_path / "d.md")
    assert code == 0, printed
    text = (tmp_path / "d.md").read_text()
    assert "all their answers on all 30 nights of the stream." in text
    assert "2.72 times as likely (e^epsilon, epsilon = 1), but for a probability of 1e-06" in text
    assert "At most 12 of a person's answers count on all 30 nights of the stream" in text
    assert "those of other streams among them" in text


def test_each_column_that_is_read_is_named(tmp_path, command):
    (tmp_path / "exam.csv").write_text("pupil,q1,q2,q3\n1,0,1,1\n")
    job = {"name": "exam", "method": "totals", "output": "out", "confidential": "work"}
    columns = {"layout": "wide", "missing": "wrong", "columns": {"user": "pupil"}}
    job |= {"input": {"kind": "responses", "paths": ["exam.csv"], **columns}}
    job |= {"items": {"names": ["q1", "q2", "q3"]}}
    job |= {"privacy": {"unit": "user", "epsilon": 1.0, "max_contributions": 3}}
    job |= {"ledger": {"path": "ledger.jsonl", "epsilon": 10.0}}
    (tmp_path / "survey.yaml").write_text(json.dumps(job))
    assert command("dpia", tmp_path / "survey.yaml", "--out", tmp_path / "d.md")[0] == 0
    text = (tmp_path / "d.md").read_text()
    assert "| user | pupil |\n| items, places, features | q1, q2, q3 |" in text


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
