"""Scores from a noisy matrix of wins, where partners met by chance: by its likelihood.

Where two items meet in proportion to how often each is shown, item i is to beat item j

    m[i, j] = a_i a_j F(theta_i - theta_j)

times. Each entry of the matrix is a count of that mean with noise of a public law (`noisy_cells`),
so a and theta are found together, by maximum likelihood. That takes from each entry what its noise
left of it. The Bradley-Terry likelihood of the noisy counts cannot: it takes the noisy total of a
pair for how often it was compared, be it below zero.

Scores are penalised, theta ~ N(0, t^2), with the t that explains the data best (parametric
empirical Bayes, [M83]): where the noise is large they are drawn to zero by as much as pays, and so
that none runs away. log a is penalised by its distance from its mean, where standard deviation
`EXPOSURE_SPREAD` is taken for granted.

Intervals are those of a second fit with a weaker penalty, T^2 = n t^2 / 2. With the penalty t an
item that was shown little is drawn to zero, and as scores sum to zero, all others are moved the
other way. Let P = I / T^2 and h the information. The error of a penalised fit has the mean square

    (h + P)^-1 (h + P theta theta' P) (h + P)^-1  <=  (h + P)^-1    if |theta|^2 <= T^2,

so the covariance that such a fit claims then holds its bias too, in each direction, whichever
items were shown little. By t, |theta|^2 is near n t^2. Half of it is enough: such a bias would need
all of |theta| along what is known least, and even then intervals of 1.96 errors hold with 91 %.

Interval of an item: its score equation, less the penalty, is

    y_i = S_i(theta_i),    S_i(x) = sum over j of c[i, j] (F(x - theta_j) - 1/2),

with c the weights that the fit gave to its pairs, and the interval holds every x that it does not
contradict, the others being at their estimates ([F54], since W_i, how often i was compared, is
known with an error only):

    |y_i - S_i(x)| <= q sqrt(V_i(x)),    V_i(x) = I_i + S_i(x)^2 Var(log W_i) + Var(others).

I_i is the information about the score; the part of it that is due to chance, not to noise, is that
of an item with the share of wins that x has. Of the other items' errors comes what their scores
have in S_i, given the data: scores are shrunk together. So where an exposure does not stand clear
of its noise no end is sure, and the interval is infinite.

An item that nobody seems to beat may lie anywhere above, far from where the penalty holds it. Such
a one (`far_off`), or a set of them (`far_sets`), takes no part in the zero of the estimate, as it
would take the zero with it.

Scores from noisy outcomes on a public graph: post-processing of counts that anybody may see.

Of each pair the total W is exact and the wins S of one item carry noise of variance v. So no pair
need be left out, as it must where totals are noisy too (`noisy_pairs`): the fit is that of
`debiased` to k S and k W, where

    k = W / (W + 4 v)

gives each pair about the weight that its variance, W / 4 + v near equal scores, deserves. k is a
function of public numbers, so E[k (S - W F)] = 0 at the true scores whatever it is, and with the
logistic link the objective is convex.

References:
    [F54] Fieller. Some problems in interval estimation. 1954.
    [M83] Morris. Parametric empirical Bayes inference. 1983.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy.special import ndtri

from hushrank.estimation.common.estimate import Estimate, estimate_of, nothing_learned
from hushrank.estimation.common.links import Floats, Link, laplacian, score_differences
from hushrank.estimation.common.matrices import MOST_DENSE_ITEMS, OutcomeCounts, PairCounts
from hushrank.estimation.common.pair_separation import ScoreErrors, apart, separate_pairs
from hushrank.estimation.common.pooling import Evidence
from hushrank.estimation.common.uncertainty import (
    LEVEL,
    EndsAt,
    WinCurves,
    crossing,
    ends_together,
    far_off,
    far_sets,
)
from hushrank.estimation.comparisons.planning import Exposures
from hushrank.estimation.fit.pair_fit import (
    RIDGE,
    DebiasedFit,
    fit_sums,
    normal_quantile,
    require_fittable,
)
from hushrank.estimation.fit.pair_meetings import CellLaw
from hushrank.estimation.fit.solve import ConvergenceError
from hushrank.privacy.noise import NoiseLaw

EXPOSURE_SPREAD = 1.5
MOST_STEPS = 1_000
MOST_HALVINGS = 30
EXPOSURE_ROUNDS, EXPOSURE_STEPS = 3, 50  # where scores are held
EXPOSED = 1e-2  # a step at which exposures are found
SUFFICIENT = 0.25  # share of the decrease that the slope promises
SPREADS = np.geomspace(0.05, 4, 40)  # t
ROUNDS = 6  # in which t and the weights are found again
EARLY, LATE = 1e-2, 1e-5  # a step at which a round, the last round, is over
LOOSE = 0.5  # T^2, in n t^2
LOOSE_ROUNDS = 2  # in which the scores and weights of the weaker penalty are found
FLAT = 1e-7  # share of the steepest direction of the scores: less is rounding


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
        """Compute the point of scores and log a."""
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
        law: law of the entries.
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
        """Build the problem with the weights of a point."""
        means = at.means
        information = law.information(means)
        np.fill_diagonal(information, 0.0)
        return cls(wins, law, link, spread, float(at.log_factors.mean()), means, information)

    def loss_and_scores(self, at: Point) -> tuple[float, Floats]:
        """The penalised loss, and the score of each entry, shape (n, n)."""
        if not np.isfinite(at.means).all():
            raise ConvergenceError("a step of the fit of the noisy wins led beyond all numbers")
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
        """The penalised maximum likelihood near a point; `ConvergenceError`: it was not reached."""
        loss, score = self.loss_and_scores(at)
        for _ in range(MOST_STEPS):
            scores, factors, slope = self.step(at, score)
            if not slope < np.inf:  # where noise is next to nothing, as at epsilon 100
                break
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
                return at  # the rest is rounding
            at, loss, score = there, loss_there, score_there
        raise ConvergenceError(f"the fit of the noisy wins found no end in {MOST_STEPS} steps")


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
    """Evidence of a noisy matrix near any scores, where pairs meet by chance.

    Exposures are fitted at the scores; a call starts where the one before ended.

    Attributes:
        wins: noisy, in comparisons, shape (n, n).
        law: law of the entries.
        link: F.
        log_factors: log a, as the last call found it.
    """

    wins: Floats
    law: CellLaw
    link: Link
    log_factors: Floats

    @classmethod
    def of(cls, counts: PairCounts, law: NoiseLaw, link: Link) -> ChanceEvidence:
        """Build the evidence of noisy counts; the noise has a scale > 0."""
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


@dataclass(frozen=True, slots=True)
class PairsByChance:
    """Scores and exposures fitted to a noisy matrix of wins.

    Attributes:
        scores: shape (n,), higher is better; they sum to zero.
        meetings: shape (n, n), comparisons of each pair to expect.
        spread: t, of the scores.
        estimate: scores with 95 % intervals, rank intervals and groups.
    """

    scores: Floats
    meetings: Floats
    spread: float
    estimate: Estimate


def fit_pairs_by_chance(counts: PairCounts, law: NoiseLaw, link: Link) -> PairsByChance:
    """Fit scores to noisy counts of pairs that met by chance.

    Args:
        counts: noisy counts of at least 2 items.
        law: law of the noise in one entry, in the counts' own integer units; of a scale > 0.
        link: F.

    Raises:
        ValueError: the counts are confidential or of fewer than 2 items, or there is no noise.
        ConvergenceError: no fit was found.
    """
    if counts.confidential:
        raise ValueError("counts are confidential: only released counts may be fitted here")
    if counts.n_items < 2:
        raise ValueError(f"a ranking needs at least 2 items, got {counts.n_items}")
    if not law.scale > 0:
        raise ValueError("counts without noise show how often each pair met: fit them as they are")
    wins = counts.dense() / counts.row_weight
    cells = CellLaw(law, counts.row_weight, whole=counts.whole)
    n = counts.n_items
    exposures = Exposures((wins + wins.T).sum(axis=1), 2 * (n - 1) * cells.variance)
    at, spread = Point.at(np.zeros(n), np.log(exposures.factors()), link), 1.0
    for left in reversed(range(ROUNDS)):
        problem = Problem.of(wins, cells, link, spread, at)
        at = problem.solve(at, EARLY if left else LATE)
        if left > ROUNDS // 2:
            spread = likeliest_spread(known_of_scores(problem, at), at.scores, spread)
    return PairsByChance(at.scores, at.meetings, spread, _estimate(problem, at))


def likeliest_spread(known: Floats, scores: Floats, spread: float) -> float:
    """t, by the marginal likelihood of scores without the penalty; all t are alike beforehand.

    Args:
        known: information about the scores, shape (n, n).
        scores: fitted with the penalty, shape (n,).
        spread: the t of that penalty.
    """
    values, vectors = np.linalg.eigh(known)
    values, along = np.maximum(values[1:], 0), (vectors.T @ scores)[1:]
    # Along an eigenvector of information h the penalised score is x h / (h + 1 / t^2).
    seen = along * (values + spread**-2)  # h x
    total = 1 + np.multiply.outer(np.square(SPREADS), values)
    power = np.square(SPREADS)[:, np.newaxis] * np.square(seen) / total  # but for a constant
    prior = np.square(np.log(SPREADS)) / 2
    return float(SPREADS[np.argmax((power - np.log(total)).sum(axis=1) / 2 - prior)])


def _estimate(problem: Problem, at: Point) -> Estimate:
    n = len(at.scores)
    loose, free = _loosened(problem, at)
    known = known_of_scores(loose, free)
    covariance = np.asarray(np.linalg.pinv(known, rcond=FLAT, hermitian=True))
    unshrunk = free.scores + covariance @ free.scores / loose.spread**2
    intervals, intervals_at, zero = _intervals(loose, free)
    shift = 0.0
    if np.ptp(zero) > 0:
        shift, to_zero = float(zero @ at.scores), np.eye(n) - zero
        unshrunk, covariance = to_zero @ unshrunk, to_zero @ covariance @ to_zero.T

    def ends_at(tail: float) -> tuple[Floats, Floats]:
        low, high = intervals_at(tail)
        return np.minimum(low, at.scores) - shift, np.maximum(high, at.scores) - shift

    errors, centre = ScoreErrors(unshrunk, covariance), intervals.centre()

    def better_at(tail: float) -> NDArray[np.bool_]:
        q = normal_quantile(tail)
        sure = apart(errors, centre, intervals_at(tail), q * intervals.deviation, q)
        return np.asarray(sure & (score_differences(at.scores) > 0))

    # Chance alone bounds one of many items: what counts is an interval that holds for all at once.
    low, high = ends_at(LEVEL / 2 / n)
    if not (np.isfinite(low) & np.isfinite(high)).any():
        return nothing_learned(at.scores)
    low, high = ends_at(LEVEL / 2)
    scores = at.scores - shift
    separation = separate_pairs(scores, better_at, ends_at, covariance)
    return estimate_of(
        scores,
        low,
        high,
        separation,
        errors=errors,
        noise_share=intervals.noise_share,
    )


def _loosened(problem: Problem, at: Point) -> tuple[Problem, Point]:
    """The fit that intervals are made of, with the weaker penalty of the module's text.

    Raises: ConvergenceError: the minimum was not reached.
    """
    spread = problem.spread * float(np.sqrt(LOOSE * len(at.scores)))
    for _ in range(LOOSE_ROUNDS):
        loose = Problem.of(problem.wins, problem.law, problem.link, spread, at)
        at = loose.solve(at, LATE)
    return Problem.of(problem.wins, problem.law, problem.link, spread, at), at


def _intervals(problem: Problem, at: Point) -> tuple[_Intervals, EndsAt, Floats]:
    """The intervals, their ends, and weights of the items whose mean is the zero of the scale."""
    n = len(at.scores)
    everybody = np.full(n, 1 / n)
    intervals = _Intervals.of(problem, at, everybody)
    intervals_at = ends_together(intervals.at, n)
    above, below = far_sets(problem.wins, at.scores, float(np.sqrt(problem.law.variance)))
    if (above | below).any():
        intervals_at = _opened(intervals_at, below, above)
    aside = far_off(*intervals_at(LEVEL / 2)) | above | below
    if not aside.any():
        return intervals, intervals_at, everybody
    zero = ~aside / np.sum(~aside)
    intervals = _Intervals.of(problem, at, zero)
    return intervals, _with_ends_of(intervals_at, ends_together(intervals.at, n)), zero


def _opened(ends_at: EndsAt, no_lower: NDArray[np.bool_], no_upper: NDArray[np.bool_]) -> EndsAt:
    """The ends of `ends_at` but for items that have none there."""

    def at(tail: float) -> tuple[Floats, Floats]:
        low, high = ends_at(tail)
        return np.where(no_lower, -np.inf, low), np.where(no_upper, np.inf, high)

    return at


def _with_ends_of(wider: EndsAt, ends_at: EndsAt) -> EndsAt:
    """The ends of `ends_at`, but for those that are open in `wider`."""

    def at(tail: float) -> tuple[Floats, Floats]:
        (lowest, highest), (low, high) = wider(tail), ends_at(tail)
        return (
            np.where(np.isfinite(lowest), low, lowest),
            np.where(np.isfinite(highest), high, highest),
        )

    return at


@dataclass(frozen=True, slots=True)
class _Intervals:
    """Evidence of each score's own equation; arrays of shape (n,).

    Attributes:
        scores: scores at which the others are.
        curves: curves of the weights c.
        seen: y.
        total: sum of the weights.
        chance_factor: factor of won (total - won), which makes the part of V that is the chance of
            who wins.
        fixed: the part of V that is noise, and other items' errors.
        exposure_variance: Var(log W).
        noise_share: of the part of V that an item's own counts make, the noise's share.
        deviation: deviation of each score by the slope of its curve, if exposures were known.
    """

    scores: Floats
    curves: WinCurves
    seen: Floats
    total: Floats
    chance_factor: Floats
    fixed: Floats
    exposure_variance: Floats
    noise_share: Floats
    deviation: Floats

    @classmethod
    def of(cls, problem: Problem, at: Point, zero: Floats) -> _Intervals:
        """Build it on the scale on which the mean score, by the weights `zero`, is known."""
        each = problem.information
        weights = (each + each.T) * np.square(at.meetings) * at.slope
        slopes = weights * at.slope
        information = slopes.sum(axis=1)
        posterior = np.linalg.inv(
            known_of_scores(problem, at) + np.eye(len(each)) / problem.spread**2
        )
        posterior = posterior - zero @ posterior
        posterior = posterior - (posterior @ zero)[:, np.newaxis]
        others = np.einsum("ij,jk,ik->i", slopes, posterior, slopes, optimize=True)
        chance = (
            each
            * problem.variance
            / (problem.variance + problem.law.variance)
            * (np.square(at.meetings * at.slope))
        )
        from_chance = (chance + chance.T).sum(axis=1)
        total = np.maximum(weights.sum(axis=1), np.finfo(float).tiny)
        # If, of two items, a_1 a_2 is known and a_1 is not, what counts is how often i was met.
        met = np.eye(len(each)) + weights / total[:, np.newaxis]
        exposure = np.linalg.inv(problem.exposure_information(at))
        exposure = np.einsum("ij,jk,ik->i", met, exposure, met, optimize=True)
        won = (weights * at.chance).sum(axis=1)
        return cls(
            at.scores,
            WinCurves.of(weights, at.scores, problem.link),
            won - total / 2 + at.scores / problem.spread**2,
            total,
            from_chance / np.maximum(won * (total - won), np.finfo(float).tiny),
            information - from_chance + others,
            np.asarray(exposure),
            1 - from_chance / np.maximum(information, np.finfo(float).tiny),
            np.sqrt(information + others) / np.maximum(information, np.finfo(float).tiny),
        )

    def _expected(self, x: Floats) -> tuple[Floats, Floats]:
        """S and V where the scores are x."""
        won = self.curves.at(x)
        above = won - self.total / 2
        from_chance = self.chance_factor * won * (self.total - won)
        return above, from_chance + self.fixed + above**2 * self.exposure_variance

    def at(self, tails: Sequence[float]) -> tuple[Floats, Floats]:
        """The intervals' ends, shape (tails, n)."""
        q = -ndtri(tails)[:, np.newaxis]  # a sum of very many draws: normal, whatever the noise
        low, high = self._crossing(np.array([-q, q]))
        clear = q**2 * self.exposure_variance < 1
        return np.where(clear, low, -np.inf), np.where(clear, high, np.inf)

    def _crossing(self, q: Floats) -> Floats:
        """The scores at which S - q sqrt(V) is what was seen, q of shape (..., 1), or infinite."""

        def beyond(at: Floats) -> NDArray[np.bool_]:
            won, variance = self._expected(at)
            return np.asarray(won - q * np.sqrt(variance) > self.seen)

        return crossing(beyond, self.scores, q.shape[:-1])

    def centre(self) -> Floats:
        """The scores that give what was seen."""
        return self._crossing(np.zeros(1))


