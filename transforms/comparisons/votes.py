"""Whether rows fit, one vote a person: what a noisy look at the rows counts (`privacy.look`).

Rows that broke a rule as they were read travel with the others to where all rows of their person
meet, as *refusals*: the person, and nothing of the row. A row whose person cannot be read is
nobody's and sends none. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hushrank.privacy.keyed_hash import KeyedHash
from hushrank.transforms.common.encode import missing, pseudonyms
from hushrank.transforms.common.schema import ComparisonColumns
from hushrank.transforms.common.sorting import Mask, Words, new_run, order_leading
from hushrank.transforms.comparisons.owned_rows import WORDS, WORDS_WITH_EVENT, OwnedRows

REFUSED = np.uint64(3)  # content of no comparison: outcomes are 0, 1 and 2 there

Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Votes:
    """What people say of their rows. Confidential.

    Attributes:
        fit: how many people say that their rows fit.
        unfit: how many say that theirs do not.
        refusals: that there were among the rows.
    """

    fit: int
    unfit: int
    refusals: int


def refusals(
    rejects: pa.Table | None, columns: ComparisonColumns, keyed_hash: KeyedHash
) -> OwnedRows:
    """A refusal for each rejected row that names its person.

    Args:
        rejects: of `encode_comparisons`; None: none.
        columns: which column says whose row it is.
        keyed_hash: the run's secret hash, which makes pseudonyms.
    """
    words = WORDS if columns.event is None else WORDS_WITH_EVENT
    if rejects is None or columns.user is None:
        return OwnedRows(np.empty((words, 0), np.uint64))
    (batch,) = rejects.select([columns.user]).combine_chunks().to_batches()
    known = pa.array(~missing(batch, columns.user))
    owner = pseudonyms(batch[columns.user].filter(known), keyed_hash)
    rows = np.zeros((words, len(owner)), np.uint64)
    rows[:2], rows[2] = owner.T, REFUSED
    return OwnedRows(rows)


def without_refusals(rows: OwnedRows) -> OwnedRows:
    """The comparisons among `rows`."""
    refused = _are_refusals(rows)
    return rows.filter(~refused) if refused.any() else rows


def votes_of(pieces: Iterable[OwnedRows]) -> Votes:
    """One vote of each person: "fits" if at least half of their rows do.

    Args:
        pieces: together all rows and refusals of some people, in any order.
    """
    met: list[_ByOwner] = []
    for rows in pieces:
        refused = _are_refusals(rows).astype(np.int64)
        met.append(_ByOwner(*rows.owner_words, np.ones(len(rows), np.int64), refused).summed())
        if len(met) > 1:
            met = [_ByOwner.of(met).summed()]
    if not met:
        return Votes(0, 0, 0)
    (people,) = met
    fits = 2 * people.refused <= people.rows
    fit = int(np.count_nonzero(fits))
    return Votes(fit, len(fits) - fit, int(people.refused.sum()))


def _are_refusals(rows: OwnedRows) -> Mask:
    refused: Mask = rows.content == REFUSED
    return refused


@dataclass(frozen=True, slots=True)
class _ByOwner:
    """Numbers of rows, and of refusals among them, by the two words of their owner."""

    first: Words
    second: Words
    rows: Counts
    refused: Counts

    @classmethod
    def of(cls, parts: list[_ByOwner]) -> _ByOwner:
        """All of several, owners of two of them twice."""
        names = ("first", "second", "rows", "refused")
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))

    def summed(self) -> _ByOwner:
        """Every owner once."""
        if not len(self.first):
            return self
        leading, order = order_leading(self.first)
        starts = new_run(self.first[order], self.second[order])
        if (starts & ~new_run(leading)).any():  # two owners share their leading bits
            order = np.lexsort((self.second, self.first))
            starts = new_run(self.first[order], self.second[order])
        places = np.flatnonzero(starts)
        once = order[places]
        rows, refused = (
            np.add.reduceat(counts[order], places) for counts in (self.rows, self.refused)
        )
        return _ByOwner(self.first[once], self.second[once], rows, refused)
