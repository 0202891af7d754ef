"""Guess whether a log holds rankings, and the role of each column. Pure.

Guess whether a table has a column for each place of a ranking, whose cells name the item. Pure.
Cast vote records of ranked ballots are such tables: `Rank 1`, `Rank 2`, or `1st Choice`. Cells
may also say that nobody or several were marked at a place; the words for that are those of this
module, never read from rows.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from hushrank.flows.planning.propose.names import (
    Row,
    holds_numbers,
    numbered_column,
    only_with_meaning,
    sides_of,
    text_of,
    texts_of,
    words_of,
)
from hushrank.flows.planning.propose.people import Confidence, UserGuess, guess_user, known_user
from hushrank.transforms.rankings.ranking_columns import ItemSet

_ITEM = re.compile(
    "item|candidate|option|alternative|choice|product|variety|movie|film|song|artist|team|player"
    "|name|label"
)
_RANK = re.compile("rank|ranking|position|place|placement|pos")
LEAST_ITEMS, MOST_ITEMS = 3, 100  # fewest and most items of a table with a column for each item
_NUMBER = re.compile(r"\d+(?!.*\d)|\[.*\]")
_WHOLE = re.compile(r"\d{1,3}(\.0)?")
_BRACKETED = re.compile(r"\[([^\[\]]+)\]\s*$")
_UNRANKED = frozenset({"na"})  # a run reads these like an empty cell
# Texts among ranks that may mean that an item was not ranked.
MARKERS = frozenset({"0", "0.0", "99", "99.0", "999", "-", "--", ".", "n/a", "nan", "none", "x"})
NOBODY = ("undervote", "skipped")  # words for a place where nobody is marked, of known programs
SEVERAL = ("overvote",)  # words for a place where several are marked
WORDS_OF_PLACES = frozenset({*NOBODY, *SEVERAL, "na", "blank", "write-in", "writein", "uwi"})
_CONTEST = re.compile("contest|election|round|race|poll|ballot|survey|session|year")


@dataclass(frozen=True, slots=True, kw_only=True)
class RankingGuess:
    """Likely role of each column.

    Attributes:
        layout: `long` with `item` and `rank`, `list` with `ranking`, `wide` with `items`,
            `places` with `places`, or `best-worst` with `best`, `worst` and `shown`.
        items: the column of each item in layout `wide`, and the item's name.
        places: the columns of the places in layout `places`, the first place first.
        best, worst: columns of the item chosen as the best, and as the worst.
        shown: columns of the items that were shown.
        sets: the sets of a row that holds several, in place of `best`, `worst` and `shown`; one
            without columns of the items shown needs their names.
        empty: columns of `items` without a clear rank in the rows that were read.
        markers: texts among the ranks that may mean that an item was not ranked.
        coded: the column of items that holds whole numbers in place of names; None: none does.
    """

    layout: str
    user: UserGuess | None = None
    item: str | None = None
    rank: str | None = None
    ranking: str | None = None
    contest: str | None = None
    items: tuple[tuple[str, str], ...] = ()
    places: tuple[str, ...] = ()
    best: str | None = None
    worst: str | None = None
    shown: tuple[str, ...] = ()
    sets: tuple[ItemSet, ...] = ()
    empty: tuple[str, ...] = ()
    markers: tuple[str, ...] = ()
    coded: str | None = None

    def known(self) -> dict[str, str]:
        """Column of each role that was found, except guesses."""
        found = known_user(self.user)
        roles = ("item", "rank", "ranking", "best", "worst", "contest")
        return found | {
            role: column for role in roles if (column := getattr(self, role)) is not None
        }

    def unknown(self) -> list[str]:
        """Roles that the person must fill in."""
        needed = {
            "long": ("user", "item", "rank"),
            "list": ("ranking",),
            "best-worst": ("user",),
        }.get(self.layout, ())
        if self.user is not None:
            needed = ("user", *(role for role in needed if role != "user"))
        return [role for role in needed if role not in self.known()]


def guess_rankings(columns: Sequence[str], rows: Sequence[Row]) -> RankingGuess | None:
    """Read names and values of columns as a log of rankings; None: it seems to be something else.

    Args:
        columns: names, in the order of the file.
        rows: the first few rows; values as text, numbers, lists or None.
    """
    if sides_of(columns) is not None:
        return None
    lists = [column for column in columns if _holds_lists(rows, column)]
    if len(lists) == 1:
        user = guess_user(columns, rows, lists, row_a_person=True)
        items = [{"item": item} for row in rows for item in _as_list(row.get(lists[0]))]
        coded = lists[0] if numbered_column(items, ["item"]) else None
        return RankingGuess(layout="list", user=user, ranking=lists[0], coded=coded)
    item, rank = only_with_meaning(columns, _ITEM), only_with_meaning(columns, _RANK)
    contest = only_with_meaning(columns, _CONTEST)
    user = guess_user(columns, rows, [name for name in (item, rank, contest) if name])
    if user is None and contest is not None and "ballot" in words_of(contest):
        # One ballot of each person, where nothing else says whose the rows are.
        user, contest = UserGuess(contest, Confidence.GROUP), None
    if user is None or item is None or rank is None:
        return None
    markers = _markers(rows, [rank])
    ranked = [row for row in rows if text_of(row.get(rank)).lower() not in markers]
    if not holds_numbers(ranked, rank):
        return None
    return RankingGuess(
        layout="long",
        user=user,
        item=item,
        rank=rank,
        contest=contest,
        markers=markers,
        coded=numbered_column(rows, [item]),
    )


def stated_ranks(
    rows: Sequence[Row], roles: Mapping[str, str], user: UserGuess | None, layout: str
) -> RankingGuess:
    """Take the roles that a person states in a log of rankings.

    Args:
        rows: the first few rows.
        roles: column of each role that a person stated.
        user: column of the person; None: not stated.
        layout: `long` or `list`.
    """
    listed = roles.get("ranking")
    if layout == "list" and listed is not None:
        items = [{"item": item} for row in rows for item in _as_list(row.get(listed))]
        coded = listed if numbered_column(items, ["item"]) else None
        return RankingGuess(layout="list", user=user, ranking=listed, coded=coded)
    item, rank = roles.get("item"), roles.get("rank")
    return RankingGuess(
        layout=layout,
        user=user,
        item=item,
        rank=rank,
        contest=roles.get("contest"),
        markers=() if rank is None else _markers(rows, [rank]),
        coded=None if item is None else numbered_column(rows, [item]),
    )


def guess_wide(
    columns: Sequence[str], rows: Sequence[Row], questions: Mapping[str, str]
) -> RankingGuess | None:
    """Read rows as rankings and some columns as ranks of items; None: they seem to be something
    else.

    Args:
        columns: names, in the order of the file.
        rows: the first few rows.
        questions: texts of a second header, by column; may be empty.
    """
    for marked in ((), MARKERS):  # the first reading makes no assumption about markers
        for ranked in _series(columns, rows, marked):
            if len(ranked) >= LEAST_ITEMS and _are_ranks(rows, ranked, marked):
                return _wide(columns, rows, questions, ranked)
    return None


def _series(
    columns: Sequence[str], rows: Sequence[Row], marked: Collection[str]
) -> tuple[list[str], list[str]]:
    """Find the longest series of columns of small numbers, such as Q1_1 to Q1_4, and all of
    them."""
    largest = {
        column: max(found)
        for column in columns
        if (found := _small_numbers(rows, column, marked)) is not None
    }
    small = sorted(largest, key=largest.__getitem__)
    while small and largest[small[-1]] > len(small):  # too large for a rank among so many items
        small.pop()
    small.sort(key=list(columns).index)
    families = defaultdict(list)
    for column in small:
        families[_family(column)].append(column)
    return max(families.values(), key=len, default=[]), small


def _wide(
    columns: Sequence[str],
    rows: Sequence[Row],
    questions: Mapping[str, str],
    ranked: Sequence[str],
) -> RankingGuess:
    """Build the reading with these columns of ranks, and those that may also hold ranks."""
    user = guess_user(columns, rows, ranked, row_a_person=True)
    families = {_family(column) for column in ranked}
    in_series = len(families) == 1  # at least three names that differ only in their number
    further = [
        column
        for column in columns
        if column not in ranked
        and (user is None or column != user.column)
        and (not in_series or _family(column) in families)
        and _may_be_ranks(rows, column, len(ranked) + 1)
    ]
    items = [column for column in columns if column in ranked or column in further]
    names = _names_of(items, questions)
    return RankingGuess(
        layout="wide",
        user=user,
        items=tuple(zip(items, names, strict=True)),
        empty=() if in_series or names != items else tuple(further),
        markers=_markers(rows, items),
    )


def _family(column: str) -> str:
    return _NUMBER.sub("#", column)


def _may_be_ranks(rows: Sequence[Row], column: str, most: int) -> bool:
    """Whether a column may hold ranks although the rows read show none, or only markers."""
    texts = set(texts_of(rows, column)) - _UNRANKED
    found = _small_numbers(rows, column, MARKERS)
    beside_markers = bool(texts & MARKERS) and found is not None and max(found) <= most
    return texts <= MARKERS or beside_markers


def _markers(rows: Sequence[Row], columns: Sequence[str]) -> tuple[str, ...]:
    return tuple(sorted({text for c in columns for text in texts_of(rows, c)} & MARKERS))


def _small_numbers(
    rows: Sequence[Row], column: str, marked: Collection[str] = ()
) -> list[int] | None:
    """Return the values of a column if all are whole numbers from 1 to `MOST_ITEMS`; else None.

    Texts of `marked` do not count. An empty column has no values, and may belong to an item that
    nobody ranked in these rows.
    """
    texts = [text for text in texts_of(rows, column) if text not in (*_UNRANKED, *marked)]
    found = [int(float(text)) for text in texts if _WHOLE.fullmatch(text)]
    fits = len(found) == len(texts) > 0 and min(found) >= 1 and max(found) <= MOST_ITEMS
    return found if fits else None


def _are_ranks(rows: Sequence[Row], columns: Sequence[str], marked: Collection[str]) -> bool:
    """Whether each row gives these columns ranks from 1 on, and hardly any rank twice."""
    strict = 0
    for row in rows:
        ranks = [rank for column in columns for rank in _small_numbers([row], column, marked) or []]
        if ranks and (min(ranks) != 1 or max(ranks) > len(columns)):
            return False
        strict += len(ranks) > 1 and len(set(ranks)) == len(ranks)
    return 2 * strict > len(rows)


def _names_of(columns: Sequence[str], questions: Mapping[str, str]) -> list[str]:
    """Item of each column: from brackets in its name, the end of its question, or its name.

    Forms write `Rank these cities [London]`; Qualtrics writes `Rank these cities - London`.
    """
    bracketed = [found[1] if (found := _BRACKETED.search(each)) else "" for each in columns]
    asked = [questions.get(each, "").rpartition(" - ")[2].strip() for each in columns]
    for names in (bracketed, asked):
        if all(names) and len(set(names)) == len(names):
            return names
    return list(columns)


def _as_list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _holds_lists(rows: Sequence[Row], column: str) -> bool:
    values = [value for row in rows if (value := row.get(column)) is not None]
    return bool(values) and all(
        isinstance(value, list) and all(isinstance(item, str | int) for item in value)
        for value in values
    )


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
_LAST_NUMBER = re.compile(r"\d+(?!.*\d)")
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
    for series in (placed, among, *numbered_series(columns), ordinal):
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


def numbered_series(columns: Sequence[str]) -> Iterator[list[str]]:
    """Yield series of columns that differ only in a number, such as `Q1[1]` to `Q1[4]`."""
    families: dict[str, list[str]] = {}
    for column in columns:
        if _LAST_NUMBER.search(column):
            families.setdefault(_LAST_NUMBER.sub("#", column), []).append(column)
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
