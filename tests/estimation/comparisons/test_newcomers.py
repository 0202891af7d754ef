"""Intervals of all items where some are new: they have a tenth of the others' exposure.

Newcomers that are the best or the worst of all are the hard case: a fit that draws them to zero
moves all other items the other way, since scores sum to zero.

Each item is a binomial test of its own over the releases (releases are independent, items of one
release are not): none may be held significantly less often than in 92 %. With n items a cell fails
by mistake with a chance of `FALSE_POSITIVE_RATE` at most.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest
from scipy.stats import binom

from hushrank.estimation.common import uncertainty
from hushrank.estimation.common.central_noise import calibrate_pair_counts, release_pair_counts
from hushrank.estimation.common.estimate import Estimate
from hushrank.estimation.common.links import LOGISTIC, Floats
from hushrank.estimation.common.matrices import PairCounts
from hushrank.estimation.comparisons import pairs_by_chance
from hushrank.estimation.comparisons.noisy_pairs import rank_noisy_pairs
from hushrank.privacy.randomness import RandomBits, seeded_bits
from hushrank.privacy.units import Adjacency, PrivacyParams
from tests.estimation.comparisons.test_end_items import public_graph, randomised
from tests.estimation.comparisons.test_unbalanced import Ranker, by_comparison, by_person, win_loss
from tests.estimation.scores_alone import scores_alone
from tests.statistics import FALSE_POSITIVE_RATE

RELEASES = 80
LEAST = 0.92
EXPOSURE = 0.1  # of a newcomer, as a share of that of the other items
SPREAD = 0.7  # standard deviation of the true scores

calibrated = cache(calibrate_pair_counts)


def by_chance(counts: PairCounts, params: PrivacyParams, bits: RandomBits) -> Estimate:
    """`noisy-pairs` with `input.design: random`."""
    return noisy_pairs(counts, params, bits, chance=True)


def by_any(counts: PairCounts, params: PrivacyParams, bits: RandomBits) -> Estimate:
    """`noisy-pairs` where the counts must show whether chance decided who met whom."""
    return noisy_pairs(counts, params, bits, chance=False)


def noisy_pairs(
    counts: PairCounts, params: PrivacyParams, bits: RandomBits, *, chance: bool
) -> Estimate:
    calibration = calibrated(params, counts.n_items)
    noisy = release_pair_counts(counts, calibration, bits)
    return rank_noisy_pairs(noisy, calibration.law, LOGISTIC, chance=chance).estimate


@dataclass(frozen=True)
class Board:
    """A board with newcomers; items are in the order of their true scores.

    Attributes:
        items, rows: the numbers of items and of comparisons.
        new: number of newcomers.
        which: newcomers are the `best` items, the `worst`, or `random` ones.
    """

    items: int
    rows: int
    new: int
    which: str

    def newcomers(self, rng: np.random.Generator) -> np.ndarray:
        if self.which == "random":
            return rng.permutation(self.items)[: self.new]
        return (
            np.arange(self.items)[: self.new] if self.which == "best" else np.arange(-self.new, 0)
        )

    def draw(self, rng: np.random.Generator) -> tuple[Floats, PairCounts]:
        """True scores, and the comparisons of one log."""
        truth = np.sort(rng.normal(0.0, SPREAD, self.items))[::-1]
        truth = truth - truth.mean()
        shown = np.ones(self.items)
        shown[self.newcomers(rng)] = EXPOSURE
        chance = np.triu(np.outer(shown, shown), 1)
        asked = rng.multinomial(self.rows, chance.ravel() / chance.sum()).reshape(chance.shape)
        won = rng.binomial(asked, LOGISTIC.cdf(np.subtract.outer(truth, truth)))
        return truth, PairCounts((won + (asked - won).T).astype(np.int64))


def held(board: Board, params: PrivacyParams, rank: Ranker, releases: int = RELEASES):
    """Whether each item's interval held its score, shape (releases, items); and their widths."""
    rng, hits, widths = np.random.default_rng(5), [], []
    for _ in range(releases):
        truth, counts = board.draw(rng)
        with scores_alone():
            found = rank(counts, params, seeded_bits(int(rng.integers(2**60))))
        hits.append((found.low <= truth) & (truth <= found.high))
        widths.append(found.high - found.low)
    return np.array(hits), np.array(widths)


def significantly_missed(hits: np.ndarray) -> list[int]:
    """Places of the items that were held significantly less often than they may be."""
    releases, items = hits.shape
    chance = binom.cdf(hits.sum(axis=0), releases, LEAST)
    return np.flatnonzero(chance < FALSE_POSITIVE_RATE / items).tolist()


def add_remove(params: PrivacyParams) -> PrivacyParams:
    return replace(params, adjacency=Adjacency.ADD_REMOVE)


@pytest.mark.parametrize("which", ["best", "worst", "random"])
@pytest.mark.parametrize(
    ("items", "rows", "new", "params"),
    [
        (20, 20_000, 3, by_comparison(0.5)),
        (20, 5_000, 3, by_comparison(1.0)),
        (20, 5_000, 3, add_remove(by_comparison(4.0))),
        (8, 3_000, 1, add_remove(by_person(2.0, 2))),
        (40, 40_000, 8, by_comparison(1.0)),
    ],
)
def test_intervals_hold_every_item_where_some_are_new(items, rows, new, params, which) -> None:
    hits, _ = held(Board(items, rows, new, which), params, by_chance)
    assert not significantly_missed(hits), hits.mean(axis=0)
    assert hits.mean() > LEAST


@pytest.mark.slow
@pytest.mark.parametrize("rank", [by_any, win_loss, randomised, public_graph])
@pytest.mark.parametrize(("rows", "epsilon"), [(20_000, 0.5), (5_000, 4.0)])
def test_other_ways_hold_every_item_too(rank, rows, epsilon) -> None:
    hits, _ = held(Board(20, rows, 3, "best"), by_comparison(epsilon), rank)
    assert not significantly_missed(hits), hits.mean(axis=0)


def test_intervals_of_the_shrunk_scores_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the penalty of the scores, and a zero that leaves out whatever has one end only."""
    monkeypatch.setattr(pairs_by_chance, "LOOSE", 1 / 20)  # T = t
    monkeypatch.setattr(uncertainty, "FAR_GAP", 0.0)
    hits, _ = held(Board(20, 20_000, 3, "best"), by_comparison(0.5), by_chance, 2 * RELEASES)
    assert significantly_missed(hits)


def test_intervals_of_a_balanced_board_are_hardly_wider(monkeypatch: pytest.MonkeyPatch) -> None:
    """The weaker penalty costs where something is unknown: at most 5 % where nobody is new."""
    board, params = Board(20, 5_000, 0, "best"), by_comparison(1.0)
    _, widths = held(board, params, by_chance, releases=10)
    monkeypatch.setattr(pairs_by_chance, "LOOSE", 1 / 20)
    _, before = held(board, params, by_chance, releases=10)
    assert np.median(widths) < 1.05 * np.median(before)
