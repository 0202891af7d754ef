"""Guess the role of each column in a log of comparisons, from names and a few rows. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from hushrank.flows.planning.propose.names import (
    BEST_AND_WORST,
    RESULT,
    RESULT_OF_ITEMS,
    SIDES,
    TIES,
    Row,
    best_sides,
    meaning_of,
    numbered_column,
    only_with_meaning,
    pairs_of,
    text_of,
    texts_of,
    winner_and_loser,
    words_of,
)
from hushrank.flows.planning.propose.pairs import PairsGuess, guess_pairs
from hushrank.flows.planning.propose.people import UserGuess, guess_user, known_user
from hushrank.flows.planning.propose.questions import Reading
from hushrank.transforms.common.encode import OUTCOME_TEXTS

MOST_OF_A_CODE = 20  # longest code, in characters
LONGEST_SCALE = 10  # largest number of a scale of preference

_EVENT = re.compile("event")
_OF_TIES = frozenset(
    {"tie", "ties", "tied", "draw", "draws", "equal", "both", "neither", "undecided", "indifferent"}
)
_WON = frozenset({"win", "wins", "won", "better", "preferred", "chosen"})

_OF_A_SET = (
    "best and worst of a set count as one comparison, best against worst, so a set costs one of"
    " max_contributions"
)

NO_QUESTIONS: Mapping[str, str] = {}

Sides = tuple[str, str]


@dataclass(frozen=True, slots=True)
class ResultWords:
    """Words for a result, none of them taken from a row; empty: hushrank's own words suit."""

    left: tuple[str, ...] = ()
    right: tuple[str, ...] = ()
    tie: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnGuess:
    """Likely role of each column; None for a role that no column clearly has.

    `outcome` and `winner` are two ways to write the result: at most one of them is set. If `loser`
    is set, `left` and `right` are not.

    Attributes:
        words: meaning of the words of the result; None: no words are needed.
        readings: possible meanings of codes in column `outcome`; empty: codes that this room does
            not know; None: the column holds words, or numbers whose meaning is plain.
        empty_winner: why a row may have no winner; empty: nothing suggests that.
        numbered: the column of items whose values that were read are whole numbers; None: none is.
        otherwise: further facts about the result that the person has to know; None: nothing.
        asked: columns of a form that ask about a pair of items each; then the person alone is
            another role. None: the file is no such form.
    """

    user: UserGuess | None = None
    left: str | None = None
    right: str | None = None
    outcome: str | None = None
    winner: str | None = None
    loser: str | None = None
    event: str | None = None
    words: ResultWords | None = None
    readings: tuple[Reading, ...] | None = None
    empty_winner: str = ""
    numbered: str | None = None
    otherwise: str | None = None
    asked: PairsGuess | None = None

    def known(self) -> dict[str, str]:
        """Column of each role that was found, except guesses."""
        found = known_user(self.user)
        roles = ("left", "right", "outcome", "winner", "loser", "event")
        return found | {
            role: column for role in roles if (column := getattr(self, role)) is not None
        }

    def unknown(self) -> list[str]:
        """Roles that the person must fill in."""
        known = self.known().keys()
        if self.asked is not None:
            return [] if "user" in known else ["user"]
        needed = [("user", {"user"}), ("left", {"left", "loser"}), ("right", {"right", "loser"})]
        needed.append(("outcome", {"outcome", "winner"}))
        return [role for role, ways in needed if not ways & known]

    @property
    def sides(self) -> Sides | None:
        """Columns of the two items; None if they are unknown."""
        if self.winner is not None and self.loser is not None:
            return self.winner, self.loser
        return None if self.left is None or self.right is None else (self.left, self.right)


@dataclass(frozen=True, slots=True)
class _Result:
    outcome: str | None = None
    winner: str | None = None
    words: ResultWords | None = None
    readings: tuple[Reading, ...] | None = None
    empty_winner: bool = False


