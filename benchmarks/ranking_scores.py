"""Errors of Borda and Bradley-Terry scores from private rankings, and how often intervals hold.

True rankings follow the law of Plackett and Luce, with scores spread evenly over 3.6 log odds
(`spread`) or 0.6 (`close`). Printed for each setting: the root mean square error of the scores as
counted (`plain`), undone and not drawn to zero (`undone`), and as published; the share of 95 %
intervals that hold the true score, over all items and for the item where they do least often; the
share of intervals with an infinite end. The epsilon of `random-pairs` and `hidden-pairs` is that of
a whole ranking, that of the others of one moved item.

    python benchmarks/ranking_scores.py [--repeats 200] [--items 4 5 10 20] [--people 100 1000]
        [--mechanism random-pairs]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from hushrank.estimation.common.links import LOGISTIC
from hushrank.estimation.fit.likelihood import Objective
from hushrank.estimation.fit.pair_fit import RIDGE
from hushrank.estimation.fit.solve import minimise
from hushrank.estimation.rankings.bradley_terry import bradley_terry_estimate
from hushrank.estimation.rankings.mechanism_choice import laplace_places, mallows_places
from hushrank.estimation.rankings.net_evidence import NetEvidence, plain_nets, undone_nets
from hushrank.estimation.rankings.pair_answer_evidence import (
    AnswerSums,
    answered_nets,
    count_answers,
    fitted_nets,
)
from hushrank.estimation.rankings.ranking_counts import RankingCounts, count_rankings
from hushrank.estimation.rankings.ranking_estimates import borda_estimate
from hushrank.privacy.laplace_baselines import laplace_rankings
from hushrank.privacy.mallows import synthetic_rankings
from hushrank.privacy.random_pairs import Hide, answer_pairs, best_pairs, law_of_epsilon
from hushrank.privacy.randomness import seeded_bits

Floats = NDArray[np.float64]
MECHANISMS = {
    "mallows": (synthetic_rankings, mallows_places),
    "laplace-ranks": (laplace_rankings, laplace_places),
}
PAIRS = {"random-pairs": Hide.ORDER, "hidden-pairs": Hide.ITEMS}
SPREADS = {"spread": 1.8, "close": 0.3}


@dataclass(frozen=True, slots=True)
class Setting:
    """What rankings are simulated and how they are privatised."""

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

    def rankings(self, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """True rankings, one after the other, and their lengths."""
        random = np.random.default_rng(seed)
        utility = self.truth + random.gumbel(size=(self.people, self.items))
        return np.argsort(-utility, axis=1), np.full(self.people, self.items)

    def evidence(self, seed: int) -> dict[str, tuple[NetEvidence, NetEvidence]]:
        """Of private rankings, as they are and undone, for each method."""
        if self.mechanism in PAIRS:
            return self._answered(seed)
        counts, law = self.counts(seed), MECHANISMS[self.mechanism][1]
        both = plain_nets(counts), undone_nets(counts, lambda m: law(m, self.epsilon))
        return dict.fromkeys(("borda", "bradley-terry"), both)

    def _answered(self, seed: int) -> dict[str, tuple[NetEvidence, NetEvidence]]:
        hide = PAIRS[self.mechanism]
        law = law_of_epsilon(self.epsilon, best_pairs(self.epsilon, self.items, hide), hide)
        rankings, lengths = self.rankings(seed)
        answers = answer_pairs(rankings.ravel(), lengths, self.items, law, seeded_bits(seed))
        counts = count_answers(answers, self.items, self.items, law)
        sums = [AnswerSums.of([(counts, law)], undone=each) for each in (False, True)]
        found = {"borda": tuple(map(answered_nets, sums))}
        if hide is Hide.ORDER:
            found["bradley-terry"] = tuple(fitted_nets(each, RIDGE) for each in sums)
        return found

    def counts(self, seed: int) -> RankingCounts:
        """Of private rankings."""
        rankings, lengths = self.rankings(seed)
        privatise = MECHANISMS[self.mechanism][0]
        private = privatise(rankings.ravel(), lengths, self.epsilon, seeded_bits(seed))
        return count_rankings(private, lengths, self.items, self.items, by_place=True)


def most_likely(evidence: NetEvidence) -> Floats:
    """Bradley-Terry scores with a ridge of 1, whatever the noise."""
    return minimise(Objective(evidence.totals / 2, LOGISTIC, 2.0, -evidence.sums)).theta


def measured(setting: Setting, repeats: int) -> Iterator[str]:
    """A line for each method."""
    errors: dict[str, list[list[float]]] = {}
    held: dict[str, list[NDArray[np.bool_]]] = {}
    open_: dict[str, float] = {}
    for seed in range(repeats):
        for name, (plain, undone) in setting.evidence(seed).items():
            fitted = name == "bradley-terry"
            truth = setting.truth if fitted else setting.borda
            rank = bradley_terry_estimate if fitted else borda_estimate
            estimate = rank(undone).estimate
            own = [
                most_likely(each) if fitted else each.sums / setting.people
                for each in (plain, undone)
            ]
            scores = (*own, estimate.scores)
            errors.setdefault(name, []).append([float(np.square(s - truth).mean()) for s in scores])
            held.setdefault(name, []).append((estimate.low <= truth) & (truth <= estimate.high))
            infinite = float(np.isinf(estimate.high - estimate.low).mean())
            open_[name] = open_.get(name, 0.0) + infinite / repeats
    for name in errors:
        plain_error, undone_error, own = np.sqrt(np.mean(errors[name], axis=0))
        share = np.mean(held[name], axis=0)
        yield (
            f"{setting.mechanism:13} {setting.items:5} {setting.people:6} {setting.epsilon:4}"
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
    parser.add_argument(
        "--mechanism", nargs="+", choices=(*MECHANISMS, *PAIRS), default=[*MECHANISMS]
    )
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
