"""Guess of the column that identifies people, and how sure that guess is. Pure.

The guarantee protects the people whom this column tells apart. So every guess without a word for a
person comes with its doubt, and the person reads the doubt.

Propose `groups` for a log that has a column such as a language or a country. Pure.

The name of a column proposes it. Its values only speak against it: text that is too long for a
public group. None of them is written, because groups made of the rows would tell who is in them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa

from hushrank.flows.planning.propose.names import (
    Row,
    choose,
    empty_columns,
    holds_numbers,
    line,
    scalar,
    text_of,
    texts_of,
    words_of,
)
from hushrank.transforms.common.schema import GroupSets
from hushrank.transforms.common.written_lists import (
    SEPARATOR,
    are_lists,
    are_surely_lists,
    elements_of,
)

_PEOPLE = (
    "user|username|enduser|person|people|student|stud|pupil|learner|participant|respondent"
    "|annotator|rater|judge|voter|elector|worker|crowdworker|turker|mturk|prolific|prolificpid|subject|subj"
    "|customer|client|member|assessor|evaluator|reviewer|labeler|labeller|coder|contributor"
    "|examinee|testtaker|testee|panelist|panellist|interviewee|juror|expert|patient|account|email|emailaddress"
    "|employee|teilnehmer|proband|befragter|schueler|schüler|nutzer|benutzer|matrikel"
    "|matriculation|matr|uid|pid|applicant|consumer|citizen|resident|viewer|listener|attendee"
    "|delegate|donor|shopper|child|informant"
)
_PERSON = re.compile(
    rf"(?:id|nr)?(?:{_PEOPLE})(?:in)?s?(?:id|ids|nr|no|num|number|nummer|name|hash|code|key)?|respid"
)
_TAKER = re.compile(f"{_PERSON.pattern}|candidate|candidateid")  # names of a person in a test
_GROUP = re.compile(
    "(?:session|sess|ip|ipaddress|device|cookie|visitor|visit|browser|fingerprint|household"
    "|tourney|tournament|league|conversation|thread|sid)s?(?:id|hash)?"
)
# Words of a name that say how a person is identified, but not who.
_IDENTITIES = frozenset(
    {
        *("id", "ids", "no", "nr", "num", "number", "nummer", "hash", "hashed", "anon"),
        *("anonymous", "anonymized", "anonymised", "pseudonym", "public", "unique", "key"),
        *("uuid", "guid", "token", "code"),
    }
)
_ROUNDED = re.compile(r"\d([.,]\d+)?E\+\d+", re.IGNORECASE)  # long numbers as Excel shortens them
EXACT_FLOATS = 2.0**53  # larger floats are rounded integers
_NUMBERED = frozenset({("id",), ("ids",), ("uuid",), ("guid",), ("key",), ("response", "id")})
# Topics of a remaining column that cannot say whose row it is.
_OF_ROWS = frozenset(
    {
        *("index", "row", "date", "time", "timestamp", "tstamp", "datetime", "created", "at"),
        *("week", "year", "month", "day", "score", "rating", "weight", "comment", "text"),
        *("reason", "duration", "category", "language", "lang", "question", "prompt", "task"),
        *("turn", "source", "version", "type", "agent"),
        *("freq", "frequency", "count", "counts", "n", "num", "number", "total", "votes"),
    }
)


class Confidence(StrEnum):
    """Evidence for a guess."""

    NAMED = "named"  # the name has a word for a person
    GROUP = "group"  # the name has a word for a session, an address, a tournament
    NUMBERED = "numbered"  # the name is `id`, of a person or of a row
    LEFT_OVER = "left over"  # no other column remains


@dataclass(frozen=True, slots=True)
class UserGuess:
    """Column that seems to identify the person of a row."""

    column: str
    confidence: Confidence

    @classmethod
    def certain(cls, column: str) -> UserGuess:
        """Build the guess for a format that states the column."""
        return cls(column, Confidence.NAMED)

    @property
    def doubt(self) -> str | None:
        """Doubt that the person must know before trusting the guess; None: there is none."""
        name = self.column
        return {
            Confidence.NAMED: None,
            Confidence.GROUP: (
                f"all rows of one {name} are protected together; a person with several of them is"
                " protected in each alone"
            ),
            Confidence.NUMBERED: (
                f"right only if all rows of one person have the same {name}; if every row has its"
                " own, people are not protected"
            ),
            Confidence.LEFT_OVER: (
                "a guess, because no other column is left; right only if all rows of one person"
                f" have the same {name}"
            ),
        }[self.confidence]


def guess_user(
    columns: Sequence[str],
    rows: Sequence[Row],
    taken: Collection[str] = (),
    *,
    row_a_person: bool = False,
    may_be_last: bool = True,
    of_test: bool = False,
) -> UserGuess | None:
    """Guess the column of the person; None if no column is clear, or several are possible.

    Args:
        columns: names, in the order of the file.
        rows: the first few rows.
        taken: columns that have another role.
        may_be_last: whether to take a column because no other remains.
        row_a_person: whether each row seems to be a different person's; then `id` is the person's.
        of_test: whether the rows are answers to a test, whose candidates are people.
    """
    empty = empty_columns(rows, columns)  # columns without a value may hold anything
    free = [c for c in columns if c not in taken and c not in empty and words_of(c)]
    person = _TAKER if of_test else _PERSON
    numbered = [column for column in free if words_of(column) in _NUMBERED]
    for pattern, confidence in ((person, Confidence.NAMED), (_GROUP, Confidence.GROUP)):
        if confidence is Confidence.GROUP and row_a_person and len(numbered) == 1:
            break  # people share an address, but not the id of their row
        found = [column for column in free if pattern.fullmatch(_whose(column))]
        if found:
            chosen = found if len(found) == 1 else [c for c in found if _is_identity_of(c, found)]
            return UserGuess(chosen[0], confidence) if len(chosen) == 1 else None
    if len(numbered) == 1 and (row_a_person or repeats(rows, numbered[0])):
        return UserGuess(numbered[0], Confidence.NUMBERED)
    if may_be_last and len(free) == 1 and not numbered and _may_name_people(rows, free[0]):
        return UserGuess(free[0], Confidence.LEFT_OVER)
    return None


def known_user(guess: UserGuess | None) -> dict[str, str]:
    """Return role and column of the person if the column's name has a word for a person."""
    sure = guess is not None and guess.confidence is Confidence.NAMED
    return {"user": guess.column} if guess is not None and sure else {}


