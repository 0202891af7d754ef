"""Errors of pair shares: random pairs and synthetic rankings, at one epsilon of a whole ranking.

True rankings follow the law of Plackett and Luce, with scores spread evenly over `SPREAD` log odds.
Printed: root mean square error of the share of true rankings with a above b, over all pairs and
repetitions, for `mallows` as counted and undone by pairs, at 2 epsilon / m for one moved item; and
for random pairs with one answer a ranking, and with as many as `best_pairs` says.

    python benchmarks/local_pairs.py [--repeats 5] [--people 100000]
"""

from __future__ import annotations

import argparse

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.rankings.mechanism_choice import mallows_epsilon
from hushrank.estimation.rankings.pair_answer_evidence import (
    AnswerSums,
    answered_pairs,
    count_answers,
)
from hushrank.estimation.rankings.ranking_counts import pair_counts
from hushrank.estimation.rankings.ranking_evidence import debiased_pair_counts
from hushrank.privacy.mallows import synthetic_rankings
from hushrank.privacy.random_pairs import Hide, answer_pairs, best_pairs, law_of_epsilon
from hushrank.privacy.randomness import seeded_bits

SETTINGS = ((5, 2.5), (10, 5.0), (10, 15.0), (10, 50.0))  # items, epsilon of a whole ranking
SPREAD = 3.6

Floats = NDArray[np.float64]


def errors(m: int, epsilon: float, people: int, seed: int) -> list[float]:
    """Mean square errors: mallows as counted, undone; one pair, the best number of pairs."""
    random = np.random.default_rng(seed)
    scores = np.linspace(SPREAD / 2, -SPREAD / 2, m)
    rankings = np.argsort(-(scores + random.gumbel(size=(people, m))), axis=1)
    items, lengths = rankings.ravel(), np.full(people, m)
    truth = pair_counts(items, lengths, m) / people
    own = mallows_epsilon(epsilon, m)
    private = synthetic_rankings(items, lengths, own, seeded_bits(seed))
    shares: list[Floats] = [
        pair_counts(private, lengths, m) / people,
        debiased_pair_counts(private.reshape(people, m), own) / people,
    ]
    for pairs in (1, best_pairs(epsilon, m, Hide.ORDER)):
        law = law_of_epsilon(epsilon, pairs)
        answers = answer_pairs(items, lengths, m, law, seeded_bits(seed))
        found = AnswerSums.of([(count_answers(answers, m, m, law), law)])
        shares.append(answered_pairs(found).wins / people)
    above = np.triu_indices(m, 1)
    return [float(np.square((share - truth)[above]).mean()) for share in shares]


def main() -> None:
    """Print a line for each setting."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--people", type=int, default=100_000)
    options = parser.parse_args()
    print("items  epsilon  mallows, counted  undone   d = 1    best d")
    for m, epsilon in SETTINGS:
        found = [errors(m, epsilon, options.people, seed) for seed in range(options.repeats)]
        plain, undone, one, best = np.sqrt(np.mean(found, axis=0))
        d = best_pairs(epsilon, m, Hide.ORDER)
        print(f"{m:5}  {epsilon:7}  {plain:16.4f}  {undone:.4f}  {one:.4f}  {best:.4f} (d = {d})")


if __name__ == "__main__":
    main()
