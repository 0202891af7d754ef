"""`hushrank init` proposes groups by the name of a column, and never their values."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hushrank.flows.methods.registry import load_config
from hushrank.flows.planning.propose.people import group_column
from hushrank.flows.planning.propose.proposal import propose_config
from tests.flows.planning.propose.test_proposal import CHOSEN, ROWS, choose, write_csv

TARGET = Path("survey.yaml")


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_proposal_is_a_comment_without_values_and_asks_for_them_once_it_is_made_lines():
    rows = [{**row, "Language": f"secret{k}"} for k, row in enumerate(ROWS)]
    text = propose_config(write_csv(Path("answers.csv"), rows), TARGET).text
    assert "secret" not in text
    assert "#   column: Language" in text
    filled = choose(text, CHOSEN)
    TARGET.write_text(filled)
    assert load_config(TARGET).groups is None

    lines = re.sub(r"(?m)^# (groups:|  column:.*|  values:.*)$", r"\1", filled)
    assert lines.count("\ngroups:\n") == 1
    TARGET.write_text(lines)
    with pytest.raises(Exception, match=r"groups\.values: line \d+ is marked CHOOSE and has no"):
        load_config(TARGET)
    lines = choose(lines, {"values": "[en, de]"}).replace("method: auto", "method: win-loss")
    TARGET.write_text(lines)
    groups = load_config(TARGET).groups
    assert (groups.column, groups.values) == ("Language", ("en", "de"))


@pytest.mark.parametrize(
    ("columns", "value", "found"),
    [
        (["user", "language"], "en", "language"),
        (["user", "CountryCode"], "de", "CountryCode"),
        (["user", "student_sex"], 1, "student_sex"),
        (["user", "topic", "country"], "x", "topic"),
        (["user", "question_category_a"], "x", None),
        (["user", "language"], "so long a text is no name of a public group", None),
        (["user", "region"], 0.25, None),
        (["category"], "x", None),  # it has another role
        (["user", "comment"], "x", None),
    ],
)
def test_a_name_proposes_and_texts_and_measurements_do_not(columns, value, found):
    rows = [dict.fromkeys(columns, value)] * 3
    taken = ["category"] if columns == ["category"] else ["user"]
    assert group_column(columns, rows, taken) == found
