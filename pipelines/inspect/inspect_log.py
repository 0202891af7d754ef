"""Count exactly which rows of a log a run would read, exclude, bound and count. Confidential.

Everything here stays in the memory of this process: nothing is written, logged, released or sent.
Rows are read, encoded, set aside, put together by person and bounded by what the reduction has for
that (`pipelines.reduce.kind`), so the numbers are those of a run: a `View` wraps each kind. Where
rows that wait for others
of their person need more memory than the job may take, people are divided among several passes over
the input, each of which keeps the rows of its people alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hushrank.pipelines.inspect.found import Counts, Look
from hushrank.pipelines.reduce.kind import Kind
from hushrank.pipelines.reduce.reduce import CHUNK_ROWS, ROW_BITS, Job, kind_of, read_split
from hushrank.pipelines.reduce.reduce_comparisons import ComparisonsKind
from hushrank.pipelines.reduce.reduce_private import AnswersKind
from hushrank.pipelines.reduce.reduce_rankings import CountRankingsKind, RankingsKind
from hushrank.pipelines.reduce.reduce_responses import ResponsesKind
from hushrank.pipelines.reduce.reduction_job import LocalReduction
from hushrank.privacy.random_pairs import PairAnswers
from hushrank.transforms.common.encode import Sifted, encode_comparisons
from hushrank.transforms.common.sorting import Words
from hushrank.transforms.comparisons.bound import CONFLICT
from hushrank.transforms.comparisons.privatize import Answers
from hushrank.transforms.comparisons.shuffle import (
    OwnedShuffleBlock,
    rows_in_several_groups,
    unpack,
)
from hushrank.transforms.rankings.count_rankings import (
    count_copies,
    has_copies,
    pieces_of_blob,
    ranking_numbers,
    rankings_of_blob,
)
from hushrank.transforms.rankings.ranking_columns import RankColumns
from hushrank.transforms.rankings.rankings import Pieces, owners
from hushrank.transforms.responses.answer_sheets import responses_of_blob
from hushrank.transforms.responses.responses import WideColumns
from hushrank.transforms.storage.files import column_names_of
from hushrank.transforms.storage.spill_file import fetch
from hushrank.transforms.storage.split import Split

K = TypeVar("K", bound=Kind[Any])
SHUFFLE_BLOCK_BYTES = 200  # bytes that Python needs for a shuffle block besides its content, about


@dataclass(frozen=True, slots=True)
class Shown:
    """Items that some valid rows show.

    Attributes:
        appearances: shape (n,), rows in which each item stood.
        ties: rows without a winner; None: rows of this kind have no winner.
        lengths: shape (number of rankings,), items that each of them lists; None: the rows are no
            rankings, or are pieces of them.
    """

    appearances: Counts
    ties: int | None = None
    lengths: Counts | None = None


class View(ABC, Generic[K]):
    """Way to inspect the rows of one kind.

    Attributes:
        noun: name of what a person contributes, in the plural.
        merged, kept: names in the tallies for contributions that were merged with another
            and those that are counted.
        whole: name in the tallies for contributions that break no rule; empty: all but those set
            aside.
        refused: reason of each tally that stands for contributions which were set aside.
    """

    noun: str
    merged: str = ""
    kept: str
    whole: str = ""
    refused: dict[str, str] = {}  # noqa: RUF012 - read only

    def __init__(self, kind: K) -> None:
        self.kind = kind

    @property
    @abstractmethod
    def most(self) -> int | None:
        """Most contributions of one person that count; None: all."""

    @property
    def knows_people(self) -> bool:
        """Whether the run reads whose row it is, and groups the rows of a person."""
        return self.kind.meets_owners and self.kind.job.columns.user is not None

    @property
    def refuses_rows(self) -> bool:
        """Whether rows are excluded as they were read even after people's rows were grouped."""
        return True

    @abstractmethod
    def shown(self, batch: pa.RecordBatch, found: Sifted[Any]) -> Shown:
        """Return the items in the valid rows of a batch; `found` is the kind's result for it."""

    @abstractmethod
    def owner_words(self, shuffle_blocks: list[Any]) -> Iterator[Words]:
        """Yield the first words of the pseudonyms of contributions, all of a person's together."""

    def in_several_groups(self, shuffle_blocks: list[Any]) -> int:
        """Count contributions of one partition that differ from another in their group alone."""
        return 0

    def lengths_met(self, shuffle_blocks: list[Any]) -> Counts | None:
        """Lengths of the rankings of one partition, for layouts in which only there a ranking is
        whole."""
        return None

    def unowned(self, found: Sifted[Any]) -> int:
        """Number of contributions that would be counted, of rows that need no grouping."""
        return len(found.rows.epsilon)

    def _counted(self, items: NDArray[Any]) -> Counts:
        return np.bincount(items, minlength=len(self.kind.job.catalogue)).astype(np.int64)

    def _compared(self, batch: pa.RecordBatch, found: Sifted[Any]) -> Shown:
        """Return items and ties of a comparison log, before ties are dropped or decided."""
        if found.valid is not None:
            batch = batch.filter(pa.array(found.valid))
        job = self.kind.job
        groups = getattr(job, "groups", None)  # the valid rows are in them
        rows = encode_comparisons(batch, job.columns, job.catalogue, None, groups=groups).rows
        ties = len(rows) - int(np.count_nonzero(rows.outcome))
        return Shown(self._counted(rows.left) + self._counted(rows.right), ties)


