"""Differential measurements of test answers that were randomised where they were given.

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
    [NZ] Nguyen, Zhang. Optimal and private learning from human response data. 2023. Section 5.
    [W65] Warner. Randomized response: a survey technique for eliminating evasive answer bias. 1965.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.responses.measurements import (
    joint_answers_of_answers,
    measurements_of_answers,
)
from hushrank.privacy.randomized_response import (
    PersonalResponse,
    SplitResponse,
    attenuation,
    flip_probability,
)
from hushrank.privacy.randomness import RandomBits

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
