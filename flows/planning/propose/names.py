"""The meaning of column names: words of a name, and names of sides, results and items. Pure.

Lines of a proposed configuration.

Form of the values of a few rows. Pure; no value enters a proposal.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import yaml

Row = Mapping[str, object]
CHOOSE = "CHOOSE:"  # mark of a line that the person has to complete
NameWords = tuple[str, ...]

# Words for the left and the right side, in names of columns and in words of a result.
SIDES = (
    ("left", "right"),
    ("l", "r"),
    ("links", "rechts"),
    ("a", "b"),
    ("i", "j"),
    ("1", "2"),
    ("first", "second"),
    ("one", "two"),
    ("home", "away"),
    ("white", "black"),
)
_THIRD = {"a": "c", "i": "k", "1": "3", "first": "third", "one": "three"}
BEST_AND_WORST = (("best", "worst"), ("most", "least"))  # column names for a set of items
WON_AND_LOST = (
    ("winner", "loser"),
    ("won", "lost"),
    ("winning", "losing"),
    ("chosen", "rejected"),
    ("preferred", "rejected"),
    ("selected", "rejected"),
    ("better", "worse"),
    *BEST_AND_WORST,
)
TIES = (
    *("tie", "tied", "draw", "drawn", "equal", "same", "both", "neither", "none", "no preference"),
    *("both_good", "both_bad", "bothgood", "bothbad", "tie (bothgood)", "tie (bothbad)"),
)
# The names of a pair of item columns hold one of these words, or only the words of the sides.
_ITEMS = frozenset(
    {
        *("item", "model", "option", "player", "system", "candidate", "video", "entity"),
        *("alternative", "choice", "school", "team", "song", "university", "movie", "film"),
        *("image", "picture", "photo", "idea", "product", "artist", "name", "names", "llm"),
        *("bot", "agent", "engine", "policy", "contestant", "city", "party", "answerer"),
        *("brand", "variety", "design", "concept", "statement"),
    }
)
# Words of columns that belong to a pair of items but do not name the items.
_ABOUT_ITEMS = frozenset(
    {
        *("conversation", "chat", "response", "answer", "text", "output", "completion"),
        *("score", "elo", "rating", "win", "wins", "won", "adj", "time", "rank", "tokens"),
        *("length", "seed", "points", "age", "url", "prob", "probability", "weight"),
        "latency",
    }
)

RESULT_OF_ITEMS = re.compile(
    "winner|choice|chosen|pick|picked|pref|preferred|preference|selected|selection|vote|answer"
    "|verdict|judgment|judgement|better|best|wahl|gewinner|sieger|ergebnis"
)
RESULT = re.compile("outcome|result|label|y")


def words_of(column: str) -> NameWords:
    """Split a name: `Item_A`, `itemA`, `item a`, `item-a` give item and a; `item1` item and 1."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", column)
    return tuple(re.findall(r"[^\W\d_]+|\d+", spaced.lower()))


def meaning_of(column: str) -> str:
    """Return the only word of a name, apart from `id`; empty if there are more words."""
    words = [word for word in words_of(column) if word != "id"]
    return words[0] if len(words) == 1 else ""


def only_with_meaning(columns: Sequence[str], meaning: re.Pattern[str]) -> str | None:
    """Find the only column whose name, apart from `id`, is a word of that meaning."""
    found = [column for column in columns if meaning.fullmatch(meaning_of(column))]
    return found[0] if len(found) == 1 else None


def sides_of(columns: Sequence[str]) -> tuple[str, str] | None:
    """Find the two columns of the items; None if names allow no reading, or several."""
    best = best_sides(columns)
    return best[0] if len(best) == 1 else None


def best_sides(columns: Sequence[str]) -> list[tuple[str, str]]:
    """List the likeliest pairs of columns whose names differ in one word of `SIDES`."""
    pairs = [pair for pair in pairs_of(columns, SIDES) if not _has_third(pair[0], columns)]
    ranks = [_unlikeliness(left) for left, _ in pairs]
    return [pair for pair, rank in zip(pairs, ranks, strict=True) if rank == min(ranks)]


def winner_and_loser(columns: Sequence[str]) -> tuple[str, str] | None:
    """Find the columns of winner and loser; among several, names come before ids."""
    known = {words_of(column) for column in columns}
    found = [
        (rank, pair)
        for pair in pairs_of(columns, WON_AND_LOST)
        if (rank := _place_of(pair[0], known)) is not None
    ]
    return min(found)[1] if found else None


def pairs_of(
    columns: Sequence[str], opposites: Collection[tuple[str, str]]
) -> Iterator[tuple[str, str]]:
    """Yield all pairs of columns whose names differ in one word of `opposites`, in their order."""
    named: dict[NameWords, list[str]] = {}
    for column in columns:
        named.setdefault(words_of(column), []).append(column)
    for column in columns:
        for wanted in _with_word_changed(words_of(column), opposites):
            for other in named.get(wanted, ()):
                yield column, other


