"""Guess whether a table has a column for each place of a ranking, whose cells name the item. Pure.

Cast vote records of ranked ballots are such tables: `Rank 1`, `Rank 2`, or `1st Choice`. Cells may
also say that nobody or several were marked at a place; the words for that are those of this module,
never read from rows.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from hushrank.flows.planning.propose.names import Row, words_of
from hushrank.flows.planning.propose.people import Confidence, UserGuess, guess_user
from hushrank.flows.planning.propose.rankings import WORDS_OF_PLACES, RankingGuess
from hushrank.flows.planning.propose.values import holds_numbers, numbered_column, text_of, texts_of

_ORDINAL = (
    r"\d+ ?(?:st|nd|rd|th|er|re|e|eme|ème|º|ª|\.)|first|second|third|fourth|fifth|sixth|seventh"
    r"|erste[rs]?|zweite[rs]?|dritte[rs]?|vierte[rs]?"
)
_PLACE = r"choice|preference|pref|rank|ranking|place|position|pick|wahl|platz|rang"
# rank in a column name or a cell: `1st`, `first choice`, `Rank 1`, `choice_2`
PLACED = re.compile(
    rf".*?\b(?:(?:{_ORDINAL})[ _.-]*(?:{_PLACE})?|(?:{_PLACE})[ _.#-]*\d+|#\d+)\W*", re.IGNORECASE
)
# The same with more after it: `Rep. to Congress 1st Choice District 2`, `Mayor Choice 1 of 5 (26)`
_PLACED_AMONG = re.compile(
    rf".*?\b(?:(?:{_ORDINAL})[ _.-]*(?:{_PLACE})|(?:{_PLACE})[ _.#-]*\d+ of \d+)\b.*", re.IGNORECASE
)
_ORDINALS = re.compile(rf"\b(?:{_ORDINAL})(?!\w)", re.IGNORECASE)
_NUMBER = re.compile(r"\d+(?!.*\d)")
_BALLOT = re.compile("(?:cast)?vote(?:record)?|cvr|ballot")


def guess_places(columns: Sequence[str], rows: Sequence[Row]) -> RankingGuess | None:
    """Read rows as rankings and some columns as places; None: they seem to be something else.

    Args:
        columns: names, in the order of the file.
        rows: the first few rows; values as text, numbers, lists or None.
    """
    placed = [column for column in columns if PLACED.fullmatch(column)]
    among = [column for column in columns if _PLACED_AMONG.fullmatch(column)]
    ordinal = [column for column in placed if _ORDINALS.search(column)]
    for series in (placed, among, *_numbered_series(columns), ordinal):
        named = series is placed or series is among
        codes = series is ordinal and _differ(rows, series)
        if len(series) >= 2 and (codes or name_items(rows, series, repeated=named)):
            return RankingGuess(
                layout="places",
                user=_whose(columns, rows, series),
                places=tuple(series),
                coded=numbered_column(rows, series),
            )
    return None


def _whose(columns: Sequence[str], rows: Sequence[Row], series: Sequence[str]) -> UserGuess | None:
    """Find the column of the person, or of the ballot where no column names a person."""
    found = guess_user(columns, rows, series, row_a_person=True, may_be_last=False)
    if found is not None:
        return found
    free = [column for column in columns if column not in series]
    ballots = [
        column
        for column in free
        if _BALLOT.fullmatch("".join(w for w in words_of(column) if w not in ("id", "number")))
    ]
    if len(ballots) == 1:
        return UserGuess(ballots[0], Confidence.GROUP)
    return guess_user(columns, rows, series, row_a_person=True)


def _numbered_series(columns: Sequence[str]) -> Iterator[list[str]]:
    """Yield series of columns that differ only in a number, such as `Q1[1]` to `Q1[4]`."""
    families: dict[str, list[str]] = {}
    for column in columns:
        if _NUMBER.search(column):
            families.setdefault(_NUMBER.sub("#", column), []).append(column)
    yield from (each for each in families.values() if len(each) >= 3)


def name_items(rows: Sequence[Row], series: Sequence[str], *, repeated: bool) -> bool:
    """Whether cells hold words, some in several columns, and none twice in a row.

    Args:
        rows: the first few rows.
        series: columns.
        repeated: a row may hold a word twice, as the names of the columns say what they are.
    """
    columns = [set(texts_of(rows, column)) - WORDS_OF_PLACES for column in series]
    if not any(columns) or any(holds_numbers(rows, column) for column in series):
        return False
    words = Counter(word for found in columns for word in found)
    if any(map(PLACED.fullmatch, words)) or max(words.values()) < 2:
        return False
    return repeated or _differ(rows, series)


def _differ(rows: Sequence[Row], series: Sequence[str]) -> bool:
    """Whether values of a row always differ between these columns, and some row has several."""
    in_rows = [[text for c in series if (text := text_of(row.get(c)).lower())] for row in rows]
    several = any(len(each) > 1 for each in in_rows)
    return several and all(len(set(each)) == len(each) for each in in_rows)
