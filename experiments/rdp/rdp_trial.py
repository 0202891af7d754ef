"""Trials of the experiments of [RDP], one function a figure; all replicates that are asked for.

Synthetic rankings come from the mechanisms of this project, with seeded bits.

Scores of items for everybody from features of the items, learned from rankings.

The scoring function f(y) = beta . y of an item's features y is fitted by the mean over all pairs of
all rankings of log(1 + e^-(f(better) - f(worse))) plus a ridge. It is not corrected for what the
mechanism does. A private ranking keeps the order of each two items of the one true ranking behind
it more likely than not, and in these experiments all people have one true ranking, given their
features. Where true rankings vary, the best f for private rankings can be another one than the best
for the true ones, whatever [RDP] Lemma 6 says (`estimation.rankings.personalized` undoes the
mechanism). The model of [RDP] Section 6.4 is
alpha . x + beta . y: its alpha . x, of a person's features x, is the same for all items, so no
ranking says anything about it.

References:
    [RDP] Xu, Sun, Cheng. Ranking differential privacy. Sections 3.2 and 6.
    [RDP] Xu, Sun, Cheng. Ranking differential privacy. Sections 5 and 6, equation 6.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations, permutations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

from hushrank.estimation.fit.solve import ConvergenceError
from hushrank.estimation.rankings.ranking_counts import pair_counts
from hushrank.experiments.rdp.two_towers import fit_to_rankings
from hushrank.privacy.laplace_baselines import laplace_rankings
from hushrank.privacy.mallows import (
    expected_concordance,
    insertion_weights,
    sample_positions,
    synthetic_rankings,
)
from hushrank.privacy.randomness import RandomBits, seeded_bits

GRADIENT_TOLERANCE = 1e-6
MOST_ITERATIONS = 1000
RIDGE = 1e-4  # without it, rankings that a linear function explains completely have no minimum

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]


def fit_linear(rankings: Codes, item_features: Floats) -> Floats:
    """Fit beta, shape (q,), to rankings, private or not.

    Args:
        rankings: shape (n, m), rows of item codes, best first.
        item_features: shape (items, q).

    Raises:
        ValueError: a code is out of range, a feature is not finite, or no ranking has two items.
        ConvergenceError: the solver did not reach its tolerance.
    """
    if not np.isfinite(item_features).all():
        raise ValueError("features must be finite")
    wins = pair_counts(
        rankings.ravel(), np.full(len(rankings), rankings.shape[1]), len(item_features)
    )
    above, below = np.nonzero(wins)
    if not len(above):
        raise ValueError("no ranking has two items")
    weight = wins[above, below] / wins.sum()
    apart = item_features[above] - item_features[below]

    def objective(beta: Floats) -> tuple[float, Floats]:
        difference = apart @ beta
        value = weight @ np.logaddexp(0, -difference) + RIDGE * beta @ beta
        return float(value), 2 * RIDGE * beta - (weight * expit(-difference)) @ apart

    found = minimize(
        objective,
        np.zeros(item_features.shape[1]),
        jac=True,
        method="L-BFGS-B",
        options={"gtol": GRADIENT_TOLERANCE, "ftol": 0.0, "maxiter": MOST_ITERATIONS},
    )
    if np.abs(np.asarray(found.jac)).max() > 100 * GRADIENT_TOLERANCE:
        raise ConvergenceError(f"the fit stopped early: {found.message}")
    return np.asarray(found.x)


def pairwise_accuracy(scores: Floats, preferences: Floats) -> float:
    """Share of the pairs of items that `scores` puts in the order of `preferences`.

    Pairs with equal preferences do not count; equal scores are wrong. Twice [RDP] equation 11,
    which counts every pair in both directions.

    Args:
        scores: shape (m,) or (n, m), larger is better.
        preferences: shape (n, m), larger is better.

    Raises:
        ValueError: no pair has different preferences.
    """
    first, second = np.triu_indices(preferences.shape[1], 1)
    wanted = np.sign(preferences[:, first] - preferences[:, second])
    found = np.sign(scores[..., first] - scores[..., second])
    if not wanted.any():
        raise ValueError("no pair of items has different preferences")
    return float((wanted == found)[wanted != 0].mean())


MALLOWS, LAPLACE, CLOSED_FORM = "mallows", "laplace-ranks", "closed-form"
MECHANISMS: dict[str, Callable[..., NDArray[np.int64]]] = {
    MALLOWS: synthetic_rankings,
    LAPLACE: laplace_rankings,
}
DRAWS_AT_ONCE = 1 << 19
SIGNIFICANT = 3.0  # standard errors by which a set of outputs is marked down when one is chosen
N_NEW_USERS = 1000
N_HELD_OUT = 100  # users whose rankings only decide when the training of two towers stops

Values = dict[tuple[str, str], Floats]  # by method and metric: one value a replicate


@dataclass(frozen=True, slots=True)
class Setting:
    """One point of a figure; 0 where a size does not occur in it.

    Attributes:
        figure: its number.
        m: items of a ranking.
        n: users.
        N: synthetic rankings of one ranking, or draws of the mechanism.
        epsilon: nats a ranking.
        note: tells lines of one figure apart.
    """

    figure: str
    m: int
    n: int
    N: int
    epsilon: float
    note: str = ""


@dataclass(frozen=True, slots=True)
class Summary:
    """One row of the table; `se` is nan where there is one replicate."""

    setting: Setting
    method: str
    metric: str
    mean: float
    se: float
    replicates: int


def concordance(setting: Setting, rng: np.random.Generator, replicates: int) -> Values:
    """Figure 2: number of concordant pairs of a ranking and its synthetic one."""
    pairs = math.comb(setting.m, 2)
    expected = pairs * expected_concordance(setting.epsilon, setting.m)
    values = {(CLOSED_FORM, "concordant_pairs"): np.full(1, expected)}
    for name, mechanism in MECHANISMS.items():
        items = np.tile(np.arange(setting.m), replicates)
        lengths = np.full(replicates, setting.m)
        private = mechanism(items, lengths, setting.epsilon, bits_of(rng))
        values[name, "concordant_pairs"] = _concordant_pairs(private.reshape(-1, setting.m))
    return values


def estimated_epsilon(setting: Setting, rng: np.random.Generator, replicates: int) -> Values:
    """Figure 4: epsilon as seen from N draws for a ranking and N for each of its neighbours.

    `epsilon_hat_eq_8` is equation 8 as printed: the largest log ratio of two counts of one output.
    As a maximum over all outputs it is biased upwards, and the rarest ones decide it.
    `epsilon_hat` takes sets of outputs instead (`largest_log_ratio`). Both tend to epsilon; neither
    uses anything but the draws.
    """
    hats = np.empty((replicates, 2))
    for trial in hats:
        counts = _neighbour_counts(setting, bits_of(rng))
        trial[:] = largest_log_ratio(counts), _equation_8(counts.sum(axis=0))
    metrics = ("epsilon_hat", "epsilon_hat_eq_8")
    return {(MALLOWS, metric): hats[:, k] for k, metric in enumerate(metrics)}


def largest_log_ratio(counts: Codes) -> float:
    """Log ratio of the set of outputs that best tells a ranking from one of its neighbours.

    One half of the draws chooses the neighbour and the set, the other half, which had no say in
    that, estimates; then the other way round, and the mean of both.

    Args:
        counts: shape (2, 1 + neighbours, outputs): how often each output came in each half of the
            draws, for the ranking (first) and each neighbour.
    """
    estimates = []
    for chooses, estimating in (counts, counts[::-1]):
        others = range(1, len(chooses))
        sides = [side for other in others for side in ((0, other), (other, 0))]
        found = [_telling_outputs(*chooses[[left, right]]) for left, right in sides]
        best = int(np.argmax([bound for _, bound in found]))
        outputs, side = found[best][0], list(sides[best])
        over, under = estimating[side][:, outputs].sum(axis=1)
        estimates.append(_log(over) - _log(under))
    return float(np.mean(estimates))


def _telling_outputs(left: Codes, right: Codes) -> tuple[NDArray[np.bool_], float]:
    """Which outputs speak most for `left`, and a lower bound of the log ratio of all of them.

    Of the sets of outputs with the largest ratios, the one with the best bound sets the mark; an
    output is in unless its own ratio is significantly below that. So the rare ones, whose ratios
    are mostly noise, do not decide who is in.
    """
    ratio, error = _log(left) - _log(right), _error(left, right)
    order = np.argsort(-ratio, kind="stable")
    over, under = left[order].cumsum(), right[order].cumsum()
    mark = (_log(over) - _log(under) - SIGNIFICANT * _error(over, under)).max()
    chosen = ratio + SIGNIFICANT * error >= mark
    over, under = left[chosen].sum(), right[chosen].sum()
    return chosen, float(_log(over) - _log(under) - SIGNIFICANT * _error(over, under))


def attack(setting: Setting, rng: np.random.Generator, replicates: int) -> Values:
    """Figures 5 and 6: is the most likely ranking given N synthetic ones the true one?

    Where several are equally likely, the value is the chance of picking the true one among them.
    """
    values = np.empty(replicates)
    weights = insertion_weights(np.array([setting.epsilon]), setting.m)
    above, below = np.triu_indices(setting.m, 1)
    places = np.argsort(list(permutations(range(setting.m))), axis=1)  # the first: the truth
    agree = np.where(places[:, above] < places[:, below], 1, -1)
    size = max(DRAWS_AT_ONCE // setting.N, 1)
    bits = bits_of(rng)
    for start in range(0, replicates, size):
        n = len(values[start : start + size])
        drawn = sample_positions(weights, n * setting.N, bits).reshape(setting.m, n, setting.N)
        margins = 2 * (drawn[above] < drawn[below]).sum(axis=2) - setting.N
        likelihood = agree @ margins
        best = likelihood == likelihood.max(axis=0)
        values[start : start + size] = best[0] / best.sum(axis=0)
    return {(MALLOWS, "success"): values}


def personalized(setting: Setting, rng: np.random.Generator, replicates: int) -> Values:
    """Figure 7: accuracy for new users of what is learned from private rankings."""
    values: dict[tuple[str, str], list[float]] = {}
    for _ in range(replicates):
        alpha, beta = rng.uniform(-1, 1, (2, 4))
        users = rng.uniform(-3, 3, (setting.n, 4))
        new_users = rng.uniform(-3, 3, (N_NEW_USERS, 4))
        items = rng.uniform(-3, 3, (setting.m, 4))
        true = np.tile(np.argsort(-(items @ beta)), (setting.n, 1))
        preferences = (new_users @ alpha)[:, None] + items @ beta
        for name, mechanism in MECHANISMS.items():
            private = _private(mechanism, true, setting.epsilon, bits_of(rng))
            for model, fit in MODELS.items():
                scores = fit(private, users, items, new_users, rng)
                accuracy = pairwise_accuracy(scores, preferences)
                values.setdefault((f"{name}/{model}", "accuracy"), []).append(accuracy)
    return {key: np.array(column) for key, column in values.items()}


def real_rankings(
    setting: Setting, rng: np.random.Generator, replicates: int, rankings: Codes
) -> Values:
    """Figure 8: accuracy on other people's true rankings, relative to learning without privacy.

    The model is [RDP]'s alpha . x + beta . y with one feature for each item, so that any order of
    the items can be learned; a person's features never matter in it.
    """
    values: dict[tuple[str, str], list[float]] = {}
    for _ in range(replicates):
        shuffled = rng.permutation(rankings)
        train, test = np.split(shuffled, [3 * len(rankings) // 5])
        preferences = -np.argsort(test, axis=1).astype(np.float64)
        private = {
            name: _private(mechanism, train, setting.epsilon, bits_of(rng))
            for name, mechanism in MECHANISMS.items()
        }
        accuracy = {
            name: pairwise_accuracy(fit_linear(rows, np.eye(setting.m)), preferences)
            for name, rows in {"no-privacy": train, **private}.items()
        }
        for name in MECHANISMS:
            relative = accuracy[name] / accuracy["no-privacy"]
            values.setdefault((f"{name}/linear", "relative_accuracy"), []).append(relative)
        values.setdefault(("no-privacy/linear", "accuracy"), []).append(accuracy["no-privacy"])
    return {key: np.array(column) for key, column in values.items()}


def bits_of(rng: np.random.Generator) -> RandomBits:
    """Bits of a simulated mechanism, seeded by the simulation's generator."""
    return seeded_bits(int(rng.integers(2**63)))


