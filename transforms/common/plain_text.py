"""Text that looks as it is: names without control characters, other text with them made visible.

A terminal obeys escape codes, a log takes a line break for a new entry, and a browser reverses text
after a bidirectional override. So a name that the operator gives may not hold such a character, and
text from elsewhere (a path, a column of a file) is shown with codes in place of them.

A spreadsheet takes some cells of a CSV file for formulas: if an item were named `=HYPERLINK(…)`,
the spreadsheet of whoever opens the ranking would run it. So a text that begins with `=`, `+`, `-`,
`@`, a tab or a carriage return gets an apostrophe in front, which marks a text for spreadsheets;
numbers such as -3 stay as they are. A text that begins with apostrophes before such a character
gets one more, so that `read_cell` recovers every text.

A message has an end, however many things are wrong and however long their names are: a terminal, a
log and a mail show it whole. The beginning says what is wrong and the last words how to put it
right, so what is left out is in the middle, and the text says how much it was.

References:
    OWASP, CSV Injection. https://owasp.org/www-community/attacks/CSV_Injection
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from itertools import islice

# C0 and C1 controls, line and paragraph separators, overrides of direction, lone surrogates.
_HIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_OF_A_PAGE = "\n\t"

MOST_LINES, MOST_CHARACTERS = 12, 2_000  # limits of a message
MOST_OF_A_NAME = 80  # characters of a name, where a message shows it
MOST_NAMES = 8  # names of a list that a message shows
_LONG_WORD = re.compile(r"\S{161,}")


def hidden_character(text: str, *, lines: bool = False) -> str | None:
    r"""The code of the first character that does not look as it is, such as `\x1b`; None: none.

    Args:
        text: any text.
        lines: allow line breaks and tabs, as in a text of several lines.
    """
    allowed = _OF_A_PAGE if lines else ""
    found = next((each[0] for each in _HIDDEN.finditer(text) if each[0] not in allowed), None)
    return None if found is None else _code(found)


def shown(text: str, *, lines: bool = False) -> str:
    r"""`text` with every hidden character replaced by its code, which is safe in a terminal.

    Args:
        text: any text.
        lines: leave line breaks and tabs as they are.
    """
    allowed = _OF_A_PAGE if lines else ""
    return _HIDDEN.sub(lambda found: found[0] if found[0] in allowed else _code(found[0]), text)


def short(text: str, most: int = MOST_OF_A_NAME) -> str:
    """A name as a message shows it: as `shown`, and without the middle of a long one.

    Args:
        text: any text.
        most: characters that are shown.
    """
    text = shown(text)
    if len(text) <= most:
        return text
    first = most - most // 4
    left_out = f"… ({len(text) - most:,} characters left out) …"
    return f"{text[:first]}{left_out}{text[first - most :]}"


def short_list(names: Collection[str], most: int = MOST_NAMES) -> str:
    """Names as a message lists them: `a, b, c and 5 more`."""
    some = ", ".join(short(each) for each in islice(names, most))
    more = len(names) - most
    return f"{some} and {more:,} more" if more > 0 else some


def short_message(text: str) -> str:
    """A message of at most `MOST_LINES` lines and `MOST_CHARACTERS` characters, as `shown`.

    A short message is returned as it is, so a message that was shortened stays as it is too.
    """
    lines = shown(text, lines=True).split("\n")
    if more := max(len(lines) - MOST_LINES, 0):
        lines[MOST_LINES - 2 : -1] = [f"… and {more + 1:,} more lines …"]
    text = "\n".join(lines)
    if len(text) > MOST_CHARACTERS:
        text = _LONG_WORD.sub(lambda found: short(found[0]), text)
    if len(text) > MOST_CHARACTERS:
        return short(text, MOST_CHARACTERS - MOST_OF_A_NAME)
    return text


def _code(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode()


_FORMULA = re.compile(r"'*[=+\-@\t\r＝＋－＠]")
_QUOTED = re.compile(r"'+[=+\-@\t\r＝＋－＠]")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def write_cell(text: str) -> str:
    """`text` in the form of a CSV cell."""
    if _NUMBER.fullmatch(text):
        return text
    return f"'{text}" if _FORMULA.match(text) else text


def number_cell(value: float) -> str:
    """A number to six decimals; empty where it is infinite, which no spreadsheet reads."""
    return f"{value:.6f}" if math.isfinite(value) else ""


def read_cell(cell: str) -> str:
    """The text that `write_cell` stored in a cell."""
    return cell[1:] if _QUOTED.match(cell) else cell
