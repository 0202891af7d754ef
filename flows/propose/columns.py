"""Guess which columns of a log play which role, from their names and a few rows. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from hushrank.transforms.common.encode import OUTCOME_TEXTS, TIE_WORD

PERSON = re.compile(
    "user|person|student|participant|respondent|annotator|rater|judge|voter|worker|subject|customer"
    "|member|assessor|evaluator|uid"
)
_WINNER = re.compile(
    "winner|choice|chosen|pick|picked|preferred|preference|selected|selection|vote|answer"
)
_OUTCOME = re.compile("outcome|result|label|y")
_EVENT = re.compile("event")
_SIDES = (("left", "right"), ("a", "b"), ("i", "j"), ("1", "2"), ("first", "second"))

Row = Mapping[str, object]
Words = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ColumnGuess:
    """Which column seems to play which role; None where that cannot be told.

    `outcome` and `winner` are two ways to write the result: at most one of them is set.
    """

    user: str | None
    left: str | None
    right: str | None
    outcome: str | None
    winner: str | None
    event: str | None

    def known(self) -> dict[str, str]:
        """Column of each role that was found."""
        roles = ("user", "left", "right", "outcome", "winner", "event")
        return {role: column for role in roles if (column := getattr(self, role)) is not None}

    def unknown(self) -> list[str]:
        """Roles that a person must fill."""
        known = self.known()
        if "winner" in known:
            known["outcome"] = known["winner"]
        return [role for role in ("user", "left", "right", "outcome") if role not in known]


def guess_columns(columns: Sequence[str], rows: Sequence[Row]) -> ColumnGuess:
    """Guess from names; the rows only decide how a result is written.

    Args:
        columns: names, in the order of the file.
        rows: the first few rows; values as text, numbers or None.
    """
    sides = sides_of(columns)
    outcome, winner = _result(columns, rows, sides)
    left, right = sides or (None, None)
    return ColumnGuess(
        user=only_with_meaning(columns, PERSON),
        left=left,
        right=right,
        outcome=outcome,
        winner=winner,
        event=only_with_meaning(columns, _EVENT),
    )


def items_seen(rows: Sequence[Row], guess: ColumnGuess) -> int | None:
    """How many items occur in `rows`; None where their columns are unknown."""
    if guess.left is None or guess.right is None:
        return None
    return len({_text(row.get(side)) for row in rows for side in (guess.left, guess.right)} - {""})


def _words(column: str) -> Words:
    """`Item_A`, `itemA`, `item a` and `item-a` are the words item and a; `item1` item and 1."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", column)
    return tuple(re.findall(r"[^\W\d_]+|\d+", spaced.lower()))


def _meaning(column: str) -> str:
    """The only word of a name, apart from `id`; empty where there are more."""
    words = [word for word in _words(column) if word != "id"]
    return words[0] if len(words) == 1 else ""


def only_with_meaning(columns: Sequence[str], meaning: re.Pattern[str]) -> str | None:
    """The column whose name, apart from `id`, is a word of that meaning; None: none, or several."""
    found = [column for column in columns if meaning.fullmatch(_meaning(column))]
    return found[0] if len(found) == 1 else None


def _result(
    columns: Sequence[str], rows: Sequence[Row], sides: tuple[str, str] | None
) -> tuple[str | None, str | None]:
    """The first column that is named like a result and holds one, as (outcome, winner).

    Where the items are themselves called 0 and 1, both ways to read it may fit: the name decides.
    """
    for column in columns:
        like_winner = _WINNER.fullmatch(_meaning(column)) is not None
        if not (like_winner or _OUTCOME.fullmatch(_meaning(column))):
            continue
        items = sides is not None and _holds_items(rows, column, sides)
        signs = _holds_outcomes(rows, column)
        if items and (like_winner or not signs):
            return None, column
        if signs:
            return column, None
    return None, None


def sides_of(columns: Sequence[str]) -> tuple[str, str] | None:
    """The two columns whose names differ in one word of `_SIDES`; of several, the shortest pair."""
    named: dict[Words, list[str]] = {}
    for column in columns:
        named.setdefault(_words(column), []).append(column)
    pairs = [
        (column, other)
        for column in columns
        for wanted in _other_sides(_words(column))
        for other in named.get(wanted, ())
    ]
    shortest = min((len(_words(left)) for left, _ in pairs), default=0)
    found = [pair for pair in pairs if len(_words(pair[0])) == shortest]
    return found[0] if len(found) == 1 else None


def _other_sides(words: Words) -> Iterator[Words]:
    """What the right side would be called whose left side is called `words`."""
    for place, word in enumerate(words):
        for left, right in _SIDES:
            if word == left:
                yield (*words[:place], right, *words[place + 1 :])


def _holds_items(rows: Sequence[Row], column: str, sides: tuple[str, str]) -> bool:
    found = [(_text(row.get(column)), {_text(row.get(side)) for side in sides}) for row in rows]
    written = [(winner, items) for winner, items in found if winner]
    return bool(written) and all(
        winner in items or winner.lower() == TIE_WORD for winner, items in written
    )


def _holds_outcomes(rows: Sequence[Row], column: str) -> bool:
    written = [text for row in rows if (text := _text(row.get(column)))]
    return bool(written) and all(text in OUTCOME_TEXTS for text in written)


def _text(value: object) -> str:
    return "" if value is None else str(value).strip()
