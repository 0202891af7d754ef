"""Roles of columns as a person states them, in place of guesses. Pure.

A person chooses the role of a column from a menu. The rows that were read only decide how a result
or a mark is written. A form whose columns are items, pairs or places lets a person name the
column of people, and leave items out; its other columns are what their names say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from hushrank.flows.errors import ConfigError
from hushrank.flows.planning.propose.columns import ColumnGuess, guess_columns, stated_columns
from hushrank.flows.planning.propose.head import Head, Source
from hushrank.flows.planning.propose.names import Row
from hushrank.flows.planning.propose.people import UserGuess
from hushrank.flows.planning.propose.rankings import RankingGuess, stated_ranks
from hushrank.flows.planning.propose.responses import ResponseGuess, stated_marks

Guess = ColumnGuess | ResponseGuess | RankingGuess

UNUSED, ITEM, PAIR, PLACE, USER = "", "item", "pair", "place", "user"
BEST, WORST, SHOWN = "best", "worst", "shown"
FIXED = (PAIR, PLACE, BEST, WORST, SHOWN)  # roles that the names of columns decide
MEANINGS = {
    UNUSED: "not used",
    USER: "whose row it is",
    "left": "one of the two items compared",
    "right": "the other item",
    "outcome": "the result: which side won",
    "winner": "the item that won",
    "loser": "the item that lost",
    "event": "id of the answer",
    ITEM: "the item",
    "correct": "the mark: right or wrong",
    "rank": "the rank, a number",
    "ranking": "a list of items",
    "contest": "id of the ranking",
    PAIR: "a pair of items",
    PLACE: "a place of the ranking",
    BEST: "the best item of a set",
    WORST: "the worst item of a set",
    SHOWN: "an item of the set that was shown",
}
_MENUS = {
    "comparisons": (UNUSED, USER, "left", "right", "outcome", "winner", "loser", "event"),
    "responses": (UNUSED, USER, ITEM, "correct"),
    "rankings": (UNUSED, USER, ITEM, "rank", "contest"),
    "list": (UNUSED, USER, "ranking"),
}


def roles_of(guess: Guess) -> dict[str, str]:
    """Return the role of each column that has one, by column."""
    roles = {column: role for role, column in guess.known().items()}
    if isinstance(guess, ColumnGuess):
        columns = () if guess.asked is None else (column for column, _, _ in guess.asked.pairs)
        return dict.fromkeys(columns, PAIR) | roles
    if isinstance(guess, RankingGuess):
        items = dict.fromkeys((column for column, _ in guess.items), ITEM)
        shown = dict.fromkeys(guess.shown, SHOWN)
        for each in guess.sets:
            shown |= {each.best: BEST, each.worst: WORST} | dict.fromkeys(each.shown, SHOWN)
        return items | dict.fromkeys(guess.places, PLACE) | shown | roles
    return dict.fromkeys(guess.items, ITEM) | roles


def menus_of(guess: Guess, columns: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the roles that each column may be given, by column."""
    fixed = {column: role for column, role in roles_of(guess).items() if role in FIXED}
    if isinstance(guess, ColumnGuess):
        asked = guess.asked is not None
        menu = (UNUSED, USER) if asked else _MENUS["comparisons"]
    elif isinstance(guess, ResponseGuess):
        menu = (UNUSED, USER) if guess.layout == "wide" else _MENUS["responses"]
    else:
        menus = {"long": _MENUS["rankings"], "list": _MENUS["list"]}
        menu = menus.get(guess.layout, (UNUSED, USER))
    items = _columns_of_items(guess)
    return {
        column: (fixed[column],)
        if column in fixed
        else ((UNUSED, USER, ITEM) if column in items else menu)
        for column in columns
    }


def with_roles(
    guess: Guess, columns: Sequence[str], rows: Sequence[Row], roles: Mapping[str, str]
) -> Guess:
    """Return the guess with the roles that a person states.

    Args:
        guess: guess of the same file, which says which form it has.
        columns, rows: header and first rows.
        roles: role of each column, by column; `menus_of` has those that are allowed.

    Raises:
        ValueError: a role is not on the menu of its column, two columns have the same role, or a
            column of marks does not hold marks. The text names columns and roles only.
    """
    menus = menus_of(guess, columns)
    for column, role in roles.items():
        if role not in menus.get(column, ()):
            raise ValueError(f"column {column} cannot be {MEANINGS.get(role, 'that')}")
    single = {column: role for column, role in roles.items() if role not in (UNUSED, *FIXED)}
    chosen = [column for column in columns if single.get(column) == ITEM]
    if items := _columns_of_items(guess):
        single = {column: role for column, role in single.items() if role != ITEM}
        guess = _with_items(guess, [column for column in items if column in chosen])
    by_role: dict[str, str] = {}
    for column, role in single.items():
        if role in by_role:
            both = f"{by_role[role]} and {column}"
            raise ValueError(f"columns {both} cannot both be {MEANINGS[role]}")
        by_role[role] = column
    user = UserGuess.certain(by_role[USER]) if USER in by_role else None
    if items or fixed_form(guess):
        return replace(guess, user=user)
    if isinstance(guess, ColumnGuess):
        return stated_columns(columns, rows, by_role, user)
    if isinstance(guess, ResponseGuess):
        return stated_marks(rows, by_role, user)
    return stated_ranks(rows, by_role, user, guess.layout)


def stated_guess(
    source: Source, head: Head, guess: Guess | None, roles: Mapping[str, str]
) -> Guess:
    """Return the guess with the roles that a person states; without a guess, of comparisons.

    Raises:
        ConfigError: as the ValueError of `with_roles`; the text names the source.
    """
    form = guess_columns(head.columns, head.rows) if guess is None else guess
    try:
        return with_roles(form, head.columns, head.rows, roles)
    except ValueError as error:
        raise ConfigError(f"{source}: {error}. Give them other roles") from None


def fixed_form(guess: Guess) -> bool:
    """Whether the columns themselves are items, pairs or places."""
    if isinstance(guess, ColumnGuess):
        return guess.asked is not None
    return guess.layout in ("wide", "places", "best-worst")


def _columns_of_items(guess: Guess) -> list[str]:
    """Columns of a form that may be items, in the order of the file."""
    if isinstance(guess, RankingGuess):
        return [column for column, _ in guess.items]
    if isinstance(guess, ResponseGuess) and guess.layout == "wide":
        return [*guess.items]
    return []


def _with_items(guess: Guess, chosen: Sequence[str]) -> Guess:
    """Return the form without the items that a person left out."""
    if len(chosen) < 2:
        raise ValueError("at least two columns must be items")
    if isinstance(guess, RankingGuess):
        items = tuple(each for each in guess.items if each[0] in chosen)
        empty = tuple(each for each in guess.empty if each in chosen)
        return replace(guess, items=items, empty=empty)
    if isinstance(guess, ResponseGuess):
        empty = tuple(each for each in guess.empty if each in chosen)
        return replace(guess, items=tuple(chosen), empty=empty)
    return guess
