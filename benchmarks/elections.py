"""How often rules on noisy counts agree with an exact count, and what is called sure.

Electorates follow the Plackett-Luce model with scores of standard deviation 0.4; what disagrees are
near ties. Prints the tables of docs/elections.md: `python benchmarks/elections.py`.
"""

from __future__ import annotations

import math
import sys

import numpy as np

from hushrank.estimation.rankings.election_rules import (
    OF_MARGINS,
    Margins,
    Rounds,
    first_choices,
    release_rounds,
)
from hushrank.estimation.rankings.ranking_counts import calibrate_rankings, pair_counts
from hushrank.privacy.noise import NoiseLaw, add_noise
from hushrank.privacy.randomness import seeded_bits
from hushrank.privacy.ranking_sensitivity import Part, Weights, margin_weights
from hushrank.privacy.units import Adjacency, NoiseKind, PrivacyParams, Unit

EPSILONS = (0.5, 1.0, 2.0)
EXACT = NoiseLaw(NoiseKind.GAUSSIAN, 0.0)
MARGINS = ((5, 300), (5, 2_000), (9, 6_900))
ROUNDS = ((5, 300), (5, 2_000), (5, 20_000), (9, 6_900), (9, 50_000))


def electorate(seed: int, n_items: int, people: int) -> np.ndarray:
    """Complete ballots, shape (people, n_items)."""
    rng = np.random.default_rng(seed)
    scores = 0.4 * rng.standard_normal(n_items)
    return np.argsort(rng.gumbel(size=(people, n_items)) - scores, axis=1)


def law_of(epsilon: float, n_items: int, part: Part) -> NoiseLaw:
    """Of Gaussian noise for complete ballots under replace-one, delta 10^-6."""
    params = PrivacyParams(
        unit=Unit.USER,
        adjacency=Adjacency.REPLACE_ONE,
        epsilon=epsilon,
        delta=1e-6,
        noise=NoiseKind.GAUSSIAN,
        max_contributions=1,
    )
    weights: Weights = {Part.ROUNDS: 1}
    if part is Part.MARGINS:
        weights = margin_weights(params, n_items, below=n_items)
    return calibrate_rankings(params, n_items, weights, below=n_items).law


def of_margins(n_items: int, people: int, electorates: int, draws: int) -> None:
    """Print how often each rule agrees, and what is called sure of the Condorcet winner."""
    laws = [law_of(epsilon, n_items, Part.MARGINS) for epsilon in EPSILONS]
    agree = np.zeros((len(OF_MARGINS), len(laws)))
    sure, wrong, size = (np.zeros(len(laws)) for _ in range(3))
    upper = np.triu_indices(n_items, 1)
    for seed in range(electorates):
        ballots = electorate(seed, n_items, people)
        wins = pair_counts(ballots.ravel(), np.full(people, n_items), n_items)
        exact = (wins - wins.T)[upper]
        truth = [_margins(exact, n_items, EXACT).result(rule).winners for rule in OF_MARGINS]
        for place, law in enumerate(laws):
            for draw in range(draws):
                noisy = add_noise(exact, law, seeded_bits(seed * draws + draw))
                found = _margins(noisy, n_items, law)
                results = [found.result(rule) for rule in OF_MARGINS]
                agree[:, place] += [
                    bool((own.winners == right).all())
                    for own, right in zip(results, truth, strict=True)
                ]
                first, smith = results[0], results[1]
                claimed = first.sure and bool(first.winners.any())
                sure[place] += claimed
                wrong[place] += claimed and not bool((first.winners == truth[0]).all())
                size[place] += smith.possible.sum()
    runs = electorates * draws
    sys.stdout.write(f"\n{n_items} candidates, {people:,} ballots: epsilon 0.5, 1, 2\n")
    for rule, shares in zip(OF_MARGINS, agree / runs, strict=True):
        sys.stdout.write(f"  {rule:13} {_row(shares)}\n")
    sys.stdout.write(f"  Condorcet winner called sure {_row(sure / runs)}, wrongly ")
    sys.stdout.write(f"{_row(wrong / runs, 3)}; possible Smith set {_row(size / runs, 1)}\n")


def _margins(upper: np.ndarray, n_items: int, law: NoiseLaw) -> Margins:
    margins = np.zeros((n_items, n_items))
    margins[np.triu_indices(n_items, 1)] = upper
    deviation = math.sqrt(law.variance)
    return Margins(
        margins=margins - margins.T, deviation=deviation, kind=law.kind, draws=1, step=1.0
    )


def of_rounds(n_items: int, people: int, electorates: int) -> None:
    """Print how often the winner is that of exact rounds, and what is called sure."""
    laws = [law_of(epsilon, n_items, Part.ROUNDS) for epsilon in EPSILONS]
    right, every, winner, wrong = (np.zeros(len(laws)) for _ in range(4))
    for seed in range(electorates):
        ballots = electorate(seed, n_items, people)
        firsts = first_choices(ballots.ravel(), np.full(people, n_items), n_items, n_items)
        exact = Rounds.of(release_rounds(firsts, n_items, EXACT, seeded_bits(1)), EXACT)
        for place, law in enumerate(laws):
            found = Rounds.of(release_rounds(firsts, n_items, law, seeded_bits(seed)), law)
            said = found.result()
            right[place] += found.order[0] == exact.order[0]
            every[place] += found.reached.all()
            winner[place] += said.sure
            wrong[place] += not said.possible[exact.order[0]]
    deviations = " / ".join(f"{math.sqrt(law.variance):.1f}" for law in laws)
    sys.stdout.write(
        f"{n_items}, {people:,}: deviation {deviations}; winner {_row(right / electorates)};"
        f" every round sure {_row(every / electorates)}; winner sure {_row(winner / electorates)};"
        f" wrongly {_row(wrong / electorates)}\n"
    )


def _row(values: np.ndarray, digits: int = 2) -> str:
    return " / ".join(f"{value:.{digits}f}" for value in values)


if __name__ == "__main__":
    for setting in ROUNDS:
        of_rounds(*setting, electorates=32 if setting[1] > 20_000 else 100)
    for setting in MARGINS:
        of_margins(*setting, electorates=60, draws=10)
