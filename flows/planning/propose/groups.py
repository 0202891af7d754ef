"""Propose `groups` for a log that has a column such as a language or a country. Pure.

The name of a column proposes it. Its values only speak against it: text that is too long for a
public group. None of them is written, because groups made of the rows would tell who is in them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from hushrank.flows.planning.propose.names import Row, words_of
from hushrank.flows.planning.propose.texts import choose, line, scalar
from hushrank.flows.planning.propose.values import holds_numbers, texts_of

MOST_CHARACTERS = 40  # longest name of a group; longer values are free text

_GROUPS = frozenset(
    {
        *("language", "languages", "lang", "locale", "country", "nation", "region", "state"),
        *("category", "categories", "topic", "domain", "genre", "market", "segment", "platform"),
        *("gender", "sex", "cohort", "department", "faculty", "sprache", "land", "kategorie"),
    }
)
_BESIDE = frozenset({"code", "name", "user", "student", "rater", "voter", "judge", "annotator"})


def group_column(columns: Sequence[str], rows: Sequence[Row], taken: Collection[str]) -> str | None:
    """Find the first column that is named like a group and has no other role; None: no column.

    Args:
        columns: names of columns, in the order of the file.
        rows: the first few rows.
        taken: columns with a role.
    """
    for column in columns:
        words = set(words_of(column)) - _BESIDE
        if column in taken or len(words) != 1 or not words <= _GROUPS:
            continue
        values = texts_of(rows, column)
        broken = any("." in value for value in values) and holds_numbers(rows, column)
        if not broken and all(len(value) <= MOST_CHARACTERS for value in values):
            return column
    return None


def group_lines(column: str | None) -> Iterator[str]:
    """Lines, in comments, that propose groups for a column; none if the column is None."""
    if column is None:
        return
    yield f"# All rows are ranked together. To rank each {_in_comment(column)} too, at the same"
    yield "# epsilon, remove the # of the next three lines and set method: win-loss, noisy-counts"
    yield "# or noisy-pairs. Groups are public: name them from how answers were asked for, never"
    yield "# from rows."
    yield "# groups:"
    yield line("#   column", scalar(column))
    yield choose("#   values", "all public groups to rank, for example [English, German]")
    yield ""


def _in_comment(text: str) -> str:
    return " ".join(text.split())
