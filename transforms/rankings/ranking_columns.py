"""Columns of a log of rankings: one ranked item a row, one ranking a row, or private answers.

Ranks are compared without rounding, integers of 64 bits too. They may be times in nanoseconds,
which a float64 would round until different ones tie. So a rank is a sum `high + low`: an integer
from 2^53 on is its multiple of 2048 below, exact as a float64, and the rest; any other number is
`high` alone. Ranks compare as these pairs do, first by `high`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hushrank.transforms.common.encode import Mask
from hushrank.transforms.common.schema import (
    BEST,
    BEST_ITEM,
    CONTEST,
    LENGTH,
    OUTCOME,
    PLACE,
    RANK,
    RANKING,
    SHOWN,
    SHOWN_ITEM,
    WIDE_RANK,
    WORST,
    WORST_ITEM,
    ByRole,
    by_distinct,
    is_text,
    numbers_of,
    to_numpy,
    to_text,
)
from hushrank.transforms.common.sorting import Words

if TYPE_CHECKING:
    from hushrank.transforms.rankings.person_features import Profiled

_STEP = 2048  # 2^64 / 2^53: multiples of it up to 2^64 are exact
_EXACT = 1 << 53
UNRANKED_TEXTS = ("", "NA")  # texts that statistics programs write into an empty cell
BLANK_TEXTS = ("", "na", "n/a")  # in lower case
_WHOLE_NUMBER = r"^[+-]?([0-9]{1,18}|[1-8][0-9]{18})$"

Floats = NDArray[np.float64]
Rest = NDArray[np.int16]
Integers = NDArray[np.int64]


class Repeated(StrEnum):
    """Treatment of a ranking that names an item at two places."""

    SET_ASIDE = "set-aside"  # the ranking is excluded
    FIRST = "first"  # the item has the first of its places; the others are passed over
    EXHAUST = "exhaust"  # the ranking ends before the second one


@dataclass(frozen=True, slots=True, kw_only=True)
class RankReading:
    """Meaning of ranks beside their order.

    Attributes:
        not_ranked: cells that say that an item was not ranked, as text; an empty one always does.
        end_at_tie: end a ranking before the first rank that two items share.
        end_at_gap: end a ranking before the first item whose rank leaves one out: it is above one
            more than the number of items before it.
        tie_words: cells of a place that say that several items were put there.
        repeated: rule for a ranking that names an item at two places.
        other: the item that a name outside the catalogue counts as; None: it breaks a rule.
        invalid: the only item of a ranking that lists nobody or breaks one of these rules; None: it
            is set aside.
    """

    not_ranked: tuple[str, ...] = ()
    end_at_tie: bool = False
    end_at_gap: bool = False
    tie_words: tuple[str, ...] = ()
    repeated: Repeated = Repeated.SET_ASIDE
    other: str | None = None
    invalid: str | None = None

    def lengths(self, rank: Floats, tied: Mask, lengths: Integers) -> Integers:
        """Count the items of each ranking that count.

        Args:
            rank: shape (sum of lengths,), ranks in order, one ranking after the other.
            tied: whether each has the rank of the one before it.
            lengths: shape (n,), how many items each ranking has.
        """
        if not (self.end_at_tie or self.end_at_gap):
            return lengths
        number = np.repeat(np.arange(len(lengths)), lengths)
        place = np.arange(len(rank)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        ends = np.zeros(len(rank), np.bool_)
        if self.end_at_tie:
            ends[:-1] |= tied[1:]
        if self.end_at_gap:
            ends |= rank > place + 1
        found = lengths.copy()
        np.minimum.at(found, number[ends], place[ends])
        return found


AS_GIVEN = RankReading()


def cells_among(column: pa.Array, words: Sequence[str]) -> Mask:
    """Mark the cells that are one of `words`, as text or as the same number."""
    codes = pa.array([word.strip().lower() for word in words], pa.large_string())
    high, low, _ = ranks_of(codes)
    known = {*zip(high[np.isfinite(high)], low[np.isfinite(high)], strict=True)}

    def is_code(cells: pa.Array) -> Mask:
        rank, rest, _ = ranks_of(cells)
        found = np.zeros(len(cells), np.bool_)
        for one in known:
            found |= (rank == one[0]) & (rest == one[1])
        if is_text(cells.type):
            texts = pc.utf8_lower(pc.utf8_trim_whitespace(to_text(cells)))
            found |= to_numpy(pc.is_in(texts, value_set=codes))
        return found

    return by_distinct(column, is_code, np.False_) if is_text(column.type) else is_code(column)


def ranked_rows(batch: pa.RecordBatch, name: str, reading: RankReading) -> pa.RecordBatch:
    """The rows whose cell in column `name` holds a rank, where some texts say that it holds none.

    Without such texts all rows: one without a rank is set aside as it is encoded.
    """
    if not reading.not_ranked:
        return batch
    column = batch[name]
    no_rank = to_numpy(pc.is_null(column)) | cells_among(column, reading.not_ranked)
    if is_text(column.type):
        no_rank |= by_distinct(column, are_unranked, np.True_)
    return batch.filter(pa.array(~no_rank))


def are_unranked(texts: pa.Array) -> Mask:
    """Mark the texts that statistics programs write into an empty cell."""
    known = pa.array(UNRANKED_TEXTS, pa.large_string())
    return to_numpy(pc.is_in(to_text(texts), value_set=known))


def are_blank(texts: pa.Array) -> Mask:
    """Mark the texts that are no name that anybody wrote: blanks, NA and N/A in any case."""
    known = pa.array(BLANK_TEXTS, pa.large_string())
    return to_numpy(pc.is_in(pc.utf8_lower(to_text(texts)), value_set=known))


def ranks_of(column: pa.Array, *, highest: bool = False) -> tuple[Floats, Rest, Mask]:
    """Ranks of integers, floating-point numbers or text, the best one the smallest.

    Args:
        column: column as the file has it.
        highest: whether the highest number is the best; then ranks are negated, which is exact.

    Returns:
        high, NaN where there is no number; low; which are null. Each of the length of `column`.
    """
    if is_text(column.type):
        pairs = by_distinct(column, _of_texts, (np.nan, 0.0))
        high, low = pairs[:, 0], pairs[:, 1].astype(np.int16)
    else:
        high, low = _of_numbers(column)
    if highest:
        high, low = -high, -low
    return high, low, to_numpy(pc.is_null(column))


def words_of_ranks(high: Floats) -> Words:
    """Words that compare as these finite numbers do; their leading bits tell most of them apart."""
    words = (high + 0.0).view(np.uint64)  # -0.0 is 0.0
    sign = np.uint64(1 << 63)
    words = np.where(words & sign, ~words, words | sign)
    if len(words):
        words -= words.min()
        words <<= np.uint64(64 - max(int(words.max()).bit_length(), 1))
    return words


def _of_numbers(column: pa.Array) -> tuple[Floats, Rest]:
    if not pa.types.is_integer(column.type):
        return _of_floats(numbers_of(column)[0])
    whole = to_numpy(pc.fill_null(column, 0) if column.null_count else column)
    high, low = whole.astype(np.float64), np.zeros(len(whole), np.int16)
    if len(whole) and (whole.max() >= _EXACT or whole.min() <= -_EXACT):
        large = np.flatnonzero((whole >= _EXACT) | (whole <= -_EXACT))
        rest = whole[large] & whole.dtype.type(_STEP - 1)
        high[large], low[large] = (whole[large] - rest).astype(np.float64), rest.astype(np.int16)
    if column.null_count:
        high[to_numpy(pc.is_null(column))] = np.nan
    return high, low


def _of_floats(values: Floats) -> tuple[Floats, Rest]:
    large = np.flatnonzero(np.isfinite(values) & (np.abs(values) >= _EXACT))
    low = np.zeros(len(values), np.int16)
    if len(large):
        values = values.copy()
        below = np.floor(values[large] / _STEP) * _STEP
        low[large] = values[large] - below
        values[large] = below
    return values, low


def _of_texts(texts: pa.Array) -> Floats:
    """Shape (m, 2): high and low."""
    texts = to_text(texts)
    whole = pc.fill_null(pc.match_substring_regex(texts, _WHOLE_NUMBER), False)
    pairs = np.column_stack(_of_floats(numbers_of(texts)[0])).astype(np.float64)
    digits = pc.utf8_ltrim(texts.filter(whole), "+")
    pairs[to_numpy(whole)] = np.column_stack(_of_numbers(digits.cast(pa.int64())))
    return pairs


@dataclass(frozen=True, slots=True, kw_only=True)
class RankColumns(ByRole):
    """Columns of a log with one ranked item a row (long form).

    Attributes:
        user: person whose ranking it is.
        item: item that was ranked, by name or by position in the catalogue.
        rank: a number; the smallest of a ranking is its best item, or the highest.
        contest: contest that tells a person's rankings apart; None: a person has one.
        epsilon: epsilon of the ranking; None: it comes from elsewhere.
        highest: whether the highest number is the best.
    """

    user: str
    item: str
    rank: str
    contest: str | None = None
    epsilon: str | None = None
    highest: bool = False

    def item_names(self) -> list[str]:
        """The column whose values name items."""
        return [self.item]

    def roles(self) -> list[tuple[str, str]]:
        """Role and name of each column."""
        chosen = [
            ("user", self.user),
            ("item", self.item),
            (RANK, self.rank),
            (CONTEST, self.contest),
            ("epsilon", self.epsilon),
        ]
        return [(role, name) for role, name in chosen if name is not None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListColumns(ByRole):
    """Columns of a log with one ranking a row (list form).

    Attributes:
        ranking: a list of items, best first.
        user: person whose ranking it is; None: each row is another person's.
        contest: as in `RankColumns`; here it only serves to choose one contest.
        epsilon: as in `RankColumns`.
        features: public ones of the person, or the group; None: none are read.
    """

    ranking: str
    user: str | None = None
    contest: str | None = None
    epsilon: str | None = None
    features: Profiled | None = None

    def item_names(self) -> list[str]:
        """Return no names: items are named inside lists."""
        return []

    def roles(self) -> list[tuple[str, str]]:
        """Role and name of each column."""
        chosen = [
            ("user", self.user),
            (RANKING, self.ranking),
            (CONTEST, self.contest),
            ("epsilon", self.epsilon),
        ]
        found = [(role, name) for role, name in chosen if name is not None]
        return [*found, *_roles_of_features(self.features)]


@dataclass(frozen=True, slots=True, kw_only=True)
class WideRankColumns(ByRole):
    """Columns of a table with one ranking a row: each item's column holds its rank.

    Attributes:
        items: name of the column, and of the item whose rank it holds; an empty cell is unranked.
        user, contest, epsilon: as in `ListColumns`.
        highest: as in `RankColumns`.
        features: as in `ListColumns`.
    """

    items: tuple[tuple[str, str], ...]
    user: str | None = None
    contest: str | None = None
    epsilon: str | None = None
    highest: bool = False
    features: Profiled | None = None

    def item_names(self) -> list[str]:
        """Return no names: no value names an item."""
        return []

    def roles(self) -> list[tuple[str, str]]:
        """Role and name of each column."""
        chosen = [("user", self.user), (CONTEST, self.contest), ("epsilon", self.epsilon)]
        found = [(role, name) for role, name in chosen if name is not None]
        ranks = ((WIDE_RANK, name) for name, _ in self.items)
        return [*found, *_roles_of_features(self.features), *ranks]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceColumns(ByRole):
    """Columns of a table with one ranking a row: each place's column names the item there.

    Attributes:
        places: names of the columns, the one of the first place first.
        user, contest, epsilon, features: as in `ListColumns`.
    """

    places: tuple[str, ...]
    user: str | None = None
    contest: str | None = None
    epsilon: str | None = None
    features: Profiled | None = None

    def item_names(self) -> list[str]:
        """The columns whose values name items."""
        return list(self.places)

    def roles(self) -> list[tuple[str, str]]:
        """Role and name of each column."""
        chosen = [("user", self.user), (CONTEST, self.contest), ("epsilon", self.epsilon)]
        found = [(role, name) for role, name in chosen if name is not None]
        of_features = _roles_of_features(self.features)
        return [*found, *of_features, *((PLACE, name) for name in self.places)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemSet:
    """One of the sets of a row that holds several.

    Attributes:
        best, worst: columns that name the chosen items.
        shown: columns that name the items shown; empty: `items` does.
        items: names of the items shown, of a public design.
    """

    best: str
    worst: str
    shown: tuple[str, ...] = ()
    items: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns of the set."""
        return (self.best, self.worst, *self.shown)

    @property
    def size(self) -> int:
        """Most items that the set shows."""
        return len(self.shown or self.items)