def neighbours(m: int) -> Iterator[tuple[int, ...]]:
    """Rankings that differ from 0..m-1 by moving one item; each once."""
    seen = {tuple(range(m))}
    for item in range(m):
        rest = [other for other in range(m) if other != item]
        for place in range(m):
            moved = (*rest[:place], item, *rest[place:])
            if moved not in seen:
                seen.add(moved)
                yield moved


def _neighbour_counts(setting: Setting, bits: RandomBits) -> Codes:
    """Counts as `largest_log_ratio` takes them, for 0..m-1 and its neighbours."""
    outputs = list(permutations(range(setting.m)))
    halves_of_draws = setting.N // 2, setting.N - setting.N // 2
    number = {output: index for index, output in enumerate(outputs)}
    counts = []
    for ranking in [tuple(range(setting.m)), *neighbours(setting.m)]:
        # what comes out of `ranking` is what comes out of 0..m-1 with its items renamed
        renamed = [number[tuple(map(ranking.index, output))] for output in outputs]
        halves = [_law_counts(setting, n, outputs, bits) for n in halves_of_draws]
        counts.append(np.stack(halves)[:, renamed])
    return np.stack(counts, axis=1)


def _equation_8(counts: Codes) -> float:
    with np.errstate(divide="ignore"):  # an output that never came: an infinite estimate
        logs = np.log(counts)
    return float(np.abs(logs[1:] - logs[0]).max())


