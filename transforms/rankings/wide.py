"""Rankings in a wide table: a row is a ranking, and each item has a column that holds its rank.

A row is a whole ranking, so it goes the way of a ranking in a list: at most L rankings of a person
count. Reading ranks by column instead of by row changes no bound and no sensitivity.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hushrank.privacy.keyed_hash import KeyedHash
from hushrank.privacy.randomness import RandomBits
from hushrank.transforms.common.catalogue import Catalogue
from hushrank.transforms.common.encode import Sifted, missing, pseudonyms, sift
from hushrank.transforms.common.epsilons import (
    EpsilonSource,
    EpsilonTable,
    epsilons_of,
    rules_of_epsilons,
)
from hushrank.transforms.common.schema import by_distinct, is_text, to_numpy, to_text
from hushrank.transforms.rankings.ranking_columns import WideRankColumns
from hushrank.transforms.rankings.rankings import TIED, TOO_LONG, KeyedCoins, Rankings
from hushrank.transforms.rankings.ranks import ranks_of

UNRANKED_TEXTS = ("", "NA")  # what statistics programs write into an empty cell
_COIN = 2  # label of a hash; `transforms.rankings.rankings` has the one before

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
    coins: RandomBits | KeyedCoins | None,
    place: int,
) -> Sifted[Rankings]:
    """Encode one batch with a ranking in each row.

    Args:
        batch: holds the columns that `columns` names.
        columns: which column holds the ranks of which item.
        catalogue: the public items.
        source, table: where epsilons come from.
        keyed_hash: makes the pseudonyms of people; None: nobody's rankings need to meet.
        max_length: longer rankings are set aside.
        coins: break ties at random, all orders of tied items being equally likely; None: rankings
            with ties are set aside. Coins from a key are a hash of the place of the row and the
            item: a retry decides the same ties in the same way, and rows have coins of their own,
            each as likely whatever the rows say.
        place: number of the first row of the batch in its input.
    """
    by_name = {item: column for column, item in columns.items}
    cells = [_ranks(batch[by_name[name]]) for name in catalogue.names]
    rank, rest, unranked = (np.stack(each, axis=1) for each in zip(*cells, strict=True))
    numbers = np.isfinite(rank)
    order = np.lexsort((rest, rank, unranked), axis=1)
    lengths = np.count_nonzero(~unranked, axis=1)
    tied = _ties(order, rank, rest, lengths)
    if coins is not None and tied.any():
        rows = np.flatnonzero(tied)
        coin = _coins(coins, place + rows, len(catalogue))
        order[rows] = np.lexsort((coin, rest[rows], rank[rows], unranked[rows]), axis=1)
    epsilon, broken = epsilons_of(batch, columns, source, table)
    rules = [
        ("null user", missing(batch, columns.user)),
        ("a rank is not a number", (~numbers & ~unranked).any(axis=1)),
        ("no item has a rank", lengths == 0),
        (TOO_LONG, lengths > max_length),
        (TIED, tied & (coins is None)),
        *rules_of_epsilons(broken),
    ]
    valid, rejects = sift(batch, rules)
    owner = None
    if columns.user is not None and keyed_hash is not None:
        owner = pseudonyms(batch[columns.user], keyed_hash)[valid]
    order, lengths = order[valid], lengths[valid]
    items = order[np.arange(len(catalogue)) < lengths[:, np.newaxis]]
    return Sifted(Rankings(items, lengths, epsilon[valid], owner), rejects, valid)


def _ranks(column: pa.Array) -> tuple[Floats, NDArray[np.int16], Mask]:
    """The ranks of one item as `ranks_of` has them, and which rows do not rank it."""
    if pa.types.is_null(column.type):
        none = np.ones(len(column), np.bool_)
        return np.full(len(column), np.nan), np.zeros(len(column), np.int16), none
    rank, rest, unranked = ranks_of(column)
    if is_text(column.type):
        unranked = unranked | by_distinct(column, _are_unranked, np.True_)
    elif pa.types.is_floating(column.type):
        unranked = unranked | np.isnan(rank)
    return np.where(unranked, np.nan, rank), rest, unranked


def _are_unranked(texts: pa.Array) -> Mask:
    known = pa.array(UNRANKED_TEXTS, pa.large_string())
    return to_numpy(pc.is_in(to_text(texts), value_set=known))


def _ties(
    order: NDArray[np.int64], rank: Floats, rest: NDArray[np.int16], lengths: NDArray[np.int64]
) -> Mask:
    """Which rows give two items the same rank."""
    rank = np.take_along_axis(rank, order, axis=1)
    rest = np.take_along_axis(rest, order, axis=1)
    same = (rank[:, 1:] == rank[:, :-1]) & (rest[:, 1:] == rest[:, :-1])
    ranked = np.arange(1, order.shape[1]) < lengths[:, np.newaxis]
    tied: Mask = (same & ranked).any(axis=1)
    return tied


def _coins(
    coins: RandomBits | KeyedCoins, places: NDArray[np.int64], n_items: int
) -> NDArray[np.uint64]:
    """A secret word for each item of some rows, shape (rows, items)."""
    shape = (len(places), n_items)
    if not isinstance(coins, KeyedCoins):
        return coins.words(shape[0] * n_items).reshape(shape)
    row = np.repeat(places.astype(np.uint64), n_items)
    item = np.tile(np.arange(n_items, dtype=np.uint64), len(places))
    words: NDArray[np.uint64] = coins.keyed_hash.of_tuples(_COIN, (row, item))[:, 0]
    return words.reshape(shape)
