"""Which method ranks best on logs of unequal exposure, and whether its intervals hold the truth.

For each simulated log: Kendall tau with the true scores, the share of 95 % intervals that hold
them, and the share of rank intervals that hold the true rank, over several logs. `hand-tuned` is
`perturbed-mle` with all of epsilon whose operator guessed `expected_comparisons` right.

    python -m benchmarks.designs [--logs 10]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy.stats import kendalltau

from hushrank.estimation.common.central_noise import (
    calibrate_exposures,
    calibrate_pair_counts,
    calibrate_win_counts,
    calibrate_win_loss,
    release_pair_counts,
    release_win_counts,
    release_win_loss,
)
from hushrank.estimation.common.estimate import Estimate, mean_ranks
from hushrank.estimation.common.links import LOGISTIC
from hushrank.estimation.common.matrices import PairCounts, WinCounts, WinLossCounts
from hushrank.estimation.comparisons.mle_uncertainty import (
    rank_by_scores,
    rank_by_scores_and_exposures,
)
from hushrank.estimation.comparisons.net_wins import rank_by_win_loss
from hushrank.estimation.comparisons.noisy_counts import rank_by_win_counts
from hushrank.estimation.comparisons.noisy_pairs import rank_noisy_pairs
from hushrank.estimation.comparisons.perturbed_mle import (
    MleSettings,
    calibrate_mle,
    perturbed_mle,
)
from hushrank.estimation.comparisons.planning import Exposures
from hushrank.pipelines.simulate.planned_survey import Arena
from hushrank.privacy.noise import add_noise
from hushrank.privacy.randomness import RandomBits, seeded_bits
from hushrank.privacy.units import Adjacency, PrivacyParams, Unit

EXPOSURE_PART = 8


def noisy_counts(counts: PairCounts, params: PrivacyParams, bits: RandomBits) -> Estimate:
    """Method `noisy-counts`."""
    calibration = calibrate_win_counts(params, counts.n_items)
    noisy = release_win_counts(WinCounts(counts.won()), calibration, bits)
    return rank_by_win_counts(noisy, calibration.law)


def win_loss(counts: PairCounts, params: PrivacyParams, bits: RandomBits) -> Estimate:
    """Method `win-loss`."""
    calibration = calibrate_win_loss(params, counts.n_items)
    exact = WinLossCounts(counts.won(), counts.lost())
    return rank_by_win_loss(release_win_loss(exact, calibration, bits), calibration.law)


def noisy_pairs(counts: PairCounts, params: PrivacyParams, bits: RandomBits) -> Estimate:
    """Method `noisy-pairs`."""
    calibration = calibrate_pair_counts(params, counts.n_items)
    noisy = release_pair_counts(counts, calibration, bits)
    return rank_noisy_pairs(noisy, calibration.law, LOGISTIC, chance=True).estimate


def spectral(counts: PairCounts, params: PrivacyParams, bits: RandomBits) -> Estimate:
    """Method `noisy-pairs` with `model.estimator: spectral`."""
    calibration = calibrate_pair_counts(params, counts.n_items)
    noisy = release_pair_counts(counts, calibration, bits)
    return rank_noisy_pairs(noisy, calibration.law, LOGISTIC, chance=True, spectral=True).estimate


def likelihood(counts: PairCounts, params: PrivacyParams, bits: RandomBits) -> Estimate:
    """Method `perturbed-mle` as `auto` takes it, with noisy exposures."""
    n, share = counts.n_items, params.epsilon / EXPOSURE_PART
    settings = MleSettings(expected_comparisons=10_000.0)
    mechanism = calibrate_mle(replace(params, epsilon=params.epsilon - share), settings, n)
    scores = perturbed_mle(counts, mechanism, bits)
    law = calibrate_exposures(params, share, n).law
    exposures = add_noise(counts.won() + counts.lost(), law, bits).astype(np.float64)
    return rank_by_scores_and_exposures(scores, mechanism, Exposures(exposures, law.variance))


def hand_tuned(counts: PairCounts, params: PrivacyParams, bits: RandomBits) -> Estimate:
    """Method `perturbed-mle` with the right `expected_comparisons`."""
    each = float((counts.won() + counts.lost()).mean())
    mechanism = calibrate_mle(params, MleSettings(expected_comparisons=each), counts.n_items)
    return rank_by_scores(perturbed_mle(counts, mechanism, bits), mechanism)


METHODS: dict[str, Callable[[PairCounts, PrivacyParams, RandomBits], Estimate]] = {
    "noisy-counts": noisy_counts,
    "win-loss": win_loss,
    "noisy-pairs": noisy_pairs,
    "noisy-pairs, spectral": spectral,
    "perturbed-mle": likelihood,
    "hand-tuned": hand_tuned,
}
ONE_ANSWER = PrivacyParams(unit=Unit.COMPARISON, adjacency=Adjacency.REPLACE_ONE, epsilon=1.0)
PERSON = PrivacyParams(
    unit=Unit.USER, adjacency=Adjacency.REPLACE_ONE, epsilon=1.0, max_contributions=10
)
LOGS = {
    "arena, 60 models, 50 000 battles, epsilon 1 an answer": (
        Arena(60, 50_000, late=10), ONE_ANSWER),
    "arena, 60 models, 2 000 000 votes, epsilon 1 a person, L = 10": (
        Arena(60, 2_000_000, late=10), PERSON),
    "votes on 100 ideas, 300 000 votes, epsilon 1 a person, L = 10": (
        Arena(100, 300_000, zipf=0.5), PERSON),
    "1 000 items, 200 000 answers, epsilon 1 an answer": (
        Arena(1000, 200_000, zipf=0.7, late=100), ONE_ANSWER),
    "loose league, 300 players, 47 000 matches, epsilon 1 an answer": (
        Arena(300, 47_000, zipf=0.7, spread=1.0, matched=2.0), ONE_ANSWER),
    "tight league, 300 players, 47 000 matches, epsilon 1 an answer": (
        Arena(300, 47_000, zipf=0.7, spread=1.0, matched=1.0), ONE_ANSWER),
}  # fmt: skip


def main() -> None:
    """Print a table for each log."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=int, default=10)
    logs = parser.parse_args().logs
    for name, (arena, params) in LOGS.items():
        print(f"\n{name}\n  method         tau    intervals  ranks  of them finite", flush=True)
        generator = np.random.default_rng(5)
        found: dict[str, list[tuple[float, float, float, float]]] = {}
        for _ in range(logs if arena.n_items < 1000 else max(2, logs // 4)):
            truth = arena.truth(generator)
            counts = arena.answers(truth, arena.design(truth, generator), generator)
            for method, rank in METHODS.items():
                bits = seeded_bits(int(generator.integers(2**60)))
                found.setdefault(method, []).append(held(rank(counts, params, bits), truth))
        for method, values in found.items():
            tau, scores, ranks, finite = np.mean(values, axis=0)
            print(f"  {method:13s} {tau:6.3f} {scores:9.1%} {ranks:8.1%} {finite:9.0%}", flush=True)


def held(ranked: Estimate, truth: np.ndarray) -> tuple[float, float, float, float]:
    """Tau, and the shares of intervals that hold the truth: scores, ranks; of finite ones."""
    low, high, ranks = ranked.low, ranked.high, mean_ranks(truth)
    scores = ((low <= truth) & (truth <= high)).mean()
    held_ranks = ((ranked.rank_low <= ranks) & (ranks <= ranked.rank_high)).mean()
    finite = (np.isfinite(low) & np.isfinite(high)).mean()
    tau = kendalltau(ranked.rank, -truth)[0]
    return float(tau), float(scores), float(held_ranks), float(finite)


if __name__ == "__main__":
    main()
