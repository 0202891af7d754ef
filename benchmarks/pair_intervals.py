"""How many places items may have for all items at once, and how often everything said is true.

Methods that release counts or scores of comparisons, over designs (each pair equally often, or some
items far more often than others), numbers of items and epsilons, with truths that are normal, or in
clusters of equal scores, where every order within a cluster is an error. Printed for each:

- `places`: mean width in places of the ranks of all items at once;
- `alone`: the same of the ranks of one item at a time;
- `order`: mean share of pairs that are surely in order;
- `held`: share of releases in which all score intervals, ranks and orders hold at once;
- `worst`: share in which the score interval of one item alone holds, at the worst item;
- `error`: mean square of an error of a score over its stated variance.

    python benchmarks/pair_intervals.py [--releases 200] [--items 3 12 40] [--method win-loss ...]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import cache
from itertools import product

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.common.central_noise import (
    calibrate_pair_counts,
    calibrate_win_loss,
    release_pair_counts,
    release_win_loss,
)
from hushrank.estimation.common.estimate import Estimate, mean_ranks
from hushrank.estimation.common.links import LOGISTIC
from hushrank.estimation.common.matrices import PairCounts, WinLossCounts
from hushrank.estimation.comparisons.mle_uncertainty import (
    rank_by_scores,
    rank_by_scores_and_exposures,
)
from hushrank.estimation.comparisons.net_wins import rank_by_win_loss
from hushrank.estimation.comparisons.noisy_pairs import rank_noisy_pairs
from hushrank.estimation.comparisons.perturbed_mle import MleSettings, calibrate_mle, perturbed_mle
from hushrank.estimation.comparisons.planning import Exposures
from hushrank.experiments.ccw.ccw import one_process_per_processor
from hushrank.privacy.randomness import RandomBits, seeded_bits
from hushrank.privacy.units import Adjacency, PrivacyParams, Unit

Floats = NDArray[np.float64]
COMPARISONS = 600  # of an item, on average
calibrated_win_loss, calibrated_mle = cache(calibrate_win_loss), cache(calibrate_mle)
calibrated_pairs = cache(calibrate_pair_counts)


def by_comparison(epsilon: float) -> PrivacyParams:
    """One answer is protected, at this epsilon."""
    return PrivacyParams(unit=Unit.COMPARISON, adjacency=Adjacency.REPLACE_ONE, epsilon=epsilon)


def win_loss(counts: PairCounts, epsilon: float, _: Floats, bits: RandomBits) -> Estimate:
    """A release of `win-loss`."""
    calibration = calibrated_win_loss(by_comparison(epsilon), counts.n_items)
    exact = WinLossCounts(counts.won(), counts.lost())
    return rank_by_win_loss(release_win_loss(exact, calibration, bits), calibration.law)


def noisy_pairs(counts: PairCounts, epsilon: float, _: Floats, bits: RandomBits) -> Estimate:
    """A release of `noisy-pairs`."""
    calibration = calibrated_pairs(by_comparison(epsilon), counts.n_items)
    noisy = release_pair_counts(counts, calibration, bits)
    return rank_noisy_pairs(noisy, calibration.law, LOGISTIC, chance=True).estimate


def mle_stated(counts: PairCounts, epsilon: float, design: Floats, bits: RandomBits) -> Estimate:
    """A release of `perturbed-mle`, with the expected exposures of items stated."""
    settings = MleSettings(expected_comparisons=float(design.sum()) / counts.n_items)
    mechanism = calibrated_mle(by_comparison(epsilon), settings, counts.n_items)
    scores = perturbed_mle(counts, mechanism, bits)
    return rank_by_scores_and_exposures(scores, mechanism, Exposures(design.sum(axis=1), 0.0))


def mle_balanced(counts: PairCounts, epsilon: float, design: Floats, bits: RandomBits) -> Estimate:
    """A release of `perturbed-mle`, where one number of comparisons is stated."""
    settings = MleSettings(expected_comparisons=float(design.sum()) / counts.n_items)
    mechanism = calibrated_mle(by_comparison(epsilon), settings, counts.n_items)
    return rank_by_scores(perturbed_mle(counts, mechanism, bits), mechanism)


Ranker = Callable[[PairCounts, float, Floats, RandomBits], Estimate]
METHODS: dict[str, Ranker] = {
    "win-loss": win_loss,
    "mle-stated": mle_stated,
    "mle-balanced": mle_balanced,
    "noisy-pairs": noisy_pairs,
}
Task = tuple[str, str, str, int, float, int]


def truth_of(kind: str, n: int, generator: np.random.Generator) -> Floats:
    """True scores: normal ones, or of three clusters."""
    if kind == "normal":
        truth = generator.normal(0, 0.7, n)
    else:
        truth = generator.choice([-0.8, 0.0, 0.8], n)
    return np.asarray(truth - truth.mean())


def design_of(kind: str, n: int, generator: np.random.Generator) -> Floats:
    """Comparisons of each pair to expect; unbalanced: items are shown by Zipf's law."""
    shown = np.ones(n) if kind == "balanced" else 1 / generator.permutation(np.arange(1, n + 1))
    design = np.outer(shown, shown)
    np.fill_diagonal(design, 0)
    return np.asarray(design * n * COMPARISONS / design.sum())


