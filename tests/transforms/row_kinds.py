"""Every kind of input, and what each of its rows becomes: for tests that no row changes another.

`kept` reads a file as jobs do and encodes it, down to numbers that no longer know of each other.
Whoever adds a format writes `FileKind.KINDS` in it and asks for the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa

from hushrank.privacy.keyed_hash import KeyedHash
from hushrank.privacy.randomness import seeded_bits
from hushrank.transforms.common.catalogue import Catalogue
from hushrank.transforms.common.encode import encode_comparisons
from hushrank.transforms.common.epsilons import AnswerColumns, EpsilonSource
from hushrank.transforms.common.schema import Columns, ComparisonColumns, Ties
from hushrank.transforms.comparisons.privatize import encode_answers
from hushrank.transforms.rankings.count_rankings import each_copy, hash_owned
from hushrank.transforms.rankings.ranking_columns import (
    ListColumns,
    RankColumns,
    WideRankColumns,
)
from hushrank.transforms.rankings.rankings import encode_lists, encode_ranks, encode_wide
from hushrank.transforms.responses.responses import ResponseColumns, WideColumns, encode_responses
from hushrank.transforms.storage.files import check_files, list_files
from hushrank.transforms.storage.read import plan_splits, read_batches
from hushrank.transforms.storage.window import Window

ITEMS = ("London", "Paris", "Rome", "Oslo")
CATALOGUE = Catalogue(ITEMS)
HASH = KeyedHash(bytes(range(32)))
EPSILONS = EpsilonSource(low=0.1, high=5.0)
WINDOW = Window.of("at", date(2026, 11, 20), ZoneInfo("Europe/Berlin"))

Kept = Counter[tuple[Any, ...]]
Row = dict[str, Any]


@dataclass(frozen=True)
class RowKind:
    """One kind of rows.

    Attributes:
        columns: which column plays which role.
        row: the values of an honest row, of person n.
        kept: whose, and what, is kept of a batch; one entry each.
        most: entries that one line can become.
    """

    columns: Columns
    row: Callable[[int], Row]
    kept: Callable[[pa.RecordBatch], list[tuple[Any, ...]]]
    most: int = 1
    window: Window | None = None


def honest(number: int) -> str:
    """The name of a person; nobody else's row comes to name them by chance."""
    return f"honest person {number * 7919 % 10_007:05d}-{number}"


def owner_of(number: int) -> tuple[int, int]:
    """The pseudonym of that person."""
    name = honest(number).encode()
    (pair,) = HASH.of_strings(np.array([0, len(name)]), np.frombuffer(name, np.uint8)).tolist()
    return tuple(pair)


def kept(path: Path, kind: RowKind, *, multiline: bool = False, delimiter: str = ",") -> Kept:
    """What is kept of a file."""
    (file,) = list_files([str(path)])
    file = replace(file, window=kind.window, multiline=multiline, delimiter=delimiter)
    schema = check_files([file], kind.columns)[file.path]
    found: Kept = Counter()
    for split in plan_splits(file, schema, kind.columns):
        for batch in read_batches(split):
            found.update(kind.kept(batch.rows))
    return found


def _owners(hashes: np.ndarray) -> list[tuple[int, int]]:
    return [tuple(pair) for pair in hashes.tolist()]


COMPARISONS = ComparisonColumns(
    user="user", left="left", right="right", outcome="outcome", winner=None, event=None
)
WINNERS = replace(COMPARISONS, outcome=None, winner="winner", event="event")
WEIGHTED = replace(COMPARISONS, weight="weight", most_units=3_000)
PRIVATE = AnswerColumns(
    user="user", left="left", right="right", outcome="outcome", winner=None, event=None,
    epsilon="epsilon",
)  # fmt: skip
RANKS = RankColumns(user="user", item="item", rank="rank", contest="contest", epsilon="epsilon")
LISTS = ListColumns(user="user", ranking="ranking", epsilon="epsilon")
ANSWERS = ResponseColumns(user="user", item="item", correct="correct", order="time")
WIDE = WideColumns(user="user", items=ITEMS, order="time")
WIDE_RANKS = WideRankColumns(items=tuple((name, name) for name in ITEMS), user="user")


def _comparisons(batch: pa.RecordBatch) -> list[tuple[Any, ...]]:
    rows = encode_comparisons(batch, COMPARISONS, CATALOGUE, HASH).rows
    columns = (rows.left.tolist(), rows.right.tolist(), rows.outcome.tolist())
    return list(zip(_owners(rows.user), *columns, strict=True))


def _winners(batch: pa.RecordBatch) -> list[tuple[Any, ...]]:
    rows = encode_comparisons(batch, WINNERS, CATALOGUE, HASH).rows
    columns = (rows.left.tolist(), rows.right.tolist(), rows.outcome.tolist())
    return list(zip(_owners(rows.user), *columns, _owners(rows.event), strict=True))


def _weighted(batch: pa.RecordBatch) -> list[tuple[Any, ...]]:
    rows = encode_comparisons(batch, WEIGHTED, CATALOGUE, HASH).rows
    columns = (rows.left.tolist(), rows.right.tolist(), rows.outcome.tolist(), rows.weight.tolist())
    return list(zip(_owners(rows.user), *columns, strict=True))


