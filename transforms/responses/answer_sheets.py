"""Answer sheets: all answers of one person together, without copies, at most K of them.

A sensitivity is only true if its bound is enforced, so this is where the guarantee of test answers
starts, as `transforms.comparisons.bound` is for comparisons. Responses meet in the partition of
their person. Which ones are kept depends on a keyed hash of person and item alone: not on whether
they were right, nor on files, row groups, bundles, order or retries. Pure: works on one batch or
partition at a time.

Whole answer sheets: which items a person was asked, and what becomes of a blank. Pure.

A sheet is all that one person answered. The rules look at one sheet at a time, so they change what
a person adds and nobody else's; the bound on a person's answers is enforced after them.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
import pyarrow as pa
import scipy
from numpy.typing import NDArray

from hushrank.privacy.keyed_hash import Hashes, KeyedHash
from hushrank.transforms.common.catalogue import Catalogue, Groups
from hushrank.transforms.common.encode import Sifted
from hushrank.transforms.common.schema import to_numpy
from hushrank.transforms.common.sorting import hold, new_run, place_in_run

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
        from hushrank.estimation.responses.item_graph import booklet_members

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


MAX_ITEMS = 1 << 15  # item and answer share 16 bits in the shuffle
MAX_CODES = 1 << 16  # of an item with a number of points, likewise
_MARKS = 16  # more than there are numbers of points
REPEATED = "the same person answered this item again, and it is not clear which answer counts"
_CHOICE = 32  # label of the hash that orders a person's answers
_PLACE_BITS = np.uint64(48)  # the other bits of the first word choose the partition


class Duplicates(StrEnum):
    """Rule for which of several answers of one person to one item counts."""

    FIRST = "first"  # the first by the column `order`
    LAST = "last"
    REFUSE = "refuse"  # none of them: all are set aside


@dataclass(frozen=True, slots=True)
class Responses:
    """Valid answers, one row each.

    Attributes:
        owner: shape (people, 2), uint64 pseudonyms; a person may stand in it several times.
        person: shape (m,), int64: position in `owner`.
        item: shape (m,), int64 codes of the catalogue.
        correct: shape (m,), uint8: 1 right, 0 wrong; or the number of points.
        order: shape (m,), int64: larger is later; None: answers have no order.
        level: shape (people,), int64: the level of each person's epsilon, the smallest of their
            rows; None: people have no epsilon of their own.
        group: shape (people,), int64: the public group of each person, of sheets that were judged;
            None: there are no groups.
    """

    owner: Hashes
    person: Integers
    item: Integers
    correct: NDArray[np.uint8]
    order: Integers | None = None
    level: Integers | None = None
    group: Integers | None = None

    def __len__(self) -> int:
        return len(self.person)

    def take(self, rows: Mask) -> Responses:
        """The answers where `rows` is true; nobody leaves `owner`."""
        order = None if self.order is None else self.order[rows]
        taken = (self.person[rows], self.item[rows], self.correct[rows])
        return Responses(self.owner, *taken, order, self.level, self.group)

    @classmethod
    def concatenated(cls, parts: Sequence[Responses]) -> Responses:
        """The answers of several parts; there is at least one."""
        firsts = np.cumsum([0, *(len(part.owner) for part in parts)])
        people = zip(parts, firsts[:-1], strict=True)
        orders = [part.order for part in parts if part.order is not None]
        levels = [part.level for part in parts if part.level is not None]
        return cls(
            np.concatenate([part.owner for part in parts]),
            np.concatenate([part.person + first for part, first in people]),
            np.concatenate([part.item for part in parts]),
            np.concatenate([part.correct for part in parts]),
            np.concatenate(orders) if orders else None,
            np.concatenate(levels) if levels else None,
        )


def blobs_by_person(
    answers: Responses, n_items: int, n_partitions: int, most_points: int = 1
) -> Iterator[tuple[int, bytes]]:
    """Cut answers into partitions, all answers of one person in the same; empty ones are left out.

    A blob is an Arrow IPC stream with one row a person, which keeps the pseudonym once.

    Args:
        answers: answers of one batch.
        n_items: codes that a sheet may hold (of the items, or `SheetRules.n_codes`), at most
            `MAX_ITEMS`.
        n_partitions: at most 2^15.
        most_points: most points of an item; 1: answers are right or wrong.

    Raises:
        ValueError: there are too many items.
    """
    if n_items * (most_points + 1) > MAX_CODES:
        most = MAX_CODES // (most_points + 1)
        raise ValueError(f"n_items must be at most {most}, got {n_items}")
    sheets = _by_person(answers, n_items)
    n_people = len(sheets.owner)
    place = (sheets.owner[:, 0] >> _PLACE_BITS).astype(np.int64) * n_partitions >> 16
    answer_ends = np.searchsorted(sheets.person, np.arange(n_people + 1))
    code = ((most_points + 1) * sheets.item + sheets.correct).astype(np.uint16)
    ends = np.append(np.flatnonzero(np.diff(place)) + 1, n_people) if n_people else np.empty(0, int)
    start = 0
    for end in ends.tolist():
        first, last = answer_ends[start], answer_ends[end]
        offsets = pa.array(answer_ends[start : end + 1] - first, pa.int64())
        columns = {
            "0": pa.array(sheets.owner[start:end, 0]),
            "1": pa.array(sheets.owner[start:end, 1]),
            "code": pa.LargeListArray.from_arrays(offsets, pa.array(code[first:last])),
        }
        if sheets.order is not None:
            order = pa.array(sheets.order[first:last])
            columns["order"] = pa.LargeListArray.from_arrays(offsets, order)
        if sheets.level is not None:
            columns["level"] = pa.array(sheets.level[start:end])
        yield int(place[start]), _blob(pa.record_batch(columns))
        start = end


def bound_sheets(
    slices: Iterable[Responses],
    catalogue: Catalogue,
    max_answers: int,
    duplicates: Duplicates,
    keyed_hash: KeyedHash,
    *,
    blind: bool = False,
    rules: SheetRules | None = None,
) -> Generator[Sifted[None], None, Responses]:
    """Keep at most `max_answers` answers of each person, a uniform sample of the items answered.

    Args:
        slices: slices of a partition, at least one; all answers of a person to an item are in one.
        catalogue: the public items.
        max_answers: K.
        duplicates: rule for several answers to one item. Under `first` and `last`, answers
            of the same place in the order that contradict each other are all set aside.
        keyed_hash: the run's secret hash.
        blind: set answers of the same place in the order aside even where they agree, so that which
            items count never depends on who was right. Local privacy does not hide which they are.
        rules: rules for which sheets count as a whole, and for their blanks; None: every sheet
            counts, and a blank means that the item was not asked.

    Returns:
        What was refused of each slice is yielded; the answers kept are returned, sorted by person,
        then item: nobody answers an item twice.
    """

    n_items = len(catalogue)
    n_codes = n_items if rules is None else rules.n_codes

    def settled(answers: Responses) -> Sifted[Responses]:
        answers = _by_person(answers, n_codes)
        # marks of a sheet from `whole_sheets`: copies have the same
        marks = answers.item >= n_items
        kept, refused = _one_answer_an_item(answers, n_codes, duplicates, blind=blind)
        if marks.any():
            first = new_run(answers.person * n_codes + answers.item)
            kept, refused = np.where(marks, first, kept), refused & ~marks
        tally = {
            "answers_with_person": len(answers) - int(marks.sum()),
            "repeated_answers": int((~kept & ~refused & ~marks).sum()),
            "refused_answers": int(refused.sum()),
        }
        rejects = None
        if refused.any():
            rejects = _refused(answers.take(refused), catalogue, [REPEATED] * int(refused.sum()))
        counted = answers.take(kept)
        if rules is not None and refused.any():
            counted = Responses.concatenated([counted, _spoiled(answers.take(refused), rules)])
        return Sifted(counted, rejects, tally=tally)

    def keep(held: Responses | None, more: Responses) -> Responses:
        if held is not None:
            more = _by_person(Responses.concatenated([held, more]), n_codes)
        if rules is not None:  # only a whole sheet tells which answers count
            return more
        return more.take(_sample(more, max_answers, keyed_hash))

    kept = yield from hold(map(settled, slices), keep)
    if rules is not None:
        whole = _whole(_by_person(kept, n_codes), catalogue, rules)
        yield Sifted(None, whole.rejects, tally=whole.tally)
        kept = whole.rows.take(_sample(whole.rows, max_answers, keyed_hash))
    people = int(new_run(kept.person).sum())
    yield Sifted(None, tally={"people": people, "answers_kept": len(kept)})
    return kept


def _spoiled(refused: Responses, rules: SheetRules) -> Responses:
    """A mark on each sheet of which an answer was refused."""
    item = np.full(len(refused), rules.spoiled, np.int64)
    return replace(refused, item=item, correct=np.zeros(len(refused), np.uint8))


def _whole(held: Responses, catalogue: Catalogue, rules: SheetRules) -> Sifted[Responses]:
    """The answers of sheets that count, with blanks filled in; the others are set aside."""
    first = new_run(held.person * rules.n_codes + held.item)
    held = held.take(first)
    judged = judge_sheets(held.person, held.item, len(held.owner), rules)
    answers = replace(held.take(judged.counts), order=None)
    if len(judged.person):
        wrong = np.zeros(len(judged.person), np.uint8)
        filled = Responses(
            answers.owner,
            np.concatenate([answers.person, judged.person]),
            np.concatenate([answers.item, judged.item]),
            np.concatenate([answers.correct, wrong]),
        )
        answers = _by_person(filled, len(catalogue))
    answers = replace(answers, group=judged.group)
    aside, rejects = judged.reason >= 0, None
    if aside.any():
        rejects = _refused(held.take(aside), catalogue, judged.reasons())
    return Sifted(answers, rejects, tally={"refused_answers": int(aside.sum())})


def _refused(rows: Responses, catalogue: Catalogue, reasons: Sequence[str]) -> pa.Table:
    names = pa.array(catalogue.names, pa.string())
    return pa.table(
        {
            "item": names.take(pa.array(rows.item)),
            "correct": pa.array(rows.correct),
            "reason": pa.array(reasons, pa.string()),
        }
    )


def _by_person(answers: Responses, n_items: int) -> Responses:
    """Answers with each person once in `owner`, in ascending order; sorted by person,
    item, order, answer."""
    owner = answers.owner
    by_owner = np.argsort(owner[:, 0])
    ranked = owner[by_owner]
    same = ranked[1:, 0] == ranked[:-1, 0]
    if (same & (ranked[1:, 1] != ranked[:-1, 1])).any():  # two people share 64 bits
        by_owner = np.lexsort((owner[:, 1], owner[:, 0]))
        ranked = owner[by_owner]
    new = np.ones(len(ranked), np.bool_)
    new[1:] = (ranked[1:] != ranked[:-1]).any(axis=1)
    rank = np.empty(len(owner), np.int64)
    rank[by_owner] = np.cumsum(new) - 1
    code = _MARKS * (rank[answers.person] * n_items + answers.item) + answers.correct
    order = None
    if answers.order is None:
        code.sort()
    else:
        rows = np.lexsort((code, answers.order, code // _MARKS))
        code, order = code[rows], answers.order[rows]
    person, item = np.divmod(code // _MARKS, n_items)
    level = None if answers.level is None else least_of(answers.level, rank, int(new.sum()))
    return Responses(ranked[new], person, item, (code % _MARKS).astype(np.uint8), order, level)


def least_of(values: Integers, group: Integers, n_groups: int) -> Integers:
    """Find the smallest value of each group, shape (n_groups,)."""
    least = np.full(n_groups, np.iinfo(np.int64).max)
    np.minimum.at(least, group, values)
    return least


def _one_answer_an_item(
    answers: Responses, n_items: int, duplicates: Duplicates, *, blind: bool
) -> tuple[Mask, Mask]:
    """Mark rows that count, and rows set aside because their person answered the item again."""
    first = new_run(answers.person * n_items + answers.item)
    if first.all():
        return first, np.zeros_like(first)
    run = np.cumsum(first) - 1
    starts = np.flatnonzero(first)
    ends = np.append(starts[1:], len(first)) - 1
    if duplicates is Duplicates.REFUSE:
        unclear = ends > starts
        return first & ~unclear[run], unclear[run]
    if answers.order is None:
        raise ValueError(f"duplicates: {duplicates} needs answers with an order")
    chosen = starts if duplicates is Duplicates.FIRST else ends
    rival = answers.order == answers.order[chosen][run]
    if blind:
        rival[chosen] = False
    else:
        rival &= answers.correct != answers.correct[chosen][run]
    unclear = np.zeros(len(starts), np.bool_)
    unclear[run[rival]] = True
    counts = np.zeros_like(first)
    counts[chosen[~unclear]] = True
    return counts, unclear[run]


def _sample(answers: Responses, max_answers: int, keyed_hash: KeyedHash) -> Mask:
    """Whether each answer is among the first `max_answers` of its person in a secret order."""
    kept = np.ones(len(answers), np.bool_)
    n_answers = np.bincount(answers.person, minlength=len(answers.owner))
    rows = np.flatnonzero(n_answers[answers.person] > max_answers)
    if not len(rows):
        return kept
    person = answers.person[rows]
    item = np.column_stack([answers.item[rows], np.zeros(len(rows), np.int64)]).view(np.uint64)
    secret = keyed_hash.of_tuples(_CHOICE, answers.owner[person], item)
    rows = rows[np.lexsort((secret[:, 1], secret[:, 0], person))]
    place = place_in_run(new_run(answers.person[rows]))
    kept[rows[place >= max_answers]] = False
    return kept


def item_numbers(answers: Responses) -> NDArray[np.uint64]:
    """The number of the item that each answer is to."""
    return answers.item.view(np.uint64)


def answers_in(blob: bytes) -> int:
    """Count the answers of a blob."""
    codes = pa.ipc.open_stream(blob).read_all()["code"]
    return sum(len(chunk.flatten()) for chunk in codes.chunks)


def _blob(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    blob: bytes = sink.getvalue().to_pybytes()
    return blob


def responses_of_blob(blob: bytes, most_points: int = 1) -> Responses:
    """Return the answers of a blob of `blobs_by_person`, with the same `most_points`."""
    table = pa.ipc.open_stream(blob).read_all().combine_chunks()
    (codes,) = table["code"].chunks
    lengths = np.diff(to_numpy(codes.offsets))
    code = to_numpy(codes.flatten()).astype(np.int64)
    order = None
    if "order" in table.column_names:
        order = to_numpy(table["order"].chunks[0].flatten())
    return Responses(
        owner=np.column_stack([to_numpy(table["0"]), to_numpy(table["1"])]),
        person=np.repeat(np.arange(len(table)), lengths),
        item=code // (most_points + 1),
        correct=(code % (most_points + 1)).astype(np.uint8),
        order=order,
        level=to_numpy(table["level"].chunks[0]) if "level" in table.column_names else None,
    )