def _log(counts: Codes) -> Floats:
    """Finite where nothing was counted, and otherwise hardly changed."""
    return np.asarray(np.log(counts + 0.5))


def _error(over: Codes, under: Codes) -> Floats:
    """Standard error of the log ratio of two counts."""
    return np.asarray(np.sqrt(1 / (over + 0.5) + 1 / (under + 0.5)))


def _law_counts(
    setting: Setting, n_draws: int, outputs: list[tuple[int, ...]], bits: RandomBits
) -> Codes:
    """How often each output came in `n_draws` draws for the ranking 0..m-1."""
    base = setting.m ** np.arange(setting.m)
    counts = np.zeros(setting.m**setting.m, np.int64)
    weights = insertion_weights(np.array([setting.epsilon]), setting.m)
    for start in range(0, n_draws, DRAWS_AT_ONCE):
        n = min(DRAWS_AT_ONCE, n_draws - start)
        positions = sample_positions(weights, n, bits)
        code = np.zeros(n, np.uint16)  # m^m < 2^16 up to m = 6
        for weight, row in zip(base, positions, strict=True):
            code += np.uint16(weight) * row
        counts += np.bincount(code, minlength=len(counts))
    codes = [int(np.argsort(output) @ base) for output in outputs]
    return counts[codes]


