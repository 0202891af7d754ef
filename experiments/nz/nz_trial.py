"""One trial of the experiments of [NZ]: every mechanism on the same answers.

`constants` says how a mechanism is calibrated to (epsilon, delta).

    tight  This project: sensitivities of `privacy.response_sensitivity`, zCDP by the accountant,
           and for randomised response the shuffle theorem where it helps and holds.
    paper  [NZ]: every one of the 2 |E| entries may move, so l1 = l2^2 = 2 |E|;
           rho = epsilon^2 / (4 ln(1 / delta)); the local epsilon by bisection up to the theorem's
           condition, below epsilon itself where there are few people. Two errata are not followed:
           noise goes on every entry (E5), and its variance is the proof's (E6). That rho stands for
           epsilon only roughly: at these sensitivities the accountant allows less from 7.3 on (10
           items) or 7.5 (100), at delta = 1e-4. With all pairs a person moves half as much,
           so there `paper` is more private than it says.

The clipping and regularisation are the paper's too: noisy counts are raised to 1, and 1 is added.

Right and wrong answers from a table of ratings, as [NZ] made them for its Figure 3.

The paper takes ML-100K: 943 people, 1 682 films, 100 000 ratings. Missing ratings are filled in by
a low-rank fit; what a person prefers less than their own average becomes a 1, the rest a 0; and a
random subset of the items is the test. So everybody answers everything, and a "difficult" item is a
popular one. The paper states neither the rank nor the fit, nor how many items it took.

`stand_in` makes up a table of that size and sparsity, so that the figure can be drawn without the
file: a mean of each film and of each person, five factors, ratings of 1 to 5, and popular films
rated more often. A file of ratings (columns user, item, rating) takes its place.

References:
    [NZ] Nguyen, Zhang. Optimal and private learning from human response data. 2023. Section 5 and
        supplement, Section 4.
    [NZ] Nguyen, Zhang. Optimal and private learning from human response data. 2023. Section 5.2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.sparse.linalg import svds

from hushrank.estimation.responses.item_graph import ItemGraph, complete_graph
from hushrank.estimation.responses.measurements import (
    measurements_of_block,
    randomized_measurements,
)
from hushrank.estimation.responses.spectral_estimate import chain_difficulties, jump_rates
from hushrank.privacy.accounting import rho_for
from hushrank.privacy.amplification import largest_amplified_epsilon, local_epsilon_for
from hushrank.privacy.noise import NoiseLaw, add_noise, gaussian_law, laplace_law
from hushrank.privacy.randomized_response import split_response
from hushrank.privacy.randomness import RandomBits
from hushrank.privacy.response_sensitivity import measurement_sensitivity
from hushrank.privacy.units import Adjacency, NoiseKind, PrivacyParams, Unit

GAUSSIAN, LAPLACE = "discrete-gaussian", "discrete-laplace"
PLAIN, DEBIASED = "randomized-response", "randomized-response-debiased"
TIGHT, PAPER = "tight", "paper"
NOISE = {GAUSSIAN: NoiseKind.GAUSSIAN, LAPLACE: NoiseKind.LAPLACE}
SMALLEST_LOCAL_EPSILON = 1e-6

Scores = NDArray[np.float64]


@dataclass(frozen=True)
class Sheets:
    """Answer sheets, shape (people, m): what was answered, and what of it was right."""

    right: NDArray[np.bool_]
    answered: NDArray[np.bool_]

    @cached_property
    def y(self) -> NDArray[np.int64]:
        """Differential measurements of all pairs."""
        return measurements_of_block(self.right, self.answered)

    @property
    def n_people(self) -> int:
        """How many people there are."""
        return len(self.right)

    @property
    def n_items(self) -> int:
        """How many items there are."""
        return int(self.right.shape[1])

    @property
    def alike(self) -> int:
        """People whose randomised sheets nothing but the answers tells apart, at least."""
        return self.n_people if self.answered.all() else 1


@dataclass(frozen=True, slots=True)
class Method:
    """A mechanism, the name of its graph, and how it is calibrated."""

    mechanism: str
    graph: str
    constants: str


@dataclass(frozen=True, slots=True)
class Setting:
    """What a trial is about: one figure's answers, real or to be simulated."""

    figure: str
    data: str
    m: int
    n: int


@dataclass(frozen=True, slots=True)
class Series:
    """One mean of the table: a setting, an epsilon, a method and a metric."""

    setting: Setting
    epsilon: float
    method: Method
    metric: str


Outcomes = Mapping[Series, Sequence[float]]  # values of all trials, in their order


def without_privacy(sheets: Sheets) -> Scores:
    """The estimate that private ones are compared with: all counts, no noise."""
    return chain_difficulties(
        jump_rates(sheets.y.astype(np.float64), complete_graph(sheets.n_items))
    )


def private_scores(
    sheets: Sheets,
    graph: ItemGraph,
    method: Method,
    epsilon: float,
    delta: float,
    bits: RandomBits,
) -> Scores:
    """Difficulties from one simulated release.

    Args:
        sheets: who answered what, and how.
        graph: the public graph.
        method: mechanism and constants.
        epsilon, delta: central guarantee per person, replace-one.
        bits: seeded; a simulation.
    """
    if method.mechanism in NOISE:
        law = noise_law(method, sheets.n_items, graph.n_edges, epsilon, delta)
        noisy = np.zeros(sheets.y.shape)
        noisy[graph.entries] = add_noise(sheets.y[graph.entries], law, bits)
    else:
        noisy = _randomized(sheets, method, epsilon, delta, bits)
    return chain_difficulties(jump_rates(noisy, graph, floor=1.0))