@dataclass(frozen=True, slots=True)
class OutcomeVariance:
    """Variance of k S: k^2 (W F (1 - F) + v).

    Attributes:
        share: k, in the layout of the weights.
        noise: v, in comparisons squared.
    """

    share: Floats
    noise: float

    def of_sums(self, weights: Floats, win_chance: Floats) -> Floats:
        """Variance of each k S; `weights` are k W."""
        chance = weights * win_chance * (1 - win_chance)
        return np.asarray(self.share * (chance + self.share * self.noise))


def fit_public_pairs(
    counts: OutcomeCounts, law: NoiseLaw, link: Link, ridge: float = RIDGE
) -> DebiasedFit:
    """Fit scores to noisy outcomes; dense up to `MOST_DENSE_ITEMS`, sparse above.

    Args:
        counts: noisy, of at least 2 items.
        law: law of the noise in one entry, in the counts' own integer units.
        link: F.
        ridge: c, finite and > 0: it also carries items that nobody compared.

    Raises:
        ValueError: the counts are confidential, of fewer than 2 items, or the ridge is bad.
        ConvergenceError: no stationary point was reached.
    """
    if counts.confidential:
        raise ValueError("counts are confidential: only released counts may be fitted here")
    require_fittable(counts.n_items, ridge)
    noise = law.variance / counts.row_weight**2
    totals = counts.totals.data / counts.row_weight
    share = totals / (totals + 4 * noise)
    s, w, k = (
        scipy.sparse.csr_array(
            (values, counts.totals.indices, counts.totals.indptr), shape=counts.totals.shape
        )
        for values in (share * counts.wins.data / counts.row_weight, share * totals, share)
    )
    if counts.n_items <= MOST_DENSE_ITEMS:
        variance = OutcomeVariance(k.toarray(), noise)
        return fit_sums(s.toarray(), w.toarray(), link, variance, ridge)
    return fit_sums(s, w, link, OutcomeVariance(share, noise), ridge)
