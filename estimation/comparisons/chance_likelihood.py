"""The likelihood of a noisy matrix of wins in which partners met by chance.

Its formulas are those of `estimation.comparisons.pairs_by_chance`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hushrank.estimation.common.links import Floats, Link
from hushrank.estimation.common.matrices import PairCounts
from hushrank.estimation.common.pairwise import laplacian, score_differences
from hushrank.estimation.common.pooling import Evidence
from hushrank.estimation.comparisons.exposures import Exposures
from hushrank.estimation.fit.noisy_cells import CellLaw
from hushrank.estimation.fit.solve import ConvergenceError
from hushrank.privacy.noise import NoiseLaw

EXPOSURE_SPREAD = 1.5
MOST_STEPS = 1_000
MOST_HALVINGS = 30
EXPOSURE_ROUNDS, EXPOSURE_STEPS = 3, 50  # where scores are held
EXPOSED = 1e-2  # a step at which exposures are found
SUFFICIENT = 0.25  # of the decrease that the slope promises


@dataclass(frozen=True, slots=True)
class Point:
    """Scores and exposures, and what the matrix says there.

    Attributes:
        scores, log_factors: theta and log a, shape (n,).
        meetings: a_i a_j, shape (n, n), zero diagonal.
        chance, slope: F and F' of each difference.
    """

    scores: Floats
    log_factors: Floats
    meetings: Floats
    chance: Floats
    slope: Floats

    @classmethod
    def at(cls, scores: Floats, log_factors: Floats, link: Link) -> Point:
        """What follows from scores and log a."""
        meetings = np.exp(np.add.outer(log_factors, log_factors))
        np.fill_diagonal(meetings, 0.0)
        d = score_differences(scores)
        chance = link.cdf(d)
        return cls(scores, log_factors, meetings, chance, np.asarray(link.slope(d) * chance))

    @property
    def means(self) -> Floats:
        """m, shape (n, n)."""
        return self.meetings * self.chance


@dataclass(frozen=True, slots=True)
class Problem:
    """The penalised likelihood of one matrix, with its weights held.

    Attributes:
        wins: noisy, in comparisons, shape (n, n).
        law: of its entries.
        link: F.
        spread: t.
        centre: mean of log a.
        variance: shape (n, n), of the counts without noise.
        information: shape (n, n), of each entry about its mean.
    """

    wins: Floats
    law: CellLaw
    link: Link
    spread: float
    centre: float
    variance: Floats
    information: Floats

    @classmethod
    def of(cls, wins: Floats, law: CellLaw, link: Link, spread: float, at: Point) -> Problem:
        """With the weights of a point."""
        means = at.means
        information = law.information(means)
        np.fill_diagonal(information, 0.0)
        return cls(wins, law, link, spread, float(at.log_factors.mean()), means, information)

    def loss_and_scores(self, at: Point) -> tuple[float, Floats]:
        """The penalised loss, and the score of each entry, shape (n, n)."""
        loss, score = self.law.loss_and_score(self.wins, at.means, self.variance)
        np.fill_diagonal(loss, 0.0)
        np.fill_diagonal(score, 0.0)
        off = (at.log_factors - self.centre) / EXPOSURE_SPREAD
        penalty = np.square(at.scores / self.spread).sum() + np.square(off).sum()
        return float(loss.sum() + penalty / 2), score

    def score_information(self, at: Point) -> Floats:
        """Information about the scores, exposures known: a Laplacian, shape (n, n)."""
        each = self.information * np.square(at.meetings * at.slope)
        return laplacian(each + each.T)

    def exposure_information(self, at: Point) -> Floats:
        """Information about log a, scores known, and its penalty; shape (n, n)."""
        each = self.information * np.square(at.means)
        each = each + each.T
        size = len(each)
        return np.asarray(each + np.diag(each.sum(axis=1)) + np.eye(size) / EXPOSURE_SPREAD**2)

    def step(self, at: Point, score: Floats) -> tuple[Floats, Floats, float]:
        """Fisher steps of scores and exposures, each with the others held, and their slope."""
        pull, push = score * at.meetings * at.slope, score * at.means
        left = pull.sum(axis=1) - pull.sum(axis=0) - at.scores / self.spread**2
        stiff = self.score_information(at) + np.eye(len(left)) / self.spread**2
        off = (at.log_factors - self.centre) / EXPOSURE_SPREAD**2
        more = push.sum(axis=1) + push.sum(axis=0) - off
        steps = np.linalg.solve(stiff, left), np.linalg.solve(self.exposure_information(at), more)
        longest = max(1.0, *(float(np.abs(step).max()) for step in steps))
        slope = float(left @ steps[0] + more @ steps[1]) / longest
        return steps[0] / longest, steps[1] / longest, slope

    def solve_exposures(self, at: Point) -> Point:
        """The likeliest exposures for the scores at a point."""
        loss, score = self.loss_and_scores(at)
        for _ in range(EXPOSURE_STEPS):
            _, step, _ = self.step(at, score)
            length = 1.0
            for _ in range(MOST_HALVINGS):
                there = Point.at(at.scores, at.log_factors + length * step, self.link)
                loss_there, score_there = self.loss_and_scores(there)
                if loss_there <= loss:
                    break
                length /= 2
            else:
                return at
            at, loss, score = there, loss_there, score_there
            if np.abs(step).max() <= EXPOSED:
                break
        return at

    def solve(self, at: Point, tolerance: float) -> Point:
        """The penalised maximum likelihood near a point.

        Raises:
            ConvergenceError: it was not reached.
        """
        loss, score = self.loss_and_scores(at)
        for _ in range(MOST_STEPS):
            scores, factors, slope = self.step(at, score)
            if max(np.abs(scores).max(), np.abs(factors).max()) <= tolerance:
                return at
            length = 1.0
            for _ in range(MOST_HALVINGS):
                moved = at.scores + length * scores
                there = Point.at(moved - moved.mean(), at.log_factors + length * factors, self.link)
                loss_there, score_there = self.loss_and_scores(there)
                if loss_there <= loss - SUFFICIENT * length * slope:
                    break
                length /= 2
            else:
                return at  # what is left is rounding
            at, loss, score = there, loss_there, score_there
        raise ConvergenceError(f"the fit of the noisy wins took more than {MOST_STEPS} steps")


def known_of_scores(problem: Problem, at: Point) -> Floats:
    """Information about the scores where exposures are not known, shape (n, n)."""
    each = problem.information * at.meetings * at.slope * at.means
    cross = each - each.T
    cross = cross + np.diag(each.sum(axis=1) - each.sum(axis=0))
    shared = cross @ np.linalg.solve(problem.exposure_information(at), cross.T)
    known = problem.score_information(at) - shared
    return np.asarray((known + known.T) / 2)


@dataclass
class ChanceEvidence:
    """What a noisy matrix says near any scores, where pairs meet by chance.

    Exposures are fitted at the scores; a call starts where the one before ended.

    Attributes:
        wins: noisy, in comparisons, shape (n, n).
        law: of its entries.
        link: F.
        log_factors: log a, as the last call found it.
    """

    wins: Floats
    law: CellLaw
    link: Link
    log_factors: Floats

    @classmethod
    def of(cls, counts: PairCounts, law: NoiseLaw, link: Link) -> ChanceEvidence:
        """Of noisy counts; the noise is of a scale > 0."""
        wins = counts.dense() / counts.row_weight
        cells = CellLaw(law, counts.row_weight, whole=counts.whole)
        noise = 2 * (counts.n_items - 1) * cells.variance
        exposures = Exposures((wins + wins.T).sum(axis=1), noise)
        return cls(wins, cells, link, np.log(exposures.factors()))

    def __call__(self, scores: Floats) -> Evidence:
        """Information and pull, exposures being unknown."""
        at = Point.at(scores, self.log_factors, self.link)
        for _ in range(EXPOSURE_ROUNDS):
            problem = Problem.of(self.wins, self.law, self.link, 1.0, at)
            at = problem.solve_exposures(at)
        self.log_factors = at.log_factors
        _, score = problem.loss_and_scores(at)
        pull = score * at.meetings * at.slope
        return Evidence(known_of_scores(problem, at), pull.sum(axis=1) - pull.sum(axis=0))
