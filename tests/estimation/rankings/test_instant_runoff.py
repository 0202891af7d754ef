"""Instant runoff: rounds against counting ballot by ballot, the law of their noise, and what is
called sure against exact rounds.

pref_voting 1.18.2 had the same winner in all of 739 random elections without ties, once.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chi2

from hushrank.estimation.rankings.election_rules import (
    Rounds,
    first_choices,
    n_sets,
    release_rounds,
)
from hushrank.privacy.noise import NoiseLaw
from hushrank.privacy.randomness import seeded_bits
from hushrank.privacy.units import NoiseKind
from tests.statistics import FALSE_POSITIVE_RATE

Ballots = list[NDArray[np.int64]]
EXACT = NoiseLaw(NoiseKind.GAUSSIAN, 0.0)


def ballots_of(rng: np.random.Generator, n: int, longest: int, n_items: int) -> Ballots:
    """Plackett-Luce ballots of different lengths, scores with a standard deviation of 0.6."""
    scores = rng.normal(0, 0.6, n_items)
    orders = np.argsort(-(scores + rng.gumbel(size=(n, n_items))), axis=1)
    return [row[: rng.integers(1, longest + 1)] for row in orders]


def firsts_of(ballots: Ballots, n_items: int, longest: int) -> NDArray[np.int64]:
    lengths = np.array([len(each) for each in ballots])
    return first_choices(np.concatenate(ballots), lengths, n_items, longest)


def counted_one_by_one(ballots: Ballots, n_items: int) -> tuple[NDArray[np.int64], list[int]]:
    """Rounds by their definition, and the items, best first."""
    left, rounds, order = set(range(n_items)), [], list[int]()
    while len(left) > 1:
        counts = np.zeros(n_items + 1, np.int64)
        for ballot in ballots:
            counts[next((item for item in ballot if item in left), n_items)] += 1
        rounds.append(counts)
        order.insert(0, min(left, key=lambda item: (counts[item], -item)))
        left.remove(order[0])
    return np.array(rounds), [*left, *order]


@pytest.mark.parametrize(("n_items", "longest"), [(2, 2), (4, 4), (5, 3), (7, 2), (6, 6)])
def test_rounds_without_noise_are_those_of_counting_every_ballot(n_items: int, longest: int):
    ballots = ballots_of(np.random.default_rng(n_items), 120, longest, n_items)
    firsts = firsts_of(ballots, n_items, longest)
    assert firsts.shape == (n_sets(n_items, longest), n_items)
    parts = (firsts_of(ballots[:50], n_items, longest), firsts_of(ballots[50:], n_items, longest))
    assert (sum(parts) == firsts).all()
    rounds, order = counted_one_by_one(ballots, n_items)
    released = release_rounds(firsts, longest, EXACT, seeded_bits(1))
    assert (released == rounds).all()
    assert Rounds.of(released, EXACT).order.tolist() == order


def test_a_candidate_with_most_pairs_can_leave_and_ties_go_by_the_catalogue():
    """A centre squeezed out, as in Burlington; and equal counts, of which the last leaves."""
    groups = [([0, 1], 37), ([2, 1], 34), ([1, 0], 15), ([1, 2], 14)]
    ballots = [np.array(ballot) for ballot, n in groups for _ in range(n)]
    found = Rounds.of(release_rounds(firsts_of(ballots, 3, 2), 2, EXACT, seeded_bits(1)), EXACT)
    assert found.order.tolist() == [0, 2, 1]
    assert found.exhausted.tolist() == [0, 0]
    assert found.result().sure
    tied = firsts_of([np.array([item]) for item in (0, 1, 2, 2, 2)], 3, 2)
    found = Rounds.of(release_rounds(tied, 2, EXACT, seeded_bits(1)), EXACT)
    assert found.order.tolist() == [2, 0, 1]
    assert found.possible[0].tolist() == [True, True, False]
    assert not found.reached[1]
    assert found.reached[2]  # a majority: whoever of the others leaves first
    assert found.result().sure


@pytest.mark.parametrize("kind", NoiseKind)
def test_every_cell_of_every_round_has_the_stated_noise(kind: NoiseKind):
    """Of 600 releases of 12 cells each; a scale 10 % off is refused, too."""
    law, draws = NoiseLaw(kind, 8.0), 600
    firsts = firsts_of(ballots_of(np.random.default_rng(3), 60, 4, 4), 4, 4)
    ballots = int(firsts[0].sum())
    noise = []
    for seed in range(draws):
        for counts in release_rounds(firsts, 4, law, seeded_bits(seed)):
            noise.append(counts.sum() - ballots)  # of all cells left: each ballot is in one
    told = np.array(noise).reshape(draws, 3)
    cells = np.array([5, 4, 3])
    excess = 6 if kind is NoiseKind.LAPLACE else 3  # fourth moment over squared variance
    for factor, fits in ((1.0, True), (1.1**2, False), (0.9**2, False)):
        squares = np.square(told / np.sqrt(cells * law.variance * factor))
        spread = 3 + (excess - 3) / cells.min()
        total = squares.sum() / ((spread - 1) / 2)  # scaled to the variance of chi squared
        degrees = squares.size / ((spread - 1) / 2)
        tail = 2 * min(chi2.sf(total, degrees), chi2.cdf(total, degrees))
        assert (tail > FALSE_POSITIVE_RATE) == fits or (not fits and tail < 0.01)
    same = np.corrcoef(told.T)[np.triu_indices(3, 1)]
    assert np.abs(same).max() < 5 / math.sqrt(draws)  # rounds have noise of their own


@pytest.mark.parametrize(("kind", "scale"), [(NoiseKind.GAUSSIAN, 8.0), (NoiseKind.LAPLACE, 4.0)])
def test_what_is_called_sure_is_so_without_the_noise(kind: NoiseKind, scale: float):
    """Of 120 electorates with 5 candidates; a false statement has a chance of 5 % at most each."""
    rng, law = np.random.default_rng(7), NoiseLaw(kind, scale)
    wrong = named = unsure_first = 0
    for seed in range(120):
        orders = np.argsort(rng.normal(0, 0.6, 5) + rng.gumbel(size=(2_000, 5)), axis=1)
        lengths = rng.integers(1, 5, 2_000)
        listed = orders[np.arange(5) < lengths[:, np.newaxis]]
        firsts = first_choices(listed, lengths, 5, 4)
        exact = Rounds.of(release_rounds(firsts, 4, EXACT, seeded_bits(1)), EXACT)
        found = Rounds.of(release_rounds(firsts, 4, law, seeded_bits(seed)), law)
        said = found.result()
        fine = bool(said.possible[exact.order[0]])
        for number in np.flatnonzero(found.reached).tolist():
            fine &= {*found.order[: 5 - number]} == {*exact.order[: 5 - number]}
            if number < 4:  # the same items are left, so the rounds are of the same counts
                fine &= bool(found.possible[number][exact.order[-1 - number]])
        estimate, rank = found.estimate(), np.argsort(exact.order) + 1
        assert estimate.informative
        fine &= bool(((estimate.rank_low <= rank) & (rank <= estimate.rank_high)).all())
        wrong, named = wrong + (not fine), named + said.sure
        unsure_first += said.sure and not found.reached[1]
    assert wrong <= 6
    assert named > 40  # so the statement is worth something
    assert unsure_first > 0  # a near tie of the first round need not matter
