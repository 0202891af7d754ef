"""Random pairs: a ranking gives away the private order of a few pairs of its items. Pure.

Each ranking answers d pairs, drawn uniformly without looking at the order. `Hide` says what is
private, and so which pairs can be drawn.

`order`. The pairs are drawn among those of the ranked items, k = min(d, l (l - 1) / 2) of them for
a list of l items, and each order is flipped with probability T / 2^64: randomised response at
epsilon / d (`privacy.randomized_response`). Which pairs are drawn, and their number, depend on the
set of items alone. So for two rankings r, r' of the same items and every outcome o of the drawn
pairs D,

    P(D, o | r) / P(D, o | r') = prod over D of P(o_p | r_p) / P(o_p | r'_p) <= e^(k epsilon / d)

which is at most e^epsilon: the whole ranking is epsilon-DP, whatever m is. It is attained, up to
the rounding of T, where r' is r reversed and k = d. Not hidden: two items of each drawn pair, and
l, which the sums need (a pair of a longer list is drawn more seldom). Synthetic rankings by
`mallows` tell all items of a list, so this tells no more.

`items`. The pairs are drawn from the whole catalogue, whatever was ranked, and the answer is one of
three: the first item above, below, or not both of them ranked. It is replaced by each of the two
others with probability T / 2^64, where T >= 2^64 / (e^(epsilon / d) + 2), so that one answer is
(epsilon / d)-DP ([KOV] k-ary randomised response, k = 3). The draw depends on nothing, so the bound
above holds for any two rankings, of whichever and however many items. A fair coin in the place of
the third answer would be private too, but hardly ever better: where few rankings have both items
nearly all its answers are coins, of variance ((e^x + 1) / (e^x - 1))^2 for x = epsilon / d, against
2 (e^x + 2) / (e^x - 1)^2 here.

An answer, +1, -1 or 0, is worth 1 / `attenuation` times what it says: its mean is then the true
one. The error of a pair's share is about that of n d / P answers, P pairs to draw from, each of
variance 1 / t^2, t = tanh(epsilon / (2 d)) for `order`: least where d t^2 is largest. That is d = 1
up to an epsilon of 3.06 and epsilon / d near 2.2 beyond (`best_pairs`).

References:
    [W65] Warner. Randomized response: a survey technique for eliminating evasive answer bias. 1965.
    [KOV] Kairouz, Oh, Viswanath. Extremal mechanisms for local differential privacy. 2014.
    [YLL] Yan, Li, Liu. Private rank aggregation under local differential privacy. 2019
        (arXiv 1908.04486). LDP-KwikSort: each person answers pairs that the curator draws.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushrank.privacy.exponential import exp_of_minus
from hushrank.privacy.mallows import BLOCK_CELLS, LARGEST_WORD, rankings_by_length
from hushrank.privacy.randomized_response import (
    WORDS_ROUNDED_UP,
    attenuation,
    epsilon_of_answer,
    flip_thresholds,
)
from hushrank.privacy.randomness import RandomBits

Integers = NDArray[np.int64]
Words = NDArray[np.uint64]
A_THIRD = float(np.nextafter(2.0**64 / 3, 0.0))  # T at most: then the truth is as likely, or more
MOST_PAIRS = 100  # answers of one ranking


class Hide(StrEnum):
    """Part of a ranking that is private."""

    ORDER = "order"  # the order of its items
    ITEMS = "items"  # also which items it holds, and how many


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomPairs:
    """The law of the answers; `law_of_epsilon` makes it.

    Attributes:
        epsilon: epsilon of a whole ranking, nats.
        pairs: d, the most answers of one ranking.
        hide: part of a ranking that is private.
        threshold: T; the true answer becomes each other one with probability T / 2^64.
    """

    epsilon: float
    pairs: int
    hide: Hide
    threshold: int

    @property
    def attenuation(self) -> float:
        """The factor by which the mean of an answer, +1, -1 or 0, moves towards 0.

        From T, not from epsilon, so that what was realised is what is undone.
        """
        if self.hide is Hide.ORDER:
            return float(attenuation(np.array([self.threshold], np.uint64))[0])
        return ((1 << 64) - 3 * self.threshold) / 2.0**64


@dataclass(frozen=True, slots=True, eq=False)
class PairAnswers:
    """Private answers of some rankings.

    Attributes:
        first, second: shape (A,), items of each pair, first < second.
        outcome: shape (A,), int8: +1 first above second, -1 below, 0 not both ranked.
        ranking: shape (A,), which ranking answered, 0..R-1, ascending.
        lengths: shape (R,), items of each ranking; 0 where that is hidden.
    """

    first: Integers
    second: Integers
    outcome: NDArray[np.int8]
    ranking: Integers
    lengths: Integers

    def __len__(self) -> int:
        """Number of rankings that answered."""
        return len(self.lengths)


def law_of_epsilon(epsilon: float, pairs: int, hide: Hide = Hide.ORDER) -> RandomPairs:
    """The law with which a whole ranking loses `epsilon` at most.

    Raises:
        ValueError: epsilon is not finite and positive, or d is out of range.
    """
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise ValueError(f"epsilon must be finite and > 0, got {epsilon!r}")
    if not 1 <= pairs <= MOST_PAIRS:
        raise ValueError(f"pairs must be 1 to {MOST_PAIRS}, got {pairs}")
    share = epsilon_of_answer(np.array([epsilon]), np.array([pairs]))
    thresholds = (flip_thresholds if hide is Hide.ORDER else _thresholds_of_three)(share)
    return RandomPairs(epsilon=epsilon, pairs=pairs, hide=hide, threshold=int(thresholds[0]))


def n_pairs(n_items: int) -> int:
    """Pairs of so many items."""
    return n_items * (n_items - 1) // 2


def best_pairs(epsilon: float, n_items: int, hide: Hide) -> int:
    """d with the smallest variance of a pair's share: from public numbers alone.

    Args:
        epsilon: epsilon of a whole ranking.
        n_items: m, the most items of a ranking that counts; for `items` the whole catalogue.
        hide: part of a ranking that is private.
    """
    most = max(1, min(n_pairs(n_items), MOST_PAIRS, math.ceil(epsilon)))
    tried = np.arange(1, most + 1)
    share = epsilon / tried
    if hide is Hide.ORDER:
        information = np.tanh(share / 2) ** 2
    else:  # t^2 over the chance that the answer is not 0
        small = np.exp(-share)
        information = (1 - small) ** 2 / ((1 + 2 * small) * (1 + small))
    return int(tried[np.argmax(tried * information)])


def laws_of_levels(
    levels: Sequence[float], pairs: int | None, n_items: int, hide: Hide = Hide.ORDER
) -> tuple[RandomPairs, ...]:
    """The law of each level of epsilon, each with a d of its own.

    Args:
        levels: epsilons of a whole ranking.
        pairs: d at every level; None: `best_pairs` at each.
        n_items, hide: as for `best_pairs`.

    Raises:
        ValueError: as `law_of_epsilon`.
    """
    own = [pairs or best_pairs(epsilon, n_items, hide) for epsilon in levels]
    return tuple(law_of_epsilon(each, d, hide) for each, d in zip(levels, own, strict=True))


def answer_pairs(
    items: Integers, lengths: Integers, n_items: int, law: RandomPairs, bits: RandomBits
) -> PairAnswers:
    """Draw pairs of every ranking and answer them privately.

    Guarantee: every ranking is `law.epsilon`-DP, by the module's proof, if `bits.safe`: for `order`
    among rankings of the same items, for `items` among all.

    Args:
        items: shape (sum of lengths,), the rankings one after the other, each best first; codes
            below `n_items`, no item twice in a ranking.
        lengths: shape (R,), how many items each has. With `order`, lists of 0 and 1 items have no
            pair and do not answer.
        n_items: size of the catalogue, at least 2.
        law: law of the answers.
        bits: `system_bits()` in a release.

    Raises:
        ValueError: the lengths do not fit, or with `items` d is above the pairs of the catalogue.
    """
    if (lengths < 0).any() or lengths.sum() != len(items):
        raise ValueError("lengths must be >= 0 and sum to the number of items")
    if law.hide is Hide.ITEMS:
        if law.pairs > n_pairs(n_items):
            raise ValueError(f"{n_items} items have fewer than {law.pairs} pairs")
        return _of_catalogue(items, lengths, n_items, law, bits)
    return _of_lists(items, lengths, law, bits)


def draw_subsets(n: int, total: int, size: int, bits: RandomBits) -> Integers:
    """`n` subsets of 0..total-1, each drawn uniformly from those of `size` elements.

    By Floyd's algorithm (Bentley and Floyd, A sample of brilliance, 1987), on words without modulo
    bias.

    Returns:
        shape (n, size).
    """
    drawn = np.empty((n, size), np.int64)
    for place, last in enumerate(range(total - size, total)):
        value = _below(last + 1, n, bits)
        again = (drawn[:, :place] == value[:, np.newaxis]).any(axis=1)
        drawn[:, place] = np.where(again, last, value)
    return drawn


def _of_lists(
    items: Integers, lengths: Integers, law: RandomPairs, bits: RandomBits
) -> PairAnswers:
    """Pairs of the ranked items: see `order` in the module's text."""
    found = []
    for length, chosen, starts in rankings_by_length(lengths):
        above, below = np.triu_indices(length, 1)
        size = min(law.pairs, len(above))
        for rows in _blocks(len(chosen), length):
            table = items[starts[rows, np.newaxis] + np.arange(length)]
            order = np.argsort(table, axis=1)  # the place of the item with the k-th smallest code
            slots = draw_subsets(len(table), len(above), size, bits)
            places = [np.take_along_axis(order, side[slots], axis=1) for side in (above, below)]
            pair = [np.take_along_axis(table, place, axis=1) for place in places]
            true = (places[0] < places[1]).ravel()
            flip = bits.words(true.size) < np.uint64(law.threshold)
            outcome = np.where(true != flip, np.int8(1), np.int8(-1))
            found.append((*pair, outcome, np.repeat(chosen[rows], size)))
    return _collected(found, lengths)


