"""How many answers it takes to know the best few, when each round asks what teaches most.

A survey asks in two rounds. The first spreads its answers evenly over all pairs; the second asks
the pairs that `next_pairs` chooses from what was published before. It ends with half the answers of
a survey that asks evenly. Scores are normal, or in clusters of equal ones.

- `debiased-rr`: each answer is randomised at epsilon 1, and all of them are fitted together.
- `noisy-pairs`: each round is a release that protects single answers at epsilon 1, and `pool`
  combines the two.

Printed for each way of asking: `found`, the mean share of the true best five among the first five;
`loss`, the mean score that is lost by taking the first five of the ranking; `worst`, how often the
95 % interval of one item alone holds, at the worst item by its true rank.

    python benchmarks/next_pairs.py [--repeats 1000] [--items 20] [--answers 8000]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from functools import cache
from itertools import product

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.common.central_noise import (
    Calibration,
    calibrate_pair_counts,
    release_pair_counts,
)
from hushrank.estimation.common.estimate import Estimate
from hushrank.estimation.common.links import LOGISTIC
from hushrank.estimation.common.matrices import PairCounts
from hushrank.estimation.common.pooled_scores import PartScores, pool_scores
from hushrank.estimation.comparisons.next_pairs import next_pairs
from hushrank.estimation.comparisons.noisy_pairs import rank_noisy_pairs
from hushrank.estimation.fit.pair_fit import AnswerVariance, estimate_from, fit_scores
from hushrank.estimation.fit.weighted_pairs import WeightedPairs, weighted_sums
from hushrank.experiments.ccw.ccw import one_process_per_processor
from hushrank.privacy.randomized_response import attenuation, flip_thresholds
from hushrank.privacy.randomness import seeded_bits
from hushrank.privacy.units import Adjacency, PrivacyParams, Unit

Floats = NDArray[np.float64]
Shares = Floats  # shape (n, n), of the answers of a round; upper triangle, adds up to 1
Survey = Callable[[Floats, int, int, bool, np.random.Generator], Estimate]
ROUNDS, BEST = 2, 5
EPSILON = {"debiased-rr": 1.0, "noisy-pairs": 1.0}


def even(n: int) -> Shares:
    """All pairs alike."""
    return np.asarray(np.triu(np.ones((n, n)), 1) * 2 / (n * (n - 1)))


def chosen(estimate: Estimate) -> Shares:
    """What `next_pairs` chooses; evenly while nothing is known."""
    n = estimate.n_items
    if estimate.errors is None or not np.isfinite(estimate.errors.covariance).all():
        return even(n)
    found, shares = next_pairs(estimate.errors, LOGISTIC, BEST), np.zeros((n, n))
    shares[found.left, found.right] = found.share
    return shares


def answers_to(
    truth: Floats, shares: Shares, number: int, random: np.random.Generator
) -> NDArray[np.int64]:
    """Wins of each item over each other among so many answers, shape (n, n)."""
    asked = random.multinomial(number, shares.ravel()).reshape(shares.shape)
    won = random.binomial(asked, LOGISTIC.cdf(np.subtract.outer(truth, truth)))
    return np.asarray(won + (asked - won).T)


def debiased_rr(
    truth: Floats, number: int, rounds: int, adaptive: bool, random: np.random.Generator
) -> Estimate:
    """All private answers so far are fitted together."""
    n, epsilon = len(truth), EPSILON["debiased-rr"]
    threshold = flip_thresholds(np.array([epsilon]))
    t = float(attenuation(threshold)[0])
    (s_zero, s_one), (weight, _) = weighted_sums(
        np.array([1, 2]), np.array([0, 1], np.uint8), epsilon, 3
    )[:, 0, 1:]
    shares, sums = even(n), np.zeros((2, n, n), np.int64)
    for _ in range(rounds):
        wins = answers_to(truth, shares, number // rounds, random)
        upper, lower = np.triu(wins, 1), np.triu(wins.T, 1)
        kept = random.binomial(upper, (1 + t) / 2)
        won = kept + lower - random.binomial(lower, (1 + t) / 2)
        sums += [won * s_one + (upper + lower - won) * s_zero, (upper + lower) * weight]
        pairs = WeightedPairs(sums[0], sums[1])
        estimate = estimate_from(fit_scores(pairs, LOGISTIC, AnswerVariance(least_weight=t**2)))
        if adaptive:
            shares = chosen(estimate)
    return estimate


@cache
def calibrated(n: int) -> Calibration:
    """The noise that hides one answer."""
    params = PrivacyParams(
        unit=Unit.COMPARISON, adjacency=Adjacency.REPLACE_ONE, epsilon=EPSILON["noisy-pairs"]
    )
    return calibrate_pair_counts(params, n)


def noisy_pairs(
    truth: Floats, number: int, rounds: int, adaptive: bool, random: np.random.Generator
) -> Estimate:
    """Each round is a release, and releases are pooled."""
    n, parts, shares = len(truth), list[PartScores](), even(len(truth))
    for _ in range(rounds):
        wins = answers_to(truth, shares, number // rounds, random)
        calibration = calibrated(n)
        bits = seeded_bits(int(random.integers(1 << 62)))
        noisy = release_pair_counts(PairCounts(wins), calibration, bits)
        estimate = rank_noisy_pairs(noisy, calibration.law, LOGISTIC).estimate
        if estimate.errors is None:
            continue
        parts.append(
            PartScores(items=[*range(n)], errors=estimate.errors, kind=calibration.law.kind)
        )
        if len(parts) > 1:
            estimate = pool_scores(parts, n).estimate
        if adaptive:
            shares = chosen(estimate)
    return estimate


SURVEYS: dict[str, Survey] = {"debiased-rr": debiased_rr, "noisy-pairs": noisy_pairs}
Task = tuple[str, str, str, int, int, int]


def one(task: Task) -> tuple[float, float, list[bool]]:
    """Share of the best five that was found, loss, and which intervals hold, by true rank."""
    method, kind, asking, n, number, seed = task
    adaptive, answers = asking == "chosen, half", number if asking == "evenly" else number // 2
    random = np.random.default_rng(seed)
    truth = random.normal(0, 0.7, n) if kind == "normal" else random.choice([-0.8, 0.0, 0.8], n)
    truth = truth - truth.mean()
    rounds = ROUNDS if adaptive else 1
    estimate = SURVEYS[method](truth, answers, rounds, adaptive, random)
    first = np.argsort(-estimate.scores)[:BEST]
    best = np.sort(truth)[::-1][:BEST]
    found = float((truth[first] >= best[-1]).mean())
    held = (estimate.low <= truth) & (truth <= estimate.high)
    return found, float(best.mean() - truth[first].mean()), held[np.argsort(-truth)].tolist()


def main() -> None:
    """Print a line of JSON for each way of asking."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=1000)
    parser.add_argument("--items", type=int, default=20)
    parser.add_argument("--answers", type=int, default=8000)
    options = parser.parse_args()
    with one_process_per_processor() as pool:
        for kind, method in product(("normal", "clusters"), SURVEYS):
            for asking in ("evenly", "evenly, half", "chosen, half"):
                tasks = [
                    (method, kind, asking, options.items, options.answers, seed)
                    for seed in range(options.repeats)
                ]
                found, loss, held = zip(*pool.map(one, tasks, chunksize=20), strict=True)
                line = {
                    "method": method, "scores": kind, "asked": asking,
                    "found": round(float(np.mean(found)), 3),
                    "loss": round(float(np.mean(loss)), 4),
                    "worst": round(float(np.mean(held, axis=0).min()), 3),
                    "mean": round(float(np.mean(held)), 3),
                }  # fmt: skip
                print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
