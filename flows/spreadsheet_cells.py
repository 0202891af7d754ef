"""Cells of CSV files that people open in a spreadsheet, which takes some texts for formulas.

`=HYPERLINK(…)` as the name of an item would be carried out by whoever opens a ranking. So a text
that begins with `=`, `+`, `-`, `@`, a tab or a carriage return gets an apostrophe in front, by
which spreadsheets know a text; numbers, such as -3, stay as they are. A text that begins with
apostrophes before such a character gets one more, so that `read_cell` finds every text again.

References:
    OWASP, CSV Injection. https://owasp.org/www-community/attacks/CSV_Injection
"""

from __future__ import annotations

import re

_FORMULA = re.compile(r"'*[=+\-@\t\r＝＋－＠]")
_QUOTED = re.compile(r"'+[=+\-@\t\r＝＋－＠]")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def write_cell(text: str) -> str:
    """`text` as it stands in a cell."""
    if _NUMBER.fullmatch(text):
        return text
    return f"'{text}" if _FORMULA.match(text) else text


def read_cell(cell: str) -> str:
    """The text that `write_cell` has put into a cell."""
    return cell[1:] if _QUOTED.match(cell) else cell
