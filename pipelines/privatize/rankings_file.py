"""Turn a file of rankings into a file of private ones; their holder runs this.

Each ranking becomes a synthetic ranking of the same items, or private answers to random pairs of
them, all in one row (`transforms.rankings.pair_answers`). Each row also has the epsilon and, if
there are several, the contest; nothing else: no person, no time, no order of rows. A job reads the
file with `already_private: true`.

Rows are read twice, the first time to find the items that occur (PrefLib files once more, to name
an invalid line). The second time true rankings wait in a file without a name, by contest and by a
secret hash of their person, until all rankings of a person have been read. Then one slice after the
other is privatised, shuffled and written. So memory holds one slice and one batch at a time,
whatever the size of the file.

Read files of rankings by contest, and collect one person's synthetic rankings for the attack.

Files of synthetic rankings are public; the result may be shown to anybody.
"""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hushrank.pipelines.simulate.simulate import new_row_file
from hushrank.privacy.keyed_hash import KEY_BYTES, KeyedHash
from hushrank.privacy.random_pairs import Hide, RandomPairs
from hushrank.privacy.randomness import RandomBits
from hushrank.transforms.common.catalogue import Catalogue
from hushrank.transforms.common.encode import MALFORMED, missing
from hushrank.transforms.common.epsilons import (
    OUT_OF_RANGE,
    EpsilonSource,
    EpsilonTable,
    read_epsilon_table,
)
from hushrank.transforms.common.randomisation import RankingMechanism
from hushrank.transforms.common.schema import InputError, is_text, items_in, names_in
from hushrank.transforms.rankings.count_rankings import (
    blob_of_pieces,
    blob_of_rankings,
    break_ties,
    pieces_of_blob,
    random_coins,
    rankings_of_blob,
)
from hushrank.transforms.rankings.pair_answers import (
    PrivateRankings,
    answer_rankings,
    randomize_rankings,
    table_of_answers,
)
from hushrank.transforms.rankings.ranking_columns import (
    ListColumns,
    PairColumns,
    RankColumns,
    of_contest,
)
from hushrank.transforms.rankings.rankings import (
    Pieces,
    Rankings,
    assemble,
    encode_lists,
    encode_ranks,
    split_pieces,
    split_rankings,
)
from hushrank.transforms.storage.files import FileFormat, InputFile, check_files, open_bytes
from hushrank.transforms.storage.preflib import check_ballots
from hushrank.transforms.storage.read import plan_splits, read_batches
from hushrank.transforms.storage.spill_file import ShuffleBlock, SpillFile, fetch, park
from hushrank.transforms.storage.split import Split

RankingColumns = RankColumns | ListColumns
NO_CONTEST = ""
MOST_RANKINGS = 1_000_000  # most rankings of one person; each is a row in memory


@dataclass(frozen=True, slots=True)
class Occurring:
    """Items and contests that occur in files.

    Attributes:
        catalogue: the items.
        as_text: whether the files name items by text; otherwise by integers.
        contest_type: type of the column of contests.
    """

    catalogue: Catalogue
    as_text: bool
    contest_type: pa.DataType


def occurring(splits: Sequence[Split], columns: RankingColumns) -> Occurring:
    """Read the files and collect the items and contests that occur.

    Raises:
        InputError: a file cannot be read, or fewer than two items occur.
    """
    names = set[str]()
    for split in splits:
        for batch in read_batches(split):
            names |= items_in([_items(batch.rows, columns)])
    if len(names) < 2:
        raise InputError(f"{splits[0].file.path}: fewer than two items occur. Nothing was written.")
    schema = splits[0].schema
    items = schema.field(columns.item if isinstance(columns, RankColumns) else columns.ranking).type
    contest = pa.string() if columns.contest is None else schema.field(columns.contest).type
    return Occurring(
        catalogue=Catalogue(tuple(sorted(names))),
        as_text=is_text(items if isinstance(columns, RankColumns) else items.value_type),
        contest_type=pa.string() if is_text(contest) else pa.int64(),
    )


