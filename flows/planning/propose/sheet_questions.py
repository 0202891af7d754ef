"""Questions about a test: what blanks, codes, letters and numbers above 1 mean. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from hushrank.flows.planning.propose.questions import MOST_POINTS, Choice, Question, listed
from hushrank.flows.planning.propose.texts import flow, scalar


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
            Choice("unseen", "if the item was not asked, by chance or by the person's booklet"),
            Choice("wrong", "if it was asked, and no answer counts as a wrong one"),
            Choice("set-aside", "if a sheet with a blank must not count"),
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
        choices=(Choice("none", "if everybody was asked all items, or some by chance", "null"),),
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
    no = Choice("no", "if not: a sheet with it is set aside", f"{{{words}}}")
    if marks is None:
        no = Choice("no", "if not: it counts as a wrong answer", "null")
    return Question(
        key="input.words",
        short="what a code means",
        asks=f"does {' or '.join(map(scalar, codes))} in place of an answer mean a blank?",
        choices=(Choice("yes", "if so", f"{{{words}{words and ', '}{blank}}}"), no),
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
            Choice("yes", f"if so: {others}", "null"),
            Choice("points", "if there are points, and any is right", any_right),
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
        choices=(Choice("none", "if no item gives more than one", "null"),),
        because=f"the rows that were read hold numbers above 1 in {listed(columns, columns)}",
    )