def guess_columns(
    columns: Sequence[str], rows: Sequence[Row], questions: Mapping[str, str] = NO_QUESTIONS
) -> ColumnGuess:
    """Guess roles from names; rows only decide how a result is written.

    Args:
        columns: names of columns, in the order of the file.
        rows: the first few rows; values as text, numbers or None.
        questions: texts of a second header, by column; may be empty.
    """
    if (asked := guess_pairs(columns, rows, questions)) is not None:
        taken = [column for column, _, _ in asked.pairs]
        user = guess_user(columns, rows, taken, row_a_person=True, may_be_last=False)
        return ColumnGuess(user=user, asked=asked)
    sides, result = _sides_and_result(columns, rows)
    won_and_lost = winner_and_loser(columns)
    if result is not None and not _name_what_are_ids(won_and_lost, sides):
        won_and_lost = None
    event = only_with_meaning(columns, _EVENT)
    if won_and_lost is not None:
        taken = [*won_and_lost, *_about(won_and_lost, columns)]
        user = guess_user(columns, rows, [name for name in (*taken, event) if name])
        best, worst = won_and_lost
        of_set = any(
            {one, other} <= {*words_of(best), *words_of(worst)} for one, other in BEST_AND_WORST
        )
        return ColumnGuess(
            user=user,
            winner=best,
            loser=worst,
            event=event,
            numbered=numbered_column(rows, won_and_lost),
            otherwise=_OF_A_SET if of_set else None,
        )
    left, right = sides or (None, None)
    known = result is not None
    result = result or _Result()
    taken = [name for name in (left, right, result.outcome, result.winner, event) if name]
    user = guess_user(columns, rows, taken, may_be_last=sides is not None and known)
    numbered = numbered_column(rows, sides or ())
    guess = ColumnGuess(user=user, left=left, right=right, event=event, numbered=numbered)
    return _with_result(guess, result, _why_no_winner(columns, taken, result))


def stated_columns(
    columns: Sequence[str], rows: Sequence[Row], roles: Mapping[str, str], user: UserGuess | None
) -> ColumnGuess:
    """Take the roles that a person states; rows only decide how a result is written.

    Args:
        columns: names of columns, in the order of the file.
        rows: the first few rows; values as text, numbers or None.
        roles: column of each role that a person stated.
        user: column of the person; None: not stated.
    """
    left, right, event = (roles.get(role) for role in ("left", "right", "event"))
    if "winner" in roles and "loser" in roles:
        pair = (roles["winner"], roles["loser"])
        numbered = numbered_column(rows, pair)
        return ColumnGuess(user=user, winner=pair[0], loser=pair[1], event=event, numbered=numbered)
    sides = None if left is None or right is None else (left, right)
    result = _Result()
    if "winner" in roles:
        result = _by_items(rows, roles["winner"])
    elif "outcome" in roles and sides is not None:
        column = roles["outcome"]
        unknown = _Result(outcome=column, readings=())  # codes whose meaning is asked for
        result = _reading(rows, column, sides, like_winner=False) or unknown
    numbered = numbered_column(rows, sides or ())
    guess = ColumnGuess(user=user, left=left, right=right, event=event, numbered=numbered)
    return _with_result(guess, result, _why_no_winner(columns, [*roles.values()], result))


def _with_result(guess: ColumnGuess, result: _Result, empty_winner: str) -> ColumnGuess:
    return replace(
        guess,
        outcome=result.outcome,
        winner=result.winner,
        words=result.words,
        readings=result.readings,
        empty_winner=empty_winner,
    )


def _why_no_winner(columns: Sequence[str], taken: Sequence[str], result: _Result) -> str:
    """Say why a row may name no winner: one that was read names none, or a column is of ties."""
    if result.winner is None:
        return ""
    if result.empty_winner:
        return "some of the rows that were read have an empty one"
    of_ties = (name for name in columns if name not in taken and _OF_TIES & {*words_of(name)})
    named = next(of_ties, None)
    return "" if named is None else f"column {named} seems to say where nobody won"


def _name_what_are_ids(won_and_lost: Sides | None, sides: Sides | None) -> bool:
    """Whether columns name winner and loser, while the side columns only hold ids."""
    if won_and_lost is None or sides is None:
        return False
    return "id" in words_of(sides[0]) and "id" not in words_of(won_and_lost[0])


def _sides_and_result(
    columns: Sequence[str], rows: Sequence[Row]
) -> tuple[Sides | None, _Result | None]:
    """Find the likeliest pair of columns; among equally likely pairs, a pair with a result."""
    likeliest = best_sides(columns)
    found = [(sides, _result(columns, rows, sides)) for sides in likeliest]
    if len(found) > 1:
        found = [(sides, result) for sides, result in found if result is not None]
    return found[0] if len(found) == 1 else (None, None)