def rows_by_contest(
    rows: pa.RecordBatch, columns: RankingColumns
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows of each contest; rows without a contest are left out."""
    if columns.contest is None:
        yield NO_CONTEST, rows
        return
    for contest in sorted(names_in([rows[columns.contest]])):
        yield contest, of_contest(rows, columns.contest, contest)


def _items(rows: pa.RecordBatch, columns: RankingColumns) -> pa.Array:
    if isinstance(columns, RankColumns):
        return rows[columns.item]
    return rows[columns.ranking].flatten()


@dataclass(frozen=True, slots=True)
class SyntheticRankings:
    """Rankings of the same items.

    Attributes:
        items: names of the items.
        rows: shape (N, m), codes of the names, best first.
        epsilon: shape (N,).
    """

    items: tuple[str, ...]
    rows: NDArray[np.int64]
    epsilon: NDArray[np.float64]


def collect_rankings(
    files: Sequence[InputFile],
    columns: RankingColumns,
    person: str | None,
    epsilons: EpsilonSource,
) -> SyntheticRankings:
    """The synthetic rankings of one person in `files`; each file is a release of its own.

    Args:
        files: files with columns `columns`.
        columns: the role of each column.
        person: the person, as the column of people names them; None: all rankings are one person's.
        epsilons: the source of the rankings' epsilons.

    Raises:
        InputError: a file cannot be read, a ranking breaks a rule, there are no rankings or too
            many, or they have different items.
    """
    schemas = check_files(files, columns)
    of_files = [plan_splits(file, schemas[file.path], columns) for file in files]
    catalogue = occurring([split for splits in of_files for split in splits], columns).catalogue
    parts, most = [], MOST_RANKINGS
    for file, splits in zip(files, of_files, strict=True):
        try:
            parts.append(_of_file(splits, columns, person, epsilons, catalogue))
        except ValueError as error:
            raise InputError(f"{file.path}: {error}") from None
        most -= len(parts[-1])
        if most < 0:
            raise InputError(f"{file.path}: more than {MOST_RANKINGS:,} rankings; name a --person.")
    return _of_same_items(Rankings.concatenated(parts), catalogue, person)


def _of_file(
    splits: Sequence[Split],
    columns: RankingColumns,
    person: str | None,
    epsilons: EpsilonSource,
    catalogue: Catalogue,
) -> Rankings:
    n_items, keyed_hash = len(catalogue), KeyedHash(bytes(KEY_BYTES))  # nothing here is secret
    lists: list[Rankings] = []
    pieces: list[Pieces] = []
    for rows in _rows(splits, columns.user, person):
        if isinstance(columns, ListColumns):
            found = encode_lists(rows, columns, catalogue, epsilons, None, None, n_items)
            lists.append(found.rows)
            _refuse(found.rejects)
        else:
            ranks = encode_ranks(rows, columns, catalogue, epsilons, None, keyed_hash)
            pieces.append(ranks.rows)
            _refuse(ranks.rejects)
    if isinstance(columns, ListColumns):
        return Rankings.concatenated(lists)
    assembled = assemble(Pieces.concatenated(pieces), catalogue, n_items, keep_ties=False)
    _refuse(assembled.rejects)
    return assembled.rows


def _rows(
    splits: Sequence[Split], user: str | None, person: str | None
) -> Iterator[pa.RecordBatch]:
    for split in splits:
        for batch in read_batches(split):
            if batch.malformed:
                raise ValueError(f"{MALFORMED}. Correct the file.")
            for rejected in batch.rejects:
                _refuse(rejected)
            if person is None or user is None:
                yield batch.rows
            else:
                yield of_contest(batch.rows, user, person)


def _refuse(rejects: pa.Table | None) -> None:
    if rejects is not None:
        reason = rejects["reason"][0].as_py()
        rule = "an epsilon is not finite and > 0" if reason == OUT_OF_RANGE else reason
        raise ValueError(f"{rule}. Correct the file.")


def _of_same_items(
    rankings: Rankings, catalogue: Catalogue, person: str | None
) -> SyntheticRankings:
    if not len(rankings):
        whose = "There is no ranking" if person is None else f"There is no ranking of {person}"
        raise InputError(f"{whose} in the files.")
    m = int(rankings.lengths[0])
    rows = rankings.items.reshape(-1, m) if (rankings.lengths == m).all() else None
    if rows is None or (np.sort(rows, axis=1) != np.sort(rows[0])).any():
        raise InputError(
            "The rankings hold different items, so they are not synthetic rankings of one. Name"
            " whose they are with --user and --person, and give files of one contest."
        )
    chosen = np.sort(rows[0])
    names = tuple(catalogue.names[code] for code in chosen.tolist())
    return SyntheticRankings(names, np.searchsorted(chosen, rows), rankings.epsilon)


EPSILON = "epsilon"  # column of the new file if the old one has none
LEFT, RIGHT, OUTCOME, LENGTH = "left", "right", "outcome", "length"  # keys of private answers
SLICE_ITEMS = 1_000_000  # rows of ranked items that are privatised at a time
SLICE_LISTS = 100_000
MAX_SLICES = 1 << 12

Slices = dict[tuple[str, int], list[ShuffleBlock]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateForm:
    """The form of the private rankings.

    Attributes:
        mechanism: mechanism that privatises a ranking.
        break_ties: put tied items in random order; False: rankings with ties are left out.
        as_lists: name of a column of lists, one row for each ranking; None: one row for each ranked
            item, under the names of the columns that were read.
        laws: laws of `random-pairs`, one for each level of epsilon, or one for all rankings; empty:
            another mechanism.
        items: the public catalogue, for answers that hide which items were ranked; None: the items
            that occur.
    """

    mechanism: RankingMechanism
    break_ties: bool
    as_lists: str | None
    laws: tuple[RandomPairs, ...] = ()
    items: tuple[str, ...] | None = None

    @property
    def columns(self) -> PairColumns | None:
        """The columns of private answers; None: another mechanism."""
        if not self.laws:
            return None
        length = None if self.laws[-1].hide is Hide.ITEMS else LENGTH
        most = max(law.pairs for law in self.laws)
        return PairColumns(left=LEFT, right=RIGHT, outcome=OUTCOME, length=length, pairs=most)


def privatize_ranking_file(
    source: InputFile,
    target: Path,
    format_: FileFormat,
    columns: RankingColumns,
    epsilons: EpsilonSource,
    form: PrivateForm,
    bits: RandomBits,
) -> tuple[str, ...]:
    """Write the rankings of `source` to `target`, each replaced by a private one.

    Guarantee: for answers to random pairs that of `random_pairs`; else epsilon-ranking DP for each
    ranking with the epsilon in its rows, and between any two rankings of the same items the bound
    of the mechanism's `whole_ranking_epsilon`. The items of a ranking are not hidden then, nor is
    its contest. In long form the column of people holds new numbers without meaning, one for each
    ranking.

    Args:
        source: a log of rankings.
        target: a new file.
        format_: format of the new file.
        columns: columns of `source`; they say in which form it is.
        epsilons: the source of epsilons, and their bounds; random pairs need its levels.
        form: the form of the private rankings.
        bits: `system_bits()` for real rankings.

    Returns:
        Why rows or rankings were left out, each reason once.

    Raises:
        InputError: the file cannot be read, a PrefLib file has an invalid line, or there is no
            ranking.
        FileExistsError: `target` exists already.
    """
    if target.exists():  # checked before the work
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
    schema = check_files([source], columns)[source.path]
    if source.format is FileFormat.PREFLIB:
        with open_bytes(source.path) as stream:
            check_ballots(source.path, stream)
    splits = plan_splits(source, schema, columns)
    known = occurring(splits, columns)
    if form.items is not None:
        known = replace(known, catalogue=Catalogue(form.items))
    work = _Work(columns, epsilons, form, known, bits)
    with tempfile.TemporaryFile(dir=target.parent) as file:
        spill = SpillFile(file.fileno())
        slices = work.slices(splits, spill)
        tables = work.tables(slices, spill)
        first = next(tables, None)
        if first is None:
            raise InputError(f"{source.path}: no row is a ranking. Nothing was written.")
        with new_row_file(target, first.schema, format_) as write:
            write(first)
            for table in tables:
                write(table)
    return tuple(sorted(work.reasons))


@dataclass(frozen=True, slots=True)
class _Work:
    """The work on one file; `reasons` collects why rows or rankings were left out."""

    columns: RankingColumns
    epsilons: EpsilonSource
    form: PrivateForm
    known: Occurring
    bits: RandomBits
    reasons: set[str] = field(default_factory=set)

    def slices(self, splits: list[Split], spill: SpillFile) -> Slices:
        """True rankings, or parts of them, by contest and by hash of the person."""
        wanted = SLICE_LISTS if isinstance(self.columns, ListColumns) else SLICE_ITEMS
        n_slices = min(max(sum(split.rows for split in splits) // wanted, 1), MAX_SLICES)
        table = None if self.epsilons.table is None else read_epsilon_table(self.epsilons.table)
        keyed_hash = KeyedHash(self.bits.take(KEY_BYTES))
        found: Slices = {}
        for split in splits:
            for batch in read_batches(split):
                if batch.malformed:
                    self.reasons.add(MALFORMED)
                for rejected in batch.rejects:
                    self._note(rejected)
                if missing(batch.rows, self.columns.contest).any():
                    self.reasons.add("null contest")
                for contest, rows in rows_by_contest(batch.rows, self.columns):
                    for slice_, blob in self._blobs(rows, table, keyed_hash, n_slices):
                        found.setdefault((contest, slice_), []).append(park(blob, spill))
        return found

    def _blobs(
        self, rows: pa.RecordBatch, table: EpsilonTable | None, keyed_hash: KeyedHash, n_slices: int
    ) -> Iterator[tuple[int, bytes]]:
        catalogue = self.known.catalogue
        if isinstance(self.columns, ListColumns):
            lists = encode_lists(
                rows, self.columns, catalogue, self.epsilons, table, None, len(catalogue)
            )
            self._note(lists.rejects)
            own = lists.rows  # each ranking is whole, so its place is drawn at random
            owner = self.bits.words((len(own), 2))
            met = Rankings(own.items, own.lengths, own.epsilon, owner)
            for slice_, rankings in split_rankings(met, n_slices):
                yield slice_, blob_of_rankings(rankings)
            return
        ranks = encode_ranks(rows, self.columns, catalogue, self.epsilons, table, keyed_hash)
        self._note(ranks.rejects)
        for slice_, pieces in split_pieces(ranks.rows, n_slices):
            yield slice_, blob_of_pieces(pieces)

    def _note(self, rejects: pa.Table | None) -> None:
        if rejects is not None:
            self.reasons.update(rejects["reason"].unique().to_pylist())

    def tables(self, slices: Slices, spill: SpillFile) -> Iterator[pa.Table]:
        """Private rankings in random order, slice by slice."""
        numbered = 0
        for contest, slice_ in sorted(slices):
            blobs = [fetch(shuffle_block, spill) for shuffle_block in slices[contest, slice_]]
            rankings = self._whole(blobs)
            rankings = rankings.take(np.argsort(self.bits.words(len(rankings))))
            if len(rankings) and self.form.laws:
                each = [self._answers(rankings, law) for law in self.form.laws]
                table = pa.concat_tables(each)
                if len(table):
                    table = table.take(pa.array(np.argsort(self.bits.words(len(table)))))
                    yield table
            elif len(rankings):
                private = randomize_rankings(rankings, self.form.mechanism, self.bits)
                yield self._table(private, contest, numbered)
                numbered += len(rankings)

    def _whole(self, blobs: list[bytes]) -> Rankings:
        if isinstance(self.columns, ListColumns):
            return Rankings.concatenated([rankings_of_blob(blob) for blob in blobs])
        catalogue = self.known.catalogue
        pieces = Pieces.concatenated([pieces_of_blob(blob) for blob in blobs])
        found = assemble(pieces, catalogue, len(catalogue), keep_ties=self.form.break_ties)
        self._note(found.rejects)
        return break_ties(found.rows, random_coins(self.bits))

    def _answers(self, rankings: Rankings, law: RandomPairs) -> pa.Table:
        """Rows of private answers of the rankings with the epsilon of a law."""
        rankings = rankings.take(np.flatnonzero(rankings.epsilon == law.epsilon))
        answers = answer_rankings(rankings, len(self.known.catalogue), law, self.bits)
        columns, known = self.form.columns, self.known
        if columns is None:
            raise ValueError("private answers need columns")
        table = table_of_answers(answers, columns, known.catalogue, as_text=known.as_text)
        return table.append_column(EPSILON, pa.array(np.full(len(table), law.epsilon)))

    def _table(self, private: PrivateRankings, contest: str, numbered: int) -> pa.Table:
        """Rows of private rankings; `numbered` rankings were written before."""
        items = pa.array(self.known.catalogue.names, pa.string()).take(pa.array(private.items))
        if not self.known.as_text:
            items = items.cast(pa.int64())
        rows = np.arange(len(private.lengths))
        made: dict[str, pa.Array] = {}
        if self.form.as_lists is not None:
            offsets = np.append(0, np.cumsum(private.lengths)).astype(np.int32)
            made[self.form.as_lists] = pa.ListArray.from_arrays(pa.array(offsets), items)
        elif isinstance(self.columns, RankColumns):
            rows = np.repeat(rows, private.lengths)
            starts = np.cumsum(private.lengths) - private.lengths
            made[self.columns.user] = pa.array(rows + numbered + 1)
            made[self.columns.item] = items
            made[self.columns.rank] = pa.array(np.arange(len(rows)) - starts[rows] + 1)
        if contest != NO_CONTEST and self.columns.contest is not None:
            named = pa.array([contest]).cast(self.known.contest_type)
            made[self.columns.contest] = named.take(pa.array(np.zeros(len(rows), np.int64)))
        made[self.columns.epsilon or EPSILON] = pa.array(private.epsilon[rows])
        return pa.table(made)
