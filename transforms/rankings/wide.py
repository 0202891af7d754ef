"""Rankings in a wide table: a row is a ranking, and each item has a column that holds its rank.

A row is a whole ranking, so it goes the way of a ranking in a list: at most L rankings of a person
count. Reading ranks by column instead of by row changes no bound and no sensitivity.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hushrank.privacy.keyed_hash import KeyedHash
from hushrank.transforms.common.catalogue import Catalogue
from hushrank.transforms.common.encode import Sifted, missing, pseudonyms, sift
from hushrank.transforms.common.epsilons import (
    EpsilonSource,
    EpsilonTable,
    epsilons_of,
    rules_of_epsilons,
)
from hushrank.transforms.common.schema import by_distinct, is_text
from hushrank.transforms.rankings.ranking_columns import WideRankColumns
from hushrank.transforms.rankings.rankings import TIED, TOO_LONG, Rankings
from hushrank.transforms.rankings.ranks import AS_GIVEN, RankReading, are_unranked, ranks_of

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


def encode_wide(
    batch: pa.RecordBatch,
    columns: WideRankColumns,
    catalogue: Catalogue,
    source: EpsilonSource,
    table: EpsilonTable | None,
    keyed_hash: KeyedHash | None,
    max_length: int,
    *,
    keep_ties: bool,
    reading: RankReading = AS_GIVEN,
) -> Sifted[Rankings]:
    """Encode one batch with a ranking in each row.

    Args:
        batch: holds the columns that `columns` names.
        columns: which column holds the ranks of which item.
        catalogue: the public items.
        source, table: where epsilons come from.
        keyed_hash: makes the pseudonyms of people; None: nobody's rankings need to meet.
        max_length: longer rankings are set aside.
        keep_ties: mark items at the same rank as tied; otherwise rankings with ties are set aside.
        reading: what ranks mean beside their order.
    """
    by_name = {item: column for column, item in columns.items}
    cells = [_ranks(batch[by_name[name]], reading, columns.highest) for name in catalogue.names]
    rank, rest, unranked = (np.stack(each, axis=1) for each in zip(*cells, strict=True))
    numbers = np.isfinite(rank)
    order = np.lexsort((rest, rank, unranked), axis=1)  # stable: tied items as in the catalogue
    lengths = np.count_nonzero(~unranked, axis=1)
    tied = _ties(order, rank, rest, lengths)
    if reading.end_at_tie or reading.end_at_gap:
        ranked = np.arange(len(catalogue)) < lengths[:, np.newaxis]
        ordered = np.take_along_axis(rank, order, axis=1)
        lengths = reading.lengths(ordered[ranked], tied[ranked], lengths)
        tied &= np.arange(len(catalogue)) < lengths[:, np.newaxis]
    epsilon, broken = epsilons_of(batch, columns, source, table)
    rules = [
        ("null user", missing(batch, columns.user)),
        ("a rank is not a number", (~numbers & ~unranked).any(axis=1)),
        ("no item has a rank", lengths == 0),
        (TOO_LONG, lengths > max_length),
        (TIED, tied.any(axis=1) & (not keep_ties)),
        *rules_of_epsilons(broken),
    ]
    valid, rejects = sift(batch, rules)
    owner = None
    if columns.user is not None and keyed_hash is not None:
        owner = pseudonyms(batch[columns.user], keyed_hash)[valid]
    order, lengths = order[valid], lengths[valid]
    ranked = np.arange(len(catalogue)) < lengths[:, np.newaxis]
    marks = tied[valid][ranked] if keep_ties else None
    rankings = Rankings(order[ranked], lengths, epsilon[valid], owner, marks)
    return Sifted(rankings, rejects, valid)


def _ranks(
    column: pa.Array, reading: RankReading, highest: bool
) -> tuple[Floats, NDArray[np.int16], Mask]:
    """The ranks of one item as `ranks_of` has them, and which rows do not rank it."""
    if pa.types.is_null(column.type):
        none = np.ones(len(column), np.bool_)
        return np.full(len(column), np.nan), np.zeros(len(column), np.int16), none
    rank, rest, unranked = ranks_of(column, highest=highest)
    if is_text(column.type):
        unranked = unranked | by_distinct(column, are_unranked, np.True_)
    elif pa.types.is_floating(column.type):
        unranked = unranked | np.isnan(rank)
    if reading.not_ranked:
        unranked = unranked | reading.names(column)
    return np.where(unranked, np.nan, rank), rest, unranked


def _ties(
    order: NDArray[np.int64], rank: Floats, rest: NDArray[np.int16], lengths: NDArray[np.int64]
) -> Mask:
    """Whether each item in `order` has the rank of the item before it, shape (rows, items)."""
    rank = np.take_along_axis(rank, order, axis=1)
    rest = np.take_along_axis(rest, order, axis=1)
    tied = np.zeros(order.shape, np.bool_)
    tied[:, 1:] = (rank[:, 1:] == rank[:, :-1]) & (rest[:, 1:] == rest[:, :-1])
    tied &= np.arange(order.shape[1]) < lengths[:, np.newaxis]
    return tied