def _with_word_changed(
    words: NameWords, changes: Collection[tuple[str, str]]
) -> Iterator[NameWords]:
    for place, word in enumerate(words):
        for old, new in changes:
            if word == old:
                yield (*words[:place], new, *words[place + 1 :])


def _has_third(left: str, columns: Sequence[str]) -> bool:
    """Whether a third column continues the series: item1, item2, item3 are no pair."""
    others = {words_of(column) for column in columns}
    return any(third in others for third in _with_word_changed(words_of(left), [*_THIRD.items()]))


def _unlikeliness(left: str) -> tuple[int, int, int]:
    words = words_of(left)
    stem = set(words) - {side for pair in SIDES for side in pair} - {"id"}
    named, about = not stem - _ITEMS, bool(stem & _ABOUT_ITEMS)
    return 2 * about + (not named), len(words), "id" in words


def _place_of(winner: str, known: Collection[NameWords]) -> int | None:
    """Rank of a column as the winner's name, 0 the best; None: it says something about the winner.

    A text is the name of what an id beside it numbers: `Winner Text` beside `Winner ID`.
    """
    words = words_of(winner)
    if "text" in words and tuple("id" if word == "text" else word for word in words) in known:
        words = tuple("name" if word == "text" else word for word in words)
    rest = set(words) - {word for pair in WON_AND_LOST for word in pair}
    if not rest <= _ITEMS | {"id"}:
        return None
    if "name" in rest:
        return 0
    return 2 if "id" in rest else 1


_COMMENT_COLUMN = 32


def about_lines() -> Iterator[str]:
    """Yield the section that tells readers who was asked what, for the person to fill in.

    All lines are comments, because a job runs without them; the page then says "not stated".
    """
    yield "# Description of the survey for the page. Remove the # and fill in what you can:"
    yield "# report:"
    yield "#   about:"
    for key, value in (
        ("title", "Canteen survey 2026"),
        ("question", "Which of these two dishes do you like better?"),
        ("who", "students of Example University"),
        ("how_recruited", "by a link in the newsletter of May"),
        ("sample", "open"),
        ("dates", "4 to 18 May 2026"),
        ("contact", "survey@example.org"),
    ):
        about = "or everybody, all of them were asked; or drawn, a random sample was"
        yield f"#     {line(key, value, about if key == 'sample' else '')}"


def choose(key: str, what: str) -> str:
    """Write a line that the person has to complete."""
    return line(key, "", f"{CHOOSE} {what}")


def line(key: str, value: str, comment: str = "") -> str:
    """Write a setting, with a comment for readers of the file."""
    setting = f"{key}: {value}".rstrip()
    return f"{setting:<{_COMMENT_COLUMN}} # {comment}" if comment else setting


def scalar(text: str) -> str:
    """Write `text` as a YAML scalar: plain if it cannot be misread, else quoted."""
    if re.fullmatch(r"[A-Za-z/][\w./-]*", text, re.ASCII) and text.lower() not in _YAML_WORDS:
        return text
    quoted: str = yaml.safe_dump(text, default_style='"', allow_unicode=True, width=len(text) * 10)
    return quoted.strip()


def flow(words: Iterable[str]) -> str:
    """Write texts as a YAML list on one line."""
    return f"[{', '.join(map(scalar, words))}]"


_YAML_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})


def text_of(value: object) -> str:
    """Text of a value as in a CSV file; empty for a null."""
    return "" if value is None else str(value).strip()


def texts_of(rows: Sequence[Row], column: str) -> list[str]:
    """Non-empty values of a column, in lower case."""
    return [text.lower() for row in rows if (text := text_of(row.get(column)))]


def holds_numbers(rows: Sequence[Row], column: str) -> bool:
    """Whether a column has values and all of them are finite numbers."""
    values = texts_of(rows, column)
    return bool(values) and all(map(_is_number, values))


def numbered_column(rows: Sequence[Row], columns: Sequence[str]) -> str | None:
    """Find the first of these columns whose values are all whole numbers; None: there is none."""
    for column in columns:
        values = texts_of(rows, column)
        if values and all(value.removesuffix(".0").isdigit() for value in values):
            return column
    return None


def empty_columns(rows: Sequence[Row], columns: Sequence[str]) -> list[str]:
    """List the columns without a value in any of the rows; none if no row was read."""
    return [column for column in columns if rows and not texts_of(rows, column)]


def _is_number(value: str) -> bool:
    try:
        return math.isfinite(float(value))
    except ValueError:
        return False