@lru_cache(maxsize=1024)
def noise_law(method: Method, n_items: int, n_edges: int, epsilon: float, delta: float) -> NoiseLaw:
    """Noise of a central mechanism; people may answer every item."""
    kind = NOISE[method.mechanism]
    gaussian = kind is NoiseKind.GAUSSIAN
    if method.constants == PAPER:
        moved = 2 * n_edges
        if not gaussian:
            return NoiseLaw(kind, moved / epsilon)
        rho = epsilon**2 / (4 * math.log(1 / delta))
        return NoiseLaw(kind, math.sqrt(moved / (2 * rho)))
    params = PrivacyParams(
        unit=Unit.USER,
        adjacency=Adjacency.REPLACE_ONE,
        epsilon=epsilon,
        delta=delta if gaussian else 0.0,
        noise=kind,
        max_contributions=n_items,
    )
    sensitivity = measurement_sensitivity(params, n_items, n_edges)
    if gaussian:
        return gaussian_law(sensitivity, _rho(epsilon, delta, sensitivity.l2_squared))
    return laplace_law(sensitivity, epsilon)


_rho = lru_cache(maxsize=64)(rho_for)  # a bisection through the accountant


def local_epsilon(constants: str, epsilon: float, delta: float, sheets: Sheets) -> float:
    """Epsilon of a person's whole randomised sheet, before it is split over the answers."""
    if constants == TIGHT:
        return local_epsilon_for(epsilon, sheets.alike, delta)
    highest = largest_amplified_epsilon(sheets.n_people, delta)
    if highest <= SMALLEST_LOCAL_EPSILON:
        return epsilon

    def excess(local: float) -> float:
        growth = math.exp(local)
        spread = 8 * math.sqrt(growth * math.log(4 / delta) / sheets.n_people)
        spread += 8 * growth / sheets.n_people
        return math.log1p(math.tanh(local / 2) * spread) - epsilon

    if excess(highest) <= 0:
        return highest
    return float(brentq(excess, 0.0, highest))


def _randomized(
    sheets: Sheets, method: Method, epsilon: float, delta: float, bits: RandomBits
) -> NDArray[np.float64]:
    person, item = np.nonzero(sheets.answered)
    budget = local_epsilon(method.constants, epsilon, delta, sheets)
    response = split_response(budget, sheets.n_items)
    correct = sheets.right[person, item].astype(np.uint8)
    noisy = response.randomize(correct, sheets.answered.sum(axis=1)[person], bits)
    return randomized_measurements(
        person,
        item,
        noisy,
        sheets.n_items,
        response,
        debiased=method.mechanism == DEBIASED,
    ).y()


PEOPLE, FILMS, RATINGS = 943, 1682, 100_000  # of ML-100K
RANK = 5
SHRINKAGE = 5.0  # ratings of an average one by which the means of few ratings are drawn to the mean
SEED = 0

Ratings = NDArray[np.float64]  # shape (people, items), NaN where there is none


def sheets_of_ratings(ratings: Ratings) -> Sheets:
    """Everybody's answers to everything: 1 where their estimated preference is below their mean."""
    below = preferences(ratings)
    right = below < below.mean(axis=1, keepdims=True)
    return Sheets(right, np.ones_like(right))


def preferences(ratings: Ratings) -> Ratings:
    """Estimated ratings of every pair: means of items and people, and the largest factors left."""
    given = np.isfinite(ratings)
    mean = float(ratings[given].mean())
    rest = np.where(given, ratings - mean, 0.0)
    of_items = rest.sum(axis=0) / (given.sum(axis=0) + SHRINKAGE)
    rest -= given * of_items
    of_people = rest.sum(axis=1, keepdims=True) / (given.sum(axis=1, keepdims=True) + SHRINKAGE)
    rest -= given * of_people
    start = np.ones(min(rest.shape))  # fixed, so the result is reproducible
    left, size, right = svds(rest, k=min(RANK, min(rest.shape) - 1), v0=start)
    return np.asarray(mean + of_items + of_people + (left * size) @ right)


def stand_in() -> Ratings:
    """Made-up ratings of the size of ML-100K; always the same."""
    random = np.random.default_rng(SEED)
    quality, mood = random.normal(3.2, 0.7, FILMS), random.normal(0, 0.4, (PEOPLE, 1))
    tastes, themes = random.normal(size=(PEOPLE, RANK)), random.normal(size=(FILMS, RANK))
    wanted = quality + mood + 0.3 * tastes @ themes.T + random.normal(0, 0.7, (PEOPLE, FILMS))
    seen = random.permutation(np.arange(1.0, FILMS + 1) ** -0.7)
    seen = np.minimum(1, RATINGS / PEOPLE * seen / seen.sum())
    rated = random.random((PEOPLE, FILMS)) < seen
    return np.where(rated, np.clip(np.rint(wanted), 1, 5), np.nan)
