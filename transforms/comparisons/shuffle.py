"""Carry owned rows to where all rows of their owner meet.

Rows of a few owners make a *bucket*, which is bounded on its own; its rows fit into a processor's
cache. Some buckets make a *partition*, the unit that the engine moves. A *shuffle block* is what
one reader has for one partition, bucket by bucket. Its rows are inside it where machines differ,
unless they are so many that they wait in a file (`pipelines.reduce.reduce`), and where rows are so
few that no engine runs; on Beam's local engine they are in a spill file and the shuffle block says
where, for that engine would keep every row in memory and copy it several times on its way (3 of 6 s
for 10 million rows).

For the shuffle, comparisons and their owners are packed into a few words a row.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Flag, auto
from typing import Self

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.common.covariates import turned
from hushrank.privacy.keyed_hash import Hashes, KeyedHash
from hushrank.transforms.common.catalogue import GroupCodes
from hushrank.transforms.common.encode import Comparisons, Outcomes
from hushrank.transforms.common.schema import Ties
from hushrank.transforms.common.sorting import Mask, Order, Words, new_run
from hushrank.transforms.storage.spill_file import Place, Spill, SpillFile, further

CONTRADICTING, CONSISTENT = "people_contradicting", "people_consistent"  # numbers of a tally
# Label of the hash that makes owners of pairs; `transforms.comparisons.bound` has labels 0 to 3
OWNER_LABEL = 4
WORDS, WORDS_WITH_EVENT = 3, 6  # a row: owner, owner, content; then event, event, place
# One more word, the last one, is the row's weight, covariates or set of groups, as the job has it.
# Group, low item, high item and outcome + 1 share the content word.
_ITEM_BITS, _OUTCOME_BITS = 27, 2  # the group has the 8 bits above them
_UNGROUPED = np.uint64((1 << (2 * _ITEM_BITS + _OUTCOME_BITS)) - 1)
BUCKET_ROWS = 1 << 17  # 24 bytes each; of 1 << 20 rows, bounding takes twice the time a row
WORD_BYTES = 8
MAX_LOCAL_PARTITION_BITS = 8
MAX_BUCKET_BITS = 5  # at most, so that a partition has at most 4 million rows, 100 MB


class Carried(Flag):
    """Facts that rows carry beside their pair and its outcome."""

    NOTHING = 0
    GROUPS = auto()
    WEIGHTS = auto()  # in the word after all others
    COVARIATES = auto()  # likewise: no job has both
    SETS = auto()  # sets of groups that overlap, likewise


@dataclass(frozen=True, slots=True)
class OwnedRows:
    """Comparisons in canonical orientation, with the person to whom each belongs.

    Attributes:
        words: shape (3, m), or (6, m) if rows carry an event, and one more if they have weights,
            covariates or sets of groups (no job has two of these). A word is a row of this array:
            one `take` moves them all, and each is contiguous for everything else.
    """

    words: Words

    def __len__(self) -> int:
        return len(self.words[0])

    @property
    def owner(self) -> Hashes:
        """Shape (m, 2), pseudonyms."""
        return np.stack([self.words[0], self.words[1]], axis=1)

    @property
    def owner_words(self) -> tuple[Words, Words]:
        """`owner`, word by word: there without a copy."""
        return self.words[0], self.words[1]

    @property
    def content(self) -> Words:
        """Group, items compared and outcome of each row, in one word."""
        content: Words = self.words[2]
        return content

    @property
    def pair(self) -> Words:
        """A number for each pair of items, the same in every group."""
        return (self.content & _UNGROUPED) >> np.uint64(_OUTCOME_BITS)

    @property
    def short_pair(self) -> NDArray[np.uint32]:
        """The same in four bytes, of a catalogue of at most 2^16 items."""
        low = self.pair >> np.uint64(_ITEM_BITS)
        return (low << np.uint64(16) | self.pair & np.uint64(0xFFFF)).astype(np.uint32)

    @property
    def group(self) -> GroupCodes:
        """Code of each row's group; 0 where there are none."""
        return _group_of(self.content)

    @property
    def outcome(self) -> Outcomes:
        """+1 the lower item won, -1 the higher item won, 0 tie."""
        return _outcome_of(self.content)

    @property
    def event(self) -> Hashes | None:
        """Shape (m, 2), pseudonyms; None: rows carry no event."""
        has_event = len(self.words) >= WORDS_WITH_EVENT
        return np.stack([self.words[3], self.words[4]], axis=1) if has_event else None

    @property
    def more(self) -> Words | None:
        """Weights, sets of groups, or covariates as they speak for the lower item, shape (m,).

        None: none of these.
        """
        without = len(self.words) in (WORDS, WORDS_WITH_EVENT)
        return None if without else self.words[-1]

    @property
    def place(self) -> Words:
        """Place where a row that carries an event was read; no decision may depend on it."""
        place: Words = self.words[5]
        return place

    @classmethod
    def concatenate(cls, parts: Sequence[OwnedRows]) -> OwnedRows:
        """Join all rows of `parts`; there is at least one."""
        if len(parts) == 1:
            return cls(parts[0].words)
        return cls(np.concatenate([part.words for part in parts], axis=1))

    def take(self, rows: Order) -> OwnedRows:
        """The chosen rows, in that order."""
        return OwnedRows(np.take(self.words, rows, axis=1))

    def filter(self, keep: Mask) -> OwnedRows:
        """The rows where `keep` is true, in the order they are in."""
        return self.take(np.flatnonzero(keep))

    def comparisons(self, carried: Carried = Carried.NOTHING) -> Comparisons:
        """The rows without owners, low item on the left, and what else they say."""
        return comparisons_of(self.content, self.more, carried)


