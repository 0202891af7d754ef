"""`hushrank run --plan` shows what a run would touch, and touches nothing."""

from __future__ import annotations

import pytest

from hushrank.flows.interfaces.documents.runs import stage_rows
from hushrank.flows.run.job import prepare_job, read_survey


def sides(survey) -> dict[str, str]:
    rows = stage_rows(prepare_job(read_survey(survey.config)))
    return {name: side for name, _, _, side in rows}


def test_plan_reads_no_row_and_spends_nothing(survey, command):
    rows = survey.folder / "answers.parquet"
    content = bytearray(rows.read_bytes())
    content[4:200] = bytes(196)  # where rows are; the footer, at the end, is whole
    rows.write_bytes(content)
    before = sorted(survey.folder.iterdir())
    code, printed = command("run", survey.config, "--plan")
    assert code == 0, printed
    assert sorted(survey.folder.iterdir()) == before
    for told in ("reduce: Bound", "exact.npz", "crosses: noise", "engine: local", "No row was re"):
        assert told in printed
    assert command("run", survey.config, "--direct")[0] != 0  # for that does read rows


def test_what_is_left_and_right_of_the_boundary(survey):
    found = sides(survey)
    order = list(found)
    draw = order.index("draw")
    assert {found[name] for name in order[1:draw]} == {"protected"}
    assert {found[name] for name in order[draw + 1 :]} == {"released"}


def test_local_answers_are_random_before_they_cross(survey):
    local = {"unit": "local", "epsilon": 1.0}
    survey.set(privacy=local, method="debiased-rr", input__ties="random")
    found = sides(survey)
    assert found["reduce: Encode"] == "protected; randomises"
    assert found["draw"] == "crosses: answers are random already"


@pytest.mark.parametrize("broken", [b"", b"PAR1 no footer"])
def test_unreadable_input_is_one_message(survey, command, broken):
    (survey.folder / "answers.parquet").write_bytes(broken)
    code, printed = command("run", survey.config, "--plan")
    assert code == 2
    assert "Traceback" not in printed
    assert len(printed.splitlines()) == 1
