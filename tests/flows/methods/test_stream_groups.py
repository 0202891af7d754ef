"""Intervals of groups in a stream hold what they promise, and so do changes of the whole.

Whole streams are simulated: answers of two large groups and a small one, noise that nights share,
what is shown. The method concludes from it as a run does.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from hushrank.estimation.common.estimate import Estimate
from hushrank.estimation.common.links import link_named
from hushrank.flows.methods.base import Arrays, Conclusion
from hushrank.flows.methods.counts.common import NIGHT, SHOWN
from hushrank.flows.methods.registry import calibrate, load_config
from tests.estimation.comparisons.test_stream_scores import LEAST, MOST, NIGHTS, World, covered
from tests.estimation.comparisons.test_stream_scores import Shown as Night
from tests.estimation.scores_alone import scores_alone
from tests.flows.config.test_stream import job

SHARES = np.array([0.6, 0.3, 0.1])
N, SPREAD, MOVED = 6, 1.2, 0.3
TERMS = {"nights": NIGHTS, "participations": 3, "gap": 4, "show": {"window": 4}}


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def beats_of(scores: np.ndarray) -> np.ndarray:
    beats = link_named("logistic").cdf(np.subtract.outer(scores, scores))
    np.fill_diagonal(beats, 0.0)
    return np.asarray(beats)


class Groups:
    """Streams of a job with three groups, whose true scores differ."""

    def __init__(self, method: str, rho: float) -> None:
        self.pairs = method == "noisy-pairs"
        changes = {
            "method": method,
            "items": {"count": N},
            "groups": {"column": "g", "values": ["a", "b", "c"]},
            "privacy": {"unit": "user", "noise": "gaussian", "rho": rho, "max_contributions": 1},
        }
        if not self.pairs:
            changes["input.design"] = "balanced"
        self.config = load_config(job(changes, **TERMS))
        found = calibrate(self.config)
        self.method, self.mechanism = found.method, found.mechanism

    def world(self, seed: int) -> World:
        """Scores of groups lie around those of the whole by chance, as is supposed of them."""
        moves = np.random.default_rng(seed).normal(0, MOVED, (len(SHARES), N))
        self.scores = np.linspace(SPREAD, -SPREAD, N) + moves - moves.mean(axis=1, keepdims=True)
        cells = np.stack([beats_of(scores) for scores in self.scores])
        cells *= (SHARES / (N * (N - 1) / 2))[:, np.newaxis, np.newaxis]
        cells = cells if self.pairs else cells.sum(axis=-1)
        probabilities = np.tile(cells, (NIGHTS, *[1] * cells.ndim))
        return World(
            self.mechanism.stream, probabilities, lambda shown: shown, lambda window: window
        )

    def concluded(self, shown: Night) -> Conclusion:
        return self.method.conclude(drawn_of(shown), self.mechanism, self.config)

    def whole(self, shown: Night) -> Estimate:
        return self.method.conclude_whole(drawn_of(shown), self.mechanism, self.config).estimate

    def truths(self, window: np.ndarray) -> list[np.ndarray]:
        """Of each group."""
        return list(self.scores) if self.pairs else [share_won(part) for part in window]


def drawn_of(shown: Night) -> Arrays:
    return {NIGHT: np.array(shown.totals.end - 1), SHOWN: shown.counts}


def share_won(wins: np.ndarray) -> np.ndarray:
    return N * wins / (2 * wins.sum()) - 0.5


def check(held: list, lowest: float) -> None:
    """Shape (times, boards, items): of each board, and of its best and worst item."""
    coverage, error = np.mean(held, axis=0), math.sqrt(MOST * (1 - MOST) / len(held))
    assert (coverage.mean(axis=1) >= LEAST - error).all()
    assert (coverage.mean(axis=1) <= MOST + error).all()
    assert (coverage >= lowest).all()


@pytest.mark.parametrize(
    ("method", "rho", "streams"), [("noisy-counts", 0.3, 60), ("noisy-pairs", 3.0, 7)]
)
@scores_alone()
def test_intervals_of_groups_cover(method, rho, streams):
    groups, held = Groups(method, rho), []
    for seed in range(streams):
        nights = list(groups.world(seed).nights(seed))
        for shown, _, window in (nights[0], nights[-1]):  # have no night in common
            boards = groups.concluded(shown).boards
            pairs = zip(boards, groups.truths(window), strict=True)
            held.append([covered(board.estimate, truth) for board, truth in pairs])
    check(held, LEAST - 0.07 if streams >= 60 else 0.6)


@scores_alone()
def test_intervals_and_changes_of_the_whole_cover():
    """Its counts are sums over groups, whose noise adds up."""
    groups, scores, changes = Groups("noisy-counts", 0.3), [], []
    for seed in range(100):
        world = groups.world(seed)
        nights = [
            (shown, groups.whole(shown), share_won(window.sum(axis=0)))
            for shown, _, window in world.nights(seed)
        ]
        scores += [[covered(found, truth)] for _, found, truth in (nights[0], nights[-1])]
        moved = nights[-1][2] - nights[-2][2]
        changes.append([covered(world.change(nights, len(nights) - 2, len(nights) - 1), moved)])
    check(scores, LEAST - 0.05)
    check(changes, LEAST - 0.08)
