"""The law of simulated rows: who meets what, who wins, how much people answer."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest

from hushrank.pipelines.simulate import simulated_rows
from hushrank.pipelines.simulate.simulated_rows import (
    BLOCK_ROWS,
    SimulationSpec,
    comparison_blocks,
    draw_distinct,
    n_blocks,
    pair_items,
    rows_per_person,
)
from tests.statistics import FALSE_POSITIVE_RATE, binomial_p_value, cells_p_value, uniform_p_value


def rows(spec):
    """All blocks of a small survey in one."""
    blocks = list(comparison_blocks(spec))
    return {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}


@pytest.mark.parametrize("n", [2, 3, 4, 5, 6, 7, 12])
def test_pair_numbers_are_a_bijection(n):
    left, right = pair_items(np.arange(n * (n - 1) // 2), n)
    met = {frozenset(pair) for pair in zip(left.tolist(), right.tolist(), strict=True)}
    assert met == set(map(frozenset, combinations(range(n), 2)))


@pytest.mark.parametrize("link", ["logistic", "probit", "laplace"])
def test_winners_follow_the_link(link):
    spec = SimulationSpec(
        items=4, people=100_000, comparisons=6, link=link, scores=(1.2, 0.4, -0.5, -1.1)
    )
    log = rows(spec)
    scores = spec.true_scores()
    for one, other in combinations(range(4), 2):
        met = ((log["item_i"] == one) & (log["item_j"] == other)) | (
            (log["item_i"] == other) & (log["item_j"] == one)
        )
        first_won = (log["outcome"] == 1) == (log["item_i"] == one)
        wins, trials = int((met & first_won).sum()), int(met.sum())

        def p_value(distance, wins=wins, trials=trials):
            chance = float(spec.win_model.cdf(np.array([distance]))[0])
            return binomial_p_value(wins, trials, chance)

        distance = scores[one] - scores[other]
        assert trials == spec.people
        assert p_value(distance) > FALSE_POSITIVE_RATE
        assert p_value(1.15 * distance) < FALSE_POSITIVE_RATE
        assert p_value(0.85 * distance) < FALSE_POSITIVE_RATE
        assert p_value(-distance) < FALSE_POSITIVE_RATE


def test_ties_are_a_share_of_every_pair_and_leave_the_winners_alone():
    spec = SimulationSpec(items=2, people=200_000, comparisons=1, scores=(0.5, -0.5), ties=0.3)
    log = rows(spec)
    decided = log["outcome"] != 0
    first_won = decided & ((log["outcome"] == 1) == (log["item_i"] == 0))
    chance = float(spec.win_model.cdf(np.array([1.0]))[0])
    assert set(np.unique(log["outcome"])) == {-1, 0, 1}
    for successes, trials, probability in (
        ((~decided).sum(), spec.people, 0.3),
        (first_won.sum(), decided.sum(), chance),
    ):
        assert binomial_p_value(int(successes), int(trials), probability) > FALSE_POSITIVE_RATE
        wrong = 1.05 * probability
        assert binomial_p_value(int(successes), int(trials), wrong) < FALSE_POSITIVE_RATE


@pytest.mark.parametrize("ties", [0.0, 1.0])
def test_none_or_all_tied(ties):
    log = rows(SimulationSpec(items=5, people=1000, comparisons=5, ties=ties))
    assert ((log["outcome"] == 0) == (ties == 1.0)).all()


@pytest.mark.parametrize("distinct", [True, False])
def test_ordered_pairs_are_equally_likely(distinct):
    spec = SimulationSpec(items=5, people=200_000, comparisons=1, distinct_pairs=distinct)
    log = rows(spec)
    cells = np.bincount(log["item_i"] * 5 + log["item_j"], minlength=25)
    off_diagonal = cells[~np.eye(5, dtype=bool).ravel()]
    assert cells[:: 5 + 1].sum() == 0
    assert uniform_p_value(off_diagonal) > FALSE_POSITIVE_RATE
    off_diagonal[0] += 1000  # 1 pair in 20 a tenth too often
    assert uniform_p_value(off_diagonal) < FALSE_POSITIVE_RATE


@pytest.mark.parametrize(
    ("n_values", "size"),
    [(15, 3), (9, 2), (6, 2), (6, 3), (6, 6)],  # first two: redrawn; others: shuffled
)
def test_every_set_of_distinct_values_is_equally_likely(n_values, size):
    people = 120_000
    keys = draw_distinct(np.full(people, size), n_values, np.random.default_rng(5))
    person, value = np.divmod(np.sort(keys), n_values)
    assert (person == np.repeat(np.arange(people), size)).all()
    sets = value.reshape(people, size)
    assert (np.diff(sets, axis=1) > 0).all()
    _, counts = np.unique(sets @ n_values ** np.arange(size), return_counts=True)
    assert len(counts) == math.comb(n_values, size)
    if len(counts) > 1:
        assert uniform_p_value(counts) > FALSE_POSITIVE_RATE
        biased = np.full(len(counts), 1 / len(counts))
        biased[: len(counts) // 2] *= 1.08
        assert cells_p_value(counts, biased / biased.sum()) < FALSE_POSITIVE_RATE


def test_people_of_different_appetite_are_kept_apart():
    counts = np.array([1, 10, 0, 3, 9, 2])
    keys = draw_distinct(counts, 10, np.random.default_rng(1))
    assert len(np.unique(keys)) == counts.sum()
    assert (np.bincount(keys // 10, minlength=6) == counts).all()


def test_everybody_answers_as_often_as_stated():
    spec = SimulationSpec(
        items=40, people=1000, comparisons=7, heavy_share=0.05, heavy_factor=20, seed=3
    )
    answers = np.bincount(rows(spec)["user"], minlength=1000)
    assert len(answers) == 1000
    assert (answers == 7 * 20).sum() == 50
    assert (answers == 7).sum() == 950


def test_nobody_answers_more_than_there_are_pairs():
    spec = SimulationSpec(items=6, people=100, comparisons=15, heavy_share=0.5, heavy_factor=9)
    assert (np.bincount(rows(spec)["user"]) == 15).all()


def test_varying_answers_are_geometric_with_that_mean():
    spec = SimulationSpec(items=100, people=200_000, comparisons=4, varying=True)
    counts = rows_per_person(spec, 0, spec.people, np.random.default_rng(2))
    cells = np.bincount(np.minimum(counts, 12))[1:]

    def p_value(mean):
        law = (1 - 1 / mean) ** np.arange(11) / mean
        return cells_p_value(cells, np.append(law, 1 - law.sum()))

    assert p_value(4) > FALSE_POSITIVE_RATE
    assert p_value(4.1) < FALSE_POSITIVE_RATE
    assert p_value(3.9) < FALSE_POSITIVE_RATE


def test_the_same_seed_gives_the_same_rows_and_another_one_others():
    spec = SimulationSpec(items=10, people=500, comparisons=5)
    first, again = rows(spec), rows(spec)
    other = rows(SimulationSpec(items=10, people=500, comparisons=5, seed=1))
    for name in first:
        np.testing.assert_array_equal(first[name], again[name])
    assert (first["outcome"] != other["outcome"]).mean() > 0.3


def test_optional_columns_change_no_other():
    plain = rows(SimulationSpec(items=10, people=500, comparisons=5))
    spec = SimulationSpec(items=10, people=500, comparisons=5, events=True, epsilons=(0.5, 2.0))
    rich = rows(spec)
    assert list(rich) == [*plain, "event", "epsilon"]
    for name in plain:
        np.testing.assert_array_equal(plain[name], rich[name])


def test_an_event_is_one_row_and_an_epsilon_one_person(monkeypatch):
    monkeypatch.setattr(simulated_rows, "BLOCK_ROWS", 1000)
    spec = SimulationSpec(
        items=10, people=2000, comparisons=5, events=True, epsilons=(0.5, 1.0, 2.0)
    )
    log = rows(spec)
    assert n_blocks(spec) == 10
    assert len(np.unique(log["event"])) == len(log["event"]) == 10_000
    epsilons = [set(log["epsilon"][log["user"] == user].tolist()) for user in range(2000)]
    assert all(len(levels) == 1 for levels in epsilons)
    assert set().union(*epsilons) == {0.5, 1.0, 2.0}


@pytest.mark.parametrize(
    "spec",
    [
        SimulationSpec(items=50, people=400_000),
        SimulationSpec(items=3, people=3_000_000, comparisons=1),
        SimulationSpec(items=900, people=3000, comparisons=100, heavy_share=0.01, heavy_factor=900),
    ],
    ids=["many rows", "many people", "heavy users"],
)
def test_a_block_never_holds_much_more_than_its_size(spec):
    sizes = [len(block["user"]) for block in comparison_blocks(spec)]
    assert len(sizes) == n_blocks(spec) > 2
    assert sum(sizes) == pytest.approx(spec.people * spec.mean_comparisons)
    assert max(sizes) <= 1.2 * BLOCK_ROWS
