"""Errors of Borda and Bradley-Terry scores from private rankings, and how often intervals hold.

True rankings follow the law of Plackett and Luce, with scores spread evenly over 3.6 log odds
(`spread`) or 0.6 (`close`). Printed for each setting: the root mean square error of the scores as
counted (`plain`), undone and not drawn to zero (`undone`), and as published; the share of 95 %
intervals that hold the true score, over all items and for the item where they do least often; the
share of intervals with an infinite end.

    python benchmarks/ranking_scores.py [--repeats 200] [--items 4 5 10 20] [--people 100 1000]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from hushrank.estimation.common.estimate import Estimate
from hushrank.estimation.common.links import LOGISTIC
from hushrank.estimation.fit.likelihood import Objective
from hushrank.estimation.fit.solve import minimise
from hushrank.estimation.rankings.bradley_terry import bradley_terry_estimate
from hushrank.estimation.rankings.net_evidence import NetEvidence, plain_nets, undone_nets
from hushrank.estimation.rankings.place_laws import laplace_places, mallows_places
from hushrank.estimation.rankings.ranking_counts import RankingCounts, count_rankings
from hushrank.estimation.rankings.ranking_estimates import borda_estimate
from hushrank.privacy.laplace_ranks import laplace_rankings
from hushrank.privacy.mallows import synthetic_rankings
from hushrank.privacy.randomness import seeded_bits

Floats = NDArray[np.float64]
MECHANISMS = {
    "mallows": (synthetic_rankings, mallows_places),
    "laplace-ranks": (laplace_rankings, laplace_places),
}
SPREADS = {"spread": 1.8, "close": 0.3}


@dataclass(frozen=True, slots=True)
class Setting:
    """What rankings are invented and how they are privatised."""

    mechanism: str
    items: int
    people: int
    epsilon: float
    spread: str

    @property
    def truth(self) -> Floats:
        """True scores in log odds, the best first."""
        return np.linspace(1.0, -1.0, self.items) * SPREADS[self.spread]

    @property
    def borda(self) -> Floats:
        """True mean places above the middle."""
        return expit(self.truth[:, None] - self.truth).sum(axis=1) - self.items / 2

    def counts(self, seed: int) -> RankingCounts:
        """Of private rankings."""
        random = np.random.default_rng(seed)
        utility = self.truth + random.gumbel(size=(self.people, self.items))
        rankings = np.argsort(-utility, axis=1)
        lengths = np.full(self.people, self.items)
        privatise = MECHANISMS[self.mechanism][0]
        private = privatise(rankings.ravel(), lengths, self.epsilon, seeded_bits(seed))
        return count_rankings(private, lengths, self.items, self.items, by_place=True)


def most_likely(evidence: NetEvidence) -> Floats:
    """Bradley-Terry scores with a ridge of 1, whatever the noise."""
    return minimise(Objective(evidence.totals / 2, LOGISTIC, 2.0, -evidence.sums)).theta


def measured(setting: Setting, repeats: int) -> Iterator[str]:
    """A line for each method."""
    law, epsilon = MECHANISMS[setting.mechanism][1], setting.epsilon
    errors: dict[str, list[list[float]]] = {"borda": [], "bradley-terry": []}
    held: dict[str, list[NDArray[np.bool_]]] = {"borda": [], "bradley-terry": []}
    open_ = dict.fromkeys(errors, 0.0)
    for seed in range(repeats):
        counts = setting.counts(seed)
        plain, undone = plain_nets(counts), undone_nets(counts, lambda m: law(m, epsilon))
        n = setting.people
        found: dict[str, tuple[Floats, Estimate, Floats, Floats]] = {
            "borda": (
                setting.borda,
                borda_estimate(undone).estimate,
                plain.sums / n,
                undone.sums / n,
            ),
            "bradley-terry": (
                setting.truth,
                bradley_terry_estimate(undone).estimate,
                most_likely(plain),
                most_likely(undone),
            ),
        }
        for name, (truth, estimate, *others) in found.items():
            scores = (*others, estimate.scores)
            errors[name].append([float(np.square(each - truth).mean()) for each in scores])
            held[name].append((estimate.low <= truth) & (truth <= estimate.high))
            open_[name] += float(np.isinf(estimate.high - estimate.low).mean()) / repeats
    for name in errors:
        plain_error, undone_error, own = np.sqrt(np.mean(errors[name], axis=0))
        share = np.mean(held[name], axis=0)
        yield (
            f"{setting.mechanism:13} {setting.items:5} {setting.people:6} {epsilon:4}"
            f" {setting.spread:6} {name:13} {plain_error:6.3f} {undone_error:6.3f} {own:6.3f}"
            f"   {share.mean():6.1%} {share[0]:6.1%} {share[-1]:6.1%} {share.min():6.1%}"
            f" {open_[name]:5.0%}"
        )


def main() -> None:
    """Print a line for each setting and method."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--items", type=int, nargs="+", default=[4, 5, 10, 20])
    parser.add_argument("--people", type=int, nargs="+", default=[100, 300, 1_000, 10_000])
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.5, 1.0, 2.0, 4.0])
    parser.add_argument("--mechanism", nargs="+", choices=MECHANISMS, default=list(MECHANISMS))
    options = parser.parse_args()
    print(
        "mechanism     items people  eps truth  method         plain undone   published"
        "   held   best   last  least  open"
    )
    grid = product(options.mechanism, options.items, options.people, options.epsilon, SPREADS)
    for setting in grid:
        for line in measured(Setting(*setting), options.repeats):
            print(line, flush=True)


if __name__ == "__main__":
    main()