def measured(task: Task) -> Floats:
    """The figures of one setting; ranks are of items, in places."""
    method, kind, truths, n, epsilon, releases = task
    generator = np.random.default_rng([n, releases, len(kind), len(truths)])
    found, alone, errors = np.zeros(4), np.zeros(n), []
    design = design_of(kind, n, generator)
    for _ in range(releases):
        truth = truth_of(truths, n, generator)
        asked = generator.poisson(np.triu(design, 1))
        won = generator.binomial(asked, LOGISTIC.cdf(np.subtract.outer(truth, truth)))
        counts = PairCounts((won + (asked - won).T).astype(np.int64))
        bits = seeded_bits(int(generator.integers(2**60)))
        ranked = METHODS[method](counts, epsilon, design, bits)
        sure, ranks = ranked.at_once, mean_ranks(truth)
        if sure is None or sure.better is None:
            raise ValueError(f"{method} says nothing of all items at once")
        right = bool(((sure.low <= truth) & (truth <= sure.high)).all())
        right &= bool(((sure.rank_low <= ranks) & (ranks <= sure.rank_high)).all())
        right &= not (sure.better & (truth[:, np.newaxis] <= truth)).any()
        places = (
            (sure.rank_high - sure.rank_low).mean(),
            (ranked.rank_high - ranked.rank_low).mean(),
        )
        found += (*places, sure.better.sum() * 2 / (n * (n - 1)), right)
        alone += (ranked.low <= truth) & (truth <= ranked.high)
        if ranked.errors is not None:
            variance = ranked.errors.covariance
            variance = variance if variance.ndim == 1 else np.diagonal(variance)
            centre = ranked.errors.centre - ranked.errors.centre.mean()
            errors.append(float(np.mean((centre - truth) ** 2 / variance)))
    error = float(np.mean(errors)) if errors else np.nan
    return np.array([*found / releases, (alone / releases).min(), error])


def main() -> None:
    """Print a line for each setting."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--releases", type=int, default=200)
    parser.add_argument("--items", type=int, nargs="+", default=[3, 12, 40])
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.2, 1.0, 4.0])
    parser.add_argument("--method", nargs="+", default=list(METHODS), choices=list(METHODS))
    options = parser.parse_args()
    kinds = [("balanced", "normal"), ("balanced", "clusters"), ("zipf", "clusters")]
    tasks: list[Task] = [
        (method, *kind, n, epsilon, options.releases)
        for method, n, kind, epsilon in product(
            options.method, options.items, kinds, options.epsilon
        )
        if not (method == "mle-balanced" and kind[0] == "zipf")
    ]
    print(
        "method        design    truth      n  epsilon  places  alone  order   held  worst  error"
    )
    with one_process_per_processor() as pool:
        for task, found in zip(tasks, pool.map(measured, tasks), strict=True):
            method, kind, truths, n, epsilon, _ = task
            places, alone, order, held, worst, error = found
            print(
                f"{method:13} {kind:9} {truths:9} {n:2} {epsilon:7}  {places:6.2f} {alone:6.2f}"
                f"  {order:5.2f}  {held:5.3f}  {worst:5.3f}  {error:5.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