def comparisons_of(
    content: Words, more: Words | None = None, carried: Carried = Carried.NOTHING
) -> Comparisons:
    """Unpack two words of `OwnedRows`, low item on the left."""
    one_item = (1 << _ITEM_BITS) - 1
    low = (content >> (_ITEM_BITS + _OUTCOME_BITS) & one_item).astype(np.int32)
    high = (content >> _OUTCOME_BITS & one_item).astype(np.int32)
    return Comparisons(
        low,
        high,
        _outcome_of(content),
        group=_group_of(content) if Carried.GROUPS in carried else None,
        weight=more.view(np.int64) if more is not None and Carried.WEIGHTS in carried else None,
        covariates=more if Carried.COVARIATES in carried else None,
        sets=more if Carried.SETS in carried else None,
    )


def _group_of(content: Words) -> GroupCodes:
    return (content >> (2 * _ITEM_BITS + _OUTCOME_BITS)).astype(np.int16)


def _outcome_of(content: Words) -> Outcomes:
    return (content & 3).astype(np.int8) - np.int8(1)


def own(
    rows: Comparisons,
    ties: Ties,
    keyed_hash: KeyedHash,
    place: NDArray[np.int64] | None = None,
    n_covariates: int = 0,
) -> OwnedRows:
    """Put rows in canonical orientation with their owner: the user, or else the pair itself.

    Args:
        rows: valid comparisons; those that tied are left out under `Ties.DROP`.
        ties: rule for ties.
        keyed_hash: the run's secret hash.
        place: place where each row was read; needed where `rows` carry events.
        n_covariates: number of covariates of the rows.
    """
    if ties is Ties.DROP and not rows.outcome.all():
        decided = np.flatnonzero(rows.outcome)
        rows, place = rows.take(decided), None if place is None else place[decided]
    swapped = (rows.left > rows.right).view(np.int8)
    outcome = rows.outcome * (1 - 2 * swapped)
    more = rows.covariates if rows.weight is None else rows.weight.view(np.uint64)
    more = rows.sets if more is None else more
    n_words = words_of_row(event=rows.event is not None, more=more is not None)
    words = np.empty((n_words, len(rows)), np.uint64)
    content = words[2]
    content[:] = np.minimum(rows.left, rows.right)
    content <<= _ITEM_BITS
    content += np.maximum(rows.left, rows.right).astype(np.uint64)
    owner = keyed_hash.of_tuples(OWNER_LABEL, (content,)) if rows.user is None else rows.user
    words[:2] = owner.T
    content <<= _OUTCOME_BITS
    content |= (outcome + 1).view(np.uint8)
    if rows.group is not None:
        content |= rows.group.astype(np.uint64) << (2 * _ITEM_BITS + _OUTCOME_BITS)
    if rows.event is not None:
        if place is None:
            raise ValueError("rows that carry an event must say where they were read")
        words[3:5], words[5] = rows.event.T, place.view(np.uint64)
    if rows.covariates is not None:
        more = np.where(swapped != 0, turned(rows.covariates, n_covariates), rows.covariates)
    if more is not None:
        words[-1] = more
    return OwnedRows(words)


