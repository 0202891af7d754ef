"""Raw scores of people's sheets, by name, for the holder of the sheets. Confidential.

Sheets are read, judged and bounded by what a reduction has for that, so a sheet has a raw score
here if, and only if, a run would count it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hushrank.privacy.keyed_hash import KeyedHash
from hushrank.transforms.common.catalogue import Catalogue
from hushrank.transforms.common.encode import missing, pseudonyms
from hushrank.transforms.responses.answer_sheets import (
    Duplicates,
    Responses,
    SheetRules,
    bound_sheets,
)
from hushrank.transforms.responses.responses import ResponseColumns, WideColumns, encode_responses

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ScoredSheets:
    """Raw scores of people, in the order in which they first stand in the rows.

    Attributes:
        people: names as in the rows, each once.
        booklet: number of the booklet of each sheet in `SheetRules.booklets`, 0 without booklets;
            below 0: the sheet does not count.
        score: raw score of each sheet; 0 where it does not count.
    """

    people: pa.Array
    booklet: Integers
    score: Integers


def score_sheets(
    batches: Iterable[pa.RecordBatch],
    columns: ResponseColumns | WideColumns,
    catalogue: Catalogue,
    rules: SheetRules,
    duplicates: Duplicates,
    keyed_hash: KeyedHash,
) -> ScoredSheets:
    """Score all sheets; the rows of a person may stand anywhere.

    Args:
        batches: rows with the columns that `columns` names.
        columns: roles of the columns.
        catalogue: the public items.
        rules: rules for which sheets count.
        duplicates: rule for several answers of a person to an item.
        keyed_hash: hash with any key; pseudonyms leave this function as names.
    """
    parts, names, hashes = [], [], []
    for batch in batches:
        parts.append(encode_responses(batch, columns, catalogue, keyed_hash, rules).rows)
        named = batch[columns.user].filter(pa.array(~missing(batch, columns.user)))
        if pa.types.is_dictionary(named.type):
            named = named.cast(named.type.value_type)
        names.append(named.cast(pa.large_string()))
        hashes.append(pseudonyms(named, keyed_hash))
    owners, first = np.unique(np.concatenate(hashes), axis=0, return_index=True)
    order = np.argsort(first)
    people = pc.take(pa.chunked_array(names), pa.array(first[order])).combine_chunks()
    kept = _kept(parts, catalogue, rules, duplicates, keyed_hash)
    booklet, score = _scores(kept, rules)
    both = np.concatenate([kept.owner, owners])
    rank = np.unique(both, axis=0, return_inverse=True)[1].ravel()[: len(kept.owner)]
    rows = np.argsort(order)[rank]  # `owners` has everybody, so a rank is a place in it
    of_people, scored = np.full(len(people), -1), np.zeros(len(people), np.int64)
    of_people[rows], scored[rows] = booklet, score
    return ScoredSheets(people, of_people, scored)


def _kept(
    parts: list[Responses],
    catalogue: Catalogue,
    rules: SheetRules,
    duplicates: Duplicates,
    keyed_hash: KeyedHash,
) -> Responses:
    """The answers of sheets that count, sorted by person."""
    bounded = bound_sheets(
        [Responses.concatenated(parts)],
        catalogue,
        len(catalogue),
        duplicates,
        keyed_hash,
        rules=rules,
    )
    while True:
        try:
            next(bounded)  # rows that are set aside, which the holder sees by who has no score
        except StopIteration as end:
            kept: Responses = end.value
            return kept


def _scores(kept: Responses, rules: SheetRules) -> tuple[Integers, Integers]:
    """Booklet and raw score of each person of `kept.owner`; a booklet below 0: no answer counts."""
    n_people, members = len(kept.owner), rules.members()
    points = np.bincount(kept.person, kept.correct, n_people)
    booklet, size = np.full(n_people, -1), np.bincount(kept.person, minlength=n_people)
    for number, own in enumerate(members):
        inside = np.bincount(kept.person[own[kept.item]], minlength=n_people)
        booklet[(inside == size) & (size == own.sum())] = number
    return booklet, points.astype(np.int64)
