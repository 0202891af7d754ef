"""The Mallows mechanism: its exact law, its privacy by enumeration, and what it does to lists."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations, pairwise, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushrank.privacy import mallows
from hushrank.privacy.mallows import (
    concordance_probability,
    expected_concordance,
    insertion_weights,
    sample_positions,
    synthetic_rankings,
    whole_ranking_epsilon,
)
from hushrank.privacy.randomness import seeded_bits, system_bits
from tests.statistics import FALSE_POSITIVE_RATE, LEAST_EXPECTED, binomial_p_value, cells_p_value
from tests.strategies import epsilons

Ranking = tuple[int, ...]
DRAWS = 400_000


def table(epsilon: float, n_items: int) -> list[int]:
    return [int(w) for w in insertion_weights(np.array([epsilon]), n_items)[:, 0]]


def moves(ranking: Ranking) -> set[Ranking]:
    """All rankings that differ from `ranking` by moving one item, from the definition."""
    found = set()
    for item in ranking:
        rest = [other for other in ranking if other != item]
        for place in range(len(ranking)):
            found.add((*rest[:place], item, *rest[place:]))
    return found - {ranking}


def agreements(ranking: Ranking, output: Ranking) -> int:
    return sum(output.index(a) < output.index(b) for a, b in combinations(ranking, 2))


def exact_law(ranking: Ranking, weights: list[int]) -> dict[Ranking, Fraction]:
    """Every output's probability, by inserting item after item as [RDP] Algorithm 1 does."""
    law: dict[Ranking, Fraction] = {(): Fraction(1)}
    for t, item in enumerate(ranking, start=1):
        total = sum(weights[:t])
        grown: dict[Ranking, Fraction] = {}
        for placed, probability in law.items():
            for behind in range(t):
                at = t - 1 - behind
                output = (*placed[:at], item, *placed[at:])
                grown[output] = probability * Fraction(weights[behind], total)
        law = grown
    return law


def exact_exponential(epsilon: float | Fraction) -> tuple[Fraction, Fraction]:
    """Rationals below and above e^epsilon, from its series."""
    x, term, total, k = Fraction(epsilon), Fraction(1), Fraction(1), 0
    while term > total / 2**90 or k < 2 * x:
        k += 1
        term *= x / k
        total += term
    return total, total + term  # the terms after k > 2x halve at least


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 2.0, 7.3, 50.0, 900.0])
@pytest.mark.parametrize("n_items", [2, 3, 4, 5])
def test_realised_epsilon_by_enumeration_is_at_most_the_stated(
    epsilon: float, n_items: int
) -> None:
    weights = table(epsilon, n_items)
    first = tuple(range(n_items))
    law = exact_law(first, weights)
    neighbours = max(
        probability / exact_law(moved, weights)[output]
        for moved in moves(first)
        for output, probability in law.items()
    )
    assert neighbours <= exact_exponential(epsilon)[1]
    if epsilon <= 10:  # and nothing is given away: the stated budget is used
        assert math.log(neighbours) > epsilon * (1 - 1e-9)
    whole = max(law.values()) / min(law.values())  # relabelling: any other input has these values
    assert math.log(whole) <= whole_ranking_epsilon(epsilon, n_items) * (1 + 1e-12)


@settings(max_examples=60)
@given(epsilons(1e-9, 2000.0), st.integers(1, 40))
def test_neighbouring_weights_differ_by_at_most_the_allowed_ratio(
    epsilon: float, n_items: int
) -> None:
    weights = table(epsilon, n_items)
    assert all(larger >= smaller >= 1 for larger, smaller in pairwise(weights))
    if n_items > 1 and epsilon / (n_items - 1) < 60:
        least, _ = exact_exponential(Fraction(epsilon) / (n_items - 1))
        for larger, smaller in pairwise(weights):
            assert larger <= least * smaller


def test_a_table_of_its_own_does_not_depend_on_the_others() -> None:
    epsilon = np.array([0.3, 1.7, 12.0])
    together = insertion_weights(epsilon, 8)
    for column, own in enumerate(epsilon):
        np.testing.assert_array_equal(together[:, column], table(own, 8))


