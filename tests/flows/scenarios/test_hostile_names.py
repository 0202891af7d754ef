"""Names that a terminal, a browser or a spreadsheet would obey: refused, or shown as codes."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from datetime import date

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.table import Table
from rich.text import Text

from hushrank.flows.config.items_file import read_item_names
from hushrank.flows.release.history import export_bytes, ranking_table
from hushrank.flows.release.publish import ranking_csv
from hushrank.flows.report.page import render_report
from hushrank.flows.report.sections import ranks_over_time
from hushrank.flows.terminal import Console
from hushrank.transforms.common.plain_text import hidden_character, read_cell, shown, write_cell
from tests.releases import ITEMS, make_release

ESCAPE, BELL, TURNED, C1 = "\x1b[31m", "\a", "\u202e", "\x9b"
FORMULAS = [
    "=1+1",
    "+cmd|' /C calc'!A0",
    "-2+3",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    "'=1",
    "''@x",
    "=",
    "-",
]
PLAIN = ["-3", "+4.5", "-.5e-3", "ants", "'quoted'", "a=b", "1-2", ""]
HOSTILE = [f"a{ESCAPE}b", f"c{BELL}d", f"e{TURNED}f", f"g{C1}h", *ITEMS[4:]]


def obeyed(text: str) -> list[str]:
    return [each for each in text if hidden_character(each, lines=True)]


@pytest.mark.parametrize("text", FORMULAS)
def test_what_a_spreadsheet_would_carry_out_becomes_a_text(text):
    assert write_cell(text) == f"'{text}"


@pytest.mark.parametrize("text", PLAIN)
def test_numbers_and_other_texts_stay(text):
    assert write_cell(text) == text


@given(st.text() | st.text(alphabet="'=+-@\t\r01.e"))
def test_a_cell_is_read_back_as_it_was_written(text):
    assert read_cell(write_cell(text)) == text


def test_rankings_go_to_spreadsheets_as_text_and_come_back_as_items(tmp_path):
    names = ["=1+1", "-5", *ITEMS[2:]]
    release = make_release(items=names)
    (tmp_path / "ranking.csv").write_text(ranking_csv(release), encoding="utf-8")
    cells = [row["item"] for row in csv.DictReader(io.StringIO(ranking_csv(release)))]
    assert "'=1+1" in cells
    assert "-5" in cells
    assert sorted(read_item_names(tmp_path / "ranking.csv")) == sorted(names)
    (tmp_path / "all.csv").write_bytes(export_bytes(ranking_table([release]), tmp_path / "all.csv"))
    assert "'=1+1" in pyarrow.csv.read_csv(tmp_path / "all.csv")["item"].to_pylist()
    assert sorted(read_item_names(tmp_path / "all.csv")) == sorted(names)


def test_the_terminal_obeys_rich_and_nobody_else():
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=80)
    table = Table("item")
    table.add_row(Text(f"a{ESCAPE}b{BELL}", style="bold"))
    console.print(table)
    console.print(f"c{ESCAPE}d", markup=False)
    printed = stream.getvalue()
    assert "a\\x1b[" in printed
    assert ESCAPE not in printed
    assert BELL not in printed
    assert "\x1b[1m" in printed  # bold


def test_an_archived_release_with_hostile_names_is_shown_with_codes():
    release = make_release(items=HOSTILE)
    page = render_report(release, None)
    assert obeyed(page) == []
    assert "a\\x1b[31mb" in page
    later = make_release(items=HOSTILE, night=date(2026, 11, 21))
    assert obeyed(ranks_over_time([release, later], ".svg").decode()) == []


def test_labels_are_no_way_around(tmp_path):
    release = make_release()
    lines = [
        replace(line, label=name)
        for line, name in zip(
            release.ranking, [f"a{ESCAPE}b", "<script>x</script>", "=1+1", *ITEMS[3:]], strict=True
        )
    ]
    labelled = release.model_copy(update={"ranking": tuple(lines)})
    page = render_report(labelled, None)
    assert obeyed(page) == []
    assert page.count("<script") == 1  # the page's own
    assert ">'=1+1" not in page
    assert ",'=1+1," in ranking_csv(labelled)
    assert "'=1+1" in export_bytes(ranking_table([labelled]), tmp_path / "all.csv").decode()


def test_an_item_of_a_row_that_would_be_obeyed_is_rejected_and_no_error(tmp_path, command):
    table = pa.table(
        {
            "left": ["ants", f"be{ESCAPE}es", "ants"],
            "right": ["bees", "ants", "cats"],
            "outcome": [1, 1, -1],
        }
    )
    pq.write_table(table, tmp_path / "answers.parquet")
    new = tmp_path / "new.csv"
    code, printed = command("privatize", tmp_path / "answers.parquet", "--out", new, "--epsilon", 1)
    assert code == 0, printed
    assert obeyed(printed) == []
    assert obeyed(new.read_text(encoding="utf-8")) == []
    assert len(new.read_text(encoding="utf-8").splitlines()) == 3


def test_codes_are_written_out():
    assert shown("a\x1b\n\u202e\ud800", lines=True) == "a\\x1b\n\\u202e\\ud800"
    assert shown("a\nb") == "a\\nb"
    assert hidden_character("Zürich \u2192 東京 👍 שלום") is None