class ComparisonsView(View[ComparisonsKind]):
    """View of comparisons that are counted."""

    noun, merged, kept = "comparisons", "duplicate_rows", "rows_kept"
    refused = {"conflicting_rows": CONFLICT}  # noqa: RUF012

    @property
    def most(self) -> int | None:
        return self.kind.job.bounds.max_contributions

    def unowned(self, found: Sifted[Any]) -> int:
        return found.tally[self.kept]

    def shown(self, batch: pa.RecordBatch, found: Sifted[Any]) -> Shown:
        return self._compared(batch, found)

    def in_several_groups(self, shuffle_blocks: list[OwnedShuffleBlock]) -> int:
        if self.kind.job.columns.group is None:
            return 0
        buckets = unpack(shuffle_blocks, None)
        return sum(rows_in_several_groups(bucket.rows()) for bucket in buckets)

    def owner_words(self, shuffle_blocks: list[OwnedShuffleBlock]) -> Iterator[Words]:
        for bucket in unpack(shuffle_blocks, None):
            yield np.concatenate([piece.words[0] for piece in bucket.pieces()])


class AnswersView(View[AnswersKind]):
    """View of comparisons that are privatised one by one."""

    noun, kept = "comparisons", "rows_kept"

    @property
    def most(self) -> int | None:
        return self.kind.job.budget.max_contributions

    def shown(self, batch: pa.RecordBatch, found: Sifted[Any]) -> Shown:
        return self._compared(batch, found)

    def owner_words(self, shuffle_blocks: list[Any]) -> Iterator[Words]:
        owner = (_first_words(Answers.of_blob(blob).owner) for blob in _blobs(shuffle_blocks))
        yield np.concatenate(list(owner))


class ResponsesView(View[ResponsesKind]):
    """View of answers to test items; rows are excluded after the answers of a person were
    grouped."""

    noun, merged, kept = "answers", "repeated_answers", "answers_kept"

    @property
    def most(self) -> int | None:
        return self.kind.job.max_answers

    @property
    def refuses_rows(self) -> bool:
        return not isinstance(self.kind.job.columns, WideColumns)

    def shown(self, batch: pa.RecordBatch, found: Sifted[Any]) -> Shown:
        items = found.rows.item
        return Shown(self._counted(items[items < len(self.kind.job.catalogue)]))

    def owner_words(self, shuffle_blocks: list[Any]) -> Iterator[Words]:
        sheets = map(responses_of_blob, _blobs(shuffle_blocks))
        yield np.concatenate([sheet.owner[sheet.person, 0] for sheet in sheets])


