"""Ties as outcomes of their own, and the ways that there were: a coin, half wins, left out.

Votes by Davidson's model, in which equals tie with a chance on the axis, released as noisy counts
of pairs at one epsilon. Every way counts the same votes: the model three outcomes of a pair at the
sensitivity of wins, half wins two at twice that, a coin two at the same, and the last two, of the
votes that somebody won. Measured are the root mean square error of the scores, which are log odds
of the votes that do not tie, and the share of pairs of items in the wrong order.
"""

from __future__ import annotations

import numpy as np

from hushrank.estimation.common.central_noise import calibrate_pair_counts, release_pair_counts
from hushrank.estimation.common.links import LOGISTIC, Floats
from hushrank.estimation.common.matrices import PairCounts
from hushrank.estimation.comparisons.noisy_pairs import rank_noisy_pairs
from hushrank.estimation.ties.noisy_ties import rank_noisy_ties
from hushrank.estimation.ties.tie_models import (
    TieCounts,
    TieModel,
    calibrate_tie_counts,
    release_tie_counts,
)
from hushrank.experiments.beyond.figure import Figure, Point, points_of
from hushrank.experiments.beyond.groups import votes
from hushrank.pipelines.simulate.planned_survey import Counts, counts_of, tied
from hushrank.privacy.randomness import seeded_bits
from hushrank.privacy.units import Adjacency, PrivacyParams, Unit
from hushrank.transforms.common.schema import Ties

ITEMS, VOTES, SPREAD = 15, 60_000, 0.5
CHANCES = (0.05, 0.1, 0.2, 0.35, 0.5)
PARAMS = PrivacyParams(
    unit=Unit.USER, adjacency=Adjacency.REPLACE_ONE, epsilon=1.0, max_contributions=10
)
WAYS = {
    Ties.MODEL: "ties: model",
    Ties.RANDOM: "a coin decides",
    Ties.SPLIT: "half a win each",
    Ties.DROP: "left out",
}
ERROR, WRONG = "RMSE of scores", "pairs in the wrong order"


def measure(replicates: int) -> list[Point]:
    """All ways for all probabilities of a tie."""
    found: dict[tuple[str, str, float], list[float]] = {}
    for seed in range(replicates):
        for chance in CHANCES:
            random = np.random.default_rng((seed, round(100 * chance)))
            truth = random.normal(0, SPREAD, ITEMS)
            truth -= truth.mean()
            met = votes(truth, VOTES, random)
            cells = tied(met, truth, chance, TieModel.DAVIDSON, random)
            for way, name in WAYS.items():
                scores = scores_of(counts_of(cells, way, (seed,)), way, seed)
                error = float(np.sqrt(np.mean(np.square(scores - truth))))
                found.setdefault((ERROR, name, chance), []).append(error)
                found.setdefault((WRONG, name, chance), []).append(wrong(scores, truth))
    return points_of(dict(sorted(found.items(), key=lambda each: each[0][0])))


def scores_of(counts: Counts, way: Ties, seed: int) -> Floats:
    """Scores from counts with noise."""
    bits = seeded_bits(seed)
    if way is Ties.MODEL:
        calibration = calibrate_tie_counts(PARAMS, ITEMS)
        noisy = release_tie_counts(TieCounts(counts), calibration, bits)
        return rank_noisy_ties(
            noisy, calibration.law, TieModel.DAVIDSON, chance=True
        ).estimate.scores
    weight = way.row_weight
    calibration = calibrate_pair_counts(PARAMS, ITEMS, weight)
    pairs = release_pair_counts(PairCounts(counts, weight), calibration, bits)
    return rank_noisy_pairs(pairs, calibration.law, LOGISTIC, chance=True).estimate.scores


def wrong(scores: Floats, truth: Floats) -> float:
    """Share of pairs that scores put in another order than the truth."""
    i, j = np.triu_indices(len(truth), 1)
    return float(np.mean((scores[i] - scores[j]) * (truth[i] - truth[j]) <= 0))


FIGURE = Figure(
    name="ties",
    title=f"{VOTES:,} votes with ties on {ITEMS} items, epsilon 1 (L = 10)",
    x="chance that equals tie",
    y="",
    measure=measure,
    replicates=100,
    quick=4,
    log_x=False,
)
