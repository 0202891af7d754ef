"""Forms with a column for each pair of items, such as A.B or "Tea or coffee?". Pure.

The names of the items are parts of names of columns or of questions. Cells of a few rows only tell
whether that reading suits them; none is written.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hushrank.flows.planning.propose.names import TIES, Row, text_of, texts_of
from hushrank.flows.planning.propose.questions import Reading
from hushrank.transforms.common.plain_text import short_list
from hushrank.transforms.common.schema import BLANKS

AS_PAIRS = "Write a row for each answer, with columns user, left, right and winner"
_BY_HAND = (
    "If each names two items and a cell names one of them, write input.layout: pairs-wide and"
    f" input.columns.pairs: {{column: [first, second]}}. Otherwise: {AS_PAIRS[0].lower()}"
    f"{AS_PAIRS[1:]}"
)
# "Which is better: Tea or coffee?", "Q1. Tea vs. coffee", "G1 [Tea oder Kaffee]"
_ASKED = re.compile(
    r"(?:.*[:,?!\[(–—]|\w{1,8}[.)])?\s*(?P<left>\S.*?)\s+(?:or|vs\.?|v\.?|versus|oder|ou)\s+"
    r"(?P<right>\S.*?)[\s?.!:)\]]*",
    re.IGNORECASE | re.DOTALL,
)
_BETWEEN = (" vs ", " v ", ".", ":", "_", "-", "/", ">", "|", " ")  # the two names of a column
_LEAST = 3  # least columns of pairs whose names are only joined by a mark
_CODES = (("1", "0"), ("1", "2"))  # of the two items, in either order

Pair = tuple[str, str, str]  # a column, and its two items


@dataclass(frozen=True, slots=True)
class PairsGuess:
    """Columns of pairs.

    Attributes:
        pairs: each column, and its two items in the order of their names there.
        readings: possible meanings of codes in cells; empty: cells name items.
    """

    pairs: tuple[Pair, ...]
    readings: tuple[Reading, ...] = ()

    @property
    def items(self) -> list[str]:
        """All items, in the order in which columns name them."""
        return list(dict.fromkeys(item for _, *items in self.pairs for item in items))


def guess_pairs(
    columns: Sequence[str], rows: Sequence[Row], questions: Mapping[str, str]
) -> PairsGuess | None:
    """Find the columns that ask about a pair of items each; None: there are none.

    Args:
        columns: names, in the order of the file.
        rows: the first few rows; values as text, numbers, lists or None.
        questions: texts of a second header, by column; may be empty.
    """
    for pairs in (_asked(columns, questions), joined_names(columns, rows)):
        named = [pair for pair in pairs if _cells_name(rows, pair)]
        if named and any(texts_of(rows, column) for column, _, _ in named):
            known = {item.lower() for _, *items in named for item in items}
            # an odd cell hides no column whose two items are known from others
            found = [pair for pair in pairs if {pair[1].lower(), pair[2].lower()} <= known]
            return PairsGuess(_spelled_alike(found))
    pairs = joined_names(columns, rows)
    values = {text.removesuffix(".0") for column, _, _ in pairs for text in texts_of(rows, column)}
    for one, other in _CODES:
        if len(pairs) >= _LEAST and values == {one, other}:
            first: Reading = {"left": (one,), "right": (other,)}
            second: Reading = {"left": (other,), "right": (one,)}
            return PairsGuess(tuple(pairs), (first, second))
    return None


def refuse_pairs(columns: Sequence[str], rows: Sequence[Row]) -> str | None:
    """Say what to do with columns of pairs whose cells are not understood; None: no such."""
    if not (found := joined_names(columns, rows)):
        return None
    named = short_list([column for column, _, _ in found], 3)
    return f"it has a column for each pair of items ({named}), whose cells name neither. {_BY_HAND}"


def joined_names(columns: Sequence[str], rows: Sequence[Row]) -> list[Pair]:
    """Find columns that are called by two items, such as A.B, A.C and B.C; empty: no such."""
    for separator in _BETWEEN:
        split = [(column, *column.split(separator)) for column in columns]
        pairs = [each for each in split if len(each) == 3 and _is_pair(*each[1:])]
        pairs = [each for each in pairs if len(set(texts_of(rows, each[0]))) <= _LEAST]
        items = Counter(item for _, *names in pairs for item in names)
        firsts, seconds = ({each[side] for each in pairs} for side in (1, 2))
        if len(pairs) >= _LEAST and min(items.values()) >= 2 and firsts & seconds:
            return [(column, left.strip(), right.strip()) for column, left, right in pairs]
    return []


def _asked(columns: Sequence[str], questions: Mapping[str, str]) -> list[Pair]:
    """Split the question of each column, or else its name, at a word between two items."""
    found = []
    for column in columns:
        told = _ASKED.fullmatch(questions.get(column, "").strip() or column.strip())
        if told is not None and _is_pair(told["left"], told["right"]):
            found.append((column, told["left"].strip(), told["right"].strip()))
    return found


def _is_pair(left: str, right: str) -> bool:
    return bool(left.strip() and right.strip()) and left.strip() != right.strip()


def _spelled_alike(pairs: Sequence[Pair]) -> tuple[Pair, ...]:
    """Give each item one spelling, as in "Tea or coffee?", "Coffee or cocoa?"; capitals win."""
    names = sorted({item for _, *items in pairs for item in items}, reverse=True)
    spelling = {name.lower(): name for name in names}
    if any(left.lower() == right.lower() for _, left, right in pairs):
        return tuple(pairs)
    return tuple((column, spelling[a.lower()], spelling[b.lower()]) for column, a, b in pairs)


def _cells_name(rows: Sequence[Row], pair: Pair) -> bool:
    """Whether every cell that was read names one of the two items, or a tie, or is blank."""
    column, left, right = pair
    texts = {text_of(row.get(column)).lower() for row in rows}
    return texts <= {*BLANKS, *TIES, left.lower(), right.lower()}
