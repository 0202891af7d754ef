"""Random pairs: the exact loss by enumeration, the law, black-box audits and thresholds.

False-positive rate of each statistical assertion: 1e-6.
"""

from __future__ import annotations

import math
from collections import defaultdict
from decimal import Decimal, getcontext
from itertools import chain, combinations, permutations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from hushrank.privacy import random_pairs
from hushrank.privacy.audit import audit_epsilon
from hushrank.privacy.mallows import LARGEST_WORD
from hushrank.privacy.random_pairs import (
    A_THIRD,
    Hide,
    PairAnswers,
    RandomPairs,
    answer_pairs,
    best_pairs,
    draw_subsets,
    law_of_epsilon,
    n_pairs,
)
from hushrank.privacy.randomness import seeded_bits, system_bits
from tests.statistics import FALSE_POSITIVE_RATE

DRAWS = 40_000


class Script:
    """Words in the order in which `answer_pairs` asks for them; each call takes the next."""

    def __init__(self, words: list[np.ndarray]) -> None:
        self._words = words

    def words(self, n: int) -> np.ndarray:
        """The next words, the same for every ranking."""
        own = self._words.pop(0)
        assert n % len(own) == 0
        return np.tile(own, n // len(own))


def flat(rankings: list[tuple[int, ...]]) -> tuple[np.ndarray, np.ndarray]:
    """Rankings as `answer_pairs` takes them."""
    return np.array([*chain(*rankings)], np.int64), np.array([*map(len, rankings)], np.int64)


def exact_laws(rankings: list[tuple[int, ...]], n_items: int, law: RandomPairs) -> list[dict]:
    """P(output) of each ranking, from the code that draws: every draw and every turn, once.

    All rankings must have as many pairs to draw from.
    """
    total = n_pairs(n_items if law.hide is Hide.ITEMS else len(rankings[0]))
    size, p = min(law.pairs, total), law.threshold / 2.0**64
    kept = 1 - (1 if law.hide is Hide.ORDER else 2) * p
    threshold = law.threshold
    turns = [(threshold - 1, p), (2 * threshold, kept)]
    if law.hide is Hide.ITEMS:
        turns.insert(1, (2 * threshold - 1, p))
    laws: list[dict] = [defaultdict(float) for _ in rankings]
    for drawn in product(*(range(last + 1) for last in range(total - size, total))):
        chance = math.prod(1 / (last + 1) for last in range(total - size, total))
        starts = [
            np.array([number * int(LARGEST_WORD // np.uint64(last + 1))], np.uint64)
            for number, last in zip(drawn, range(total - size, total), strict=True)
        ]
        for turned in product(turns, repeat=size):
            answers = np.array([min(word, 2**64 - 1) for word, _ in turned], np.uint64)
            script = Script([*starts, answers])
            found = answer_pairs(*flat(rankings), n_items, law, script)  # type: ignore[arg-type]
            weight = chance * math.prod(each for _, each in turned)
            for number, own in enumerate(laws):
                own[output_of(found, number)] += weight
    return laws


def output_of(answers: PairAnswers, number: int) -> tuple:
    """All that anybody sees of one ranking."""
    own = answers.ranking == number
    said = zip(answers.first[own], answers.second[own], answers.outcome[own], strict=True)
    return int(answers.lengths[number]), *sorted(map(tuple, said))


def largest_ratio(laws: list[dict]) -> float:
    """The largest log ratio of the probabilities of one output."""
    outputs = set(chain(*laws))
    table = np.array([[law[output] for output in outputs] for law in laws])
    assert (table > 0).all()  # no output rules a ranking out
    np.testing.assert_allclose(table.sum(axis=1), 1.0, rtol=1e-12)
    return float(np.log(table.max(axis=0) / table.min(axis=0)).max())


@pytest.mark.parametrize("epsilon", [0.3, 2.0, 7.0])
@pytest.mark.parametrize(("m", "d"), [(2, 1), (3, 1), (3, 2), (3, 3), (4, 1), (4, 2), (4, 3)])
def test_the_order_of_a_ranking_loses_epsilon_and_no_more(m: int, d: int, epsilon: float) -> None:
    """All rankings of the same items, all outputs."""
    law = law_of_epsilon(epsilon, d)
    items = (0, 2, 3, 5)[:m]
    worst = largest_ratio(exact_laws([*permutations(items)], 6, law))
    assert worst <= epsilon * (1 + 1e-12)
    assert worst == pytest.approx(epsilon, rel=1e-9)  # attained


@pytest.mark.parametrize("epsilon", [0.3, 2.0, 7.0])
@pytest.mark.parametrize(("n_items", "d"), [(2, 1), (3, 1), (3, 2), (4, 1)])
def test_hidden_items_lose_epsilon_and_no_more(n_items: int, d: int, epsilon: float) -> None:
    """All rankings of all sets of items, the empty one too."""
    law = law_of_epsilon(epsilon, d, Hide.ITEMS)
    every = [
        order
        for size in range(n_items + 1)
        for items in combinations(range(n_items), size)
        for order in permutations(items)
    ]
    worst = largest_ratio(exact_laws(every, n_items, law))
    assert worst <= epsilon * (1 + 1e-12)
    assert worst == pytest.approx(epsilon, rel=1e-9)


def test_lists_of_other_items_are_told_apart_only_where_that_is_not_hidden() -> None:
    laws = exact_laws([(0, 1, 2), (0, 1, 3)], 4, law_of_epsilon(1.0, 1))
    assert any(laws[1][output] == 0 for output in [*laws[0]])


@given(st.floats(1e-9, 1e6), st.integers(1, 20), st.sampled_from(Hide))
def test_thresholds_never_give_more_than_the_stated_loss(
    epsilon: float, pairs: int, hide: Hide
) -> None:
    getcontext().prec = 60
    law, others = law_of_epsilon(epsilon, pairs, hide), 1 + (hide is Hide.ITEMS)
    words, threshold = Decimal(2) ** 64, Decimal(law.threshold)
    assert 1 <= law.threshold <= (2**63 if others == 1 else A_THIRD)
    loss = pairs * ((words - others * threshold) / threshold).ln()
    assert 0 <= loss <= Decimal(epsilon)
    if epsilon / pairs < 15:
        assert float(loss) == pytest.approx(epsilon, rel=2e-12, abs=4e-12 * pairs)
    kept = 1 - others * float(threshold / words)
    assert law.attenuation == pytest.approx(kept - float(threshold / words), abs=1e-15)


def share_p_value(hits: int, n: int, epsilon: float, others: int, *, true: bool) -> float:
    """That so many of n answers are the true one, or one of the others."""
    chance = (math.exp(epsilon) if true else 1.0) / (math.exp(epsilon) + others)
    return float(stats.binomtest(hits, n, chance).pvalue)


@pytest.mark.parametrize("hide", Hide)
def test_answers_follow_the_law_and_no_other_scale(hide: Hide) -> None:
    """The share of true answers, for each truth; an epsilon 20 % off is seen."""
    law = law_of_epsilon(3.0, 2, hide)
    ranking = np.array([3, 0, 2])
    answers = answer_pairs(np.tile(ranking, DRAWS), np.full(DRAWS, 3), 4, law, system_bits())
    place = {3: 0, 0: 1, 2: 2}
    pairs = (
        {*combinations(sorted(place), 2)} if hide is Hide.ORDER else {*combinations(range(4), 2)}
    )
    for first, second in pairs:
        truth = 0
        if first in place and second in place:
            truth = 1 if place[first] < place[second] else -1
        own = answers.outcome[(answers.first == first) & (answers.second == second)]
        others = 1 if hide is Hide.ORDER else 2
        for outcome in (1, -1, 0)[: others + 1]:
            hits = int((own == outcome).sum())
            right, low, high = (
                share_p_value(hits, len(own), each / 2, others, true=outcome == truth)
                for each in (3.0, 2.4, 3.6)
            )
            assert right > FALSE_POSITIVE_RATE
            assert max(low, high) < FALSE_POSITIVE_RATE
    drawn = np.bincount(answers.first * 4 + answers.second)
    drawn = drawn[drawn > 0]
    assert len(drawn) == len(pairs)
    assert stats.chisquare(drawn).pvalue > FALSE_POSITIVE_RATE


def test_which_pairs_are_drawn_does_not_depend_on_the_order() -> None:
    law = law_of_epsilon(1.0, 2)
    orders = [np.tile(order, DRAWS) for order in ((0, 1, 2, 3), (2, 3, 1, 0))]
    drawn = []
    for items in orders:
        found = answer_pairs(items, np.full(DRAWS, 4), 4, law, seeded_bits(5))
        drawn.append(np.column_stack([found.first, found.second]))
    np.testing.assert_array_equal(*drawn)


def subsets_p_value(drawn: np.ndarray) -> float:
    counts = np.unique(np.sort(drawn, axis=1), axis=0, return_counts=True)[1]
    return float(stats.chisquare(counts).pvalue) if len(counts) == 10 else 0.0


def test_every_subset_is_as_likely() -> None:
    drawn = draw_subsets(DRAWS, 5, 2, system_bits())
    assert (np.sort(drawn, axis=1)[:, 0] < np.sort(drawn, axis=1)[:, 1]).all()
    assert subsets_p_value(drawn) > FALSE_POSITIVE_RATE
    skewed = np.where(drawn == 4, (drawn + 1) % 5, drawn)  # item 4 becomes item 0
    assert subsets_p_value(skewed) < FALSE_POSITIVE_RATE


def test_words_that_would_favour_some_pairs_are_drawn_again() -> None:
    largest = np.array([LARGEST_WORD, np.uint64(0)])
    script = Script([largest, np.array([np.uint64(2**63)])])
    assert random_pairs._below(3, 2, script).tolist() == [1, 0]  # type: ignore[arg-type]


def release(law: RandomPairs, planted: str = "") -> object:
    """The mechanism as an audit calls it: the pair and the outcome of both answers."""

    def run(order: tuple[int, ...], runs: int) -> np.ndarray:
        own = law
        if planted == "undivided":
            own = law_of_epsilon(law.epsilon * law.pairs, law.pairs)
        found = answer_pairs(np.tile(order, runs), np.full(runs, 3), 3, own, system_bits())
        columns = np.column_stack([found.first, found.second, found.outcome]).reshape(runs, -1)
        if planted == "looks":  # the first pair is that of the two best items
            columns[:, 0], columns[:, 1] = min(order[:2]), max(order[:2])
        return columns.astype(float)

    return run


@pytest.mark.parametrize(
    ("planted", "least", "most"), [("", 0.7, 1.0), ("undivided", 1.05, 9.0), ("looks", 1.05, 99.0)]
)
def test_an_audit_finds_the_loss_and_planted_bugs(planted: str, least: float, most: float) -> None:
    law = law_of_epsilon(1.0, 2)
    found = audit_epsilon(
        release(law, planted),  # type: ignore[arg-type]
        (0, 1, 2), (2, 1, 0), trials=DRAWS, confidence=1 - FALSE_POSITIVE_RATE,
    )  # fmt: skip
    assert least < found.epsilon_lower <= most


def test_an_audit_of_hidden_items_finds_a_pair_of_ranked_items() -> None:
    def run(ranked: tuple[int, ...], runs: int, hide: Hide = Hide.ITEMS) -> np.ndarray:
        law = law_of_epsilon(1.0, 1, hide)
        items, lengths = np.tile(ranked, runs), np.full(runs, len(ranked))
        found = answer_pairs(items, lengths, 4, law, system_bits())
        return np.column_stack([found.first, found.second, found.outcome]).astype(float)

    inputs = {"trials": DRAWS, "confidence": 1 - FALSE_POSITIVE_RATE}
    assert audit_epsilon(run, (0, 1), (2, 3), **inputs).epsilon_lower <= 1.0  # type: ignore[arg-type]
    shown = audit_epsilon(lambda each, n: run(each, n, Hide.ORDER), (0, 1), (2, 3), **inputs)  # type: ignore[arg-type]
    assert shown.epsilon_lower > 1.0


def test_lists_of_all_lengths_answer_what_they_can() -> None:
    items, lengths = flat([(4, 1), (), (2,), (0, 1, 2, 3), (3, 0, 4)])
    found = answer_pairs(items, lengths, 5, law_of_epsilon(180.0, 4), system_bits())
    assert np.bincount(found.ranking, minlength=5).tolist() == [1, 0, 0, 4, 3]
    np.testing.assert_array_equal(found.lengths, lengths)
    assert (found.first < found.second).all()
    own = found.ranking == 4
    said = dict(
        zip(zip(found.first[own], found.second[own], strict=True), found.outcome[own], strict=True)
    )
    assert said == {(0, 3): -1, (0, 4): 1, (3, 4): 1}
    law = law_of_epsilon(450.0, 10, Hide.ITEMS)  # another answer once in 10^17
    hidden = answer_pairs(items, lengths, 5, law, system_bits())
    assert not hidden.lengths.any()
    assert np.bincount(hidden.ranking).tolist() == [10] * 5
    assert np.bincount(hidden.ranking, hidden.outcome != 0).tolist() == [1, 0, 0, 6, 3]


def test_blocks_draw_independently(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random_pairs, "BLOCK_CELLS", 8)
    for hide in Hide:
        law = law_of_epsilon(1e-9, 1, hide)
        found = answer_pairs(np.tile([1, 0], 4000), np.full(4000, 2), 2, law, seeded_bits(1))
        blocks = found.outcome.reshape(-1, 4)
        assert len(np.unique(blocks, axis=0)) == (16 if hide is Hide.ORDER else 81)


def test_the_best_number_of_pairs_follows_epsilon() -> None:
    assert [best_pairs(each, 10, Hide.ORDER) for each in (0.1, 3.05, 3.07, 10, 50)] == [
        1,
        1,
        2,
        5,
        23,
    ]
    assert best_pairs(50.0, 3, Hide.ORDER) == 3  # no more than there are
    for hide in Hide:
        laws = [law_of_epsilon(9.0, d, hide) for d in range(1, 10)]
        spread = [1.0 if hide is Hide.ORDER else 1 - each.threshold / 2.0**64 for each in laws]
        errors = [
            s / each.pairs / each.attenuation**2 for s, each in zip(spread, laws, strict=True)
        ]
        assert best_pairs(9.0, 10, hide) == 1 + int(np.argmin(errors))


def test_arguments_that_do_not_fit_are_refused() -> None:
    for epsilon in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(ValueError, match="finite and > 0"):
            law_of_epsilon(epsilon, 1)
    with pytest.raises(ValueError, match="pairs must be 1 to 100"):
        law_of_epsilon(1.0, 0)
    law = law_of_epsilon(1.0, 4, Hide.ITEMS)
    with pytest.raises(ValueError, match="sum to the number of items"):
        answer_pairs(np.arange(3), np.array([2]), 3, law, system_bits())
    with pytest.raises(ValueError, match="fewer than 4 pairs"):
        answer_pairs(np.arange(3), np.array([3]), 3, law, system_bits())
