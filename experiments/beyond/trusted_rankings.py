"""Rankings with a trusted curator against rankings that are privatised one by one.

Both protect one person's whole ranking, replaced by any other, at the same epsilon: `mallows` moves
one item at 2 epsilon / m, the trusted curator adds noise to counts of pairs. Measured is the root
mean square error of the share of rankings that have one item above another, over all pairs, and
Kendall's tau of the Kemeny order with that of the true rankings.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import kendalltau

from hushrank.estimation.common.links import Floats
from hushrank.estimation.rankings.ranking_counts import (
    NoisyRankings,
    RankingCounts,
    calibrate_rankings,
    count_rankings,
    release_rankings,
)
from hushrank.estimation.rankings.ranking_estimates import kemeny
from hushrank.estimation.rankings.ranking_evidence import (
    LARGEST_ENTRY,
    debiased_evidence,
    largest_entry,
    plain_evidence,
)
from hushrank.experiments.beyond.figure import Figure, Point, points_of
from hushrank.privacy.mallows import synthetic_rankings
from hushrank.privacy.randomness import seeded_bits
from hushrank.privacy.ranking_sensitivity import Part
from hushrank.privacy.units import Adjacency, NoiseKind, PrivacyParams, Unit

ITEMS, PEOPLE, DELTA = 9, 6_900, 1e-6
EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.5, 9.0, 18.0)
ERROR, TAU = "RMSE of pair shares", "tau with the order without privacy"
LAPLACE, GAUSSIAN = "trusted, Laplace", f"trusted, Gaussian, delta {DELTA:g}"
UNDONE, PLAIN = "mallows, undone", "mallows, as counted"


def measure(replicates: int) -> list[Point]:
    """All ways at all epsilons."""
    found: dict[tuple[str, str, float], list[float]] = {}
    for seed in range(replicates):
        rankings = true_rankings(seed)
        exact = counted(rankings)
        for epsilon in EPSILONS:
            ways = {
                LAPLACE: trusted(exact, epsilon, 0.0, seed),
                GAUSSIAN: trusted(exact, epsilon, DELTA, seed),
                **local(rankings, epsilon, seed),
            }
            for way, wins in ways.items():
                found.setdefault((ERROR, way, epsilon), []).append(error_of(wins, exact))
                found.setdefault((TAU, way, epsilon), []).append(tau_of(wins, exact))
    return points_of(found)


def true_rankings(seed: int) -> NDArray[np.int64]:
    """Rankings by Plackett and Luce, shape (people, items), around normal scores."""
    random = np.random.default_rng(seed)
    utility = random.normal(0, 0.5, ITEMS) + random.gumbel(size=(PEOPLE, ITEMS))
    return np.argsort(-utility, axis=1)


def counted(rankings: NDArray[np.int64], *, by_place: bool = False) -> RankingCounts:
    """Counts of complete rankings."""
    lengths = np.full(len(rankings), ITEMS)
    return count_rankings(rankings.ravel(), lengths, ITEMS, ITEMS, by_place=by_place)


def trusted(exact: RankingCounts, epsilon: float, delta: float, seed: int) -> Floats:
    """Noisy counts of pairs."""
    params = PrivacyParams(
        unit=Unit.USER,
        adjacency=Adjacency.REPLACE_ONE,
        epsilon=epsilon,
        delta=delta,
        noise=NoiseKind.GAUSSIAN if delta else NoiseKind.LAPLACE,
    )
    weights = {Part.ABOVE: 1}
    law = calibrate_rankings(params, ITEMS, weights).law
    parts = release_rankings(exact, weights, law, seeded_bits(seed))
    return NoisyRankings(parts, weights, law, ITEMS).of(Part.ABOVE)


def local(rankings: NDArray[np.int64], epsilon: float, seed: int) -> dict[str, Floats]:
    """Counts of synthetic rankings, as they are and undone where that can be done."""
    own = 2 * epsilon / ITEMS  # of one moved item
    lengths = np.full(len(rankings), ITEMS)
    synthetic = synthetic_rankings(rankings.ravel(), lengths, own, seeded_bits(seed))
    counts = counted(synthetic.reshape(rankings.shape), by_place=True)
    found = {PLAIN: plain_evidence(counts).wins}
    if largest_entry(counts, own) <= LARGEST_ENTRY:
        found[UNDONE] = debiased_evidence(counts, own).wins
    return found


def error_of(wins: Floats, exact: RankingCounts) -> float:
    """Root mean square over pairs of the error of (wins - losses) / (2 rankings)."""
    pairs = np.triu_indices(ITEMS, 1)
    margins = [(each - each.T)[pairs] / (2 * exact.rankings) for each in (wins, exact.wins)]
    return float(np.sqrt(np.mean((margins[0] - margins[1]) ** 2)))


def tau_of(wins: Floats, exact: RankingCounts) -> float:
    """Kendall's tau of the two Kemeny orders."""
    found, wanted = (np.argsort(kemeny(each).order) for each in (wins, exact.wins))
    return float(kendalltau(found, wanted).statistic)


FIGURE = Figure(
    name="trusted-rankings",
    title=f"{PEOPLE:,} rankings of {ITEMS} items, one whole ranking protected",
    x="epsilon of a whole ranking",
    y="",
    measure=measure,
    replicates=40,
    quick=4,
    log_y=(ERROR,),
)