@dataclass(frozen=True, slots=True, kw_only=True)
class BestWorstColumns(ByRole):
    """Columns of a table with a choice of the best and the worst of the items shown in each row.

    Attributes:
        best, worst: columns that name the chosen items.
        shown: columns that name the items shown; an empty cell names none.
        user, contest, epsilon, features: as in `ListColumns`.
        sets: of a table whose rows hold several sets. Then `best`, `worst` and `shown` are columns
            of the rows that `transforms.rankings.best_worst` makes, one for each set.
    """

    best: str
    worst: str
    shown: tuple[str, ...]
    sets: tuple[ItemSet, ...] = ()
    user: str | None = None
    contest: str | None = None
    epsilon: str | None = None
    features: Profiled | None = None

    @classmethod
    def of_sets(cls, sets: tuple[ItemSet, ...], **of_a_row: Any) -> Self:
        """The columns of the rows that are made of rows with several sets."""
        largest = max(each.size for each in sets)
        shown = tuple(f"{SHOWN_ITEM} {place + 1}" for place in range(largest))
        return cls(best=BEST_ITEM, worst=WORST_ITEM, shown=shown, sets=sets, **of_a_row)

    def item_names(self) -> list[str]:
        """The columns whose values name items."""
        held = [name for each in self.sets for name in each.columns]
        return held or [self.best, self.worst, *self.shown]

    def roles(self) -> list[tuple[str, str]]:
        """Role and name of each column that is read."""
        chosen = [("user", self.user), (CONTEST, self.contest), ("epsilon", self.epsilon)]
        found = [(role, name) for role, name in chosen if name is not None]
        found += _roles_of_features(self.features)
        for each in self.sets or (self,):
            found += [(BEST, each.best), (WORST, each.worst)]
            found += [(SHOWN, name) for name in each.shown]
        return found