def _result(columns: Sequence[str], rows: Sequence[Row], sides: Sides) -> _Result | None:
    """Find the first column that is named like a result and holds one, else the only one with
    one."""
    others = [column for column in columns if column not in sides]
    for column in others:
        meaning = meaning_of(column)
        like_winner = RESULT_OF_ITEMS.fullmatch(meaning) is not None
        if like_winner or RESULT.fullmatch(meaning):
            found = _reading(rows, column, sides, like_winner=like_winner)
            if found is not None:
                return found
    by_value = [found for column in others if (found := _reading_of_values(rows, column, sides))]
    if len(by_value) == 1:
        return by_value[0]
    return _of_one_side(columns, rows, sides) or _by_codes_alone(columns, rows, sides)


def _reading(
    rows: Sequence[Row], column: str, sides: Sides, *, like_winner: bool
) -> _Result | None:
    """Decide how to read the column of the result; None: it holds no result.

    If the items are themselves called 0 and 1, both readings may fit; then the name decides.
    """
    items, signs = _holds_items(rows, column, sides), _holds_signs(rows, column)
    if items and (like_winner or not signs):
        return _by_items(rows, column)
    if signs:
        return _by_signs(rows, column)
    return (
        _by_words(rows, column, sides)
        or _by_truths(rows, column)
        or _by_halves(rows, column)
        or _by_scale(rows, column)
        or _by_unknown_codes(rows, column)
    )


def _reading_of_values(rows: Sequence[Row], column: str, sides: Sides) -> _Result | None:
    """Read a column whose name says nothing, as `_reading` does; signs alone could mean
    anything."""
    if not set(texts_of(rows, column)) - set(TIES):
        return None
    if _holds_items(rows, column, sides):
        return _by_items(rows, column)
    named = _by_words(rows, column, sides)
    numbers = {"1", "2", "0"}
    return None if named is None or set(texts_of(rows, column)) <= numbers else named


def _by_items(rows: Sequence[Row], column: str) -> _Result:
    """Read a column of winners by name, with all words for a tie: the first rows may show few."""
    empty = any(not text_of(row.get(column)) for row in rows)
    return _Result(winner=column, words=ResultWords(tie=TIES), empty_winner=empty)


def _by_signs(rows: Sequence[Row], column: str) -> _Result:
    """Read numbers; only -1 in a column of hushrank's own name shows that 1 means left."""
    texts = sorted(set(texts_of(rows, column)))
    values = {OUTCOME_TEXTS[text] for text in texts}
    if -1 in values and column.strip().lower() == "outcome":
        return _Result(outcome=column)

    def codes(value: int) -> tuple[str, ...]:
        return (str(value), *(t for t in texts if OUTCOME_TEXTS[t] == value and t != str(value)))

    left, tie, right = codes(1), codes(0), codes(-1)
    signs: list[Reading] = [
        {"left": left, "right": right, "tie": tie},
        {"left": right, "right": left, "tie": tie},
    ]
    if -1 in values:
        return _Result(outcome=column, readings=tuple(signs))
    halves: list[Reading] = [{"left": left, "right": tie}, {"left": tie, "right": left}]
    return _Result(outcome=column, readings=(*halves, signs[0]))


def _by_words(rows: Sequence[Row], column: str, sides: Sides) -> _Result | None:
    values = set(texts_of(rows, column))
    for left, right in _words_of_sides(sides):
        one, other = left.lower(), right.lower()
        ties = TIES if left != "1" else (*TIES, "0")
        if not values & {one, other} or not values <= {one, other, *ties}:
            continue
        if len(one) > 1 or _differ_by(sides, one, other):
            return _Result(outcome=column, words=ResultWords((left,), (right,), ties))
        seen = [tie for tie in ties if tie in values]
        tie = tuple(dict.fromkeys(("tie", *seen)))
        readings: tuple[Reading, ...] = (
            {"left": (one,), "right": (other,), "tie": tie},
            {"left": (other,), "right": (one,), "tie": tie},
        )
        return _Result(outcome=column, readings=readings)
    return None


def _differ_by(sides: Sides, one: str, other: str) -> bool:
    """Whether these letters distinguish the two columns, as in model_a and model_b."""
    left, right = (set(words_of(side)) for side in sides)
    return left - right == {one} and right - left == {other}


def _by_truths(rows: Sequence[Row], column: str) -> _Result | None:
    values = set(texts_of(rows, column))
    if not values or not values <= {"true", "false"}:
        return None
    yes, no = ("true",), ("false",)
    readings: tuple[Reading, ...] = ({"left": yes, "right": no}, {"left": no, "right": yes})
    return _Result(outcome=column, readings=readings)