def law_of_draws(epsilon: float, n_items: int, n: int) -> tuple[list[Ranking], np.ndarray]:
    """All rankings, and how often each was drawn."""
    weights = insertion_weights(np.array([epsilon]), n_items)
    code = n_items ** np.arange(n_items) @ sample_positions(weights, n, system_bits())
    outputs = list(permutations(range(n_items)))
    codes = [sum(output.index(i) * n_items**i for i in range(n_items)) for output in outputs]
    return outputs, np.bincount(code, minlength=n_items**n_items)[codes]


@pytest.mark.parametrize(("n_items", "epsilon"), [(3, 2.0), (4, 2.0), (5, 1.5)])
def test_the_law_is_mallows_on_all_rankings(n_items: int, epsilon: float) -> None:
    outputs, counts = law_of_draws(epsilon, n_items, DRAWS)
    assert counts.sum() == DRAWS
    agreed = np.array([agreements(tuple(range(n_items)), output) for output in outputs])

    def p_value(exponent: float) -> float:
        law = np.exp(exponent * (agreed - agreed.max()))
        law /= law.sum()
        common = law * DRAWS >= 2 * LEAST_EXPECTED
        cells = np.where(
            common, np.cumsum(common), 1
        )  # all rare rankings join the first common one
        return cells_p_value(*(np.bincount(cells, column)[1:] for column in (counts, law)))

    assert p_value(epsilon / (n_items - 1)) > FALSE_POSITIVE_RATE
    assert p_value(1.1 * epsilon / (n_items - 1)) < FALSE_POSITIVE_RATE
    assert p_value(0.9 * epsilon / (n_items - 1)) < FALSE_POSITIVE_RATE
    assert p_value(epsilon * n_items / 2) < FALSE_POSITIVE_RATE  # as [RDP] Lemma 2 prints it