# Forms of a table in which a row is a ranking.
OneRowColumns = WideRankColumns | PlaceColumns | BestWorstColumns


@dataclass(frozen=True, slots=True, kw_only=True)
class PairColumns(ByRole):
    """Columns of a file of private answers to random pairs, one ranking a row.

    Attributes:
        left, right: two items; each name gets a number, `left_1`, `left_2`, where a ranking has
            several answers.
        outcome: +1 left above right, -1 below, 0 not both ranked; numbered likewise.
        length: number of items of the ranking; None: it is hidden.
        pairs: d, how many answers a row has at most.
        epsilon: the epsilon of the ranking; None: all have the same.
        features: as in `ListColumns`.
    """

    left: str
    right: str
    outcome: str
    length: str | None
    pairs: int
    epsilon: str | None = None
    features: Profiled | None = None

    @property
    def user(self) -> None:
        """Return None: each row is another person's."""
        return

    @property
    def contest(self) -> None:
        """Return None: all rows count."""
        return

    def item_names(self) -> list[str]:
        """The columns whose values name items."""
        return [*self.numbered(self.left), *self.numbered(self.right)]

    def roles(self) -> list[tuple[str, str]]:
        """Role and name of each column."""
        chosen = [("left", self.left), ("right", self.right), (OUTCOME, self.outcome)]
        found = [(role, name) for role, each in chosen for name in self.numbered(each)]
        more = ((LENGTH, self.length), ("epsilon", self.epsilon))
        found += [(role, name) for role, name in more if name is not None]
        return [*found, *_roles_of_features(self.features)]

    def profiles_of(self, batch: pa.RecordBatch) -> tuple[Integers, int] | None:
        """Profile of each row, and how many profiles there are; None: no features are read."""
        features = self.features
        return None if features is None else (features.profiles_of(batch), features.profiles)

    def numbered(self, name: str) -> list[str]:
        """Names of the columns of all answers."""
        return [name] if self.pairs == 1 else [f"{name}_{k + 1}" for k in range(self.pairs)]


def _roles_of_features(features: Profiled | None) -> list[tuple[str, str]]:
    return [] if features is None else features.roles()


def of_contest(batch: pa.RecordBatch, name: str, contest: str) -> pa.RecordBatch:
    """The rows of one contest, named as text."""

    def is_it(contests: pa.Array) -> Mask:
        return to_numpy(pc.fill_null(pc.equal(contest_names(contests), contest), False))

    return batch.filter(pa.array(by_distinct(batch[name], is_it, np.False_)))


def contest_names(column: pa.Array) -> pa.Array:
    """Contests as text, so that files which name them by integers and by text agree."""
    if pa.types.is_dictionary(column.type):
        names = contest_names(column.dictionary)
        return pa.DictionaryArray.from_arrays(column.indices, names)
    return to_text(column) if is_text(column.type) else column.cast(pa.large_string())
