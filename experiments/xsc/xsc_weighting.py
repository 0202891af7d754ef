"""What the weights of [XSC] are worth where the ranking of the same people is the truth: Table 2.

The paper ranks 60 people's answers about 10 cars without privacy, takes that for the truth, and
counts how often rankings from randomised answers differ. Here people and answers are simulated, so
that what decides can be changed:

    one order    everybody answers by the same scores, each answer by itself: the paper's model
    own orders   everybody has scores of their own around the shared ones, and answers mostly keep
                 to them: as about the cars, 70 % of people contradict themselves somewhere, and 7 %
                 of the answers are against their own order ([XSC] §5.2, §S.1.1)

With everybody answering every pair, Bradley-Terry scores are in the order of the win totals, so a
method is the factor a_l of a person's noisy answers in them: t for `debiased-rr` (unbiased answers
(noisy - p) / t times the weight t^2), 1 for `classic-rr` and `rr-counts`, 1 / t for answers that
are debiased but not weighted. The total of an item then differs from that of the answers themselves
by noise of variance (1 - t^2) / 4 an answer and by counting people unequally, with a t instead of
1 / L. If totals of a person vary s times as much as independent answers would make them, the sum

    sum a^2 (1 - t^2) + s sum (a t - 1 / L)^2    where sum a t = 1

is least at a proportional to t / (1 + (s - 1) t^2). With independent answers (s = 1) that is the
paper's weighting. Where everybody keeps to an order of their own, s is up to (m + 1) / 3, the best
factor hardly depends on t, and equal weights do as well.

References:
    [XSC] Xu, Sun, Cheng. Rate-optimal rank aggregation with private pairwise rankings. §5.2.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from hushrank.estimation.common.links import Floats
from hushrank.estimation.common.metrics import kendall_distance
from hushrank.experiments.xsc.xsc_setting import OURS, Setting, Values
from hushrank.privacy.randomized_response import attenuation, flip_thresholds, randomize
from hushrank.privacy.randomness import seeded_bits

ONE_ORDER, OWN_ORDERS = "one order", "own orders"
ITEMS, PEOPLE = 10, 60
REACH = 0.5  # shared scores are evenly spaced between -0.5 and 0.5
STEADINESS = 3.0, 1.5  # of people with own orders: median and logarithmic spread


def weighting_settings() -> tuple[Setting, ...]:
    """The two kinds of people."""
    return tuple(
        Setting("table-2", "logistic", ITEMS, PEOPLE, kind) for kind in (ONE_ORDER, OWN_ORDERS)
    )


def worth_of_weights(setting: Setting, rng: np.random.Generator) -> Values:
    """Kendall errors of the methods in one simulated survey, by the ranking of its answers."""
    m, people = setting.size
    answers = simulated_answers(setting.scheme, m, people, rng)
    epsilon = drawn_epsilon(people, rng)
    bits, t = seeded_bits(int(rng.integers(2**63))), _attenuation(epsilon)
    noisy = randomize(answers.ravel(), np.repeat(epsilon, answers.shape[1]), bits)
    signs = 2.0 * noisy.reshape(answers.shape) - 1
    laplace = answers - 0.5 + rng.laplace(scale=1 / epsilon[:, np.newaxis], size=answers.shape)
    truth = item_totals((2.0 * answers - 1).sum(axis=0), m)
    values: Values = {(OURS, "inverse_sqrt_b"): inverse_sqrt_b(epsilon)}
    for method, sums in {
        OURS: t @ signs,
        "rr-counts": signs.sum(axis=0),
        "unweighted-rr": (1 / t) @ signs,
        "laplace-rr": laplace.sum(axis=0),
    }.items():
        values |= kendall_errors(item_totals(sums, m), truth, method)
    return values


def simulated_answers(
    kind: str, m: int, people: int, rng: np.random.Generator
) -> NDArray[np.uint8]:
    """Answers of shape (people, pairs), 1 where the first item of the pair won."""
    first, second = np.triu_indices(m, 1)
    scores = np.tile(REACH * np.linspace(1, -1, m), (people, 1))
    steadiness = np.ones((people, 1))
    if kind == OWN_ORDERS:
        scores = scores + rng.standard_normal((people, m))
        median, spread = STEADINESS
        steadiness = median * np.exp(spread * rng.standard_normal((people, 1)))
    chance = expit(steadiness * (scores[:, first] - scores[:, second]))
    return (rng.random(chance.shape) < chance).astype(np.uint8)


def drawn_epsilon(people: int, rng: np.random.Generator) -> Floats:
    """Everybody's epsilon uniform in (A, A + 1), with one A uniform in (0.2, 2)."""
    level = rng.uniform(0.2, 2)
    return rng.uniform(level, level + 1, people)


def inverse_sqrt_b(people_epsilon: Floats) -> float:
    """B^(-1/2), B the mean of t^2 over the people: what errors are proportional to ([XSC] §4.1)."""
    return float(1 / np.sqrt(np.square(_attenuation(people_epsilon)).mean()))


def _attenuation(epsilon: Floats) -> Floats:
    """t of everybody."""
    return attenuation(flip_thresholds(epsilon))


def item_totals(sums: Floats, m: int) -> Floats:
    """Sum of each item's pairs' sums; rounded, so that equal totals are equal."""
    first, second = np.triu_indices(m, 1)
    won, lost = (np.bincount(items, sums, m) for items in (first, second))
    return np.asarray(np.round(won - lost, 9))


def kendall_errors(scores: Floats, truth: Floats, method: str) -> Values:
    """K as the paper prints it, where equal items are no error, and with half an error for each.

    Totals of whole answers are often equal, and weighted ones never: by the printed K a method is
    better for being undecided.
    """
    distance, n = kendall_distance(scores, truth), len(truth)
    tied = np.equal.outer(scores, scores) & ~np.equal.outer(truth, truth)
    half = distance + float(tied.sum()) / 2 / (n * (n - 1))
    return {(method, "kendall"): distance, (method, "kendall_ties_half"): half}