class RankingsView(View[RankingsKind]):
    """View of rankings; excluded rows of pieces come one for each ranked item."""

    noun, kept, whole = "rankings", "rankings_kept", "rankings_with_owner"

    @property
    def most(self) -> int | None:
        return self.kind.job.max_rankings

    def shown(self, batch: pa.RecordBatch, found: Sifted[Any]) -> Shown:
        rows = found.rows.rankings if isinstance(found.rows, Pieces) else found.rows
        if isinstance(rows, PairAnswers):
            return Shown(self._counted(np.concatenate([rows.first, rows.second])))
        lengths = None if isinstance(found.rows, Pieces) else rows.lengths
        return Shown(self._counted(rows.items), lengths=lengths)

    def lengths_met(self, shuffle_blocks: list[Any]) -> Counts | None:
        blobs = list(_blobs(shuffle_blocks))
        if has_copies(blobs[0]) or not isinstance(self.kind.job.columns, RankColumns):
            return None  # the contributions were whole as they were read
        pieces = Pieces.concatenated([pieces_of_blob(blob) for blob in blobs])
        return self.kind.assembled(pieces).rows.lengths

    def owner_words(self, shuffle_blocks: list[Any]) -> Iterator[Words]:
        blobs = list(_blobs(shuffle_blocks))
        if has_copies(blobs[0]):  # each is another person's
            number = sum(count_copies(rankings_of_blob(blob)) for blob in blobs)
            yield np.arange(number, dtype=np.uint64)
            return
        if not isinstance(self.kind.job.columns, RankColumns):
            lists = map(rankings_of_blob, blobs)
            yield np.concatenate([_first_words(part.owner) for part in lists])
            return
        pieces = Pieces.concatenated([pieces_of_blob(blob) for blob in blobs])
        _, first = np.unique(ranking_numbers(pieces), return_index=True)
        yield _first_words(owners(pieces.rankings))[first]


VIEWS: dict[type[Kind[Any]], type[View[Any]]] = {
    ComparisonsKind: ComparisonsView,
    AnswersKind: AnswersView,
    ResponsesKind: ResponsesView,
    RankingsKind: RankingsView,
    CountRankingsKind: RankingsView,
}


def view_of(job: Job) -> View[Any]:
    """Choose the view for the rows of `job`.

    Comparisons and rankings are taken as they stand there, for nothing of them leaves. Test answers
    that a run randomises are randomised here too, and what comes of it is thrown away: which of
    them count depends on that they are to be private.
    """
    if isinstance(job, LocalReduction):
        job = replace(job, already_private=True, law=None)
    kind = kind_of(job)
    return VIEWS[type(kind)](kind)


def _blobs(shuffle_blocks: Iterable[Any]) -> Iterator[bytes]:
    return (fetch(shuffle_block, None) for _, shuffle_block in shuffle_blocks)


def _first_words(owner: Any) -> Words:
    words: Words = owner[:, 0]
    return words


def look(job: Job) -> Look:
    """Read the input of `job` as its reduction would, and count what it meets.

    Memory: about `job.memory_limit`. Only a partition with more rows than that, of one person, say,
    is held whole all the same.

    Raises:
        InputError: a file cannot be read.
    """
    view = view_of(replace(job, people_vote=False))  # votes would be counted as rows
    reading = _Reading(view)
    found = reading.found
    shares = [range(1 << 62)]  # shares of partitions, each read in a pass of its own
    while shares:
        shuffle_blocks, rest = reading.pass_over(shares.pop())
        shares += rest
        for partition in sorted(shuffle_blocks):
            _meet(view, shuffle_blocks.pop(partition), found)
    return found


