"""Whole answer sheets: which items a person was asked, and what becomes of a blank. Pure.

A sheet is all that one person answered. The rules look at one sheet at a time, so they change what
a person adds and nobody else's; the bound on a person's answers is enforced after them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import scipy
from numpy.typing import NDArray

from hushrank.estimation.responses.item_graph import booklet_members
from hushrank.transforms.common.groups import Groups

NO_BOOKLET = "no booklet has all items that this person answered"
SEVERAL_BOOKLETS = "more than one booklet has all items that this person answered"
UNNAMED_BOOKLET = "this person's rows name no booklet, or more than one"
SEVERAL_GROUPS = "this person's rows name more than one group"
BLANK = "the sheet has a blank (input.missing: set-aside)"
SPOILED = "another answer of this sheet broke a rule"
_REASONS = (NO_BOOKLET, SEVERAL_BOOKLETS, UNNAMED_BOOKLET, BLANK, SPOILED, SEVERAL_GROUPS)
MOST_POINTS = 9  # most points that one item gives
_PEOPLE_AT_ONCE = 1 << 14  # people whose answers are counted for each booklet at once

Integers = NDArray[np.int64]
Mask = NDArray[np.bool_]


class Missing(StrEnum):
    """Meaning of a blank, which is an item of the sheet without an answer."""

    UNSEEN = "unseen"  # the item was not asked, by chance
    WRONG = "wrong"
    SET_ASIDE = "set-aside"  # the sheet does not count


@dataclass(frozen=True, slots=True, kw_only=True)
class SheetRules:
    """Items of a sheet, and rules for its blanks.

    In the shuffle a sheet may hold codes above those of the items: `marker(b)` says that it is of
    booklet b, `group_marker(g)` that its person is in group g, and `spoiled` that one of its
    answers cannot be read or was refused.

    Attributes:
        n_items: size of the catalogue.
        missing: meaning of a blank.
        booklets: codes of the items of each booklet; empty: everybody was asked all items.
        names: names of the booklets, where a column tells which one a row is of; else None.
        groups: groups of people, which a column tells; None: there are none.
        points: most points of each item; empty: answers are right or wrong.
    """

    n_items: int
    missing: Missing
    booklets: tuple[tuple[int, ...], ...] = ()
    names: tuple[str, ...] | None = None
    groups: Groups | None = None
    points: tuple[int, ...] = ()

    @property
    def n_codes(self) -> int:
        """Codes that a sheet may hold: of the items, booklets and groups, and `spoiled`."""
        return self._first_group + (0 if self.groups is None else len(self.groups)) + 1

    @property
    def spoiled(self) -> int:
        """Code that a sheet holds if one of its answers cannot be read or was refused."""
        return self.n_codes - 1

    def marker(self, booklet: Integers) -> Integers:
        """Code of a row that names its booklet."""
        return self.n_items + booklet

    def group_marker(self, group: Integers) -> Integers:
        """Code of a row that names the group of its person."""
        return self._first_group + group

    def groups_of(self, code: Integers) -> Integers:
        """The group that each code names; below 0: it names none."""
        named = (code >= self._first_group) & (code < self.spoiled)
        return np.where(named, code - self._first_group, -1)

    @property
    def _first_group(self) -> int:
        return self.n_items + len(self.booklets)

    def members(self) -> Mask:
        """Shape (booklets, n_items): which items each booklet has; at least one booklet."""
        return booklet_members(self.n_items, self.booklets or (range(self.n_items),))


@dataclass(frozen=True, slots=True)
class JudgedSheets:
    """People's sheets as the rules judge them.

    Attributes:
        counts: shape (codes,), whether each code that was given is an answer of a sheet that
            counts.
        reason: shape (codes,), number of the reason why the sheet of a code does not count, below 0
            where there is none or the code is no answer.
        person, item: blanks that count as wrong, one row each.
        group: shape (people,), the group of each person, of no meaning if the sheet does not count;
            None: there are no groups.
    """

    counts: Mask
    reason: Integers
    person: Integers
    item: Integers
    group: Integers | None = None

    def reasons(self) -> list[str]:
        """The reason of every answer whose sheet is set aside, in their order."""
        return [_REASONS[number] for number in self.reason[self.reason >= 0].tolist()]


def judge_sheets(
    person: Integers, code: Integers, n_people: int, rules: SheetRules
) -> JudgedSheets:
    """Find the booklet of every sheet, set sheets aside that break a rule, and fill in blanks.

    Args:
        person: shape (codes,), 0 to n_people - 1, ascending.
        code: shape (codes,), what the sheets hold; no code twice for a person.
        n_people: number of people.
        rules: rules for which sheets count.
    """
    answers = code < rules.n_items
    members = rules.members()
    of_person = np.full(n_people, -1, np.int64)  # the booklet of a sheet, below 0: set aside
    why = np.full(n_people, -1, np.int64)
    fits, n_answers = _booklets_that_fit(person[answers], code[answers], n_people, members)
    if rules.names is not None:
        named = ~answers & (code < rules.n_items + len(rules.booklets))
        n_named = np.bincount(person[named], minlength=n_people)
        of_person[person[named]] = code[named] - rules.n_items
        suits = fits[np.arange(n_people), of_person]
        why[~suits] = _REASONS.index(NO_BOOKLET)
        why[n_named != 1] = _REASONS.index(UNNAMED_BOOKLET)
    else:
        of_person, n_fits = fits.argmax(axis=1), fits.sum(axis=1)
        why[n_fits == 0] = _REASONS.index(NO_BOOKLET)
        why[n_fits > 1] = _REASONS.index(SEVERAL_BOOKLETS)
    if rules.missing is Missing.SET_ASIDE:
        why[(why < 0) & (n_answers < members.sum(axis=1)[of_person])] = _REASONS.index(BLANK)
    group = None
    if rules.groups is not None:
        told = rules.groups_of(code)
        group = np.zeros(n_people, np.int64)
        group[person[told >= 0]] = told[told >= 0]
        several = np.bincount(person[told >= 0], minlength=n_people) > 1
        why[several & (why < 0)] = _REASONS.index(SEVERAL_GROUPS)
    why[person[code == rules.spoiled]] = _REASONS.index(SPOILED)
    counts = answers & (why[person] < 0)
    reason = np.where(answers, why[person], -1)
    blanks = np.empty(0, np.int64), np.empty(0, np.int64)
    if rules.missing is Missing.WRONG:
        counted = np.flatnonzero((why < 0) & (n_answers > 0))
        blanks = _blanks(person[counts], code[counts], counted, of_person, members)
    return JudgedSheets(counts, reason, *blanks, group)


def _booklets_that_fit(
    person: Integers, item: Integers, n_people: int, members: Mask
) -> tuple[Mask, Integers]:
    """Mark booklets with all items of a sheet, shape (people, booklets); count their answers."""
    n_answers = np.bincount(person, minlength=n_people)
    ends = np.concatenate([[0], np.cumsum(n_answers)])
    ones = np.ones(len(item), np.int64)
    sheets = scipy.sparse.csr_array((ones, item, ends), (n_people, members.shape[1]))
    fits = np.empty((n_people, len(members)), np.bool_)
    for start in range(0, n_people, _PEOPLE_AT_ONCE):
        part = slice(start, start + _PEOPLE_AT_ONCE)
        inside = sheets[part] @ members.T.astype(np.int64)
        fits[part] = inside == n_answers[part, np.newaxis]
    return fits, n_answers


def _blanks(
    person: Integers, item: Integers, people: Integers, of_person: Integers, members: Mask
) -> tuple[Integers, Integers]:
    """Person and item of every item of a booklet that its person left out."""
    owners, items = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for booklet in np.unique(of_person[people]).tolist():
        own = np.flatnonzero(members[booklet])
        theirs = people[of_person[people] == booklet]
        owners.append(np.repeat(theirs, len(own)))
        items.append(np.tile(own, len(theirs)))
    asked, n_items = np.concatenate(owners), members.shape[1]
    asked_item = np.concatenate(items)
    answered = np.isin(asked * n_items + asked_item, person * n_items + item)
    return asked[~answered], asked_item[~answered]
