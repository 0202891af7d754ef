"""Description of a reduction, and the files that it leaves in the confidential folder.

This module does not load Beam, so that a caller need not load the engine.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hushrank.pipelines.engine.runner import DEFAULT_MEMORY, HERE, Engine
from hushrank.privacy.keyed_hash import SecretKey
from hushrank.privacy.randomness import BitsUsed, Purpose
from hushrank.privacy.stream_encoder import RowTerms, SquareTerms, StreamTerms
from hushrank.privacy.units import Query, Unit
from hushrank.transforms.common.catalogue import Catalogue, Groups, Naming
from hushrank.transforms.common.epsilons import EpsilonSource
from hushrank.transforms.common.schema import Columns, ComparisonColumns, Ties
from hushrank.transforms.comparisons.bound import Bounds
from hushrank.transforms.comparisons.shuffle import CONSISTENT, CONTRADICTING
from hushrank.transforms.storage.files import InputFile
from hushrank.transforms.storage.places import parquet_bytes, read_whole, write_whole
from hushrank.transforms.storage.split import Head
from hushrank.transforms.streams.stream_folder import COUNTING, night_name

if TYPE_CHECKING:
    from hushrank.transforms.common.randomisation import LocalLaw  # law of local answers alone

EXACT_FILE, TALLY_FILE, REJECTS_FOLDER = "exact.npz", "diagnostics.json", "rejects"
BITS_FILE = "bits.json"  # random bits that made the exact arrays; it stays and goes with them

# Numbers of a tally that are a query's, of whatever kind the answers are.
TOLD = {
    Query.PEOPLE: (("owners", "people", "people_kept"),),
    Query.ANSWERS: (("rows_kept", "answers_kept", "rankings_kept"),),
    Query.CONTRADICTIONS: ((CONTRADICTING,), (CONSISTENT,)),
}


class Statistic(StrEnum):
    """Statistic to which the log is reduced."""

    WIN_COUNTS = "win-counts"
    WIN_LOSS_COUNTS = "win-loss-counts"  # wins and losses by item
    PAIR_COUNTS = "pair-counts"
    TIE_COUNTS = "tie-counts"  # pair counts, and ties of each pair
    COVARIATE_COUNTS = "covariate-counts"  # pair counts by covariates

    def cells(self, n_items: int) -> tuple[int, ...]:
        """Shape of the counts of a night of a stream, or of one of its groups."""
        if self is Statistic.WIN_COUNTS:
            return (n_items,)
        return (2 if self is Statistic.WIN_LOSS_COUNTS else n_items, n_items)

    @property
    def cells_of_a_row(self) -> int:
        """Number of cells that one row adds to."""
        return 2 if self is Statistic.WIN_LOSS_COUNTS else 1


METERED: dict[type, Statistic] = {
    RowTerms: Statistic.PAIR_COUNTS,
    SquareTerms: Statistic.WIN_LOSS_COUNTS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduction:
    """Settings of every reduction.

    Attributes:
        files: files to read.
        columns: roles of the columns.
        catalogue: the public items.
        key: the run's secret; it makes the pseudonyms of people, and with the rows it decides which
            rows are kept.
        confidential: folder for everything that holds private data; empty: the graph is a part of
            somebody else's, which writes nothing, so rows that break a rule are left out.
        fail_on_bad_rows: raise, before anything is drawn or released, if a row breaks a rule.
        people_vote: count as well of how many people the rows fit (`privacy.look`).
        memory_limit: bytes that the reduction may take on one machine, about; the rest of what it
            must remember waits in a file in `confidential`.
        engine: engine where the graph runs.
        heads: footers and headers of the files when they were checked, row counts
            with it; None: whoever cuts the files reads them.
        resumes: whether finished parts of the count wait in `confidential`, under `key`, for a run
            that goes on from there (`pipelines.reduce.parcels`).
    """

    files: tuple[InputFile, ...]
    columns: Columns
    catalogue: Catalogue
    key: SecretKey
    confidential: str
    fail_on_bad_rows: bool = False
    people_vote: bool = False
    memory_limit: int = DEFAULT_MEMORY
    engine: Engine = HERE
    heads: tuple[Head, ...] | None = field(default=None, repr=False)
    resumes: bool = False

    @property
    def results(self) -> str:
        """Folder of the arrays and of what is told of them."""
        return self.confidential

    @property
    def meets_owners(self) -> bool:
        """Whether one owner's rows must meet; if not, rows are counted as they are read."""
        return True

    @property
    def cells(self) -> int:
        """Most numbers in the matrices that it sums."""
        return 2 * len(self.catalogue.names) ** 2

    @property
    def bits(self) -> BitsUsed:
        """Bits that may be drawn for the reduction, whatever the rows are."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalReduction(Reduction):
    """Further settings of a reduction of answers that are private one by one.

    Attributes:
        epsilons: source of the epsilons, and their bounds.
        already_private: the answers were privatised at the source with these epsilons.
        law: law by which the workers must randomise; None: nobody states it.
    """

    epsilons: EpsilonSource
    already_private: bool
    law: LocalLaw | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NightOfStream:
    """Night of a stream that is reduced: rows of people for whom it does not count are left out.

    Attributes:
        stream: name of the stream and all of its terms.
        folder: the stream's own, confidential; the people of the night before are there, and those
            of this night will be.
        key: the stream's, of the pseudonyms; all nights have the same.
        terms: rules for the nights, or the rows, of a person that count.
        night: number of the night, from 0.
        attempt: names this attempt at the night and no other: a folder's name.
        before: digest of the people of the night before; empty on the first night.
        naming: rule by which names are hashed; all nights have the same.
    """

    stream: str
    folder: str
    key: SecretKey
    terms: StreamTerms
    night: int
    attempt: str
    before: str = ""
    naming: Naming = Naming.BARE

    @property
    def results(self) -> str:
        """Folder to which the attempt is reduced; nobody else writes there."""
        return f"{self.folder}/{COUNTING}/{night_name(self.night)}/{self.attempt}"

    def __post_init__(self) -> None:
        self.terms.check_night(self.night)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReduceComparisons(Reduction):
    """Reduction of a comparison log. The key decides the coins of ties, too.

    Attributes:
        bounds: limits of what one person may contribute; `max_contributions` None for unit
            `comparison`.
        statistic: statistic to count.
        stream: the night that it is; None: it is no night of a stream.
        groups: the public groups in which rows are counted; None: there are none.
        asked: keys of the public pairs that count, as of `encode.pair_keys`; None: all pairs.

    Raises:
        ValueError: a night of a stream without people whose rows are bounded, or with votes;
            groups without a column, or the other way round; covariates that nobody counts
            by, or none to count by; ties as outcomes in another statistic, or with weights or a
            stream.
    """

    columns: ComparisonColumns
    bounds: Bounds
    statistic: Statistic
    stream: NightOfStream | None = None
    groups: Groups | None = None
    asked: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if (self.columns.n_covariates > 0) != (self.statistic is Statistic.COVARIATE_COUNTS):
            raise ValueError(
                "rows have covariates where they are counted by covariates, only there"
            )
        if (self.bounds.ties is Ties.MODEL) != (self.statistic is Statistic.TIE_COUNTS):
            raise ValueError("ties are outcomes where they are counted, only there")
        if self.bounds.ties is Ties.MODEL and (self.weighted or self.stream is not None):
            raise ValueError("rows whose ties are counted have no weights, and no stream of nights")
        ungrouped = self.columns.group is None and self.columns.sets is None
        if ungrouped != (self.groups is None):
            raise ValueError("groups need a column, and a column of groups needs their names")
        if self.stream is None:
            return
        if self.columns.user is None or self.bounds.max_contributions is None:
            raise ValueError(
                "a stream bounds what a person contributes: it needs unit: user and a user column"
            )
        if self.people_vote:
            raise ValueError("a night of a stream has no look at its rows")
        metered = METERED.get(type(self.stream.terms))
        if metered not in (None, self.statistic) or (metered and not self.bounds.distinct_pairs):
            raise ValueError(
                "rows are metered for counts of pairs, and squares for wins and losses, where each"
                " row of a person is on its own pair"
            )

    @property
    def results(self) -> str:
        return self.confidential if self.stream is None else self.stream.results

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the counts of a night of a stream."""
        cells = self.statistic.cells(len(self.catalogue.names))
        return cells if self.groups is None else (len(self.groups), *cells)

    @property
    def cells(self) -> int:
        return 2 * math.prod(self.shape)

    @property
    def weighted(self) -> bool:
        """Whether rows count with weights."""
        return self.columns.weight is not None or self.bounds.factors is not None

    @property
    def meets_owners(self) -> bool:
        """Whether one owner's rows must meet: to be bounded, merged or given repeatable coins."""
        return (
            self.bounds.max_contributions is not None
            or self.columns.event is not None
            or self.bounds.ties is Ties.RANDOM
        )

    @property
    def bits(self) -> BitsUsed:
        """Bits of the reduction: all come from the key."""
        if not self.meets_owners:
            return BitsUsed()
        used = BitsUsed.of(Purpose.ROW_CHOICE, [self.key.source])
        if self.stream is not None:
            used |= BitsUsed.of(Purpose.ROW_CHOICE, [self.stream.key.source])
        if self.bounds.ties is Ties.RANDOM:
            used |= BitsUsed.of(Purpose.COINS, [self.key.source])
        return used


