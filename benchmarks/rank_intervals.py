"""How wide rank intervals are and how often they hold, beside simpler and bolder ways.

Scores of items have normal errors. Settings as in the frontier: A 20 items known equally well, B 30
items of which each is known less well than the one before (Zipf) and five hardly at all, C 1 000
items known equally badly. `error` is the standard error of an item, in standard deviations of the
true scores. Printed are mean widths in ranks, of intervals of one item: by Bonferroni over all
opponents, as published, and by a posterior that takes true scores for normal (empirical Bayes, no
promise for a single item); the share that holds, over all items and of the item where it is
smallest; the same of the intervals of all items at once, and how often all of them hold.

Then, of items whose true scores are equal but for next to nothing, so that any of the ranks may be
one's own: how often the published interval of one item holds, and how often one would that was
narrower by a factor. The least factor that holds 95 % is what the joint law of all differences
(their correlation, by bootstrap or in closed form) could gain over Bonferroni: 4 % for 20 items.

    python benchmarks/rank_intervals.py [--repeats 200] [--setting A B C]
"""

from __future__ import annotations

import argparse

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from hushrank.estimation.common.estimate import mean_ranks
from hushrank.estimation.common.pair_separation import (
    ScoreErrors,
    difference_variance,
    separate_pairs,
    simulated_scores,
)
from hushrank.estimation.common.uncertainty import LEVEL

Floats = NDArray[np.float64]
FACTORS = (1.0, 0.96, 0.9, 0.75, 0.5)
ERRORS = (0.05, 0.1, 0.2, 0.4, 0.8)


def spread_of(setting: str, error: float) -> Floats:
    """Standard errors of the items."""
    if setting == "B":
        known = np.sqrt(np.arange(1, 26) / 5.0)
        return error * np.concatenate([known, np.full(5, 4.0)])
    return np.full(20 if setting == "A" else 1_000, error)


def measured(setting: str, error: float, repeats: int) -> str:
    """A line for one setting."""
    spread = spread_of(setting, error)
    n = len(spread)
    random = np.random.default_rng(1)
    covariance = np.diag(spread**2)
    between = np.sqrt(difference_variance(covariance))
    draws = 200 if n > 100 else 2_000
    truth = random.normal(size=n)  # one world; the item that is hardest in it is looked at
    ranks = mean_ranks(truth)
    width, held, together = np.zeros(4), np.zeros((4, n)), 0
    for _ in range(repeats):
        scores = truth + spread * random.normal(size=n)
        ahead = scores[:, None] - scores

        def better_at(tail: float, ahead: Floats = ahead) -> NDArray[np.bool_]:
            return np.asarray(ahead > -ndtri(tail) * between)

        def ends_at(tail: float, scores: Floats = scores) -> tuple[Floats, Floats]:
            return scores + ndtri(tail) * spread, scores - ndtri(tail) * spread

        found = separate_pairs(scores, better_at, ends_at)
        plain = better_at(0.05 / (2 * (n - 1)))
        drawn = simulated_scores(ScoreErrors(scores, spread**2), draws)
        places = n - np.argsort(np.argsort(drawn, axis=1), axis=1)
        likely = np.quantile(places, (0.025, 0.975), axis=0)
        sure = found.at_once
        intervals = (
            (1 + plain.sum(axis=0), n - plain.sum(axis=1)),
            (found.rank_low, found.rank_high),
            (np.floor(likely[0]), np.ceil(likely[1])),
            (sure.rank_low, sure.rank_high),
        )
        for kind, (low, high) in enumerate(intervals):
            width[kind] += (high - low).mean() / repeats
            held[kind] += (low <= ranks) & (ranks <= high)
        together += bool(((sure.rank_low <= ranks) & (ranks <= sure.rank_high)).all())
    share = held / repeats
    return (
        f"{setting}  {error:5}   {width[0]:7.2f} {width[1]:9.2f} {width[2]:9.2f} {width[3]:8.2f}"
        f"   {share[0].mean():6.1%} {share[0].min():6.1%}   {share[1].mean():6.1%}"
        f" {share[1].min():6.1%}   {share[2].mean():6.1%} {share[2].min():6.1%}"
        f"   {together / repeats:6.1%}"
    )


def of_equals(n: int, repeats: int) -> str:
    """How often one of n equals is told from no other, at factors of the critical value."""
    critical = -ndtri(LEVEL / 2 / (n - 1))
    scores = np.random.default_rng(2).normal(size=(repeats, n))
    furthest = np.abs(scores[:, 1:] - scores[:, :1]).max(axis=1) / np.sqrt(2)
    shares = ((furthest < factor * critical).mean() for factor in FACTORS)
    return f"{n:6}   " + "  ".join(f"{share:7.1%}" for share in shares)


def main() -> None:
    """Print a line for each setting."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--setting", nargs="+", default=["A", "B", "C"], choices=["A", "B", "C"])
    options = parser.parse_args()
    print("            mean width                            Bonferroni      published")
    print("   error  Bonferr. published posterior at once    held  least     held  least", end="")
    print("     posterior       at once")
    for setting in options.setting:
        for error in ERRORS:
            repeats = max(options.repeats // (20 if setting == "C" else 1), 10)
            print(measured(setting, error, repeats), flush=True)
    print("\nEquals: share held by the interval of one item, narrower by a factor")
    print("items    " + "  ".join(f"{factor:7}" for factor in FACTORS))
    for n in (20, 30, 1_000):
        print(of_equals(n, 20_000 if n < 100 else 4_000))


if __name__ == "__main__":
    main()
