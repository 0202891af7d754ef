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
from hushrank.transforms.common.sorting import Mask, Order, Words, new_run, order_leading
from hushrank.transforms.comparisons.owned_rows import OwnedRows, words_of_row

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
    more = columns.weight is not None or columns.n_covariates > 0
    words = words_of_row(event=columns.event is not None, more=more)
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
        met.append(_ByOwner.met_in(rows))
        if len(met) > 1:
            met = [_ByOwner.of(met)]
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
    def met_in(cls, rows: OwnedRows) -> _ByOwner:
        """Every owner of `rows` once."""
        order, places = _runs(*rows.owner_words)
        once, n_rows = order[places], np.diff(places, append=len(order))
        refused, n_refused = _are_refusals(rows), np.zeros(len(places), np.int64)
        if refused.any():
            n_refused = np.add.reduceat(refused[order].astype(np.int64), places)
        return cls(rows.owner_words[0][once], rows.owner_words[1][once], n_rows, n_refused)

    @classmethod
    def of(cls, parts: list[_ByOwner]) -> _ByOwner:
        """Every owner of several once."""
        first, second, rows, refused = (
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("first", "second", "rows", "refused")
        )
        order, places = _runs(first, second)
        once = order[places]
        if len(once):
            rows, refused = (np.add.reduceat(counts[order], places) for counts in (rows, refused))
        return cls(first[once], second[once], rows, refused)


def _runs(first: Words, second: Words) -> tuple[Order, Order]:
    """An order in which rows of one owner are neighbours, and where in it owners start."""
    leading, order = order_leading(first)
    starts = new_run(first[order], second[order])
    if (starts & ~new_run(leading)).any():  # two owners share their leading bits
        order = np.lexsort((second, first))
        starts = new_run(first[order], second[order])
    return order, np.flatnonzero(starts)
