"""Randomised response on binary answers, each with its own epsilon. Pure: arrays in, arrays out.

An answer is flipped where a uniform 64-bit word is below an integer threshold T, hence with
probability exactly T / 2^64. T is computed with additions, multiplications and one division only,
which IEEE 754 fixes to the last bit: every machine, every split of the rows and `local_source`
(which runs where the answer is given) have the same T for the same epsilon. T is rounded up, so the
realised epsilon ln((2^64 - T) / T) is never above the stated one. What that costs:

    epsilon          realised epsilon is lower by
    up to about 15   less than 2e-12 (below 2e-12 itself it is 0: a fair coin)
    20 to 44.36      about e^epsilon / 2^64 at most: the grain of the word
    above 44.37      all of it: T is never below 1, so the realised epsilon is ln(2^64 - 1) at most

References:
    [W65] Warner. Randomized response: a survey technique for eliminating evasive answer bias. 1965.
    [XSC] Xu, Sun, Cheng. Rate-optimal rank aggregation with private pairwise rankings.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushrank.privacy.exponential import exp_of_minus
from hushrank.privacy.randomness import RandomBits

BLOCK = 1 << 14  # rows at a time: the intermediates stay in the processor's cache
# The relative error of T before rounding is below 2^-41.5: that of e^-epsilon, and two half-ulps
# from the division. This factor covers it nearly three times, so a rounded-up T is never too small.
WORDS_ROUNDED_UP = 2.0**64 * (1 + 2.0**-40)
HALF_WORDS = 2.0**63


def flip_thresholds(epsilon: NDArray[np.float64]) -> NDArray[np.uint64]:
    """T of each epsilon: the answer is flipped where a 64-bit word is below T.

    Guarantee: 1 <= T <= 2^63 and ln((2^64 - T) / T) <= epsilon, so randomised response with T is
    epsilon-DP for its answer ([W65]; [XSC] §3.1).

    Args:
        epsilon: shape (m,), nats, finite and > 0.

    Returns:
        T, shape (m,).

    Raises:
        ValueError: an epsilon is not finite and positive.
    """
    thresholds = np.empty(len(epsilon), np.uint64)
    for rows in _blocks(len(epsilon)):
        thresholds[rows] = _block_thresholds(epsilon[rows])
    return thresholds


def randomize(
    outcomes: NDArray[np.uint8], epsilon: float | NDArray[np.float64], bits: RandomBits
) -> NDArray[np.uint8]:
    """Flip each outcome with probability T / 2^64, about 1 / (e^epsilon + 1).

    Guarantee: outcome l is epsilon_l-DP, and a person's outcomes together are DP with the sum of
    their epsilons ([XSC] §S.2), if `bits.safe`. Which pairs a person compared is not hidden.

    Args:
        outcomes: shape (m,), values in {0, 1}.
        epsilon: nats, finite and > 0; one for all rows, or shape (m,).
        bits: `system_bits()` in a release.

    Returns:
        shape (m,), values in {0, 1}; `outcomes` is not modified.

    Raises:
        ValueError: an outcome is not 0 or 1, an epsilon is not finite and positive, or the shapes
            differ.
    """
    _check_binary(outcomes)
    column = np.atleast_1d(np.asarray(epsilon, np.float64))
    shared = _block_thresholds(column) if np.ndim(epsilon) == 0 else None
    if shared is None and column.shape != outcomes.shape:
        raise ValueError(f"{column.shape} epsilons do not match {outcomes.shape} outcomes")
    noisy = np.empty_like(outcomes)
    for rows in _blocks(len(outcomes)):
        thresholds = _block_thresholds(column[rows]) if shared is None else shared
        flip = bits.words(len(outcomes[rows])) < thresholds
        np.not_equal(outcomes[rows], flip, out=noisy[rows])
    return noisy


@dataclass(frozen=True, slots=True)
class SplitResponse:
    """Randomised response in which a person's epsilon is split evenly over their answers.

    Attributes:
        epsilon: epsilon of a person, nats.
        thresholds: T of an answer of somebody with k answers, at place k; place 0 is not used.
    """

    epsilon: float
    thresholds: tuple[int, ...]

    @property
    def max_answers(self) -> int:
        """The most answers of one person."""
        return len(self.thresholds) - 1

    def by_answers(self) -> NDArray[np.uint64]:
        """`thresholds` as an array, shape (max_answers + 1,)."""
        return np.array(self.thresholds, np.uint64)

    def randomize(
        self, outcomes: NDArray[np.uint8], n_answers: NDArray[np.int64], bits: RandomBits
    ) -> NDArray[np.uint8]:
        """Flip each outcome by the threshold of its person.

        Guarantee: all outcomes of a person together are epsilon-DP ([XSC] §S.2), if `bits.safe`.

        Args:
            outcomes: shape (m,), values in {0, 1}.
            n_answers: shape (m,), how many outcomes the person has, 1 to `max_answers`.
            bits: `system_bits()` in a release.

        Raises:
            ValueError: an outcome is not 0 or 1, or somebody has more than `max_answers`.
        """
        level = np.zeros(len(outcomes), np.int64)
        return _split_flips(outcomes, self.by_answers()[np.newaxis], level, n_answers, bits)


@dataclass(frozen=True, slots=True)
class PersonalResponse:
    """Randomised response of people who chose their own epsilon, split evenly over their answers.

    Attributes:
        levels: the response at each level of epsilon, ascending; all for as many answers.
    """

    levels: tuple[SplitResponse, ...]

    @property
    def epsilon(self) -> float:
        """The largest epsilon of a person."""
        return self.levels[-1].epsilon

    @property
    def max_answers(self) -> int:
        """The most answers of one person."""
        return self.levels[-1].max_answers

    def randomize(
        self,
        outcomes: NDArray[np.uint8],
        n_answers: NDArray[np.int64],
        level: NDArray[np.int64],
        bits: RandomBits,
    ) -> NDArray[np.uint8]:
        """Flip each outcome by the threshold of its person's level and number of answers.

        Guarantee: all outcomes of a person together are DP with the epsilon of the person's level
        ([XSC] §S.2), if `bits.safe`. The level is not hidden.

        Args:
            outcomes, n_answers, bits: as for `SplitResponse.randomize`.
            level: shape (m,), position of the person's level.

        Raises:
            ValueError: as there, or a level is out of range.
        """
        if len(level) and not 0 <= level.min() <= level.max() < len(self.levels):
            raise ValueError(f"levels must be 0 to {len(self.levels) - 1}")
        thresholds = np.stack([each.by_answers() for each in self.levels])
        return _split_flips(outcomes, thresholds, level, n_answers, bits)


def _split_flips(
    outcomes: NDArray[np.uint8],
    thresholds: NDArray[np.uint64],
    level: NDArray[np.int64],
    n_answers: NDArray[np.int64],
    bits: RandomBits,
) -> NDArray[np.uint8]:
    """Outcomes that are flipped by `thresholds[level, n_answers]`."""
    _check_binary(outcomes)
    most = thresholds.shape[1] - 1
    if len(n_answers) and not 1 <= n_answers.min() <= n_answers.max() <= most:
        raise ValueError(f"people must have 1 to {most} answers")
    noisy = np.empty_like(outcomes)
    for rows in _blocks(len(outcomes)):
        flip = bits.words(len(outcomes[rows])) < thresholds[level[rows], n_answers[rows]]
        np.not_equal(outcomes[rows], flip, out=noisy[rows])
    return noisy


def split_response(epsilon: float, max_answers: int) -> SplitResponse:
    """The thresholds of everybody with up to `max_answers` answers.

    Raises:
        ValueError: `epsilon` is not finite and positive, or `max_answers` is below 1.
    """
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise ValueError(f"epsilon must be finite and > 0, got {epsilon!r}")
    if max_answers < 1:
        raise ValueError(f"max_answers must be >= 1, got {max_answers!r}")
    answers = np.maximum(1, np.arange(max_answers + 1))
    shares = epsilon_of_answer(np.full(max_answers + 1, epsilon), answers)
    return SplitResponse(epsilon, tuple(flip_thresholds(shares).tolist()))


def flip_probability(thresholds: NDArray[np.uint64]) -> NDArray[np.float64]:
    """p = T / 2^64, the probability with which an answer is flipped."""
    return thresholds.astype(np.float64) / 2.0**64


def attenuation(thresholds: NDArray[np.uint64]) -> NDArray[np.float64]:
    """t = 1 - 2p, about tanh(epsilon / 2): the answer's mean moves towards 1/2 by this factor.

    From T, not from epsilon, so that what was realised is what is undone.
    """
    return (np.uint64(1 << 63) - thresholds).astype(np.float64) / HALF_WORDS


def epsilon_of_answer(
    epsilon: NDArray[np.float64], n_answers: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return each answer's share of its person's epsilon (`budget: per_user`), rounded down.

    Guarantee: a person whose `n_answers` answers are all randomised with their share is epsilon-DP
    with all of them together ([XSC] §S.2). How many there are is not hidden.

    Args:
        epsilon: shape (m,), the person's epsilon, repeated on each of their rows.
        n_answers: shape (m,), how many rows the person has, at least 1.

    Raises:
        ValueError: a person has less than one answer.
    """
    if (n_answers < 1).any():
        raise ValueError("n_answers must be >= 1")
    return np.nextafter(epsilon / n_answers, 0.0)