def may_name_people(columns: Sequence[str], guess: UserGuess | None) -> str:
    """Reason why the person's column is asked for; empty: no column name suggests it."""
    if guess is not None and guess.doubt is not None:
        return f"{guess.column} may be it: {guess.doubt}"
    found = [c for c in columns if _TAKER.fullmatch(_whose(c)) or _GROUP.fullmatch(_whose(c))]
    return f"{' and '.join(found)} may both name people" if len(found) > 1 else ""


def rounded_ids(rows: Sequence[Row], column: str) -> bool:
    """Whether some ids are rounded numbers, so that different people may share one."""
    values = [row.get(column) for row in rows]
    return any(
        abs(value) >= EXACT_FLOATS
        if isinstance(value, float)
        else _ROUNDED.fullmatch(text_of(value)) is not None
        for value in values
    )


def repeats(rows: Sequence[Row], column: str) -> bool:
    """Whether a value occurs in several of the rows."""
    values = [text for row in rows if (text := text_of(row.get(column)))]
    return len(set(values)) < len(values)


def _whose(column: str) -> str:
    """Join the words of a name, without words that only say how a person is identified."""
    return "".join(word for word in words_of(column) if word not in _IDENTITIES)


def _is_identity_of(column: str, others: Sequence[str]) -> bool:
    """Whether the column is the `id` among columns of one thing: tourney_id beside tourney_name."""
    first = words_of(column)[:1]
    return "id" in words_of(column) and all(words_of(other)[:1] == first for other in others)


