"""Privatise answers one by one, and sum what comes out: the local trust boundary.

`privatize` is the only step from `Answers`, which are true, to `PrivateAnswers`, which anyone may
see. Two privatised copies of one answer would cost twice its epsilon. None is ever seen: an answer
is privatised and summed in one bundle of the engine, whose output is kept whole or not at all, so
a bundle that is tried again replaces its first draw before anything left it.

True answers with the epsilon of each, on their way to being privatised. Pure, and confidential.

Rows of one person meet where the person's epsilon is to be divided among their answers, or where
only so many of them may count.

References:
    [XSC] Xu, Sun, Cheng. Rate-optimal rank aggregation with private pairwise rankings.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hushrank.estimation.common.matrices import CellSums, push
from hushrank.estimation.fit.chosen_epsilons import PLAIN, Weighing
from hushrank.estimation.fit.presentation import PARTS, PresentedAnswers, added, length_of
from hushrank.estimation.fit.weighted_pairs import (
    UNITS,
    Chosen,
    PairSums,
    Terms,
    WeightedPairs,
    add_sums,
    cell_sums,
    counted_terms,
    dense_sums,
    information_units,
    laplace_terms,
    weighted_terms,
)
from hushrank.privacy.keyed_hash import Hashes, KeyedHash
from hushrank.privacy.laplace_baselines import add_laplace
from hushrank.privacy.randomized_response import epsilon_of_answer, randomize
from hushrank.privacy.randomness import RandomBits
from hushrank.transforms.common.catalogue import Catalogue
from hushrank.transforms.common.dense_sums import DenseFn, Integers, in_a_row, shaped_like
from hushrank.transforms.common.encode import Comparisons, Mask, Sifted, encode_comparisons
from hushrank.transforms.common.epsilons import (
    AnswerColumns,
    Epsilons,
    EpsilonSource,
    EpsilonTable,
    epsilons_of,
    rules_of_epsilons,
)
from hushrank.transforms.common.randomisation import Randomisation
from hushrank.transforms.common.schema import Ties, to_numpy
from hushrank.transforms.common.sorting import hold, new_run, sort_by
from hushrank.transforms.comparisons.covariate_counts import NOT_SHOWN, shown_first
from hushrank.transforms.engine.beam import beam

_SLOT, _CHOICE = 16, 17  # labels of the hashes; `transforms.comparisons.bound` has those from 0


@dataclass(frozen=True, slots=True)
class Answers:
    """Answers in canonical orientation, one row each. Confidential unless they came privatised.

    Attributes:
        cell: shape (m,), int64: i * n_items + j, i < j.
        outcome: shape (m,), uint8: 1 where i won.
        epsilon: shape (m,), float64, finite and > 0.
        owner: shape (m, 2), pseudonyms; None where nobody's answers need to meet.
        low_first: shape (m,), whether i was shown first; None where nobody says so.
    """

    cell: NDArray[np.int64]
    outcome: NDArray[np.uint8]
    epsilon: Epsilons
    owner: Hashes | None = None
    low_first: Mask | None = None

    def __len__(self) -> int:
        return len(self.cell)

    def take(self, rows: NDArray[np.int64] | Mask) -> Answers:
        """The chosen rows, in that order."""
        owner = None if self.owner is None else self.owner[rows]
        first = None if self.low_first is None else self.low_first[rows]
        return Answers(self.cell[rows], self.outcome[rows], self.epsilon[rows], owner, first)

    def to_blob(self) -> bytes:
        """Return one Arrow IPC message stream, for the shuffle; the rows have owners."""
        if self.owner is None:
            raise ValueError("only answers with owners are shuffled")
        columns = [self.cell, self.outcome, self.epsilon, *self.owner.T.copy()]
        if self.low_first is not None:
            columns.append(self.low_first.view(np.uint8))
        names = list("cpeabf")[: len(columns)]
        batch = pa.record_batch([pa.array(column) for column in columns], names)
        sink = pa.BufferOutputStream()
        options = pa.ipc.IpcWriteOptions(compression="lz4")  # the shuffle is held in memory
        with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
            writer.write_batch(batch)
        blob: bytes = sink.getvalue().to_pybytes()
        return blob

    @classmethod
    def concatenated(cls, parts: Sequence[Answers]) -> Answers:
        """The rows of several parts, at least one; all of them have owners, or none."""
        owners = [part.owner for part in parts if part.owner is not None]
        first = [part.low_first for part in parts if part.low_first is not None]
        return cls(
            np.concatenate([part.cell for part in parts]),
            np.concatenate([part.outcome for part in parts]),
            np.concatenate([part.epsilon for part in parts]),
            np.concatenate(owners) if owners else None,
            np.concatenate(first) if first else None,
        )

    @classmethod
    def of_blob(cls, blob: bytes) -> Answers:
        """The rows of what `to_blob` made."""
        table = pa.ipc.open_stream(blob).read_all()
        cell, outcome, epsilon, *rest = (to_numpy(column) for column in table.columns)
        first = rest[2].view(np.bool_) if len(rest) > 2 else None
        return cls(cell, outcome, epsilon, np.column_stack(rest[:2]), first)


def encode_answers(
    batch: pa.RecordBatch,
    columns: AnswerColumns,
    catalogue: Catalogue,
    source: EpsilonSource,
    table: EpsilonTable | None,
    keyed_hash: KeyedHash | None,
    ties: Ties,
    bits: RandomBits,
) -> Sifted[Answers]:
    """Encode one batch of a comparison log with the epsilon of each row.

    Args:
        batch: a batch with the columns that `columns` names.
        columns: roles of the columns.
        catalogue: the public items.
        source: source of the epsilons.
        table: epsilons by person, where `source` says so.
        keyed_hash: makes the pseudonyms of people; None: nobody's answers need to meet.
        ties: `drop`, or `random`: a fair coin decides. (Half a win is no answer to randomise.)
        bits: bits for the coins.
    """
    epsilon, broken = epsilons_of(batch, columns, source, table)
    rules, left_first = list(rules_of_epsilons(broken)), None
    if columns.first is not None:
        steps, neither = shown_first(batch, columns, catalogue)
        left_first = steps > 0
        rules += [(NOT_SHOWN, neither)] if neither.any() else []
    found = encode_comparisons(batch, columns, catalogue, keyed_hash, rules)
    if found.valid is not None:
        epsilon = epsilon[found.valid]
        left_first = None if left_first is None else left_first[found.valid]
    answers = _canonical(found.rows, epsilon, len(catalogue), ties, bits, left_first)
    return Sifted(answers, found.rejects, found.valid)


def split_by_owner(rows: Answers, n_partitions: int) -> Iterator[tuple[int, Answers]]:
    """Cut rows into partitions, all rows of one person in the same; empty ones are left out."""
    if rows.owner is None:
        raise ValueError("only answers with owners can be split by owner")
    place = (rows.owner[:, 1] % np.uint64(n_partitions)).astype(np.uint16)
    order = np.argsort(place, kind="stable")
    edges = np.append(0, np.cumsum(np.bincount(place, minlength=n_partitions)))
    for partition in np.flatnonzero(np.diff(edges)).tolist():
        yield partition, rows.take(order[edges[partition] : edges[partition + 1]])


def first_answers(rows: Answers, most: int, keyed_hash: KeyedHash) -> Answers:
    """Keep at most `most` answers of each person, sorted by person.

    Which answers stay is decided by a secret hash of person, pair, epsilon and, if it is known, who
    was shown first, never by how they were answered; among answers of one person to one pair by a
    second hash. So it does not depend on how rows are split, and replacing one answer replaces at
    most one of those that stay.
    Bounding parts of the rows first changes nothing: copies of an answer are all alike.

    Args:
        rows: answers with owners.
        most: L.
        keyed_hash: the run's secret hash.
    """
    rows = _by_person(rows, keyed_hash)
    starts, sizes = _runs(_owner(rows))
    return rows.take(np.arange(len(rows)) - np.repeat(starts, sizes) < most)


@dataclass(frozen=True, slots=True)
class People:
    """Number of answers and information of each person.

    Attributes:
        owner: shape (people,), ascending: the first word of the pseudonym. Two people who share it
            count as one, who then has the smaller share of epsilon for it.
        answers: shape (people,), how many.
        least: shape (people,), their smallest epsilon.
    """

    owner: NDArray[np.uint64]
    answers: NDArray[np.int64]
    least: Epsilons

    @classmethod
    def of(cls, parts: Iterable[Answers]) -> People:
        """The people of several parts; there is at least one."""
        total: People | None = None
        for rows in parts:
            here = cls(_owner(rows)[:, 0], np.ones(len(rows), np.int64), rows.epsilon)
            total = here._merged() if total is None else total._and(here._merged())._merged()
        if total is None:
            raise ValueError("people of no parts")
        return total

    @property
    def information(self) -> int:
        """G of them, in units, if each divides their epsilon by their answers."""
        return information_units(epsilon_of_answer(self.least, self.answers))

    def divided(self, rows: Answers) -> Answers:
        """Rows of these people, each with its share of the epsilon."""
        place = np.searchsorted(self.owner, _owner(rows)[:, 0])
        epsilon = epsilon_of_answer(rows.epsilon, self.answers[place])
        return replace(rows, epsilon=epsilon)

    def _and(self, other: People) -> People:
        return People(
            np.concatenate([self.owner, other.owner]),
            np.concatenate([self.answers, other.answers]),
            np.concatenate([self.least, other.least]),
        )

    def _merged(self) -> People:
        order = np.argsort(self.owner)
        first = np.flatnonzero(new_run(self.owner[order]))
        if not len(first):
            return self
        return People(
            self.owner[order][first],
            np.add.reduceat(self.answers[order], first),
            np.minimum.reduceat(self.least[order], first),
        )


def bound_answers(
    slices: Iterable[Sifted[Answers]], most: int, keyed_hash: KeyedHash
) -> Generator[Sifted[None], None, Answers]:
    """Keep at most `most` answers of each person: see `first_answers`.

    Args:
        slices: one slice or more; a person's answers may be in all of them.
        most: L.
        keyed_hash: the run's secret hash.

    Returns:
        What was refused of each slice is yielded; the answers that are kept are returned.
    """

    def keep(held: Answers | None, more: Answers) -> Answers:
        rows = more if held is None else Answers.concatenated([held, more])
        return first_answers(rows, most, keyed_hash)

    return (yield from hold(slices, keep))


def divide_epsilons(parts: Iterable[Answers]) -> Iterator[tuple[Answers, int]]:
    """Divide the epsilon of each person among all their answers, which need not meet in memory.

    Args:
        parts: all answers of some people, some at a time; they are read twice.

    Returns:
        Each part with the epsilon of its answers; beside the first of them G of these people, in
        units, from each person's smallest epsilon of an answer.
    """
    people = People.of(parts)
    information = people.information
    for rows in parts:
        yield people.divided(rows), information
        information = 0  # the information so far was passed on


def divide_epsilons_of_kept(rows: Answers, *, per_user: bool) -> tuple[Answers, int]:
    """Divide epsilons of what `first_answers` kept; without `per_user` nothing is divided."""
    starts, sizes = _runs(_owner(rows))
    epsilon = epsilon_of_answer(rows.epsilon, np.repeat(sizes, sizes)) if per_user else rows.epsilon
    information = information_units(np.minimum.reduceat(epsilon, starts)) if len(rows) else 0
    return replace(rows, epsilon=epsilon), information


def _by_person(rows: Answers, keyed_hash: KeyedHash) -> Answers:
    """The rows, each person's together, in their secret order."""
    owner = _owner(rows)
    asked = rows.cell if rows.low_first is None else 2 * rows.cell + rows.low_first
    person = np.column_stack([asked.view(np.uint64), rows.epsilon.view(np.uint64)])
    slot = keyed_hash.of_tuples(_SLOT, owner, person)
    outcome = np.column_stack([rows.outcome, rows.outcome]).astype(np.uint64)
    choice = keyed_hash.of_tuples(_CHOICE, slot, outcome)
    return rows.take(sort_by(owner, np.column_stack([slot[:, 0], choice[:, 0]])))


