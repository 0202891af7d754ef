"""Items ranked by noisy counts of wins and ties: post-processing of counts that anybody may see.

Where totals look as if partners met by chance, by the likelihood of that design
(`ties_by_chance`); else, and without noise, by `ties_by_pairs`. `pair_meetings.met_otherwise` looks
which it is, as for counts of two outcomes.

Scores and ties from noisy counts of three outcomes, where partners met by chance.

Where two items meet in proportion to how often each is shown, outcome c of the pair a, b is to be
expected

    m[c] = x_a x_b P_c(theta_a - theta_b, t)

times, with P of a tie model (`tie_models`). Each of the three counts has this mean and noise of a
public law (`noisy_cells`), so x, theta and t are found together, by maximum likelihood, as
`pairs_by_chance` does for counts of two outcomes. Penalties are the same, theta ~ N(0, s^2) with
the likeliest s, and log x near its mean; t has the wide one of `tie_strength`.

Errors: the inverse of the expected information in the noisy counts, by `pair_fit.sandwich`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import logit

from hushrank.estimation.common.estimate import Estimate, nothing_learned
from hushrank.estimation.common.links import Floats
from hushrank.estimation.common.pooling import Evidence, EvidenceAt
from hushrank.estimation.comparisons.noisy_pairs import NORMAL_KURTOSIS
from hushrank.estimation.comparisons.pairs_by_chance import EXPOSURE_SPREAD, likeliest_spread
from hushrank.estimation.comparisons.planning import Exposures
from hushrank.estimation.fit.pair_fit import estimate_from, require_fittable, sandwich
from hushrank.estimation.fit.pair_meetings import (
    CellLaw,
    confirms_chance,
    met_otherwise,
    shows_schedule,
)
from hushrank.estimation.fit.solve import ConvergenceError
from hushrank.estimation.ties.tie_models import (
    TIE_CENTRE,
    TIE_SPREAD,
    Outcomes,
    TieCounts,
    TieModel,
    TieStrength,
    outcomes_of,
    strength_of,
)
from hushrank.estimation.ties.ties_by_pairs import Pairs, TiesByPairs, by_pairs, known_of
from hushrank.privacy.noise import NoiseLaw
from hushrank.privacy.units import NoiseKind

ROUNDS = 6  # rounds in which s and the weights are found again
EARLY, LATE = 1e-2, 1e-5  # a step at which a round, the last round, is over
MOST_STEPS, MOST_HALVINGS = 300, 30
LONGEST_STEP = 1.0
FEW = 1.75  # 1.76 at 9 cells, 1.74 at 99: exact variances of the median of Laplace variables
ROUNDING = 1e-14  # share of the loss: a smaller promise of a step cannot be seen
SUFFICIENT = 0.25  # share of the decrease that the slope promises


@dataclass(frozen=True, slots=True)
class Point:
    """Parameters, and what they lead to expect.

    Attributes:
        values: scores, log x and t, shape (2 n + 1,).
        outcomes: outcomes of each pair.
        means: m, shape (3, pairs).
    """

    values: Floats
    outcomes: Outcomes
    means: Floats

    @property
    def scores(self) -> Floats:
        """theta, shape (n,)."""
        return self.values[: len(self.values) // 2]

    @property
    def log_factors(self) -> Floats:
        """log x, shape (n,)."""
        return self.values[len(self.values) // 2 : -1]

    @property
    def tie(self) -> float:
        """t."""
        return float(self.values[-1])


@dataclass(frozen=True, slots=True)
class ChanceOfTies:
    """The penalised likelihood of noisy counts, with its weights held.

    Attributes:
        pairs: pairs of items.
        counts: noisy, shape (3, pairs).
        law: law of each cell.
        model: model of ties.
        spread: s.
        weights_at: the point of the weights.
        hold: scores are given, not fitted.
    """

    pairs: Pairs
    counts: Floats
    law: CellLaw
    model: TieModel
    spread: float
    weights_at: Point
    hold: bool = False

    def point(self, values: Floats) -> Point:
        """Compute what some parameters lead to expect."""
        n = self.pairs.n_items
        outcomes = outcomes_of(self.model, self.pairs.gaps(values[:n]), float(values[-1]))
        met = np.exp(self.pairs.sums(values[n : 2 * n]))
        return Point(values, outcomes, met * outcomes.probabilities)

    def penalty(self, at: Point) -> tuple[Floats, Floats]:
        """Distances from the centres, and weights of their squares; shape (2 n + 1,)."""
        n = self.pairs.n_items
        centre = np.zeros(2 * n + 1)
        centre[n : 2 * n], centre[-1] = self.weights_at.log_factors.mean(), TIE_CENTRE
        spreads = np.full(2 * n + 1, EXPOSURE_SPREAD)
        spreads[:n], spreads[-1] = self.spread, TIE_SPREAD
        return at.values - centre, spreads**-2

    def loss_and_gradient(self, at: Point) -> tuple[float, Floats]:
        """Penalised loss, and the gradient of the likelihood without penalties, uphill."""
        loss, score = self.law.loss_and_score(self.counts, at.means, self.weights_at.means)
        off, stiff = self.penalty(at)
        push, pairs = score * at.means, self.pairs
        gradient = np.concatenate(
            [
                pairs.to_items((push * at.outcomes.by_gap).sum(axis=0), -1),
                pairs.to_items(push.sum(axis=0), 1),
                np.full(1, (push * at.outcomes.by_tie).sum()),
            ]
        )
        return float(loss.sum() + (stiff * off**2).sum() / 2), gradient

    def information(self, at: Point) -> Floats:
        """Expected, without penalties, shape (2 n + 1, 2 n + 1)."""
        weight = self.law.information(at.means) * np.square(at.means)
        return self.pairs.with_exposures(weight, at.outcomes.by_gap, at.outcomes.by_tie)

    def known_of_scores(self, at: Point) -> Floats:
        """Information about the scores where nothing else is known, shape (n, n)."""
        _, stiff = self.penalty(at)
        n = self.pairs.n_items
        stiff[:n] = 0
        return known_of(self.information(at) + np.diag(stiff), slice(0, n))

    def lowered(self, at: Point) -> Point:
        """The point with exposures at which information is not too large in the mean.

        Information grows with m^2, and log m is known with a variance V: the mean of the square of
        an estimate of m is e^(4 V / 2) times that of m where errors of log m are normal.
        """
        n = self.pairs.n_items
        _, stiff = self.penalty(at)
        found = (self.information(at) + np.diag(stiff))[n:-1, n:-1]
        errors = np.linalg.inv(found)
        own, cross = np.diagonal(errors), errors[self.pairs.first, self.pairs.second]
        variance = self.pairs.sums(own) + 2 * cross
        return replace(at, means=at.means * np.exp(-variance))

    def few_cells(self, at: Point) -> Floats:
        """Excess of the variances of scores and t over the inverse information, shape (n + 1,).

        Under Laplace noise a score is found like a median: of N cells its variance is about
        1 + FEW / sqrt(N) times what it is in the limit. That counts as far as noise, not chance,
        makes the law of the cells: their information times their variance is 1 to 2.
        """
        each = self.law.information(at.means)
        sharper = np.maximum(each * (at.means + self.law.variance) - 1, 0)
        of_scores = each * np.square(at.means * at.outcomes.by_gap)
        total, squares, excess = (
            self.pairs.to_items(values.sum(axis=0), 1)
            for values in (of_scores, of_scores**2, of_scores * sharper)
        )
        of_tie = each * np.square(at.means * at.outcomes.by_tie)
        total = np.append(total, of_tie.sum())
        squares = np.append(squares, (of_tie**2).sum())
        excess = np.append(excess, (of_tie * sharper).sum())
        total = np.maximum(total, np.finfo(float).tiny)
        return np.asarray(1 + FEW * excess / total * np.sqrt(squares) / total)

    def step(self, at: Point, gradient: Floats) -> tuple[Floats, float]:
        """Fisher step of all that is fitted, and the slope of the loss along it."""
        off, stiff = self.penalty(at)
        uphill, matrix = gradient - stiff * off, self.information(at) + np.diag(stiff)
        fitted = slice(self.pairs.n_items if self.hold else 0, None)
        step = np.zeros(len(uphill))
        step[fitted] = np.linalg.solve(matrix[fitted, fitted], uphill[fitted])
        step *= LONGEST_STEP / max(LONGEST_STEP, float(np.abs(step).max()))
        return step, float(uphill @ step)

    def solve(self, at: Point, tolerance: float) -> Point:
        """The penalised maximum likelihood near a point.

        Raises:
            ConvergenceError: the minimum was not reached.
        """
        loss, gradient = self.loss_and_gradient(at)
        for _ in range(MOST_STEPS):
            step, slope = self.step(at, gradient)
            if np.abs(step).max() <= tolerance or slope <= ROUNDING * abs(loss):
                return at
            length = 1.0
            for _ in range(MOST_HALVINGS):
                there = self.point(at.values + length * step)
                loss_there, gradient_there = self.loss_and_gradient(there)
                if loss_there <= loss - SUFFICIENT * length * slope:
                    break
                length /= 2
            else:
                return at  # the rest is rounding
            at, loss, gradient = there, loss_there, gradient_there
        raise ConvergenceError(f"the fit of the noisy counts took more than {MOST_STEPS} steps")


def start_of(counts: Floats, law: CellLaw, model: TieModel, n_items: int) -> ChanceOfTies:
    """The likelihood of noisy counts, with the weights of equal scores and exposures as seen.

    Args:
        counts: counts in comparisons, shape (3, pairs).
        law: law of each cell; of a scale > 0.
        model: model of ties.
        n_items: n.
    """
    pairs = Pairs.of(n_items)
    met = Exposures(pairs.to_items(counts.sum(axis=0), 1), 3 * (n_items - 1) * law.variance)
    values = np.concatenate([np.zeros(n_items), np.log(met.factors()), [TIE_CENTRE]])
    outcomes = outcomes_of(model, np.zeros(len(pairs.first)), TIE_CENTRE)
    means = np.exp(pairs.sums(values[n_items : 2 * n_items])) * outcomes.probabilities
    return ChanceOfTies(pairs, counts, law, model, 1.0, Point(values, outcomes, means))


def fit_by_chance(
    counts: Floats, law: CellLaw, model: TieModel, n_items: int
) -> tuple[ChanceOfTies, Point]:
    """The likelihood with its last weights, and its maximum; arguments as `start_of`.

    Raises:
        ConvergenceError: no fit was found.
    """
    problem = start_of(counts, law, model, n_items)
    at = problem.weights_at
    for left in reversed(range(ROUNDS)):
        problem = replace(problem, weights_at=at)
        at = problem.solve(at, EARLY if left else LATE)
        if left > ROUNDS // 2:
            known = problem.known_of_scores(at)
            problem = replace(problem, spread=likeliest_spread(known, at.scores, problem.spread))
    return problem, at


@dataclass
class ChanceEvidence:
    """Evidence of noisy counts near any scores, with exposures and ties fitted at them.

    A call starts where the one before ended.

    Attributes:
        problem: from `start_of`.
    """

    problem: ChanceOfTies

    def __call__(self, scores: Floats) -> Evidence:
        """Information and pull."""
        n, at = len(scores), self.problem.weights_at
        at = self.problem.point(np.concatenate([scores, at.values[n:]]))
        for _ in range(ROUNDS // 2):
            self.problem = replace(self.problem, weights_at=at, hold=True)
            at = self.problem.solve(at, EARLY)
        self.problem = replace(self.problem, weights_at=at)
        _, gradient = self.problem.loss_and_gradient(at)
        return Evidence(self.problem.known_of_scores(at), gradient[:n])


LAPLACE_KURTOSIS = 4.0  # kurtosis of a sum of three draws
LEAST_EQUALS = 1e-6  # share of ties, between which and 1 less that t is taken


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedTies:
    """Items ranked by noisy counts of three outcomes.

    Attributes:
        estimate: scores, intervals, ranks.
        tie: share of ties between equals.
        by_chance: whether the counts fit a design in which partners meet by chance.
        n_pairs: pairs of items.
        n_left_out: pairs that the fit did not use, since their totals are too near their noise.
        hidden: whether the totals show neither which pairs met nor that chance decided it, so that
            every interval is open.
    """

    estimate: Estimate
    tie: TieStrength
    by_chance: bool
    n_pairs: int
    n_left_out: int
    hidden: bool = False


def rank_noisy_ties(
    counts: TieCounts, law: NoiseLaw, model: TieModel, *, chance: bool = False
) -> RankedTies:
    """Rank items by noisy counts, in the way that suits their design.

    Args:
        counts: noisy counts of at least 2 items.
        law: law of the noise in one of them.
        model: model of ties.
        chance: whether the operator states that chance decided which items met; otherwise the
            counts must show that, or which pairs met, or every interval is open.

    Raises:
        ValueError: the counts are confidential, or of fewer than 2 items.
        ConvergenceError: no fit was found.
    """
    if counts.confidential:
        raise ValueError("counts are confidential: only released counts may be fitted here")
    require_fittable(counts.n_items, 1.0)
    cells = counts.of_pairs()
    found = _by_chance(cells, law, model, counts.n_items)
    if found is None:
        objective = by_pairs(cells, law.variance, model, counts.n_items)
        found = _ranked_by_pairs(objective, objective.solve())
    if chance or law.scale == 0 or _shows_who_met(cells, law, counts.n_items):
        return found
    return replace(found, estimate=nothing_learned(found.estimate.scores), hidden=True)


def _shows_who_met(cells: Floats, law: NoiseLaw, n_items: int) -> bool:
    """Whether noisy counts show which pairs met, or that chance decided it."""
    totals, noise = np.zeros((n_items, n_items)), 3 * law.variance
    totals[np.triu_indices(n_items, 1)] = cells.sum(axis=0)
    totals += totals.T
    if shows_schedule(totals, noise):
        return True
    design = Exposures(totals.sum(axis=1), (n_items - 1) * noise).design()
    return confirms_chance(totals, design, noise, _kurtosis(law))


def _kurtosis(law: NoiseLaw) -> float:
    return LAPLACE_KURTOSIS if law.kind is NoiseKind.LAPLACE else NORMAL_KURTOSIS


def evidence_of_ties(
    counts: TieCounts, law: NoiseLaw, model: TieModel, *, by_chance: bool, equals: float
) -> EvidenceAt:
    """Return noisy counts' evidence of one group near any scores, as the whole was ranked.

    Where pairs met by chance, the group's ties are its own; else they are the whole's.

    Args:
        counts: noisy counts of the group.
        law: law of the noise in one of them.
        model: model of ties.
        by_chance: whether pairs met by chance.
        equals: share of ties between equals in the whole.
    """
    cells = counts.of_pairs()
    if by_chance:
        return ChanceEvidence(start_of(cells, CellLaw(law), model, counts.n_items))
    objective = by_pairs(cells, law.variance, model, counts.n_items)
    tie = float(logit(np.clip(equals, LEAST_EQUALS, 1 - LEAST_EQUALS)))

    def at(scores: Floats) -> Evidence:
        return objective.evidence(scores, tie)

    return at


def _by_chance(cells: Floats, law: NoiseLaw, model: TieModel, n_items: int) -> RankedTies | None:
    """Rank by the likelihood of a design of chance; None for another design or without noise."""
    if law.scale == 0:
        return None
    try:
        problem, at = fit_by_chance(cells, CellLaw(law), model, n_items)
    except ConvergenceError:  # the noise is spent: the other fit is worth more than none
        return None
    pairs = problem.pairs
    totals, meetings = pairs.matrix(cells.sum(axis=0)), pairs.matrix(at.means.sum(axis=0))
    if met_otherwise(totals, meetings, 3 * law.variance, _kurtosis(law)):
        return None
    return _ranked_by_chance(problem, at)


def _ranked_by_chance(problem: ChanceOfTies, at: Point) -> RankedTies:
    def moments_at(scores: Floats) -> tuple[Floats, Floats]:
        values = np.concatenate([scores, at.values[len(scores) :]])
        there = problem.lowered(problem.point(values))
        known = problem.known_of_scores(there)
        return known, known

    _, gradient = problem.loss_and_gradient(at)
    found = sandwich(at.scores - at.scores.mean(), problem.spread**-2, moments_at)
    lowered = problem.lowered(at)
    more = problem.few_cells(lowered)
    covariance = found.covariance * np.sqrt(np.multiply.outer(more[:-1], more[:-1]))
    estimate = estimate_from(replace(found, covariance=covariance))
    n = problem.pairs.n_items
    _, stiff = problem.penalty(at)
    stiff[-1] = 0
    known = float(known_of(problem.information(lowered) + np.diag(stiff), slice(2 * n, None))[0, 0])
    variance = float(more[-1]) / known if known > 0 else np.inf
    return RankedTies(
        estimate=estimate,
        tie=strength_of(at.tie, float(gradient[-1]), variance),
        by_chance=True,
        n_pairs=len(problem.pairs.first),
        n_left_out=0,
    )


def _ranked_by_pairs(objective: TiesByPairs, values: Floats) -> RankedTies:
    tie = float(values[-1])

    def moments_at(scores: Floats) -> tuple[Floats, Floats]:
        curvature, chance, noise = objective.of_scores(np.append(scores, tie))
        return curvature, chance + noise

    _, gradient = objective.loss_and_gradient(values)
    variance = objective.tie_variance(values)
    scores = values[:-1] - values[:-1].mean()
    estimate = estimate_from(sandwich(scores, 2 * objective.ridge, moments_at))
    _, chance, noise = objective.of_scores(values)
    by_noise, by_chance = np.diagonal(noise), np.diagonal(chance)
    both = by_noise + by_chance
    share = np.divide(by_noise, both, out=np.zeros(len(both)), where=both > 0)
    return RankedTies(
        estimate=replace(estimate, noise_share=share),
        tie=strength_of(tie, float(gradient[-1]), variance),
        by_chance=False,
        n_pairs=len(objective.totals),
        n_left_out=int((objective.used.kept == 0).sum()),
    )