def _concordant_pairs(private: Codes) -> Floats:
    total = np.zeros(len(private))
    for first, second in combinations(range(private.shape[1]), 2):
        total += private[:, first] < private[:, second]
    return total


def _private(
    mechanism: Callable[..., Codes], rankings: Codes, epsilon: float, bits: RandomBits
) -> Codes:
    lengths = np.full(len(rankings), rankings.shape[1])
    return mechanism(rankings.ravel(), lengths, epsilon, bits).reshape(rankings.shape)


def _linear_scores(
    private: Codes, users: Floats, items: Floats, new_users: Floats, rng: np.random.Generator
) -> Floats:
    del users, new_users, rng  # everybody has the same scores, and the problem is convex
    return items @ fit_linear(private, items)


def _two_tower_scores(
    private: Codes, users: Floats, items: Floats, new_users: Floats, rng: np.random.Generator
) -> Floats:
    held_out = np.arange(len(users)) < N_HELD_OUT
    fit = fit_to_rankings(private, users, items, held_out, bits_of(rng))
    return fit.scores(new_users, items)


# How new users' scores are learned from rankings.
MODELS: dict[str, Callable[[Codes, Floats, Floats, Floats, np.random.Generator], Floats]] = {
    "linear": _linear_scores,
    "two-towers": _two_tower_scores,
}