def _owner(rows: Answers) -> Hashes:
    if rows.owner is None:
        raise ValueError("only answers with owners can be bounded")
    return rows.owner


def _canonical(
    rows: Comparisons,
    epsilon: Epsilons,
    n_items: int,
    ties: Ties,
    bits: RandomBits,
    left_first: Mask | None,
) -> Answers:
    outcome = rows.outcome
    tied = outcome == 0
    if tied.any():
        if ties is Ties.RANDOM:
            coins = (bits.words(len(rows)) & np.uint64(1)).astype(np.int8)
            outcome = np.where(tied, 2 * coins - 1, outcome)
        else:
            rows, epsilon, outcome = rows.take(~tied), epsilon[~tied], outcome[~tied]
            left_first = None if left_first is None else left_first[~tied]
    low, high = np.minimum(rows.left, rows.right), np.maximum(rows.left, rows.right)
    cell = low.astype(np.int64, copy=False) * n_items + high
    left_low = rows.left < rows.right
    low_won = (outcome > 0) == left_low
    low_first = None if left_first is None else left_first == left_low
    return Answers(cell, low_won.view(np.uint8), epsilon, rows.user, low_first)


def _runs(owner: Hashes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return where each person's rows start, and how many they are, in rows sorted by owner."""
    changes = np.flatnonzero((owner[1:] != owner[:-1]).any(axis=1)) + 1
    starts = np.append(0, changes) if len(owner) else changes
    return starts, np.diff(np.append(starts, len(owner)))


@dataclass(frozen=True, slots=True)
class PrivateAnswers:
    """Privatised answers: each is private at its own epsilon; the pairs are not hidden.

    Attributes:
        cell, epsilon: as in `Answers`.
        value: uint8, 0 or 1; for `Randomisation.LAPLACE` int64, as `add_laplace` returns it.
        information: G of the people they are from, in units; 0 where people did not meet.
        order: sums of the order of presentation, a row of `OrderSums`; None: not known.
    """

    cell: NDArray[np.int64]
    value: NDArray[np.uint8] | NDArray[np.int64]
    epsilon: Epsilons
    information: int = 0
    order: Integers | None = None


def privatize(
    rows: Answers,
    randomisation: Randomisation,
    bits: RandomBits,
    *,
    already_private: bool = False,
    information: int = 0,
) -> PrivateAnswers:
    """Cross the trust boundary: randomise every answer with its own epsilon.

    Guarantee: each answer is epsilon-DP with its own epsilon, if `bits.safe`; all answers of one
    person together are so with the sum of theirs ([XSC] §S.2). Not hidden: which pairs were
    compared, with which epsilon, and how often.

    Args:
        rows: true answers.
        randomisation: the mechanism.
        bits: `system_bits()` in a release.
        already_private: the answers were randomised at the source with these epsilons; they pass
            as they are.
        information: passed on.
    """
    if already_private:
        return PrivateAnswers(rows.cell, rows.outcome, rows.epsilon, information)
    if randomisation is Randomisation.LAPLACE:
        noisy = add_laplace(rows.outcome, rows.epsilon, bits)
        return PrivateAnswers(rows.cell, noisy, rows.epsilon, information)
    value = randomize(rows.outcome, rows.epsilon, bits)
    return PrivateAnswers(rows.cell, value, rows.epsilon, information)


def terms_of(
    rows: PrivateAnswers, randomisation: Randomisation, weighing: Weighing = PLAIN
) -> Terms:
    """Return what each privatised answer adds to the sums of its pair."""
    if randomisation is Randomisation.LAPLACE:
        return laplace_terms(rows.value.astype(np.int64, copy=False))
    value = rows.value.astype(np.uint8, copy=False)
    if randomisation is Randomisation.COUNTED:
        return counted_terms(value)
    return weighted_terms(value, rows.epsilon, weighing.cap, weighing.least)


def order_of(rows: Answers, private: PrivateAnswers, n_items: int, cap: float | None) -> Integers:
    """Sums of the order in which the items of private answers were shown, as a row.

    Args:
        rows: all answers of some people, sorted by person, as they were privatised.
        private: what came out.
        n_items: n.
        cap: see `weighted_pairs.weighted_terms`.
    """
    if rows.low_first is None:
        raise ValueError("the answers do not say who was shown first")
    owner, terms = _owner(rows), terms_of(private, Randomisation.WEIGHTED, Weighing(cap))
    _, sizes = _runs(owner)
    low_ahead = 2 * terms.s - terms.w
    low, high = np.divmod(rows.cell, n_items)
    presented = PresentedAnswers(
        person=np.repeat(np.arange(len(sizes)), sizes),
        part=(owner[:, 0] % np.uint64(PARTS)).astype(np.int64),
        first=np.where(rows.low_first, low, high),
        second=np.where(rows.low_first, high, low),
        u=np.where(rows.low_first, low_ahead, -low_ahead),
        w=terms.w,
    )
    return presented.sums(n_items).row


def sums_of(
    rows: PrivateAnswers, randomisation: Randomisation, n_items: int, weighing: Weighing = PLAIN
) -> PairSums:
    """Sums of privatised answers, shape (`weighing.rows`, n, n)."""
    return dense_sums(rows.cell, terms_of(rows, randomisation, weighing), n_items)


DenseTotal = tuple[PairSums, int, Chosen, Integers]  # sums, G in units, counts by epsilon, order
SparseTotal = tuple[list[CellSums], int, Chosen]


class PrivatePairsFn(DenseFn[DenseTotal]):
    """PCollection[PrivateAnswers] -> WeightedPairs, dense: integers in units of 2^-30."""

    def __init__(
        self,
        randomisation: Randomisation,
        n_items: int,
        weighing: Weighing = PLAIN,
        *,
        ordered: bool = False,
    ) -> None:
        self._randomisation = randomisation
        self._n_items = n_items
        self._weighing = weighing
        self._order_length = length_of(n_items) if ordered else 0

    def create_accumulator(self) -> DenseTotal:
        none = np.zeros((self._weighing.rows, self._n_items, self._n_items), np.int64)
        return none, 0, self._weighing.nothing(), np.zeros(self._order_length, np.int64)

    def add_input(self, total: DenseTotal, rows: PrivateAnswers) -> DenseTotal:
        sums = sums_of(rows, self._randomisation, self._n_items, self._weighing)
        order = np.zeros(self._order_length, np.int64) if rows.order is None else rows.order
        chosen = self._weighing.chosen(rows.epsilon)
        return self._added(total, (sums, rows.information, chosen, order))

    def merge_accumulators(self, parts: Iterable[DenseTotal]) -> DenseTotal:
        return reduce(self._added, parts, self.create_accumulator())

    def extract_output(self, total: DenseTotal) -> WeightedPairs:
        (s, w, *alike), information, chosen, order = total
        kept = {"alike": np.array(alike)} if alike else {}
        return WeightedPairs(s, w, information, chosen, order, **kept)

    def cells(self, total: DenseTotal) -> Integers:
        sums, information, chosen, order = total
        halves = np.array([information % UNITS, information // UNITS])  # G may exceed 64 bits
        return in_a_row([sums, chosen, halves, order])

    def of_cells(self, cells: Integers) -> DenseTotal:
        nothing, _, chosen, order = self.create_accumulator()
        shapes = [nothing, chosen, np.zeros(2, np.int64), order]
        sums, chosen, (low, high), order = shaped_like(shapes, cells)
        return sums, int(low) + UNITS * int(high), chosen, order

    def _added(self, one: DenseTotal, other: DenseTotal) -> DenseTotal:
        sums = add_sums((one[0], other[0]), self._n_items, self._weighing.rows)
        return sums, one[1] + other[1], one[2] + other[2], added(one[3], other[3])


class SparsePrivatePairsFn(beam.CombineFn):
    """PCollection[PrivateAnswers] -> WeightedPairs, sparse, for many items: memory by pairs met.

    An accumulator is a stack of sums (see `sparse_counts.push`), G, and counts by epsilon.
    """

    def __init__(
        self, randomisation: Randomisation, n_items: int, weighing: Weighing = PLAIN
    ) -> None:
        self._randomisation = randomisation
        self._n_items = n_items
        self._weighing = weighing

    def create_accumulator(self) -> SparseTotal:
        return [], 0, self._weighing.nothing()

    def add_input(self, total: SparseTotal, rows: PrivateAnswers) -> SparseTotal:
        sums, information, chosen = total
        terms = terms_of(rows, self._randomisation, self._weighing)
        push(sums, cell_sums(rows.cell, terms, self._n_items))
        return sums, information + rows.information, chosen + self._weighing.chosen(rows.epsilon)

    def merge_accumulators(self, parts: Iterable[SparseTotal]) -> SparseTotal:
        merged, information, chosen = self.create_accumulator()
        for sums, people, epsilons in parts:
            for each in sums:
                push(merged, each)
            information, chosen = information + people, chosen + epsilons
        return merged, information, chosen

    def extract_output(self, total: SparseTotal) -> WeightedPairs:
        sums, information, chosen = total
        total_sums = CellSums.sum(sums)
        s, w = total_sums.matrices(self._n_items)
        kept = {"alike": total_sums.sums[2:]} if len(total_sums.sums) > 2 else {}
        return WeightedPairs(s, w, information, chosen, **kept)
