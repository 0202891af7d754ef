"""Through the command: no line of a text file moves the counts by the rows of others."""

from __future__ import annotations

import json

import pytest

from hushrank.flows.statement.sentences import ROWS_SPAN_LINES
from tests.flows.conftest import answers

ATTACKS = {
    "jsonl": [b'{"user": "eve", "item_i": "0", "item_j": 1, "outcome": "1"}', b'{"x":', b"}"],
    "csv": [b'"', b"eve,1,2,\xe9", b'eve,0,1,"1'],
}


def text_of(format_: str) -> list[bytes]:
    rows = answers(60).to_pylist()
    if format_ == "jsonl":
        return [json.dumps(row).encode() for row in rows]
    return [b"user,item_i,item_j,outcome", *(b"%d,%d,%d,%d" % (*row.values(),) for row in rows)]


def exact_counts(survey, command, format_: str, lines: list[bytes]) -> list[int]:
    path = survey.folder / f"answers.{format_}"
    path.write_bytes(b"\n".join(lines))
    exact = {"privacy__epsilon": "inf", "input__paths": [path.name], "input__format": None}
    code, printed = command("run", survey.set(**exact).config, "--direct", "--no-privacy")
    assert code == 0, printed
    output = survey.folder / survey.settings["output"]
    release = json.loads((output / "release.json").read_text())
    return list(release["released"]["wins"].values())


@pytest.mark.parametrize("format_", ATTACKS)
def test_an_attack_at_the_first_row_moves_counts_by_its_own_rows(survey, command, format_):
    lines = text_of(format_)
    honest = exact_counts(survey, command, format_, lines)
    assert sum(honest) == 360
    first = 1 if format_ == "csv" else 0  # the first row
    for attack in ATTACKS[format_]:
        moved = exact_counts(survey, command, format_, [*lines[:first], attack, *lines[first:]])
        assert sum(abs(now - then) for now, then in zip(moved, honest, strict=True)) <= 1


def test_rows_that_span_lines_are_read_where_told_and_the_release_says_so(survey, command):
    lines = text_of("csv")
    lines += [b'"eve\nof two lines",0,1,1', b'"eve\nof two lines",0,2,1']
    plain = exact_counts(survey, command, "csv", lines)
    told = survey.set(input__multiline=True)
    both = exact_counts(told.set(output="both"), command, "csv", lines)
    assert sum(plain) == 360
    assert [now - before for now, before in zip(both, plain, strict=True)] == [2, 0, 0, 0]
    for multiline in (True, False):
        survey.set(input__multiline=multiline, output=f"private {multiline}")
        code, printed = command("run", survey.set(privacy__epsilon=2.0).config, "--direct")
        assert code == 0, printed
        release = json.loads((survey.folder / f"private {multiline}" / "release.json").read_text())
        assert (ROWS_SPAN_LINES in release["privacy"]["not_protected"]) == multiline