def _may_name_people(rows: Sequence[Row], column: str) -> bool:
    values = [row.get(column) for row in rows]
    about_rows = _OF_ROWS.intersection(words_of(column))
    return not about_rows and all(isinstance(value, str | int | None) for value in values)


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


def overlapping_columns(
    columns: Sequence[str], rows: Sequence[Row], taken: Collection[str]
) -> GroupSets | None:
    """Find columns that say in which groups a row is, if it may be in several.

    The arguments are those of `group_column`.

    Returns:
        The first column of lists of short texts, also of lists that are written into texts; else
        all columns of true and false; else None.
    """
    free = [column for column in columns if column not in taken]
    for column in free:
        lists = [row[column] for row in rows if row.get(column) is not None]
        named = [each for value in lists if isinstance(value, list) for each in value]
        listed = bool(named) and all(isinstance(value, list) for value in lists)
        if listed and all(isinstance(e, str) and len(e) <= MOST_CHARACTERS for e in named):
            return GroupSets(column=column)
        if (texts := sorted(texts_of(rows, column))) and are_surely_lists(pa.array(texts)).any():
            elements = elements_of(pa.array(texts)).flatten().to_pylist()
            short = all(len(each) <= MOST_CHARACTERS for each in elements)
            if short and are_lists(pa.array(texts)).all():
                return GroupSets(column=column, separator=SEPARATOR)
    flags = tuple(column for column in free if _are_flags(column, rows))
    return GroupSets(flags=flags) if flags else None


def _are_flags(column: str, rows: Sequence[Row]) -> bool:
    """Whether a column holds true and false alone, or 1 and 0 under a name such as is_code."""
    values = set(texts_of(rows, column))
    asks = words_of(column)[:1] in (("is",), ("has",))
    return bool(values) and values <= ({"true", "false", "0", "1"} if asks else {"true", "false"})


def group_lines(column: str | None, overlapping: GroupSets | None = None) -> Iterator[str]:
    """Yield lines, in comments, that propose groups; none if there is no column.

    Args:
        column: a column that names one group of a row; None: there is none.
        overlapping: columns that `overlapping_columns` found; None: there are none.
    """
    if overlapping is not None:
        yield from _overlapping_lines(overlapping)
        return
    if column is None:
        return
    yield f"# All rows are ranked together. To rank each {_in_comment(column)} too, at the same"
    yield "# epsilon, remove the # of the next three lines. Groups are public: name them from how"
    yield "# answers were asked for, never from rows."
    yield "# groups:"
    yield line("#   column", scalar(column))
    yield choose("#   values", "all public groups to rank, for example [English, German]")
    yield ""


def _overlapping_lines(found: GroupSets) -> Iterator[str]:
    told = _in_comment(", ".join(found.names()))
    yield f"# All rows are ranked together. An answer may be in several groups at once: {told}. To"
    yield "# rank each group too, from the same epsilon, remove the # of the next lines. Groups are"
    yield "# public: name them from how answers were asked for, never from rows."
    yield "# groups:"
    if found.flags:
        names = ", ".join(map(scalar, found.flags))
        yield line("#   columns", f"[{names}]", "keep those that are to be ranked")
    else:
        yield line("#   column", scalar(found.column))
        yield choose("#   values", "all public groups to rank, for example [coding, hard]")
    if found.separator is not None:
        yield line("#   separator", scalar(found.separator), "cells are lists that a text holds")
    yield choose("#   most", "the most groups in which an answer counts; noise grows with it")
    yield line("#   others", "whole", "an answer of no listed group counts in the whole")
    yield ""


def _in_comment(text: str) -> str:
    return " ".join(text.split())
