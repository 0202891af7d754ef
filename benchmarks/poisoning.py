"""How far dishonest answers move a ranking of privatised answers, and what a cap on epsilon does.

20 items with scores spread evenly; honest people choose one of three epsilons. A share of the
answers lies: all are about the worst item, the target, and say that it won, claiming one epsilon or
another. Printed for each share, claim and cap, as means over surveys: root mean square error of the
other items' scores, by how far the target's score and rank rise, A of `weight_of_lies`, and in how
many surveys the lies are found (`impossible_shares`).

    python benchmarks/poisoning.py [--surveys 5] [--answers 200000]
"""

from __future__ import annotations

import argparse

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.common.links import LOGISTIC
from hushrank.estimation.fit.chosen_epsilons import EpsilonBins, weight_of_lies
from hushrank.estimation.fit.pair_fit import AnswerVariance, fit_scores
from hushrank.estimation.fit.weighted_pairs import (
    WeightedPairs,
    dense_sums,
    impossible_shares,
    weighted_terms,
)
from hushrank.privacy.randomized_response import flip_probability, flip_thresholds

N_ITEMS, SPREAD = 20, 3.0
CHOSEN, SHARES = (0.5, 1.0, 2.0), (0.5, 0.3, 0.2)  # epsilons of honest answers
LOW, HIGH = 0.25, 4.0  # range that the job accepts
CAPS = (None, 2.0, 1.0, 0.5)
CLAIMS = (0.25, 0.5, 4.0)
LIES = (0.0, 0.01, 0.05, 0.1)

Floats = NDArray[np.float64]
TRUTH: Floats = np.linspace(SPREAD / 2, -SPREAD / 2, N_ITEMS)
TARGET = N_ITEMS - 1


def survey(
    answers: int, share: float, claim: float, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.uint8], Floats]:
    """Cells, privatised answers and their epsilons."""
    lies = round(share * answers)
    i, j = np.sort(rng.permuted(np.tile(np.arange(N_ITEMS), (answers, 1)), axis=1)[:, :2], axis=1).T
    epsilon = rng.choice(CHOSEN, answers, p=SHARES)
    won = rng.random(answers) < 1 / (1 + np.exp(TRUTH[j] - TRUTH[i]))
    flipped = rng.random(answers) < flip_probability(flip_thresholds(epsilon))
    said = (won ^ flipped).astype(np.uint8)
    # The target comes last, so it wins where the answer is 0: no flip, as a liar follows no rule.
    i[:lies], j[:lies] = rng.integers(0, TARGET, lies), TARGET
    said[:lies], epsilon[:lies] = 0, claim
    return i * N_ITEMS + j, said, epsilon


def scores(
    rows: tuple[NDArray[np.int64], NDArray[np.uint8], Floats], cap: float | None
) -> tuple[Floats, float, bool]:
    """Scores as they are published, A, and whether the page warns of lies."""
    cells, said, epsilon = rows
    sums = dense_sums(cells, weighted_terms(said, epsilon, cap), N_ITEMS)
    pairs, bins = WeightedPairs(*sums), EpsilonBins(LOW, HIGH, cap)
    fit, found = fit_scores(pairs, LOGISTIC, AnswerVariance()), impossible_shares(pairs)
    caught = bool(found.items or found.pairs)
    return fit.scores, weight_of_lies(bins.count(epsilon), bins), caught


def main() -> None:
    """Print a line for each setting."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--surveys", type=int, default=5)
    parser.add_argument("--answers", type=int, default=200_000)
    options = parser.parse_args()
    print("lies   claim   cap   rmse   target rises   ranks gained   A    found")
    for share in LIES:
        for claim in CLAIMS if share else CLAIMS[:1]:
            drawn = [
                survey(options.answers, share, claim, np.random.default_rng(seed))
                for seed in range(options.surveys)
            ]
            for cap in CAPS:
                found = [scores(rows, cap) for rows in drawn]
                errors = np.array([each - TRUTH for each, *_ in found])
                ranks = [TARGET - int((each > each[TARGET]).sum()) for each, *_ in found]
                rmse = np.sqrt(np.square(errors[:, :TARGET]).mean())
                print(
                    f"{share:5.0%}  {claim if share else '-':>6}  {cap or 'none':>4}  {rmse:.3f}"
                    f"  {errors[:, TARGET].mean():+12.2f}  {np.mean(ranks):13.1f}"
                    f"  {found[0][1]:5.1f}  {np.mean([each[2] for each in found]):4.0%}"
                )


if __name__ == "__main__":
    main()