def _of_catalogue(
    items: Integers, lengths: Integers, n_items: int, law: RandomPairs, bits: RandomBits
) -> PairAnswers:
    """Pairs of the whole catalogue: see `items` in the module's text."""
    first, second = np.triu_indices(n_items, 1)
    ends = np.append(0, np.cumsum(lengths))
    found = []
    for rows in _blocks(len(lengths), n_items):
        own = lengths[rows]
        which = np.repeat(np.arange(len(own)), own)
        at = np.arange(ends[rows.start], ends[rows.stop]) - np.repeat(ends[rows], own)
        places = np.full((len(own), n_items), -1)
        places[which, items[ends[rows.start] : ends[rows.stop]]] = at
        slots = draw_subsets(len(own), len(first), law.pairs, bits)
        pair = [side[slots] for side in (first, second)]
        left, right = (np.take_along_axis(places, side, axis=1).ravel() for side in pair)
        true = np.where((left < 0) | (right < 0), 0, np.where(left < right, 1, -1))
        word, threshold = bits.words(true.size), np.uint64(law.threshold)
        turned = (word < threshold).astype(np.int64) + 2 * (
            (word >= threshold) & (word < 2 * threshold)
        )
        outcome = ((true + turned + 1) % 3 - 1).astype(np.int8)
        number = np.repeat(np.arange(rows.start, rows.stop), law.pairs)
        found.append((*pair, outcome, number))
    return _collected(found, np.zeros(len(lengths), np.int64))