def debiased_outcomes(
    noisy: NDArray[np.uint8], epsilon: float | NDArray[np.float64]
) -> NDArray[np.float64]:
    """Unbiased value of each outcome from its randomised one: (noisy - p) / t ([XSC] eq. 3).

    Its mean is the outcome's and its variance (1 / t^2 - (2F - 1)^2) / 4 for an outcome that is 1
    with probability F ([XSC] Lemma 2). Independent noise, so products stay unbiased too.

    Raises:
        ValueError: an epsilon is not finite and positive, or so small (about 2e-12) that the
            randomised outcome is a fair coin.
    """
    thresholds = flip_thresholds(np.atleast_1d(np.asarray(epsilon, np.float64)))
    t = attenuation(thresholds)
    if (t == 0).any():
        raise ValueError("an epsilon is too small: its randomised outcome says nothing")
    return np.asarray((noisy - flip_probability(thresholds)) / t)


def _check_binary(outcomes: NDArray[np.uint8]) -> None:
    if outcomes.dtype != np.uint8 or (outcomes > 1).any():
        raise ValueError("outcomes must be a uint8 array of 0 and 1")  # values are private


def _block_thresholds(epsilon: NDArray[np.float64]) -> NDArray[np.uint64]:
    if not ((epsilon > 0) & (epsilon < np.inf)).all():
        raise ValueError("every epsilon must be finite and > 0")  # the values are somebody's
    exponential = exp_of_minus(epsilon)
    flips = exponential * WORDS_ROUNDED_UP
    exponential += 1.0
    flips /= exponential
    np.ceil(flips, out=flips)
    return np.minimum(flips, HALF_WORDS, out=flips).astype(np.uint64)


def _blocks(n_rows: int) -> Iterator[slice]:
    for start in range(0, n_rows, BLOCK):
        yield slice(start, start + BLOCK)