def set_aside(folder: str, source: str, table: pa.Table) -> None:
    """Keep rejected rows; the name follows from where they came from, so a retry overwrites."""
    table = table.append_column("source", pa.array([source] * len(table), pa.string()))
    name = hashlib.sha256(source.encode()).hexdigest()[:24]
    write_whole(f"{folder}/{REJECTS_FOLDER}/{name}.parquet", parquet_bytes(table))


def write_tally(folder: str, tally: dict[str, int]) -> None:
    """Keep exact counts of what happened to the rows, for the operator alone."""
    content = json.dumps(tally, indent=1, sort_keys=True)
    write_whole(f"{folder}/{TALLY_FILE}", content.encode())


def read_tally(folder: str) -> dict[str, int]:
    """Return the tally that `write_tally` kept."""
    tally: dict[str, int] = json.loads(read_whole(f"{folder}/{TALLY_FILE}"))
    return tally


def read_votes(folder: str, unit: Unit, *, unlisted: bool = False) -> NDArray[np.int64]:
    """Count the votes that rows fit and that they do not, shape (2,), for `privacy.look`.

    With `unlisted` also who names an item that is not listed, shape (3,).

    Args:
        folder: folder of a reduction of comparisons that is done; of unit `user` people voted in
            it.
        unit: unit that votes: people, or rows that can be counted against rows that broke a rule.
        unlisted: whether to count the third number.
    """
    tally = read_tally(folder)
    if unit is Unit.USER:
        names = ("people_fit", "people_unfit", "people_unlisted")
    else:  # where rows meet, they are counted as they are sent; else as they are read
        kept = "rows_sent" if "rows_sent" in tally else "rows_kept"
        names = (kept, "rows_rejected", "rows_unlisted")
    return np.array([tally.get(name, 0) for name in names[: 2 + unlisted]], np.int64)


def read_counts(folder: str, queries: Iterable[Query]) -> dict[Query, NDArray[np.int64]]:
    """Return the exact numbers of each query about what counts, for `privacy.counts`.

    Args:
        folder: folder of a reduction that is done, and that counted them.
        queries: what is asked.
    """
    tally = read_tally(folder)
    return {
        query: np.array([sum(tally.get(name, 0) for name in names) for names in TOLD[query]])
        for query in queries
    }


def write_bits(folder: str, bits: BitsUsed) -> None:
    """Keep which random bits the exact arrays were made with."""
    write_whole(f"{folder}/{BITS_FILE}", json.dumps(bits.to_dict()).encode())


def read_bits(folder: str) -> BitsUsed:
    """Return the bits that `write_bits` kept.

    Raises:
        FileNotFoundError: nothing.
    """
    return BitsUsed.from_dict(json.loads(read_whole(f"{folder}/{BITS_FILE}")))


def is_reduced(folder: str) -> bool:
    """Whether a reduction is done: each of its results is written whole and at its end."""
    try:
        return all(read_whole(f"{folder}/{name}") for name in (EXACT_FILE, BITS_FILE, TALLY_FILE))
    except (FileNotFoundError, IsADirectoryError):
        return False
