"""Files of Excel and SPSS: each cell is a text of its own, and a bad file is one sentence."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyreadstat
import pytest

from hushrank.transforms.common.schema import InputError
from hushrank.transforms.storage.files import list_files
from hushrank.transforms.storage.sheet_rows import (
    BrokenSheetError,
    excel_schema,
    read_excel,
    read_spss,
    spss_schema,
)
from tests.written_files import write_workbook

HEADER = ["pupil", "Q1", "Q2", "note"]


def excel(path: Path, names: list[str] | None = None) -> list[dict[str, object]]:
    stream = io.BytesIO(path.read_bytes())
    schema = excel_schema(str(path), stream)
    if names is not None:
        schema = pa.schema([schema.field(name) for name in names])
    return [row for batch in read_excel(stream, schema, 7) for row in batch.to_pylist()]


def spss(path: Path) -> list[dict[str, object]]:
    stream = io.BytesIO(path.read_bytes())
    schema = spss_schema(str(path), stream)
    return [row for batch in read_spss(stream, schema, 7) for row in batch.to_pylist()]


def workbook(path: Path, *rows: list[object]) -> Path:
    write_workbook({"_hidden": [["other"]], "answers": [HEADER, *rows], "plan": [["x"]]}, path)
    return path


def test_cells_of_a_workbook_become_texts(tmp_path):
    path = workbook(
        tmp_path / "a.xlsx",
        [1, 1.0, 0.5, "ünal"],
        [None, None, None, None],
        ["x7", True, None, "#N/A"],
        [2**50, -3, "", "two words"],
    )
    assert excel(path) == [
        {"pupil": "1", "Q1": "1", "Q2": "0.5", "note": "ünal"},
        {"pupil": "x7", "Q1": "1", "Q2": None, "note": None},
        {"pupil": str(2**50), "Q1": "-3", "Q2": None, "note": "two words"},
    ]
    assert excel(path, ["Q2", "pupil"])[0] == {"Q2": "0.5", "pupil": "1"}


def test_a_row_says_the_same_whatever_the_others_are(tmp_path):
    rng = np.random.default_rng(0)
    cells = [1, 0, 1.0, "1", "A", None, True, "9" * 40, 0.25, "#N/A"]
    row = ["p", 1, "A", 0.25]
    alone = excel(workbook(tmp_path / "alone.xlsx", row))
    for k in range(20):
        others = [["q", *(cells[i] for i in rng.integers(0, len(cells), 4))] for _ in range(6)]
        assert alone[0] in excel(workbook(tmp_path / f"{k}.xlsx", *others, row))


def test_values_of_spss_become_texts(tmp_path):
    path = tmp_path / "a.sav"
    table = pd.DataFrame(
        {"pupil": ["ü1", "b", ""], "Q1": [1.0, 0.5, 9.0], "Q2": [2.0**52, None, -1.0]}
    )
    pyreadstat.write_sav(table, path, missing_ranges={"Q1": [9]})
    assert spss(path) == [
        {"pupil": "ü1", "Q1": "1", "Q2": str(2**52)},
        {"pupil": "b", "Q1": "0.5", "Q2": None},
        {"pupil": None, "Q1": None, "Q2": "-1"},
    ]


def test_a_damaged_file_is_refused_in_one_sentence(tmp_path):
    """A byte that is changed or lost gives rows, or one of two errors; never another one."""
    book = workbook(tmp_path / "a.xlsx", *[[k, 1, 0, "x"] for k in range(50)])
    table = pd.DataFrame({"pupil": np.arange(50.0), "Q1": ["A"] * 50})
    pyreadstat.write_sav(table, tmp_path / "a.sav")
    rng = np.random.default_rng(1)
    told = []
    for path, read in ((book, excel), (tmp_path / "a.sav", spss)):
        whole = path.read_bytes()
        for k in range(60):
            damaged = bytearray(whole[: int(rng.integers(1, len(whole)))] if k % 2 else whole)
            damaged[int(rng.integers(len(damaged)))] ^= 1 << int(rng.integers(8))
            path.write_bytes(damaged)
            try:
                read(path)
            except (InputError, BrokenSheetError) as error:
                told.append(str(error))
    assert len(told) > 60
    for text in told:
        assert text == "" or "Write it again." in text or "must name the columns" in text
        assert "\n" not in text


def test_a_workbook_needs_names_and_a_file_of_this_machine(tmp_path, monkeypatch):
    write_workbook({"empty": [], "answers": [HEADER]}, tmp_path / "a.xlsx")
    with pytest.raises(InputError, match="the first row of its first sheet is empty"):
        excel(tmp_path / "a.xlsx")
    monkeypatch.setattr("hushrank.transforms.common.extras.is_installed", lambda extra: False)
    with pytest.raises(InputError, match=r"pip install 'hushrank\[sheets\]'"):
        list_files([str(tmp_path / "a.xlsx")])