def _by_halves(rows: Sequence[Row], column: str) -> _Result | None:
    """Read points of the left item, of which a half is a tie, as in chess."""
    values = set(texts_of(rows, column))
    one, none, half = ("1", "1.0"), ("0", "0.0"), ("0.5", "1/2", "½")
    if not values & {*half} or not values <= {*one, *none, *half}:
        return None
    readings: tuple[Reading, ...] = (
        {"left": one, "right": none, "tie": half},
        {"left": none, "right": one, "tie": half},
    )
    return _Result(outcome=column, readings=readings)


def _by_scale(rows: Sequence[Row], column: str) -> _Result | None:
    """Read whole numbers from 1 to at most `LONGEST_SCALE`, such as a preference of 1 to 5.

    Which end is whose, and which numbers are a tie, the person must write.
    """
    values = [text.removesuffix(".0") for text in texts_of(rows, column)]
    whole = bool(values) and all(value.isdecimal() for value in values)
    of_scale = whole and 2 < max(map(int, values)) <= LONGEST_SCALE and min(map(int, values)) > 0
    return _Result(outcome=column, readings=()) if of_scale else None


def _by_codes_alone(columns: Sequence[str], rows: Sequence[Row], sides: Sides) -> _Result | None:
    """Read the only other column with numbers or truths of a result; the person says what they
    mean."""
    person = known_user(guess_user(columns, rows, sides, may_be_last=False))
    of_pairs = {name for pair in pairs_of(columns, SIDES) for name in pair}
    found = []
    for column in columns:
        if column in of_pairs or column in person.values() or len(set(texts_of(rows, column))) < 2:
            continue
        signs = _by_signs(rows, column) if _holds_signs(rows, column) else None
        found.append(
            signs
            or _by_words(rows, column, sides)
            or _by_truths(rows, column)
            or _by_halves(rows, column)
        )
    found = [each for each in found if each is not None and each.readings is not None]
    return found[0] if len(found) == 1 else None


def _by_unknown_codes(rows: Sequence[Row], column: str) -> _Result | None:
    """Read two short texts that repeat: codes of the sides, not shown because they are values."""
    texts = [text for text in texts_of(rows, column) if text not in TIES]
    two = len(set(texts)) == 2 < len(texts) and max(map(len, texts)) <= MOST_OF_A_CODE
    return _Result(outcome=column, readings=()) if two else None


def _words_of_sides(sides: Sides) -> Iterator[Sides]:
    yield sides
    yield from SIDES
    for stem in ("model", "response", "assistant", "option", "item", "player"):
        for left, right in SIDES:
            yield from ((f"{stem}{gap}{left}", f"{stem}{gap}{right}") for gap in ("_", " ", ""))


def _of_one_side(columns: Sequence[str], rows: Sequence[Row], sides: Sides) -> _Result | None:
    """Read a column such as `left_won` that says whether one side won, without a counterpart."""
    with_counterpart = {name for pair in pairs_of(columns, SIDES) for name in pair}
    sides_words = [_side_words(side) for side in sides]
    for column in columns:
        words = set(words_of(column))
        if column in (*sides, *with_counterpart) or not words & _WON:
            continue
        won = [bool(words - _WON) and words - _WON <= side for side in sides_words]
        if sum(won) == 1 and set(texts_of(rows, column)) <= {"0", "1", "true", "false"}:
            yes, no = ("1", "true"), ("0", "false")
            left, right = (yes, no) if won[0] else (no, yes)
            return _Result(outcome=column, words=ResultWords(left, right))
    return None


def _side_words(column: str) -> set[str]:
    return set(words_of(column))


def _about(won_and_lost: Sides, columns: Sequence[str]) -> list[str]:
    """Find more columns about the winner or the loser."""
    sides = {words_of(column)[0] for column in won_and_lost}
    return [column for column in columns if sides & set(words_of(column))]


def _holds_items(rows: Sequence[Row], column: str, sides: Sides) -> bool:
    found = [(text_of(row.get(column)), {text_of(row.get(side)) for side in sides}) for row in rows]
    written = [(winner, items) for winner, items in found if winner]
    return bool(written) and all(
        winner in items or winner.lower() in TIES for winner, items in written
    )


def _holds_signs(rows: Sequence[Row], column: str) -> bool:
    written = texts_of(rows, column)
    return bool(written) and all(text in OUTCOME_TEXTS for text in written)
