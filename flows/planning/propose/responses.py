"""Guess whether a log holds test answers, a sheet or an answer in each row, and its columns.
Pure.

Questions about a test: what blanks, codes, letters and numbers above 1 mean. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from hushrank.flows.planning.propose.names import (
    Row,
    flow,
    meaning_of,
    numbered_column,
    only_with_meaning,
    scalar,
    sides_of,
    text_of,
    texts_of,
    words_of,
)
from hushrank.flows.planning.propose.people import UserGuess, guess_user, known_user, repeats
from hushrank.flows.planning.propose.questions import MOST_POINTS, Choice, Question, listed
from hushrank.transforms.responses.responses import ANSWER_TEXTS, NOT_ANSWERED_TEXTS

_ITEM = re.compile(
    "item|question|problem|task|exercise|q|quiz|skill|probe|stimulus|frage|aufgabe|itemid|qid"
)
_CORRECT = re.compile(
    "correct|iscorrect|right|solved|passed|pass|accuracy|acc|score|mark|y|response|resp|answer"
    "|result|outcome|richtig|korrekt"
)
_RIGHT_AND_WRONG = (
    ("right", "wrong"),
    ("correct", "incorrect"),
    ("correct", "wrong"),
    ("yes", "no"),
    ("y", "n"),
    ("pass", "fail"),
    ("passed", "failed"),
    ("solved", "unsolved"),
    ("t", "f"),
    ("richtig", "falsch"),
    ("ja", "nein"),
    ("j", "n"),
    ("✓", "✗"),
)
# Columns with two values that describe people and are not test items.
_ABOUT_PEOPLE = re.compile(
    "gender|sex|female|male|age|treatment|treated|control|group|consent|native|esl|finished|valid"
)
BLANK_CODES = {".", "*", "-", "--", "?", "n/a", "nan", "null", "none", "missing"}
LEAST_ITEMS = 3  # fewest items of a sheet; two columns of 0 and 1 may be anything
LETTERS, LEAST_LETTERS = frozenset("abcdefgh"), 3  # letters of answers to choose from
_EMPTY = {text.lower() for text in NOT_ANSWERED_TEXTS}

RightAndWrong = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseGuess:
    """Likely role of each column.

    Attributes:
        layout: `wide` with `items`, or `long` with `item` and `correct`.
        items: columns of a sheet, in the order of the file.
        left_out: more columns of a sheet that hold two values but describe people.
        words: the words for right and for wrong; None: 1 and 0, or true and false.
        doubtful: columns of a sheet that hold right and wrong, but are named unlike `items`.
        points: columns that are named like items, or as the marks of a log, and hold whole numbers
            above 1.
        numbers: whether right and wrong are 1 and 0 in the rows that were read, so that other rows
            may hold points.
        empty: columns of `items` without an answer in the rows that were read.
        blanks: codes in the rows that were read that may mean a blank, such as a dot.
        gaps: whether the rows that were read have a blank among their answers.
        coded: the column of items that holds whole numbers in place of names; None: none does.
        numbered: whether the items of a sheet form one series, such as E1 to E28.
        letters: whether items hold answers, one letter each, that a key has to score.
    """

    layout: str
    user: UserGuess | None = None
    item: str | None = None
    correct: str | None = None
    items: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    doubtful: tuple[str, ...] = ()
    points: tuple[str, ...] = ()
    words: RightAndWrong | None = None
    empty: tuple[str, ...] = ()
    blanks: tuple[str, ...] = ()
    gaps: bool = False
    coded: str | None = None
    numbered: bool = False
    numbers: bool = False
    letters: bool = False

    def known(self) -> dict[str, str]:
        """Column of each role that was found, except guesses."""
        found = known_user(self.user)
        roles = ("item", "correct")
        return found | {
            role: column for role in roles if (column := getattr(self, role)) is not None
        }

    def unknown(self) -> list[str]:
        """Roles that the person must fill in."""
        needed = ("user",) if self.layout == "wide" else ("user", "item", "correct")
        return [role for role in needed if role not in self.known()]


def guess_sheet(
    columns: Sequence[str], rows: Sequence[Row], least: int = LEAST_ITEMS
) -> ResponseGuess | None:
    """Read a table with one row for each person and one column for each item; None: it seems not.

    Args:
        columns: names, in the order of the file.
        rows: the first few rows.
        least: least number of items.
    """
    named = guess_user(columns, rows, row_a_person=True, of_test=True)
    others = [column for column in columns if named is None or column != named.column]
    words, marked = max(
        ((words, _with_marks(others, rows, words)) for words in (None, *_RIGHT_AND_WRONG)),
        key=lambda found: len(found[1]),
    )
    lettered = _with_letters(others, rows)
    letters = len(lettered) > len(marked)
    marked = lettered if letters else marked
    family = _family(marked, others, rows)
    about = [column for column in marked if _ABOUT_PEOPLE.fullmatch(meaning_of(column))]
    items = family or [column for column in marked if column not in about]
    if len(items) < least or (named is not None and repeats(rows, named.column)):
        return None
    points = _with_points(others, rows, items)
    user = named or guess_user(
        columns, rows, {*items, *marked, *points}, row_a_person=True, of_test=True
    )
    empty = [] if family else _unanswered(rows, others)
    items = [column for column in columns if column in items or column in empty]
    asked = [*items, *(column for column in marked if column not in about)]
    return ResponseGuess(
        layout="wide",
        user=user,
        items=tuple(items),
        left_out=tuple(column for column in about if column not in items),
        doubtful=tuple(c for c in marked if c not in items and c not in about),
        points=tuple(points),
        words=None if letters else words,
        letters=letters,
        empty=tuple(empty),
        blanks=_blank_codes(asked, rows),
        gaps=_have_gaps(asked, rows),
        numbered=bool(family),
        numbers=_hold_numbers(asked, rows),
    )


def guess_long(
    columns: Sequence[str], rows: Sequence[Row], *, partial: bool = False
) -> ResponseGuess | None:
    """Read a log with one answer in each row; None: it seems to be something else.

    Args:
        columns: names, in the order of the file.
        rows: the first few rows.
        partial: whether roles may stay unknown.
    """
    if sides_of(columns) is not None and not partial:
        return None
    item = only_with_meaning(columns, _ITEM)
    correct, words = _correct(columns, rows, item)
    points = () if correct is not None else _points_of_log(columns, rows, item)
    correct = points[0] if points else correct
    if not partial and (item is None or correct is None):
        return None
    taken = [name for name in (item, correct) if name]
    # With one item for many people, or `id` and two other columns, `id` is the person's.
    row_a_person = item is not None and len(texts_of(rows, item)) > len(set(texts_of(rows, item)))
    user = guess_user(columns, rows, taken, row_a_person=row_a_person, of_test=True)
    coded = None if item is None else numbered_column(rows, [item])
    marks = [] if correct is None else [correct]
    return ResponseGuess(
        layout="long",
        user=user,
        item=item,
        correct=correct,
        words=words,
        coded=coded,
        points=points,
        blanks=_blank_codes(marks, rows),
        gaps=_have_gaps(marks, rows),
        numbers=_hold_numbers(marks, rows),
    )


def stated_marks(
    rows: Sequence[Row], roles: Mapping[str, str], user: UserGuess | None
) -> ResponseGuess:
    """Take the roles that a person states in a log of marks.

    Args:
        rows: the first few rows.
        roles: column of each role that a person stated.
        user: column of the person; None: not stated.

    Raises:
        ValueError: the column of marks holds neither right and wrong nor points.
    """
    item, correct = roles.get("item"), roles.get("correct")
    marks = [] if correct is None else [correct]
    ways = (None, *_RIGHT_AND_WRONG)
    fitting = [words for words in ways if marks and _with_marks(marks, rows, words)]
    points = tuple(each for each in marks if not fitting and _are_points(rows, each))
    if marks and not fitting and not points:
        raise ValueError(f"column {correct} holds no marks that are known, such as 1 and 0")
    return ResponseGuess(
        layout="long",
        user=user,
        item=item,
        correct=correct,
        words=fitting[0] if fitting else None,
        coded=None if item is None else numbered_column(rows, [item]),
        points=points,
        blanks=_blank_codes(marks, rows),
        gaps=_have_gaps(marks, rows),
        numbers=_hold_numbers(marks, rows),
    )


def _correct(
    columns: Sequence[str], rows: Sequence[Row], item: str | None
) -> tuple[str | None, RightAndWrong | None]:
    """Find the column of the marks, and its words: by its name and values, or by its values
    alone."""
    others = [column for column in columns if column != item]
    named = [column for column in others if _CORRECT.fullmatch("".join(_plain(column)))]
    for column in named:
        for words in (None, *_RIGHT_AND_WRONG):
            if _with_marks([column], rows, words):
                return column, words
    found = [
        (column, words)
        for words in _RIGHT_AND_WRONG
        for column in _with_marks(others, rows, words)
        if set(words) <= set(texts_of(rows, column)) and not _ABOUT_PEOPLE.fullmatch(column.lower())
    ]
    return found[0] if len(found) == 1 else (None, None)


def _points_of_log(
    columns: Sequence[str], rows: Sequence[Row], item: str | None
) -> tuple[str, ...]:
    """The only column that is named as marks and holds points from 0 on; empty: none or several."""
    named = [
        column
        for column in columns
        if column != item and _CORRECT.fullmatch("".join(_plain(column)))
    ]
    found = [
        column for column in named if "0" in _answers(rows, column) and _are_points(rows, column)
    ]
    return tuple(found) if len(found) == 1 else ()


def _hold_numbers(columns: Collection[str], rows: Sequence[Row]) -> bool:
    """Whether these columns hold whole numbers, and neither words nor true and false."""
    found = {text for column in columns for text in _answers(rows, column)}
    return bool(found) and all(text.removesuffix(".0").isdecimal() for text in found)


def _plain(column: str) -> list[str]:
    return [word for word in words_of(column) if word != "id"]


def _with_marks(
    columns: Collection[str], rows: Sequence[Row], words: RightAndWrong | None
) -> list[str]:
    """List columns whose values are all right, wrong or empty, but not all empty."""
    marks = set(ANSWER_TEXTS if words is None else words)
    return [column for column in columns if (found := _answers(rows, column)) and found <= marks]


def _with_letters(columns: Collection[str], rows: Sequence[Row]) -> list[str]:
    """List columns that hold single letters, if they look like answers to choose from.

    They share a few letters from A on, at least three of them: F and M, or Y and N, are none.
    """
    held = {column: _answers(rows, column) for column in columns}
    found = [column for column, texts in held.items() if texts and texts <= LETTERS]
    together = set[str]().union(*(held[column] for column in found))
    return found if len(together) >= LEAST_LETTERS else []


def _unanswered(rows: Sequence[Row], columns: Sequence[str]) -> list[str]:
    """List the columns that hold only blanks in the rows that were read."""
    return [column for column in columns if rows and not _answers(rows, column)]


def _answers(rows: Sequence[Row], column: str) -> set[str]:
    """Values of a column in lower case, except those that may mean a blank."""
    return set(texts_of(rows, column)) - _EMPTY - BLANK_CODES


def _have_gaps(columns: Sequence[str], rows: Sequence[Row]) -> bool:
    """Whether one of these columns has a blank, or a code that may mean one."""
    blanks = _EMPTY | BLANK_CODES
    return any(text_of(row.get(column)).lower() in blanks for row in rows for column in columns)


def _blank_codes(columns: Sequence[str], rows: Sequence[Row]) -> tuple[str, ...]:
    """List the codes of a blank in these columns."""
    seen = {text for column in columns for text in texts_of(rows, column)}
    return tuple(sorted(seen & BLANK_CODES))


def _with_points(columns: Sequence[str], rows: Sequence[Row], items: Sequence[str]) -> list[str]:
    """List columns that are named like items and hold whole numbers, some of them above 1."""
    first_words = {words_of(item)[0] for item in items if _number_of(item)}
    found = []
    for column in columns:
        named = _number_of(column) and words_of(column)[0] in first_words
        if named and _are_points(rows, column):
            found.append(column)
    return found


def _are_points(rows: Sequence[Row], column: str) -> bool:
    """Whether a column holds whole numbers, some of them above 1 and none too large for points."""
    numbers = [text.removesuffix(".0") for text in _answers(rows, column)]
    whole = bool(numbers) and all(text.isdecimal() for text in numbers)
    return whole and 1 < max(map(int, numbers)) <= MOST_POINTS


def _family(marked: Sequence[str], columns: Sequence[str], rows: Sequence[Row]) -> list[str]:
    """List the columns of one series, such as E1 to E28, including those without a mark."""
    unmarked = _unanswered(rows, columns)
    families: dict[tuple[str, ...], list[str]] = {}
    for column in columns:
        if _number_of(column) and (column in marked or column in unmarked):
            families.setdefault(_stem_of(column), []).append(column)
    largest = max(families.values(), key=len, default=[])
    return largest if len(largest) >= LEAST_ITEMS and set(largest) & set(marked) else []


def _stem_of(column: str) -> tuple[str, ...]:
    """Words of a name without its numbers, and without a letter that follows one: M101b."""
    words = words_of(column)
    return tuple(
        word
        for place, word in enumerate(words)
        if not word.isdigit() and not (place and len(word) == 1 and words[place - 1].isdigit())
    )


def _number_of(column: str) -> bool:
    return any(word.isdigit() for word in words_of(column))


def asked_question(n_items: int) -> Question:
    """Ask how many items of a sheet each person was asked."""
    return Question(
        key="privacy.max_contributions",
        short="items a person",
        asks=f"how many items was a person asked at most, by the design of the test and never"
        f" counted in the answers? {n_items} if everybody was asked all; fewer need less noise",
    )


def missing_question(*, gaps: bool) -> Question:
    """Ask what a blank of a sheet means.

    Args:
        gaps: whether the rows that were read have one.
    """
    return Question(
        key="input.missing",
        short="what a blank means",
        asks="what does it mean if a person has no answer to an item?",
        choices=(
            Choice(
                "unseen",
                "if the item was not asked, by chance or by the person's booklet",
                result="A blank says nothing of the person or the item.",
            ),
            Choice(
                "wrong",
                "if it was asked, and no answer counts as a wrong one",
                result="A blank is a wrong answer, so the item counts as harder.",
            ),
            Choice(
                "set-aside",
                "if a sheet with a blank must not count",
                result="A sheet with a blank does not count at all.",
            ),
        ),
        because="the rows that were read have blanks" if gaps else "",
    )


def booklets_question(items: Sequence[str]) -> Question:
    """Ask which items were asked together, if people were asked different ones."""
    one, two, three = (scalar(name) for name in (*items[:2], items[-1]))
    return Question(
        key="input.booklets",
        short="the booklets",
        asks="was each person asked the items of one of several booklets? Then list them, whoever"
        f" had which: {{A: [{one}, {two}], B: [{two}, {three}]}};",
        choices=(
            Choice(
                "none",
                "if everybody was asked all items, or some by chance",
                "null",
                "Blanks are taken as left by chance. If people had booklets, intervals are then too"
                " narrow.",
            ),
        ),
        because="the rows that were read have blanks",
    )


def blank_codes_question(codes: Sequence[str], marks: tuple[str, str] | None) -> Question:
    """Ask whether codes among the answers stand for a blank.

    Args:
        codes: codes in the rows that this room knows.
        marks: the words for right and wrong; None: a key says what is right.
    """
    words = "" if marks is None else f"right: {flow(marks[:1])}, wrong: {flow(marks[1:])}"
    blank = f"blank: {flow(codes)}"
    no = Choice(
        "no",
        "if not: a sheet with it is set aside",
        f"{{{words}}}",
        "A sheet with it does not count at all.",
    )
    if marks is None:
        result = "It is a wrong answer, so the item counts as harder."
        no = Choice("no", "if not: it counts as a wrong answer", "null", result)
    yes = "It is a blank, as an empty cell is."
    return Question(
        key="input.words",
        short="what a code means",
        asks=f"does {' or '.join(map(scalar, codes))} in place of an answer mean a blank?",
        choices=(Choice("yes", "if so", f"{{{words}{words and ', '}{blank}}}", yes), no),
        because="the rows that were read hold it",
    )


def points_question(column: str) -> Question:
    """Ask whether answers may be points, which make right and wrong or are counted themselves.

    Args:
        column: column of the answers; empty: each item has one.
    """
    where = scalar(column) if column else "the columns of items"
    others = "any other number is excluded"
    if not column:
        others = "a sheet with another number is set aside"
    more = flow([str(number) for number in range(1, MOST_POINTS + 1)])
    any_right = f"{{right: {more}, wrong: {flow(['0'])}}}"
    return Question(
        key="input.words",
        short="whether answers are points",
        asks="is every answer 1 (right), 0 (wrong) or empty? To count points, write null and add"
        " input.points, such as points: 2; or write another rule as {right: [2], wrong: [0, 1]};",
        choices=(
            Choice("yes", f"if so: {others}", "null", "1 is a right answer, and 0 a wrong one."),
            Choice(
                "points",
                "if there are points, and any is right",
                any_right,
                "1 point or more is a right answer; how many there are does not count.",
            ),
        ),
        because=f"{where} may hold 2 in rows that were not read",
    )


def key_question(items: Sequence[str]) -> Question:
    """Ask for the right answers, where items hold letters."""
    return Question(
        key="input.key",
        short="the right answers",
        asks="what is the right answer to each item? Letters in a row, in the order of items, such"
        f" as {'ABCD' * 2}; or each by name, such as {{{scalar(items[0])}: A}}. The certificate of"
        " a release shows them",
        because="the rows that were read hold single letters",
    )


def most_points_question(columns: Sequence[str], *, among: bool) -> Question:
    """Ask how many points items give, if the rows that were read hold points.

    Args:
        columns: columns that hold points: the marks of a log, or items.
        among: whether these are items; else they are the column of the marks.
    """
    example = f"{{{scalar(columns[0])}: 3}}" if among else "2"
    return Question(
        key="input.points",
        short="how many points items give",
        asks="how many points does an item give at most, by the design of the test and never by"
        f" the answers? A number for all items, or each by name, such as {example}; a sheet with"
        " more is set aside;",
        choices=(
            Choice(
                "none",
                "if no item gives more than one",
                "null",
                "Answers are right or wrong. A sheet with more points for an item does not count.",
            ),
        ),
        because=f"the rows that were read hold numbers above 1 in {listed(columns, columns)}",
    )
