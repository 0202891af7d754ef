"""Scores of the windows that a stream shows, and what changed from night to night, simulated.

Whole streams are simulated: answers, noise, what is shown. Intervals of scores and of changes cover
what they promise, of the best and the worst item too; nothing is called a change more often than
stated; and a change is found that independent nights would not show.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.signal import lfilter

from hushrank.estimation.common.estimate import Estimate
from hushrank.estimation.common.links import link_named
from hushrank.estimation.common.matrices import PairCounts, WinCounts, WinLossCounts
from hushrank.estimation.common.score_change import (
    Intervals,
    NightTotals,
    ScoreChange,
    error_correlation,
    sampling_correlation,
    score_change,
    window_totals,
)
from hushrank.estimation.comparisons.net_wins import rank_by_win_loss
from hushrank.estimation.comparisons.noisy_counts import rank_by_win_counts
from hushrank.estimation.comparisons.noisy_pairs import rank_noisy_pairs
from hushrank.privacy.noise import NoiseLaw
from hushrank.privacy.sensitivity import Sensitivity
from hushrank.privacy.stream import Stream, shown_night, stream_of
from hushrank.privacy.stream_encoder import Terms, Workload
from hushrank.privacy.units import Adjacency, NoiseKind, PrivacyParams, Unit
from tests.estimation.scores_alone import scores_alone

NIGHTS, ANSWERS = 10, 600
LEAST, MOST = 0.92, 0.98


def a_stream(gap: int = 4, kind: NoiseKind = NoiseKind.GAUSSIAN, epsilon: float = 2.0) -> Stream:
    """Ten nights of which each shows the last four."""
    params = PrivacyParams(
        unit=Unit.USER,
        adjacency=Adjacency.REPLACE_ONE,
        epsilon=epsilon,
        delta=0.0 if kind is NoiseKind.LAPLACE else 1e-6,
        noise=kind,
    )
    terms = Terms(nights=NIGHTS, participations=-(-NIGHTS // gap), gap=gap)
    return stream_of(params, Sensitivity(1, 1), terms, Workload(4))


@dataclass(frozen=True)
class Shown:
    """What one night shows."""

    counts: np.ndarray
    law: NoiseLaw
    totals: NightTotals


@dataclass(frozen=True)
class World:
    """Probabilities of the cells each night, shape (nights, ...), and their estimator."""

    stream: Stream
    probabilities: np.ndarray
    estimate: Callable[[Shown], Estimate]
    truth: Callable[[np.ndarray], np.ndarray]
    counted: Callable[[np.ndarray], np.ndarray] = lambda wins: wins  # what is counted of wins

    def nights(self, seed: int) -> Iterator[tuple[Shown, Estimate, np.ndarray]]:
        """What is shown from the fourth night on, the scores, and the true ones of the window."""
        rng = np.random.default_rng(seed)
        answers = rng.poisson(ANSWERS, NIGHTS)
        cells = self.probabilities.reshape(NIGHTS, -1)
        wins = np.stack([rng.multinomial(*each) for each in zip(answers, cells, strict=True)])
        wins = self.counted(wins.reshape(self.probabilities.shape))
        there = self.counted(self.probabilities) > 0  # no diagonal
        encoded = lfilter(self.stream.encoder.coefficients, [1.0], wins.astype(float), axis=0)
        law = self.stream.law
        draw = rng.normal if law.kind is NoiseKind.GAUSSIAN else rng.laplace
        noisy = np.rint(encoded + draw(0, law.scale, encoded.shape)).astype(np.int64)
        noisy *= there
        for night in range(3, NIGHTS):
            so_far = noisy[: night + 1]
            sums = so_far.reshape(night + 1, -1).sum(axis=1)
            shown = Shown(
                shown_night(self.stream, so_far),
                self.stream.shown_law(night),
                window_totals(self.stream, sums),
            )
            there = slice(night - 3, night + 1)
            window = np.average(self.probabilities[there], axis=0, weights=answers[there])
            with scores_alone():
                found = self.estimate(shown)
            yield shown, found, self.truth(window)

    def change(self, nights: list, before: int, now: int, *, shared: bool = True) -> ScoreChange:
        """The test of the later against the earlier of two nights of those above."""
        (one, old, _), (other, new, _) = nights[before], nights[now]
        covariance = self.stream.covariance(before + 3, now + 3)
        noise = covariance / math.sqrt(one.law.variance * other.law.variance)
        sampling = sampling_correlation(one.totals, other.totals)
        r = error_correlation((old.noise_share, new.noise_share), noise, sampling)
        pair = (Intervals(scores=each.scores, low=each.low, high=each.high) for each in (old, new))
        normal = self.stream.law.kind is NoiseKind.GAUSSIAN
        return score_change(*pair, normal=normal, correlation=r if shared else 0.0)


def win_counts(stream: Stream, n: int = 8, late: np.ndarray | float = 0.0) -> World:
    """Items of an even design; from the night before the last on, some probabilities have moved."""
    scores = np.linspace(1.5, -1.5, n)
    beats = 1 / (1 + np.exp(-np.subtract.outer(scores, scores)))
    probabilities = (beats.sum(axis=1) - 0.5) / (n * (n - 1) / 2)
    nights = np.tile(probabilities, (NIGHTS, 1))
    nights[NIGHTS - 2 :] += late
    return World(
        stream,
        nights,
        lambda shown: rank_by_win_counts(WinCounts(shown.counts, 1, confidential=False), shown.law),
        lambda window: n * window / 2 - 0.5,
    )


def pair_counts(stream: Stream, n: int = 20) -> World:
    """Partners drawn by chance; true scores do not change."""
    scores, link = np.linspace(1.0, -1.0, n), link_named("logistic")
    beats = 1 / (1 + np.exp(-np.subtract.outer(scores, scores)))
    np.fill_diagonal(beats, 0.0)
    return World(
        stream,
        np.tile(beats / beats.sum(), (NIGHTS, 1, 1)),
        lambda shown: (
            rank_noisy_pairs(
                PairCounts(shown.counts, 1, confidential=False), shown.law, link
            ).estimate
        ),
        lambda window: scores,
    )


def win_loss(stream: Stream, n: int = 12) -> World:
    """Partners drawn by chance, the middle items thrice as often; wins and losses are counted."""
    scores, link = np.linspace(1.0, -1.0, n), link_named("logistic")
    often = np.where(np.abs(np.arange(n) - n / 2) < n / 4, 3.0, 1.0)
    beats = np.outer(often, often) / (1 + np.exp(-np.subtract.outer(scores, scores)))
    np.fill_diagonal(beats, 0.0)

    def ranked(shown: Shown) -> Estimate:
        counts = WinLossCounts(shown.counts[0], shown.counts[1], 1, confidential=False)
        return rank_by_win_loss(counts, shown.law, link)

    return World(
        stream,
        np.tile(beats / beats.sum(), (NIGHTS, 1, 1)),
        ranked,
        lambda window: scores,
        lambda wins: np.stack([wins.sum(axis=2), wins.sum(axis=1)], axis=1),
    )


def covered(found: Estimate | ScoreChange, truth: np.ndarray) -> np.ndarray:
    return (found.low <= truth) & (truth <= found.high)


def check(world: World, streams: list[list], lag: int, most_false: float = 0.05) -> None:
    """Coverage by item, of scores and of changes, and how often anything is called a change."""
    scores, changes, alarms = [], [], []
    for nights in streams:
        found = [world.change(nights, now - lag, now) for now in range(lag, len(nights))]
        moved = [nights[now][2] - nights[now - lag][2] for now in range(lag, len(nights))]
        scores.append(np.mean([covered(each, truth) for _, each, truth in nights], axis=0))
        changes.append(np.mean([covered(*each) for each in zip(found, moved, strict=True)], axis=0))
        alarms.append(np.mean([each.beyond.any() for each in found]))
    for each in (scores, changes):
        coverage, error = np.mean(each, axis=0), math.sqrt(MOST * (1 - MOST) / len(streams))
        assert LEAST <= coverage.mean() <= MOST
        assert (coverage >= LEAST - error).all()  # of the best and the worst item too
        assert (coverage <= MOST + 2 * error).all()
    error = np.std(alarms, ddof=1) / math.sqrt(len(streams))
    assert np.mean(alarms) < most_false + 4 * error
    assert 4 * error < 0.05  # so a rate of 0.1 would be seen


@pytest.mark.parametrize("kind", list(NoiseKind))
def test_intervals_of_counts_cover_and_false_changes_are_rare(kind):
    """Changes from the night before, and from the last night that shares no answers."""
    world = win_counts(a_stream(kind=kind))
    streams = [list(world.nights(seed)) for seed in range(200)]
    check(world, streams, lag=1)
    check(world, streams, lag=4)


@pytest.mark.parametrize(
    ("kind", "epsilon"), [(NoiseKind.GAUSSIAN, 8.0), (NoiseKind.LAPLACE, 16.0)]
)
def test_intervals_of_pairs_cover_and_false_changes_are_rare(kind, epsilon):
    world = pair_counts(a_stream(kind=kind, epsilon=epsilon))
    check(world, [list(world.nights(seed)) for seed in range(20)], lag=1)


@pytest.mark.parametrize(
    ("kind", "epsilon"), [(NoiseKind.GAUSSIAN, 8.0), (NoiseKind.LAPLACE, 16.0)]
)
def test_intervals_of_wins_and_losses_cover_and_false_changes_are_rare(kind, epsilon):
    """Of rarely shown items too, the best and the worst among them."""
    world = win_loss(a_stream(kind=kind, epsilon=epsilon))
    check(world, [list(world.nights(seed)) for seed in range(200)], lag=1)


def test_taking_shared_nights_for_independent_ones_hides_changes():
    """An item that wins two fifths more often from one night on, seen on the second such night."""
    late = np.zeros(8)
    late[3], late[4] = 0.05, -0.05
    world, streams, last = win_counts(a_stream(), late=late), 60, NIGHTS - 4
    # What a budget for each night gives: every night counts, and no night shares noise.
    alone = win_counts(a_stream(gap=1), late=late)
    found = np.zeros(3)
    for seed in range(streams):
        nights = list(world.nights(seed))
        found[0] += world.change(nights, last - 2, last).beyond[3:5].any()
        found[1] += world.change(nights, last - 2, last, shared=False).beyond[3:5].any()
        nights = list(alone.nights(seed))
        found[2] += alone.change(nights, last - 2, last).beyond[3:5].any()
    found /= streams
    assert found[0] > 0.85
    assert found[1] < found[0] - 0.3
    assert found[2] < found[0] - 0.3


def test_a_window_shows_how_many_answers_its_nights_have():
    world = win_counts(a_stream(epsilon=10.0))
    shown, *_ = next(world.nights(5))
    answers = np.random.default_rng(5).poisson(ANSWERS, NIGHTS)[:4]
    assert (shown.totals.first, shown.totals.end) == (0, 4)
    assert shown.totals.answers == pytest.approx(answers, abs=6 * math.sqrt(8 * shown.law.variance))
    assert shown.totals.answers.sum() == pytest.approx(shown.counts.sum())
    with pytest.raises(ValueError, match="got -1"):
        window_totals(world.stream, np.zeros(0))