def _private(batch: pa.RecordBatch) -> list[tuple[Any, ...]]:
    bits = seeded_bits(1)
    encoded = encode_answers(batch, PRIVATE, CATALOGUE, EPSILONS, None, HASH, Ties.DROP, bits)
    rows = encoded.rows
    columns = (rows.cell.tolist(), rows.outcome.tolist(), rows.epsilon.tolist())
    return list(zip(_owners(rows.owner), *columns, strict=True))


def _ranks(batch: pa.RecordBatch) -> list[tuple[Any, ...]]:
    pieces = encode_ranks(batch, RANKS, CATALOGUE, EPSILONS, None, HASH).rows
    parts = pieces.rankings
    each = np.repeat(np.arange(len(parts)), parts.lengths)
    columns = (pieces.contest[each], parts.epsilon[each], parts.items, pieces.rank)
    return list(zip(_owners(parts.owner[each]), *(c.tolist() for c in columns), strict=True))


def _lists(batch: pa.RecordBatch) -> list[tuple[Any, ...]]:
    rankings = encode_lists(batch, LISTS, CATALOGUE, EPSILONS, None, HASH, len(ITEMS)).rows
    items = np.split(rankings.items, np.cumsum(rankings.lengths))[: len(rankings)]
    orders = [tuple(each.tolist()) for each in items]
    return list(zip(_owners(rankings.owner), orders, rankings.epsilon.tolist(), strict=True))


def _wide_ranks(batch: pa.RecordBatch) -> list[tuple[Any, ...]]:
    """Rankings whose ties are broken; each is the first copy of its person."""
    how = (WIDE_RANKS, CATALOGUE, replace(EPSILONS, value=1.0), None, HASH, len(ITEMS))
    rankings = encode_wide(batch, *how, keep_ties=True).rows
    copies = np.ones(len(rankings), np.int64)
    own = replace(rankings, owner=hash_owned(rankings, HASH), copies=copies)
    found = []
    for block in each_copy(own, HASH, 5):
        items = np.split(block.items, np.cumsum(block.lengths))[: len(block)]
        found += [tuple(each.tolist()) for each in items]
    return list(zip(_owners(rankings.owner), found, strict=True))


def _answers(columns: ResponseColumns | WideColumns) -> Callable[..., list[tuple[Any, ...]]]:
    def kept_of(batch: pa.RecordBatch) -> list[tuple[Any, ...]]:
        rows = encode_responses(batch, columns, CATALOGUE, HASH).rows
        each = (rows.item.tolist(), rows.correct.tolist(), rows.order.tolist())
        return list(zip(_owners(rows.owner[rows.person]), *each, strict=True))

    return kept_of


def _pair(n: int) -> Row:
    return {"user": honest(n), "left": ITEMS[n % 4], "right": ITEMS[(n + 1 + n % 3) % 4]}


def _wide_row(n: int) -> Row:
    cells = {name: (None, 0, 1, 1)[(n + place) % 4] for place, name in enumerate(ITEMS)}
    return {"user": honest(n), **cells, "time": 100 + n}


KINDS = {
    "comparisons": RowKind(
        COMPARISONS, lambda n: _pair(n) | {"outcome": (1, -1, 0)[n % 3]}, _comparisons
    ),
    "winners and events": RowKind(
        WINNERS,
        lambda n: _pair(n) | {"winner": (ITEMS[n % 4], "tie")[n % 2], "event": n},
        _winners,
    ),
    "in a window": RowKind(
        COMPARISONS,
        lambda n: (
            _pair(n) | {"outcome": (1, -1)[n % 2], "at": f"2026-11-{19 + n % 2}T2{n % 4}:00:00Z"}
        ),
        _comparisons,
        window=WINDOW,
    ),
    "at epochs": RowKind(
        COMPARISONS,
        lambda n: _pair(n) | {"outcome": 1, "at": 1_795_129_200 + 3_600 * (n % 30)},
        _comparisons,
        window=replace(WINDOW, epoch="s"),
    ),
    "weighted comparisons": RowKind(
        WEIGHTED,
        lambda n: _pair(n) | {"outcome": (1, -1, 0)[n % 3], "weight": (0.25, 1, 7.5, 0)[n % 4]},
        _weighted,
    ),
    "private answers": RowKind(
        PRIVATE,
        lambda n: _pair(n) | {"outcome": (1, -1)[n % 2], "epsilon": (0.5, 1, 2.25)[n % 3]},
        _private,
    ),
    "ranks": RowKind(
        RANKS,
        lambda n: {
            "user": honest(n // 3),
            "item": ITEMS[n % 4],
            "rank": (1, 2.5, 3)[n % 3],
            "contest": 2024 + n // 3 % 2,
            "epsilon": 1.5,
        },
        _ranks,
    ),
    "lists": RowKind(
        LISTS,
        lambda n: {"user": honest(n), "ranking": [ITEMS[n % 4], ITEMS[(n + 1) % 4]], "epsilon": 1},
        _lists,
    ),
    "answers": RowKind(
        ANSWERS,
        lambda n: {
            "user": honest(n),
            "item": n % 4,
            "correct": n % 2,
            "time": f"2026-11-20T10:{n % 60:02d}:00",
        },
        _answers(ANSWERS),
    ),
    "wide ranks": RowKind(
        WIDE_RANKS,
        lambda n: (
            {"user": honest(n)}
            | {name: (1, 1, 2, None)[(n + place) % 4] for place, name in enumerate(ITEMS)}
        ),
        _wide_ranks,
    ),
    "wide answers": RowKind(WIDE, _wide_row, _answers(WIDE), most=len(ITEMS)),
}
