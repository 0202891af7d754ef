"""Pairwise differential measurements of test answers: all that the spectral estimate reads.

With A_li = 1 where person l answered item i and X_li = 1 where the answer was right,

    Y_ij = sum over people of A_li A_lj X_li (1 - X_lj),  i != j   ([NZ] eq. 2):

the people who were right on i and wrong on j. A block of people contributes one matrix product,
never a loop over people. The product is taken in integers, in one of two ways that give the same
bits: packed 64 people to a word and counted, or sparse where people answer few of the items.

The central mechanisms on differential measurements: exact counts in, noisy counts out.

Noise goes on every entry of the public graph, whatever it counts. Erratum E5: the script of [NZ]
adds noise only where a count is not zero, so a zero that stays zero shows that nobody was right on
the one item and wrong on the other. That is not private at any epsilon.

References:
    [NZ] Nguyen, Zhang. Optimal and private learning from human response data. 2023.
    [NZ] Nguyen, Zhang. Optimal and private learning from human response data. 2023. Algorithm 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
import scipy
from numpy.typing import NDArray

from hushrank.estimation.common.central_noise import Calibration, calibrate
from hushrank.estimation.responses.item_graph import ItemGraph
from hushrank.privacy.measurement_sensitivity import measurement_sensitivity
from hushrank.privacy.noise import add_noise
from hushrank.privacy.randomness import RandomBits
from hushrank.privacy.units import PrivacyParams

ALL_ITEMS = slice(None)
WORDS_AT_ONCE = 256  # of an item's people: two items' rows of the packed block stay in the cache
PEOPLE_TURNED = 1 << 13  # transposed at a time, a multiple of 64: a strip of it stays in the cache
CELLS_AT_ONCE = 1 << 25  # of a wide table made from long form: 32 MB
PEOPLE_AT_ONCE = 1 << 17  # of a sparse product: enough that adding its matrix costs little
TILE_ITEMS = 2000  # side of a tile: 32 MB of counts
WORK_PER_PAIR = 16  # a sparse product adds once per pair of answers, a packed one is 64 at a time
WRONG, RIGHT = 1, 2

Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class DifferentialMeasurements:
    """People right on one item and wrong on another, for the pairs of a public graph.

    Attributes:
        y: shape (m, m), int64; y[i, j] = people right on i and wrong on j. Zero off the graph.
        graph: the public graph.
        confidential: True until noise was added to every entry of the graph.

    Raises:
        ValueError: the array has another shape or type, is not zero off the graph (the diagonal
            is), or a confidential count is negative.
    """

    y: Counts
    graph: ItemGraph
    confidential: bool = True

    def __post_init__(self) -> None:
        n_items = self.graph.n_items
        if self.y.shape != (n_items, n_items) or self.y.dtype != np.int64:
            raise ValueError(
                f"y must be an int64 matrix of shape ({n_items}, {n_items}), got {self.y.shape} "
                f"{self.y.dtype}"
            )
        if np.count_nonzero(self.y) > np.count_nonzero(self.y[self.graph.entries]):
            raise ValueError("y must be zero off the graph: those entries get no noise")
        if self.confidential and (self.y < 0).any():
            raise ValueError("y without noise cannot be negative")

    @property
    def n_items(self) -> int:
        """Size of the public catalogue."""
        return self.graph.n_items


def measurements_on(graph: ItemGraph, y: Counts) -> DifferentialMeasurements:
    """The entries of `y`, shape (m, m), that lie on the graph; confidential.

    Raises:
        ValueError: `y` has another shape, or a negative entry on the graph.
    """
    if y.shape != (graph.n_items, graph.n_items):
        raise ValueError(f"y has shape {y.shape}, the graph {graph.n_items} items")
    kept = np.zeros_like(y)
    kept[graph.entries] = y[graph.entries]
    return DifferentialMeasurements(kept, graph)


def measurements_of_block(right: NDArray[np.bool_], answered: NDArray[np.bool_]) -> Counts:
    """Y of a block of people as a wide table: sum the blocks, in any order.

    Args:
        right: shape (people, m); True where the answer was given and right.
        answered: shape (people, m); True where an answer was given.

    Raises:
        ValueError: the arrays are not boolean, differ in shape, or an answer is right but was not
            given.
    """
    if right.dtype != np.bool_ or answered.dtype != np.bool_ or right.shape != answered.shape:
        raise ValueError("right and answered must be boolean arrays of one shape")
    if (right & ~answered).any():
        raise ValueError("an answer can be right only where one was given")
    return _packed_product(_packed(right), _packed(answered & ~right))


def measurements_of_answers(
    person: NDArray[np.int64],
    item: NDArray[np.int64],
    correct: NDArray[np.uint8],
    n_items: int,
    rows: slice = ALL_ITEMS,
    columns: slice = ALL_ITEMS,
) -> Counts:
    """Y of a block of people in long form, one answer a row; all rows of a person in one block.

    Args:
        person: shape (answers,), any codes, in any order (fastest where sorted).
        item: shape (answers,), codes 0 .. m - 1.
        correct: shape (answers,), 1 where the answer was right, else 0.
        n_items: m, size of the public catalogue.
        rows, columns: items i and j of the tile that is wanted; all of them by default.

    Returns:
        Y, or the tile of it, int64.

    Raises:
        ValueError: a code or answer is out of range, or somebody answered an item twice.
    """
    answers = _answer_matrix(person, item, correct, n_items)
    return _product(answers, RIGHT, WRONG, (rows, columns))


def joint_answers_of_answers(
    person: NDArray[np.int64], item: NDArray[np.int64], n_items: int
) -> Counts:
    """B = A^T A of a block: people who answered i and j; on the diagonal, who answered i.

    Never released: in a `replace-one` release which items a person answered is protected too.

    Args:
        person, item, n_items: as `measurements_of_answers`.

    Raises:
        ValueError: a code is out of range, or somebody answered an item twice.
    """
    answers = _answer_matrix(person, item, np.zeros(len(item), np.uint8), n_items)
    return _product(answers, WRONG, WRONG, (ALL_ITEMS, ALL_ITEMS))


def item_tiles(n_items: int, side: int = TILE_ITEMS) -> list[tuple[slice, slice]]:
    """Rows and columns of tiles that cover Y once, for catalogues too large for one matrix.

    Raises:
        ValueError: `side` is below 1.
    """
    if side < 1:
        raise ValueError(f"side must be >= 1, got {side!r}")
    strips = [slice(start, min(start + side, n_items)) for start in range(0, n_items, side)]
    return list(product(strips, strips))


def _answer_matrix(
    person: NDArray[np.int64], item: NDArray[np.int64], correct: NDArray[np.uint8], n_items: int
) -> scipy.sparse.csr_array:
    """Answers as a sparse matrix, shape (people, m): WRONG or RIGHT where one was given."""
    if not person.shape == item.shape == correct.shape:
        raise ValueError("person, item and correct must have one shape")
    if len(item) and not 0 <= int(item.min()) <= int(item.max()) < n_items:
        raise ValueError(f"items must be codes between 0 and {n_items - 1}")
    if correct.dtype != np.uint8 or (correct > 1).any():
        raise ValueError("correct must be a uint8 array of 0 and 1")  # values are private
    if (person[1:] < person[:-1]).any():
        order = np.argsort(person, kind="stable")
        person, item, correct = person[order], item[order], correct[order]
    starts = np.flatnonzero(person[1:] != person[:-1]) + 1  # of everybody's rows but the first's
    bounds = np.concatenate([[0], starts, [len(person)]]) if len(person) else np.zeros(1, np.int64)
    answers = scipy.sparse.csr_array(
        (correct + np.uint8(WRONG), item, bounds), (len(bounds) - 1, n_items)
    )
    answers.sum_duplicates()
    if answers.nnz < len(item):
        raise ValueError("somebody answered an item twice: keep one answer to it, or none")
    return answers


def _product(
    answers: scipy.sparse.csr_array, left: int, right: int, tile: tuple[slice, slice]
) -> Counts:
    """People with the value `left` on item i and `right` on item j, by the cheaper product."""
    n_people, n_items = answers.shape
    most_pairs = int((np.diff(answers.indptr).astype(np.int64) ** 2).sum())
    sparse = most_pairs * WORK_PER_PAIR < n_people * n_items**2
    people = PEOPLE_AT_ONCE if sparse else max(1, CELLS_AT_ONCE // n_items)
    product_of = _sparse_product if sparse else _dense_product
    counts = np.zeros([len(range(n_items)[part]) for part in tile], np.int64)
    for start in range(0, n_people, people):
        counts += product_of(answers[start : start + people], left, right, tile)
    return counts


def _dense_product(
    answers: scipy.sparse.csr_array, left: int, right: int, tile: tuple[slice, slice]
) -> Counts:
    rows, columns = tile
    table = answers.toarray()
    return _packed_product(_packed(table[:, rows] == left), _packed(table[:, columns] == right))


def _sparse_product(
    answers: scipy.sparse.csr_array, left: int, right: int, tile: tuple[slice, slice]
) -> Counts:
    rows, columns = tile
    left_ones, right_ones = _indicator(answers, left), _indicator(answers, right)
    return np.asarray((left_ones[:, rows].T @ right_ones[:, columns]).toarray(), np.int64)


def _indicator(answers: scipy.sparse.csr_array, value: int) -> scipy.sparse.csr_array:
    """1 where an answer has this value, else nothing."""
    chosen = answers.data == value
    before = np.concatenate([[0], np.cumsum(chosen)])
    ones = np.ones(int(before[-1]), np.int64)
    return scipy.sparse.csr_array(
        (ones, answers.indices[chosen], before[answers.indptr]), answers.shape
    )


def _packed(table: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """One row an item, one bit a person, shape (m, words); unused bits are 0."""
    n_people, n_items = table.shape
    octets = np.zeros((n_items, 8 * -(-n_people // 64)), np.uint8)
    for start in range(0, n_people, PEOPLE_TURNED):
        bits = np.packbits(np.ascontiguousarray(table[start : start + PEOPLE_TURNED].T), axis=1)
        octets[:, start // 8 : start // 8 + bits.shape[1]] = bits
    return octets.view(np.uint64)


def _packed_product(left: NDArray[np.uint64], right: NDArray[np.uint64]) -> Counts:
    """People whose bit is set in both, for each row of `left` and each row of `right`."""
    counts = np.zeros((len(left), len(right)), np.int64)
    for start in range(0, left.shape[1], WORDS_AT_ONCE):
        words = slice(start, start + WORDS_AT_ONCE)
        block = np.ascontiguousarray(right[:, words])
        for row, row_words in zip(counts, left[:, words], strict=True):
            row += np.bitwise_count(block & row_words).sum(axis=1, dtype=np.int64)
    return counts


def calibrate_measurements(
    params: PrivacyParams, n_items: int, n_edges: int, largest_degree: int | None = None
) -> Calibration:
    """Noise for the measurements on a graph of so many edges; from public parameters only.

    See [NZ] Lemma 4.1, with erratum E6 (`privacy.measurement_sensitivity`).
    """
    sensitivity = measurement_sensitivity(params, n_items, n_edges, largest_degree)
    return calibrate(params, sensitivity, "measurement_sensitivity")


def release_measurements(
    measurements: DifferentialMeasurements, calibration: Calibration, bits: RandomBits
) -> DifferentialMeasurements:
    """Add independent noise to both entries of every edge of the graph, zeros included.

    Guarantee: that for which `calibration` was made, for counts in which nobody has more than
    `max_contributions` answers, if `bits.safe`. Off the graph nothing is released: those entries
    are zero for everyone.

    Args:
        measurements: confidential counts.
        calibration: of `calibrate_measurements`, for this graph.
        bits: `system_bits()` in a release.

    Returns:
        Counts that may be published.

    Raises:
        ValueError: the counts had noise added already.
    """
    if not measurements.confidential:
        raise ValueError("counts have noise already: adding it again would not protect more")
    entries, noisy = measurements.graph.entries, np.zeros_like(measurements.y)
    noisy[entries] = add_noise(measurements.y[entries], calibration.law, bits)
    return DifferentialMeasurements(noisy, measurements.graph, confidential=False)
