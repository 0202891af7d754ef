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

Differential measurements of test answers that were randomised where they were given.

A person's epsilon is split evenly over their k answers. With p the chance that one of them was
flipped and t = 1 - 2p, each answer has the unbiased value (noisy - p) / t; flips are independent,
so products of two of them are unbiased too, and with noisy measurements Y and joint answers B

    sum over people of value_i (1 - value_j) = [(1 - p) Y_ij + p Y_ji - p (1 - p) B_ij] / t^2.

Its variance grows as 1 / t^4, so people are weighted by t^4: somebody with many answers, each
nearly a coin flip, must not drown the others. Any weights that depend on k alone leave the spectral
estimate consistent, because the chain balances for each person separately. Terms are rounded to
2^-30 before they are summed, so sums are the same bits for every split of the people.

People may choose their own epsilon. With v = p (1 - p) / t^2, the variance of one debiased answer,
a product of two has about the variance v^2 + v + 0.2, so people are then weighted by
w = 0.2 / (v^2 + v + 0.2): the best weights, of which w / t^2, what a term is multiplied by, never
exceeds 1. They may depend on a person's ability through the epsilon that was chosen: for each
person, whatever their ability, the sums of (i, j) and (j, i) have the ratio e^(b_j - b_i), so any
weights leave difficulties consistent where the Rasch model holds.

What is hidden is how a person answered, not which items they answered. Shuffling (see
`privacy.amplification`) amplifies over people who answered the *same* items: others' reports are
told apart by their items and give no cover.

References:
    [NZ] Nguyen, Zhang. Optimal and private learning from human response data. 2023.
    [NZ] Nguyen, Zhang. Optimal and private learning from human response data. 2023. Algorithm 2.
    [NZ] Nguyen, Zhang. Optimal and private learning from human response data. 2023. Section 5.
    [W65] Warner. Randomized response: a survey technique for eliminating evasive answer bias. 1965.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import scipy
from numpy.typing import NDArray

from hushrank.estimation.common.central_noise import Calibration, calibrate
from hushrank.estimation.responses.item_graph import ItemGraph
from hushrank.privacy.noise import add_noise
from hushrank.privacy.randomized_response import (
    PersonalResponse,
    SplitResponse,
    attenuation,
    flip_probability,
)
from hushrank.privacy.randomness import RandomBits
from hushrank.privacy.response_sensitivity import measurement_sensitivity
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

    See [NZ] Lemma 4.1, with erratum E6 (`privacy.response_sensitivity`).
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


Response = SplitResponse | PersonalResponse
OF_PRODUCT = 0.2  # variance of a product of two answers that were not flipped, about
UNITS = 1 << 30  # units in 1; a person adds at most one to an entry: 8 * 10^9 people fit


@dataclass(frozen=True, slots=True)
class RandomizedMeasurements:
    """Differential measurements of randomised answers; private already, so anyone may keep them.

    Attributes:
        sums: shape (m, m), int64, zero diagonal, units of 2^-30; of any sign where debiased.
        people: shape (K + 1,), int64; people[k] gave k answers. Where people have their own
            epsilon, shape (levels, K + 1).
        response: how answers were flipped, for up to K of a person.
        debiased: whether the flips were undone; if not, the measurements shrink towards B / 4.

    Raises:
        ValueError: an array has another shape or type, or a number is out of range.
    """

    sums: NDArray[np.int64]
    people: NDArray[np.int64]
    response: Response
    debiased: bool = True

    def __post_init__(self) -> None:
        sums, people = self.sums, self.people
        if sums.ndim != 2 or sums.shape[0] != sums.shape[1] or sums.dtype != np.int64:
            raise ValueError(f"sums must be a square int64 matrix, got {sums.shape} {sums.dtype}")
        if np.diagonal(sums).any():
            raise ValueError("the diagonal of sums must be zero: no item meets itself")
        wanted = _shape_of_people(self.response)
        if people.dtype != np.int64 or (people < 0).any():
            raise ValueError("people must be an int64 array of counts")
        if people.shape != wanted:
            raise ValueError(f"people must have the shape {wanted}, got {people.shape}")
        if not self.debiased and isinstance(self.response, PersonalResponse):
            raise ValueError("answers with several epsilons are always debiased")

    @property
    def n_items(self) -> int:
        """Size of the public catalogue."""
        return len(self.sums)

    def y(self) -> NDArray[np.float64]:
        """Estimated number of people right on i and wrong on j, shape (m, m), of any sign.

        Where people differ in their number of answers it is a weighted number, scaled so that the
        mean weight over pairs of answers is 1.
        """
        if not self.debiased:
            return self.sums / UNITS
        answers = np.arange(self.people.shape[-1])
        pairs = self.people * answers * (answers - 1.0)
        if not pairs.any():
            return np.zeros(self.sums.shape)
        weights = np.array([split.factor * split.t**2 for split in _splits(self.response)])
        mean_weight = (pairs * weights).sum() / pairs.sum()
        return np.asarray(self.sums / (UNITS * mean_weight))


def randomize_answers(
    person: NDArray[np.int64],
    correct: NDArray[np.uint8],
    response: Response,
    bits: RandomBits,
    level: NDArray[np.int64] | None = None,
) -> NDArray[np.uint8]:
    """Randomised response with each person's epsilon split evenly over their answers.

    Guarantee: a person's answers together are `response.epsilon`-DP, or with the epsilon of the
    person's level, locally ([W65], and basic composition over the answers), if `bits.safe`. Which
    items they answered is not hidden, nor the level.

    Args:
        person: shape (answers,), codes; all answers of a person in one call.
        correct: shape (answers,), 1 where the answer was right, else 0.
        response: how answers are flipped.
        bits: `system_bits()` in a release.
        level: the level of each person's epsilon, by code; None: all have one.

    Returns:
        Randomised answers, shape (answers,).

    Raises:
        ValueError: somebody has more answers than `response` is for.
    """
    _, row_of_person, n_answers = np.unique(person, return_inverse=True, return_counts=True)
    if isinstance(response, SplitResponse):
        return response.randomize(correct, n_answers[row_of_person], bits)
    if level is None:
        raise ValueError("people with their own epsilon need a level each")
    return response.randomize(correct, n_answers[row_of_person], level[person], bits)