class _Reading:
    """Passes over the input; the first one counts rows as they are read."""

    def __init__(self, view: View[Any]) -> None:
        self._view, self._kind = view, view.kind
        self._splits = self._kind.splits(self._kind.job.heads)
        self._kind.setup()
        self._partitions = self._kind.partitions(sum(split.rows for split in self._splits))
        nothing = np.zeros(len(self._kind.job.catalogue), np.int64)
        columns = tuple(column_names_of(self._kind.job.files[0]))
        self.found = Look(
            view.noun, view.most, nothing, refuses_rows=view.refuses_rows, columns=columns
        )
        if view.knows_people:
            self.found.people = Counter()

    def pass_over(self, share: range) -> tuple[dict[int, list[Any]], list[range]]:
        """Return shuffle blocks of as many partitions of `share` as memory holds, and the others,
        for
        later."""
        self.found.passes += 1
        waiting: dict[int, list[Any]] = defaultdict(list)
        size, later = 0, list[range]()
        room = self._kind.memory.waiting_bytes
        for rows in self._chunks():
            for partition, shuffle_block in self._kind.pack(rows, self._partitions, None):
                if partition in share:
                    waiting[partition].append(shuffle_block)
                    size += _bytes_of(shuffle_block)
            while size > room and len(waiting) > 1:
                middle = sorted(waiting)[len(waiting) // 2]
                later.append(range(middle, share.stop))
                share = range(share.start, middle)
                dropped = [waiting.pop(place) for place in sorted(waiting) if place >= middle]
                size -= sum(
                    _bytes_of(shuffle_block)
                    for shuffle_blocks in dropped
                    for shuffle_block in shuffle_blocks
                )
        return waiting, later

    def _chunks(self) -> Iterator[list[Any]]:
        """Yield encoded rows that must be grouped by user, in chunks; count the others only."""
        held: list[Any] = []
        for number, split in enumerate(self._splits):
            for rows in self._encoded(number, split):
                held.append(rows)
                if sum(map(len, held)) >= CHUNK_ROWS:
                    yield held
                    held = []
        if held:
            yield held

    def _encoded(self, number: int, split: Split) -> Iterator[Any]:
        first, counts = 0, self.found.passes == 1
        for read in read_split(split):
            if counts:
                self.found.rows += read.tally["rows_read"]
                self.found.rejected += _reasons(read.rejects)
            rows = self._kind.answers_of(read.rows)
            self.found.rows += len(rows) - len(read.rows) if counts else 0
            for start in range(0, len(rows), self._kind.encode_rows):
                batch = rows.slice(start, self._kind.encode_rows)
                place = (number << ROW_BITS) + first + start
                encoded = self._kind.encode(batch, place, split)
                if counts:
                    self._count(batch, encoded)
                if self._kind.meets_owners:
                    yield encoded.rows
            first += len(read.rows)

    def _count(self, batch: pa.RecordBatch, encoded: Any) -> None:
        found = self.found
        found.rejected += _reasons(encoded.rejects)
        shown = self._view.shown(batch, encoded)
        found.appearances += shown.appearances
        if shown.ties is not None:
            found.ties = (found.ties or 0) + shown.ties
        _count_lengths(found, shown.lengths)
        if not self._kind.meets_owners:
            number = self._view.unowned(encoded)
            found.contributions += number
            found.kept += number


def _meet(view: View[Any], shuffle_blocks: list[Any], found: Look) -> None:
    """Count the contributions of one partition by what a run would do with them."""
    met, tally, refused = 0, Counter[str](), Counter[str]()
    _count_lengths(found, view.lengths_met(shuffle_blocks))
    found.grouped += view.in_several_groups(shuffle_blocks)
    for words in view.owner_words(shuffle_blocks):
        met += len(words)
        if found.people is not None:
            _, sizes = np.unique(words, return_counts=True)
            numbers, people = np.unique(sizes, return_counts=True)
            found.people.update(dict(zip(numbers.tolist(), people.tolist(), strict=True)))
    for bounded in view.kind.bound(shuffle_blocks, None):
        tally.update(bounded.tally)
        refused += _reasons(bounded.rejects)
    refused += Counter({reason: tally[name] for name, reason in view.refused.items()})
    merged, kept = tally[view.merged], tally[view.kept]
    whole = tally[view.whole] if view.whole else met - merged - refused.total()
    found.contributions += met
    found.refused += refused
    found.merged += merged
    found.dropped += whole - kept
    found.kept += kept


def _count_lengths(found: Look, lengths: Counts | None) -> None:
    if lengths is not None:
        sizes, numbers = np.unique(lengths, return_counts=True)
        found.lengths = (found.lengths or Counter()) + Counter(
            dict(zip(sizes.tolist(), numbers.tolist(), strict=True))
        )


def _reasons(rejects: pa.Table | None) -> Counter[str]:
    if rejects is None:
        return Counter()
    counted = rejects["reason"].value_counts()
    return Counter({pair["values"].as_py(): pair["counts"].as_py() for pair in counted})


def _bytes_of(shuffle_block: Any) -> int:
    if isinstance(shuffle_block, OwnedShuffleBlock):
        return SHUFFLE_BLOCK_BYTES + getattr(shuffle_block.content, "nbytes", 0)
    _, blob = shuffle_block
    return SHUFFLE_BLOCK_BYTES + len(blob)
