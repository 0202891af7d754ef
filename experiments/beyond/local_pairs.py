"""Rankings that answer random pairs against synthetic rankings, both privatised one by one.

Both protect one whole ranking at the same epsilon: `mallows` moves one item at 2 epsilon / m,
random pairs answer the best number of pairs for epsilon, of ranked items or, where these are hidden
too, of the catalogue. Measured are the root mean square error of the share of rankings with one
item above another, over all pairs, and that of Borda scores, in places.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.common.links import Floats
from hushrank.estimation.rankings.mechanism_choice import mallows_epsilon, mallows_places
from hushrank.estimation.rankings.net_evidence import undone_nets
from hushrank.estimation.rankings.pair_answer_evidence import (
    AnswerSums,
    answered_nets,
    answered_pairs,
    count_answers,
)
from hushrank.estimation.rankings.ranking_counts import count_rankings
from hushrank.estimation.rankings.ranking_evidence import (
    LARGEST_ENTRY,
    debiased_evidence,
    largest_entry,
)
from hushrank.experiments.beyond.figure import Figure, Point, points_of
from hushrank.privacy.mallows import synthetic_rankings
from hushrank.privacy.random_pairs import Hide, answer_pairs, best_pairs, law_of_epsilon
from hushrank.privacy.randomness import seeded_bits

ITEMS, PEOPLE = 9, 6_900
EPSILONS = (1.0, 2.0, 4.5, 9.0, 18.0, 36.0)
SHARES, SCORES = "RMSE of pair shares", "RMSE of Borda scores"
MALLOWS = "mallows, undone"
PAIRS = {Hide.ORDER: "random pairs", Hide.ITEMS: "random pairs, items hidden"}


def measure(replicates: int) -> list[Point]:
    """All ways at all epsilons."""
    found: dict[tuple[str, str, float], list[float]] = {}
    for seed in range(replicates):
        rankings = true_rankings(seed)
        lengths = np.full(PEOPLE, ITEMS)
        exact = count_rankings(rankings, lengths, ITEMS, ITEMS, by_place=False).wins
        for epsilon in EPSILONS:
            ways = {MALLOWS: synthetic(rankings, lengths, epsilon, seed)}
            for hide, name in PAIRS.items():
                ways[name] = answered(rankings, lengths, epsilon, hide, seed)
            for way, (wins, sums) in ways.items():
                errors = {SCORES: sums - (exact - exact.T).sum(axis=1) / 2}
                if wins is not None:
                    margins = (wins - wins.T) - (exact - exact.T)
                    errors[SHARES] = margins[np.triu_indices(ITEMS, 1)] / 2
                for panel, error in errors.items():
                    value = float(np.sqrt(np.mean(np.square(error / PEOPLE))))
                    found.setdefault((panel, way, epsilon), []).append(value)
    return points_of(dict(sorted(found.items())))


def true_rankings(seed: int) -> NDArray[np.int64]:
    """Rankings by Plackett and Luce around normal scores, one after the other."""
    random = np.random.default_rng(seed)
    utility = random.normal(0, 0.5, ITEMS) + random.gumbel(size=(PEOPLE, ITEMS))
    return np.argsort(-utility, axis=1).ravel()


def synthetic(
    items: NDArray[np.int64], lengths: NDArray[np.int64], epsilon: float, seed: int
) -> tuple[Floats | None, Floats]:
    """Wins, where they can be undone by pairs, and sums of half nets, undone by places."""
    own = mallows_epsilon(epsilon, ITEMS)
    private = synthetic_rankings(items, lengths, own, seeded_bits(seed))
    counts = count_rankings(private, lengths, ITEMS, ITEMS, by_place=True)
    wins = None
    if largest_entry(counts, own) <= LARGEST_ENTRY:
        wins = debiased_evidence(counts, own).wins
    return wins, undone_nets(counts, lambda m: mallows_places(m, own)).sums


def answered(
    items: NDArray[np.int64], lengths: NDArray[np.int64], epsilon: float, hide: Hide, seed: int
) -> tuple[Floats, Floats]:
    """Wins and sums of half nets from private answers."""
    law = law_of_epsilon(epsilon, best_pairs(epsilon, ITEMS, hide), hide)
    answers = answer_pairs(items, lengths, ITEMS, law, seeded_bits(seed))
    counts = count_answers(answers, ITEMS, ITEMS, law)
    found = AnswerSums.of([(counts, law)])
    return answered_pairs(found).wins, answered_nets(found).sums


FIGURE = Figure(
    name="local-pairs",
    title=f"{PEOPLE:,} rankings of {ITEMS} items, each privatised by itself",
    x="epsilon of a whole ranking",
    y="",
    measure=measure,
    replicates=40,
    quick=4,
    log_y=(SHARES, SCORES),
)
