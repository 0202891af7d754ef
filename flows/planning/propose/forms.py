"""Forms of files that hushrank does not read, recognised by column names and a few rows. Pure.

Each is named in one sentence that says what to write in its place. No value of a row is shown.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from hushrank.flows.planning.propose.names import (
    SIDES,
    Row,
    holds_numbers,
    pairs_of,
    text_of,
    texts_of,
    words_of,
)
from hushrank.flows.planning.propose.pairs import AS_PAIRS
from hushrank.flows.planning.propose.rankings import PLACED, name_items
from hushrank.transforms.common.plain_text import short_list

_AS_LONG = (
    "Write a row for each ranked item, with columns voter, candidate and rank, or a row for each"
    " ballot with a column for each place, as Rank 1, that holds a name"
)
_CLEAR_BALLOT = re.compile(r"Choice_\d+_\d+:.*:\d+:.*")
_NUMBER = re.compile(r"\d+(?!.*\d)")
_DECIMAL = re.compile(r"\s*[-+]?\d+,\d+\s*")
_SEPARATORS = (";", "|", ">", "→", "≻", ",")
_OF_RATINGS = re.compile("ratings?|rates?|stars?|grades?|likert|helpful(?:ness)?(?:level)?")
_RATED = frozenset({"item", "note", "movie", "film", "product", "book", "song", "artist", "post"})
_WINS = re.compile("wins?|victories|siege|scores?|points?|goals?|runs?|votes?|punkte|tore")
_OF_PLACE = frozenset({"rank", "ranking", "place", "position", "rang", "platz"})


def recorded_form(columns: Sequence[str]) -> str | None:
    """Recognise a file of a known program, and say what to write instead; None: it is unknown.

    Args:
        columns: names, in the order of the file.
    """
    if any(map(_CLEAR_BALLOT.fullmatch, columns)):
        return (
            "these are cast vote records of Clear Ballot, with a cell for each candidate and rank,"
            f" which are not read. {_AS_LONG}, one file for each contest"
        )
    words = [set(words_of(column)) for column in columns]
    if {"note", "id"} in words and any(each & {"helpful", "helpfulness"} for each in words):
        return (
            "these are ratings of notes, each by itself, which are not read. hushrank ranks from"
            f" comparisons, rankings and test answers. {AS_PAIRS}, if people compared notes"
        )
    return None


def unread_table(columns: Sequence[str], rows: Sequence[Row]) -> str | None:
    """Recognise an unreadable table, and say what to write instead; None: it may be readable.

    Args:
        columns: names, in the order of the file.
        rows: the first few rows; values as text, numbers, lists or None.
    """
    for told in (_cells_of_ranks, _unnamed_places, _places_in_words, _counts):
        if found := told(columns, rows):
            return found
    return None


def unread_column(columns: Sequence[str], rows: Sequence[Row]) -> str | None:
    """Recognise an unreadable column, and say what to write instead; None: it is unknown.

    Args:
        columns: names, in the order of the file.
        rows: the first few rows; values as text, numbers, lists or None.
    """
    return _objects(columns, rows) or _joined(columns, rows) or _ratings(columns, rows)


def _objects(columns: Sequence[str], rows: Sequence[Row]) -> str | None:
    """Recognise a column of JSON objects, such as `{"London": 1, "Paris": 2}`."""
    found = [column for column in columns if any(isinstance(row.get(column), dict) for row in rows)]
    if not found:
        return None
    return (
        f"column {found[0]} holds objects, which are not read. Give each value a key of its own;"
        f" or, for rankings: {_AS_LONG[0].lower()}{_AS_LONG[1:]}"
    )


def _cells_of_ranks(columns: Sequence[str], rows: Sequence[Row]) -> str | None:
    """Recognise a 0/1 cell for each item and rank; each row marks each rank and item once."""
    cells: dict[str, dict[str, str]] = {}
    for column in columns:
        number = _NUMBER.search(column)
        if number and set(texts_of(rows, column)) <= {"0", "1", "0.0", "1.0"}:
            cells.setdefault(_NUMBER.sub("#", column), {})[number[0]] = column
    ranks = max((set(each) for each in cells.values()), key=len, default=set())
    grid = [each for each in cells.values() if set(each) == ranks]
    whole = {str(place) for place in range(1, len(ranks) + 1)}
    if len(grid) < 3 or len(ranks) < 2 or ranks != whole:
        return None
    marked = 0
    for row in rows:
        items = [sum(_is_marked(row, column) for column in each.values()) for each in grid]
        places = [sum(_is_marked(row, each[rank]) for each in grid) for rank in ranks]
        if max(items) > 1 or max(places) > 1:
            return None
        marked += sum(items) > 1
    if 2 * marked <= len(rows):
        return None
    return f"it has a cell for each item and rank, which is not read. {_AS_LONG}"


def _is_marked(row: Row, column: str) -> bool:
    return text_of(row.get(column)) in ("1", "1.0")


def _unnamed_places(columns: Sequence[str], rows: Sequence[Row]) -> str | None:
    """Recognise three columns or more each of whose words stands in another one too."""
    words = {column: set(texts_of(rows, column)) for column in columns}
    found = [column for column in columns if words[column]]
    shared = Counter(word for column in found for word in words[column])
    found = [column for column in found if all(shared[word] > 1 for word in words[column])]
    if len(found) < 3 or not name_items(rows, found, repeated=False):
        return None
    return (
        f"columns {short_list(found, 3)} name the same items, and no name says which place a column"
        " is. Call them Rank 1, Rank 2 and so on, the best one first, if that is what they are;"
        f" otherwise: {AS_PAIRS[0].lower()}{AS_PAIRS[1:]}"
    )


def _places_in_words(columns: Sequence[str], rows: Sequence[Row]) -> str | None:
    """Recognise cells that hold places in words, such as first choice, in the column of each item
    or in one of ranks."""
    found = [
        column
        for column in columns
        if (texts := texts_of(rows, column)) and all(map(PLACED.fullmatch, texts))
    ]
    in_rows = len(found) == 1 and _OF_PLACE & set(words_of(found[0]))  # a row a ranked item
    if len(found) < 2 and not in_rows:
        return None
    held = f"column {found[0]} holds" if in_rows else f"columns {short_list(found, 3)} hold"
    return (
        f"{held} places in words, which are not read. Write numbers in their place: 1 for the first"
        " choice, 2 for the second"
    )


def _joined(columns: Sequence[str], rows: Sequence[Row]) -> str | None:
    """Recognise one column whose cells hold whole rankings, such as `a;b;c`."""
    found = [column for column in columns if _holds_rankings(rows, column)]
    if len(found) != 1:
        return None
    return (
        f"a cell of column {found[0]} seems to hold a whole ranking, as text, which is not read."
        f' {_AS_LONG}; or JSON Lines with a list, such as {{"ranking": ["London", "Paris"]}}'
    )


def _holds_rankings(rows: Sequence[Row], column: str) -> bool:
    cells = [value for row in rows if isinstance(value := row.get(column), str) and value.strip()]
    cells = [cell for cell in cells if not _DECIMAL.fullmatch(cell)]
    for separator in _SEPARATORS:
        # equal signs join items of one place
        split = (re.split(f"[=~{re.escape(separator)}]", cell) for cell in cells)
        lists = [[part.strip(" []\"'()") for part in parts] for parts in split]
        lists = [[part for part in each if part] for each in lists]
        whole = [each for each in lists if len(each) >= 2 and len(set(each)) == len(each)]
        items = Counter(part for each in whole for part in each)
        several = sum(times > 1 for times in items.values())
        if len(whole) > 1 and 2 * len(whole) > len(cells) and 2 * several > len(items):
            return True
    return False


def _counts(columns: Sequence[str], rows: Sequence[Row]) -> str | None:
    """Recognise a number for each side of a pair, such as `home.wins` and `away.wins`, or their
    scores."""
    for left, right in pairs_of(columns, SIDES):
        if any(map(_WINS.fullmatch, words_of(left))) and all(
            holds_numbers(rows, column) and set(texts_of(rows, column)) - {"0", "1"}
            for column in (left, right)
        ):
            return (
                f"columns {left} and {right} seem to hold wins or points of each side, which are"
                f" not read. {AS_PAIRS}; counts of several answers protect nobody"
            )
    return None


def winners_beside_lists(columns: Sequence[str], rows: Sequence[Row], listed: str) -> str | None:
    """Recognise a list of the items that were compared, beside a column of the one that won.

    Args:
        columns: names, in the order of the file.
        rows: the first few rows; values as text, numbers, lists or None.
        listed: the column of the lists.
    """
    lists = [value if isinstance(value := row.get(listed), list) else [] for row in rows]
    for column in columns:
        named = [text_of(row.get(column)) for row in rows]
        if any(named) and all(
            not text or text in map(text_of, items)
            for text, items in zip(named, lists, strict=True)
        ):
            return (
                f"column {listed} seems to list the items that were compared, and {column} the one"
                f" that won, which is not read. {AS_PAIRS}"
            )
    return None


def _ratings(columns: Sequence[str], rows: Sequence[Row]) -> str | None:
    """Recognise a rating of one item in each row."""
    rating = [c for c in columns if _OF_RATINGS.fullmatch("".join(words_of(c)))]
    rated = [c for c in columns if _RATED & set(words_of(c))]
    if not rating or not rated or not set(texts_of(rows, rating[0])) - {"0", "1"}:
        return None
    return (
        f"column {rating[0]} seems to hold ratings of single items, which are not read. hushrank"
        f" ranks from comparisons, rankings and test answers. {AS_PAIRS}, if people compared items"
    )