def _collected(parts: list[tuple[Any, ...]], lengths: Integers) -> PairAnswers:
    """Answers of blocks of rankings as one, rankings ascending."""
    if not parts:
        none = np.zeros(0, np.int64)
        return PairAnswers(none, none, none.astype(np.int8), none, lengths)
    first, second, outcome, ranking = (
        np.concatenate([np.ravel(part) for part in column]) for column in zip(*parts, strict=True)
    )
    order = np.argsort(ranking, kind="stable")
    return PairAnswers(
        first[order], second[order], outcome[order].astype(np.int8), ranking[order], lengths
    )


def _below(total: int, n: int, bits: RandomBits) -> Integers:
    """n integers, uniform on 0..total-1: words that would favour some are drawn again."""
    words_each = LARGEST_WORD // np.uint64(total)
    drawn = bits.words(n) // words_each
    while (rejected := drawn >= total).any():
        drawn[rejected] = bits.words(int(rejected.sum())) // words_each
    return drawn.astype(np.int64)


def _thresholds_of_three(epsilon: NDArray[np.float64]) -> Words:
    """T >= 2^64 / (e^epsilon + 2), rounded up as in `randomized_response`."""
    exponential = exp_of_minus(epsilon)
    flips = np.ceil(exponential * WORDS_ROUNDED_UP / (1.0 + 2 * exponential))
    return np.minimum(flips, A_THIRD).astype(np.uint64)


def _blocks(n: int, width: int) -> list[slice]:
    size = max(BLOCK_CELLS // width, 1)
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]
