"""Scores and orders from private answers to random pairs: sums, means, intervals, the choice.

All draws are seeded, so a test either always passes or never does.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from hushrank.estimation.rankings import pair_answer_evidence
from hushrank.estimation.rankings.bradley_terry import bradley_terry_estimate
from hushrank.estimation.rankings.mechanism_choice import mallows_epsilon, mallows_places, predicted
from hushrank.estimation.rankings.net_evidence import undone_nets
from hushrank.estimation.rankings.pair_answer_evidence import (
    AnswerSums,
    PairAnswerCounts,
    answered_nets,
    answered_pairs,
    count_answers,
    fitted_nets,
    merge_answers,
    unit_of,
    weights_of,
)
from hushrank.estimation.rankings.ranking_counts import count_rankings, pair_counts
from hushrank.estimation.rankings.ranking_estimates import borda_estimate, kemeny_estimate
from hushrank.privacy.mallows import synthetic_rankings
from hushrank.privacy.random_pairs import (
    Hide,
    RandomPairs,
    answer_pairs,
    best_pairs,
    law_of_epsilon,
    n_pairs,
)
from hushrank.privacy.randomness import seeded_bits
from tests.estimation.scores_alone import scores_alone

Lists = tuple[np.ndarray, np.ndarray]


def lists_of(m: int, people: int, spread: float, seed: int, longest: int | None = None) -> Lists:
    """Rankings by Plackett and Luce; with `longest` of 2 to so many items chosen at random."""
    random = np.random.default_rng(seed)
    utility = truth_of(m, spread) + random.gumbel(size=(people, m))
    lengths = np.full(people, m) if longest is None else random.integers(2, longest + 1, people)
    kept = random.permuted(np.tile(np.arange(m), (people, 1)), axis=1) < lengths[:, None]
    order = np.argsort(-utility, axis=1)
    return order[np.take_along_axis(kept, order, axis=1)], lengths


def truth_of(m: int, spread: float) -> np.ndarray:
    return np.linspace(spread, -spread, m)


def borda_of(m: int, spread: float, longest: int | None = None) -> np.ndarray:
    """Mean half nets of `lists_of`."""
    truth = truth_of(m, spread)
    lengths = np.array([m]) if longest is None else np.arange(2, longest + 1)
    both = (lengths * (lengths - 1)).mean() / (m * (m - 1))
    return both * (expit(truth[:, None] - truth).sum(axis=1) - m / 2)


def counts_of(lists: Lists, m: int, law: RandomPairs, seed: int) -> PairAnswerCounts:
    return count_answers(answer_pairs(*lists, m, law, seeded_bits(seed)), m, m, law)


def same(one: PairAnswerCounts, other: PairAnswerCounts) -> bool:
    return all(np.array_equal(one.arrays()[name], other.arrays()[name]) for name in one.arrays())


@pytest.mark.parametrize("hide", Hide)
def test_counts_are_what_a_loop_counts_in_every_split(hide: Hide) -> None:
    law = law_of_epsilon(2.0, 3, hide)
    lists = lists_of(6, 200, 1.0, 1, longest=6)
    answers = answer_pairs(*lists, 6, law, seeded_bits(2))
    whole = count_answers(answers, 6, 6, law)
    wins, asked, squares = np.zeros((3, 6, 6), np.int64)
    nets = np.zeros((len(answers), 6), np.int64)
    for a, b, outcome, ranking in zip(
        answers.first, answers.second, answers.outcome, answers.ranking, strict=True
    ):
        length = int(answers.lengths[ranking])
        weight = 1 if hide is Hide.ITEMS else max(length * (length - 1) // 2, 3)
        for x, y, said in ((a, b, outcome), (b, a, -outcome)):
            wins[x, y] += weight * (said == 1)
            asked[x, y] += weight
            squares[x, y] += weight**2
            nets[ranking, x] += weight * said
    np.testing.assert_array_equal(whole.wins, wins)
    np.testing.assert_array_equal(whole.asked, asked)
    np.testing.assert_array_equal(whole.squares, squares)
    np.testing.assert_array_equal(whole.moments, nets.T @ nets)
    ends, parts = np.append(0, np.cumsum(lists[1])), []
    for rows in np.split(np.arange(200), [7, 120]):
        own = answers.ranking >= rows[0]
        own &= answers.ranking <= rows[-1]
        part = type(answers)(
            answers.first[own], answers.second[own], answers.outcome[own],
            answers.ranking[own] - rows[0], answers.lengths[rows],
        )  # fmt: skip
        parts.append(count_answers(part, 6, 6, law))
    assert ends[-1] == len(lists[0])
    assert same(merge_answers(parts), whole)
    assert same(merge_answers(parts[::-1]), whole)


def test_sums_of_large_weights_are_exact_and_too_large_ones_are_refused(monkeypatch) -> None:
    cells, weights = np.zeros(3000, np.int64), np.full(3000, 499_500**2 + 1)
    total = pair_answer_evidence._summed(cells, weights, (1, 1))
    assert int(total[0, 0]) == 3000 * (499_500**2 + 1)
    monkeypatch.setattr(pair_answer_evidence, "LARGEST_SUM", 10)
    with pytest.raises(ValueError, match="too many rankings"):
        counts_of(lists_of(5, 10, 1.0, 1), 5, law_of_epsilon(1.0, 1), 1)


@pytest.mark.parametrize(
    ("hide", "longest", "d"),
    [(Hide.ORDER, None, 1), (Hide.ORDER, 5, 2), (Hide.ITEMS, 5, 1), (Hide.ITEMS, None, 3)],
)
def test_sums_over_true_rankings_are_met_on_average(hide: Hide, longest: int, d: int) -> None:
    """By sums and by ratio, for fixed rankings; within 4.5 standard errors of the mean."""
    lists, m = lists_of(5, 300, 1.5, 4, longest), 5
    wins = pair_counts(*lists, m)
    law = law_of_epsilon(2.0, d, hide)
    exact = (wins - wins.T).sum(axis=1) / 2
    drawn = [counts_of(lists, m, law, seed) for seed in range(300)]
    found = [answered_nets(AnswerSums.of([(counts, law)])).sums for counts in drawn]
    error = np.std(found, axis=0, ddof=1) / np.sqrt(len(found))
    assert (np.abs(np.mean(found, axis=0) - exact) < 4.5 * error).all()
    margins = [answered_pairs(AnswerSums.of([(counts, law)])).margins for counts in drawn]
    error = np.std(margins, axis=0, ddof=1) / np.sqrt(300) + np.eye(m)
    assert (np.abs(np.mean(margins, axis=0) - (wins - wins.T)) < 4.5 * error).all()
    undivided = law_of_epsilon(4.0, d, hide)  # undone by another law: seen
    wrong = [answered_nets(AnswerSums.of([(counts, undivided)])).sums for counts in drawn]
    assert not (np.abs(np.mean(wrong, axis=0) - exact) < 4.5 * error[0, 1]).all()


# m, people, epsilon, d (0: the best), spread, longest list, hidden
COVERAGE = [
    (4, 300, 1.0, 0, 1.8, None, Hide.ORDER),
    (5, 400, 6.0, 0, 0.3, None, Hide.ORDER),
    (8, 600, 12.0, 0, 1.8, None, Hide.ORDER),
    (6, 800, 6.0, 3, 1.2, 6, Hide.ORDER),
    (8, 1000, 4.0, 1, 1.8, 5, Hide.ORDER),
    (5, 600, 6.0, 2, 1.8, None, Hide.ITEMS),
    (6, 1500, 5.0, 0, 1.2, 4, Hide.ITEMS),
]


@pytest.mark.parametrize(("m", "people", "epsilon", "d", "spread", "longest", "hide"), COVERAGE)
def test_intervals_hold_the_truth(m, people, epsilon, d, spread, longest, hide) -> None:
    """130 repetitions; 1.9 points is the standard error for one item, about 1 for all."""
    law = law_of_epsilon(epsilon, d or best_pairs(epsilon, m, hide), hide)
    truth, rank = borda_of(m, spread, longest), np.arange(1, m + 1)
    held, ranked = [], []
    for seed in range(130):
        counts = counts_of(lists_of(m, people, spread, seed, longest), m, law, seed)
        with scores_alone():
            borda = borda_estimate(answered_nets(AnswerSums.of([(counts, law)]))).estimate
        held.append((borda.low <= truth) & (truth <= borda.high))
        kemeny, _ = kemeny_estimate(answered_pairs(AnswerSums.of([(counts, law)])))
        ranked.append((kemeny.rank_low <= rank) & (rank <= kemeny.rank_high))
    share = np.mean(held, axis=0)
    assert 0.92 < share.mean() < 0.98
    assert 0.89 < share[0] <= 1.0
    assert 0.89 < share[-1] <= 1.0
    assert np.mean(ranked) > 0.95


@pytest.mark.parametrize(
    ("m", "people", "epsilon", "spread", "longest"),
    [(4, 1000, 2.0, 1.8, None), (5, 400, 6.0, 0.6, None), (6, 1500, 4.0, 1.2, 5)],
)
@scores_alone()
def test_intervals_of_a_likelihood_hold_the_truth(m, people, epsilon, spread, longest) -> None:
    """50 repetitions: 1.5 points is the standard error for all items, 3 for one.

    So 0.91 is 2.7 of them below 0.95. Intervals of 0.7 times the width would hold 83 %.
    """
    law = law_of_epsilon(epsilon, best_pairs(epsilon, m, Hide.ORDER))
    truth, held, narrower = truth_of(m, spread), [], []
    for seed in range(50):
        counts = counts_of(lists_of(m, people, spread, seed, longest), m, law, seed)
        evidence = fitted_nets(AnswerSums.of([(counts, law)]), 1.0)
        found = bradley_terry_estimate(evidence, 1.0).estimate
        held.append((found.low <= truth) & (truth <= found.high))
        low, high = (0.7 * end + 0.3 * found.scores for end in (found.low, found.high))
        narrower.append((low <= truth) & (truth <= high))
    share = np.mean(held, axis=0)
    assert 0.91 < share.mean() < 0.99
    assert min(share[0], share[-1]) > 0.87
    assert np.mean(narrower) < 0.91


def test_answers_as_they_are_have_no_interval_and_smaller_scores() -> None:
    law = law_of_epsilon(1.0, 1)
    counts = counts_of(lists_of(5, 4000, 1.8, 1), 5, law, 1)
    as_they_are = AnswerSums.of([(counts, law)], undone=False)
    plain, undone = answered_nets(as_they_are), answered_nets(AnswerSums.of([(counts, law)]))
    np.testing.assert_allclose(plain.sums, law.attenuation * undone.sums)
    estimate = borda_estimate(plain).estimate
    assert np.isinf(estimate.high).all()
    assert np.isinf(bradley_terry_estimate(fitted_nets(as_they_are, 1.0)).estimate.high).all()


def test_nobody_and_nothing_that_is_answered_is_no_error() -> None:
    law = law_of_epsilon(1.0, 1)
    none = counts_of((np.zeros(0, np.int64), np.zeros(4, np.int64)), 5, law, 1)
    assert none.rankings == 4
    answers = AnswerSums.of([(none, law)])
    assert not borda_estimate(answered_nets(answers)).estimate.informative
    assert not kemeny_estimate(answered_pairs(answers))[0].informative
    assert not bradley_terry_estimate(fitted_nets(answers, 1.0)).estimate.informative
    with pytest.raises(ValueError, match="hide which items"):
        fitted_nets(AnswerSums.of([(none, law_of_epsilon(1.0, 1, Hide.ITEMS))]), 1.0)
    with pytest.raises(ValueError, match="more than 5 items"):
        count_answers(answer_pairs(*lists_of(6, 3, 1, 1), 6, law, seeded_bits(1)), 6, 5, law)


def test_weights_make_every_list_count_once() -> None:
    law = law_of_epsilon(1.0, 4)
    lengths = np.array([0, 2, 3, 5])
    pairs = lengths * (lengths - 1) // 2
    np.testing.assert_allclose(
        unit_of(law, 9) * weights_of(lengths, law) * np.minimum(pairs, 4), pairs
    )
    hidden = law_of_epsilon(1.0, 4, Hide.ITEMS)
    assert unit_of(hidden, 9) * 4 == n_pairs(9)


@pytest.mark.parametrize(("m", "whole"), [(5, 2.5), (10, 15.0)])
def test_the_predicted_errors_are_those_measured(m: int, whole: float) -> None:
    """Scores of rankings that are all equally likely, by both mechanisms; 5 standard errors."""
    law = law_of_epsilon(whole, best_pairs(whole, m, Hide.ORDER))
    epsilon, people = mallows_epsilon(whole, m), 1000
    assert epsilon * m / 2 <= whole
    errors = []
    for seed in range(60):
        items, lengths = lists_of(m, people, 0.0, seed)
        private = synthetic_rankings(items, lengths, epsilon, seeded_bits(seed))
        synthetic = count_rankings(private, lengths, m, m, by_place=True)
        answered = counts_of((items, lengths), m, law, seed)
        nets = (
            undone_nets(synthetic, lambda k: mallows_places(k, epsilon)),
            answered_nets(AnswerSums.of([(answered, law)])),
        )
        errors.append([np.square(each.sums / people).mean() for each in nets])
    measured = np.sqrt(np.mean(errors, axis=0) * people)
    chance = 5 / np.sqrt(2 * 60 * (m - 1))
    found = predicted(law, m, by_pairs=False)
    assert measured == pytest.approx([found.mallows, found.random_pairs], rel=chance)


def test_the_better_mechanism_follows_items_and_epsilon() -> None:
    def choice(m: int, whole: float, *, by_pairs: bool) -> bool:
        law = law_of_epsilon(whole, best_pairs(whole, m, Hide.ORDER))
        return predicted(law, m, by_pairs=by_pairs).takes_pairs

    assert [choice(10, each, by_pairs=True) for each in (1.0, 5.0, 15.0, 50.0)] == [
        True,
        True,
        True,
        False,
    ]
    assert [choice(10, each, by_pairs=False) for each in (1.0, 5.0, 15.0, 50.0)] == [
        True,
        True,
        True,
        False,
    ]
    assert choice(40, 50.0, by_pairs=False)
    assert choice(1000, 5.0, by_pairs=True)


def test_an_item_that_nobody_ranked_has_no_place_where_lists_are_hidden() -> None:
    """Every pair is asked, so only the answers tell that nobody had both of its items."""
    law = law_of_epsilon(6.0, 2, Hide.ITEMS)
    items, lengths = np.tile([0, 1, 3, 4], 2_000), np.full(2_000, 4)
    counts = count_answers(answer_pairs(items, lengths, 5, law, seeded_bits(3)), 5, 5, law)
    found = borda_estimate(answered_nets(AnswerSums.of([(counts, law)]))).estimate
    assert (found.rank_low[2], found.rank_high[2]) == (1, 5)
    assert np.isinf([found.low[2], found.high[2]]).all()
    assert found.rank_high[0] < 5