@pytest.mark.parametrize(("n_items", "epsilon"), [(2, 1.0), (6, 2.5), (30, 8.0)])
def test_two_items_keep_their_order_as_the_closed_form_says(n_items: int, epsilon: float) -> None:
    weights = insertion_weights(np.array([epsilon]), n_items)
    positions = sample_positions(weights, DRAWS, system_bits())
    for first, distance in {(0, 1), (0, n_items - 1), (n_items // 2 - 1, n_items // 2)}:
        kept = int((positions[first] < positions[first + distance]).sum())
        right, wrong = (
            float(concordance_probability(np.array([distance]), eps, n_items)[0])
            for eps in (epsilon, 1.2 * epsilon)
        )
        assert binomial_p_value(kept, DRAWS, right) > FALSE_POSITIVE_RATE
        if distance > 1 or n_items == 2:
            assert binomial_p_value(kept, DRAWS, wrong) < FALSE_POSITIVE_RATE


@given(st.integers(2, 5), epsilons(1e-9, 30.0))
@settings(max_examples=25)
def test_the_closed_form_is_that_of_the_exact_law(n_items: int, epsilon: float) -> None:
    law = exact_law(tuple(range(n_items)), table(epsilon, n_items))
    for a, b in combinations(range(n_items), 2):
        kept = sum(chance for output, chance in law.items() if output.index(a) < output.index(b))
        stated = concordance_probability(np.array([b - a]), epsilon, n_items)[0]
        assert stated == pytest.approx(float(kept), abs=1e-10)
    share = sum(chance * agreements(tuple(range(n_items)), s) for s, chance in law.items())
    assert expected_concordance(epsilon, n_items) == pytest.approx(
        float(share / math.comb(n_items, 2)), abs=1e-10
    )


class _RiggedBits:
    """Words at the top of the range first, which have to be drawn again."""

    safe = False

    def __init__(self) -> None:
        self.calls = 0

    def take(self, n_bytes: int) -> bytes:
        raise NotImplementedError

    def words(self, shape: int | tuple[int, ...]) -> np.ndarray:
        self.calls += 1
        word = 2**64 - 1 if self.calls == 1 else 0
        return np.full(shape, word, np.uint64)


def test_words_beyond_the_last_full_range_are_drawn_again() -> None:
    bits = _RiggedBits()
    weights = insertion_weights(np.array([1.0]), 3)
    np.testing.assert_array_equal(sample_positions(weights, 4, bits)[:, 0], [0, 1, 2])
    assert bits.calls == 3  # two insertions and the words that were drawn again


ragged = st.lists(st.integers(0, 7), max_size=30)


@settings(max_examples=40)
@given(ragged, st.booleans(), st.integers(0, 2**32))
def test_lists_of_all_lengths_keep_their_items(
    lengths: list[int], own_epsilon: bool, seed: int
) -> None:
    random = np.random.default_rng(seed)
    sizes = np.array(lengths, np.int64)
    items = np.concatenate([random.permutation(50)[:k] for k in lengths] or [np.zeros(0, int)])
    epsilon = random.uniform(0.1, 5.0, len(sizes)) if own_epsilon else 1.0
    before = items.copy()
    private = synthetic_rankings(items, sizes, epsilon, system_bits())
    np.testing.assert_array_equal(items, before)
    ends = np.cumsum(sizes)
    for start, end in zip(ends - sizes, ends, strict=True):
        assert sorted(private[start:end]) == sorted(items[start:end])


def test_a_large_epsilon_changes_nothing_and_a_small_one_forgets_the_order() -> None:
    sizes = np.tile([2, 5, 300], 40)
    items = np.concatenate([np.arange(k)[::-1] for k in sizes])
    same = synthetic_rankings(items, sizes, 1e6, system_bits())
    np.testing.assert_array_equal(same, items)
    pairs = synthetic_rankings(np.tile([7, 3], DRAWS), np.full(DRAWS, 2), 1e-12, system_bits())
    assert binomial_p_value(int((pairs[::2] == 7).sum()), DRAWS, 0.5) > FALSE_POSITIVE_RATE


def test_everyone_gets_their_own_epsilon() -> None:
    epsilon = np.tile([0.5, 3.0], DRAWS // 2)
    pairs = synthetic_rankings(np.tile([7, 3], DRAWS), np.full(DRAWS, 2), epsilon, system_bits())
    kept = (pairs[::2] == 7).reshape(-1, 2).sum(axis=0)
    for count, own, other in zip(kept, (0.5, 3.0), (3.0, 0.5), strict=True):
        right, wrong = 1 / (1 + math.exp(-own)), 1 / (1 + math.exp(-other))
        assert binomial_p_value(int(count), DRAWS // 2, right) > FALSE_POSITIVE_RATE
        assert binomial_p_value(int(count), DRAWS // 2, wrong) < FALSE_POSITIVE_RATE


def test_blocks_draw_independently(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mallows, "BLOCK_CELLS", 8)
    pairs = synthetic_rankings(np.tile([7, 3], 4000), np.full(4000, 2), 1e-9, seeded_bits(1))
    first = pairs[::2].reshape(-1, 4)
    assert len(np.unique(first, axis=0)) == 16


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.inf, math.nan])
def test_an_epsilon_that_protects_nobody_is_refused(epsilon: float) -> None:
    with pytest.raises(ValueError, match="finite and > 0"):
        synthetic_rankings(np.arange(3), np.array([3]), epsilon, system_bits())
    with pytest.raises(ValueError, match="finite and > 0"):
        concordance_probability(np.array([1]), epsilon, 3)


def test_arguments_that_do_not_fit_are_refused() -> None:
    bits = system_bits()
    with pytest.raises(ValueError, match="sum to the number of items"):
        synthetic_rankings(np.arange(3), np.array([2]), 1.0, bits)
    with pytest.raises(ValueError, match="sum to the number of items"):
        synthetic_rankings(np.arange(3), np.array([4, -1]), 1.0, bits)
    with pytest.raises(ValueError, match="do not match"):
        synthetic_rankings(np.arange(3), np.array([3]), np.array([1.0, 2.0]), bits)
    with pytest.raises(ValueError, match="do not match"):
        sample_positions(insertion_weights(np.array([1.0, 2.0]), 3), 3, bits)
    with pytest.raises(ValueError, match="1 to 65536 items"):
        insertion_weights(np.array([1.0]), 0)
    with pytest.raises(ValueError, match="distances must be 1 to 2"):
        concordance_probability(np.array([3]), 1.0, 3)