def rows_in_several_groups(rows: OwnedRows) -> int:
    """Count rows whose owner has the same pair and outcome in another group too. Confidential."""
    bare, group = rows.content & _UNGROUPED, rows.group
    order = np.lexsort((group, bare, *rows.owner_words))
    if not len(order):
        return 0
    starts = np.flatnonzero(new_run(*(word[order] for word in (*rows.owner_words, bare))))
    least, most = (each.reduceat(group[order], starts) for each in (np.minimum, np.maximum))
    return int(np.diff(starts, append=len(order))[least < most].sum())


def words_of_row(*, event: bool, more: bool) -> int:
    """Number of words of a row."""
    return (WORDS_WITH_EVENT if event else WORDS) + more


@dataclass(frozen=True, slots=True)
class Partitioning:
    """Rule by which owners are divided: by the leading bits of the first word of their pseudonym.

    Attributes:
        partition_bits: 2^this partitions.
        bucket_bits: 2^this buckets in each.
    """

    partition_bits: int
    bucket_bits: int

    @classmethod
    def of_rows(cls, n_rows: int, partition_rows: int = BUCKET_ROWS << MAX_BUCKET_BITS) -> Self:
        """Buckets of about `BUCKET_ROWS` and partitions of `partition_rows` at most, if no owner
        has that many."""
        bits = (n_rows // BUCKET_ROWS).bit_length()
        most_bits = min(max(partition_rows // BUCKET_ROWS, 1).bit_length() - 1, MAX_BUCKET_BITS)
        bucket_bits = min(max(bits - MAX_LOCAL_PARTITION_BITS, 0), most_bits)
        return cls(bits - bucket_bits, bucket_bits)


@dataclass(frozen=True, slots=True, eq=False)
class OwnedShuffleBlock:
    """Rows that one reader has for one partition.

    Attributes:
        edges: bucket k has the rows edges[k] to edges[k + 1].
        words: words of a row.
        content: the rows, or the place where they start.
    """

    edges: tuple[int, ...]
    words: int
    content: Words | Place


def pack(
    rows: OwnedRows, partitioning: Partitioning, spill: SpillFile | None
) -> Iterator[tuple[int, OwnedShuffleBlock]]:
    """Shuffle blocks of `rows` by partition; empty ones are left out.

    Args:
        rows: any rows.
        partitioning: rule of division, the same for every reader.
        spill: files that take the rows; None: the shuffle blocks hold them.
    """
    bits = partitioning.partition_bits + partitioning.bucket_bits
    bucket = _leading(rows.words[0], bits)
    # No further than by bucket: rows then move in long runs, in a quarter of the time.
    order = np.argsort(bucket, kind="stable")
    edges = np.append(0, np.cumsum(np.bincount(bucket, minlength=1 << bits)))
    buckets = 1 << partitioning.bucket_bits
    sizes, n_words = np.diff(edges[::buckets]), len(rows.words)
    place = None if spill is None else spill.append(_laid_out(rows.words, order, sizes))
    for partition in np.flatnonzero(sizes).tolist():
        mine = edges[partition * buckets : (partition + 1) * buckets + 1]
        if place is None:  # in memory of its own, which is free when the shuffle block is
            part: Words | int = rows.take(order[mine[0] : mine[-1]]).words
        else:
            part = place + n_words * int(mine[0]) * WORD_BYTES
        yield partition, OwnedShuffleBlock(tuple((mine - mine[0]).tolist()), n_words, part)


def _laid_out(words: Words, order: Order, sizes: NDArray[np.int64]) -> Words:
    """The rows of each partition, one partition after the other, and in each word by word.

    A thread that takes hundreds of numpy's steps gives way to others at each, and waits to go on;
    so the parts are copied through memory views, which do not give way.

    Args:
        words: shape (words of a row, m).
        order: order of the rows, partition by partition.
        sizes: rows of each partition.
    """
    n_words, m = words.shape
    laid = np.empty(n_words * m, np.uint64)
    ends = np.cumsum(sizes).tolist()
    for number, word in enumerate(words):
        ordered, into = np.take(word, order).data, laid.data
        for first, end in itertools.pairwise([0, *ends]):
            start = n_words * first + number * (end - first)
            into[start : start + end - first] = ordered[first:end]
    return laid


def _leading(words: Words, bits: int) -> NDArray[np.unsignedinteger]:
    """The leading `bits` of each word, in as few bytes as they need: numpy sorts these by radix."""
    if bits == 0:
        return np.zeros(len(words), np.uint8)
    return (words >> np.uint64(64 - bits)).astype(np.min_scalar_type((1 << bits) - 1))


@dataclass(frozen=True, slots=True)
class Bucket:
    """The rows of some owners, all of them.

    Attributes:
        number: number of the bucket in its partition.
        parts: for each shuffle block, its rows of this bucket, or where they are.
        n_rows: number of the rows.
    """

    number: int
    parts: tuple[Words | _Waiting, ...]
    n_rows: int

    def rows(self) -> OwnedRows:
        """Return all rows at once."""
        return OwnedRows.concatenate(list(self.pieces()))

    def pieces(self) -> Iterator[OwnedRows]:
        """Yield all rows, shuffle block by shuffle block."""
        for part in self.parts:
            yield OwnedRows(_fetched(part))


@dataclass(frozen=True, slots=True)
class _Waiting:
    """Rows in a file: the columns of a shuffle block from `first` to before `end`."""

    spill: Spill
    shuffle_block: OwnedShuffleBlock
    first: int
    end: int


def unpack(
    shuffle_blocks: Iterable[OwnedShuffleBlock],
    spill: Spill | None,
    rows_at_once: int | None = None,
) -> Iterator[Bucket]:
    """Yield one partition, bucket by bucket; empty buckets are left out.

    Args:
        shuffle blocks: all blocks of the partition.
        spill: files that hold their rows, if the blocks do not.
        rows_at_once: size of a partition above which rows in files are read when a bucket is asked
            for them.
    """
    shuffle_blocks = list(shuffle_blocks)
    n_rows = sum(shuffle_block.edges[-1] for shuffle_block in shuffle_blocks)
    waiting = spill is not None and rows_at_once is not None and n_rows > rows_at_once
    whole = [
        None
        if waiting and not isinstance(shuffle_block.content, np.ndarray)
        else _words(shuffle_block, spill)
        for shuffle_block in shuffle_blocks
    ]
    for bucket in range(len(shuffle_blocks[0].edges) - 1):
        parts: list[Words | _Waiting] = []
        for shuffle_block, words in zip(shuffle_blocks, whole, strict=True):
            first, end = shuffle_block.edges[bucket : bucket + 2]
            if words is not None:
                parts.append(words[:, first:end])
            elif spill is not None and end > first:
                parts.append(_Waiting(spill, shuffle_block, first, end))
        size = sum(
            shuffle_block.edges[bucket + 1] - shuffle_block.edges[bucket]
            for shuffle_block in shuffle_blocks
        )
        if size:
            yield Bucket(bucket, tuple(parts), size)


def _fetched(part: Words | _Waiting) -> Words:
    if not isinstance(part, _Waiting):
        return part
    shuffle_block = part.shuffle_block
    if isinstance(shuffle_block.content, np.ndarray):
        raise ValueError("the parcel holds its rows itself")
    words = np.empty((shuffle_block.words, part.end - part.first), np.uint64)
    for number, row in enumerate(words):
        place = number * shuffle_block.edges[-1] + part.first
        part.spill.read(row, further(shuffle_block.content, place * words.itemsize))
    return words


def _words(shuffle_block: OwnedShuffleBlock, spill: Spill | None) -> Words:
    if isinstance(shuffle_block.content, np.ndarray):
        return shuffle_block.content
    if spill is None:
        raise ValueError("the parcel's rows are in a spill file, and none is given")
    words = np.empty((shuffle_block.words, shuffle_block.edges[-1]), np.uint64)
    spill.read(words, shuffle_block.content)
    return words
