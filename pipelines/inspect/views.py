"""What a look counts of the rows of one kind, as the kind itself encodes and packs them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hushrank.pipelines.inspect.found import Counts
from hushrank.pipelines.reduce.count_rankings import CountRankingsKind
from hushrank.pipelines.reduce.kind import Kind
from hushrank.pipelines.reduce.reduce import Job, kind_of
from hushrank.pipelines.reduce.reduce_comparisons import ComparisonsKind
from hushrank.pipelines.reduce.reduce_private import AnswersKind
from hushrank.pipelines.reduce.reduce_rankings import RankingsKind
from hushrank.pipelines.reduce.reduce_responses import ResponsesKind
from hushrank.pipelines.reduce.reduction_job import LocalReduction
from hushrank.privacy.random_pairs import PairAnswers
from hushrank.transforms.common.encode import Sifted, encode_comparisons
from hushrank.transforms.common.sorting import Words
from hushrank.transforms.comparisons.bound import CONFLICT
from hushrank.transforms.comparisons.shuffle import OwnedParcel, unpack
from hushrank.transforms.comparisons.true_answers import Answers
from hushrank.transforms.rankings.bound_rankings import ranking_numbers
from hushrank.transforms.rankings.ranking_blobs import has_copies, pieces_of_blob, rankings_of_blob
from hushrank.transforms.rankings.ranking_columns import RankColumns
from hushrank.transforms.rankings.rankings import Pieces, owners
from hushrank.transforms.rankings.ties import count_copies
from hushrank.transforms.responses.answer_sheets import responses_of_blob
from hushrank.transforms.responses.response_columns import WideColumns
from hushrank.transforms.storage.spill_file import fetch

K = TypeVar("K", bound=Kind[Any])


@dataclass(frozen=True, slots=True)
class Shown:
    """Which items some valid rows showed.

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
    """How to look at the rows of one kind.

    Attributes:
        noun: what a person contributes, in the plural.
        merged, kept: what the tallies of the kind call contributions that were merged with another
            and those that are counted.
        whole: what they call contributions that break no rule; empty: all but those set aside.
        refused: of tallies that stand for contributions which were set aside, the reason.
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
        """The contributions of one person that count; None: all."""

    @property
    def knows_people(self) -> bool:
        """Whether the run reads whose row it is, and has the rows of a person meet."""
        return self.kind.meets_owners and self.kind.job.columns.user is not None

    @property
    def refuses_rows(self) -> bool:
        """Whether what is set aside where people's rows have met is rows, as they were read."""
        return True

    @abstractmethod
    def shown(self, batch: pa.RecordBatch, found: Sifted[Any]) -> Shown:
        """Items in the valid rows of a batch; `found` is what the kind made of it."""

    @abstractmethod
    def owner_words(self, parcels: list[Any]) -> Iterator[Words]:
        """First words of the pseudonyms behind each contribution, all of a person's together."""

    def lengths_met(self, parcels: list[Any]) -> Counts | None:
        """Lengths of the rankings of one partition, where only there a ranking is whole."""
        return None

    def unowned(self, found: Sifted[Any]) -> int:
        """How many contributions would be counted of rows whose owners need not meet."""
        return len(found.rows.epsilon)

    def _counted(self, items: NDArray[Any]) -> Counts:
        return np.bincount(items, minlength=len(self.kind.job.catalogue)).astype(np.int64)

    def _compared(self, batch: pa.RecordBatch, found: Sifted[Any]) -> Shown:
        """Items and ties of a comparison log, before ties are dropped or decided."""
        if found.valid is not None:
            batch = batch.filter(pa.array(found.valid))
        job = self.kind.job
        groups = getattr(job, "groups", None)  # the valid rows are in them
        rows = encode_comparisons(batch, job.columns, job.catalogue, None, groups=groups).rows
        ties = len(rows) - int(np.count_nonzero(rows.outcome))
        return Shown(self._counted(rows.left) + self._counted(rows.right), ties)


class ComparisonsView(View[ComparisonsKind]):
    """Of comparisons that are counted."""

    noun, merged, kept = "comparisons", "duplicate_rows", "rows_kept"
    refused = {"conflicting_rows": CONFLICT}  # noqa: RUF012

    @property
    def most(self) -> int | None:
        return self.kind.job.bounds.max_contributions

    def unowned(self, found: Sifted[Any]) -> int:
        return found.tally[self.kept]

    def shown(self, batch: pa.RecordBatch, found: Sifted[Any]) -> Shown:
        return self._compared(batch, found)

    def owner_words(self, parcels: list[OwnedParcel]) -> Iterator[Words]:
        for bucket in unpack(parcels, None):
            yield np.concatenate([piece.words[0] for piece in bucket.pieces()])


class AnswersView(View[AnswersKind]):
    """Of comparisons that are privatised one by one."""

    noun, kept = "comparisons", "rows_kept"

    @property
    def most(self) -> int | None:
        return self.kind.job.budget.max_contributions

    def shown(self, batch: pa.RecordBatch, found: Sifted[Any]) -> Shown:
        return self._compared(batch, found)

    def owner_words(self, parcels: list[Any]) -> Iterator[Words]:
        owner = (_first_words(Answers.of_blob(blob).owner) for blob in _blobs(parcels))
        yield np.concatenate(list(owner))


class ResponsesView(View[ResponsesKind]):
    """Of answers to test items; what is set aside where answers met comes as rows."""

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

    def owner_words(self, parcels: list[Any]) -> Iterator[Words]:
        sheets = map(responses_of_blob, _blobs(parcels))
        yield np.concatenate([sheet.owner[sheet.person, 0] for sheet in sheets])


class RankingsView(View[RankingsKind]):
    """Of rankings; what is set aside where pieces met comes as rows, one for each ranked item."""

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

    def lengths_met(self, parcels: list[Any]) -> Counts | None:
        blobs = list(_blobs(parcels))
        if has_copies(blobs[0]) or not isinstance(self.kind.job.columns, RankColumns):
            return None  # they were whole as they were read
        pieces = Pieces.concatenated([pieces_of_blob(blob) for blob in blobs])
        return self.kind.assembled(pieces).rows.lengths

    def owner_words(self, parcels: list[Any]) -> Iterator[Words]:
        blobs = list(_blobs(parcels))
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
    """How to look at the rows of `job`.

    Comparisons and rankings are taken as they stand there, for nothing of them leaves. Test answers
    that a run randomises are randomised here too, and what comes of it is thrown away: which of
    them count depends on that they are to be private.
    """
    if isinstance(job, LocalReduction):
        job = replace(job, already_private=True, law=None)
    kind = kind_of(job)
    return VIEWS[type(kind)](kind)


def _blobs(parcels: Iterable[Any]) -> Iterator[bytes]:
    return (fetch(parcel, None) for _, parcel in parcels)


def _first_words(owner: Any) -> Words:
    words: Words = owner[:, 0]
    return words
