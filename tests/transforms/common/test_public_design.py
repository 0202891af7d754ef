"""Files of public designs: what they say, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from hushrank.flows.config.items import PublicDesign, read_public_design

NAMES = ("a", "b", "c")


def design_of(folder: Path, text: str) -> PublicDesign:
    path = folder / "design.csv"
    path.write_text(text)
    return read_public_design(path)


def test_exposures_are_in_the_order_of_the_catalogue(tmp_path: Path) -> None:
    found = design_of(tmp_path, "note,item,exposure\nx,c,3\ny, a ,2.5\nz,b,4\n")
    assert found.exposures(NAMES).tolist() == [2.5, 4, 3]
    assert found.comparisons == 4.75
    assert found.of_size(9.5).exposures(NAMES).tolist() == [5, 8, 6]


def test_pairs_make_a_symmetric_matrix(tmp_path: Path) -> None:
    found = design_of(tmp_path, "left,right,comparisons\nc,a,3\na,b,2\n")
    assert found.pairs(NAMES).tolist() == [[0, 2, 3], [2, 0, 0], [3, 0, 0]]
    assert found.exposures(NAMES).tolist() == [5, 2, 3]
    assert found.comparisons == 5
    assert np.array_equal(found.of_size(10).pairs(NAMES), 2 * found.pairs(NAMES))


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("", "needs rows, under the header item,exposure or left,right,comparisons"),
        ("item,shown\na,1\n", "needs rows, under the header item,exposure"),
        ("item,exposure\n", "needs rows, under the header"),
        ("item,exposure\na\n", "line 2: has fewer cells than the header names columns (2)"),
        ("item,exposure\na,\n", "line 2: exposure must be a number >= 0, got ''"),
        ("item,exposure\na,-1\n", "line 2: exposure must be a number >= 0, got '-1'"),
        ("item,exposure\na,nan\n", "line 2: exposure must be a number >= 0, got 'nan'"),
        ("item,exposure\na,0\nb,0\nc,0\n", "every exposure is 0; write how often"),
        ("item,exposure\na,1\nb,1\n", "item 'c' is missing; add a line for every item"),
        ("item,exposure\na,1\nb,1\nc,1\nd,1\n", "line 5: item 'd' is not in the catalogue"),
        ("item,exposure\na,1\nb,1\na,1\nc,1\n", "line 4: item 'a' stands twice; remove"),
        ("item,exposure\na,9\nb,1\nc,1\n", "item 'a' was shown more often than all others"),
        ("left,right,comparisons\na,a,1\n", "line 2: an item does not meet itself"),
        ("left,right,comparisons\na,b,1\nb,a,1\n", "line 3: pair 'b' and 'a' stands twice"),
        ("left,right,comparisons\na,b,1\n", "items 'a' and 'c' are in groups that never meet"),
        ("left,right,comparisons\na,d,1\n", "line 2: item 'd' is not in the catalogue"),
    ],
)
def test_what_is_no_design_is_refused(tmp_path: Path, text: str, rule: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(rule)}"):
        design_of(tmp_path, text).exposures(NAMES)


def test_what_is_no_file_of_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot be read: No such file"):
        read_public_design(tmp_path / "nothing.csv")
    (tmp_path / "bytes.csv").write_bytes(b"item,exposure\n\xff,1\n")
    with pytest.raises(ValueError, match="is no CSV file in UTF-8; save it as that"):
        read_public_design(tmp_path / "bytes.csv")
