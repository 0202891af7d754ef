"""Whether rows fit, one vote a person: what the pilot query counts (`privacy.look`).

Comparisons that broke a rule as they were read travel with the others to where all rows of their
person meet, as *refusals*: the person, and nothing of the row. Of test answers and rankings only
the numbers of each person's rows travel, apart from the answers (`PeopleRows`). A row whose person
cannot be read is nobody's, and votes nowhere. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hushrank.privacy.keyed_hash import KeyedHash
from hushrank.transforms.common.encode import UNLISTED_ITEM, Sifted, missing, pseudonyms
from hushrank.transforms.common.schema import ComparisonColumns, to_numpy
from hushrank.transforms.common.sorting import Mask, Order, Words, new_run, order_leading
from hushrank.transforms.comparisons.shuffle import OwnedRows, words_of_row

# Reasons for which rows of test answers and rankings are set aside that are no answer at all.
NO_ANSWER = ("null answer", "null rank", "null ranking", "empty ranking", "no item has a rank")
_OF_PEOPLE = b"hr-votes"  # first word of a blob of `PeopleRows`; no Arrow stream begins so
# Contents of no comparison: outcomes are 0, 1 and 2 there. The second is of an unlisted item.
REFUSED, REFUSED_ITEM = np.uint64(3), np.uint64(7)

Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Votes:
    """Votes of people about their rows. Confidential.

    Attributes:
        fit: number of people who say that their rows fit.
        unfit: number of people who say that theirs do not.
        unlisted: number of people of whose rows one names an item that is not listed.
        refusals: number of refusals among the rows.
    """

    fit: int
    unfit: int
    unlisted: int
    refusals: int


@dataclass(frozen=True, slots=True)
class PeopleRows:
    """Numbers of rows of each person that fit and that do not. Confidential.

    A row without an answer is neither, but its person is there all the same.

    Attributes:
        first, second: shape (m,), the two words of each person's pseudonym; nobody is there twice.
        fit, unfit: shape (m,), numbers of their rows.
        unlisted: shape (m,), number of those rows, among the unfit ones, that name an item which is
            not listed.
    """

    first: Words
    second: Words
    fit: Counts
    unfit: Counts
    unlisted: Counts

    def __len__(self) -> int:
        return len(self.first)

    @classmethod
    def none(cls) -> PeopleRows:
        """The rows of nobody."""
        return cls(*np.zeros((2, 0), np.uint64), *np.zeros((3, 0), np.int64))

    @classmethod
    def merged(cls, parts: Sequence[PeopleRows]) -> PeopleRows:
        """The people of several parts, at least one: each person once, with all of their rows."""
        held = [part for part in parts if len(part)]
        if len(held) == 1:
            return held[0]
        together = (
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("first", "second", "fit", "unfit", "unlisted")
        )
        return cls(*together).each_once()

    def each_once(self) -> PeopleRows:
        """Rows with each person once, even if a person was there several times."""
        order, places = _runs(self.first, self.second)
        once, counts = order[places], (self.fit, self.unfit, self.unlisted)
        if len(once):
            fit, unfit, unlisted = (np.add.reduceat(each[order], places) for each in counts)
            return PeopleRows(self.first[once], self.second[once], fit, unfit, unlisted)
        return PeopleRows(self.first[once], self.second[once], *counts)

    def n_fit(self, *, whole: bool = False) -> int:
        """Count the people who say "fits": some of their rows do, and at least as many as do not.

        Args:
            whole: a person's rows are one answer together, so no row may be unfit.
        """
        most = 0 if whole else self.fit
        return int(np.count_nonzero((self.fit > 0) & (self.unfit <= most)))

    def blobs(self, n_partitions: int) -> Iterator[tuple[int, int, bytes]]:
        """Cut people into partitions, the same for every reader; empty ones are left out.

        Yields:
            The partition, how many people are in it, and what `people_of_blob` reads.
        """
        place = (self.second % np.uint64(n_partitions)).astype(np.int64)
        for partition in np.unique(place).tolist():
            mine = place == partition
            numbers = (self.fit, self.unfit, self.unlisted)
            counts = (each[mine].view(np.uint64) for each in numbers)
            words = np.concatenate([self.first[mine], self.second[mine], *counts])
            yield partition, int(mine.sum()), _OF_PEOPLE + words.tobytes()


def people_of_blob(blob: bytes) -> PeopleRows | None:
    """Read what `PeopleRows.blobs` made; None if the blob holds something else."""
    if not blob.startswith(_OF_PEOPLE):
        return None
    first, second, *counts = np.frombuffer(blob[len(_OF_PEOPLE) :], np.uint64).reshape(5, -1)
    return PeopleRows(first, second, *(each.view(np.int64) for each in counts))


def people_of_rows(
    batch: pa.RecordBatch, user: str, found: Sifted[Any], keyed_hash: KeyedHash
) -> PeopleRows:
    """The people whom the rows of a batch name, each once. A row that names nobody is left out.

    Args:
        batch: the batch that was encoded.
        user: the column that says whose row it is.
        found: result of encoding the batch; the rows that it set aside come first in `rejects`.
        keyed_hash: the run's secret hash, which makes pseudonyms.
    """
    valid = np.ones(len(batch), np.bool_) if found.valid is None else found.valid
    unfit = ~valid
    if found.rejects is not None:
        reasons = found.rejects["reason"].slice(0, int(unfit.sum()))
        silent = pc.is_in(reasons, value_set=pa.array(NO_ANSWER, reasons.type))
        unfit[unfit] = ~to_numpy(silent.combine_chunks())
    known = ~missing(batch, user)
    column = batch[user].filter(pa.array(known))
    values = column.indices if pa.types.is_dictionary(column.type) else column
    starts = np.ones(len(column), np.bool_)
    starts[1:] = to_numpy(pc.not_equal(values[1:], values[:-1]))
    places = np.flatnonzero(starts)
    if not len(places):
        return PeopleRows.none()
    owner = pseudonyms(column.take(pa.array(places)), keyed_hash)
    whole = (valid[known].astype(np.int64), unfit[known].astype(np.int64))
    fit, not_fit = (np.add.reduceat(each, places) for each in whole)
    none = np.zeros_like(fit)  # unlisted items are counted in comparisons alone
    people = PeopleRows(owner[:, 0].copy(), owner[:, 1].copy(), fit, not_fit, none)
    return people.each_once()


def refusals(
    rejects: pa.Table | None, columns: ComparisonColumns, keyed_hash: KeyedHash
) -> OwnedRows:
    """A refusal for each rejected row that names its person.

    Args:
        rejects: rejected rows of `encode_comparisons`; None: none.
        columns: roles of the columns, with the one that says whose row it is.
        keyed_hash: the run's secret hash, which makes pseudonyms.
    """
    more = columns.weight is not None or columns.n_covariates > 0 or columns.sets is not None
    words = words_of_row(event=columns.event is not None, more=more)
    if rejects is None or columns.user is None:
        return OwnedRows(np.empty((words, 0), np.uint64))
    told = [columns.user, *({"reason"} & {*rejects.schema.names})]
    (batch,) = rejects.select(told).combine_chunks().to_batches()
    known = pa.array(~missing(batch, columns.user))
    owner = pseudonyms(batch[columns.user].filter(known), keyed_hash)
    rows = np.zeros((words, len(owner)), np.uint64)
    rows[:2], rows[2] = owner.T, REFUSED
    if len(told) > 1:
        named = to_numpy(pc.equal(batch["reason"].filter(known), UNLISTED_ITEM))
        rows[2][named] = REFUSED_ITEM
    return OwnedRows(rows)


def without_refusals(rows: OwnedRows) -> OwnedRows:
    """The comparisons among `rows`."""
    refused = _are_refusals(rows)
    return rows.filter(~refused) if refused.any() else rows


def votes_of(pieces: Iterable[OwnedRows]) -> Votes:
    """Take one vote of each person: "fits" if at least half of their rows do.

    Args:
        pieces: together all rows and refusals of some people, in any order.
    """
    people = PeopleRows.none()
    for rows in pieces:
        people = PeopleRows.merged([people, _people_in(rows)])
    fit = people.n_fit()
    unlisted = int(np.count_nonzero(people.unlisted))
    return Votes(fit, len(people) - fit, unlisted, int(people.unfit.sum()))


def _are_refusals(rows: OwnedRows) -> Mask:
    refused: Mask = (rows.content & REFUSED) == REFUSED
    return refused


def _people_in(rows: OwnedRows) -> PeopleRows:
    """Return each owner of `rows` once, with the numbers of comparisons and of refusals."""
    order, places = _runs(*rows.owner_words)
    once, n_rows = order[places], np.diff(places, append=len(order))
    refused, n_refused = _are_refusals(rows), np.zeros(len(places), np.int64)
    unlisted = np.zeros(len(places), np.int64)
    if refused.any():
        n_refused = np.add.reduceat(refused[order].astype(np.int64), places)
        named = rows.content[order] == REFUSED_ITEM
        unlisted = np.add.reduceat(named.astype(np.int64), places)
    first, second = (words[once] for words in rows.owner_words)
    return PeopleRows(first, second, n_rows - n_refused, n_refused, unlisted)


def _runs(first: Words, second: Words) -> tuple[Order, Order]:
    """An order in which rows of one owner are neighbours, and where in it owners start."""
    leading, order = order_leading(first)
    starts = new_run(first[order], second[order])
    if (starts & ~new_run(leading)).any():  # two owners share their leading bits
        order = np.lexsort((second, first))
        starts = new_run(first[order], second[order])
    return order, np.flatnonzero(starts)