def randomized_measurements(
    person: NDArray[np.int64],
    item: NDArray[np.int64],
    noisy: NDArray[np.uint8],
    n_items: int,
    response: Response,
    *,
    debiased: bool = True,
    level: NDArray[np.int64] | None = None,
) -> RandomizedMeasurements:
    """Measurements of a block of people from answers that `randomize_answers` made.

    Args:
        person, item, noisy: shape (answers,), as `measurements_of_answers`; all answers of a
            person in one block.
        n_items: m, size of the public catalogue.
        response: how the answers were flipped; it says what K is.
        debiased: undo the flips; False gives the baseline of [NZ], which takes noisy answers as
            they are.
        level: the level of each person's epsilon, by code; None: all have one.

    Raises:
        ValueError: an argument breaks its rule, or somebody has more than K answers.
    """
    max_answers = response.max_answers
    codes, row_of_person, n_answers = np.unique(person, return_inverse=True, return_counts=True)
    if len(n_answers) and int(n_answers.max()) > max_answers:
        raise ValueError(f"somebody has more than max_answers = {max_answers} answers")
    splits = _splits(response)
    levels = np.zeros(len(codes), np.int64) if level is None else level[codes]
    group = levels * (max_answers + 1) + n_answers
    sums = np.zeros((n_items, n_items), np.int64)
    for each in np.unique(group):
        place, k = divmod(int(each), max_answers + 1)
        split, rows = splits[place], group[row_of_person] == each
        y = measurements_of_answers(person[rows], item[rows], noisy[rows], n_items)
        if not debiased:
            sums += UNITS * y
            continue
        joint = joint_answers_of_answers(person[rows], item[rows], n_items)
        np.fill_diagonal(joint, 0)
        p = split.p[k]
        terms = split.factor[k] * np.array([1 - p, p, p * (1 - p)])
        a, b, c = np.rint(UNITS * terms).astype(np.int64)
        sums += a * y + b * y.T - c * joint
    shape = _shape_of_people(response)
    people = np.bincount(group, minlength=int(np.prod(shape))).astype(np.int64)
    return RandomizedMeasurements(sums, people.reshape(shape), response, debiased)


def no_measurements(
    n_items: int, response: Response, *, debiased: bool = True
) -> RandomizedMeasurements:
    """The measurements of nobody."""
    sums = np.zeros((n_items, n_items), np.int64)
    people = np.zeros(_shape_of_people(response), np.int64)
    return RandomizedMeasurements(sums, people, response, debiased)


def merge_measurements(parts: Sequence[RandomizedMeasurements]) -> RandomizedMeasurements:
    """Measurements of all the people of the parts, in any order and grouping.

    Raises:
        ValueError: there are no parts, or they were not made with the same arguments.
        OverflowError: a sum does not fit into 64 bits.
    """
    if not parts:
        raise ValueError("there is nothing to merge")
    first = parts[0]
    sums, people = first.sums, first.people
    for part in parts[1:]:
        if (part.n_items, part.response, part.debiased) != (
            first.n_items,
            first.response,
            first.debiased,
        ):
            raise ValueError("parts must share the items, the response and debiased")
        total = sums + part.sums
        # The sum of two numbers wrapped if and only if its sign differs from both of theirs.
        if (((sums ^ total) & (part.sums ^ total)) < 0).any():
            raise OverflowError("a pair has too many answers for 64-bit sums")
        sums, people = total, people + part.people
    return RandomizedMeasurements(sums, people, first.response, first.debiased)


@dataclass(frozen=True, slots=True)
class _Split:
    """Split for an answer of a person with k answers, at position k (position 0 is not used).

    Attributes:
        p, t: probability that it was flipped, as realised, and 1 - 2p.
        factor: what a term is multiplied by, at most 1; times t^2 it is the weight of the person.
            With one epsilon for all it is (t / t of two answers)^2.
    """

    p: NDArray[np.float64]
    t: NDArray[np.float64]
    factor: NDArray[np.float64]


def _shape_of_people(response: Response) -> tuple[int, ...]:
    most = response.max_answers + 1
    return (most,) if isinstance(response, SplitResponse) else (len(response.levels), most)


def _splits(response: Response) -> list[_Split]:
    """Splits of each level of epsilon; of one, where all people have one epsilon."""
    if isinstance(response, SplitResponse):
        return [_split(response)]
    found = []
    for each in response.levels:
        split = _split(each)
        flips = split.p * (1 - split.p) / split.t**2
        weight = OF_PRODUCT / (flips**2 + flips + OF_PRODUCT)
        found.append(replace(split, factor=np.minimum(1.0, weight / split.t**2)))
    return found


def _split(response: SplitResponse) -> _Split:
    if response.max_answers < 2:
        raise ValueError(
            f"max_answers must be >= 2, got {response.max_answers!r}: one answer has no pair"
        )
    thresholds = response.by_answers()
    t = attenuation(thresholds)
    if (t == 0).any():
        raise ValueError(
            f"epsilon {response.epsilon!r} is too small to split: an answer would say nothing"
        )
    return _Split(flip_probability(thresholds), t, np.minimum(1.0, (t / t[2]) ** 2))
