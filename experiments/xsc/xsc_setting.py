"""What an experiment of [XSC] consists of: settings, and how one replicate of each is run.

Simulated surveys for the experiments of [XSC], and every method that scores them.  Simulation
only: bits come from seeds, so nothing here is private. The mechanisms are the product's own,
except Laplace noise and objective noise, which are drawn in floating point for speed.

References:
    [XSC] Xu, Sun, Cheng. Rate-optimal rank aggregation with private pairwise rankings.
    [KST12] Kifer, Smith, Thakurta. Private convex empirical risk minimization and high-dimensional
        regression. 2012. Theorem 2.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.common.links import LOGISTIC, Floats, Link
from hushrank.estimation.fit.likelihood import Objective
from hushrank.estimation.fit.pair_fit import RIDGE, AnswerVariance, fit_scores, win_totals
from hushrank.estimation.fit.solve import ConvergenceError, minimise
from hushrank.estimation.fit.weighted_pairs import (
    UNITS,
    PairSums,
    WeightedPairs,
    add_sums,
    counted_sums,
    weighted_sums,
)
from hushrank.privacy.accounting import rho_for
from hushrank.privacy.randomized_response import randomize
from hushrank.privacy.randomness import seeded_bits

LINKS = ("logistic", "probit")
OURS = "debiased-rr"


@dataclass(frozen=True, slots=True)
class Setting:
    """One cell of one experiment; what does not apply is empty.

    Attributes:
        scenario: name of the experiment.
        link: name of F.
        m: items.
        L: people.
        scheme: tells series of one experiment apart.
        delta: gap of neighbouring scores.
        share: of the pairs that a person answers, where it differs between settings.
    """

    scenario: str
    link: str
    m: int | None = None
    L: int | None = None
    scheme: str = ""
    delta: float | None = None
    share: float | None = None

    @property
    def size(self) -> tuple[int, int]:
        """Items and people.

        Raises:
            ValueError: the setting has no size.
        """
        if self.m is None or self.L is None:
            raise ValueError(f"{self} has no size")
        return self.m, self.L


Values = dict[tuple[str, str], float]  # by method and metric
Replicate = Callable[[Setting, np.random.Generator], Values]


@dataclass(frozen=True, slots=True)
class Scenario:
    """An experiment: its settings, how one replicate of each is run, and how many.

    Attributes:
        settings: in the order of the table.
        replicate: one replicate of a setting.
        most_replicates: more are not run.
        times: so many times the replicates that were asked for; a difference that is small needs
            more of them.
        timed: replicates run one after the other, alone.
    """

    settings: tuple[Setting, ...]
    replicate: Replicate
    most_replicates: int | None = None
    times: int = 1
    timed: bool = False


DELTA = 1e-6  # of `noisy-objective`, Scenario V
ANSWERS_AT_ONCE = 2_000_000
LARGEST_RIDGE = 1e6
TUNED = "noisy-objective-tuned"
FINE = 10_000  # squared sensitivity on a grid so fine that the noise is as good as continuous


@dataclass(frozen=True, slots=True)
class Survey:
    """Answers of people who differ in epsilon; arrays of shape (m,) have one entry an answer.

    Attributes:
        n_items: n.
        cells: i * n + j of the pair, i < j.
        outcomes: 1 where i won.
        epsilon: of the person who answered.
        people_epsilon: shape (people,).
    """

    n_items: int
    cells: NDArray[np.int64]
    outcomes: NDArray[np.uint8]
    epsilon: Floats
    people_epsilon: Floats


def draw_survey(
    truth: Floats, link: Link, people_epsilon: Floats, share: float, rng: np.random.Generator
) -> Survey:
    """Each person answers each pair with probability `share`, independently ([XSC] §5.1)."""
    first, second = np.triu_indices(len(truth), 1)
    people, pairs = len(people_epsilon), len(first)
    if share < 1:
        person, pair = np.nonzero(rng.random((people, pairs)) < share)
    else:
        person, pair = np.repeat(np.arange(people), pairs), np.tile(np.arange(pairs), people)
    chance = link.cdf(truth[first] - truth[second])
    outcomes = (rng.random(len(pair)) < chance[pair]).astype(np.uint8)
    cells = (first * len(truth) + second)[pair]
    return Survey(len(truth), cells, outcomes, people_epsilon[person], people_epsilon)


def randomized_sums(survey: Survey, rng: np.random.Generator) -> tuple[PairSums, PairSums]:
    """Weighted sums and plain counts of the same randomised answers."""
    noisy = randomize(survey.outcomes, survey.epsilon, seeded_bits(int(rng.integers(2**63))))
    weighted = weighted_sums(survey.cells, noisy, survey.epsilon, survey.n_items)
    return weighted, counted_sums(survey.cells, noisy, survey.n_items)


def debiased_scores(survey: Survey, link: Link, rng: np.random.Generator) -> Floats:
    """Scores by `debiased-rr`."""
    noisy = randomize(survey.outcomes, survey.epsilon, seeded_bits(int(rng.integers(2**63))))
    return _fitted(weighted_sums(survey.cells, noisy, survey.epsilon, survey.n_items), link)


def survey_in_parts(
    truth: Floats, link: Link, people_epsilon: Floats, rng: np.random.Generator
) -> tuple[PairSums, float]:
    """Sums over a survey of any size in which everybody answers every pair.

    People come in parts, so that memory does not grow with them.

    Returns:
        The weighted sums, and the seconds spent on randomising and summing.
    """
    n_pairs = len(truth) * (len(truth) - 1) // 2
    n_parts = math.ceil(n_pairs * len(people_epsilon) / ANSWERS_AT_ONCE)
    parts, seconds = [], 0.0
    for epsilon in np.array_split(people_epsilon, n_parts):
        survey = draw_survey(truth, link, epsilon, 1.0, rng)
        started = time.perf_counter()
        noisy = randomize(survey.outcomes, survey.epsilon, seeded_bits(int(rng.integers(2**63))))
        parts.append(weighted_sums(survey.cells, noisy, survey.epsilon, survey.n_items))
        seconds += time.perf_counter() - started
    return add_sums(parts, len(truth)), seconds


def all_scores(survey: Survey, link: Link, rng: np.random.Generator) -> dict[str, Floats]:
    """Scores by every method that has the link, and the win totals of `rr-counts`."""
    weighted, counted = randomized_sums(survey, rng)
    scores = {
        "debiased-rr": _fitted(weighted, link),
        "classic-rr": _fitted(counted, link),
        "laplace-rr": _fitted(_laplace_sums(survey, rng), link),
        "rr-counts": win_totals(WeightedPairs(*counted)),
    }
    if math.isfinite(link.kappa1):  # objective perturbation is not private for other links
        scores["noisy-objective"] = _noisy_objective_scores(survey, link, rng)
    if link is LOGISTIC:
        scores[TUNED] = _tuned_objective_scores(survey, rng)
    return scores


def _fitted(sums: PairSums, link: Link) -> Floats:
    """Scores with ridge 1 as in the paper, or 10, 100, ... where noise leaves no minimum with less.

    That happens to the probit link when there are few answers: with Laplace noise most of all.
    """
    pairs, ridge = WeightedPairs(*sums), RIDGE
    while True:
        try:
            return fit_scores(pairs, link, AnswerVariance(), ridge).scores
        except ConvergenceError:
            if ridge >= LARGEST_RIDGE:
                raise
            ridge *= 10


def _laplace_sums(survey: Survey, rng: np.random.Generator) -> PairSums:
    noisy = survey.outcomes + rng.laplace(scale=1 / survey.epsilon)
    n = survey.n_items
    total = np.rint(np.bincount(survey.cells, noisy, n * n) * UNITS).astype(np.int64)
    count = np.bincount(survey.cells, minlength=n * n) * UNITS
    return np.stack([total, count]).reshape(2, n, n)


def _noisy_objective_scores(survey: Survey, link: Link, rng: np.random.Generator) -> Floats:
    """Objective perturbation with Gaussian noise ([KST12]), at its best under the same protection.

    Like randomised response it hides the outcome of one comparison, not the pair: flipping it moves
    the gradient by kappa1 sqrt(2) at most. It protects everybody alike, so it takes the smallest
    epsilon of all (Scenario V).
    """
    epsilon = float(survey.people_epsilon.min())
    sensitivity = math.sqrt(2) * link.kappa1
    sigma = sensitivity * math.sqrt(8 * math.log(2 / DELTA) + 4 * epsilon) / epsilon
    return _perturbed(survey, link, sigma, 4 * link.kappa2 / epsilon, rng)


def _tuned_objective_scores(survey: Survey, rng: np.random.Generator) -> Floats:
    """The same as somebody would tune it who wants it to win, with the logistic link.

    There the Hessian does not depend on who won, so scores and noise determine each other whatever
    the answers are: the guarantee is that of Gaussian noise on the gradient, taken from the exact
    accountant, and needs no ridge.
    """
    rho = rho_for(round(float(survey.people_epsilon.min()), 3), DELTA, FINE)
    return _perturbed(survey, LOGISTIC, math.sqrt(2 / (2 * rho)), RIDGE, rng)


def _perturbed(
    survey: Survey, link: Link, sigma: float, ridge: float, rng: np.random.Generator
) -> Floats:
    wins, total = counted_sums(survey.cells, survey.outcomes, survey.n_items) / UNITS
    linear = sigma * rng.standard_normal(survey.n_items)
    return minimise(Objective(wins + (total - wins).T, link, ridge, linear)).theta
