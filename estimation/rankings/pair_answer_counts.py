"""What private answers to random pairs are reduced to: how often each was given, and how it varies.

Sums of integers over rankings, so the same for every split of the rankings into files, batches and
workers. A pair of a longer list is drawn more seldom, so an answer counts as often as its list has
pairs for each answer of it: `unit` times its *weight* max(l (l - 1) / 2, d), a whole number. Where
lengths are hidden, pairs are drawn from the whole catalogue and every weight is 1.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from hushrank.privacy.random_pairs import Hide, PairAnswers, RandomPairs, n_pairs

Integers = NDArray[np.int64]
LARGEST_SUM = 2**62
LOW_BITS = 20
LOW_HALF = np.int64((1 << LOW_BITS) - 1)


@dataclass(frozen=True, slots=True, eq=False)
class PairAnswerCounts:
    """Sums over private answers about n items.

    Attributes:
        wins: shape (n, n), entry [a, b] = weights of the answers "a above b".
        asked: shape (n, n), symmetric: weights of the answers about a and b, whatever they say.
        squares: the same of squared weights.
        moments: shape (n, n), sum over rankings of net of a times net of b, where an item's net is
            the weight of the answers of one ranking that put it above another, less below.
        lengths: shape (m + 1,), entry k = rankings of k items; where that is hidden, entry 0 counts
            all.

    Raises:
        ValueError: shapes do not agree.
    """

    wins: Integers
    asked: Integers
    squares: Integers
    moments: Integers
    lengths: Integers

    def __post_init__(self) -> None:
        square = (len(self.wins), len(self.wins))
        if {self.wins.shape, self.asked.shape, self.squares.shape, self.moments.shape} != {square}:
            raise ValueError("the counts of private answers do not have the same items")

    @property
    def n_items(self) -> int:
        """Size of the public catalogue."""
        return len(self.wins)

    @property
    def rankings(self) -> int:
        """How many rankings there are, those without a pair among them."""
        return int(self.lengths.sum())

    @property
    def complete(self) -> bool:
        """Whether every ranking holds all items."""
        return len(self.lengths) > self.n_items and not self.lengths[:-1].any()

    def arrays(self) -> dict[str, Integers]:
        """The counts by name."""
        return {
            "wins": self.wins,
            "asked": self.asked,
            "squares": self.squares,
            "moments": self.moments,
            "lengths": self.lengths,
        }


def weights_of(lengths: Integers, law: RandomPairs) -> Integers:
    """The weight of an answer of each ranking, by the length of its list."""
    if law.hide is Hide.ITEMS:
        return np.ones(len(lengths), np.int64)
    return np.asarray(np.maximum(lengths * (lengths - 1) // 2, law.pairs), np.int64)


def unit_of(law: RandomPairs, n_items: int) -> float:
    """Rankings that a weight of 1 stands for."""
    return (n_pairs(n_items) if law.hide is Hide.ITEMS else 1) / law.pairs


def count_answers(
    answers: PairAnswers, n_items: int, max_length: int, law: RandomPairs
) -> PairAnswerCounts:
    """The counts of some answers.

    Raises:
        ValueError: a ranking is longer than `max_length`, or the sums would not fit into 64 bits.
    """
    counts = no_answers(n_items, max_length)
    if len(answers) and answers.lengths.max() > max_length:
        raise ValueError(f"a ranking has more than {max_length} items")
    counts.lengths[:] = np.bincount(answers.lengths, minlength=max_length + 1)
    weight = weights_of(answers.lengths, law)[answers.ranking]
    cell = answers.first * n_items + answers.second
    flipped = answers.second * n_items + answers.first
    above = np.where(answers.outcome > 0, cell, flipped)
    said = answers.outcome != 0
    shape = (n_items, n_items)
    counts.wins[:] = _summed(above[said], weight[said], shape)
    for total, values in ((counts.asked, weight), (counts.squares, weight**2)):
        total[:] = _summed(cell, values, shape)
        total += total.T
    signed = weight * answers.outcome
    rows = np.concatenate([answers.ranking, answers.ranking])
    columns = np.concatenate([answers.first, answers.second])
    nets = scipy.sparse.csr_array(
        (np.concatenate([signed, -signed]), (rows, columns)), (len(answers), n_items)
    )
    counts.moments[:] = (nets.T @ nets).toarray()
    return merge_answers([counts])


def no_answers(n_items: int, max_length: int) -> PairAnswerCounts:
    """The counts of nothing."""
    wins, asked, squares, moments = np.zeros((4, n_items, n_items), np.int64)
    return PairAnswerCounts(wins, asked, squares, moments, np.zeros(max_length + 1, np.int64))


def merge_answers(parts: Iterable[PairAnswerCounts]) -> PairAnswerCounts:
    """The counts of all answers of `parts`, at least one.

    Raises:
        ValueError: the sums would not fit into 64 bits.
    """
    total: dict[str, Any] = {}
    for part in parts:
        for name, array in part.arrays().items():
            total[name] = total[name] + array if name in total else array.copy()
    if float(np.diagonal(total["moments"]).max()) > LARGEST_SUM:
        raise ValueError("there are too many rankings of so many items for sums of 64 bits")
    return PairAnswerCounts(**total)


def _summed(cells: Integers, weights: Integers, shape: tuple[int, int]) -> Integers:
    """Sums of weights by cell, exact: in two halves, for floats hold whole numbers to 2^53."""
    total = np.zeros(shape[0] * shape[1], np.int64)
    for half, shift in ((weights & LOW_HALF, 0), (weights >> LOW_BITS, LOW_BITS)):
        found = np.bincount(cells, half.astype(np.float64), len(total))
        total += np.rint(found).astype(np.int64) << shift
    return total.reshape(shape)
